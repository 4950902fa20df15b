/* op_gathernd.c - GatherND: the slices of data that index tuples name (opset 13), after batch_dims common
 * axes. */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_number.h"

#include <inttypes.h>
#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *data = ph_in(g, n, 0), *index = ph_in(g, n, 1);
    int64_t         b = ph_node_int(n, "batch_dims", 0);
    ph_shape        y = {0};
    PH_TRY(ph_want(g, n, 0, data->dtype, -1, err));
    PH_TRY(ph_want_index(g, n, 1, err));
    const ph_shape *d = &data->shape, *s = &index->shape;
    if (!s->rank || !d->rank || b < 0 || b >= s->rank || b >= d->rank ||
        !ph_dim_is_fixed(s->dim[s->rank - 1]) || s->dim[s->rank - 1].mul < 1 ||
        s->dim[s->rank - 1].mul > d->rank - b)
        return ph_disagree(g, d, s, "GatherND wants indices [.., k], k at most the rank of the data", err);
    int k = (int)s->dim[s->rank - 1].mul;
    if (s->rank - 1 + d->rank - (int)b - k > PH_RANK_MAX)
        return ph_disagree(g, d, s, "GatherND would give more than 8 dimensions", err);
    for (int i = 0; i < (int)b; i++)
        if (!ph_dim_same(d->dim[i], s->dim[i]))
            return ph_disagree(g, d, s, "GatherND wants equal batches", err);
    for (int i = 0; i + 1 < s->rank; i++) y.dim[y.rank++] = s->dim[i];
    for (int i = (int)b + k; i < d->rank; i++) y.dim[y.rank++] = d->dim[i];
    ph_infer_set(&out[0], data->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array data, index;
    int      b = (int)ph_node_int(n, "batch_dims", 0);
    (void)g;
    PH_TRY(ph_dense(&data, &in[0], e, err));
    PH_TRY(ph_dense(&index, &in[1], e, err));
    int     k = (int)index.dim[index.rank - 1];
    int64_t tuples = ph_span(&index, b, index.rank - 1), batches = ph_span(&data, 0, b);
    size_t  slice = (size_t)ph_span(&data, b + k, data.rank) * ph_dtype_bytes(data.dtype);
    for (int64_t i = 0; i < tuples * batches; i++) {
        int64_t at = i / tuples;
        for (int j = 0; j < k; j++) {
            int64_t one = ph_int_at(&index, i * k + j), size = data.dim[b + j];
            if (one < -size || one >= size)
                return PH_FAIL(err, PH_EMISMATCH, "GatherND: index %" PRId64 " of %" PRId64 " entries", one,
                               size);
            at = at * size + (one < 0 ? one + size : one);
        }
        if (slice)
            memcpy((char *)out->data + (size_t)i * slice, (const char *)data.data + (size_t)at * slice,
                   slice);
    }
    return PH_OK;
}

/* Indices are i64 there. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    const char *at = ph_oo_in(o, n, 1);
    if (o->g->value[n->in[1]].dtype != PH_I64) at = ph_oo_cast(o, at, PH_OO_INT64);
    ph_oo_plain_with(o, n, PH_OO_IN(ph_oo_in(o, n, 0), at), "");
}

const ph_op ph_op_GatherND = {
    .name = "GatherND",
    .domain = "",
    .since = 13,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__GatherND.html",
};
