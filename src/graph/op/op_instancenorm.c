/* op_instancenorm.c - InstanceNormalization: each channel of each picture by its own mean and variance (opset
 * 22).
 *
 *     x [N, C, ..], scale [C], bias [C]:   (x - mean) / sqrt(var + epsilon) * scale + bias */
#include "graph/op/op_help.h"

#include <math.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_infer_same(g, n, out, err));
    for (int i = 1; i < 3; i++) {
        PH_TRY(ph_want(g, n, i, PH_F32, 1, err));
        if (out[0].shape.rank < 2 || !ph_dim_same(ph_in(g, n, i)->shape.dim[0], out[0].shape.dim[1]))
            return ph_disagree(g, &out[0].shape, &ph_in(g, n, i)->shape,
                               "InstanceNormalization wants one a channel", err);
    }
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x, *scale, *bias;
    double       epsilon = ph_node_float(n, "epsilon", 1e-5);
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_floats(&scale, &in[1], e, err));
    PH_TRY(ph_floats(&bias, &in[2], e, err));
    int64_t rows = ph_span(out, 0, 2), size = ph_span(out, 2, out->rank);
    for (int64_t r = 0; r < rows; r++) {
        const float *from = x + r * size;
        float       *to = (float *)out->data + r * size;
        double       mean = 0, var = 0;
        for (int64_t i = 0; i < size; i++) mean += (double)from[i];
        mean /= (double)(size ? size : 1);
        for (int64_t i = 0; i < size; i++) var += ((double)from[i] - mean) * ((double)from[i] - mean);
        double by = (double)scale[r % out->dim[1]] / sqrt(var / (double)(size ? size : 1) + epsilon);
        for (int64_t i = 0; i < size; i++)
            to[i] = (float)(((double)from[i] - mean) * by + (double)bias[r % out->dim[1]]);
    }
    return PH_OK;
}

const ph_op ph_op_InstanceNormalization = {
    .name = "InstanceNormalization",
    .domain = "",
    .since = 22,
    .in_min = 3,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__InstanceNormalization.html",
};
