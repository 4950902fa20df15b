/* op_resize.c - Resize (opset 18): each axis whose size changes is resampled by itself, one after the other.
 *
 *     X [..], roi (left out), scales (left out), sizes [rank] i64 constant  ->  Y of those sizes
 *
 * An output element is a short weighted sum of input elements of its line; which, and how heavy, follows from
 * the mode and the coordinate transformation.  With antialias the kernel widens as the line shrinks, and
 * weights are normalised over what lies inside.
 *
 * Attributes: mode nearest | linear | cubic; coordinate_transformation_mode half_pixel | pytorch_half_pixel |
 * align_corners | asymmetric; nearest_mode; cubic_coeff_a; antialias.  Refused: scales, roi, axes,
 * exclude_outside, keep_aspect_ratio_policy, half_pixel_symmetric, tf_crop_and_resize.
 */
#include "graph/op/op_help.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef enum kind { NEAREST, LINEAR, CUBIC } kind;

typedef struct form {
    kind        mode;
    const char *where, *nearest;
    double      a;
    int         is_smooth; /* antialias */
} form;

static int one_of(const char *word, const char *const *words) {
    for (int i = 0; words[i]; i++)
        if (!strcmp(word, words[i])) return i;
    return -1;
}

static ph_rc form_of(const ph_node *n, form *f, ph_err *err) {
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const places[] = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                                         NULL};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    const char              *mode = ph_node_text(n, "mode", "nearest");
    f->where = ph_node_text(n, "coordinate_transformation_mode", "half_pixel");
    f->nearest = ph_node_text(n, "nearest_mode", "round_prefer_floor");
    f->a = ph_node_float(n, "cubic_coeff_a", -0.75);
    f->is_smooth = ph_node_int(n, "antialias", 0) != 0;
    f->mode = (kind)one_of(mode, modes);
    if (one_of(mode, modes) < 0) return PH_FAIL(err, PH_EUNSUP, "Resize: mode \"%.32s\"", mode);
    if (one_of(f->where, places) < 0)
        return PH_FAIL(err, PH_EUNSUP, "Resize: coordinate_transformation_mode \"%.32s\"", f->where);
    if (one_of(f->nearest, roundings) < 0)
        return PH_FAIL(err, PH_EUNSUP, "Resize: nearest_mode \"%.32s\"", f->nearest);
    if (!isfinite(f->a)) return PH_FAIL(err, PH_EMISMATCH, "Resize: cubic_coeff_a %g", f->a);
    if (ph_node_attr(n, "axes")) return PH_FAIL(err, PH_EUNSUP, "Resize: axes");
    PH_TRY(ph_want_int(n, "exclude_outside", 0, err));
    if (f->is_smooth && f->mode == NEAREST)
        return PH_FAIL(err, PH_EMISMATCH, "Resize: antialias without a mode that smooths");
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    int64_t         size[PH_RANK_MAX];
    ph_shape        y;
    form            f;
    int             count;
    PH_TRY(form_of(n, &f, err));
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    if ((n->n_in > 2 && n->in[2] >= 0) || n->n_in < 4 || n->in[3] < 0)
        return PH_FAIL(err, PH_EUNSUP, "Resize wants sizes; scales are not read");
    PH_TRY(ph_const_ints(g, n, 3, size, PH_RANK_MAX, &count, err));
    if (count != x->shape.rank)
        return PH_FAIL(err, PH_EMISMATCH, "Resize: %d sizes for rank %d", count, x->shape.rank);
    y = x->shape;
    for (int i = 0; i < count; i++) {
        if (!ph_dim_is_fixed(y.dim[i]) || y.dim[i].mul < 1)
            return PH_FAIL(err, PH_EUNSUP, "Resize: dimension %d is no positive number", i);
        if (size[i] < 1)
            return PH_FAIL(err, PH_EMISMATCH, "Resize: size %" PRId64 " of dimension %d", size[i], i);
        y.dim[i] = ph_dim_of(size[i]);
    }
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

