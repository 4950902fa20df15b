/* op_selu.c - Selu: gamma x, or gamma alpha (e^x - 1) at zero and below (opset 22). */
#include "graph/op/op_number.h"

#include <math.h>

static float each(float x, float alpha, float beta) {
    return x > 0 ? beta * x : beta * alpha * expm1f(x);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_shaped(in, out, each, ph_node_float(n, "alpha", 1.67326319217681884765625),
                          ph_node_float(n, "gamma", 1.05070102214813232421875), e, err);
}

const ph_op ph_op_Selu = {
    .name = "Selu",
    .domain = "",
    .since = 22,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_same,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Selu.html",
};
