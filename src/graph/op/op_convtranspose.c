/* op_convtranspose.c - ConvTranspose over one to three dimensions (opset 22): each input element spreads a
 * kernel.
 *
 *     x [I, C, ..], w [C, O/groups, ..], b [O];   out = stride (in - 1) + output_padding + reach - pads
 *
 * output_shape (or auto_pad SAME) gives the size, and the pads follow. */
#include "graph/op/op_number.h"
#include "graph/op/op_window.h"

#include <inttypes.h>
#include <string.h>

typedef struct form {
    ph_window w; /* in: of x, out: of y */
    int64_t   groups, channels, filters;
} form;

static ph_rc sizes_of(const ph_node *n, form *f, ph_err *err) {
    ph_window  *w = &f->w;
    int         first = PH_WINDOW_DIMS - w->n;
    int64_t     more[3], want[3], pads[6];
    const char *mode = ph_node_text(n, "auto_pad", "NOTSET");
    int         is_same = !strcmp(mode, "SAME_UPPER") || !strcmp(mode, "SAME_LOWER");
    PH_TRY(ph_window_list(n, "output_padding", w->n, 0, 0, more, err));
    PH_TRY(ph_window_list(n, "output_shape", w->n, 1, 0, want, err));
    PH_TRY(ph_window_list(n, "pads", 2 * w->n, 0, 0, pads, err));
    if (!is_same && strcmp(mode, "NOTSET") && strcmp(mode, "VALID"))
        return PH_FAIL(err, PH_EUNSUP, "ConvTranspose: auto_pad \"%.32s\"", mode);
    for (int i = 0; i < w->n; i++) {
        int     d = first + i;
        int64_t full = w->stride[d] * (w->in[d] - 1) + more[i] + (w->kernel[d] - 1) * w->dilation[d] + 1;
        if (is_same && !want[i]) want[i] = w->in[d] * w->stride[d];
        if (want[i]) {
            int64_t total = full > want[i] ? full - want[i] : 0;
            w->pad[d] = !strcmp(mode, "SAME_UPPER") ? total / 2 : total - total / 2;
            w->out[d] = want[i];
        } else {
            w->pad[d] = strcmp(mode, "VALID") ? pads[i] : 0;
            w->out[d] = full - w->pad[d] - (strcmp(mode, "VALID") ? pads[w->n + i] : 0);
        }
        if (w->out[d] < 1)
            return PH_FAIL(err, PH_EMISMATCH, "ConvTranspose: side %" PRId64 " shrinks to nothing", w->in[d]);
    }
    return PH_OK;
}

