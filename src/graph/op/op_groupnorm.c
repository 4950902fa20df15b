/* op_groupnorm.c - GroupNormalization: groups of channels of each picture by their own mean and variance
 * (opset 21).
 *
 *     x [N, C, ..], scale [C], bias [C], num_groups */
#include "graph/onnx/onnx_emit.h"
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
            return ph_disagree(g, x, &ph_in(g, n, i)->shape, "GroupNormalization wants one a channel", err);
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

/* Before opset 21 scales belong to groups: the groups are normalised as if they were channels. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    float   one[64], zero[64] = {0};
    int64_t groups = ph_node_int(n, "num_groups", 1), to[3] = {0, groups, -1}, column[PH_RANK_MAX] = {-1};
    int     rank = ph_oo_shape(o, n, 0)->rank;
    if (o->opset >= 21 || groups > 64) {
        ph_oo_plain(o, n);
        return;
    }
    for (int i = 0; i < groups; i++) one[i] = 1;
    for (int i = 1; i < rank - 1; i++) column[i] = 1;
    const char *x = ph_oo_in(o, n, 0), *y = ph_oo_reshape(o, x, to, 3);
    y = ph_oo_make(o, "InstanceNormalization",
                   PH_OO_IN(y, ph_oo_floats(o, one, (size_t)groups), ph_oo_floats(o, zero, (size_t)groups)),
                   PH_OO_ATTRS(PH_OO_FLOAT("epsilon", ph_node_float(n, "epsilon", 1e-5))));
    y = ph_oo_two(o, "Reshape", y, ph_oo_one(o, "Shape", x));
    y = ph_oo_two(o, "Mul", y, ph_oo_reshape(o, ph_oo_in(o, n, 1), column, (size_t)(rank - 1)));
    ph_oo_emit(o, n, "", "Add", PH_OO_IN(y, ph_oo_reshape(o, ph_oo_in(o, n, 2), column, (size_t)(rank - 1))),
               PH_OO_NO_ATTRS);
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
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__GroupNormalization.html",
};
