/* op_bitwisexor.c - BitwiseXor: a ^ b, bit by bit, broadcast as numpy does (opset 18). */
#include "graph/op/op_number.h"

static int whole(int64_t a, int64_t b, int64_t *out) {
    *out = (int64_t)((uint64_t)a ^ (uint64_t)b);
    return 1;
}

static const ph_binary each = {NULL, whole};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_binary(in, out, &each, e, err);
}

const ph_op ph_op_BitwiseXor = {
    .name = "BitwiseXor",
    .domain = "",
    .since = 18,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_bits,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__BitwiseXor.html",
};
