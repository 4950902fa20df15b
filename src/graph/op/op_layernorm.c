/* op_layernorm.c - LayerNormalization over the last axis: (x - mean) / sqrt(var + epsilon) * scale + bias.
 *
 * Opset 17 with one output; other axes and the statistics as outputs are not done. */
#include "graph/op/op_help.h"

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_shape *x, *scale;
    int             axis;
    PH_TRY(ph_infer_same(g, n, out, err));
    x = &ph_in(g, n, 0)->shape;
    PH_TRY(ph_axis(ph_node_int(n, "axis", -1), x->rank, &axis, err));
    if (axis != x->rank - 1)
        return PH_FAIL(err, PH_EUNSUP, "LayerNormalization: axis %d is not the last", axis);
    PH_TRY(ph_want_int(n, "stash_type", 1, err));
    for (int i = 1; i < n->n_in; i++) {
        if (i == 2 && n->in[i] < 0) continue;
        PH_TRY(ph_want(g, n, i, PH_F32, 1, err));
        scale = &ph_in(g, n, i)->shape;
        if (!ph_dim_same(scale->dim[0], x->dim[axis]))
            return ph_disagree(g, x, scale,
                               "LayerNormalization wants a scale and a bias of the last dimension", err);
    }
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x, *scale, *bias = NULL;
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_floats(&scale, &in[1], e, err));
    if (n->n_in > 2 && n->in[2] >= 0) PH_TRY(ph_floats(&bias, &in[2], e, err));
    if (!ph_array_count(out)) return PH_OK;
    e->kernels->layernorm(out->data, x, scale, bias, (size_t)ph_span(out, 0, out->rank - 1),
                          (size_t)out->dim[out->rank - 1], (float)ph_node_float(n, "epsilon", 1e-5));
    return PH_OK;
}

const ph_op ph_op_LayerNormalization = {
    .name = "LayerNormalization",
    .domain = "",
    .since = 17,
    .in_min = 2,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__LayerNormalization.html",
};
