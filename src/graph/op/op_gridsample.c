/* op_gridsample.c - GridSample: pictures read at given places (opset 20), in two dimensions.
 *
 *     x [N, C, H, W], grid [N, h, w, 2] (column, row; -1 .. 1 from edge to edge)  ->  [N, C, h, w]
 *
 * mode linear, nearest, cubic (and their older names); padding_mode zeros, border, reflection; align_corners.
 */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <math.h>
#include <string.h>

typedef enum mode { NEAREST, LINEAR, CUBIC } mode;
typedef enum pad { ZEROS, BORDER, REFLECTION } pad;

typedef struct form {
    mode mode;
    pad  pad;
    int  align;
} form;

static ph_rc form_of(const ph_node *n, form *f, ph_err *err) {
    const char *m = ph_node_text(n, "mode", "linear"), *p = ph_node_text(n, "padding_mode", "zeros");
    *f = (form){.align = ph_node_int(n, "align_corners", 0) != 0};
    if (!strcmp(m, "nearest"))
        f->mode = NEAREST;
    else if (!strcmp(m, "linear") || !strcmp(m, "bilinear"))
        f->mode = LINEAR;
    else if (!strcmp(m, "cubic") || !strcmp(m, "bicubic"))
        f->mode = CUBIC;
    else
        return PH_FAIL(err, PH_EUNSUP, "GridSample: mode \"%.32s\"", m);
    if (!strcmp(p, "zeros"))
        f->pad = ZEROS;
    else if (!strcmp(p, "border"))
        f->pad = BORDER;
    else if (!strcmp(p, "reflection"))
        f->pad = REFLECTION;
    else
        return PH_FAIL(err, PH_EUNSUP, "GridSample: padding_mode \"%.32s\"", p);
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    form f;
    PH_TRY(form_of(n, &f, err));
    PH_TRY(ph_want(g, n, 0, PH_F32, 4, err));
    PH_TRY(ph_want(g, n, 1, PH_F32, 4, err));
    const ph_shape *x = &ph_in(g, n, 0)->shape, *grid = &ph_in(g, n, 1)->shape;
    if (!ph_dim_same(x->dim[0], grid->dim[0]) || !ph_dim_same(grid->dim[3], ph_dim_of(2)))
        return ph_disagree(g, x, grid, "GridSample wants x [N, C, H, W] and a grid [N, h, w, 2]", err);
    ph_shape y = ph_shape_of(4, x->dim[0], x->dim[1], grid->dim[1], grid->dim[2]);
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

/* Back and forth between low and high. */
static double reflect(double v, double low, double high) {
    double range = high - low;
    if (!(range > 0)) return 0;
    v = fmod(fabs(v - low), 2 * range);
    return low + (v > range ? 2 * range - v : v);
}

/* A place on an axis of n elements, kept inside where the padding says so. */
static double keep(const form *f, double v, int64_t n) {
    double last = (double)(n - 1);
    if (f->pad == REFLECTION) v = f->align ? reflect(v, 0, last) : reflect(v, -0.5, last + 0.5);
    if (f->pad != ZEROS) v = v < 0 ? 0 : v > last ? last : v;
    return v;
}

static double place(const form *f, double v, int64_t n) {
    double at = f->align ? (v + 1) / 2 * (double)(n - 1) : ((v + 1) * (double)n - 1) / 2;
    if (!(fabs(at) < 1e9)) at = -2; /* far outside, or no number */
    return f->mode == CUBIC ? at : keep(f, at, n);
}

static double pixel(const form *f, const float *x, int64_t h, int64_t w, double row, double col) {
    row = keep(f, row, h), col = keep(f, col, w);
    int64_t r = (int64_t)floor(row + 0.5), c = (int64_t)floor(col + 0.5);
    return r < 0 || r >= h || c < 0 || c >= w ? 0 : (double)x[r * w + c];
}

static double cubic(double x) {
    const double a = -0.75;
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static double sample(const form *f, const float *x, int64_t h, int64_t w, double row, double col) {
    if (f->mode == NEAREST) return pixel(f, x, h, w, rint(row), rint(col));
    double r0 = floor(row), c0 = floor(col), sum = 0;
    int    first = f->mode == CUBIC ? -1 : 0, last = f->mode == CUBIC ? 2 : 1;
    for (int i = first; i <= last; i++)
        for (int j = first; j <= last; j++) {
            double dr = row - r0 - i, dc = col - c0 - j;
            double by = f->mode == CUBIC ? cubic(dr) * cubic(dc) : (1 - fabs(dr)) * (1 - fabs(dc));
            sum += by * pixel(f, x, h, w, r0 + i, c0 + j);
        }
    return sum;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x, *grid;
    form         f;
    (void)g;
    PH_TRY(form_of(n, &f, err));
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_floats(&grid, &in[1], e, err));
    int64_t h = in[0].dim[2], w = in[0].dim[3], places = out->dim[2] * out->dim[3],
            count = ph_array_count(out);
    for (int64_t i = 0; i < count; i++) {
        int64_t      plane = i / places, picture = plane / out->dim[1];
        const float *at = grid + (picture * places + i % places) * 2;
        double       col = place(&f, (double)at[0], w), row = place(&f, (double)at[1], h);
        ((float *)out->data)[i] = h && w ? (float)sample(&f, x + plane * h * w, h, w, row, col) : 0;
    }
    return PH_OK;
}

/* The modes were called otherwise before opset 20. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    static const char *const name[2][3] = {{"nearest", "bilinear", "bicubic"},
                                           {"nearest", "linear", "cubic"}};
    form                     f;
    if (form_of(n, &f, NULL)) {
        ph_oo_none(o, n, "its mode");
        return;
    }
    const ph_onnx_attr attr[] = {
        PH_OO_TEXT("mode", name[o->opset >= 20][f.mode]),
        PH_OO_TEXT("padding_mode", ph_node_text(n, "padding_mode", "zeros")),
        PH_OO_INT("align_corners", f.align),
    };
    ph_oo_emit(o, n, "", "GridSample", PH_OO_IN(ph_oo_in(o, n, 0), ph_oo_in(o, n, 1)), attr, 3);
}

const ph_op ph_op_GridSample = {
    .name = "GridSample",
    .domain = "",
    .since = 20,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__GridSample.html",
};
