/* op_onehot.c - OneHot: along a new axis, the second of two values at each index, the first elsewhere (opset
 * 11).
 *
 *     indices (whole numbers or f32), depth (a constant number), values [2]
 *
 * Negative indices count from depth; others outside are nowhere. */
#include "graph/op/op_number.h"

#include <string.h>

static ph_rc read(const ph_graph *g, const ph_node *n, int rank, int64_t *depth, int *axis, ph_err *err) {
    int count;
    PH_TRY(ph_const_ints(g, n, 1, depth, 1, &count, err));
    if (count != 1 || *depth < 0) return PH_FAIL(err, PH_EMISMATCH, "OneHot wants one depth, not negative");
    return ph_axis(ph_node_int(n, "axis", -1), rank + 1, axis, err);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0), *values = ph_in(g, n, 2);
    ph_shape        y = {0};
    int64_t         depth;
    int             axis;
    PH_TRY(ph_want_number(g, n, 0, err));
    PH_TRY(ph_want(g, n, 2, values->dtype, 1, err));
    PH_TRY(read(g, n, x->shape.rank, &depth, &axis, err));
    if (x->shape.rank == PH_RANK_MAX || !ph_dim_same(values->shape.dim[0], ph_dim_of(2)))
        return ph_disagree(g, &x->shape, &values->shape,
                           "OneHot wants two values, and room for one more axis", err);
    y.rank = x->shape.rank + 1;
    for (int i = 0; i < y.rank; i++)
        y.dim[i] = i == axis ? ph_dim_of(depth) : x->shape.dim[i < axis ? i : i - 1];
    ph_infer_set(&out[0], values->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x, values;
    int64_t  depth;
    int      axis;
    size_t   item = ph_dtype_bytes(out->dtype);
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(ph_dense(&values, &in[2], e, err));
    PH_TRY(read(g, n, x.rank, &depth, &axis, err));
    int64_t inner = ph_span(out, axis + 1, out->rank), count = ph_array_count(out);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i / inner / depth * inner + i % inner, d = i / inner % depth;
        double  given = x.dtype == PH_F32 ? (double)((const float *)x.data)[at] : (double)ph_int_at(&x, at);
        int     hot = (int)(given >= (double)d && given <= (double)d) ||
                  (int)(given + (double)depth >= (double)d && given + (double)depth <= (double)d);
        memcpy((char *)out->data + (size_t)i * item, (const char *)values.data + (hot ? item : 0), item);
    }
    return PH_OK;
}

const ph_op ph_op_OneHot = {
    .name = "OneHot",
    .domain = "",
    .since = 11,
    .in_min = 3,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__OneHot.html",
};
