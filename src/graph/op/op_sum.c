/* op_sum.c - Sum: the sum of any number of inputs, broadcast as numpy does (opset 13). */
#include "graph/op/op_number.h"

static float real(float a, float b) {
    return a + b;
}

static int whole(int64_t a, int64_t b, int64_t *out) {
    *out = (int64_t)((uint64_t)a + (uint64_t)b);
    return 1;
}

static const ph_binary each = {real, whole};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_many(n, in, out, &each, e, err);
}

const ph_op ph_op_Sum = {
    .name = "Sum",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = -1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_many,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Sum.html",
};
