/* pass.h - rewrites that keep a graph's meaning: one file each in pass/, one line in pass.def.
 *
 * A pass redirects uses and drops nodes; the driver then closes the gaps, renumbers and
 * checks.  Values that must survive - outputs, and those in `keep` (taps) - still exist
 * afterwards under their names and hold the same numbers.
 */
#ifndef PH_GRAPH_PASS_H
#define PH_GRAPH_PASS_H

#include "graph/op.h"

typedef struct ph_pass_env {
    const ph_kernels *kernels; /* for folding */
    int              *keep;    /* [n_keep] value ids that must survive; renumbered by the driver */
    size_t            n_keep;
    const char       *off;            /* names of passes left out, separated by commas; NULL: none */
    int               is_built;       /* 1: a family built the graph: only passes that are of meaning */
    size_t            fold_bytes_max; /* largest constant, in and out, that is folded; 0: 64 KiB */
} ph_pass_env;

typedef struct ph_pass {
    const char *name;
    const char *what; /* one line for a human */
    /* *changes: how many nodes were rewritten. */
    ph_rc (*run)(ph_graph *g, const ph_pass_env *env, size_t *changes, ph_err *err);
    int is_rounding;   /* sums are taken in another order: the last bits may change */
    int is_of_meaning; /* finds what nodes mean together: also of graphs that families build, which have
                        * nothing to fold or to clear away */
} ph_pass;

#define PH_PASS(name) extern const ph_pass ph_pass_##name;
#include "graph/pass.def"
#undef PH_PASS

size_t         ph_pass_count(void);
const ph_pass *ph_pass_at(size_t i); /* in the order in which they run; NULL past the end */

/* Run the passes over a finished graph, again and again until none changes anything.  *changes may be NULL.
 * Value and node ids change; names and env->keep stay true.
 * Errors: PH_EUSAGE `off` names no pass (lists them); what folding or the check says. */
ph_rc ph_passes_run(ph_graph *g, ph_pass_env *env, size_t *changes, ph_err *err);

/* ---- for the files in pass/ ---- */
int ph_pass_must_survive(const ph_graph *g, const ph_pass_env *env, int value);
/* What becomes of values while a pass goes over the nodes in their order: uses are rewritten once, not at
 * each change.  A pass that redirects calls ph_pass_follow for each node before it looks at its inputs. */
typedef struct ph_redirects {
    int *to; /* [values]; a value itself: it stays */
} ph_redirects;
ph_rc ph_pass_redirects_open(ph_redirects *r, const ph_graph *g, ph_err *err);
void  ph_pass_redirect(ph_redirects *r, int from, int to);   /* every use of `from` becomes one of `to` */
void  ph_pass_follow(ph_redirects *r, ph_node *n);           /* its inputs as they stand now */
void  ph_pass_redirects_close(ph_redirects *r, ph_graph *g); /* all nodes follow; accepts a zeroed one */
void  ph_pass_drop(ph_graph *g, size_t node); /* the node goes; its outputs must have no uses left */
int   ph_pass_is_dropped(const ph_node *n);

#endif
