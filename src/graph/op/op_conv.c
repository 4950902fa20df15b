/* op_conv.c - Conv over two dimensions (opset 22): x [I, C, H, W], w [O, C/groups, kh, kw], b [O].
 *
 * Groups, strides, pads and dilations are general; H and W are plain numbers, I may be
 * a symbol.  One output row at a time is unfolded to [ow, C/groups * kh * kw] and
 * multiplied with the weights on the linear kernel.
 */
#include "graph/op/op_help.h"

#include <inttypes.h>
#include <string.h>

enum { SIDE_MAX = 1 << 24 };

/* Height is 0, width 1. */
typedef struct conv {
    int64_t groups, channels, filters; /* channels of one group */
    int64_t in[2], out[2], kernel[2], stride[2], pad[2], dilation[2];
} conv;

static ph_rc pair_of(const ph_node *n, const char *name, int64_t low, int64_t otherwise, int64_t out[2],
                     ph_err *err) {
    size_t         count;
    const int64_t *list = ph_node_ints(n, name, &count);
    out[0] = out[1] = otherwise;
    if (!ph_node_attr(n, name)) return PH_OK;
    if (count != 2) return PH_FAIL(err, PH_EUNSUP, "Conv: %zu numbers in %s, only 2-D is done", count, name);
    for (int i = 0; i < 2; i++) {
        if (list[i] < low || list[i] > SIDE_MAX)
            return PH_FAIL(err, PH_ELIMIT, "Conv: %s is %" PRId64 ", not %" PRId64 "..%d", name, list[i], low,
                           SIDE_MAX);
        out[i] = list[i];
    }
    return PH_OK;
}

/* Padding before (returned) and behind for one side, by auto_pad or the pads attribute. */
static ph_rc pads_of(const ph_node *n, conv *c, int64_t behind[2], ph_err *err) {
    const char    *mode = ph_node_text(n, "auto_pad", "NOTSET");
    size_t         count;
    const int64_t *pads = ph_node_ints(n, "pads", &count);
    int            is_lower = !strcmp(mode, "SAME_LOWER");
    c->pad[0] = c->pad[1] = behind[0] = behind[1] = 0;
    if (is_lower || !strcmp(mode, "SAME_UPPER")) {
        for (int i = 0; i < 2; i++) {
            int64_t steps = (c->in[i] + c->stride[i] - 1) / c->stride[i];
            int64_t need = (steps - 1) * c->stride[i] + (c->kernel[i] - 1) * c->dilation[i] + 1 - c->in[i];
            if (need < 0) need = 0;
            c->pad[i] = is_lower ? need - need / 2 : need / 2;
            behind[i] = need - c->pad[i];
        }
        return PH_OK;
    }
    if (!strcmp(mode, "VALID")) return PH_OK;
    if (strcmp(mode, "NOTSET")) return PH_FAIL(err, PH_EUNSUP, "Conv: auto_pad \"%.32s\"", mode);
    if (!ph_node_attr(n, "pads")) return PH_OK;
    if (count != 4) return PH_FAIL(err, PH_EUNSUP, "Conv: %zu pads, 4 wanted", count);
    for (int i = 0; i < 4; i++)
        if (pads[i] < 0 || pads[i] > SIDE_MAX)
            return PH_FAIL(err, PH_ELIMIT, "Conv: a pad of %" PRId64, pads[i]);
    for (int i = 0; i < 2; i++) {
        c->pad[i] = pads[i];
        behind[i] = pads[i + 2];
    }
    return PH_OK;
}

