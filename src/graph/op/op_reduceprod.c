/* op_reduceprod.c - ReduceProd: the product over a constant list of axes, in double (opset 18). */
#include "graph/op/op_number.h"

static double real(double sum, double x) {
    return sum * x;
}

static int64_t whole(int64_t sum, int64_t x) {
    return (int64_t)((uint64_t)sum * (uint64_t)x);
}

static const ph_reduction reduction = {1, real, NULL, 1, whole, 0};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    return ph_eval_reduce(g, n, in, out, &reduction, e, err);
}

const ph_op ph_op_ReduceProd = {
    .name = "ReduceProd",
    .domain = "",
    .since = 18,
    .in_min = 1,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_reduce,
    .eval = eval,
    .onnx = ph_write_reduce,
    .source = "onnx.ai/onnx/operators/onnx__ReduceProd.html",
};
