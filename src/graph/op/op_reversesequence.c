/* op_reversesequence.c - ReverseSequence: the first sequence_lens[b] elements of each sequence backwards
 * (opset 10). */
#include "graph/op/op_number.h"

#include <string.h>

/* Time and batch are axes 0 and 1, in either order. */
static ph_rc axes_of(const ph_node *n, int *time, int *batch, ph_err *err) {
    int64_t t = ph_node_int(n, "time_axis", 0), b = ph_node_int(n, "batch_axis", 1);
    *time = t != 0;
    *batch = b != 0;
    if ((t == 0 && b == 1) || (t == 1 && b == 0)) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "ReverseSequence: time axis %lld, batch axis %lld", (long long)t,
                   (long long)b);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    int             time, batch;
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    PH_TRY(ph_want(g, n, 1, PH_I64, 1, err));
    PH_TRY(axes_of(n, &time, &batch, err));
    if (x->shape.rank < 2 || !ph_dim_same(x->shape.dim[batch], ph_in(g, n, 1)->shape.dim[0]))
        return ph_disagree(g, &x->shape, &ph_in(g, n, 1)->shape,
                           "ReverseSequence wants one length a sequence", err);
    ph_infer_set(&out[0], x->dtype, &x->shape);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x, length;
    int      time, batch;
    (void)g;
    PH_TRY(axes_of(n, &time, &batch, err));
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(ph_dense(&length, &in[1], e, err));
    size_t row = (size_t)ph_span(&x, 2, x.rank) * ph_dtype_bytes(x.dtype);
    for (int64_t b = 0; b < x.dim[batch]; b++) {
        int64_t size = ph_int_at(&length, b);
        if (size < 0 || size > x.dim[time])
            return PH_FAIL(err, PH_EMISMATCH, "ReverseSequence: a length of %lld", (long long)size);
        for (int64_t t = 0; t < x.dim[time] && row; t++) {
            int64_t from = t < size ? size - 1 - t : t, wide = x.dim[1];
            int64_t to_at = time ? b * wide + t : t * wide + b,
                    from_at = time ? b * wide + from : from * wide + b;
            memcpy((char *)out->data + (size_t)to_at * row, (const char *)x.data + (size_t)from_at * row,
                   row);
        }
    }
    return PH_OK;
}

const ph_op ph_op_ReverseSequence = {
    .name = "ReverseSequence",
    .domain = "",
    .since = 10,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__ReverseSequence.html",
};
