/* op_scatternd.c - ScatterND (opset 18): data with the slices at `indices` replaced by `updates`.
 *
 * This is where visual tokens take their places among the words: data [R, d],
 * indices [V, 1], updates [V, d].  Later updates of the same place win;
 * reduction add, mul, max and min join them instead.
 */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_number.h"

#include <inttypes.h>
#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *data = ph_in(g, n, 0);
    ph_shape        want = {0};
    PH_TRY(ph_want(g, n, 0, data->dtype, -1, err));
    PH_TRY(ph_want_index(g, n, 1, err));
    PH_TRY(ph_want(g, n, 2, data->dtype, -1, err));
    const ph_shape *d = &data->shape, *index = &ph_in(g, n, 1)->shape, *updates = &ph_in(g, n, 2)->shape;
    int             kind = ph_scatter_kind(n);
    if (kind < 0 || (kind && data->dtype != PH_F32 && !ph_is_whole(data->dtype)))
        return PH_FAIL(err, PH_EUNSUP, "ScatterND: reduction \"%.32s\"",
                       ph_node_text(n, "reduction", "none"));
    if (!index->rank || !ph_dim_is_fixed(index->dim[index->rank - 1]) ||
        index->dim[index->rank - 1].mul > d->rank)
        return ph_disagree(g, d, index, "ScatterND wants indices [.., k], k at most the rank of the data",
                           err);
    int k = (int)index->dim[index->rank - 1].mul;
    if (index->rank - 1 + d->rank - k > PH_RANK_MAX)
        return ph_disagree(g, d, index, "ScatterND's updates would have more than 8 dimensions", err);
    for (int i = 0; i + 1 < index->rank; i++) want.dim[want.rank++] = index->dim[i];
    for (int i = k; i < d->rank; i++) want.dim[want.rank++] = d->dim[i];
    if (!ph_shape_same(&want, updates))
        return ph_disagree(g, updates, &want, "updates of ScatterND, and wanted", err);
    ph_infer_set(&out[0], data->dtype, d);
    return PH_OK;
}

/* Where the slice of index tuple i begins, in slices. */
static ph_rc place(const ph_array *data, const ph_array *index, int64_t i, int k, int64_t *out, ph_err *err) {
    int64_t at = 0;
    for (int d = 0; d < k; d++) {
        int64_t one = ph_int_at(index, i * k + d), size = data->dim[d];
        if (one < -size || one >= size)
            return PH_FAIL(err, PH_EMISMATCH, "ScatterND: index %" PRId64 " of %" PRId64 " entries", one,
                           size);
        at = at * size + (one < 0 ? one + size : one);
    }
    *out = at;
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array index, updates;
    int64_t  at = 0;
    int      kind = ph_scatter_kind(n);
    (void)g;
    PH_TRY(ph_eval_reshape(&in[0], out, e, err));
    PH_TRY(ph_dense(&index, &in[1], e, err));
    PH_TRY(ph_dense(&updates, &in[2], e, err));
    int     k = (int)index.dim[index.rank - 1];
    int64_t count = ph_span(&index, 0, index.rank - 1);
    int64_t items = ph_span(out, k, out->rank);
    size_t  slice = (size_t)items * ph_dtype_bytes(out->dtype);
    for (int64_t i = 0; i < count; i++) {
        PH_TRY(place(out, &index, i, k, &at, err));
        for (int64_t j = 0; kind && j < items; j++)
            ph_scatter_put(out, at * items + j, &updates, i * items + j, kind);
        if (slice && !kind)
            memcpy((char *)out->data + (size_t)at * slice, (const char *)updates.data + (size_t)i * slice,
                   slice);
    }
    return PH_OK;
}

/* Indices are i64 there. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    const char *at = ph_oo_in(o, n, 1);
    if (o->g->value[n->in[1]].dtype != PH_I64) at = ph_oo_cast(o, at, PH_OO_INT64);
    if (o->opset < 18 && ph_scatter_kind(n) > 2)
        ph_oo_none(o, n, "that reduction");
    else
        ph_oo_plain_with(o, n, PH_OO_IN(ph_oo_in(o, n, 0), at, ph_oo_in(o, n, 2)), "");
}

const ph_op ph_op_ScatterND = {
    .name = "ScatterND",
    .domain = "",
    .since = 18,
    .in_min = 3,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__ScatterND.html",
};
