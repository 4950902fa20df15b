/* op_pad.c - Pad: more elements before and behind along each axis (opset 19); negative pads cut.
 *
 *     x, pads (a constant list [begin.., end..]), value (left out: 0), axes (a constant list, left out: all)
 *
 * mode: constant, reflect (without the edge), edge, wrap. */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_number.h"

#include <inttypes.h>
#include <string.h>

#define PAD_MAX ((int64_t)1 << 40)

typedef struct form {
    int64_t begin[PH_RANK_MAX], end[PH_RANK_MAX];
} form;

static ph_rc form_of(const ph_graph *g, const ph_node *n, int rank, form *f, ph_err *err) {
    int64_t pads[2 * PH_RANK_MAX], axes[PH_RANK_MAX];
    int     count, n_axes = rank;
    *f = (form){0};
    for (int i = 0; i < rank; i++) axes[i] = i;
    PH_TRY(ph_const_ints(g, n, 1, pads, 2 * PH_RANK_MAX, &count, err));
    if (ph_in(g, n, 3)) PH_TRY(ph_const_ints(g, n, 3, axes, PH_RANK_MAX, &n_axes, err));
    if (count != 2 * n_axes) return PH_FAIL(err, PH_EMISMATCH, "Pad: %d pads for %d axes", count, n_axes);
    for (int i = 0; i < n_axes; i++) {
        int axis;
        PH_TRY(ph_axis(axes[i], rank, &axis, err));
        if (pads[i] < -PAD_MAX || pads[i] > PAD_MAX || pads[n_axes + i] < -PAD_MAX ||
            pads[n_axes + i] > PAD_MAX)
            return PH_FAIL(err, PH_ELIMIT, "Pad: %" PRId64 " and %" PRId64, pads[i], pads[n_axes + i]);
        f->begin[axis] = pads[i];
        f->end[axis] = pads[n_axes + i];
    }
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    const char     *mode = ph_node_text(n, "mode", "constant");
    ph_shape        y = x->shape;
    int64_t         count;
    form            f;
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    PH_TRY(form_of(g, n, y.rank, &f, err));
    if (strcmp(mode, "constant") && strcmp(mode, "reflect") && strcmp(mode, "edge") && strcmp(mode, "wrap"))
        return PH_FAIL(err, PH_EUNSUP, "Pad: mode \"%.32s\"", mode);
    if (ph_in(g, n, 2)) {
        PH_TRY(ph_want(g, n, 2, x->dtype, -1, err));
        if (ph_shape_count(&ph_in(g, n, 2)->shape, NULL, &count, NULL) || count != 1)
            return ph_disagree(g, &y, &ph_in(g, n, 2)->shape, "Pad wants a single number as its value", err);
    }
    for (int i = 0; i < y.rank; i++)
        if (!ph_dim_add(y.dim[i], ph_dim_of(f.begin[i] + f.end[i]), &y.dim[i]) ||
            (ph_dim_is_fixed(y.dim[i]) && y.dim[i].mul < 0))
            return PH_FAIL(err, PH_EMISMATCH, "Pad: dimension %d cannot be cut so far", i);
    ph_infer_set(&out[0], x->dtype, &y);
    return PH_OK;
}

/* Where element i of a padded line comes from among n; -1: it is padding. */
static int64_t source(const char *mode, int64_t i, int64_t n) {
    if (i >= 0 && i < n) return i;
    if (!n || !strcmp(mode, "constant")) return -1;
    if (!strcmp(mode, "edge")) return i < 0 ? 0 : n - 1;
    if (!strcmp(mode, "wrap")) return (i % n + n) % n;
    if (n == 1) return 0;
    int64_t period = 2 * (n - 1), at = (i % period + period) % period;
    return at < n ? at : period - at;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array    x, value = {0};
    const char *mode = ph_node_text(n, "mode", "constant");
    int64_t     count = ph_array_count(out), stride[PH_RANK_MAX], step = 1;
    size_t      item = ph_dtype_bytes(out->dtype);
    int         has_value = n->n_in > 2 && n->in[2] >= 0;
    form        f;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    if (has_value) PH_TRY(ph_dense(&value, &in[2], e, err));
    PH_TRY(form_of(g, n, x.rank, &f, err));
    for (int i = x.rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x.dim[i];
    }
    ph_walk w = ph_walk_over(out);
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w)) {
        int64_t from = 0;
        for (int d = 0; d < x.rank && from >= 0; d++) {
            int64_t at = source(mode, w.index[d] - f.begin[d], x.dim[d]);
            from = at < 0 ? -1 : from + at * stride[d];
        }
        char *to = (char *)out->data + (size_t)i * item;
        if (from >= 0)
            memcpy(to, (const char *)x.data + (size_t)from * item, item);
        else if (has_value)
            memcpy(to, value.data, item);
        else
            memset(to, 0, item);
    }
    return PH_OK;
}

static void write_onnx(ph_oo *o, const ph_node *n) {
    if ((o->opset < 18 && ph_oo_has(n, 3)) ||
        (o->opset < 19 && !strcmp(ph_node_text(n, "mode", "constant"), "wrap")))
        ph_oo_none(o, n, ph_oo_has(n, 3) ? "some axes only" : "mode wrap");
    else
        ph_oo_plain(o, n);
}

const ph_op ph_op_Pad = {
    .name = "Pad",
    .domain = "",
    .since = 19,
    .in_min = 2,
    .in_max = 4,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__Pad.html",
};
