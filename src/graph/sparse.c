/* sparse.c - block masks, checked and walked, and a block of queries over them.  See sparse.h. */
#include "graph/sparse.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PANEL = PH_ATTEND_KEYS };

static int32_t whole_at(const unsigned char *bytes, int64_t i) { /* files may place them at odd bytes */
    int32_t x;
    memcpy(&x, bytes + (size_t)i * sizeof x, sizeof x);
    return x;
}

/* ---- the mask ---- */

/* No elements: then there may be no bytes either. */
static int is_empty(const ph_shape *s) {
    int is_zero = 0;
    for (int i = 0; i < s->rank; i++) is_zero |= ph_dim_is_fixed(s->dim[i]) && !s->dim[i].mul;
    return is_zero;
}

static ph_rc constant(const ph_graph *g, const ph_node *n, int i, ph_dtype t, int rank, const ph_value **out,
                      ph_err *err) {
    *out = i < n->n_in && n->in[i] >= 0 ? &g->value[n->in[i]] : NULL;
    if (!*out || (*out)->cls != PH_VALUE_CONSTANT || (*out)->storage.form ||
        (!(*out)->storage.plane[0].bytes && !is_empty(&(*out)->shape)))
        return PH_FAIL(err, PH_EUNSUP,
                       "SparseAttention: input %d must be a constant: a mask that is data is dense", i);
    if ((*out)->dtype != t || (*out)->storage.dtype != t || (*out)->shape.rank != rank)
        return PH_FAIL(err, PH_EMISMATCH, "SparseAttention: input %d (%s) must be %s of rank %d", i,
                       (*out)->name, ph_dtype_name(t), rank);
    return PH_OK;
}

static ph_rc take_map(const ph_graph *g, const ph_node *n, ph_blocks *b, ph_err *err) {
    const ph_value *v;
    PH_TRY(constant(g, n, 3, PH_BOOL, 2, &v, err));
    if (v->shape.dim[0].mul != b->rows || v->shape.dim[1].mul != b->cols ||
        v->storage.plane[0].row_stride != (size_t)b->cols)
        return PH_FAIL(err, PH_EMISMATCH,
                       "SparseAttention: a map of [%" PRId64 ", %" PRId64 "] squares, [%" PRId64 ", %" PRId64
                       "] of %" PRId64 " cover the scores",
                       v->shape.dim[0].mul, v->shape.dim[1].mul, b->rows, b->cols, b->block);
    static const unsigned char none[1];
    b->map = v->storage.plane[0].bytes ? v->storage.plane[0].bytes : none; /* NULL says lists */
    for (int64_t i = 0; i < b->rows * b->cols; i++) b->n += b->map[i] != 0;
    return PH_OK;
}

static ph_rc check_row(const ph_blocks *b, int64_t row, ph_err *err) {
    int64_t from = whole_at(b->offsets, row), to = whole_at(b->offsets, row + 1), last = -1;
    if (from < 0 || to < from || to > b->n)
        return PH_FAIL(err, PH_EMISMATCH,
                       "SparseAttention: row %" PRId64 " of squares lists columns %" PRId64 " to %" PRId64
                       " of %" PRId64,
                       row, from, to, b->n);
    for (int64_t i = from; i < to; i++) {
        int64_t column = whole_at(b->columns, i);
        if (column <= last || column >= b->cols)
            return PH_FAIL(err, PH_EMISMATCH,
                           "SparseAttention: row %" PRId64 " of squares lists column %" PRId64
                           " after %" PRId64 "; there are %" PRId64,
                           row, column, last, b->cols);
        last = column;
    }
    return PH_OK;
}

static ph_rc take_lists(const ph_graph *g, const ph_node *n, ph_blocks *b, ph_err *err) {
    const ph_value *columns, *offsets;
    PH_TRY(constant(g, n, 3, PH_I32, 1, &columns, err));
    PH_TRY(constant(g, n, 4, PH_I32, 1, &offsets, err));
    b->columns = columns->storage.plane[0].bytes;
    b->offsets = offsets->storage.plane[0].bytes;
    b->n = columns->shape.dim[0].mul;
    if (offsets->shape.dim[0].mul != b->rows + 1 || whole_at(b->offsets, 0) ||
        whole_at(b->offsets, b->rows) != b->n)
        return PH_FAIL(err, PH_EMISMATCH,
                       "SparseAttention: %" PRId64 " offsets for %" PRId64
                       " rows of squares; they must go from 0 to the %" PRId64 " columns listed",
                       offsets->shape.dim[0].mul, b->rows, b->n);
    for (int64_t r = 0; r < b->rows; r++) PH_TRY(check_row(b, r, err));
    return PH_OK;
}

ph_rc ph_blocks_of(const ph_graph *g, const ph_node *n, int64_t t, int64_t s, ph_blocks *b, ph_err *err) {
    double sparsity = ph_node_float(n, "sparsity", PH_SPARSE_SPARSITY);
    *b = (ph_blocks){.block = ph_node_int(n, "block", PH_SPARSE_BLOCK), .keys = s};
    if (b->block < 1 || b->block > PANEL || !(sparsity >= 0) || sparsity >= 1 || t < 0 || s < 0)
        return PH_FAIL(err, PH_EMISMATCH,
                       "SparseAttention: block %" PRId64 " must be in 1 to %d, sparsity %g in [0, 1)",
                       b->block, PANEL, sparsity);
    b->rows = t / b->block + (t % b->block > 0);
    b->cols = s / b->block + (s % b->block > 0);
    PH_TRY(n->n_in > 4 && n->in[4] >= 0 ? take_lists(g, n, b, err) : take_map(g, n, b, err));
    double all = (double)b->rows * (double)b->cols, hidden = all - (double)b->n;
    if (hidden < sparsity * all - 0.5)
        return PH_FAIL(err, PH_EMISMATCH,
                       "SparseAttention: %g of %g squares are hidden, less than the sparsity %g says", hidden,
                       all, sparsity);
    return PH_OK;
}

