/* op_scatterelements.c - ScatterElements: data with out[index[i][j]][j] = updates[i][j], and so on for other
 * axes (opset 18).  reduction: none (the later update wins), add, mul, max, min. */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_number.h"

#include <inttypes.h>
#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *data = ph_in(g, n, 0), *index = ph_in(g, n, 1);
    int             axis;
    PH_TRY(ph_want_number(g, n, 0, err));
    PH_TRY(ph_want_index(g, n, 1, err));
    PH_TRY(ph_want(g, n, 1, index->dtype, data->shape.rank, err));
    PH_TRY(ph_want(g, n, 2, data->dtype, -1, err));
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), data->shape.rank, &axis, err));
    if (ph_scatter_kind(n) < 0)
        return PH_FAIL(err, PH_EUNSUP, "ScatterElements: reduction \"%.32s\"",
                       ph_node_text(n, "reduction", ""));
    if (!ph_shape_same(&index->shape, &ph_in(g, n, 2)->shape))
        return ph_disagree(g, &index->shape, &ph_in(g, n, 2)->shape,
                           "ScatterElements wants an update an index", err);
    ph_infer_set(&out[0], data->dtype, &data->shape);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array index, updates;
    int      axis, kind = ph_scatter_kind(n);
    int64_t  stride[PH_RANK_MAX], step = 1;
    (void)g;
    PH_TRY(ph_eval_reshape(&in[0], out, e, err));
    PH_TRY(ph_dense(&index, &in[1], e, err));
    PH_TRY(ph_dense(&updates, &in[2], e, err));
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), out->rank, &axis, err));
    for (int i = out->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= out->dim[i];
    }
    int64_t count = ph_array_count(&index);
    ph_walk w = ph_walk_over(&index);
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w)) {
        int64_t at = ph_int_at(&index, i), size = out->dim[axis], to = 0;
        if (at < -size || at >= size)
            return PH_FAIL(err, PH_EMISMATCH, "ScatterElements: index %" PRId64 " of %" PRId64 " entries", at,
                           size);
        for (int d = 0; d < out->rank; d++) {
            if (d != axis && w.index[d] >= out->dim[d])
                return PH_FAIL(err, PH_EMISMATCH, "ScatterElements: the indices are wider than the data");
            to += (d == axis ? (at < 0 ? at + size : at) : w.index[d]) * stride[d];
        }
        ph_scatter_put(out, to, &updates, i, kind);
    }
    return PH_OK;
}

static void write_onnx(ph_oo *o, const ph_node *n) {
    if (o->opset < 18 && ph_scatter_kind(n) > 2)
        ph_oo_none(o, n, "that reduction");
    else
        ph_oo_plain(o, n);
}

const ph_op ph_op_ScatterElements = {
    .name = "ScatterElements",
    .domain = "",
    .since = 18,
    .in_min = 3,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__ScatterElements.html",
};
