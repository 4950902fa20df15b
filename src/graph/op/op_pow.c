/* op_pow.c - Pow: a to the power b, broadcast as numpy does, in f32 (opset 15). */
#include "graph/op/op_help.h"

#include <math.h>

static const ph_binary power = {powf, NULL};

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    PH_TRY(ph_want(g, n, 1, PH_F32, -1, err));
    return ph_infer_binary(g, n, out, err);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_binary(in, out, &power, e, err);
}

const ph_op ph_op_Pow = {
    .name = "Pow",
    .domain = "",
    .since = 15,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Pow.html",
};
