/* op_reducemin.c - ReduceMin: the smallest over a constant list of axes, in double (opset 20). */
#include "graph/op/op_number.h"

#include <math.h>

static double real(double sum, double x) {
    return x < sum || isnan(x) ? x : sum;
}

static int64_t whole(int64_t sum, int64_t x) {
    return x < sum ? x : sum;
}

static const ph_reduction reduction = {(double)INFINITY, real, NULL, INT64_MAX, whole, 0};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    return ph_eval_reduce(g, n, in, out, &reduction, e, err);
}

const ph_op ph_op_ReduceMin = {
    .name = "ReduceMin",
    .domain = "",
    .since = 20,
    .in_min = 1,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_reduce,
    .eval = eval,
    .onnx = ph_write_reduce,
    .source = "onnx.ai/onnx/operators/onnx__ReduceMin.html",
};
