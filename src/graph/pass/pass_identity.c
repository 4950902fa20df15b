/* pass_identity.c - operators that hand on the same numbers in the same shape are taken out.
 *
 * Between a value and a copy of it that must survive, the maker writes the
 * survivor directly; where both must survive, the node stays.
 */
#include "graph/pass.h"

#include <string.h>

/* These only move or rename numbers: same type and shape means same numbers. */
static const char *const movers[] = {"Copy",    "Identity",  "Reshape", "Cast",  "Expand",
                                     "Squeeze", "Unsqueeze", "Concat",  "Split", NULL};

static int is_identity(const ph_graph *g, const ph_node *n) {
    if (ph_pass_is_dropped(n) || n->n_out != 1 || n->in[0] < 0) return 0;
    const ph_value *x = &g->value[n->in[0]], *y = &g->value[n->out[0]];
    if (!strcmp(n->op->name, "Concat") && n->n_in != 1) return 0;
    for (int i = 0; movers[i]; i++)
        if (!strcmp(n->op->name, movers[i]))
            return x->dtype == y->dtype && ph_shape_same(&x->shape, &y->shape) &&
                   x->is_device == y->is_device;
    return 0;
}

/* The maker of x writes y in its place. */
static void take_over(ph_graph *g, ph_redirects *r, int x, int y) {
    ph_node *maker = &g->node[g->value[x].producer];
    for (int k = 0; k < maker->n_out; k++)
        if (maker->out[k] == x) maker->out[k] = y;
    g->value[y].producer = g->value[x].producer;
    g->value[x].producer = -1;
    ph_pass_redirect(r, x, y);
}

static ph_rc run(ph_graph *g, const ph_pass_env *env, size_t *changes, ph_err *err) {
    ph_redirects r;
    PH_TRY(ph_pass_redirects_open(&r, g, err));
    for (size_t i = 0; i < g->n_nodes; i++) {
        ph_pass_follow(&r, &g->node[i]);
        if (!is_identity(g, &g->node[i])) continue;
        int x = g->node[i].in[0], y = g->node[i].out[0];
        int y_stays = ph_pass_must_survive(g, env, y);
        if (y_stays && (g->value[x].cls != PH_VALUE_TEMP || ph_pass_must_survive(g, env, x))) continue;
        ph_pass_drop(g, i);
        if (y_stays)
            take_over(g, &r, x, y);
        else
            ph_pass_redirect(&r, y, x);
        ++*changes;
    }
    ph_pass_redirects_close(&r, g);
    return PH_OK;
}

const ph_pass ph_pass_identity = {"identity", "take out nodes that change nothing", .run = run};
