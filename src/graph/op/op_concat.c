/* op_concat.c - Concat (opset 13): arrays one after the other along an axis. */
#include "graph/op/op_help.h"

#include <string.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *first = ph_in(g, n, 0);
    ph_shape        y = first->shape;
    int             axis;
    if (!ph_node_attr(n, "axis")) return PH_FAIL(err, PH_EMISMATCH, "Concat: no axis");
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), y.rank, &axis, err));
    for (int i = 0; i < n->n_in; i++) {
        PH_TRY(ph_want(g, n, i, first->dtype, y.rank, err));
        const ph_shape *s = &ph_in(g, n, i)->shape;
        for (int d = 0; d < y.rank; d++)
            if (d != axis && !ph_dim_same(s->dim[d], first->shape.dim[d]))
                return ph_disagree(g, &first->shape, s, "Concat wants all but the axis equal", err);
        if (i && !ph_dim_add(y.dim[axis], s->dim[axis], &y.dim[axis]))
            return ph_disagree(g, &first->shape, s, "Concat cannot add these dimensions", err);
    }
    ph_infer_set(&out[0], first->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    int     axis;
    int64_t start = 0;
    size_t  item = ph_dtype_bytes(out->dtype);
    (void)g;
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), out->rank, &axis, err));
    int64_t outer = ph_span(out, 0, axis), inner = ph_span(out, axis + 1, out->rank);
    size_t  row = (size_t)(out->dim[axis] * inner) * item;
    for (int i = 0; i < n->n_in; i++) {
        ph_array x;
        PH_TRY(ph_dense(&x, &in[i], e, err));
        size_t piece = (size_t)(x.dim[axis] * inner) * item;
        if (x.dim[axis] > out->dim[axis] - start)
            return PH_FAIL(err, PH_EMISMATCH, "Concat: the inputs are longer than the output");
        for (int64_t o = 0; o < outer && piece; o++)
            memcpy((char *)out->data + (size_t)o * row + (size_t)(start * inner) * item,
                   (const char *)x.data + (size_t)o * piece, piece);
        start += x.dim[axis];
    }
    if (start != out->dim[axis])
        return PH_FAIL(err, PH_EMISMATCH, "Concat: the inputs are shorter than the output");
    return PH_OK;
}

const ph_op ph_op_Concat = {
    .name = "Concat",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = -1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Concat.html",
};
