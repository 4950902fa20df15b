/* op_averagepool.c - AveragePool: the mean of each window (opset 22).
 *
 * count_include_pad counts the padding that was asked for, never what ceil_mode lets hang over. */
#include "graph/op/op_window.h"

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int64_t   sides[3];
    int       dims;
    ph_window w;
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    ph_shape y = ph_in(g, n, 0)->shape;
    PH_TRY(ph_window_sides(g, n, &y, sides, &dims, err));
    PH_TRY(ph_window_of(n, dims, sides, NULL, &w, err));
    for (int i = 0; i < dims; i++) y.dim[2 + i] = ph_dim_of(w.out[PH_WINDOW_DIMS - dims + i]);
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

/* 1: inside the input; 0: padding that was asked for; -1: beyond it. */
static int kind_at(const ph_window *w, int d, int64_t at) {
    if (at >= 0 && at < w->in[d]) return 1;
    return at < w->in[d] + w->behind[d] ? 0 : -1;
}

static float mean(const ph_window *w, const float *x, int64_t o, int with_pad) {
    double  sum = 0;
    int64_t n = 0, count = w->kernel[0] * w->kernel[1] * w->kernel[2];
    for (int64_t k = 0; k < count; k++) {
        int64_t d = ph_window_at(w, 0, o / w->out[2] / w->out[1], k / w->kernel[2] / w->kernel[1]);
        int64_t h = ph_window_at(w, 1, o / w->out[2] % w->out[1], k / w->kernel[2] % w->kernel[1]);
        int64_t v = ph_window_at(w, 2, o % w->out[2], k % w->kernel[2]);
        int     kd = kind_at(w, 0, d), kh = kind_at(w, 1, h), kv = kind_at(w, 2, v);
        if (kd == 1 && kh == 1 && kv == 1) sum += (double)x[(d * w->in[1] + h) * w->in[2] + v];
        n += with_pad ? kd >= 0 && kh >= 0 && kv >= 0 : kd == 1 && kh == 1 && kv == 1;
    }
    return (float)(n ? sum / (double)n : 0);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x;
    ph_window    w;
    int          with_pad = ph_node_int(n, "count_include_pad", 0) != 0;
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_window_of(n, in[0].rank - 2, in[0].dim + 2, NULL, &w, err));
    int64_t from = w.in[0] * w.in[1] * w.in[2], to = w.out[0] * w.out[1] * w.out[2];
    for (int64_t i = 0; i < in[0].dim[0] * in[0].dim[1]; i++)
        for (int64_t o = 0; o < to; o++)
            ((float *)out->data)[i * to + o] = mean(&w, x + i * from, o, with_pad);
    return PH_OK;
}

const ph_op ph_op_AveragePool = {
    .name = "AveragePool",
    .domain = "",
    .since = 22,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__AveragePool.html",
};
