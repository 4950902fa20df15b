/* op_dynamicquantize.c - DynamicQuantizeLinear: to u8 by the array's own range, which is made to hold 0
 * (opset 11).
 *
 *     scale = (max - min) / 255,  zero = round(clamp(-min / scale)),  y = clamp(round(x / scale) + zero) */
#include "graph/op/op_help.h"

#include <math.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_shape one = ph_shape_of(0);
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    ph_infer_set(&out[0], PH_U8, &ph_in(g, n, 0)->shape);
    ph_infer_set(&out[1], PH_F32, &one);
    ph_infer_set(&out[2], PH_U8, &one);
    return PH_OK;
}

static float held(float x) {
    return isnan(x) ? 0 : fmaxf(0, fminf(255, x));
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x;
    float        low = 0, high = 0;
    int64_t      count = ph_array_count(&in[0]);
    (void)g, (void)n;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    for (int64_t i = 0; i < count; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    float scale = (high - low) / 255.0f;
    if (!(scale > 0)) scale = 1;
    uint8_t zero = (uint8_t)rintf(held(0 - low / scale));
    for (int64_t i = 0; i < count; i++)
        ((uint8_t *)out[0].data)[i] = (uint8_t)held(rintf(x[i] / scale) + (float)zero);
    *(float *)out[1].data = scale;
    *(uint8_t *)out[2].data = zero;
    return PH_OK;
}

const ph_op ph_op_DynamicQuantizeLinear = {
    .name = "DynamicQuantizeLinear",
    .domain = "",
    .since = 11,
    .in_min = 1,
    .in_max = 1,
    .out_min = 3,
    .out_max = 3,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html",
};
