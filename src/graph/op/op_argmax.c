/* op_argmax.c - ArgMax: the place of the largest element along one axis (opset 13); select_last_index takes
 * the last of equals. */
#include "graph/op/op_number.h"

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_shape y = {0};
    int      axis;
    PH_TRY(ph_want_number(g, n, 0, err));
    const ph_shape *x = &ph_in(g, n, 0)->shape;
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), x->rank, &axis, err));
    for (int i = 0; i < x->rank; i++) {
        if (i != axis)
            y.dim[y.rank++] = x->dim[i];
        else if (ph_node_int(n, "keepdims", 1))
            y.dim[y.rank++] = ph_dim_of(1);
    }
    ph_infer_set(&out[0], PH_I64, &y);
    return PH_OK;
}

/* Is element b before a in rank? */
static int beats(const ph_array *x, int64_t b, int64_t a) {
    if (x->dtype == PH_F32) return ((const float *)x->data)[b] > ((const float *)x->data)[a];
    return ph_int_at(x, b) > ph_int_at(x, a);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x;
    int      axis, last = ph_node_int(n, "select_last_index", 0) != 0;
    (void)g;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), x.rank, &axis, err));
    int64_t outer = ph_span(&x, 0, axis), size = x.dim[axis], inner = ph_span(&x, axis + 1, x.rank);
    if (size < 1 && outer * inner > 0) return PH_FAIL(err, PH_EMISMATCH, "ArgMax of no elements");
    for (int64_t i = 0; i < outer * inner; i++) {
        int64_t at = i / inner * size * inner + i % inner, best = 0;
        for (int64_t k = 1; k < size; k++) {
            int64_t a = at + best * inner, b = at + k * inner;
            if (beats(&x, b, a) || (last && !beats(&x, a, b))) best = k;
        }
        ((int64_t *)out->data)[i] = best;
    }
    return PH_OK;
}

const ph_op ph_op_ArgMax = {
    .name = "ArgMax",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,

    .source = "onnx.ai/onnx/operators/onnx__ArgMax.html",
};
