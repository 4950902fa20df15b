/* op_thresholdedrelu.c - ThresholdedRelu: x above alpha, else 0 (opset 22). */
#include "graph/op/op_number.h"

static float each(float x, float alpha, float beta) {
    (void)beta;
    return x > alpha ? x : 0.0f;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_shaped(in, out, each, ph_node_float(n, "alpha", 1.0), 0, e, err);
}

const ph_op ph_op_ThresholdedRelu = {
    .name = "ThresholdedRelu",
    .domain = "",
    .since = 22,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_same,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__ThresholdedRelu.html",
};
