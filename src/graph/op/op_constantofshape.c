/* op_constantofshape.c - ConstantOfShape: one number everywhere; the shape is a constant list or Sizes (opset
 * 9).
 *
 * ONNX's attribute value, a tensor, is here: to (an ONNX element type, default 1: float) and the number as
 * whole or real. */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_number.h"

#include <string.h>

static const struct {
    int      onnx;
    ph_dtype dtype;
} types[] = {{1, PH_F32}, {2, PH_U8}, {3, PH_I8}, {6, PH_I32}, {7, PH_I64}, {9, PH_BOOL}};

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_shape y = {0};
    int64_t  to = ph_node_int(n, "to", 1);
    PH_TRY(ph_const_dims(g, n, 0, y.dim, PH_RANK_MAX, &y.rank, err));
    for (int i = 0; i < y.rank; i++)
        if (ph_dim_is_fixed(y.dim[i]) && y.dim[i].mul < 0)
            return PH_FAIL(err, PH_EMISMATCH, "ConstantOfShape: dimension %lld", (long long)y.dim[i].mul);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].onnx == to) {
            ph_infer_set(&out[0], types[i].dtype, &y);
            return PH_OK;
        }
    return PH_FAIL(err, PH_EUNSUP, "ConstantOfShape of ONNX type %lld", (long long)to);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    int64_t count = ph_array_count(out), whole = ph_node_int(n, "whole", 0);
    float   real = (float)ph_node_float(n, "real", 0);
    (void)g, (void)in, (void)e, (void)err;
    for (int64_t i = 0; i < count; i++)
        if (out->dtype == PH_F32)
            ((float *)out->data)[i] = real;
        else
            ph_int_put(out, i, whole);
    return PH_OK;
}

static void write_onnx(ph_oo *o, const ph_node *n) {
    uint8_t  bytes[8] = {0};
    ph_array one = {.data = bytes, .dtype = o->g->value[n->out[0]].dtype};
    float    real = (float)ph_node_float(n, "real", 0);
    if (one.dtype == PH_F32)
        memcpy(bytes, &real, sizeof real);
    else
        ph_int_put(&one, 0, ph_node_int(n, "whole", 0));
    const ph_onnx_tensor value = {.type = ph_oo_type(one.dtype),
                                  .rank = 1,
                                  .dim = {1},
                                  .bytes = bytes,
                                  .n_bytes = ph_dtype_bytes(one.dtype)};
    const ph_onnx_attr   attr = {.name = "value", .type = PH_ONNX_A_TENSOR, .tensor = &value};
    ph_oo_emit(o, n, "", "ConstantOfShape", PH_OO_IN(ph_oo_in(o, n, 0)), &attr, 1);
}

const ph_op ph_op_ConstantOfShape = {
    .name = "ConstantOfShape",
    .domain = "",
    .since = 9,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__ConstantOfShape.html",
};
