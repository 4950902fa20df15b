/* op_reciprocal.c - Reciprocal: 1 / x, element by element (opset 13). */
#include "graph/op/op_number.h"

static float real(float x) {
    return 1.0f / x;
}

static const ph_unary each = {real, NULL};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_number(in, out, &each, e, err);
}

const ph_op ph_op_Reciprocal = {
    .name = "Reciprocal",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_same,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Reciprocal.html",
};
