/* check_linear.c - the products, one check for all stored types.
 *
 * Shapes: none, one, odd and more rows and columns than any tile; k around every vector and
 * chunk border; strides wider than the rows; weights at any byte.  Values: random blocks with
 * every scale the format can say, zeros, one-hot rows (which show a weight exactly), infinities
 * and NaN.  What lies between the rows of y must stay as it was.
 */
#include "tests/check/check.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct shape {
    size_t rows, cols, k, x_stride, y_stride, w_stride;
} shape;

typedef struct operands {
    float   *x, *scratch, *want, *got;
    uint8_t *w;
} operands;

static shape any_shape(ph_dtype t, unsigned trial) {
    static const unsigned at_borders[] = {1,  2,  7,  8,   9,   15,  16,  17,   31,
                                          32, 33, 63, 511, 512, 513, 530, 1024, 1030};
    size_t                block = ph_dtype_block(t), bytes = 0;
    shape                 s = {ck_below(8) ? ck_below(9) : ck_below(64), ck_below(34), 0, 0, 0, 0};
    if (trial < 4) s.rows = 1;
    if (trial == 4) s.rows = 53;
    if (trial == 6) s.rows = 128 + ck_below(9);
    if (trial == 10) s.rows = 257 + ck_below(9);
    if (t == PH_F32 && trial == 8) s.rows = 50, s.cols = 1 + ck_below(3); /* of long rows few go together */
    if (t == PH_F32 && trial == 9) s.rows = 3, s.cols = 1;
    s.k =
        block > 1 ? block * (1 + ck_below(trial % 4 ? 3 : 1600 / (unsigned)block)) : at_borders[ck_below(18)];
    if (trial == 5) s.k = 0;
    if (trial == 6 || trial == 11) s.k = 1024;
    if (t == PH_F32 && trial == 8) s.k = 22000;
    if (t == PH_F32 && trial == 9) s.k = 600000;
    ph_dtype_row_bytes(t, (int64_t)s.k, &bytes, NULL);
    s.x_stride = s.k + ck_below(3), s.y_stride = s.cols + ck_below(3), s.w_stride = bytes + ck_below(4);
    if (trial == 6) s.w_stride = bytes; /* of floats: columns that begin in the same places of a cache */
    return s;
}

/* Bytes from the first to the end of the last row. */
static size_t span(size_t rows, size_t stride, size_t last) {
    return rows ? (rows - 1) * stride + last : 0;
}

/* One stored block of finite numbers: random bits for block types, random numbers for plain ones. */
static void any_block(ph_dtype t, uint8_t *out, float size) {
    const ph_dtype_def *def = ph_dtype_get(t);
    size_t              n = ph_dtype_block(t), bytes = ph_dtype_bytes(t), i = 0;
    float               v[256];
    if (n == 1) {
        v[0] = size * ck_normal();
        def->pack(out, v, 1);
        return;
    }
    while (i < n) { /* until all its numbers are finite */
        for (i = 0; i < bytes; i++) out[i] = (uint8_t)ck_below(256);
        def->unpack(v, out, n);
        for (i = 0; i < n && isfinite(v[i]); i++) {}
    }
}

static operands any_operands(ph_dtype t, shape s, float size) {
    size_t   bytes = 0, block = ph_dtype_bytes(t);
    operands o;
    ph_dtype_row_bytes(t, (int64_t)s.k, &bytes, NULL);
    o.x = ck_buffer(span(s.rows, s.x_stride, s.k) * sizeof(float));
    o.w = ck_buffer(span(s.cols, s.w_stride, bytes));
    o.want = ck_buffer(span(s.rows, s.y_stride, s.cols) * sizeof(float));
    o.got = ck_buffer(span(s.rows, s.y_stride, s.cols) * sizeof(float));
    o.scratch = ck_buffer(PH_LINEAR_SCRATCH(s.k) * sizeof(float));
    ck_normals(o.x, span(s.rows, s.x_stride, s.k), 1.0f / size);
    memset(o.want, 0x5a, span(s.rows, s.y_stride, s.cols) * sizeof(float));
    memset(o.got, 0x5a, span(s.rows, s.y_stride, s.cols) * sizeof(float));
    for (size_t c = 0; c < s.cols; c++)
        for (size_t b = 0; b < bytes; b += block) any_block(t, &o.w[c * s.w_stride + b], size);
    return o;
}

/* All of y against ref, in the documented bound; row [k] is for one unpacked column. */
static int close_to_ref(ph_dtype t, shape s, const operands *o, float *row) {
    for (size_t c = 0; c < s.cols; c++) {
        ph_dtype_get(t)->unpack(row, &o->w[c * s.w_stride], s.k);
        for (size_t r = 0; r < s.rows; r++) {
            double terms = 0;
            for (size_t i = 0; i < s.k; i++) terms += fabs((double)o->x[r * s.x_stride + i] * (double)row[i]);
            size_t at = r * s.y_stride + c;
            if (!ck_close(o->got[at], o->want[at], 2.0 * (double)s.k * (double)FLT_EPSILON * terms, "y", at))
                return 0;
        }
    }
    for (size_t r = 0; r + 1 < s.rows; r++)
        for (size_t c = s.cols; c < s.y_stride; c++)
            if (!ck_same(&o->got[r * s.y_stride + c], "\x5a\x5a\x5a\x5a", 4, "gap behind a row of y"))
                return 0;
    return 1;
}