/* Everything from the attributes and the plain dimensions x [.., C, H, W], w [O, c, kh, kw]. */
static ph_rc conv_of(const ph_node *n, const int64_t x[4], const int64_t w[4], conv *c, ph_err *err) {
    int64_t shape[2], behind[2];
    *c = (conv){.groups = ph_node_int(n, "group", 1), .channels = w[1]};
    if (c->groups < 1 || c->groups > SIDE_MAX || w[0] % c->groups || x[1] % c->groups ||
        x[1] / c->groups != w[1])
        return PH_FAIL(err, PH_EMISMATCH,
                       "Conv: %" PRId64 " channels, %" PRId64 " filters of %" PRId64 " channels, %" PRId64
                       " groups",
                       x[1], w[0], w[1], c->groups);
    c->filters = w[0] / c->groups;
    PH_TRY(pair_of(n, "strides", 1, 1, c->stride, err));
    PH_TRY(pair_of(n, "dilations", 1, 1, c->dilation, err));
    PH_TRY(pair_of(n, "kernel_shape", 1, 0, shape, err));
    for (int i = 0; i < 2; i++) {
        c->in[i] = x[2 + i];
        c->kernel[i] = w[2 + i];
        if (c->in[i] > SIDE_MAX || c->kernel[i] < 1 || c->kernel[i] > SIDE_MAX)
            return PH_FAIL(err, PH_ELIMIT, "Conv: side %" PRId64 " with a kernel of %" PRId64, c->in[i],
                           c->kernel[i]);
        if (shape[i] && shape[i] != c->kernel[i])
            return PH_FAIL(err, PH_EMISMATCH, "Conv: kernel_shape %" PRId64 ", weight %" PRId64, shape[i],
                           c->kernel[i]);
    }
    PH_TRY(pads_of(n, c, behind, err));
    for (int i = 0; i < 2; i++) {
        int64_t room = c->in[i] + c->pad[i] + behind[i] - (c->kernel[i] - 1) * c->dilation[i] - 1;
        if (room < 0)
            return PH_FAIL(err, PH_EMISMATCH, "Conv: side %" PRId64 " is smaller than the kernel", c->in[i]);
        c->out[i] = room / c->stride[i] + 1;
    }
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int64_t x[4] = {0}, w[4];
    conv    c;
    PH_TRY(ph_want(g, n, 0, PH_F32, 4, err));
    PH_TRY(ph_want(g, n, 1, PH_F32, 4, err));
    const ph_shape *sx = &ph_in(g, n, 0)->shape, *sw = &ph_in(g, n, 1)->shape;
    for (int i = 0; i < 4; i++) {
        if ((i && !ph_dim_is_fixed(sx->dim[i])) || !ph_dim_is_fixed(sw->dim[i]))
            return ph_disagree(sx, sw, "Conv wants plain numbers but for the first dimension", err);
        if (i) x[i] = sx->dim[i].mul;
        w[i] = sw->dim[i].mul;
    }
    PH_TRY(conv_of(n, x, w, &c, err));
    if (ph_in(g, n, 2)) {
        PH_TRY(ph_want(g, n, 2, PH_F32, 1, err));
        if (!ph_dim_same(ph_in(g, n, 2)->shape.dim[0], sw->dim[0]))
            return ph_disagree(sw, &ph_in(g, n, 2)->shape, "Conv wants one bias a filter", err);
    }
    ph_shape y = ph_shape_of(4, sx->dim[0], sw->dim[0], ph_dim_of(c.out[0]), ph_dim_of(c.out[1]));
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

/* Unfold what output row `row` of one group sees: x: [channels, H, W] -> col: [ow, channels * kh * kw]. */
static void unfold(const conv *c, const float *x, int64_t row, float *col) {
    for (int64_t o = 0; o < c->out[1]; o++)
        for (int64_t ch = 0; ch < c->channels; ch++)
            for (int64_t i = 0; i < c->kernel[0]; i++)
                for (int64_t j = 0; j < c->kernel[1]; j++) {
                    int64_t h = row * c->stride[0] + i * c->dilation[0] - c->pad[0];
                    int64_t w = o * c->stride[1] + j * c->dilation[1] - c->pad[1];
                    int     inside = h >= 0 && h < c->in[0] && w >= 0 && w < c->in[1];
                    *col++ = inside ? x[(ch * c->in[0] + h) * c->in[1] + w] : 0;
                }
}

typedef struct scratch {
    float *col, *line, *work; /* [ow, k], [ow, filters], the linear kernel's */
} scratch;

/* One group of one picture: y: [filters, oh, ow]. */
static void group_of(const conv *c, const ph_eval *e, const scratch *s, float *y, const float *x,
                     const float *w, const float *b) {
    size_t k = (size_t)(c->channels * c->kernel[0] * c->kernel[1]);
    for (int64_t row = 0; row < c->out[0]; row++) {
        unfold(c, x, row, s->col);
        e->kernels->linear_F32(s->line, (size_t)c->filters, s->col, k, w, k * sizeof(float),
                               (size_t)c->out[1], (size_t)c->filters, k, s->work);
        for (int64_t f = 0; f < c->filters; f++)
            for (int64_t o = 0; o < c->out[1]; o++)
                y[(f * c->out[0] + row) * c->out[1] + o] = s->line[o * c->filters + f] + (b ? b[f] : 0);
    }
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x, *w, *b = NULL;
    float       *y = out->data;
    conv         c;
    scratch      s;
    (void)g;
    PH_TRY(conv_of(n, in[0].dim, in[1].dim, &c, err));
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_floats(&w, &in[1], e, err));
    if (n->n_in > 2 && n->in[2] >= 0) PH_TRY(ph_floats(&b, &in[2], e, err));
    if (!ph_array_count(out)) return PH_OK;
    int64_t k = c.channels * c.kernel[0] * c.kernel[1];
    if (__builtin_mul_overflow(c.out[1], k, &(int64_t){0}))
        return PH_FAIL(err, PH_ELIMIT, "Conv: an unfolded row of %" PRId64 " x %" PRId64, c.out[1], k);
    PH_TRY(ph_scratch(&s.col, c.out[1] * k, e, err));
    PH_TRY(ph_scratch(&s.line, c.out[1] * c.filters, e, err));
    PH_TRY(ph_scratch(&s.work, (int64_t)PH_LINEAR_SCRATCH(k), e, err));
    for (int64_t i = 0; i < in[0].dim[0]; i++)
        for (int64_t q = 0; q < c.groups; q++)
            group_of(&c, e, &s, y + (i * c.groups + q) * c.filters * c.out[0] * c.out[1],
                     x + (i * c.groups + q) * c.channels * c.in[0] * c.in[1], w + q * c.filters * k,
                     b ? b + q * c.filters : NULL);
    return PH_OK;
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
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Conv.html",
};
