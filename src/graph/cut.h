/* cut.h - a graph in two, at a value that one half makes and the other reads.
 *
 *     ids ─► Gather, Mul ─► embedded ─► layers ...        before: ids ─► embedded      after: embedded ─► layers ...
 */
#ifndef PH_GRAPH_CUT_H
#define PH_GRAPH_CUT_H

#include "graph/graph.h"

/* *before: the nodes that `value` follows from, which is its output; *after: all others, of which it is an
 * input, under the same name.  Both are owned by the caller, and borrow names and weights of g, which
 * outlives them. Errors: PH_EUNSUP no node makes such a value, it is an output, or the rest reads something
 * else of what comes before it; PH_ENOMEM. */
ph_rc ph_graph_cut(const ph_graph *g, const char *value, const char *before_name, ph_graph **before,
                   ph_graph **after, ph_err *err);

#endif
