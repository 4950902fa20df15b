/* inject.h - pooled features put into rows of a graph, at a value of it. */
#ifndef PH_GRAPH_INJECT_H
#define PH_GRAPH_INJECT_H

#include "graph/graph.h"

/* Inputs that the graph has afterwards. */
#define PH_INJECT_FEATURES                                                                                   \
    "inject.features" /* f32 [N, d]: all features that rows may take, where they were made */
#define PH_INJECT_ROWS                                                                                       \
    "inject.rows" /* i32 [R, 2]: begin and end of what each row takes; equal: it stays as it is */

/* A PoolInject of the features behind the value `at`, f32 [rows, d]: who read it reads the node's result,
 * called
 * "<at>.injected".  Its norm has scale 1 and bias 0, the constants "inject.scale" and "inject.bias".
 * This changes what the graph says: no pass of pass.def, but something that is asked for.
 * Errors: PH_EUSAGE no such value, no rows of floats, injected already, an alpha beyond
 * PH_INJECT_MOST. */
ph_rc ph_graph_inject(ph_graph *g, const char *at, double alpha, ph_err *err);

#endif
