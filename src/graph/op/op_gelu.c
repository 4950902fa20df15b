/* op_gelu.c - Gelu: x/2 (1 + erf(x / sqrt 2)), or its tanh form (opset 20; attribute approximate). */
#include "graph/onnx/onnx_emit.h"
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

/* Before opset 20: x/2 (1 + erf(x / sqrt 2)), or x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). */
static void write_onnx(ph_oo *o, const ph_node *n) {
    const char *x = ph_oo_in(o, n, 0), *t;
    if (o->opset >= 20) {
        ph_oo_plain(o, n);
        return;
    }
    if (is_tanh(n)) {
        t = ph_oo_two(o, "Mul", ph_oo_two(o, "Mul", x, x), ph_oo_number(o, 0.044715));
        t = ph_oo_two(o, "Mul", x, ph_oo_two(o, "Add", t, ph_oo_number(o, 1)));
        t = ph_oo_one(o, "Tanh", ph_oo_two(o, "Mul", t, ph_oo_number(o, 0.7978845608028654)));
    } else {
        t = ph_oo_one(o, "Erf", ph_oo_two(o, "Div", x, ph_oo_number(o, 1.4142135623730951)));
    }
    t = ph_oo_two(o, "Add", t, ph_oo_number(o, 1));
    ph_oo_emit(o, n, "", "Mul", PH_OO_IN(ph_oo_two(o, "Mul", x, ph_oo_number(o, 0.5)), t), PH_OO_NO_ATTRS);
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
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__Gelu.html",
};
