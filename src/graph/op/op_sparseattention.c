/* op_sparseattention.c - pinhole.SparseAttention: attention of which a mask hides whole squares, which are
 * not computed.
 *
 *     q [B, H, T, D]   kt [B, H, D, S]   v [B, H, S, Dv]   and the squares that are met, as constants (sparse.h):
 *     map bool [Tb, Sb], or columns i32 [n] and offsets i32 [Tb + 1]
 *     y[b, h, t] = softmax over the keys s of met squares of (scale q[t] . kt[:, s]) v[s]
 *
 * Tb = T / block and Sb = S / block, rounded up.  A query that meets nothing is zero.  Keys come by channel,
 * as the second operand of MatMul has them.
 *
 * Attributes: block (8; 1 to 64), sparsity (0.7, in [0, 1)): of all squares at least this share is hidden, to
 * half a square - a promise that is checked, so that who plans need not count; scale (1 / sqrt D).
 * Errors: PH_EMISMATCH shapes, numbers, lists that cannot be; PH_EUNSUP a mask that is no constant, a symbol
 * for T, S, D or Dv.
 */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"
#include "graph/sparse.h"

#include <math.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_shape *s[3];
    ph_blocks       blocks;
    for (int i = 0; i < 3; i++) {
        PH_TRY(ph_want(g, n, i, PH_F32, 4, err));
        s[i] = &ph_in(g, n, i)->shape;
        if (!ph_dim_same(s[i]->dim[0], s[0]->dim[0]) || !ph_dim_same(s[i]->dim[1], s[0]->dim[1]))
            return ph_disagree(g, s[0], s[i], "SparseAttention wants as many batches and heads", err);
        if (!ph_dim_is_fixed(s[i]->dim[2]) || !ph_dim_is_fixed(s[i]->dim[3]))
            return PH_FAIL(err, PH_EUNSUP,
                           "SparseAttention: the mask is for plain numbers of queries and keys");
    }
    if (!ph_dim_same(s[0]->dim[3], s[1]->dim[2]) || s[0]->dim[3].mul < 1)
        return ph_disagree(g, s[0], s[1], "SparseAttention wants q[.., T, D] and kt[.., D, S]", err);
    if (!ph_dim_same(s[1]->dim[3], s[2]->dim[2]))
        return ph_disagree(g, s[1], s[2], "SparseAttention wants kt[.., D, S] and v[.., S, Dv]", err);
    if (!isfinite(ph_node_float(n, "scale", 1)))
        return PH_FAIL(err, PH_EMISMATCH, "SparseAttention: scale is %g", ph_node_float(n, "scale", 1));
    PH_TRY(ph_blocks_of(g, n, s[0]->dim[2].mul, s[1]->dim[3].mul, &blocks, err));
    ph_shape y = *s[0];
    y.dim[3] = s[2]->dim[3];
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *q, *kt, *v;
    float       *memory;
    int64_t      d = in[0].dim[3], s = in[1].dim[3];
    ph_sparse    a = {.t = (size_t)in[0].dim[2], .d = (size_t)d, .dv = (size_t)out->dim[3]};
    PH_TRY(ph_blocks_of(g, n, in[0].dim[2], s, &a.blocks, err));
    a.scale = (float)ph_node_float(n, "scale", 1 / sqrt((double)d));
    PH_TRY(ph_floats(&q, &in[0], e, err));
    PH_TRY(ph_floats(&kt, &in[1], e, err));
    PH_TRY(ph_floats(&v, &in[2], e, err));
    PH_TRY(ph_scratch(&memory, (int64_t)ph_sparse_floats(a.blocks.block, a.d, a.dv), e, err));
    if (!ph_array_count(out)) return PH_OK;
    for (int64_t h = 0; h < out->dim[0] * out->dim[1]; h++)
        for (int64_t r = 0; r < a.blocks.rows; r++)
            ph_sparse_rows(e->kernels, &a, q + h * in[0].dim[2] * d, kt + h * d * s, v + h * s * out->dim[3],
                           (float *)out->data + h * out->dim[2] * out->dim[3], r, memory);
    return PH_OK;
}

static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    (void)g;
    int64_t block = ph_node_int(n, "block", PH_SPARSE_BLOCK);
    return (int64_t)ph_sparse_floats(block, (size_t)in[0].dim[3], (size_t)out->dim[3]);
}

