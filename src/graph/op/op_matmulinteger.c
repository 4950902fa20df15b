/* op_matmulinteger.c - MatMulInteger: numpy's matmul of 8-bit whole numbers less their zero points, in 32
 * bits (opset 10).
 *
 * The zero point of a is one number or one a row; that of b one number or one a column. */
#include "graph/op/op_number.h"

static ph_rc check_zero(const ph_graph *g, const ph_node *n, int i, ph_dim wide, ph_err *err) {
    int64_t count;
    if (!ph_in(g, n, i)) return PH_OK;
    PH_TRY(ph_want(g, n, i, ph_in(g, n, i - 2)->dtype, -1, err));
    const ph_shape *s = &ph_in(g, n, i)->shape;
    if ((!ph_shape_count(s, NULL, &count, NULL) && count == 1) ||
        (s->rank == 1 && ph_dim_same(s->dim[0], wide)))
        return PH_OK;
    return PH_FAIL(err, PH_EUNSUP, "MatMulInteger: zero point %d is neither one number nor a list", i);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    for (int i = 0; i < 2; i++) {
        ph_dtype t = ph_in(g, n, i)->dtype;
        PH_TRY(ph_want(g, n, i, t, -1, err));
        if (t != PH_U8 && t != PH_I8)
            return PH_FAIL(err, PH_EMISMATCH, "MatMulInteger: input %d is %s, not 8 bits", i,
                           ph_dtype_name(t));
    }
    ph_shape a = ph_in(g, n, 0)->shape, b = ph_in(g, n, 1)->shape, y;
    if (a.rank < 2 || b.rank < 2 || !ph_dim_same(a.dim[a.rank - 1], b.dim[b.rank - 2]))
        return ph_disagree(g, &a, &b, "MatMulInteger wants [.., M, K] and [.., K, N]", err);
    ph_dim rows = a.dim[a.rank - 2], cols = b.dim[b.rank - 1];
    PH_TRY(check_zero(g, n, 2, rows, err));
    PH_TRY(check_zero(g, n, 3, cols, err));
    a.rank -= 2;
    b.rank -= 2;
    PH_TRY(ph_broadcast(g, &a, &b, &y, err));
    y.dim[y.rank++] = rows;
    y.dim[y.rank++] = cols;
    ph_infer_set(&out[0], PH_I32, &y);
    return PH_OK;
}

static int64_t zero_at(const ph_array *zero, int64_t i) {
    if (!zero->data) return 0;
    return ph_int_at(zero, ph_array_count(zero) > 1 ? i : 0);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x[4] = {{0}};
    (void)g;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0) PH_TRY(ph_dense(&x[i], &in[i], e, err));
    ph_array head = *out, ha = x[0], hb = x[1];
    head.rank -= 2, ha.rank -= 2, hb.rank -= 2;
    int64_t rows = out->dim[out->rank - 2], cols = out->dim[out->rank - 1], k = x[0].dim[x[0].rank - 1];
    ph_walk w = ph_walk_over(&head);
    ph_walk_add(&w, &ha);
    ph_walk_add(&w, &hb);
    int64_t batches = ph_array_count(&head);
    for (int64_t b = 0; b < batches; b++, ph_walk_next(&w))
        for (int64_t i = 0; i < rows * cols; i++) {
            int64_t r = i / cols, c = i % cols, za = zero_at(&x[2], r), zb = zero_at(&x[3], c), sum = 0;
            for (int64_t j = 0; j < k; j++)
                sum += (ph_int_at(&x[0], (w.at[0] * rows + r) * k + j) - za) *
                       (ph_int_at(&x[1], (w.at[1] * k + j) * cols + c) - zb);
            ((int32_t *)out->data)[b * rows * cols + i] = (int32_t)(uint32_t)(uint64_t)sum;
        }
    return PH_OK;
}

const ph_op ph_op_MatMulInteger = {
    .name = "MatMulInteger",
    .domain = "",
    .since = 10,
    .in_min = 2,
    .in_max = 4,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .is_product = 1,
    .macs = ph_macs_of_product,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__MatMulInteger.html",
};
