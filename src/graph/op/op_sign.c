/* op_sign.c - Sign: -1, 0 or 1, element by element (opset 13). */
#include "graph/op/op_number.h"

static float real(float x) {
    return x > 0 ? 1.0f : x < 0 ? -1.0f : x;
}

static int64_t whole(int64_t x) {
    return (x > 0) - (x < 0);
}

static const ph_unary each = {real, whole};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_number(in, out, &each, e, err);
}

const ph_op ph_op_Sign = {
    .name = "Sign",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_number,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Sign.html",
};
