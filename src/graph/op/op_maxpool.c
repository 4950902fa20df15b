/* op_maxpool.c - MaxPool: the largest element of each window, and where it stands (opset 22).
 *
 * Padding is never the largest.  Places count over the whole array, rows first; storage_order 1 is not done.
 */
#include "graph/op/op_window.h"

#include <math.h>

static int outputs(const ph_graph *g, const ph_node *n) {
    (void)g, (void)n;
    return 2;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int64_t   sides[3];
    int       dims;
    ph_window w;
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    PH_TRY(ph_want_int(n, "storage_order", 0, err));
    ph_shape y = ph_in(g, n, 0)->shape;
    PH_TRY(ph_window_sides(g, n, &y, sides, &dims, err));
    PH_TRY(ph_window_of(n, dims, sides, NULL, &w, err));
    for (int i = 0; i < dims; i++) y.dim[2 + i] = ph_dim_of(w.out[PH_WINDOW_DIMS - dims + i]);
    ph_infer_set(&out[0], PH_F32, &y);
    ph_infer_set(&out[1], PH_I64, &y);
    return PH_OK;
}

/* The place of the largest inside the window at output place o; -1: the window sees padding only. */
static int64_t largest(const ph_window *w, const float *x, int64_t o) {
    int64_t best = -1, count = w->kernel[0] * w->kernel[1] * w->kernel[2];
    for (int64_t k = 0; k < count; k++) {
        int64_t d = ph_window_at(w, 0, o / w->out[2] / w->out[1], k / w->kernel[2] / w->kernel[1]);
        int64_t h = ph_window_at(w, 1, o / w->out[2] % w->out[1], k / w->kernel[2] % w->kernel[1]);
        int64_t v = ph_window_at(w, 2, o % w->out[2], k % w->kernel[2]);
        if (d < 0 || d >= w->in[0] || h < 0 || h >= w->in[1] || v < 0 || v >= w->in[2]) continue;
        int64_t at = (d * w->in[1] + h) * w->in[2] + v;
        if (best < 0 || x[at] > x[best]) best = at;
    }
    return best;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x;
    ph_window    w;
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_window_of(n, in[0].rank - 2, in[0].dim + 2, NULL, &w, err));
    int64_t from = w.in[0] * w.in[1] * w.in[2], to = w.out[0] * w.out[1] * w.out[2];
    for (int64_t i = 0; i < in[0].dim[0] * in[0].dim[1]; i++)
        for (int64_t o = 0; o < to; o++) {
            int64_t at = largest(&w, x + i * from, o);
            if (out[0].data) ((float *)out[0].data)[i * to + o] = at < 0 ? -INFINITY : x[i * from + at];
            if (out[1].data) ((int64_t *)out[1].data)[i * to + o] = at < 0 ? -1 : i * from + at;
        }
    return PH_OK;
}

const ph_op ph_op_MaxPool = {
    .name = "MaxPool",
    .domain = "",
    .since = 22,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 2,
    .infer = infer,
    .eval = eval,
    .outputs = outputs,
    .source = "onnx.ai/onnx/operators/onnx__MaxPool.html",
};
