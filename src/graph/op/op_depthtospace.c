/* op_depthtospace.c - DepthToSpace: blocks of channels become blocks of pixels (opset 13).
 *
 *     x [N, C, H, W] -> [N, C/b^2, H b, W b];   mode DCR: the block's place varies slowest, CRD: fastest */
#include "graph/op/op_help.h"

#include <string.h>

/* A side b times as long; where it is a floor, no ph_dim holds that. */
static int widen(ph_dim *side, int64_t b) {
    return (b == 1 || !ph_dim_has_rest(*side)) && ph_dim_mul(*side, ph_dim_of(b), side);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    int64_t         b = ph_node_int(n, "blocksize", 0);
    const char     *mode = ph_node_text(n, "mode", "DCR");
    PH_TRY(ph_want(g, n, 0, x->dtype, 4, err));
    ph_shape y = x->shape;
    if (strcmp(mode, "DCR") && strcmp(mode, "CRD"))
        return PH_FAIL(err, PH_EUNSUP, "DepthToSpace: mode \"%.32s\"", mode);
    if (b < 1 || b > 1 << 15 || !ph_dim_is_fixed(y.dim[1]) || y.dim[1].mul % (b * b) ||
        !widen(&y.dim[2], b) || !widen(&y.dim[3], b))
        return PH_FAIL(err, PH_EMISMATCH, "DepthToSpace: a block of %lld for these channels", (long long)b);
    y.dim[1] = ph_dim_of(y.dim[1].mul / (b * b));
    ph_infer_set(&out[0], x->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x;
    int64_t  b = ph_node_int(n, "blocksize", 1), count = ph_array_count(out);
    int      crd = !strcmp(ph_node_text(n, "mode", "DCR"), "CRD");
    size_t   item = ph_dtype_bytes(out->dtype);
    (void)g;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    ph_walk w = ph_walk_over(out);
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w)) {
        int64_t c = w.index[1], h = w.index[2], v = w.index[3], at = h % b * b + v % b;
        int64_t from = crd ? c * b * b + at : at * out->dim[1] + c;
        from = ((w.index[0] * x.dim[1] + from) * x.dim[2] + h / b) * x.dim[3] + v / b;
        memcpy((char *)out->data + (size_t)i * item, (const char *)x.data + (size_t)from * item, item);
    }
    return PH_OK;
}

const ph_op ph_op_DepthToSpace = {
    .name = "DepthToSpace",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__DepthToSpace.html",
};