static ph_rc form_of(const ph_node *n, int rank, const int64_t *x, const int64_t *k, form *f, ph_err *err) {
    *f = (form){.groups = ph_node_int(n, "group", 1)};
    if (f->groups < 1 || f->groups > 1 << 24 || x[1] != k[0] || x[1] % f->groups)
        return PH_FAIL(err, PH_EMISMATCH,
                       "ConvTranspose: %" PRId64 " channels, weights for %" PRId64 ", %" PRId64 " groups",
                       x[1], k[0], f->groups);
    f->channels = x[1] / f->groups;
    f->filters = k[1];
    f->w.n = rank - 2;
    int first = PH_WINDOW_DIMS - f->w.n;
    for (int d = 0; d < PH_WINDOW_DIMS; d++)
        f->w.in[d] = f->w.out[d] = f->w.kernel[d] = f->w.stride[d] = f->w.dilation[d] = 1;
    PH_TRY(ph_window_list(n, "strides", f->w.n, 1, 1, f->w.stride + first, err));
    PH_TRY(ph_window_list(n, "dilations", f->w.n, 1, 1, f->w.dilation + first, err));
    PH_TRY(ph_window_list(n, "kernel_shape", f->w.n, 1, 0, f->w.kernel + first, err));
    for (int i = 0; i < f->w.n; i++) {
        if (x[2 + i] < 1 || x[2 + i] > 1 << 24 || k[2 + i] < 1 || k[2 + i] > 1 << 24 ||
            (f->w.kernel[first + i] && f->w.kernel[first + i] != k[2 + i]))
            return PH_FAIL(err, PH_EMISMATCH, "ConvTranspose: side %" PRId64 ", kernel %" PRId64, x[2 + i],
                           k[2 + i]);
        f->w.in[first + i] = x[2 + i];
        f->w.kernel[first + i] = k[2 + i];
    }
    return sizes_of(n, f, err);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int64_t x[5] = {0}, k[5] = {0}, filters;
    int     dims, kernel_dims;
    form    f;
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    PH_TRY(ph_want(g, n, 1, PH_F32, -1, err));
    const ph_shape *sx = &ph_in(g, n, 0)->shape, *sk = &ph_in(g, n, 1)->shape;
    PH_TRY(ph_window_sides(g, n, sx, x + 2, &dims, err));
    PH_TRY(ph_window_sides(g, n, sk, k + 2, &kernel_dims, err));
    if (dims != kernel_dims || !ph_dim_is_fixed(sx->dim[1]) || !ph_dim_is_fixed(sk->dim[0]) ||
        !ph_dim_is_fixed(sk->dim[1]))
        return ph_disagree(g, sx, sk, "ConvTranspose wants plain numbers but for the first dimension", err);
    x[1] = sx->dim[1].mul, k[0] = sk->dim[0].mul, k[1] = sk->dim[1].mul;
    PH_TRY(form_of(n, sx->rank, x, k, &f, err));
    if (__builtin_mul_overflow(f.filters, f.groups, &filters))
        return PH_FAIL(err, PH_ELIMIT, "ConvTranspose: too many filters");
    if (ph_in(g, n, 2)) {
        PH_TRY(ph_want(g, n, 2, PH_F32, 1, err));
        if (!ph_dim_same(ph_in(g, n, 2)->shape.dim[0], ph_dim_of(filters)))
            return ph_disagree(g, sk, &ph_in(g, n, 2)->shape, "ConvTranspose wants one bias a filter", err);
    }
    ph_shape y = *sx;
    y.dim[1] = ph_dim_of(filters);
    for (int i = 0; i < dims; i++) y.dim[2 + i] = ph_dim_of(f.w.out[PH_WINDOW_DIMS - dims + i]);
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

/* Where input place `at` and kernel place k meet in dimension d, among the outputs; below 0: beside them. */
static int64_t meets(const ph_window *w, int d, int64_t at, int64_t k) {
    const int64_t o = at * w->stride[d] + k * w->dilation[d] - w->pad[d];
    return o < w->out[d] ? o : -1;
}

/* What kernel place p adds to the sums of a filter; x [channels, in], k [channels, filters, kernel]. */
static void spread(const form *f, double *sum, const float *x, const float *k, int64_t filter,
                   const int64_t *p) {
    const ph_window *w = &f->w;
    const int64_t    size = w->kernel[0] * w->kernel[1] * w->kernel[2], side = w->in[0] * w->in[1] * w->in[2];
    const int64_t    by = (p[0] * w->kernel[1] + p[1]) * w->kernel[2] + p[2];
    int64_t          o[3];
    for (int64_t d = 0; d < w->in[0]; d++) {
        if ((o[0] = meets(w, 0, d, p[0])) < 0) continue;
        for (int64_t h = 0; h < w->in[1]; h++) {
            if ((o[1] = meets(w, 1, h, p[1])) < 0) continue;
            for (int64_t v = 0; v < w->in[2]; v++) {
                if ((o[2] = meets(w, 2, v, p[2])) < 0) continue;
                const int64_t from = (d * w->in[1] + h) * w->in[2] + v;
                double       *to = &sum[(o[0] * w->out[1] + o[1]) * w->out[2] + o[2]];
                for (int64_t c = 0; c < f->channels; c++)
                    *to += (double)x[c * side + from] * (double)k[(c * f->filters + filter) * size + by];
            }
        }
    }
}

/* Each number's terms come by kernel places in order, then channels. */
static void spread_all(const form *f, double *sum, const float *x, const float *k, int64_t filter) {
    const int64_t *size = f->w.kernel;
    for (int64_t d = 0; d < size[0]; d++)
        for (int64_t h = 0; h < size[1]; h++)
            for (int64_t v = 0; v < size[2]; v++) spread(f, sum, x, k, filter, (const int64_t[]){d, h, v});
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x, *k, *b = NULL;
    form         f;
    void        *sums;
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_floats(&k, &in[1], e, err));
    if (n->n_in > 2 && n->in[2] >= 0) PH_TRY(ph_floats(&b, &in[2], e, err));
    PH_TRY(form_of(n, in[0].rank, in[0].dim, in[1].dim, &f, err));
    int64_t places = ph_span(out, 2, out->rank), planes = places ? ph_array_count(out) / places : 0;
    int64_t side = ph_span(&in[0], 2, in[0].rank), size = ph_span(&in[1], 2, in[1].rank);
    PH_TRY(ph_arena_carve(e->scratch, &sums, (size_t)places, sizeof(double), err));
    double *sum = sums;
    for (int64_t i = 0; i < planes; i++) {
        int64_t filter = i % out->dim[1], q = filter / f.filters, picture = i / out->dim[1];
        float  *y = (float *)out->data + i * places;
        memset(sum, 0, (size_t)places * sizeof *sum);
        spread_all(&f, sum, x + (picture * f.groups + q) * f.channels * side,
                   k + q * f.channels * f.filters * size, filter % f.filters);
        for (int64_t o = 0; o < places; o++) y[o] = (float)(sum[o] + (b ? (double)b[filter] : 0));
    }
    return PH_OK;
}

/* Sums of one plane, in double. */
static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    (void)g, (void)n, (void)in;
    return 2 * ph_span(&out[0], 2, out[0].rank) + 2 * PH_ALIGN;
}

/* Each input element spreads the kernels of its channel. */
static ph_rc macs(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how, double *out,
                  ph_err *err) {
    double x, w, channels;
    (void)how;
    PH_TRY(ph_value_count(ph_in(g, n, 0), syms, &x, err));
    PH_TRY(ph_value_count(ph_in(g, n, 1), syms, &w, err));
    PH_TRY(ph_value_size(ph_in(g, n, 1), 0, syms, &channels, err));
    *out = channels > 0 ? x * (w / channels) : 0;
    return PH_OK;
}

const ph_op ph_op_ConvTranspose = {
    .name = "ConvTranspose",
    .domain = "",
    .since = 22,
    .in_min = 2,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .is_product = 1,
    .macs = macs,
    .eval = eval,
    .scratch = scratch,
    .source = "onnx.ai/onnx/operators/onnx__ConvTranspose.html",
};
