/* op_spacetodepth.c - SpaceToDepth: blocks of pixels become channels (opset 13).
 *
 *     x [N, C, H, W] -> [N, C b^2, H/b, W/b];   the block's place varies slowest */
#include "graph/op/op_help.h"

#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    int64_t         b = ph_node_int(n, "blocksize", 0);
    PH_TRY(ph_want(g, n, 0, x->dtype, 4, err));
    ph_shape y = x->shape;
    if (b < 1 || b > 1 << 15 || !ph_dim_mul(y.dim[1], ph_dim_of(b * b), &y.dim[1]) ||
        !ph_dim_div(y.dim[2], ph_dim_of(b), &y.dim[2]) || !ph_dim_div(y.dim[3], ph_dim_of(b), &y.dim[3]))
        return PH_FAIL(err, PH_EMISMATCH, "SpaceToDepth: a block of %lld does not divide the sides",
                       (long long)b);
    ph_infer_set(&out[0], x->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x;
    int64_t  b = ph_node_int(n, "blocksize", 1), count = ph_array_count(out);
    size_t   item = ph_dtype_bytes(out->dtype);
    (void)g;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    if (x.dim[2] != out->dim[2] * b || x.dim[3] != out->dim[3] * b)
        return PH_FAIL(err, PH_EMISMATCH, "SpaceToDepth: a block of %lld does not divide the sides",
                       (long long)b);
    ph_walk w = ph_walk_over(out);
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w)) {
        int64_t block = w.index[1] / x.dim[1], c = w.index[1] % x.dim[1];
        int64_t h = w.index[2] * b + block / b, v = w.index[3] * b + block % b;
        int64_t from = ((w.index[0] * x.dim[1] + c) * x.dim[2] + h) * x.dim[3] + v;
        memcpy((char *)out->data + (size_t)i * item, (const char *)x.data + (size_t)from * item, item);
    }
    return PH_OK;
}

const ph_op ph_op_SpaceToDepth = {
    .name = "SpaceToDepth",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__SpaceToDepth.html",
};
