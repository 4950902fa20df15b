/* op_leakyrelu.c - LeakyRelu: x, or alpha x below zero (opset 16). */
#include "graph/op/op_number.h"

static float each(float x, float alpha, float beta) {
    (void)beta;
    return x < 0 ? alpha * x : x;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_shaped(in, out, each, ph_node_float(n, "alpha", 0.01), 0, e, err);
}

const ph_op ph_op_LeakyRelu = {
    .name = "LeakyRelu",
    .domain = "",
    .since = 16,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_same,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__LeakyRelu.html",
};
