/* pass_dead.c - nodes that no output, kept value or state depends on are taken out.
 *
 * A graph without any output or kept value is left alone: nobody has said yet what it is for.
 */
#include "graph/pass.h"

#include <stdlib.h>

static int is_needed(const ph_graph *g, const ph_pass_env *env, const unsigned char *used, const ph_node *n) {
    if (n->op->has_effect) return 1;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] >= 0 && (used[n->out[k]] || ph_pass_must_survive(g, env, n->out[k]))) return 1;
    return 0;
}

static ph_rc run(ph_graph *g, const ph_pass_env *env, size_t *changes, ph_err *err) {
    size_t survivors = env->n_keep;
    for (size_t v = 0; v < g->n_values; v++) survivors += g->value[v].is_output != 0;
    if (!survivors) return PH_OK;
    unsigned char *used = calloc(g->n_values + 1, 1);
    if (!used) return PH_FAIL(err, PH_ENOMEM, "graph %s: %zu values", g->name, g->n_values);
    for (size_t i = g->n_nodes; i-- > 0;) { /* users stand behind makers */
        const ph_node *n = &g->node[i];
        if (ph_pass_is_dropped(n)) continue;
        if (!is_needed(g, env, used, n)) {
            ph_pass_drop(g, i);
            ++*changes;
            continue;
        }
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0) used[n->in[k]] = 1;
    }
    free(used);
    return PH_OK;
}

const ph_pass ph_pass_dead = {"dead", "take out what nothing depends on", .run = run};