/* ---- ONNX ---- */

enum { SQUARES_MAX = 1 << 24 };

/* The squares as bool [Tb, Sb]. */
static const char *map_of(ph_oo *o, const ph_node *n, const ph_blocks *b) {
    void   *p;
    int64_t column;
    if (b->map) return ph_oo_in(o, n, 3);
    if (b->cols && b->rows > SQUARES_MAX / b->cols) ph_oo_none(o, n, "so many squares, spelled out");
    if (!o->rc)
        o->rc = ph_arena_zero(&o->x->arena, &p, (size_t)(b->rows * b->cols) + 1, sizeof(float), &o->err);
    if (o->rc) return "";
    float *met = p;
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t at = 0; (column = ph_blocks_next(b, r, &at)) >= 0;) met[r * b->cols + column] = 1;
    const int64_t to[2] = {b->rows, b->cols};
    return ph_oo_cast(o, ph_oo_reshape(o, ph_oo_floats(o, met, (size_t)(b->rows * b->cols)), to, 2),
                      PH_OO_BOOL);
}

/* Squares blown up to [T, S]. */
static const char *seen_of(ph_oo *o, const ph_node *n, const ph_blocks *b, int64_t t) {
    const int64_t apart[4] = {b->rows, 1, b->cols, 1}, wide[4] = {b->rows, b->block, b->cols, b->block};
    const int64_t all[2] = {b->rows * b->block, b->cols * b->block};
    const char   *x = ph_oo_cast(o, map_of(o, n, b), PH_OO_INT64); /* Expand of bools is not everywhere */
    x = ph_oo_two(o, "Expand", ph_oo_reshape(o, x, apart, 4), ph_oo_ints(o, wide, 4));
    x = ph_oo_reshape(o, x, all, 2);
    if (all[0] != t) x = ph_oo_slice(o, x, 0, 0, t, 1);
    if (all[1] != b->keys) x = ph_oo_slice(o, x, 1, 0, b->keys, 1);
    return ph_oo_cast(o, x, PH_OO_BOOL);
}

/* Dense: all scores, those of hidden squares covered. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    const ph_shape *q = ph_oo_shape(o, n, 0), *kt = ph_oo_shape(o, n, 1), *v = ph_oo_shape(o, n, 2);
    ph_blocks       blocks;
    ph_err          err = {0};
    if (ph_blocks_of(o->g, n, q->dim[2].mul, kt->dim[3].mul, &blocks, &err)) {
        ph_oo_none(o, n, err.msg);
        return;
    }
    ph_oo_attend a = {.heads = 1, .kv_heads = 1, .d = q->dim[3].mul, .dv = v->dim[3].mul};
    a.scale = ph_node_float(n, "scale", 1 / sqrt((double)a.d));
    a.q = ph_oo_in(o, n, 0);
    a.kt = ph_oo_in(o, n, 1);
    a.v = ph_oo_in(o, n, 2);
    a.seen = seen_of(o, n, &blocks, q->dim[2].mul);
    ph_oo_is(o, n, 0, ph_oo_attention(o, &a));
}

/* As many keys a query as the squares that are met allow. */
static ph_rc macs(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how, double *out,
                  ph_err *err) {
    ph_blocks     b;
    const int64_t t = ph_in(g, n, 0)->shape.dim[2].mul, s = ph_in(g, n, 1)->shape.dim[3].mul;
    double        q, y;
    (void)how;
    PH_TRY(ph_blocks_of(g, n, t, s, &b, err));
    PH_TRY(ph_value_count(ph_in(g, n, 0), syms, &q, err));
    PH_TRY(ph_value_count(&g->value[n->out[0]], syms, &y, err));
    *out = b.rows && b.cols ? (q + y) * (double)s * (double)b.n / ((double)b.rows * (double)b.cols) : 0;
    return PH_OK;
}

const ph_op ph_op_SparseAttention = {
    .name = "SparseAttention",
    .domain = "pinhole",
    .since = 1,
    .in_min = 4,
    .in_max = 5,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .scratch = scratch,
    .onnx = write_onnx,
    .is_product = 1,
    .macs = macs,
    .source = "arXiv:1904.10509 (block-sparse attention), arXiv:2007.14062 §2 (BigBird); this file",
};
