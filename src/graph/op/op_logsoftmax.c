/* op_logsoftmax.c - LogSoftmax: x - log(sum of e^x) along one axis, in double (opset 13). */
#include "graph/op/op_axis.h"

#include <math.h>

/* One line: n elements, step apart. */
static void line(float *y, const float *x, int64_t n, int64_t step) {
    double top = -(double)INFINITY, sum = 0;
    for (int64_t k = 0; k < n; k++)
        if ((double)x[k * step] > top) top = (double)x[k * step];
    if (!isfinite(top)) top = 0;
    for (int64_t k = 0; k < n; k++) sum += exp((double)x[k * step] - top);
    for (int64_t k = 0; k < n; k++) y[k * step] = (float)((double)x[k * step] - top - log(sum));
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_lines(n, in, out, line, e, err);
}

const ph_op ph_op_LogSoftmax = {
    .name = "LogSoftmax",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_axis,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__LogSoftmax.html",
};
