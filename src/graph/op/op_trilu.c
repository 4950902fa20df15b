/* op_trilu.c - Trilu: the upper (or lower) triangle of each matrix, the rest zero (opset 14).
 *
 * k, a single number, moves the border to the right. */
#include "graph/op/op_number.h"

#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    int64_t         count;
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    if (x->shape.rank < 2) return PH_FAIL(err, PH_EMISMATCH, "Trilu: x has rank %d", x->shape.rank);
    if (ph_in(g, n, 1)) {
        PH_TRY(ph_want_index(g, n, 1, err));
        if (ph_shape_count(&ph_in(g, n, 1)->shape, NULL, &count, NULL) || count != 1)
            return ph_disagree(g, &x->shape, &ph_in(g, n, 1)->shape, "Trilu wants a single number k", err);
    }
    ph_infer_set(&out[0], x->dtype, &x->shape);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x, k = {0};
    int      upper = ph_node_int(n, "upper", 1) != 0;
    int64_t  shift = 0, count = ph_array_count(out);
    size_t   item = ph_dtype_bytes(out->dtype);
    (void)g;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    if (n->n_in > 1 && n->in[1] >= 0) {
        PH_TRY(ph_dense(&k, &in[1], e, err));
        shift = ph_int_at(&k, 0);
    }
    int64_t rows = out->dim[out->rank - 2], cols = out->dim[out->rank - 1];
    if (shift > cols) shift = cols;
    if (shift < -rows) shift = -rows;
    for (int64_t i = 0; i < count; i++) {
        int64_t r = i / cols % rows, c = i % cols;
        int     keep = upper ? c >= r + shift : c <= r + shift;
        if (keep)
            memcpy((char *)out->data + (size_t)i * item, (const char *)x.data + (size_t)i * item, item);
        else
            memset((char *)out->data + (size_t)i * item, 0, item);
    }
    return PH_OK;
}

const ph_op ph_op_Trilu = {
    .name = "Trilu",
    .domain = "",
    .since = 14,
    .in_min = 1,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Trilu.html",
};
