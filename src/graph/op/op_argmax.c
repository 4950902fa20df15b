/* op_argmax.c - ArgMax: the place of the largest element along one axis (opset 13); select_last_index takes
 * the last of equals. */
#include "graph/op/op_axis.h"

static int real(float a, float b) {
    return a > b;
}

static int whole(int64_t a, int64_t b) {
    return a > b;
}

static const ph_compare beats = {real, whole};

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_place(n, in, out, &beats, e, err);
}

const ph_op ph_op_ArgMax = {
    .name = "ArgMax",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = ph_infer_place,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__ArgMax.html",
};
