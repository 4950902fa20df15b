/* op_transpose.c - Transpose (opset 13): dimensions in another order; without perm, reversed. */
#include "graph/op/op_help.h"

#include <string.h>

static ph_rc order_of(const ph_node *n, int rank, int order[PH_RANK_MAX], ph_err *err) {
    size_t         count;
    int            seen[PH_RANK_MAX] = {0};
    const int64_t *perm = ph_node_ints(n, "perm", &count);
    for (int i = 0; i < rank; i++) order[i] = rank - 1 - i;
    if (!ph_node_attr(n, "perm")) return PH_OK;
    if (count != (size_t)rank)
        return PH_FAIL(err, PH_EMISMATCH, "Transpose: perm of %zu for rank %d", count, rank);
    for (int i = 0; i < rank; i++) {
        if (perm[i] < 0 || perm[i] >= rank || seen[perm[i]])
            return PH_FAIL(err, PH_EMISMATCH, "Transpose: perm is no permutation of 0..%d", rank - 1);
        seen[perm[i]] = 1;
        order[i] = (int)perm[i];
    }
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    int             order[PH_RANK_MAX];
    ph_shape        y = x->shape;
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    PH_TRY(order_of(n, x->shape.rank, order, err));
    for (int i = 0; i < y.rank; i++) y.dim[i] = x->shape.dim[order[i]];
    ph_infer_set(&out[0], x->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x;
    int      order[PH_RANK_MAX];
    int64_t  stride[PH_RANK_MAX], step = 1, count = ph_array_count(out);
    size_t   item = ph_dtype_bytes(out->dtype);
    (void)g;
    PH_TRY(ph_dense(&x, in, e, err));
    PH_TRY(order_of(n, x.rank, order, err));
    for (int i = x.rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x.dim[i];
    }
    ph_walk w = ph_walk_over(out);
    for (int i = 0; i < x.rank; i++) w.stride[0][i] = stride[order[i]];
    w.n = 1;
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w))
        memcpy((char *)out->data + (size_t)i * item, (const char *)x.data + (size_t)w.at[0] * item, item);
    return PH_OK;
}

const ph_op ph_op_Transpose = {
    .name = "Transpose",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Transpose.html",
};
