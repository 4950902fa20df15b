/* op_where.c - Where (opset 16): a where the condition holds, else b; all three broadcast. */
#include "graph/op/op_help.h"

#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *a = ph_in(g, n, 1);
    ph_shape        y;
    PH_TRY(ph_want(g, n, 0, PH_BOOL, -1, err));
    PH_TRY(ph_want(g, n, 1, a->dtype, -1, err));
    PH_TRY(ph_want(g, n, 2, a->dtype, -1, err));
    PH_TRY(ph_broadcast(g, &a->shape, &ph_in(g, n, 2)->shape, &y, err));
    PH_TRY(ph_broadcast(g, &y, &ph_in(g, n, 0)->shape, &y, err));
    ph_infer_set(&out[0], a->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x[3];
    int64_t  count = ph_array_count(out);
    size_t   item = ph_dtype_bytes(out->dtype);
    ph_walk  w = ph_walk_over(out);
    (void)g, (void)n;
    for (int i = 0; i < 3; i++) {
        PH_TRY(ph_dense(&x[i], &in[i], e, err));
        ph_walk_add(&w, &x[i]);
    }
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w)) {
        int from = ((const unsigned char *)x[0].data)[w.at[0]] ? 1 : 2;
        memcpy((char *)out->data + (size_t)i * item, (const char *)x[from].data + (size_t)w.at[from] * item,
               item);
    }
    return PH_OK;
}

const ph_op ph_op_Where = {
    .name = "Where",
    .domain = "",
    .since = 16,
    .in_min = 3,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Where.html",
};