/* Where output element o of `to` stands among `from` input elements. */
static double place(const form *f, int64_t o, int64_t from, int64_t to) {
    double scale = (double)from / (double)to;
    if (!strcmp(f->where, "align_corners"))
        return to > 1 ? (double)o * (double)(from - 1) / (double)(to - 1) : 0;
    if (!strcmp(f->where, "asymmetric")) return (double)o * scale;
    if (!strcmp(f->where, "pytorch_half_pixel") && to == 1) return 0;
    return ((double)o + 0.5) * scale - 0.5;
}

static double weight(const form *f, double x) {
    x = fabs(x);
    if (f->mode == LINEAR) return x < 1 ? 1 - x : 0;
    if (x <= 1) return ((f->a + 2) * x - (f->a + 3)) * x * x + 1;
    return x < 2 ? ((f->a * x - 5 * f->a) * x + 8 * f->a) * x - 4 * f->a : 0;
}

static int64_t within(int64_t i, int64_t n) {
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static int64_t nearest(const form *f, double x) {
    if (!strcmp(f->nearest, "floor")) return (int64_t)floor(x);
    if (!strcmp(f->nearest, "ceil")) return (int64_t)ceil(x);
    return (int64_t)(!strcmp(f->nearest, "round_prefer_ceil") ? floor(x + 0.5) : ceil(x - 0.5));
}

/* A line of `from` elements, `step` apart, at o of `to`. */
static float sample(const form *f, const float *line, int64_t step, int64_t o, int64_t from, int64_t to) {
    double scale = (double)from / (double)to, x = place(f, o, from, to), sum = 0, whole = 0;
    double reach = f->mode == LINEAR ? 1 : 2, wide = f->is_smooth && scale > 1 ? scale : 1;
    if (f->mode == NEAREST) return line[within(nearest(f, x), from) * step];
    int64_t first = (int64_t)floor(x - reach * wide), last = (int64_t)ceil(x + reach * wide);
    for (int64_t i = first; i <= last; i++) {
        double w = weight(f, ((double)i - x) / wide);
        if (f->is_smooth && (i < 0 || i >= from)) continue;
        sum += w * (double)line[within(i, from) * step];
        whole += w;
    }
    return (float)(f->is_smooth ? sum / whole : sum);
}

/* One axis: x [before, from, after] to y [before, to, after]. */
static void resize(const form *f, float *y, const float *x, int64_t before, int64_t from, int64_t to,
                   int64_t after) {
    for (int64_t b = 0; b < before; b++)
        for (int64_t o = 0; o < to; o++)
            for (int64_t i = 0; i < after; i++)
                y[(b * to + o) * after + i] = sample(f, &x[b * from * after + i], after, o, from, to);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x;
    int64_t      dim[PH_RANK_MAX];
    form         f;
    (void)g;
    PH_TRY(form_of(n, &f, err));
    PH_TRY(ph_floats(&x, &in[0], e, err));
    memcpy(dim, in[0].dim, sizeof dim);
    for (int axis = 0; axis < out->rank; axis++) {
        int64_t before = 1, after = 1, from = dim[axis], to = out->dim[axis];
        float  *y;
        if (from == to) continue;
        for (int i = 0; i < axis; i++) before *= dim[i];
        for (int i = axis + 1; i < out->rank; i++) after *= dim[i];
        PH_TRY(ph_scratch(&y, before * to * after, e, err));
        resize(&f, y, x, before, from, to, after);
        dim[axis] = to;
        x = y;
    }
    memcpy(out->data, x, (size_t)ph_array_count(out) * sizeof(float));
    return PH_OK;
}

const ph_op ph_op_Resize = {
    .name = "Resize",
    .domain = "",
    .since = 18,
    .in_min = 1,
    .in_max = 4,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Resize.html",
};
