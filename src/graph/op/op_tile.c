/* op_tile.c - Tile: the array again and again along each axis; how often is a constant list or Sizes (opset
 * 13). */
#include "graph/op/op_number.h"

#include <string.h>

/* Once is the dimension itself, whatever it is; a floor more than once is no ph_dim. */
static int repeat(ph_dim *d, ph_dim times) {
    const ph_dim one = ph_dim_of(1), x = *d;
    if ((ph_dim_has_rest(x) && !ph_dim_same(times, one)) || (ph_dim_has_rest(times) && !ph_dim_same(x, one)))
        return 0;
    return !(ph_dim_is_fixed(times) && times.mul < 0) && ph_dim_mul(x, times, d);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    ph_dim          times[PH_RANK_MAX];
    ph_shape        y = x->shape;
    int             count;
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    PH_TRY(ph_const_dims(g, n, 1, times, PH_RANK_MAX, &count, err));
    if (count != y.rank) return PH_FAIL(err, PH_EMISMATCH, "Tile: %d repeats for rank %d", count, y.rank);
    for (int i = 0; i < count; i++)
        if (!repeat(&y.dim[i], times[i]))
            return PH_FAIL(err, PH_EMISMATCH, "Tile: dimension %d cannot be repeated so", i);
    ph_infer_set(&out[0], x->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x;
    int64_t  count = ph_array_count(out), stride[PH_RANK_MAX], step = 1;
    size_t   item = ph_dtype_bytes(out->dtype);
    (void)g, (void)n;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    for (int i = x.rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x.dim[i];
    }
    ph_walk w = ph_walk_over(out);
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w)) {
        int64_t from = 0;
        for (int d = 0; d < x.rank; d++) from += w.index[d] % x.dim[d] * stride[d];
        memcpy((char *)out->data + (size_t)i * item, (const char *)x.data + (size_t)from * item, item);
    }
    return PH_OK;
}

const ph_op ph_op_Tile = {
    .name = "Tile",
    .domain = "",
    .since = 13,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Tile.html",
};
