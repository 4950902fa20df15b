/* op_window.c - sizes of sliding windows.  See op_window.h. */
#include "graph/op/op_window.h"

#include <inttypes.h>
#include <string.h>

enum { SIDE_MAX = 1 << 24 };

ph_rc ph_window_list(const ph_node *n, const char *name, int count, int64_t low, int64_t otherwise,
                     int64_t *out, ph_err *err) {
    size_t         have;
    const int64_t *list = ph_node_ints(n, name, &have);
    for (int i = 0; i < count; i++) out[i] = otherwise;
    if (!ph_node_attr(n, name)) return PH_OK;
    if (have != (size_t)count)
        return PH_FAIL(err, PH_EMISMATCH, "%s: %zu numbers in %s, %d wanted", n->op->name, have, name, count);
    for (int i = 0; i < count; i++) {
        if (list[i] < low || list[i] > SIDE_MAX)
            return PH_FAIL(err, PH_ELIMIT, "%s: %s is %" PRId64 ", not %" PRId64 "..%d", n->op->name, name,
                           list[i], low, SIDE_MAX);
        out[i] = list[i];
    }
    return PH_OK;
}

ph_rc ph_window_sides(const ph_graph *g, const ph_node *n, const ph_shape *s, int64_t out[3], int *dims,
                      ph_err *err) {
    *dims = s->rank - 2;
    if (s->rank < 3 || s->rank > 5)
        return PH_FAIL(err, PH_EMISMATCH, "%s: an array of rank %d; 3 to 5 are done", n->op->name, s->rank);
    for (int i = 0; i < *dims; i++) {
        char text[128];
        ph_graph_shape_print(g, s, text, sizeof text);
        if (!ph_dim_is_fixed(s->dim[2 + i]))
            return PH_FAIL(err, PH_EUNSUP, "%s: %s has sides that are no plain numbers", n->op->name, text);
        out[i] = s->dim[2 + i].mul;
    }
    return PH_OK;
}

static int64_t reach(const ph_window *w, int d) { /* of the window, holes included */
    return (w->kernel[d] - 1) * w->dilation[d] + 1;
}

/* Paddings by auto_pad or the pads attribute. */
static ph_rc pads_of(const ph_node *n, ph_window *w, ph_err *err) {
    const char *mode = ph_node_text(n, "auto_pad", "NOTSET");
    int64_t     pads[6];
    int         first = PH_WINDOW_DIMS - w->n, is_lower = !strcmp(mode, "SAME_LOWER");
    if (is_lower || !strcmp(mode, "SAME_UPPER")) {
        for (int d = first; d < PH_WINDOW_DIMS; d++) {
            int64_t steps = (w->in[d] + w->stride[d] - 1) / w->stride[d];
            int64_t need = (steps - 1) * w->stride[d] + reach(w, d) - w->in[d];
            if (need < 0) need = 0;
            w->pad[d] = is_lower ? need - need / 2 : need / 2;
            w->behind[d] = need - w->pad[d];
        }
        return PH_OK;
    }
    if (!strcmp(mode, "VALID")) return PH_OK;
    if (strcmp(mode, "NOTSET")) return PH_FAIL(err, PH_EUNSUP, "%s: auto_pad \"%.32s\"", n->op->name, mode);
    PH_TRY(ph_window_list(n, "pads", 2 * w->n, 0, 0, pads, err));
    for (int i = 0; i < w->n; i++) {
        w->pad[first + i] = pads[i];
        w->behind[first + i] = pads[w->n + i];
    }
    return PH_OK;
}

/* Steps of the window; with ceil_mode one that begins inside the input may hang over its end. */
static ph_rc steps_of(const ph_node *n, ph_window *w, ph_err *err) {
    int ceil_mode = ph_node_int(n, "ceil_mode", 0) != 0;
    for (int d = 0; d < PH_WINDOW_DIMS; d++) {
        int64_t room = w->in[d] + w->pad[d] + w->behind[d] - reach(w, d);
        if (room < 0)
            return PH_FAIL(err, PH_EMISMATCH, "%s: side %" PRId64 " is smaller than the kernel", n->op->name,
                           w->in[d]);
        w->out[d] = room / w->stride[d] + 1;
        if (ceil_mode && room % w->stride[d] && w->out[d] * w->stride[d] < w->in[d] + w->pad[d]) w->out[d]++;
    }
    return PH_OK;
}

ph_rc ph_window_of(const ph_node *n, int dims, const int64_t *in, const int64_t *kernel, ph_window *w,
                   ph_err *err) {
    int     first = PH_WINDOW_DIMS - dims;
    int64_t shape[3];
    *w = (ph_window){.n = dims};
    for (int d = 0; d < PH_WINDOW_DIMS; d++) w->in[d] = w->kernel[d] = w->stride[d] = w->dilation[d] = 1;
    PH_TRY(ph_window_list(n, "strides", dims, 1, 1, w->stride + first, err));
    PH_TRY(ph_window_list(n, "dilations", dims, 1, 1, w->dilation + first, err));
    PH_TRY(ph_window_list(n, "kernel_shape", dims, 1, 0, shape, err));
    for (int i = 0; i < dims; i++) {
        int64_t k = kernel ? kernel[i] : shape[i];
        if (in[i] > SIDE_MAX || in[i] < 0 || k < 1 || k > SIDE_MAX)
            return PH_FAIL(err, PH_ELIMIT, "%s: side %" PRId64 " with a kernel of %" PRId64, n->op->name,
                           in[i], k);
        if (shape[i] && shape[i] != k)
            return PH_FAIL(err, PH_EMISMATCH, "%s: kernel_shape %" PRId64 ", weight %" PRId64, n->op->name,
                           shape[i], k);
        w->in[first + i] = in[i];
        w->kernel[first + i] = k;
    }
    if (!kernel && w->kernel[0] * w->kernel[1] > SIDE_MAX / w->kernel[2])
        return PH_FAIL(err, PH_ELIMIT, "%s: a window of more than %d places", n->op->name, SIDE_MAX);
    PH_TRY(pads_of(n, w, err));
    return steps_of(n, w, err);
}
