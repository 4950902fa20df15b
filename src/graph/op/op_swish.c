/* op_swish.c - Swish: x / (1 + exp(-alpha x)) (opset 24).  alpha 1 is SiLU, 1.702 the quick form of GELU. */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <math.h>
#include <string.h>

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    float        alpha = (float)ph_node_float(n, "alpha", 1.0);
    const float *x;
    float       *y = out->data;
    size_t       count = (size_t)ph_array_count(out);
    (void)g;
    if (fabsf(alpha - 1.0f) <= 0) return ph_eval_unary(in, out, e->kernels->silu, e, err);
    if (fabsf(alpha - 1.702f) <= 0) return ph_eval_unary(in, out, e->kernels->gelu_quick, e, err);
    PH_TRY(ph_floats(&x, in, e, err));
    e->kernels->scale(y, x, alpha, count);
    e->kernels->sigmoid(y, y, count);
    e->kernels->mul(y, y, x, count);
    return PH_OK;
}

static void write_onnx(ph_oo *o, const ph_node *n) {
    const char *x = ph_oo_in(o, n, 0);
    double      alpha = ph_node_float(n, "alpha", 1.0);
    const char *a = alpha < 1 || alpha > 1 ? ph_oo_two(o, "Mul", x, ph_oo_number(o, alpha)) : x;
    ph_oo_emit(o, n, "", "Mul", PH_OO_IN(x, ph_oo_one(o, "Sigmoid", a)), PH_OO_NO_ATTRS);
}

const ph_op ph_op_Swish = {
    .name = "Swish",
    .domain = "",
    .since = 24,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_same,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__Swish.html",
};
