/* op_gather.c - Gather along one axis (opset 13): rows of an embedding table, or any slice of any array.
 *
 * With axis 0 the data may be a stored weight: only the rows asked for are
 * unpacked.  Negative indices count from the end.
 */
#include "graph/op/op_help.h"

#include <inttypes.h>
#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *data = ph_in(g, n, 0), *index = ph_in(g, n, 1);
    ph_shape        y = {0};
    int             axis;
    PH_TRY(ph_want(g, n, 0, data->dtype, -1, err));
    PH_TRY(ph_want_index(g, n, 1, err));
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), data->shape.rank, &axis, err));
    if (data->shape.rank - 1 + index->shape.rank > PH_RANK_MAX)
        return ph_disagree(g, &data->shape, &index->shape, "Gather would give more than 8 dimensions", err);
    for (int i = 0; i < axis; i++) y.dim[y.rank++] = data->shape.dim[i];
    for (int i = 0; i < index->shape.rank; i++) y.dim[y.rank++] = index->shape.dim[i];
    for (int i = axis + 1; i < data->shape.rank; i++) y.dim[y.rank++] = data->shape.dim[i];
    ph_infer_set(&out[0], data->dtype, &y);
    return PH_OK;
}

static ph_rc index_at(const ph_array *index, int64_t i, int64_t size, int64_t *out, ph_err *err) {
    int64_t at = ph_int_at(index, i);
    if (at < -size || at >= size)
        return PH_FAIL(err, PH_EMISMATCH,
                       "Gather: index %" PRId64 " at place %" PRId64 " of %" PRId64 " entries", at, i, size);
    *out = at < 0 ? at + size : at;
    return PH_OK;
}

/* Rows of a stored table of rank 2 are widened one by one. */
static ph_rc stored_rows(const ph_array *data, const ph_array *index, float *y, int64_t count, ph_err *err) {
    int64_t cols = data->dim[1], at;
    if ((data->storage->n_planes != 1 && !data->storage->form) || !data->storage->plane[0].bytes)
        return PH_FAIL(err, PH_EUNSUP, "Gather: the table has no bytes");
    for (int64_t i = 0; i < count; i++) {
        PH_TRY(index_at(index, i, data->dim[0], &at, err));
        ph_storage_row(data->storage, (size_t)at, (size_t)cols, y + i * cols);
    }
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array data = in[0], index;
    int      axis;
    (void)g;
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), data.rank, &axis, err));
    PH_TRY(ph_dense(&index, &in[1], e, err));
    int64_t count = ph_array_count(&index), at;
    if (!ph_array_count(out)) return PH_OK;
    if (!data.data && data.storage && data.rank == 2 && axis == 0 && data.dtype == PH_F32)
        return stored_rows(&data, &index, out->data, count, err);
    PH_TRY(ph_dense(&data, &in[0], e, err));
    size_t  inner = (size_t)ph_span(&data, axis + 1, data.rank) * ph_dtype_bytes(data.dtype);
    int64_t outer = ph_span(&data, 0, axis), size = data.dim[axis];
    for (int64_t i = 0; i < count; i++) {
        PH_TRY(index_at(&index, i, size, &at, err));
        for (int64_t o = 0; o < outer; o++)
            memcpy((char *)out->data + (size_t)(o * count + i) * inner,
                   (const char *)data.data + (size_t)(o * size + at) * inner, inner);
    }
    return PH_OK;
}

const ph_op ph_op_Gather = {
    .name = "Gather",
    .domain = "",
    .since = 13,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Gather.html",
};
