/* op_clip.c - Clip: no less than min, no more than max; both are single numbers and may be left out (opset
 * 13).
 *
 * Where min is above max, max wins. */
#include "graph/op/op_number.h"

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_infer_number(g, n, out, err));
    for (int i = 1; i < n->n_in; i++)
        if (ph_in(g, n, i)) {
            int64_t count;
            PH_TRY(ph_want(g, n, i, out[0].dtype, -1, err));
            if (ph_shape_count(&ph_in(g, n, i)->shape, NULL, &count, NULL) || count != 1)
                return ph_disagree(g, &out[0].shape, &ph_in(g, n, i)->shape,
                                   "Clip wants single numbers as limits", err);
        }
    return PH_OK;
}

/* Limit i as an array, or none. */
static ph_rc limit(const ph_node *n, const ph_array *in, int i, ph_array *to, int *has, const ph_eval *e,
                   ph_err *err) {
    *has = i < n->n_in && n->in[i] >= 0;
    return *has ? ph_dense(to, &in[i], e, err) : PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x, low = {0}, high = {0};
    int64_t  count = ph_array_count(out);
    int      has_low, has_high;
    (void)g;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(limit(n, in, 1, &low, &has_low, e, err));
    PH_TRY(limit(n, in, 2, &high, &has_high, e, err));
    for (int64_t i = 0; i < count; i++) {
        if (out->dtype == PH_F32) {
            float v = ((const float *)x.data)[i];
            if (has_low && v < *(const float *)low.data) v = *(const float *)low.data;
            if (has_high && v > *(const float *)high.data) v = *(const float *)high.data;
            ((float *)out->data)[i] = v;
        } else {
            int64_t v = ph_int_at(&x, i);
            if (has_low && v < ph_int_at(&low, 0)) v = ph_int_at(&low, 0);
            if (has_high && v > ph_int_at(&high, 0)) v = ph_int_at(&high, 0);
            ph_int_put(out, i, v);
        }
    }
    return PH_OK;
}

const ph_op ph_op_Clip = {
    .name = "Clip",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Clip.html",
};
