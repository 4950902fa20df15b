/* op_reducesumsquare.c - ReduceSumSquare: the sum of squares over a constant list of axes, in double (opset
 * 18). */
#include "graph/op/op_number.h"

static double real(double sum, double x) {
    return sum + x * x;
}

static int64_t whole(int64_t sum, int64_t x) {
    return (int64_t)((uint64_t)sum + (uint64_t)x * (uint64_t)x);
}

static const ph_reduction reduction = {0, real, NULL, 0, whole, 0};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    return ph_eval_reduce(g, n, in, out, &reduction, e, err);
}

const ph_op ph_op_ReduceSumSquare = {
    .name = "ReduceSumSquare",
    .domain = "",
    .since = 18,
    .in_min = 1,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_reduce,
    .eval = eval,
    .onnx = ph_write_reduce,
    .source = "onnx.ai/onnx/operators/onnx__ReduceSumSquare.html",
};
