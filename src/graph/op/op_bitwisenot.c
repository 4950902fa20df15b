/* op_bitwisenot.c - BitwiseNot: every bit the other way round (opset 18). */
#include "graph/op/op_number.h"

static int64_t whole(int64_t x) {
    return ~x;
}

static const ph_unary each = {NULL, whole};

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_want_bits(g, n, err));
    return ph_infer_number(g, n, out, err);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_number(in, out, &each, e, err);
}

const ph_op ph_op_BitwiseNot = {
    .name = "BitwiseNot",
    .domain = "",
    .since = 18,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__BitwiseNot.html",
};
