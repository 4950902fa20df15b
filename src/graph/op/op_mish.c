/* op_mish.c - Mish: x tanh(log(1 + e^x)), element by element (opset 22). */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_number.h"

#include <math.h>

static float real(float x) {
    return x * tanhf(x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x)));
}

static const ph_unary each = {real, NULL};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_number(in, out, &each, e, err);
}

static void write_onnx(ph_oo *o, const ph_node *n) {
    const char *x = ph_oo_in(o, n, 0);
    if (o->opset >= 18)
        ph_oo_plain(o, n);
    else
        ph_oo_emit(o, n, "", "Mul", PH_OO_IN(x, ph_oo_one(o, "Tanh", ph_oo_one(o, "Softplus", x))),
                   PH_OO_NO_ATTRS);
}

const ph_op ph_op_Mish = {
    .name = "Mish",
    .domain = "",
    .since = 22,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_same,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__Mish.html",
};
