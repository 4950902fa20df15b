/* pass_gate.c - of a softmax one number a row is kept: ModalGate makes no other.
 *
 *     logits ─ Softmax(last axis) ─ GatherElements(last axis) ◄─ index [.., 1]
 *
 * The bits may change: sums of float where Softmax sums in double (kernels.h states both errors).
 */
#include "graph/modal.h"
#include "graph/pass.h"

#include <string.h>

static int is_last_axis(const ph_graph *g, const ph_node *n) {
    int     rank = g->value[n->in[0]].shape.rank;
    int64_t axis = ph_node_int(n, "axis", strcmp(n->op->name, "Softmax") ? 0 : -1);
    return axis == -1 || axis == rank - 1;
}

static int is_one(const ph_node *n, const char *op) {
    return !ph_pass_is_dropped(n) && !strcmp(n->op->name, op);
}

/* The softmax before it, which nobody else reads; -1: this is no gate. */
static int softmax_of(const ph_graph *g, const ph_pass_env *env, const ph_node *gather) {
    if (!is_one(gather, "GatherElements") || !is_last_axis(g, gather)) return -1;
    const ph_shape *index = &g->value[gather->in[1]].shape, *x = &g->value[gather->in[0]].shape;
    int             at = g->value[gather->in[0]].producer;
    if (at < 0 || !is_one(&g->node[at], "Softmax") || !is_last_axis(g, &g->node[at]) ||
        g->node[at].modality != gather->modality || ph_pass_must_survive(g, env, gather->in[0]))
        return -1;
    if (index->rank != x->rank || !ph_dim_same(index->dim[x->rank - 1], ph_dim_of(1)) ||
        !ph_dim_is_fixed(x->dim[x->rank - 1]) || x->dim[x->rank - 1].mul < 1 ||
        x->dim[x->rank - 1].mul > PH_GATES_MAX)
        return -1;
    for (int i = 0; i + 1 < x->rank; i++)
        if (!ph_dim_same(x->dim[i], index->dim[i])) return -1;
    return ph_modal_readers(g, gather->in[0]) == 1 ? at : -1;
}

static ph_rc run(ph_graph *g, const ph_pass_env *env, size_t *changes, ph_err *err) {
    const ph_op *op = ph_op_find("ModalGate");
    (void)err;
    for (size_t i = 0; i < g->n_nodes; i++) {
        int softmax = softmax_of(g, env, &g->node[i]);
        if (softmax < 0) continue;
        ph_node *n = &g->node[i];
        n->in[0] = g->node[softmax].in[0];
        n->op = op;
        n->n_attr = 0;
        n->fusion_policy = PH_FUSION_GATED;
        ph_pass_drop(g, (size_t)softmax);
        ++*changes;
    }
    return PH_OK;
}

const ph_pass ph_pass_gate = {"gate", "softmax of which one number a row is kept: ModalGate", run,
                              .is_rounding = 1, .is_of_meaning = 1};
