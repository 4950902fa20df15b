/* op_sigmoid.c - Sigmoid: 1 / (1 + exp(-x)), element by element. */
#include "graph/op/op_help.h"

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_unary(in, out, e->kernels->sigmoid, e, err);
}

const ph_op ph_op_Sigmoid = {
    .name = "Sigmoid",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_same,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Sigmoid.html",
};
