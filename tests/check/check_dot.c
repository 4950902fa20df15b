/* check_dot.c - products by integers: the definition's bits, whatever the set and the split.
 *
 * Rows: normals of several sizes, zeros, blocks with one large value, subnormals, infinities and NaN.
 * Weights: random blocks whose numbers are finite.
 */
#include "tests/check/check.h"

#include <math.h>
#include <string.h>

typedef struct shape {
    size_t rows, cols, k, y_stride, w_stride;
} shape;

static shape any_shape(ph_dtype t, unsigned trial) {
    size_t block = ph_dtype_block(t) < 32 ? 32 : ph_dtype_block(t), bytes = 0;
    shape  s = {ck_below(8) ? ck_below(9) : ck_below(40), ck_below(70), 0, 0, 0};
    if (trial < 4) s.rows = 1;
    s.k = block * (1 + ck_below(block > 32 ? 3 : 12));
    if (trial % 8 == 6) { /* what is worth a set's form for many rows, in several blocks of all three */
        s.rows = 12 + ck_below(40), s.cols = 56 + ck_below(100);
        s.k = block * (1 + ck_below(block > 32 ? 6 : 40));
    }
    if (trial == 22) s.rows = 137 + ck_below(16), s.k = 1024; /* more rows than go together */
    if (trial == 5 || trial == 14) s.k = 0;
    ph_dtype_row_bytes(t, (int64_t)s.k, &bytes, NULL);
    s.y_stride = s.cols + ck_below(3), s.w_stride = bytes + ck_below(4);
    return s;
}

static size_t span(size_t rows, size_t stride, size_t last) {
    return rows ? (rows - 1) * stride + last : 0;
}

static void any_rows(float *x, size_t n, unsigned trial) {
    static const float sizes[] = {1, 1e-3f, 60, 1e-30f, 1e30f};
    ck_normals(x, n, sizes[trial % 5]);
    for (size_t i = 0; i < n; i++) {
        if (trial % 4 == 1 && ck_below(16) == 0) x[i] *= 100;
        if (trial % 4 == 2 && ck_below(2)) x[i] = 0;
        if (trial % 8 == 7 && ck_below(97) == 0) x[i] = ck_any();
    }
}

static void any_blocks(ph_dtype t, uint8_t *w, size_t bytes) {
    const ph_dtype_def *def = ph_dtype_get(t);
    size_t              n = ph_dtype_block(t), size = ph_dtype_bytes(t), i;
    float               v[256];
    for (size_t b = 0; b < bytes; b += size) do { /* until all its numbers are finite */
            for (i = 0; i < size; i++) w[b + i] = (uint8_t)ck_below(256);
            def->unpack(v, &w[b], n);
            for (i = 0; i < n && isfinite(v[i]); i++) {}
        } while (i < n);
}

/* How many planes rows have in this trial. */
static int planes_of(unsigned trial) {
    return trial % 3 == 2 ? 1 : 2;
}

static ph_qrows any_place(size_t rows, size_t k, int planes, size_t block) {
    return ph_qrows_in(ck_buffer(ph_qrows_bytes(rows, k, planes, block)), rows, k, planes, block);
}

static int same_rows(const ph_kernels *ref, const ph_kernels *opt, const float *x, size_t rows, size_t k,
                     int planes, size_t block, ph_qrows *out) {
    ph_qrows     want = any_place(rows, k, planes, block);
    const size_t n = block ? rows * (k / block) : 0;
    *out = any_place(rows, k, planes, block);
    ref->qrows_of(&want, x, k, rows);
    opt->qrows_of(out, x, k, rows);
    return ck_same(out->hi, want.hi, rows * k, "hi") &&
           (planes == 1 || ck_same(out->lo, want.lo, rows * k, "lo")) &&
           ck_same_floats(out->d, want.d, n, "d") && ck_same(out->s, want.s, 2 * n * sizeof *want.s, "s");
}

