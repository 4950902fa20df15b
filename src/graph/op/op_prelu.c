/* op_prelu.c - PRelu: x, or slope x below zero; the slope broadcasts to x (opset 16). */
#include "graph/op/op_help.h"

static float slope(float x, float by) {
    return x < 0 ? x * by : x;
}

static const ph_binary each = {slope, NULL};

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    PH_TRY(ph_infer_binary(g, n, out, err));
    if (!ph_shape_same(&out[0].shape, &ph_in(g, n, 0)->shape))
        return ph_disagree(g, &ph_in(g, n, 0)->shape, &ph_in(g, n, 1)->shape,
                           "the slope of PRelu is wider than x", err);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_binary(in, out, &each, e, err);
}

const ph_op ph_op_PRelu = {
    .name = "PRelu",
    .domain = "",
    .since = 16,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__PRelu.html",
};
