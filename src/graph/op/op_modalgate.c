/* op_modalgate.c - pinhole.ModalGate: how much a token's modality counts at it.
 *
 *     logits [.., M]   modality i32/i64 [..] or [.., 1]   latency f32 [M]?
 *     y = softmax over m of (logits[.., m] - lambda * latency[m]), its number at the token's modality
 *
 * y has the shape of modality.  A mixture gate (Jacobs et al. 1991; arXiv:1701.06538) of which only
 * the weight that is used is made.  latency is an input, so that whoever runs the graph
 * puts in what it has measured, say the medians of `pinhole bench --json`: modalities that are slow
 * now count less, by lambda a unit, without another graph.
 *
 * Attributes: lambda (1), in the inverse unit of latency.
 * Errors: PH_EMISMATCH shapes, lambda negative or no finite number; at run time a modality outside -M .. M-1.
 */
#include "graph/modal.h"
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <math.h>

/* logits' shape without its last dimension, or with a last one of 1. */
static int is_of_tokens(const ph_shape *s, const ph_shape *logits) {
    int lead = logits->rank - 1;
    if (s->rank != lead && !(s->rank == lead + 1 && ph_dim_same(s->dim[lead], ph_dim_of(1)))) return 0;
    for (int i = 0; i < lead; i++)
        if (!ph_dim_same(s->dim[i], logits->dim[i])) return 0;
    return 1;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_shape *x, *pick;
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    PH_TRY(ph_want_index(g, n, 1, err));
    x = &ph_in(g, n, 0)->shape;
    pick = &ph_in(g, n, 1)->shape;
    if (x->rank < 1 || !ph_dim_is_fixed(x->dim[x->rank - 1]) || x->dim[x->rank - 1].mul < 1 ||
        x->dim[x->rank - 1].mul > PH_GATES_MAX || !is_of_tokens(pick, x))
        return ph_disagree(g, x, pick,
                           "ModalGate wants logits [.., M] of 1 to 4096 modalities, and one of them a token",
                           err);
    if (ph_in(g, n, 2)) {
        PH_TRY(ph_want(g, n, 2, PH_F32, 1, err));
        if (!ph_dim_same(ph_in(g, n, 2)->shape.dim[0], x->dim[x->rank - 1]))
            return ph_disagree(g, x, &ph_in(g, n, 2)->shape, "ModalGate wants a latency of each modality",
                               err);
    }
    double lambda = ph_node_float(n, "lambda", 1);
    if (!isfinite(lambda) || lambda < 0)
        return PH_FAIL(err, PH_EMISMATCH, "ModalGate: lambda is %g; it must be finite and not below 0",
                       lambda);
    ph_infer_set(&out[0], PH_F32, pick);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x, *latency;
    float       *bias = NULL, *place;
    ph_array     pick;
    int64_t      m = in[0].dim[in[0].rank - 1], rows = ph_array_count(out);
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_dense(&pick, &in[1], e, err));
    if (ph_in(g, n, 2)) {
        PH_TRY(ph_floats(&latency, &in[2], e, err));
        PH_TRY(ph_scratch(&bias, m, e, err));
        e->kernels->scale(bias, latency, (float)ph_node_float(n, "lambda", 1), (size_t)m);
    }
    PH_TRY(ph_scratch(&place, rows, e, err));
    int32_t *own = (int32_t *)(void *)place;
    PH_TRY(ph_modal_indices(own, pick.data, pick.dtype == PH_I64, rows, m, err));
    e->kernels->gate(out->data, x, bias, own, (size_t)rows, (size_t)m);
    return PH_OK;
}

static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    (void)g, (void)n;
    return in[0].dim[in[0].rank - 1] + ph_array_count(out) + 64;
}

static void write_onnx(ph_oo *o, const ph_node *n) {
    const char        *x = ph_oo_in(o, n, 0), *pick = ph_oo_cast(o, ph_oo_in(o, n, 1), PH_OO_INT64);
    const ph_onnx_attr last = PH_OO_INT("axis", -1);
    const int64_t      axis = -1;
    int                is_column = ph_oo_shape(o, n, 1)->rank == ph_oo_shape(o, n, 0)->rank;
    if (ph_oo_has(n, 2))
        x = ph_oo_two(o, "Sub", x,
                      ph_oo_two(o, "Mul", ph_oo_in(o, n, 2), ph_oo_number(o, ph_node_float(n, "lambda", 1))));
    x = ph_oo_make(o, "Softmax", PH_OO_IN(x), &last, 1);
    if (is_column) {
        ph_oo_emit(o, n, "", "GatherElements", PH_OO_IN(x, pick), &last, 1);
        return;
    }
    x = ph_oo_make(o, "GatherElements", PH_OO_IN(x, ph_oo_unsqueeze(o, pick, -1)), &last, 1);
    ph_oo_emit(o, n, "", "Squeeze", PH_OO_IN(x, ph_oo_ints(o, &axis, 1)), PH_OO_NO_ATTRS);
}

const ph_op ph_op_ModalGate = {
    .name = "ModalGate",
    .domain = "pinhole",
    .since = 1,
    .in_min = 2,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .scratch = scratch,
    .onnx = write_onnx,
    .source = "Jacobs et al. 1991 (mixtures of experts); arXiv:1701.06538 §2; this file",
};
