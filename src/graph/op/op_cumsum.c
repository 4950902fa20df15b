/* op_cumsum.c - CumSum: sums along an axis up to each element (opset 14); exclusive leaves the element itself
 * out, reverse begins at the end.  The axis is a constant number. */
#include "graph/op/op_number.h"

static ph_rc axis_of(const ph_graph *g, const ph_node *n, int rank, int *axis, ph_err *err) {
    int64_t list[1];
    int     count;
    PH_TRY(ph_const_ints(g, n, 1, list, 1, &count, err));
    if (count != 1) return PH_FAIL(err, PH_EMISMATCH, "CumSum: %d axes", count);
    return ph_axis(list[0], rank, axis, err);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int axis;
    PH_TRY(ph_infer_number(g, n, out, err));
    return axis_of(g, n, out[0].shape.rank, &axis, err);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x;
    int      axis, back = ph_node_int(n, "reverse", 0) != 0, late = ph_node_int(n, "exclusive", 0) != 0;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(axis_of(g, n, x.rank, &axis, err));
    int64_t outer = ph_span(&x, 0, axis), size = x.dim[axis], inner = ph_span(&x, axis + 1, x.rank);
    for (int64_t line = 0; line < outer * inner; line++) {
        double   real = 0;
        uint64_t whole = 0;
        for (int64_t k = 0; k < size; k++) {
            int64_t at = (line / inner * size + (back ? size - 1 - k : k)) * inner + line % inner;
            double  r = out->dtype == PH_F32 ? (double)((const float *)x.data)[at] : 0;
            int64_t w = out->dtype == PH_F32 ? 0 : ph_int_at(&x, at);
            if (!late) real += r, whole += (uint64_t)w;
            if (out->dtype == PH_F32)
                ((float *)out->data)[at] = (float)real;
            else
                ph_int_put(out, at, (int64_t)whole);
            if (late) real += r, whole += (uint64_t)w;
        }
    }
    return PH_OK;
}

const ph_op ph_op_CumSum = {
    .name = "CumSum",
    .domain = "",
    .since = 14,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__CumSum.html",
};
