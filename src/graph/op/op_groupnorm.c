/* op_groupnorm.c - GroupNormalization: groups of channels of each picture by their own mean and variance
 * (opset 21).
 *
 *     x [N, C, ..], scale [C], bias [C], num_groups */
#include "graph/op/op_help.h"

#include <math.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int64_t groups = ph_node_int(n, "num_groups", 0);
    PH_TRY(ph_infer_same(g, n, out, err));
    const ph_shape *x = &out[0].shape;
    if (x->rank < 2 || !ph_dim_is_fixed(x->dim[1]) || groups < 1 || x->dim[1].mul % groups)
        return PH_FAIL(err, PH_EMISMATCH, "GroupNormalization: %lld groups for these channels",
                       (long long)groups);
    for (int i = 1; i < 3; i++) {
        PH_TRY(ph_want(g, n, i, PH_F32, 1, err));
        if (!ph_dim_same(ph_in(g, n, i)->shape.dim[0], x->dim[1]))
            return ph_disagree(x, &ph_in(g, n, i)->shape, "GroupNormalization wants one a channel", err);
    }
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x, *scale, *bias;
    double       epsilon = ph_node_float(n, "epsilon", 1e-5);
    int64_t      groups = ph_node_int(n, "num_groups", 1), inner = ph_span(out, 2, out->rank);
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_floats(&scale, &in[1], e, err));
    PH_TRY(ph_floats(&bias, &in[2], e, err));
    int64_t channels = out->dim[1] / groups, size = channels * inner;
    for (int64_t r = 0; size && r < out->dim[0] * groups; r++) {
        const float *from = x + r * size;
        double       mean = 0, var = 0;
        for (int64_t i = 0; i < size; i++) mean += (double)from[i];
        mean /= (double)size;
        for (int64_t i = 0; i < size; i++) var += ((double)from[i] - mean) * ((double)from[i] - mean);
        double by = 1 / sqrt(var / (double)size + epsilon);
        for (int64_t i = 0; i < size; i++) {
            int64_t c = r % groups * channels + i / inner;
            ((float *)out->data)[r * size + i] =
                (float)(((double)from[i] - mean) * by * (double)scale[c] + (double)bias[c]);
        }
    }
    return PH_OK;
}

const ph_op ph_op_GroupNormalization = {
    .name = "GroupNormalization",
    .domain = "",
    .since = 21,
    .in_min = 3,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__GroupNormalization.html",
};
