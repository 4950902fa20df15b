/* op_convinteger.c - ConvInteger: Conv of 8-bit whole numbers less their zero points, in 32 bits (opset 10).
 *
 *     x [I, C, ..] u8 or i8, w [O, C/groups, ..], zero of x (one number), zero of w (one, or one a filter) */
#include "graph/op/op_number.h"
#include "graph/op/op_window.h"

static ph_rc check_zero(const ph_graph *g, const ph_node *n, int i, ph_dim filters, ph_err *err) {
    int64_t count;
    if (!ph_in(g, n, i)) return PH_OK;
    PH_TRY(ph_want(g, n, i, ph_in(g, n, i - 2)->dtype, -1, err));
    const ph_shape *s = &ph_in(g, n, i)->shape;
    int             one = !ph_shape_count(s, NULL, &count, NULL) && count == 1;
    if (one || (i == 3 && s->rank == 1 && ph_dim_same(s->dim[0], filters))) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "ConvInteger: zero point %d is neither one number nor one a filter", i);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int64_t   sides[3], kernel[3];
    int       dims, kernel_dims;
    ph_window w;
    int64_t   groups = ph_node_int(n, "group", 1);
    for (int i = 0; i < 2; i++) {
        ph_dtype t = ph_in(g, n, i)->dtype;
        if (t != PH_U8 && t != PH_I8)
            return PH_FAIL(err, PH_EMISMATCH, "ConvInteger: input %d is %s, not 8 bits", i, ph_dtype_name(t));
    }
    const ph_shape *x = &ph_in(g, n, 0)->shape, *s = &ph_in(g, n, 1)->shape;
    PH_TRY(ph_window_sides(g, n, x, sides, &dims, err));
    PH_TRY(ph_window_sides(g, n, s, kernel, &kernel_dims, err));
    if (dims != kernel_dims || groups < 1 || groups > 1 << 24 || !ph_dim_is_fixed(x->dim[1]) ||
        !ph_dim_is_fixed(s->dim[0]) || !ph_dim_is_fixed(s->dim[1]) || s->dim[0].mul % groups ||
        x->dim[1].mul % groups || x->dim[1].mul / groups != s->dim[1].mul)
        return ph_disagree(g, x, s, "ConvInteger wants x [I, C, ..] and w [O, C/groups, ..]", err);
    PH_TRY(check_zero(g, n, 2, s->dim[0], err));
    PH_TRY(check_zero(g, n, 3, s->dim[0], err));
    PH_TRY(ph_window_of(n, dims, sides, kernel, &w, err));
    ph_shape y = *x;
    y.dim[1] = s->dim[0];
    for (int i = 0; i < dims; i++) y.dim[2 + i] = ph_dim_of(w.out[PH_WINDOW_DIMS - dims + i]);
    ph_infer_set(&out[0], PH_I32, &y);
    return PH_OK;
}

typedef struct job {
    ph_window w;
    ph_array  x, k, zero;
    int64_t   channels, filters; /* of one group */
    int64_t   zero_x;
} job;

/* One output number: picture i, filter f (over all groups), place o. */
static int32_t sum_at(const job *j, int64_t i, int64_t f, int64_t o) {
    const ph_window *w = &j->w;
    int64_t sum = 0, size = w->kernel[0] * w->kernel[1] * w->kernel[2], side = w->in[0] * w->in[1] * w->in[2];
    int64_t first = i * j->x.dim[1] + f / j->filters * j->channels,
            many = j->zero.data && ph_array_count(&j->zero) > 1;
    int64_t zero = j->zero.data ? ph_int_at(&j->zero, many ? f : 0) : 0;
    for (int64_t k = 0; k < size; k++) {
        int64_t d = ph_window_at(w, 0, o / w->out[2] / w->out[1], k / w->kernel[2] / w->kernel[1]);
        int64_t h = ph_window_at(w, 1, o / w->out[2] % w->out[1], k / w->kernel[2] % w->kernel[1]);
        int64_t v = ph_window_at(w, 2, o % w->out[2], k % w->kernel[2]);
        if (d < 0 || d >= w->in[0] || h < 0 || h >= w->in[1] || v < 0 || v >= w->in[2]) continue;
        for (int64_t c = 0; c < j->channels; c++)
            sum += (ph_int_at(&j->x, (first + c) * side + (d * w->in[1] + h) * w->in[2] + v) - j->zero_x) *
                   (ph_int_at(&j->k, (f * j->channels + c) * size + k) - zero);
    }
    return (int32_t)(uint32_t)(uint64_t)sum;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    job      j = {.channels = in[1].dim[1], .filters = in[1].dim[0] / ph_node_int(n, "group", 1)};
    ph_array zero;
    (void)g;
    PH_TRY(ph_dense(&j.x, &in[0], e, err));
    PH_TRY(ph_dense(&j.k, &in[1], e, err));
    if (n->n_in > 2 && n->in[2] >= 0) {
        PH_TRY(ph_dense(&zero, &in[2], e, err));
        j.zero_x = ph_int_at(&zero, 0);
    }
    if (n->n_in > 3 && n->in[3] >= 0) PH_TRY(ph_dense(&j.zero, &in[3], e, err));
    PH_TRY(ph_window_of(n, in[0].rank - 2, in[0].dim + 2, in[1].dim + 2, &j.w, err));
    int64_t count = ph_array_count(out), places = j.w.out[0] * j.w.out[1] * j.w.out[2];
    for (int64_t i = 0; i < count; i++)
        ((int32_t *)out->data)[i] =
            sum_at(&j, i / places / out->dim[1], i / places % out->dim[1], i % places);
    return PH_OK;
}

const ph_op ph_op_ConvInteger = {
    .name = "ConvInteger",
    .domain = "",
    .since = 10,
    .in_min = 2,
    .in_max = 4,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .is_product = 1,
    .macs = ph_macs_of_filters,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__ConvInteger.html",
};
