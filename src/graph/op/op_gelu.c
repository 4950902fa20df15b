/* op_gelu.c - Gelu: x/2 (1 + erf(x / sqrt 2)), or its tanh form (opset 20; attribute approximate). */
#include "graph/op/op_help.h"

#include <string.h>

static int is_tanh(const ph_node *n) {
    return !strcmp(ph_node_text(n, "approximate", "none"), "tanh");
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const char *how = ph_node_text(n, "approximate", "none");
    if (strcmp(how, "none") && strcmp(how, "tanh"))
        return PH_FAIL(err, PH_EUNSUP, "Gelu: approximate \"%.32s\" is neither none nor tanh", how);
    return ph_infer_same(g, n, out, err);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_unary(in, out, is_tanh(n) ? e->kernels->gelu_tanh : e->kernels->gelu, e, err);
}

const ph_op ph_op_Gelu = {
    .name = "Gelu",
    .domain = "",
    .since = 20,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Gelu.html",
};
