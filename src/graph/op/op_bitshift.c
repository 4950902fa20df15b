/* op_bitshift.c - BitShift: whole numbers without a sign, moved left or right (opset 11); direction LEFT,
 * RIGHT. */
#include "graph/op/op_number.h"

#include <string.h>

static int left(int64_t a, int64_t b, int64_t *out) {
    *out = b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
    return 1;
}

static int right(int64_t a, int64_t b, int64_t *out) {
    *out = b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a >> b);
    return 1;
}

static const ph_binary to_left = {NULL, left}, to_right = {NULL, right};

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const char *way = ph_node_text(n, "direction", "");
    ph_dtype    t = ph_in(g, n, 0)->dtype;
    if (strcmp(way, "LEFT") && strcmp(way, "RIGHT"))
        return PH_FAIL(err, PH_EMISMATCH, "BitShift: direction \"%.32s\"", way);
    if (t != PH_U8 && t != PH_U16 && t != PH_U32 && t != PH_U64)
        return PH_FAIL(err, PH_EMISMATCH, "BitShift of %s", ph_dtype_name(t));
    return ph_infer_binary(g, n, out, err);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_eval_binary(in, out, strcmp(ph_node_text(n, "direction", ""), "LEFT") ? &to_right : &to_left, e,
                          err);
}

const ph_op ph_op_BitShift = {
    .name = "BitShift",
    .domain = "",
    .since = 11,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__BitShift.html",
};
