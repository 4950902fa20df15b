/* op_resize.c - Resize (opset 19): each axis whose size changes is resampled by itself, one after the other.
 *
 *     X [..], roi [2 rank] f32, scales [rank] f32, sizes [rank] i64 (constants; one of the two)  ->  Y
 *
 * An output element is a short weighted sum of input elements of its line; which, and how heavy, follows from
 * the mode and the coordinate transformation.  With antialias the kernel widens as the line shrinks.  What
 * lies outside counts as the edge, or with exclude_outside not at all; weights are then normalised over the
 * rest.
 *
 * Attributes: mode nearest | linear | cubic; coordinate_transformation_mode half_pixel | half_pixel_symmetric
 * | pytorch_half_pixel | align_corners | asymmetric | tf_crop_and_resize (roi, extrapolation_value);
 * nearest_mode; cubic_coeff_a; antialias; exclude_outside; axes; keep_aspect_ratio_policy.
 */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef enum kind { NEAREST, LINEAR, CUBIC } kind;
#define SIZE_LIMIT ((int64_t)1 << 32)

typedef struct form {
    kind        mode;
    const char *where, *nearest;
    double      a, outside; /* outside: extrapolation_value */
    int         is_smooth;  /* antialias */
    int         excludes;
    /* By axis of x. */
    double  scale[PH_RANK_MAX], start[PH_RANK_MAX], end[PH_RANK_MAX];
    int64_t size[PH_RANK_MAX];
} form;

/* One axis of it. */
typedef struct axis {
    const form *f;
    int64_t     from, to;
    double      scale, start, end;
} axis;

static int one_of(const char *word, const char *const *words) {
    for (int i = 0; words[i]; i++)
        if (!strcmp(word, words[i])) return i;
    return -1;
}

static ph_rc attrs_of(const ph_node *n, form *f, ph_err *err) {
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const places[] = {"half_pixel",
                                         "half_pixel_symmetric",
                                         "pytorch_half_pixel",
                                         "align_corners",
                                         "asymmetric",
                                         "tf_crop_and_resize",
                                         NULL};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    const char              *mode = ph_node_text(n, "mode", "nearest");
    *f = (form){0};
    f->where = ph_node_text(n, "coordinate_transformation_mode", "half_pixel");
    f->nearest = ph_node_text(n, "nearest_mode", "round_prefer_floor");
    f->a = ph_node_float(n, "cubic_coeff_a", -0.75);
    f->outside = ph_node_float(n, "extrapolation_value", 0);
    f->is_smooth = ph_node_int(n, "antialias", 0) != 0;
    f->excludes = ph_node_int(n, "exclude_outside", 0) != 0;
    f->mode = (kind)one_of(mode, modes);
    if (one_of(mode, modes) < 0) return PH_FAIL(err, PH_EUNSUP, "Resize: mode \"%.32s\"", mode);
    if (one_of(f->where, places) < 0)
        return PH_FAIL(err, PH_EUNSUP, "Resize: coordinate_transformation_mode \"%.32s\"", f->where);
    if (one_of(f->nearest, roundings) < 0)
        return PH_FAIL(err, PH_EUNSUP, "Resize: nearest_mode \"%.32s\"", f->nearest);
    if (!isfinite(f->a)) return PH_FAIL(err, PH_EMISMATCH, "Resize: cubic_coeff_a %g", f->a);
    if (f->is_smooth && f->mode == NEAREST)
        return PH_FAIL(err, PH_EMISMATCH, "Resize: antialias without a mode that smooths");
    return PH_OK;
}

static ph_rc axes_of(const ph_node *n, int rank, int axes[PH_RANK_MAX], int *count, ph_err *err) {
    size_t         have;
    const int64_t *list = ph_node_ints(n, "axes", &have);
    *count = list ? (int)have : rank;
    if (have > PH_RANK_MAX) return PH_FAIL(err, PH_ELIMIT, "Resize: %zu axes", have);
    for (int i = 0; i < *count; i++) PH_TRY(ph_axis(list ? list[i] : i, rank, &axes[i], err));
    return PH_OK;
}

