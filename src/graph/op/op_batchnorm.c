/* op_batchnorm.c - BatchNormalization as it is used after training: each channel by a stored mean and
 * variance (opset 15).
 *
 *     x [N, C, ..], scale, bias, mean, var [C]:   (x - mean) / sqrt(var + epsilon) * scale + bias */
#include "graph/op/op_help.h"

#include <math.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_infer_same(g, n, out, err));
    PH_TRY(ph_want_int(n, "training_mode", 0, err));
    for (int i = 1; i < 5; i++) {
        PH_TRY(ph_want(g, n, i, PH_F32, 1, err));
        if (out[0].shape.rank < 2 || !ph_dim_same(ph_in(g, n, i)->shape.dim[0], out[0].shape.dim[1]))
            return ph_disagree(g, &out[0].shape, &ph_in(g, n, i)->shape,
                               "BatchNormalization wants one a channel", err);
    }
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x, *of[4]; /* scale, bias, mean, var */
    double       epsilon = ph_node_float(n, "epsilon", 1e-5);
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    for (int i = 0; i < 4; i++) PH_TRY(ph_floats(&of[i], &in[i + 1], e, err));
    int64_t rows = ph_span(out, 0, 2), size = ph_span(out, 2, out->rank);
    for (int64_t r = 0; r < rows; r++) {
        int64_t c = r % out->dim[1];
        double  by = (double)of[0][c] / sqrt((double)of[3][c] + epsilon);
        for (int64_t i = 0; i < size; i++)
            ((float *)out->data)[r * size + i] =
                (float)(((double)x[r * size + i] - (double)of[2][c]) * by + (double)of[1][c]);
    }
    return PH_OK;
}

const ph_op ph_op_BatchNormalization = {
    .name = "BatchNormalization",
    .domain = "",
    .since = 15,
    .in_min = 5,
    .in_max = 5,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__BatchNormalization.html",
};
