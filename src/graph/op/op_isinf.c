/* op_isinf.c - IsInf: whether it is infinite (attributes detect_negative, detect_positive), element by
 * element (opset 20). */
#include "graph/op/op_number.h"

#include <math.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    ph_infer_set(&out[0], PH_BOOL, &ph_in(g, n, 0)->shape);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x;
    int64_t      count = ph_array_count(out);
    int down = ph_node_int(n, "detect_negative", 1) != 0, up = ph_node_int(n, "detect_positive", 1) != 0;
    (void)g, (void)n;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    for (int64_t i = 0; i < count; i++)
        ((uint8_t *)out->data)[i] = (isinf(x[i]) && (x[i] > 0 ? up : down)) != 0;
    return PH_OK;
}

const ph_op ph_op_IsInf = {
    .name = "IsInf",
    .domain = "",
    .since = 20,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__IsInf.html",
};