int64_t ph_blocks_next(const ph_blocks *b, int64_t row, int64_t *at) {
    if (b->map) {
        const unsigned char *r = b->map + row * b->cols;
        while (*at < b->cols && !r[*at]) ++*at;
        return *at < b->cols ? (*at)++ : -1;
    }
    int64_t i = whole_at(b->offsets, row) + *at;
    if (i >= whole_at(b->offsets, row + 1)) return -1;
    ++*at;
    return whole_at(b->columns, i);
}

/* ---- a block of queries ---- */

size_t ph_sparse_floats(int64_t block, size_t d, size_t dv) {
    size_t n = (size_t)block;
    return PANEL * (ph_whole_lines(d) + ph_whole_lines(dv)) + ph_whole_lines(n * dv) + 4 * ph_whole_lines(n) +
           n * PANEL;
}

/* Up to 64 keys of squares that stand apart, side by side: how many.  They may be read where they are when
 * *first is not -1. */
static size_t next_panel(const ph_blocks *b, int64_t row, int64_t *at, int64_t *column, size_t *n,
                         int64_t *first) {
    size_t most = (size_t)(PANEL / b->block), keys = 0;
    int    is_run = 1;
    for (*n = 0; *n < most; ++*n) {
        int64_t c = ph_blocks_next(b, row, at);
        if (c < 0) break;
        is_run &= !*n || c == column[*n - 1] + 1;
        column[*n] = c;
        keys += (size_t)((c + 1) * b->block <= b->keys ? b->block : b->keys - c * b->block);
    }
    *first = *n && is_run && column[0] * b->block + PANEL <= b->keys ? column[0] * b->block : -1;
    return keys;
}

/* One channel's keys of a square; a full one of eight, the usual, is two loads. */
static void copy_square(float *to, const float *from, size_t n) {
    if (n == PH_SPARSE_BLOCK)
        memcpy(to, from, PH_SPARSE_BLOCK * sizeof *to);
    else
        memcpy(to, from, n * sizeof *to);
}

static void pack(const ph_sparse *a, const int64_t *column, size_t n, const float *kt, const float *v,
                 float *keys, float *values) {
    size_t block = (size_t)a->blocks.block, s = (size_t)a->blocks.keys, to = 0;
    for (size_t i = 0; i < n; i++, to += block) {
        size_t from = (size_t)column[i] * block, some = s - from < block ? s - from : block;
        for (size_t e = 0; e < a->d; e++) copy_square(&keys[e * PANEL + to], &kt[e * s + from], some);
        memcpy(&values[to * a->dv], &v[from * a->dv], some * a->dv * sizeof *v);
    }
}

void ph_sparse_rows(const ph_kernels *k, const ph_sparse *a, const float *q, const float *kt, const float *v,
                    float *y, int64_t row, float *memory) {
    int64_t column[PANEL], at = 0, first;
    size_t  block = (size_t)a->blocks.block, r0 = (size_t)row * block, count, keys;
    size_t  n_q = a->t - r0 < block ? a->t - r0 : block;
    float  *panel = memory, *values = panel + PANEL * ph_whole_lines(a->d),
          *acc = values + PANEL * ph_whole_lines(a->dv);
    float    *m = acc + ph_whole_lines(block * a->dv), *l = m + ph_whole_lines(block);
    int32_t  *lo = (int32_t *)(void *)(l + ph_whole_lines(block)), *hi = lo + ph_whole_lines(block);
    ph_attend t = {.acc = acc,
                   .m = m,
                   .l = l,
                   .lo = lo,
                   .hi = hi,
                   .q = q + r0 * a->d,
                   .q_stride = a->d,
                   .v_stride = a->dv};
    t.n_q = n_q, t.d = a->d, t.dv = a->dv, t.scale = a->scale;
    t.scratch = (float *)(void *)(hi + ph_whole_lines(block));
    for (size_t i = 0; i < n_q; i++) m[i] = -INFINITY, l[i] = 0, lo[i] = 0;
    for (size_t i = 0; i < n_q * a->dv; i++) acc[i] = 0;
    for (size_t i = 0; i < PANEL * a->d; i++)
        panel[i] = 0; /* keys behind the last are read, and meet nothing */
    while ((keys = next_panel(&a->blocks, row, &at, column, &count, &first)) > 0) {
        t.k = first < 0 ? panel : kt + first;
        t.v = first < 0 ? values : v + (size_t)first * a->dv;
        t.k_stride = first < 0 ? PANEL : (size_t)a->blocks.keys;
        if (first < 0) pack(a, column, count, kt, v, panel, values);
        for (size_t i = 0; i < n_q; i++) hi[i] = (int32_t)keys;
        k->attend_F32(&t);
    }
    for (size_t i = 0; i < n_q; i++)
        for (size_t e = 0; e < a->dv; e++)
            y[(r0 + i) * a->dv + e] = l[i] > 0 || isnan(l[i]) ? acc[i * a->dv + e] / l[i] : 0;
}
