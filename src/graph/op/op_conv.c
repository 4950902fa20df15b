/* op_conv.c - Conv over one to three dimensions (opset 22): x [I, C, ..], w [O, C/groups, ..], b [O].
 *
 * Groups, strides, pads and dilations are general; the sides are plain numbers, I may be
 * a symbol.  One output row at a time is unfolded to [ow, C/groups * kernel] and
 * multiplied with the weights on the linear kernel.
 */
#include "graph/op/op_window.h"

#include <inttypes.h>
#include <string.h>

typedef struct conv {
    int64_t   groups, channels, filters; /* channels and filters of one group */
    ph_window w;
} conv;

/* Everything from the attributes and the plain dimensions x [.., C, ..], w [O, c, ..]. */
static ph_rc conv_of(const ph_node *n, int rank, const int64_t *x, const int64_t *w, conv *c, ph_err *err) {
    *c = (conv){.groups = ph_node_int(n, "group", 1), .channels = w[1]};
    if (c->groups < 1 || c->groups > 1 << 24 || w[0] % c->groups || x[1] % c->groups ||
        x[1] / c->groups != w[1])
        return PH_FAIL(err, PH_EMISMATCH,
                       "Conv: %" PRId64 " channels, %" PRId64 " filters of %" PRId64 " channels, %" PRId64
                       " groups",
                       x[1], w[0], w[1], c->groups);
    c->filters = w[0] / c->groups;
    return ph_window_of(n, rank - 2, x + 2, w + 2, &c->w, err);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int64_t x[5] = {0}, w[5];
    conv    c;
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    const ph_shape *sx = &ph_in(g, n, 0)->shape;
    int             rank = sx->rank;
    if (rank < 3 || rank > 5) return PH_FAIL(err, PH_EMISMATCH, "Conv: x has rank %d; 3 to 5 are done", rank);
    PH_TRY(ph_want(g, n, 1, PH_F32, rank, err));
    const ph_shape *sw = &ph_in(g, n, 1)->shape;
    for (int i = 0; i < rank; i++) {
        if ((i && !ph_dim_is_fixed(sx->dim[i])) || !ph_dim_is_fixed(sw->dim[i]))
            return ph_disagree(g, sx, sw, "Conv wants plain numbers but for the first dimension", err);
        if (i) x[i] = sx->dim[i].mul;
        w[i] = sw->dim[i].mul;
    }
    PH_TRY(conv_of(n, rank, x, w, &c, err));
    if (ph_in(g, n, 2)) {
        PH_TRY(ph_want(g, n, 2, PH_F32, 1, err));
        if (!ph_dim_same(ph_in(g, n, 2)->shape.dim[0], sw->dim[0]))
            return ph_disagree(g, sw, &ph_in(g, n, 2)->shape, "Conv wants one bias a filter", err);
    }
    ph_shape y = *sx;
    y.dim[1] = sw->dim[0];
    for (int i = 2; i < rank; i++) y.dim[i] = ph_dim_of(c.w.out[PH_WINDOW_DIMS - rank + i]);
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

/* Unfold what one output row of one group sees: x: [channels, D, H, W] -> col: [ow, channels * kernel]. */
static void unfold(const conv *c, const float *x, int64_t od, int64_t oh, float *col) {
    const ph_window *w = &c->w;
    for (int64_t o = 0; o < w->out[2]; o++)
        for (int64_t ch = 0; ch < c->channels; ch++)
            for (int64_t i = 0; i < w->kernel[0] * w->kernel[1] * w->kernel[2]; i++) {
                int64_t d = ph_window_at(w, 0, od, i / w->kernel[2] / w->kernel[1]);
                int64_t h = ph_window_at(w, 1, oh, i / w->kernel[2] % w->kernel[1]);
                int64_t v = ph_window_at(w, 2, o, i % w->kernel[2]);
                int     inside = d >= 0 && d < w->in[0] && h >= 0 && h < w->in[1] && v >= 0 && v < w->in[2];
                *col++ = inside ? x[((ch * w->in[0] + d) * w->in[1] + h) * w->in[2] + v] : 0;
            }
}

typedef struct scratch {
    float *col, *line, *work; /* [ow, k], [ow, filters], the linear kernel's */
} scratch;

/* One group of one picture: y: [filters, od, oh, ow]. */
static void group_of(const conv *c, const ph_eval *e, const scratch *s, float *y, const float *x,
                     const float *weights, const float *b) {
    const ph_window *w = &c->w;
    size_t           k = (size_t)(c->channels * w->kernel[0] * w->kernel[1] * w->kernel[2]);
    for (int64_t row = 0; row < w->out[0] * w->out[1]; row++) {
        unfold(c, x, row / w->out[1], row % w->out[1], s->col);
        e->kernels->linear_F32(s->line, (size_t)c->filters, s->col, k, weights, k * sizeof(float),
                               (size_t)w->out[2], (size_t)c->filters, k, s->work);
        for (int64_t f = 0; f < c->filters; f++)
            for (int64_t o = 0; o < w->out[2]; o++)
                y[(f * w->out[0] * w->out[1] + row) * w->out[2] + o] =
                    s->line[o * c->filters + f] + (b ? b[f] : 0);
    }
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x, *w, *b = NULL;
    float       *y = out->data;
    conv         c;
    scratch      s;
    (void)g;
    PH_TRY(conv_of(n, in[0].rank, in[0].dim, in[1].dim, &c, err));
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_floats(&w, &in[1], e, err));
    if (n->n_in > 2 && n->in[2] >= 0) PH_TRY(ph_floats(&b, &in[2], e, err));
    if (!ph_array_count(out)) return PH_OK;
    int64_t k = ph_span(&in[1], 1, in[1].rank);
    if (__builtin_mul_overflow(c.w.out[2], k, &(int64_t){0}))
        return PH_FAIL(err, PH_ELIMIT, "Conv: an unfolded row of %" PRId64 " x %" PRId64, c.w.out[2], k);
    PH_TRY(ph_scratch(&s.col, c.w.out[2] * k, e, err));
    PH_TRY(ph_scratch(&s.line, c.w.out[2] * c.filters, e, err));
    PH_TRY(ph_scratch(&s.work, (int64_t)PH_LINEAR_SCRATCH(k), e, err));
    int64_t from = c.channels * c.w.in[0] * c.w.in[1] * c.w.in[2],
            to = c.filters * c.w.out[0] * c.w.out[1] * c.w.out[2];
    for (int64_t i = 0; i < in[0].dim[0] * c.groups; i++) {
        int64_t q = i % c.groups;
        group_of(&c, e, &s, y + i * to, x + i * from, w + q * c.filters * k, b ? b + q * c.filters : NULL);
    }
    return PH_OK;
}

/* A line of patches, and of results; the linear kernel's own. */
static int64_t scratch_of(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    int64_t k = 1;
    (void)g, (void)n;
    for (int i = 1; i < in[1].rank; i++) k *= in[1].dim[i];
    return out[0].dim[out[0].rank - 1] * (k + in[1].dim[0]) + (int64_t)PH_LINEAR_SCRATCH(k);
}

const ph_op ph_op_Conv = {
    .name = "Conv",
    .domain = "",
    .since = 22,
    .in_min = 2,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .is_product = 1,
    .macs = ph_macs_of_filters,
    .scratch = scratch_of,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Conv.html",
};
