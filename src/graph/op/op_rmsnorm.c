/* op_rmsnorm.c - RMSNormalization over the last axis: x / sqrt(mean(x^2) + epsilon) * scale (opset 23).
 *
 * Families whose norm multiplies by 1 + w give a scale that holds the 1. */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_shape *x, *scale;
    int             axis;
    PH_TRY(ph_infer_same(g, n, out, err));
    PH_TRY(ph_want(g, n, 1, PH_F32, 1, err));
    x = &ph_in(g, n, 0)->shape;
    scale = &ph_in(g, n, 1)->shape;
    PH_TRY(ph_axis(ph_node_int(n, "axis", -1), x->rank, &axis, err));
    if (axis != x->rank - 1)
        return PH_FAIL(err, PH_EUNSUP, "RMSNormalization: axis %d is not the last", axis);
    PH_TRY(ph_want_int(n, "stash_type", 1, err));
    if (!ph_dim_same(scale->dim[0], x->dim[axis]))
        return ph_disagree(g, x, scale, "RMSNormalization wants a scale of the last dimension", err);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x, *scale;
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_floats(&scale, &in[1], e, err));
    if (!ph_array_count(out)) return PH_OK;
    e->kernels->rmsnorm(out->data, x, scale, (size_t)ph_span(out, 0, out->rank - 1),
                        (size_t)out->dim[out->rank - 1], (float)ph_node_float(n, "epsilon", 1e-5), 0);
    return PH_OK;
}

/* Before opset 23: x / sqrt(mean(x^2) + epsilon), by the scale. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    static const int64_t last[1] = {-1};
    const char          *x = ph_oo_in(o, n, 0), *square, *mean;
    if (o->opset >= 23) {
        ph_oo_plain(o, n);
        return;
    }
    square = ph_oo_two(o, "Mul", x, x);
    mean = o->opset < 18
               ? ph_oo_make(o, "ReduceMean", PH_OO_IN(square), PH_OO_ATTRS(PH_OO_INTS("axes", last, 1)))
               : ph_oo_two(o, "ReduceMean", square, ph_oo_ints(o, last, 1));
    mean = ph_oo_two(o, "Add", mean, ph_oo_number(o, ph_node_float(n, "epsilon", 1e-5)));
    x = ph_oo_two(o, "Div", x, ph_oo_one(o, "Sqrt", mean));
    ph_oo_emit(o, n, "", "Mul", PH_OO_IN(x, ph_oo_in(o, n, 1)), PH_OO_NO_ATTRS);
}

const ph_op ph_op_RMSNormalization = {
    .name = "RMSNormalization",
    .domain = "",
    .since = 23,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__RMSNormalization.html",
};
