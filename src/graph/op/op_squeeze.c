/* op_squeeze.c - Squeeze (opset 13): dimensions of size 1 are dropped; the axes are a constant list, or all
 * of them. */
#include "graph/op/op_help.h"

/* Whether a symbol is 1 only a run knows, and the rank hangs on it. */
static ph_rc refuse_guess(const ph_graph *g, ph_dim d, int i, ph_err *err) {
    char text[64];
    ph_graph_dim_print(g, d, text, sizeof text);
    return PH_FAIL(err, PH_EUNSUP,
                   "Squeeze without axes: whether dimension %d (%s) goes is known in a run only; name the "
                   "axes, or give shapes",
                   i, text);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    const ph_dim    one = ph_dim_of(1);
    int64_t         list[PH_RANK_MAX];
    int             count = 0, gone[PH_RANK_MAX] = {0};
    ph_shape        y = {0};
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    if (ph_in(g, n, 1)) PH_TRY(ph_const_ints(g, n, 1, list, PH_RANK_MAX, &count, err));
    for (int i = 0; i < count; i++) {
        int axis;
        PH_TRY(ph_axis(list[i], x->shape.rank, &axis, err));
        if (!ph_dim_same(x->shape.dim[axis], one))
            return PH_FAIL(err, PH_EMISMATCH, "Squeeze: dimension %d is not 1", axis);
        gone[axis] = 1;
    }
    for (int i = 0; i < x->shape.rank && !ph_in(g, n, 1); i++)
        if (!ph_dim_is_fixed(x->shape.dim[i])) return refuse_guess(g, x->shape.dim[i], i, err);
    for (int i = 0; i < x->shape.rank; i++)
        if (ph_in(g, n, 1) ? !gone[i] : !ph_dim_same(x->shape.dim[i], one)) y.dim[y.rank++] = x->shape.dim[i];
    ph_infer_set(&out[0], x->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_reshape(in, out, e, err);
}

const ph_op ph_op_Squeeze = {
    .name = "Squeeze",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Squeeze.html",
};
