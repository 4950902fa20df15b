/* op_add.c - Add: a + b, broadcast as numpy does. Whole numbers wrap. */
#include "graph/op/op_help.h"

static float real(float a, float b) {
    return a + b;
}

static int whole(int64_t a, int64_t b, int64_t *out) {
    *out = (int64_t)((uint64_t)a + (uint64_t)b);
    return 1;
}

static const ph_binary add = {real, whole};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_binary(in, out, &add, e, err);
}

const ph_op ph_op_Add = {
    .name = "Add",
    .domain = "",
    .since = 14,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_binary,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Add.html",
};
