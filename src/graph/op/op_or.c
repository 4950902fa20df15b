/* op_or.c - Or: whether one or both hold, broadcast as numpy does (opset 7). */
#include "graph/op/op_number.h"

static int real(float a, float b) {
    return a > 0 || b > 0;
}

static int whole(int64_t a, int64_t b) {
    return a || b;
}

static const ph_compare each = {real, whole};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_compare(in, out, &each, e, err);
}

const ph_op ph_op_Or = {
    .name = "Or",
    .domain = "",
    .since = 7,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_logic,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Or.html",
};
