/* op_expand.c - Expand (opset 13): broadcast to a constant shape, or Sizes; a 1 in it keeps what is there. */
#include "graph/op/op_number.h"

#include <inttypes.h>
#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    ph_shape        to = {0}, y;
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    PH_TRY(ph_const_dims(g, n, 1, to.dim, PH_RANK_MAX, &to.rank, err));
    for (int i = 0; i < to.rank; i++)
        if (ph_dim_is_fixed(to.dim[i]) && to.dim[i].mul < 0)
            return PH_FAIL(err, PH_EMISMATCH, "Expand: dimension %" PRId64, to.dim[i].mul);
    PH_TRY(ph_broadcast(g, &x->shape, &to, &y, err));
    ph_infer_set(&out[0], x->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x;
    int64_t  count = ph_array_count(out);
    size_t   item = ph_dtype_bytes(out->dtype);
    (void)g, (void)n;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    ph_walk w = ph_walk_over(out);
    ph_walk_add(&w, &x);
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w))
        memcpy((char *)out->data + (size_t)i * item, (const char *)x.data + (size_t)w.at[0] * item, item);
    return PH_OK;
}

const ph_op ph_op_Expand = {
    .name = "Expand",
    .domain = "",
    .since = 13,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Expand.html",
};
