/* op_celu.c - Celu: max(0, x) + min(0, alpha (e^(x / alpha) - 1)) (opset 12). */
#include "graph/op/op_number.h"

#include <math.h>

static float each(float x, float alpha, float beta) {
    (void)beta;
    if (isnan(x)) return x; /* fmaxf and fminf would take 0 */
    return fmaxf(0.0f, x) + fminf(0.0f, alpha * expm1f(x / alpha));
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_shaped(in, out, each, ph_node_float(n, "alpha", 1.0), 0, e, err);
}

const ph_op ph_op_Celu = {
    .name = "Celu",
    .domain = "",
    .since = 12,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_same,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Celu.html",
};
