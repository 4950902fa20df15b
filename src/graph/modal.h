/* modal.h - what the multimodal operators and their lowerings share.
 *
 * An operator's eval is the definition; its lowering must give the same bits with the
 * same kernels.  So what both reckon, in which order, stands here once, as does what
 * both read of a node.
 */
#ifndef PH_GRAPH_MODAL_H
#define PH_GRAPH_MODAL_H

#include "graph/op.h"

/* ---- PoolInject ---- */
#define PH_INJECT_ALPHA 0.3
#define PH_INJECT_MOST                                                                                       \
    1e4 /* of alpha, either sign, where features are injected: rows stay far from overflow */
#define PH_INJECT_EPSILON 1e-5
/* mean[n] = alpha * the mean of v[rows, n]; zeros where rows is 0.  Rows are summed 32 at a time, then the
 * sums: the error is at most (34 + rows / 32) * FLT_EPSILON * |alpha| * mean |v|.
 * part: n floats, private to the caller. */
void ph_modal_pool(const ph_kernels *k, float *mean, float *part, const float *v, size_t rows, size_t n,
                   float alpha);
/* Rows of `segment` [rows, 2] are begin <= end <= n.  what: "takes features", for the message.
 * Errors: PH_EMISMATCH with the row. */
ph_rc ph_modal_segments(const int32_t *segment, int64_t rows, int64_t n, const char *what, ph_err *err);

/* ---- ModalGate, ModalitySwitch ---- */
enum { PH_GATES_MAX = 4096 };
/* n indices (i64, or i32) in -m .. m-1 as 0 .. m-1 into out; NULL: they are checked only.
 * Errors: PH_EMISMATCH with the row. */
ph_rc ph_modal_indices(int32_t *out, const void *index, int is_wide, int64_t n, int64_t m, ph_err *err);

/* ---- for passes ---- */
size_t ph_modal_readers(const ph_graph *g, int value); /* how often nodes read it */

#endif
