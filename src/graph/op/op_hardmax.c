/* op_hardmax.c - Hardmax: 1 at the first largest element along one axis, 0 elsewhere (opset 13). */
#include "graph/op/op_axis.h"

/* One line: n elements, step apart. */
static void line(float *y, const float *x, int64_t n, int64_t step) {
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++)
        if (x[k * step] > x[best * step]) best = k;
    for (int64_t k = 0; k < n; k++) y[k * step] = k == best;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_lines(n, in, out, line, e, err);
}

const ph_op ph_op_Hardmax = {
    .name = "Hardmax",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_axis,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Hardmax.html",
};