/* The numbers of a constant list of floats. */
static ph_rc floats_of(const ph_graph *g, const ph_node *n, int i, int count, float *out, ph_err *err) {
    const ph_value *v = ph_in(g, n, i);
    int64_t         have;
    if (v->cls != PH_VALUE_CONSTANT || v->dtype != PH_F32 || v->storage.form || v->shape.rank != 1 ||
        ph_shape_count(&v->shape, NULL, &have, NULL))
        return PH_FAIL(err, PH_EUNSUP, "Resize: input %d must be a constant list of floats", i);
    if (have != count)
        return PH_FAIL(err, PH_EMISMATCH, "Resize: %" PRId64 " numbers for %d axes", have, count);
    if (count) ph_storage_row(&v->storage, 0, (size_t)count, out);
    return PH_OK;
}

/* "not_larger" and "not_smaller": one scale for all axes. */
static ph_rc keep_ratio(const ph_node *n, form *f, const int64_t *from, const int *axes, int count,
                        ph_err *err) {
    const char *policy = ph_node_text(n, "keep_aspect_ratio_policy", "stretch");
    int         larger = !strcmp(policy, "not_smaller");
    if (!strcmp(policy, "stretch")) return PH_OK;
    if (!larger && strcmp(policy, "not_larger"))
        return PH_FAIL(err, PH_EUNSUP, "Resize: keep_aspect_ratio_policy \"%.32s\"", policy);
    double scale = count ? f->scale[axes[0]] : 1;
    for (int i = 1; i < count; i++)
        if (larger ? f->scale[axes[i]] > scale : f->scale[axes[i]] < scale) scale = f->scale[axes[i]];
    for (int i = 0; i < count; i++) {
        f->scale[axes[i]] = scale;
        f->size[axes[i]] = (int64_t)floor(scale * (double)from[axes[i]] + 0.5);
    }
    return PH_OK;
}

static ph_rc read_sizes(const ph_graph *g, const ph_node *n, form *f, const int64_t *from, const int *axes,
                        int count, ph_err *err) {
    int64_t size[PH_RANK_MAX];
    int     have;
    PH_TRY(ph_const_ints(g, n, 3, size, PH_RANK_MAX, &have, err));
    if (have != count) return PH_FAIL(err, PH_EMISMATCH, "Resize: %d sizes for %d axes", have, count);
    for (int i = 0; i < count; i++) {
        if (size[i] < 1 || size[i] > SIZE_LIMIT)
            return PH_FAIL(err, PH_EMISMATCH, "Resize: size %" PRId64 " of dimension %d", size[i], axes[i]);
        f->size[axes[i]] = size[i];
        f->scale[axes[i]] = (double)size[i] / (double)from[axes[i]];
    }
    return keep_ratio(n, f, from, axes, count, err);
}

static ph_rc read_scales(const ph_graph *g, const ph_node *n, form *f, const int64_t *from, const int *axes,
                         int count, ph_err *err) {
    float scale[PH_RANK_MAX];
    PH_TRY(floats_of(g, n, 2, count, scale, err));
    for (int i = 0; i < count; i++) {
        double size = floor((double)from[axes[i]] * (double)scale[i]);
        if (!(scale[i] > 0) || !(size >= 1) || !(size <= (double)SIZE_LIMIT))
            return PH_FAIL(err, PH_EMISMATCH, "Resize: scale %g of dimension %d", (double)scale[i], axes[i]);
        f->size[axes[i]] = (int64_t)size;
        f->scale[axes[i]] = (double)scale[i];
    }
    return PH_OK;
}

