/* op_shrink.c - Shrink: x + bias below -lambd, x - bias above lambd, else 0 (opset 9). */
#include "graph/op/op_number.h"

static float each(float x, float alpha, float beta) {
    return x < -alpha ? x + beta : x > alpha ? x - beta : 0.0f;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_shaped(in, out, each, ph_node_float(n, "lambd", 0.5), ph_node_float(n, "bias", 0.0), e,
                          err);
}

const ph_op ph_op_Shrink = {
    .name = "Shrink",
    .domain = "",
    .since = 9,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_same,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Shrink.html",
};
