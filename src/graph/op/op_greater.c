/* op_greater.c - Greater: whether a > b, broadcast as numpy does (opset 13). */
#include "graph/op/op_number.h"

static int real(float a, float b) {
    return a > b;
}

static int whole(int64_t a, int64_t b) {
    return a > b;
}

static const ph_compare each = {real, whole};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_compare(in, out, &each, e, err);
}

const ph_op ph_op_Greater = {
    .name = "Greater",
    .domain = "",
    .since = 13,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_compare,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Greater.html",
};