/* The same in random rectangles gives the same bits; of floats with scratch what had none, too. */
static int same_in_pieces(ph_linear_fn *fn, shape s, const operands *o, float *again, float *scratch) {
    for (size_t r = 0, nr = 0; r < s.rows; r += nr) {
        nr = ck_below(4) ? 1 + ck_below(5) : s.rows;
        if (nr > s.rows - r) nr = s.rows - r;
        for (size_t c = 0, nc = 0; c < s.cols; c += nc) {
            nc = 1 + ck_below((unsigned)(s.cols - c));
            fn(&again[r * s.y_stride + c], s.y_stride, &o->x[r * s.x_stride], s.x_stride,
               &o->w[c * s.w_stride], s.w_stride, nr, nc, s.k, scratch);
        }
    }
    for (size_t r = 0; r < s.rows; r++)
        if (!ck_same_floats(&again[r * s.y_stride], &o->got[r * s.y_stride], s.cols, "y in pieces")) return 0;
    return 1;
}

static int one_trial(ph_dtype t, ph_linear_fn *ref, ph_linear_fn *opt, unsigned trial) {
    static const float sizes[] = {1, 1, 1e-3f, 60, 1e-6f};
    shape              s = any_shape(t, trial);
    operands           o = any_operands(t, s, sizes[trial % 5]);
    float             *scratch = t == PH_F32 && ck_below(2) ? NULL : o.scratch;
    float *others = t == PH_F32 && scratch ? NULL : o.scratch, *row = ck_buffer((s.k + 1) * sizeof *row);
    float *again = ck_buffer(span(s.rows, s.y_stride, s.cols) * sizeof *again);
    if (trial % 3 == 2 && s.rows && s.k) { /* each row shows one weight, exactly */
        memset(o.x, 0, span(s.rows, s.x_stride, s.k) * sizeof *o.x);
        for (size_t r = 0; r < s.rows; r++) o.x[r * s.x_stride + ck_below((unsigned)s.k)] = 1;
    }
    if (trial % 8 == 7 && s.rows && s.k) {
        const float odd[] = {INFINITY, -INFINITY, NAN, 0x1p-140f, -0.0f};
        o.x[ck_below((unsigned)s.rows) * s.x_stride + ck_below((unsigned)s.k)] = odd[ck_below(5)];
    }
    ref(o.want, s.y_stride, o.x, s.x_stride, o.w, s.w_stride, s.rows, s.cols, s.k, scratch);
    opt(o.got, s.y_stride, o.x, s.x_stride, o.w, s.w_stride, s.rows, s.cols, s.k, scratch);
    if (!close_to_ref(t, s, &o, row)) return 0;
    if (trial % 3 == 2 && trial % 8 != 7)
        for (size_t r = 0; r < s.rows; r++)
            for (size_t c = 0; c < s.cols; c++)
                if (!(o.got[r * s.y_stride + c] == o.want[r * s.y_stride + c]))
                    return ck_fail("weight of column", c);
    return same_in_pieces(opt, s, &o, again, others);
}

static int check(ph_dtype t, ph_linear_fn *ref, ph_linear_fn *opt) {
    for (unsigned trial = 0; trial < 120; trial++, ck_free_all())
        if (!one_trial(t, ref, opt, trial)) return 0;
    return 1;
}

/* One token, and a chunk of a prompt, through a layer of a small model; zero weights stream like others. */
static ck_work bench(ph_dtype t, ph_linear_fn *fn, int many) {
    size_t rows = many ? 96 : 1, cols = many ? 512 : 2048, k = 2048, bytes = 0;
    ph_dtype_row_bytes(t, (int64_t)k, &bytes, NULL);
    float *x = ck_bench_floats(rows * k), *y = ck_bench_floats(rows * cols),
          *w = ck_bench_floats(cols * bytes / 4);
    float *scratch = ck_bench_floats(PH_LINEAR_SCRATCH(k));
    if (t != PH_F32) memset(w, 0x11, many ? 4 : 0);
    fn(y, cols, x, k, w, bytes, rows, cols, k, scratch);
    return (ck_work){(double)(cols * bytes), 2.0 * (double)(rows * cols * k)};
}

#define LINEAR(T)                                                                                            \
    int check_linear_##T(const ph_kernels *ref, const ph_kernels *opt) {                                     \
        return check(PH_##T, ref->linear_##T, opt->linear_##T);                                              \
    }                                                                                                        \
    ck_work bench_linear_##T(const ph_kernels *k, int many) {                                                \
        return bench(PH_##T, k->linear_##T, many);                                                           \
    }
LINEAR(F32)
LINEAR(F16)
LINEAR(BF16)
LINEAR(Q8_0)
LINEAR(Q4_0)
LINEAR(Q4_1)
LINEAR(Q4_K)
LINEAR(Q6_K)
