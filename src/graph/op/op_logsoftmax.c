/* op_logsoftmax.c - LogSoftmax: x - log(sum of e^x) along one axis, in double (opset 13). */
#include "graph/op/op_help.h"

#include <math.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int axis;
    PH_TRY(ph_infer_same(g, n, out, err));
    return ph_axis(ph_node_int(n, "axis", -1), out[0].shape.rank, &axis, err);
}

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
    const float *x;
    int          axis;
    (void)g;
    PH_TRY(ph_axis(ph_node_int(n, "axis", -1), out->rank, &axis, err));
    PH_TRY(ph_floats(&x, in, e, err));
    int64_t outer = ph_span(out, 0, axis), size = out->dim[axis], inner = ph_span(out, axis + 1, out->rank);
    for (int64_t i = 0; size && i < outer * inner; i++) {
        int64_t at = i / inner * size * inner + i % inner;
        line((float *)out->data + at, x + at, size, inner);
    }
    return PH_OK;
}

const ph_op ph_op_LogSoftmax = {
    .name = "LogSoftmax",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,

    .source = "onnx.ai/onnx/operators/onnx__LogSoftmax.html",
};
