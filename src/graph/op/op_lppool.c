/* op_lppool.c - LpPool: the p-norm of each window (opset 22); padding counts as nothing. */
#include "graph/op/op_window.h"

#include <math.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int64_t   sides[3];
    int       dims;
    ph_window w;
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    ph_shape y = ph_in(g, n, 0)->shape;
    if (ph_node_int(n, "p", 2) < 1) return PH_FAIL(err, PH_EMISMATCH, "LpPool: p below 1");
    PH_TRY(ph_window_sides(g, n, &y, sides, &dims, err));
    PH_TRY(ph_window_of(n, dims, sides, NULL, &w, err));
    for (int i = 0; i < dims; i++) y.dim[2 + i] = ph_dim_of(w.out[PH_WINDOW_DIMS - dims + i]);
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

static float norm(const ph_window *w, const float *x, int64_t o, double p) {
    double  sum = 0;
    int64_t count = w->kernel[0] * w->kernel[1] * w->kernel[2];
    for (int64_t k = 0; k < count; k++) {
        int64_t d = ph_window_at(w, 0, o / w->out[2] / w->out[1], k / w->kernel[2] / w->kernel[1]);
        int64_t h = ph_window_at(w, 1, o / w->out[2] % w->out[1], k / w->kernel[2] % w->kernel[1]);
        int64_t v = ph_window_at(w, 2, o % w->out[2], k % w->kernel[2]);
        if (d < 0 || d >= w->in[0] || h < 0 || h >= w->in[1] || v < 0 || v >= w->in[2]) continue;
        sum += pow(fabs((double)x[(d * w->in[1] + h) * w->in[2] + v]), p);
    }
    return (float)pow(sum, 1 / p);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x;
    ph_window    w;
    double       p = (double)ph_node_int(n, "p", 2);
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_window_of(n, in[0].rank - 2, in[0].dim + 2, NULL, &w, err));
    int64_t from = w.in[0] * w.in[1] * w.in[2], to = w.out[0] * w.out[1] * w.out[2];
    for (int64_t i = 0; i < in[0].dim[0] * in[0].dim[1]; i++)
        for (int64_t o = 0; o < to; o++) ((float *)out->data)[i * to + o] = norm(&w, x + i * from, o, p);
    return PH_OK;
}

const ph_op ph_op_LpPool = {
    .name = "LpPool",
    .domain = "",
    .since = 22,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__LpPool.html",
};
