/* op_unsqueeze.c - Unsqueeze (opset 13): dimensions of size 1 are put in at the places of a constant list. */
#include "graph/op/op_help.h"

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    int64_t         list[PH_RANK_MAX];
    int             count = 0, from = 0, fresh[PH_RANK_MAX] = {0};
    ph_shape        y = {0};
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    PH_TRY(ph_const_ints(g, n, 1, list, PH_RANK_MAX, &count, err));
    y.rank = x->shape.rank + count;
    if (y.rank > PH_RANK_MAX) return PH_FAIL(err, PH_ELIMIT, "Unsqueeze: rank %d", y.rank);
    for (int i = 0; i < count; i++) {
        int axis;
        PH_TRY(ph_axis(list[i], y.rank, &axis, err));
        if (fresh[axis]) return PH_FAIL(err, PH_EMISMATCH, "Unsqueeze: axis %d twice", axis);
        fresh[axis] = 1;
    }
    for (int i = 0; i < y.rank; i++) y.dim[i] = fresh[i] ? ph_dim_of(1) : x->shape.dim[from++];
    ph_infer_set(&out[0], x->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_reshape(in, out, e, err);
}

const ph_op ph_op_Unsqueeze = {
    .name = "Unsqueeze",
    .domain = "",
    .since = 13,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Unsqueeze.html",
};
