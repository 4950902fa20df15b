/* check_norm.c - every length 1 .. 257, so that every tail is used; rows too large to square in
 * float, tiny, far from zero, constant; infinities and NaN; rows one by one. */
#include "tests/check/check.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct norm_case {
    size_t rows, n;
    float *x, *g, *b, *want, *got, *again;
} norm_case;

static norm_case any_case(unsigned trial) {
    static const float size[] = {1, 8, 1e18f, 1e25f, 1e-12f, 1e-30f}, off[] = {0, 0, 1, 100};
    norm_case c = {ck_below(4), trial < 258 ? trial + (trial == 0) : 1 + ck_below(3000), 0, 0, 0, 0, 0, 0};
    size_t    bytes = c.rows * c.n * sizeof(float);
    float     by = size[trial % 6], mean = off[ck_below(4)];
    c.x = ck_buffer(bytes), c.want = ck_buffer(bytes), c.got = ck_buffer(bytes), c.again = ck_buffer(bytes);
    c.g = ck_buffer(c.n * sizeof(float)), c.b = ck_buffer(c.n * sizeof(float));
    for (size_t i = 0; i < c.rows * c.n; i++) c.x[i] = by * (ck_normal() + mean);
    if (trial % 11 == 10)
        for (size_t i = 0; i < c.rows * c.n; i++) c.x[i] = by * mean;
    if (trial % 7 == 6 && c.rows) c.x[ck_below((unsigned)(c.rows * c.n))] = trial & 1 ? NAN : -INFINITY;
    ck_normals(c.g, c.n, 1), ck_normals(c.b, c.n, 1);
    return c;
}

/* Error allowed at row r, element i.  The last part is the rounding of the sums in double, which
 * shows only where a row is next to constant. */
static double allowed(const norm_case *c, size_t r, size_t i, float g, float b, float eps, int is_centred) {
    const float *x = &c->x[r * c->n];
    double       sum = 0, square = 0, most = 0, n = (double)c->n;
    for (size_t j = 0; j < c->n; j++) sum += (double)x[j], most = fmax(most, fabs((double)x[j]));
    double mean = is_centred ? sum / n : 0;
    for (size_t j = 0; j < c->n; j++) square += ((double)x[j] - mean) * ((double)x[j] - mean);
    double inv = 1 / sqrt(square / n + (double)eps), y = ((double)x[i] - mean) * inv;
    double bound = 8 * (double)FLT_EPSILON * (fabs(y * (double)g) + fabs((double)b)) +
                   2 * n * DBL_EPSILON * most * inv * fabs((double)g) * is_centred;
    return isfinite(bound) ? bound : 0;
}

int check_rmsnorm(const ph_kernels *ref, const ph_kernels *opt) {
    for (unsigned trial = 0; trial < 300; trial++, ck_free_all()) {
        norm_case c = any_case(trial);
        float     eps = trial & 1 ? 1e-6f : 1e-3f, more = trial & 2 ? 1.0f : 0.0f;
        ref->rmsnorm(c.want, c.x, c.g, c.rows, c.n, eps, more);
        opt->rmsnorm(c.got, c.x, c.g, c.rows, c.n, eps, more);
        for (size_t r = 0; r < c.rows; r++) {
            for (size_t i = 0; i < c.n; i += 1 + i / 40)
                if (!ck_close(c.got[r * c.n + i], c.want[r * c.n + i],
                              allowed(&c, r, i, fabsf(c.g[i]) + more, 0, eps, 0), "y", r * c.n + i))
                    return 0;
            opt->rmsnorm(&c.again[r * c.n], &c.x[r * c.n], c.g, 1, c.n, eps, more);
        }
        if (!ck_same_floats(c.again, c.got, c.rows * c.n, "y row by row")) return 0;
    }
    return 1;
}

int check_layernorm(const ph_kernels *ref, const ph_kernels *opt) {
    for (unsigned trial = 0; trial < 300; trial++, ck_free_all()) {
        norm_case c = any_case(trial);
        float     eps = trial & 1 ? 1e-5f : 1e-3f, *b = trial % 3 ? c.b : NULL;
        ref->layernorm(c.want, c.x, c.g, b, c.rows, c.n, eps);
        opt->layernorm(c.got, c.x, c.g, b, c.rows, c.n, eps);
        for (size_t r = 0; r < c.rows; r++) {
            for (size_t i = 0; i < c.n; i += 1 + i / 40)
                if (!ck_close(c.got[r * c.n + i], c.want[r * c.n + i],
                              allowed(&c, r, i, c.g[i], b ? b[i] : 0, eps, 1), "y", r * c.n + i))
                    return 0;
            opt->layernorm(&c.again[r * c.n], &c.x[r * c.n], c.g, b, 1, c.n, eps);
        }
        if (!ck_same_floats(c.again, c.got, c.rows * c.n, "y row by row")) return 0;
    }
    return 1;
}

/* Scores as attention and samplers see them: close, far apart, masked in part or whole, NaN, +inf. */
static void any_scores(float *x, size_t n, unsigned trial) {
    ck_normals(x, n, trial & 1 ? 1.0f : 60.0f);
    for (size_t i = 0; i < n; i++)
        if (trial % 5 == 1 && ck_below(3))
            x[i] = -INFINITY;
        else if (trial % 5 == 2)
            x[i] = -INFINITY;
        else if (trial % 5 == 4)
            x[i] *= 1e30f;
    if (n && trial % 9 == 8) x[ck_below((unsigned)n)] = trial & 2 ? NAN : INFINITY;
}

