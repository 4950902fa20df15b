/* op_sqrt.c - Sqrt: the square root, element by element; NaN below zero. */
#include "graph/op/op_help.h"

#include <math.h>

static void each(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = sqrtf(x[i]);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_unary(in, out, each, e, err);
}

const ph_op ph_op_Sqrt = {
    .name = "Sqrt",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_same,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Sqrt.html",
};
