/* op_reducelogsum.c - ReduceLogSum: the logarithm of the sum over a constant list of axes, in double (opset
 * 18). */
#include "graph/op/op_number.h"

#include <math.h>

static double real(double sum, double x) {
    return sum + x;
}

static double end(double sum, int64_t n) {
    (void)n;
    return log(sum);
}

static const ph_reduction reduction = {0, real, end, 0, NULL, 0};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    return ph_eval_reduce(g, n, in, out, &reduction, e, err);
}

const ph_op ph_op_ReduceLogSum = {
    .name = "ReduceLogSum",
    .domain = "",
    .since = 18,
    .in_min = 1,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_reduce,
    .eval = eval,
    .onnx = ph_write_reduce,
    .source = "onnx.ai/onnx/operators/onnx__ReduceLogSum.html",
};
