/* op_reducemean.c - ReduceMean (opset 18): the mean over a constant list of axes, summed in double. */
#include "graph/op/op_number.h"

static double real(double sum, double x) {
    return sum + x;
}

static double end(double sum, int64_t n) {
    return sum / (double)n;
}

static const ph_reduction reduction = {0, real, end, 0, NULL, 0};

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    return ph_infer_reduce(g, n, out, err);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    return ph_eval_reduce(g, n, in, out, &reduction, e, err);
}

const ph_op ph_op_ReduceMean = {
    .name = "ReduceMean",
    .domain = "",
    .since = 18,
    .in_min = 1,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = ph_write_reduce,
    .source = "onnx.ai/onnx/operators/onnx__ReduceMean.html",
};