/* from: the sizes of x; those of axes that are not resized are not looked at. */
static ph_rc form_of(const ph_graph *g, const ph_node *n, int rank, const int64_t *from, form *f,
                     ph_err *err) {
    int   axes[PH_RANK_MAX], count;
    float roi[2 * PH_RANK_MAX];
    PH_TRY(attrs_of(n, f, err));
    PH_TRY(axes_of(n, rank, axes, &count, err));
    for (int i = 0; i < rank; i++) f->size[i] = from[i], f->scale[i] = 1, f->end[i] = 1;
    int has_scales = ph_in(g, n, 2) != NULL, has_sizes = ph_in(g, n, 3) != NULL;
    if (has_scales == has_sizes) return PH_FAIL(err, PH_EMISMATCH, "Resize wants either scales or sizes");
    PH_TRY(has_sizes ? read_sizes(g, n, f, from, axes, count, err)
                     : read_scales(g, n, f, from, axes, count, err));
    if (strcmp(f->where, "tf_crop_and_resize")) return PH_OK;
    if (!ph_in(g, n, 1)) return PH_FAIL(err, PH_EMISMATCH, "Resize: tf_crop_and_resize wants roi");
    PH_TRY(floats_of(g, n, 1, 2 * count, roi, err));
    for (int i = 0; i < count; i++) {
        f->start[axes[i]] = (double)roi[i], f->end[axes[i]] = (double)roi[count + i];
        if (!isfinite(roi[i]) || !isfinite(roi[count + i]))
            return PH_FAIL(err, PH_EMISMATCH, "Resize: roi is not finite");
    }
    return PH_OK;
}

static int is_resized(const ph_node *n, int rank, int d) {
    int axes[PH_RANK_MAX], count;
    if (axes_of(n, rank, axes, &count, NULL)) return 1;
    for (int i = 0; i < count; i++)
        if (axes[i] == d) return 1;
    return 0;
}

/* A dimension that keeps its size may be a symbol. */
static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int64_t from[PH_RANK_MAX];
    form    f;
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    ph_shape y = ph_in(g, n, 0)->shape;
    for (int i = 0; i < y.rank; i++) {
        int is_fixed = ph_dim_is_fixed(y.dim[i]);
        from[i] = is_fixed ? y.dim[i].mul : 1;
        if (is_resized(n, y.rank, i) && is_fixed && from[i] < 1)
            return PH_FAIL(err, PH_EUNSUP, "Resize: dimension %d is no positive number", i);
    }
    PH_TRY(form_of(g, n, y.rank, from, &f, err));
    for (int i = 0; i < y.rank; i++) {
        if (ph_dim_is_fixed(y.dim[i]))
            y.dim[i] = ph_dim_of(f.size[i]);
        else if (is_resized(n, y.rank, i) && (ph_in(g, n, 3) || f.scale[i] > 1 || f.scale[i] < 1))
            return PH_FAIL(err, PH_EUNSUP, "Resize: dimension %d is no positive number", i);
    }
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

