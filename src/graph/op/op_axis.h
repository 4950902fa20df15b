/* op_axis.h - what operators along one axis share: the attribute axis, and the lines of an array along it.
 * Only files of graph/op/ include this.
 */
#ifndef PH_GRAPH_OP_OP_AXIS_H
#define PH_GRAPH_OP_OP_AXIS_H

#include "graph/op/op_number.h"

/* f32 in, the same out; axis (-1) is one of its own.  Errors: PH_EMISMATCH. */
ph_rc ph_infer_axis(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err);
/* Each line of in[0] along axis (-1) to the same line of out: n elements, step apart. */
typedef void ph_line_fn(float *y, const float *x, int64_t n, int64_t step);
ph_rc ph_eval_lines(const ph_node *n, const ph_array *in, ph_array *out, ph_line_fn *f, const ph_eval *e,
                    ph_err *err);

/* The place of one element of each line along axis (0), in i64: of the first that no other beats, or with
 * select_last_index of the last.  Errors: PH_EMISMATCH lines of no elements. */
ph_rc ph_infer_place(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err);
ph_rc ph_eval_place(const ph_node *n, const ph_array *in, ph_array *out, const ph_compare *beats,
                    const ph_eval *e, ph_err *err);

#endif
