/* op_modalityswitch.c - pinhole.ModalitySwitch: each row from the branch of its modality.
 *
 *     modality i32/i64 [..] or [.., 1]   x_0, x_1, .. f32 [.., d]
 *     y[r] = x_m[r] with m = modality[r]
 *
 * What Where does for two, in one walk for any number of branches; each row is copied once, bit by bit.
 *
 * Errors: PH_EMISMATCH shapes; at run time a modality outside -M .. M-1 (the spelled-out form in ONNX takes
 * the last branch there).
 */
#include "graph/modal.h"
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_want_index(g, n, 0, err));
    PH_TRY(ph_want(g, n, 1, PH_F32, -1, err));
    const ph_shape *pick = &ph_in(g, n, 0)->shape, *x = &ph_in(g, n, 1)->shape;
    int             lead = x->rank - 1;
    if (lead < 0 ||
        (pick->rank != lead && !(pick->rank == x->rank && ph_dim_same(pick->dim[lead], ph_dim_of(1)))))
        return ph_disagree(g, pick, x, "ModalitySwitch wants one modality for each row of its branches", err);
    for (int i = 0; i < lead; i++)
        if (!ph_dim_same(pick->dim[i], x->dim[i]))
            return ph_disagree(g, pick, x, "ModalitySwitch wants one modality for each row of its branches",
                               err);
    for (int i = 2; i < n->n_in; i++) {
        PH_TRY(ph_want(g, n, i, PH_F32, -1, err));
        if (!ph_shape_same(&ph_in(g, n, i)->shape, x))
            return ph_disagree(g, x, &ph_in(g, n, i)->shape, "ModalitySwitch wants branches of one shape",
                               err);
    }
    ph_infer_set(&out[0], PH_F32, x);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    int64_t  rows = ph_span(out, 0, out->rank - 1), d = out->dim[out->rank - 1];
    float   *place;
    ph_array pick;
    (void)g;
    PH_TRY(ph_dense(&pick, &in[0], e, err));
    PH_TRY(ph_scratch(&place, rows, e, err));
    int32_t *own = (int32_t *)(void *)place;
    PH_TRY(ph_modal_indices(own, pick.data, pick.dtype == PH_I64, rows, n->n_in - 1, err));
    for (int i = 1; i < n->n_in; i++) {
        const float *x;
        PH_TRY(ph_floats(&x, &in[i], e, err));
        for (int64_t r = 0; r < rows; r++)
            if (own[r] == i - 1) memcpy((float *)out->data + r * d, x + r * d, (size_t)d * sizeof *x);
    }
    return PH_OK;
}

static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    (void)g, (void)n, (void)in;
    return ph_span(out, 0, out->rank - 1) + 64;
}

/* A choice of two after the other, from the last branch on. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    const char   *pick = ph_oo_cast(o, ph_oo_in(o, n, 0), PH_OO_INT64), *y = ph_oo_in(o, n, n->n_in - 1);
    const int64_t m = n->n_in - 1;
    if (m == 1) {
        ph_oo_is(o, n, 0, y);
        return;
    }
    if (ph_oo_shape(o, n, 0)->rank < ph_oo_shape(o, n, 1)->rank) pick = ph_oo_unsqueeze(o, pick, -1);
    const char *below = ph_oo_two(o, "Less", pick, ph_oo_int(o, 0));
    pick = ph_oo_make(o, "Where", PH_OO_IN(below, ph_oo_two(o, "Add", pick, ph_oo_int(o, m)), pick),
                      PH_OO_NO_ATTRS);
    for (int64_t i = m - 2; i >= 0; i--) {
        const char *is = ph_oo_two(o, "Equal", pick, ph_oo_int(o, i)), *x = ph_oo_in(o, n, (int)i + 1);
        if (i)
            y = ph_oo_make(o, "Where", PH_OO_IN(is, x, y), PH_OO_NO_ATTRS);
        else
            ph_oo_emit(o, n, "", "Where", PH_OO_IN(is, x, y), PH_OO_NO_ATTRS);
    }
}

const ph_op ph_op_ModalitySwitch = {
    .name = "ModalitySwitch",
    .domain = "pinhole",
    .since = 1,
    .in_min = 2,
    .in_max = -1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .scratch = scratch,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__Where.html for two; this file",
};
