/* op_gatherelements.c - GatherElements: out[i][j] = data[index[i][j]][j], and so on for other axes (opset
 * 13). */
#include "graph/op/op_number.h"

#include <inttypes.h>
#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *data = ph_in(g, n, 0), *index = ph_in(g, n, 1);
    int             axis;
    PH_TRY(ph_want(g, n, 0, data->dtype, index->shape.rank, err));
    PH_TRY(ph_want_index(g, n, 1, err));
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), data->shape.rank, &axis, err));
    for (int i = 0; i < index->shape.rank; i++) {
        ph_dim d = data->shape.dim[i], k = index->shape.dim[i];
        if (i != axis && !ph_dim_same(d, k) && !(ph_dim_is_fixed(d) && ph_dim_is_fixed(k) && k.mul <= d.mul))
            return ph_disagree(g, &data->shape, &index->shape, "GatherElements wants indices within the data",
                               err);
    }
    ph_infer_set(&out[0], data->dtype, &index->shape);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array data, index;
    int      axis;
    int64_t  stride[PH_RANK_MAX], step = 1, count = ph_array_count(out);
    size_t   item = ph_dtype_bytes(out->dtype);
    (void)g;
    PH_TRY(ph_dense(&data, &in[0], e, err));
    PH_TRY(ph_dense(&index, &in[1], e, err));
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), data.rank, &axis, err));
    for (int i = data.rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= data.dim[i];
    }
    ph_walk w = ph_walk_over(out);
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w)) {
        int64_t at = ph_int_at(&index, i), size = data.dim[axis], from = 0;
        if (at < -size || at >= size)
            return PH_FAIL(err, PH_EMISMATCH, "GatherElements: index %" PRId64 " of %" PRId64 " entries", at,
                           size);
        for (int d = 0; d < data.rank; d++)
            from += (d == axis ? (at < 0 ? at + size : at) : w.index[d]) * stride[d];
        memcpy((char *)out->data + (size_t)i * item, (const char *)data.data + (size_t)from * item, item);
    }
    return PH_OK;
}

const ph_op ph_op_GatherElements = {
    .name = "GatherElements",
    .domain = "",
    .since = 13,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__GatherElements.html",
};
