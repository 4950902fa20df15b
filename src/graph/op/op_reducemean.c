/* op_reducemean.c - ReduceMean (opset 18): the mean over a constant list of axes, summed in double. */
#include "graph/op/op_help.h"

static ph_rc axes_of(const ph_graph *g, const ph_node *n, int rank, int is_reduced[PH_RANK_MAX],
                     ph_err *err) {
    int64_t list[PH_RANK_MAX];
    int     count = 0, axis, all = !ph_node_int(n, "noop_with_empty_axes", 0);
    if (ph_in(g, n, 1)) PH_TRY(ph_const_ints(g, n, 1, list, PH_RANK_MAX, &count, err));
    for (int i = 0; i < rank; i++) is_reduced[i] = !count && all;
    for (int i = 0; i < count; i++) {
        PH_TRY(ph_axis(list[i], rank, &axis, err));
        is_reduced[axis] = 1;
    }
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int      is_reduced[PH_RANK_MAX], keep = ph_node_int(n, "keepdims", 1) != 0;
    ph_shape y = {0};
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    const ph_shape *x = &ph_in(g, n, 0)->shape;
    PH_TRY(axes_of(g, n, x->rank, is_reduced, err));
    for (int i = 0; i < x->rank; i++) {
        if (!is_reduced[i])
            y.dim[y.rank++] = x->dim[i];
        else if (keep)
            y.dim[y.rank++] = ph_dim_of(1);
    }
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x;
    ph_array     inner = in[0], outer = in[0];
    int          is_reduced[PH_RANK_MAX];
    int64_t      stride[PH_RANK_MAX], step = 1;
    float       *y = out->data;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(axes_of(g, n, in[0].rank, is_reduced, err));
    for (int i = in[0].rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= in[0].dim[i];
        if (is_reduced[i])
            outer.dim[i] = 1;
        else
            inner.dim[i] = 1;
    }
    int64_t rows = ph_array_count(&outer), count = ph_array_count(&inner);
    ph_walk wo = ph_walk_over(&outer);
    wo.n = 1;
    for (int i = 0; i < outer.rank; i++) wo.stride[0][i] = stride[i];
    for (int64_t r = 0; r < rows; r++, ph_walk_next(&wo)) {
        double  sum = 0;
        ph_walk wi = ph_walk_over(&inner);
        wi.n = 1;
        for (int i = 0; i < inner.rank; i++) wi.stride[0][i] = stride[i];
        for (int64_t k = 0; k < count; k++, ph_walk_next(&wi)) sum += (double)x[wo.at[0] + wi.at[0]];
        y[r] = (float)(sum / (double)count);
    }
    return PH_OK;
}

const ph_op ph_op_ReduceMean = {
    .name = "ReduceMean",
    .domain = "",
    .since = 18,
    .in_min = 1,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__ReduceMean.html",
};
