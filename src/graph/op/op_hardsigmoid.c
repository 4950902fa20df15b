/* op_hardsigmoid.c - HardSigmoid: max(0, min(1, alpha x + beta)) (opset 22). */
#include "graph/op/op_number.h"

static float each(float x, float alpha, float beta) {
    float y = alpha * x + beta;
    return y < 0 ? 0 : y > 1 ? 1 : y; /* NaN stays, as fmaxf would not have it */
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_shaped(in, out, each, ph_node_float(n, "alpha", 0.2), ph_node_float(n, "beta", 0.5), e,
                          err);
}

const ph_op ph_op_HardSigmoid = {
    .name = "HardSigmoid",
    .domain = "",
    .since = 22,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_same,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__HardSigmoid.html",
};
