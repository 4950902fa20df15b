/* op_window.h - windows that slide over one to three dimensions: convolutions and pools.  Only files of
 * graph/op/.
 *
 * Fewer dimensions than three stand at the end; what is missing in front has size 1.
 */
#ifndef PH_GRAPH_OP_OP_WINDOW_H
#define PH_GRAPH_OP_OP_WINDOW_H

#include "graph/op/op_help.h"

enum { PH_WINDOW_DIMS = 3 };

typedef struct ph_window {
    int     n; /* dimensions that are there */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3];
    int64_t pad[3], behind[3]; /* before and behind; behind may be cut by ceil_mode */
} ph_window;

/* From strides, dilations, pads, auto_pad and ceil_mode.  in[n], kernel[n]: the sizes; kernel NULL: the
 * attribute kernel_shape, which must agree with it otherwise. Errors: PH_EMISMATCH, PH_EUNSUP, PH_ELIMIT with
 * the numbers. */
ph_rc ph_window_of(const ph_node *n, int dims, const int64_t *in, const int64_t *kernel, ph_window *w,
                   ph_err *err);
/* The sizes of a shape from dimension 2 on, as plain numbers.  Errors: PH_EUNSUP symbols; PH_EMISMATCH a rank
 * outside 3..5. */
ph_rc ph_window_sides(const ph_graph *g, const ph_node *n, const ph_shape *s, int64_t out[3], int *dims,
                      ph_err *err);
/* Numbers of an attribute list, or `otherwise` for all.  Errors: PH_EMISMATCH another count; PH_ELIMIT a
 * number outside low..2^24. */
ph_rc ph_window_list(const ph_node *n, const char *name, int count, int64_t low, int64_t otherwise,
                     int64_t *out, ph_err *err);

/* How many places of the window at output place o (per dimension) lie inside the input: [first, end) of k. */
static inline int64_t ph_window_at(const ph_window *w, int d, int64_t o, int64_t k) {
    return o * w->stride[d] + k * w->dilation[d] - w->pad[d];
}

#endif
