/* op_softmax.c - Softmax along one axis (opset 13); a row of -inf only gives zeros. */
#include "graph/op/op_axis.h"

/* The kernel wants rows: other axes are gathered into one row at a time. */
static ph_rc strided(const ph_eval *e, float *y, const float *x, int64_t outer, int64_t n, int64_t inner,
                     ph_err *err) {
    float *row;
    PH_TRY(ph_scratch(&row, n, e, err));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            int64_t at = o * n * inner + i;
            for (int64_t k = 0; k < n; k++) row[k] = x[at + k * inner];
            e->kernels->softmax(row, row, 1, (size_t)n);
            for (int64_t k = 0; k < n; k++) y[at + k * inner] = row[k];
        }
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x;
    int          axis;
    (void)g;
    PH_TRY(ph_axis(ph_node_int(n, "axis", -1), out->rank, &axis, err));
    PH_TRY(ph_floats(&x, in, e, err));
    int64_t outer = ph_span(out, 0, axis), inner = ph_span(out, axis + 1, out->rank);
    if (!ph_array_count(out)) return PH_OK;
    if (inner != 1) return strided(e, out->data, x, outer, out->dim[axis], inner, err);
    e->kernels->softmax(out->data, x, (size_t)outer, (size_t)out->dim[axis]);
    return PH_OK;
}

const ph_op ph_op_Softmax = {
    .name = "Softmax",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_axis,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Softmax.html",
};