/* Where output element o stands among the input elements. */
static double place(const axis *a, int64_t o) {
    const char *where = a->f->where;
    double      from = (double)a->from, to = (double)a->to, at = (double)o;
    if (!strcmp(where, "align_corners")) return a->to > 1 ? at * (from - 1) / (to - 1) : 0;
    if (!strcmp(where, "asymmetric")) return at / a->scale;
    if (!strcmp(where, "pytorch_half_pixel") && a->to == 1) return 0;
    if (!strcmp(where, "tf_crop_and_resize"))
        return a->to > 1 ? a->start * (from - 1) + at * (a->end - a->start) * (from - 1) / (to - 1)
                         : 0.5 * (a->start + a->end) * (from - 1);
    if (!strcmp(where, "half_pixel_symmetric")) {
        double whole = a->scale * from, adjust = to / whole, center = from / 2;
        return center * (1 - adjust) + (at + 0.5) / a->scale - 0.5;
    }
    return (at + 0.5) / a->scale - 0.5;
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

/* A line of a->from elements, `step` apart, at output place o. */
static float sample(const axis *a, const float *line, int64_t step, int64_t o) {
    const form *f = a->f;
    double      x = place(a, o), sum = 0, whole = 0;
    double      reach = f->mode == LINEAR ? 1 : 2, wide = f->is_smooth && a->scale < 1 ? 1 / a->scale : 1;
    if (!strcmp(f->where, "tf_crop_and_resize") && (x < 0 || x > (double)(a->from - 1)))
        return (float)f->outside;
    if (f->mode == NEAREST) return line[within(nearest(f, x), a->from) * step];
    int64_t first = (int64_t)floor(x - reach * wide), last = (int64_t)ceil(x + reach * wide);
    for (int64_t i = first; i <= last; i++) {
        double w = weight(f, ((double)i - x) / wide);
        if (f->excludes && (i < 0 || i >= a->from)) continue;
        sum += w * (double)line[within(i, a->from) * step];
        whole += w;
    }
    return (float)(f->is_smooth || f->excludes ? sum / whole : sum);
}

/* One axis: x [before, from, after] to y [before, to, after]. */
static void resize(const axis *a, float *y, const float *x, int64_t before, int64_t after) {
    for (int64_t b = 0; b < before; b++)
        for (int64_t o = 0; o < a->to; o++)
            for (int64_t i = 0; i < after; i++)
                y[(b * a->to + o) * after + i] = sample(a, &x[b * a->from * after + i], after, o);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x;
    int64_t      dim[PH_RANK_MAX];
    form         f;
    int          is_crop;
    PH_TRY(form_of(g, n, in[0].rank, in[0].dim, &f, err));
    PH_TRY(ph_floats(&x, &in[0], e, err));
    if (!ph_array_count(out)) return PH_OK;
    memcpy(dim, in[0].dim, sizeof dim);
    is_crop = !strcmp(f.where, "tf_crop_and_resize");
    for (int d = 0; d < out->rank; d++) {
        axis    a = {&f, dim[d], out->dim[d], f.scale[d], f.start[d], f.end[d]};
        int64_t before = 1, after = 1;
        float  *y;
        if (a.from == a.to && !is_crop) continue;
        for (int i = 0; i < d; i++) before *= dim[i];
        for (int i = d + 1; i < out->rank; i++) after *= dim[i];
        PH_TRY(ph_scratch(&y, before * a.to * after, e, err));
        resize(&a, y, x, before, after);
        dim[d] = a.to;
        x = y;
    }
    memcpy(out->data, x, (size_t)ph_array_count(out) * sizeof(float));
    return PH_OK;
}

/* What lies between the axes. */
static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    int64_t all = 0;
    (void)g, (void)n;
    for (int d = 0; d < out->rank; d++) {
        int64_t  size;
        ph_array a = *in;
        for (int i = 0; i <= d; i++) a.dim[i] = out->dim[i];
        size = ph_array_count(&a) + PH_ALIGN;
        if (__builtin_add_overflow(all, size, &all)) return INT64_MAX;
    }
    return all;
}

/* What opset 17 has no word for is left out where it says nothing. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    char              without[64] = "";
    const char *const in[4] = {ph_oo_in(o, n, 0), ph_oo_in(o, n, 1), ph_oo_in(o, n, 2), ph_oo_in(o, n, 3)};
    const char       *where = ph_node_text(n, "coordinate_transformation_mode", "half_pixel");
    if (o->opset < 19 && !strcmp(where, "half_pixel_symmetric")) {
        ph_oo_none(o, n, "half_pixel_symmetric");
        return;
    }
    if (!ph_node_int(n, "antialias", 0)) strcat(without, "antialias ");
    if (!strcmp(ph_node_text(n, "keep_aspect_ratio_policy", "stretch"), "stretch"))
        strcat(without, "keep_aspect_ratio_policy");
    ph_oo_plain_with(o, n, in, 4, without);
}

const ph_op ph_op_Resize = {
    .name = "Resize",
    .domain = "",
    .since = 19,
    .in_min = 1,
    .in_max = 4,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .scratch = scratch,
    .source = "onnx.ai/onnx/operators/onnx__Resize.html",
};
