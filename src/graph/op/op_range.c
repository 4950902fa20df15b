/* op_range.c - Range: start, start + delta ... before limit (opset 11).
 *
 * How many there are must follow from constants; a whole limit may be Sizes where start and delta are
 * constants and delta is 1. */
#include "graph/op/op_number.h"

#include <math.h>
#include <string.h>

static ph_rc float_of(const ph_graph *g, const ph_node *n, int i, double *out, ph_err *err) {
    const ph_value *v = ph_in(g, n, i);
    float           x;
    int64_t         count;
    if (v->cls != PH_VALUE_CONSTANT || v->storage.dtype != PH_F32 || !v->storage.plane[0].bytes ||
        ph_shape_count(&v->shape, NULL, &count, NULL) || count != 1)
        return PH_FAIL(err, PH_EUNSUP, "Range: input %d must be a constant number", i);
    memcpy(&x, v->storage.plane[0].bytes, sizeof x);
    *out = (double)x;
    return PH_OK;
}

static ph_rc float_count(const ph_graph *g, const ph_node *n, ph_dim *count, ph_err *err) {
    double start, limit, delta;
    PH_TRY(float_of(g, n, 0, &start, err));
    PH_TRY(float_of(g, n, 1, &limit, err));
    PH_TRY(float_of(g, n, 2, &delta, err));
    double steps = ceil((limit - start) / delta);
    if (!(steps < 1e12)) return PH_FAIL(err, PH_EMISMATCH, "Range: %g to %g by %g", start, limit, delta);
    *count = ph_dim_of(steps > 0 ? (int64_t)steps : 0);
    return PH_OK;
}

static ph_rc whole_count(const ph_graph *g, const ph_node *n, ph_dim *count, ph_err *err) {
    ph_dim  at[3];
    int64_t room;
    for (int i = 0; i < 3; i++) {
        int one;
        PH_TRY(ph_const_dims(g, n, i, &at[i], 1, &one, err));
        if (one != 1) return PH_FAIL(err, PH_EMISMATCH, "Range: input %d has %d numbers", i, one);
    }
    int64_t start = at[0].mul, delta = at[2].mul;
    if (!ph_dim_is_fixed(at[0]) || !ph_dim_is_fixed(at[2]) || !delta || start == INT64_MIN ||
        delta == INT64_MIN)
        return PH_FAIL(err, PH_EUNSUP, "Range wants a plain start, and a delta that is not 0");
    if (!ph_dim_is_fixed(at[1])) {
        if (delta == 1 && ph_dim_add(at[1], ph_dim_of(-start), count)) return PH_OK;
        return PH_FAIL(err, PH_EUNSUP, "Range to a symbolic limit wants delta 1");
    }
    if (__builtin_sub_overflow(at[1].mul, start, &room))
        return PH_FAIL(err, PH_ELIMIT, "Range: the numbers do not fit 63 bits");
    int64_t steps = room / delta + (room % delta != 0 && (room < 0) == (delta < 0));
    *count = ph_dim_of(steps > 0 && room ? steps : 0);
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_shape y = {.rank = 1};
    ph_dtype t = ph_in(g, n, 0)->dtype;
    for (int i = 0; i < 3; i++) PH_TRY(ph_want(g, n, i, t, -1, err));
    if (t == PH_F32)
        PH_TRY(float_count(g, n, &y.dim[0], err));
    else
        PH_TRY(whole_count(g, n, &y.dim[0], err));
    ph_infer_set(&out[0], t, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array start, delta;
    (void)g, (void)n;
    PH_TRY(ph_dense(&start, &in[0], e, err));
    PH_TRY(ph_dense(&delta, &in[2], e, err));
    for (int64_t i = 0; i < out->dim[0]; i++)
        if (out->dtype == PH_F32)
            ((float *)out->data)[i] =
                (float)((double)*(const float *)start.data + (double)i * (double)*(const float *)delta.data);
        else
            ph_int_put(
                out, i,
                (int64_t)((uint64_t)ph_int_at(&start, 0) + (uint64_t)i * (uint64_t)ph_int_at(&delta, 0)));
    return PH_OK;
}

const ph_op ph_op_Range = {
    .name = "Range",
    .domain = "",
    .since = 11,
    .in_min = 3,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Range.html",
};
