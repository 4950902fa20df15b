/* op_axis.c - what operators along one axis share.  See op_axis.h. */
#include "graph/op/op_axis.h"

/* ---- lines ---- */

ph_rc ph_infer_axis(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int axis;
    PH_TRY(ph_infer_same(g, n, out, err));
    return ph_axis(ph_node_int(n, "axis", -1), out[0].shape.rank, &axis, err);
}

ph_rc ph_eval_lines(const ph_node *n, const ph_array *in, ph_array *out, ph_line_fn *f, const ph_eval *e,
                    ph_err *err) {
    const float *x;
    int          axis;
    PH_TRY(ph_axis(ph_node_int(n, "axis", -1), out->rank, &axis, err));
    PH_TRY(ph_floats(&x, in, e, err));
    int64_t outer = ph_span(out, 0, axis), size = out->dim[axis], inner = ph_span(out, axis + 1, out->rank);
    for (int64_t i = 0; size && i < outer * inner; i++) {
        int64_t at = i / inner * size * inner + i % inner;
        f((float *)out->data + at, x + at, size, inner);
    }
    return PH_OK;
}

/* ---- places ---- */

ph_rc ph_infer_place(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
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

static int is_beaten(const ph_array *x, int64_t a, int64_t by, const ph_compare *beats) {
    if (x->dtype == PH_F32) return beats->real(((const float *)x->data)[by], ((const float *)x->data)[a]);
    return beats->whole(ph_int_at(x, by), ph_int_at(x, a));
}

ph_rc ph_eval_place(const ph_node *n, const ph_array *in, ph_array *out, const ph_compare *beats,
                    const ph_eval *e, ph_err *err) {
    ph_array x;
    int      axis, last = ph_node_int(n, "select_last_index", 0) != 0;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), x.rank, &axis, err));
    int64_t outer = ph_span(&x, 0, axis), size = x.dim[axis], inner = ph_span(&x, axis + 1, x.rank);
    if (size < 1 && outer * inner > 0) return PH_FAIL(err, PH_EMISMATCH, "%s of no elements", n->op->name);
    for (int64_t i = 0; i < outer * inner; i++) {
        int64_t at = i / inner * size * inner + i % inner, best = 0;
        for (int64_t k = 1; k < size; k++) {
            int64_t a = at + best * inner, b = at + k * inner;
            if (is_beaten(&x, a, b, beats) || (last && !is_beaten(&x, b, a, beats))) best = k;
        }
        ((int64_t *)out->data)[i] = best;
    }
    return PH_OK;
}
