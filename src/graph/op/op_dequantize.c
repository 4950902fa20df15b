/* op_dequantize.c - DequantizeLinear: (x - zero point) * scale, in f32 (opset 21).
 *
 * Scales as QuantizeLinear has them (op_quantize.c). */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_quantize.h"

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_dtype t = ph_in(g, n, 0)->dtype;
    PH_TRY(ph_want(g, n, 0, t, -1, err));
    if (!ph_is_whole(t) || t == PH_BOOL || t == PH_I64 || t == PH_U64 || t == PH_U32)
        return PH_FAIL(err, PH_EMISMATCH, "DequantizeLinear of %s", ph_dtype_name(t));
    PH_TRY(ph_scales_check(g, n, t, err));
    ph_infer_set(&out[0], PH_F32, &ph_in(g, n, 0)->shape);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array  x;
    ph_scales s;
    int64_t   count = ph_array_count(out);
    (void)g;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(ph_scales_open(&s, n, in, e, err));
    for (int64_t i = 0; i < count; i++) {
        int64_t at = ph_scales_at(&s, i), zero = s.zero.data ? ph_int_at(&s.zero, at) : 0;
        ((float *)out->data)[i] = (float)(ph_int_at(&x, i) - zero) * s.scale[at];
    }
    return PH_OK;
}

static void write_onnx(ph_oo *o, const ph_node *n) {
    const ph_dtype given = ph_in(o->g, n, 0)->dtype;
    if (o->opset < 21 && given != PH_U8 && given != PH_I8 && given != PH_I32) {
        ph_oo_none(o, n, "numbers of 16 bits are not there");
        return;
    }
    ph_oo_plain_with(o, n, PH_OO_IN(ph_oo_in(o, n, 0), ph_oo_in(o, n, 1), ph_oo_in(o, n, 2)),
                     ph_node_int(n, "block_size", 0) ? "to" : "to block_size");
}

const ph_op ph_op_DequantizeLinear = {
    .name = "DequantizeLinear",
    .domain = "",
    .since = 21,
    .in_min = 2,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__DequantizeLinear.html",
};