int check_qrows_of(const ph_kernels *ref, const ph_kernels *opt) {
    for (unsigned trial = 0; trial < 160; trial++, ck_free_all()) {
        size_t   rows = ck_below(5), k = 32 * ck_below(9);
        float   *x = ck_buffer(rows * k * sizeof *x);
        ph_qrows got;
        any_rows(x, rows * k, trial);
        if (!same_rows(ref, opt, x, rows, k, planes_of(trial), trial % 2 ? 32 : k, &got)) return 0;
    }
    return 1;
}

static int same_in_pieces(ph_dot_fn *fn, shape s, const ph_qrows *x, const uint8_t *w, const float *whole,
                          void *scratch) {
    float *again = ck_buffer(span(s.rows, s.y_stride, s.cols) * sizeof *again);
    for (size_t r = 0, nr = 0; r < s.rows; r += nr) {
        nr = 1 + ck_below(5);
        if (nr > s.rows - r) nr = s.rows - r;
        ph_qrows part = ph_qrows_from(x, r);
        for (size_t c = 0, nc = 0; c < s.cols; c += nc) {
            nc = 1 + ck_below((unsigned)(s.cols - c));
            fn(&again[r * s.y_stride + c], s.y_stride, &part, &w[c * s.w_stride], s.w_stride, nr, nc,
               scratch);
        }
    }
    for (size_t r = 0; r < s.rows; r++)
        if (!ck_same_floats(&again[r * s.y_stride], &whole[r * s.y_stride], s.cols, "y in pieces")) return 0;
    return 1;
}

/* Scratch is 64-byte aligned, so it cannot end flush against a page unless its size says so. */
static void *scratch_of(size_t k) {
    size_t         bytes = (PH_DOT_SCRATCH(k) + 63) / 64 * 64;
    unsigned char *p = ck_buffer(bytes + 64);
    return p + (64 - (uintptr_t)p % 64) % 64;
}

static int one_trial(ph_dtype t, const ph_kernels *ref, const ph_kernels *opt, ph_dot_fn *plain,
                     ph_dot_fn *fn, unsigned trial) {
    shape  s = any_shape(t, trial);
    size_t bytes = 0, n = span(s.rows, s.y_stride, s.cols);
    float *x = ck_buffer(s.rows * s.k * sizeof *x), *want = ck_buffer(n * sizeof *want),
          *got = ck_buffer(n * sizeof *got);
    uint8_t *w =
        ck_buffer(span(s.cols, s.w_stride, (ph_dtype_row_bytes(t, (int64_t)s.k, &bytes, NULL), bytes)));
    void    *scratch = scratch_of(s.k);
    ph_qrows q;
    any_rows(x, s.rows * s.k, trial);
    for (size_t c = 0; c < s.cols; c++) any_blocks(t, &w[c * s.w_stride], bytes);
    memset(want, 0x5a, n * sizeof *want);
    memset(got, 0x5a, n * sizeof *got);
    if (!same_rows(ref, opt, x, s.rows, s.k, planes_of(trial), ph_dot_block(t, s.k), &q)) return 0;
    plain(want, s.y_stride, &q, w, s.w_stride, s.rows, s.cols, scratch);
    fn(got, s.y_stride, &q, w, s.w_stride, s.rows, s.cols, scratch);
    return ck_same_floats(got, want, n, "y") && same_in_pieces(fn, s, &q, w, got, scratch);
}

