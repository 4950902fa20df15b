/* op_mod.c - Mod: the rest of a / b, broadcast as numpy does (opset 13).
 *
 * fmod 0 (whole numbers only): the sign of b; fmod 1: the sign of a. */
#include "graph/op/op_number.h"

#include <math.h>

static int floored(int64_t a, int64_t b, int64_t *out) {
    if (!b) return 0;
    *out = b == -1 ? 0 : a % b;
    if (*out && (*out < 0) != (b < 0)) *out += b;
    return 1;
}

static int cut(int64_t a, int64_t b, int64_t *out) {
    if (!b) return 0;
    *out = b == -1 ? 0 : a % b;
    return 1;
}

static const ph_binary mod = {fmodf, floored}, fmod_ = {fmodf, cut};

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_infer_binary(g, n, out, err));
    if (out[0].dtype == PH_F32 && !ph_node_int(n, "fmod", 0))
        return PH_FAIL(err, PH_EMISMATCH, "Mod of floats wants the attribute fmod = 1");
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_binary(in, out, ph_node_int(n, "fmod", 0) ? &fmod_ : &mod, e, err);
}

const ph_op ph_op_Mod = {
    .name = "Mod",
    .domain = "",
    .since = 13,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Mod.html",
};