int check_softmax(const ph_kernels *ref, const ph_kernels *opt) {
    for (unsigned trial = 0; trial < 600; trial++, ck_free_all()) {
        size_t rows = 1 + ck_below(3), n = trial < 140 ? trial : ck_below(2000),
               bytes = rows * n * sizeof(float);
        float *x = ck_buffer(bytes), *want = ck_buffer(bytes), *got = ck_buffer(bytes);
        for (size_t r = 0; r < rows; r++) any_scores(&x[r * n], n, trial + (unsigned)r);
        ref->softmax(want, x, rows, n);
        opt->softmax(got, x, rows, n);
        for (size_t r = 0; r < rows; r++) {
            float most = -INFINITY;
            for (size_t i = 0; i < n; i++) most = fmaxf(most, x[r * n + i]);
            for (size_t i = 0; i < n; i++) {
                size_t at = r * n + i;
                double below = fmin((double)most - (double)x[at], 1e4);
                if (!ck_close(got[at], want[at], 2 * (double)FLT_EPSILON * (4 + below) * (double)want[at],
                              "y", at))
                    return 0;
            }
            opt->softmax(&x[r * n], &x[r * n], 1, n);
        }
        if (!ck_same_floats(x, got, rows * n, "y in place, row by row")) return 0;
    }
    return 1;
}

int check_gate(const ph_kernels *ref, const ph_kernels *opt) {
    for (unsigned trial = 0; trial < 600; trial++, ck_free_all()) {
        size_t   rows = ck_below(70), n = 1 + (trial < 300 ? ck_below(6) : ck_below(40));
        float   *x = ck_buffer(rows * n * sizeof *x), *bias = trial % 3 ? ck_buffer(n * sizeof *bias) : NULL;
        float   *want = ck_buffer(rows * sizeof *want), *got = ck_buffer(rows * sizeof *got);
        float   *again = ck_buffer(rows * sizeof *again);
        int32_t *pick = ck_buffer(rows * sizeof *pick);
        for (size_t r = 0; r < rows; r++) {
            any_scores(&x[r * n], n, trial + (unsigned)r);
            pick[r] = (int32_t)ck_below((unsigned)n);
        }
        if (bias) ck_normals(bias, n, 3);
        ref->gate(want, x, bias, pick, rows, n);
        opt->gate(got, x, bias, pick, rows, n);
        for (size_t r = 0; r < rows; r++) {
            double most = 0;
            for (size_t i = 0; i < n; i++) {
                double s = fabs((double)x[r * n + i] - (bias ? (double)bias[i] : 0));
                if (isfinite(s)) most = fmax(most, s);
            }
            double bound = 4 * (double)FLT_EPSILON * (4 + (double)n + fmin(most, 1e6)) * (double)want[r];
            if (!ck_close(got[r], want[r], bound, "row", r)) return 0;
        }
        for (size_t r = 0, some; r < rows; r += some) {
            some = 1 + ck_below((unsigned)(rows - r));
            opt->gate(&again[r], &x[r * n], bias, &pick[r], some, n);
        }
        if (!ck_same_floats(again, got, rows, "y in pieces")) return 0;
    }
    return 1;
}

enum { WIDTH = 2048 };
static ck_work done(size_t rows) {
    return (ck_work){8.0 * (double)(rows * WIDTH), 4.0 * (double)(rows * WIDTH)};
}
ck_work bench_rmsnorm(const ph_kernels *k, int many) {
    size_t rows = many ? 64 : 1;
    float *x = ck_bench_floats(rows * WIDTH), *y = ck_bench_floats(rows * WIDTH), *g = ck_bench_floats(WIDTH);
    k->rmsnorm(y, x, g, rows, WIDTH, 1e-6f, 0);
    return done(rows);
}
ck_work bench_layernorm(const ph_kernels *k, int many) {
    size_t rows = many ? 64 : 1;
    float *x = ck_bench_floats(rows * WIDTH), *y = ck_bench_floats(rows * WIDTH), *g = ck_bench_floats(WIDTH);
    k->layernorm(y, x, g, g, rows, WIDTH, 1e-6f);
    return done(rows);
}
ck_work bench_softmax(const ph_kernels *k, int many) {
    size_t rows = many ? 64 : 1;
    float *x = ck_bench_floats(rows * WIDTH), *y = ck_bench_floats(rows * WIDTH);
    k->softmax(y, x, rows, WIDTH);
    return done(rows);
}
ck_work bench_gate(const ph_kernels *k, int many) {
    enum { GATES = 4, ROWS_MAX = 512 };
    static int32_t pick[ROWS_MAX];
    size_t         rows = many ? ROWS_MAX : 1;
    float         *x = ck_bench_floats(rows * GATES), *y = ck_bench_floats(rows);
    for (size_t r = 0; r < rows; r++) pick[r] = (int32_t)(r % GATES);
    k->gate(y, x, NULL, pick, rows, GATES);
    return (ck_work){4.0 * (double)(rows * (GATES + 2)), 4.0 * (double)(rows * GATES)};
}