/* As deep as rows may be, every product of the largest size: sums of 32 bits must hold. */
static int deepest(const ph_kernels *ref, const ph_kernels *opt) {
    enum { ROWS = 33, COLS = 33, K = PH_QROW_MAX };
    for (int planes = 1; planes <= 2; planes++, ck_free_all()) {
        float   *x = ck_buffer(sizeof *x * ROWS * K), *y[3];
        int8_t  *w = ck_buffer(COLS * K);
        void    *scratch = scratch_of(K);
        ph_qrows q;
        for (size_t i = 0; i < 3; i++) y[i] = ck_buffer(sizeof **y * ROWS * COLS);
        for (size_t i = 0; i < ROWS * K; i++) /* 32384 = 256 * 127 - 128: both planes at their ends */
            x[i] = (i / K % 2 ? -1.0f : 1.0f) * (i % K ? 32384.0f : 32512.0f);
        for (size_t i = 0; i < COLS * K; i++) w[i] = i / K % 2 ? 127 : -128;
        if (!same_rows(ref, opt, x, ROWS, K, planes, K, &q)) return 0;
        ref->dot_I8(y[0], COLS, &q, w, K, ROWS, COLS, scratch);
        opt->dot_I8(y[1], COLS, &q, w, K, ROWS, COLS, scratch);
        opt->dot_I8(y[2], COLS, &q, w, K, 1, COLS, scratch);
        if (!ck_same_floats(y[1], y[0], ROWS * COLS, "y of the deepest rows") ||
            !ck_same_floats(y[2], y[0], COLS, "y of one of the deepest rows"))
            return 0;
    }
    return 1;
}

static ck_work bench(ph_dtype t, const ph_kernels *k, ph_dot_fn *fn, int many, int planes) {
    enum { K = 2048, COLS = 2048 };
    size_t          rows = many ? 96 : 1, bytes = 0;
    static float   *y;
    static void    *memory, *scratch;
    static uint8_t *w;
    ph_dtype_row_bytes(t, K, &bytes, NULL);
    if (!y) {
        y = ck_bench_floats(96 * COLS);
        memory = ck_buffer(ph_qrows_bytes(96, K, 2, 32) + 64);
        scratch = scratch_of(K);
        w = ck_buffer((size_t)COLS * 34 * K / 32);
    }
    static int filled = -1;
    ph_qrows   x =
        ph_qrows_in((char *)memory + (64 - (uintptr_t)memory % 64) % 64, rows, K, planes, ph_dot_block(t, K));
    if (filled != ((int)t * 2 + many) * 2 + planes) {
        k->qrows_of(&x, ck_bench_floats(96 * K), K, rows);
        for (size_t i = 0; i < COLS * bytes; i++) w[i] = (uint8_t)(i * 37 % 101);
        filled = ((int)t * 2 + many) * 2 + planes;
    }
    fn(y, COLS, &x, w, bytes, rows, COLS, scratch);
    return (ck_work){.bytes = (double)(COLS * bytes), .flops = 2.0 * (double)rows * K * COLS};
}

#define DOT(T)                                                                                               \
    int check_dot_##T(const ph_kernels *ref, const ph_kernels *opt) {                                        \
        for (unsigned trial = 0; trial < 120; trial++, ck_free_all())                                        \
            if (!one_trial(PH_##T, ref, opt, ref->dot_##T, opt->dot_##T, trial)) return 0;                   \
        return PH_##T != PH_I8 || deepest(ref, opt);                                                         \
    }                                                                                                        \
    ck_work bench_dot_##T(const ph_kernels *k, int many) {                                                   \
        return bench(PH_##T, k, k->dot_##T, many, PH_##T == PH_I8 ? 1 : 2);                                  \
    }
DOT(I8)
DOT(Q8_0)
DOT(Q4_0)
DOT(Q4_1)
DOT(Q4_K)
DOT(Q6_K)

ck_work bench_qrows_of(const ph_kernels *k, int many) {
    enum { K = 2048 };
    static void *memory;
    size_t       rows = many ? 96 : 1;
    if (!memory) memory = ck_buffer(ph_qrows_bytes(96, K, 2, 32) + 64);
    ph_qrows x = ph_qrows_in((char *)memory + (64 - (uintptr_t)memory % 64) % 64, rows, K, 2, 32);
    k->qrows_of(&x, ck_bench_floats(96 * K), K, rows);
    return (ck_work){.bytes = (double)(rows * K * 4)};
}
