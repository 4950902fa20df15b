/* check_move.c - sums, products, rotation, the largest, f16 conversion: bit for bit where one rounding
 * is all there is. */
#include "tests/check/check.h"

#include <float.h>
#include <math.h>
#include <string.h>

static size_t any_size(unsigned trial) {
    return trial < 70 ? trial : ck_below(2000);
}
static float *any_floats(size_t n) {
    float *x = ck_buffer(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = ck_below(2) ? ck_any() : ck_normal();
    return x;
}
typedef void binary(float *y, const float *a, const float *b, size_t n);

static int check_binary(binary *ref, binary *opt) {
    for (unsigned trial = 0; trial < 200; trial++, ck_free_all()) {
        size_t n = any_size(trial);
        float *a = any_floats(n), *b = any_floats(n), *want = ck_buffer(n * sizeof *a),
              *got = ck_buffer(n * sizeof *a);
        ref(want, a, b, n);
        opt(got, a, b, n);
        if (!ck_same_floats(got, want, n, "y")) return 0;
        opt(a, a, b, n);
        if (!ck_same_floats(a, want, n, "y in place of a")) return 0;
    }
    return 1;
}
int check_add(const ph_kernels *ref, const ph_kernels *opt) {
    return check_binary(ref->add, opt->add);
}
int check_mul(const ph_kernels *ref, const ph_kernels *opt) {
    return check_binary(ref->mul, opt->mul);
}

int check_add_row(const ph_kernels *ref, const ph_kernels *opt) {
    for (unsigned trial = 0; trial < 200; trial++, ck_free_all()) {
        size_t rows = ck_below(5), n = any_size(trial);
        float *x = any_floats(rows * n), *b = any_floats(n);
        float *want = ck_buffer(rows * n * sizeof *x), *got = ck_buffer(rows * n * sizeof *x);
        ref->add_row(want, x, b, rows, n);
        opt->add_row(got, x, b, rows, n);
        if (!ck_same_floats(got, want, rows * n, "y")) return 0;
        opt->add_row(x, x, b, rows, n);
        if (!ck_same_floats(x, want, rows * n, "y in place")) return 0;
    }
    return 1;
}

int check_scale(const ph_kernels *ref, const ph_kernels *opt) {
    for (unsigned trial = 0; trial < 200; trial++, ck_free_all()) {
        size_t n = any_size(trial);
        float *x = any_floats(n), a = trial % 3 ? ck_normal() : ck_any();
        float *want = ck_buffer(n * sizeof *x), *got = ck_buffer(n * sizeof *x);
        ref->scale(want, x, a, n);
        opt->scale(got, x, a, n);
        if (!ck_same_floats(got, want, n, "y")) return 0;
        opt->scale(x, x, a, n);
        if (!ck_same_floats(x, want, n, "y in place")) return 0;
    }
    return 1;
}

int check_rope(const ph_kernels *ref, const ph_kernels *opt) {
    for (unsigned trial = 0; trial < 400; trial++, ck_free_all()) {
        size_t heads = ck_below(4), half = trial < 140 ? trial / 2 : ck_below(130),
               d = 2 * half + ck_below(5);
        size_t n = heads * d;
        int    pairs = (int)(trial & 1);
        float *x = ck_buffer(n * sizeof *x), *want = ck_buffer(n * sizeof *x),
              *got = ck_buffer(n * sizeof *x);
        float *again = ck_buffer(n * sizeof *x), *c = ck_buffer(half * sizeof *x),
              *s = ck_buffer(half * sizeof *x);
        ck_normals(x, n, 3);
        for (size_t i = 0; i < half; i++) c[i] = cosf((float)i * 0.7f), s[i] = sinf((float)i * 0.7f);
        memcpy(want, x, n * sizeof *x), memcpy(got, x, n * sizeof *x), memcpy(again, x, n * sizeof *x);
        ref->rope(want, c, s, heads, d, half, pairs);
        opt->rope(got, c, s, heads, d, half, pairs);
        for (size_t i = 0; i < n; i++) {
            size_t e = i % d, at = pairs ? e / 2 : e % (half ? half : 1), is_in = e < 2 * half;
            size_t mate = !is_in ? i : pairs ? i ^ 1 : e < half ? i + half : i - half;
            if (pairs && d % 2 && is_in) mate = i - e + (e ^ 1);
            double terms =
                is_in ? fabs((double)x[i] * (double)c[at]) + fabs((double)x[mate] * (double)s[at]) : 0;
            if (!is_in && !ck_same(&got[i], &x[i], sizeof *x, "beyond the rotated part")) return 0;
            if (!ck_close(got[i], want[i], 2 * (double)FLT_EPSILON * terms, "x", i)) return 0;
        }
        for (size_t h = 0; h < heads; h++) opt->rope(&again[h * d], c, s, 1, d, half, pairs);
        if (!ck_same_floats(again, got, n, "head by head")) return 0;
    }
    return 1;
}

/* The bits of the two apart, elsewhere and in place. */
int check_rmsnorm_rope(const ph_kernels *ref, const ph_kernels *opt) {
    (void)ref;
    for (unsigned trial = 0; trial < 400; trial++, ck_free_all()) {
        size_t heads = ck_below(trial % 4 ? 4 : 40), half = trial < 140 ? trial / 2 : ck_below(150);
        size_t d = 2 * half + ck_below(trial % 3 ? 3 : 70) + (half == 0), n = heads * d;
        int    pairs = (int)(trial & 1);
        float  eps = trial & 2 ? 1e-6f : 1e-3f, more = trial & 4 ? 1.0f : 0.0f;
        float *x = ck_buffer(n * sizeof *x), *want = ck_buffer(n * sizeof *x),
              *got = ck_buffer(n * sizeof *x);
        float *g = ck_buffer(d * sizeof *g), *c = ck_buffer(half * sizeof *c),
              *s = ck_buffer(half * sizeof *s);
        ck_normals(x, n, trial % 5 ? 3.0f : 1e20f), ck_normals(g, d, 1);
        for (size_t i = 0; i < half; i++) c[i] = cosf((float)i * 0.7f), s[i] = sinf((float)i * 0.7f);
        opt->rmsnorm(want, x, g, heads, d, eps, more);
        opt->rope(want, c, s, heads, d, half, pairs);
        opt->rmsnorm_rope(got, x, g, c, s, heads, d, half, pairs, eps, more);
        opt->rmsnorm_rope(x, x, g, c, s, heads, d, half, pairs, eps, more);
        if (!ck_same_floats(got, want, n, "the two apart") || !ck_same_floats(x, want, n, "in place"))
            return 0;
    }
    return 1;
}
int check_argmax(const ph_kernels *ref, const ph_kernels *opt) {
    for (unsigned trial = 0; trial < 1000; trial++, ck_free_all()) {
        size_t n = any_size(trial % 300), want = 99, got = 98;
        float *x = ck_buffer(n * sizeof *x);
        for (size_t i = 0; i < n; i++) /* few different values: ties everywhere */
            switch (trial % 5) {
            case 0:
                x[i] = (float)ck_below(4);
                break;
            case 1:
                x[i] = ck_below(3) ? NAN : (float)ck_below(3) - 2;
                break;
            case 2:
                x[i] = ck_below(2) ? 0.0f : -0.0f;
                break;
            case 3:
                x[i] = ck_below(9) ? -INFINITY : NAN;
                break;
            default:
                x[i] = ck_any();
            }
        ref->argmax(&want, x, n);
        opt->argmax(&got, x, n);
        if (got != want) return ck_fail("largest at", got);
    }
    return 1;
}

static int same_half(uint16_t got, uint16_t want, size_t at) {
    int both_nan = (got & 0x7fff) > 0x7c00 && (want & 0x7fff) > 0x7c00;
    return both_nan || got == want ? 1 : ck_fail("half", at);
}

/* Random bits, and each half's own value and its borders to the next: where ties are. */
static float near_half(const ph_kernels *ref, unsigned i) {
    uint16_t h = (uint16_t)ck_below(65536), next = (uint16_t)(h + 1);
    float    a, b;
    ref->f32_of_f16(&a, &h, 1);
    ref->f32_of_f16(&b, &next, 1);
    if (i % 4 == 0) return ck_any();
    float middle = 0.5f * a + 0.5f * b;
    return i % 4 == 1 ? middle : nextafterf(middle, i % 4 == 2 ? INFINITY : -INFINITY);
}
int check_f16_of(const ph_kernels *ref, const ph_kernels *opt) {
    for (unsigned trial = 0; trial < 400; trial++, ck_free_all()) {
        size_t    n = any_size(trial);
        float    *x = ck_buffer(n * sizeof *x);
        uint16_t *want = ck_buffer(n * sizeof *want), *got = ck_buffer(n * sizeof *got);
        for (size_t i = 0; i < n; i++) x[i] = near_half(ref, (unsigned)i);
        ref->f16_of(want, x, n);
        opt->f16_of(got, x, n);
        for (size_t i = 0; i < n; i++)
            if (!same_half(got[i], want[i], i)) return 0;
    }
    return 1;
}
int check_f32_of_f16(const ph_kernels *ref, const ph_kernels *opt) {
    for (size_t n = 0, first = 0; first < 65536; first += n, n = (n + 1) % 301, ck_free_all()) {
        if (n > 65536 - first) n = 65536 - first;
        uint16_t *x = ck_buffer(n * sizeof *x);
        float    *want = ck_buffer(n * sizeof *want), *got = ck_buffer(n * sizeof *got);
        for (size_t i = 0; i < n; i++) x[i] = (uint16_t)(first + i);
        ref->f32_of_f16(want, x, n);
        opt->f32_of_f16(got, x, n);
        if (!ck_same_floats(got, want, n, "value of half")) return 0;
    }
    return 1;
}

static size_t length(int many) {
    return many ? 65536 : 2048;
}
static ck_work moved(double bytes_each, size_t n) {
    return (ck_work){bytes_each * (double)n, (double)n};
}
ck_work bench_add(const ph_kernels *k, int many) {
    size_t n = length(many);
    float *x = ck_bench_floats(n), *y = ck_bench_floats(n);
    k->add(y, x, x, n);
    return moved(12, n);
}
ck_work bench_mul(const ph_kernels *k, int many) {
    size_t n = length(many);
    float *x = ck_bench_floats(n), *y = ck_bench_floats(n);
    k->mul(y, x, x, n);
    return moved(12, n);
}
ck_work bench_add_row(const ph_kernels *k, int many) {
    size_t n = length(many);
    float *x = ck_bench_floats(n), *y = ck_bench_floats(n);
    k->add_row(y, x, x, n / 512, 512);
    return moved(8, n);
}
ck_work bench_scale(const ph_kernels *k, int many) {
    size_t n = length(many);
    float *x = ck_bench_floats(n), *y = ck_bench_floats(n);
    k->scale(y, x, 0.5f, n);
    return moved(8, n);
}
ck_work bench_rope(const ph_kernels *k, int many) { /* here: which of the two pairings */
    size_t n = length(1);
    float *x = ck_bench_floats(n), *c = ck_bench_floats(64), *s = ck_bench_floats(64);
    for (size_t i = 0; i < 64; i++) c[i] = 0.6f, s[i] = 0.8f; /* a rotation: x keeps its size */
    k->rope(x, c, s, n / 128, 128, 64, many);
    return moved(8, n);
}
ck_work bench_rmsnorm_rope(const ph_kernels *k, int many) { /* here: which of the two pairings */
    size_t n = length(1);
    float *x = ck_bench_floats(n), *y = ck_bench_floats(n), *g = ck_bench_floats(128);
    float *c = ck_bench_floats(64), *s = ck_bench_floats(64);
    k->rmsnorm_rope(y, x, g, c, s, n / 128, 128, 64, many, 1e-6f, 0);
    return moved(8, n);
}
ck_work bench_argmax(const ph_kernels *k, int many) {
    size_t n = length(many), at = 0;
    k->argmax(&at, ck_bench_floats(n), n);
    return moved(4, n);
}
ck_work bench_f16_of(const ph_kernels *k, int many) {
    size_t n = length(many);
    float *x = ck_bench_floats(n), *y = ck_bench_floats(n);
    k->f16_of((uint16_t *)(void *)y, x, n);
    return moved(6, n);
}
ck_work bench_f32_of_f16(const ph_kernels *k, int many) {
    size_t n = length(many);
    float *x = ck_bench_floats(n), *y = ck_bench_floats(n);
    k->f32_of_f16(y, (const uint16_t *)(const void *)x, n);
    return moved(6, n);
}
