/* check.c - is this a graph?  What every later room may then take for granted.
 *
 * Names are unique; inputs exist and are made before they are used; each value
 * has one maker; counts of inputs and outputs are those of the schema; shapes and
 * types are what the operator's own inference says.  Runs after building and after
 * each pass.
 */
#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

static ph_rc check_arity(const ph_node *n, ph_err *err) {
    const ph_op *op = n->op;
    if (n->n_in < op->in_min && op->in_max < 0)
        return PH_FAIL(err, PH_EMISMATCH, "%s takes at least %d input%s, %d given", op->name, op->in_min,
                       op->in_min == 1 ? "" : "s", n->n_in);
    if (n->n_in < op->in_min || (op->in_max >= 0 && n->n_in > op->in_max))
        return PH_FAIL(err, PH_EMISMATCH, "%s takes %d to %d inputs, %d given", op->name, op->in_min,
                       op->in_max, n->n_in);
    if (n->n_out < op->out_min || n->n_out > op->out_max)
        return PH_FAIL(err, PH_EMISMATCH, "%s has %d to %d outputs, %d asked for", op->name, op->out_min,
                       op->out_max, n->n_out);
    for (int i = 0; i < op->in_min; i++)
        if (n->in[i] < 0) return PH_FAIL(err, PH_EMISMATCH, "%s needs its input %d", op->name, i);
    return PH_OK;
}

ph_rc ph_node_infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_rc rc = check_arity(n, err);
    if (!rc) rc = n->op->infer(g, n, out, err);
    return rc ? ph_note(err, rc, "at node %s of graph %s", n->name, g->name) : PH_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ph_rc check_names(const ph_graph *g, ph_err *err) {
    const char **name = calloc(g->n_values ? g->n_values : 1, sizeof *name);
    if (!name) return PH_FAIL(err, PH_ENOMEM, "graph %s: %zu names", g->name, g->n_values);
    ph_rc rc = PH_OK;
    for (size_t i = 0; i < g->n_values; i++) name[i] = g->value[i].name;
    qsort(name, g->n_values, sizeof *name, by_name);
    for (size_t i = 1; i < g->n_values && !rc; i++)
        if (!strcmp(name[i - 1], name[i]))
            rc = PH_FAIL(err, PH_EMISMATCH, "graph %s: two values are named %s", g->name, name[i]);
    free(name);
    return rc;
}

/* Inputs stand before the node: given, or made by an earlier one. */
static ph_rc check_inputs(const ph_graph *g, size_t at, ph_err *err) {
    const ph_node *n = &g->node[at];
    for (int i = 0; i < n->n_in; i++) {
        int v = n->in[i];
        if (v == -1) continue;
        if (v < 0 || (size_t)v >= g->n_values)
            return PH_FAIL(err, PH_EMISMATCH, "node %s: input %d is no value", n->name, i);
        const ph_value *value = &g->value[v];
        if (value->cls == PH_VALUE_TEMP && (value->producer < 0 || (size_t)value->producer >= at))
            return PH_FAIL(err, PH_EMISMATCH, "node %s reads %s before it is made", n->name, value->name);
    }
    return PH_OK;
}

static ph_rc check_outputs(const ph_graph *g, size_t at, const ph_value *made, ph_err *err) {
    const ph_node *n = &g->node[at];
    for (int k = 0; k < n->n_out; k++) {
        int v = n->out[k];
        if (v == -1) continue;
        if (v < 0 || (size_t)v >= g->n_values || g->value[v].producer != (int)at ||
            g->value[v].cls != PH_VALUE_TEMP)
            return PH_FAIL(err, PH_EMISMATCH, "node %s: output %d is not its own value", n->name, k);
        const ph_value *value = &g->value[v];
        char            have[128], want[128];
        ph_graph_shape_print(g, &value->shape, have, sizeof have);
        ph_graph_shape_print(g, &made[k].shape, want, sizeof want);
        if (value->dtype != made[k].dtype || !ph_shape_same(&value->shape, &made[k].shape))
            return PH_FAIL(err, PH_EMISMATCH, "value %s is %s %s, but %s of node %s makes %s %s", value->name,
                           ph_dtype_name(value->dtype), have, n->op->name, n->name,
                           ph_dtype_name(made[k].dtype), want);
    }
    return PH_OK;
}

static ph_rc check_node(const ph_graph *g, size_t at, ph_err *err) {
    const ph_node *n = &g->node[at];
    PH_TRY(check_inputs(g, at, err));
    ph_value *made = calloc(n->n_out > 0 ? (size_t)n->n_out : 1, sizeof *made);
    if (!made) return PH_FAIL(err, PH_ENOMEM, "node %s: %d outputs", n->name, n->n_out);
    ph_rc rc = ph_node_infer(g, n, made, err);
    if (!rc) rc = check_outputs(g, at, made, err);
    free(made);
    return rc;
}

ph_rc ph_graph_check(const ph_graph *g, ph_err *err) {
    PH_TRY(check_names(g, err));
    for (size_t i = 0; i < g->n_nodes; i++) PH_TRY(check_node(g, i, err));
    for (size_t i = 0; i < g->n_values; i++) {
        const ph_value *v = &g->value[i];
        int             is_made = v->producer >= 0 && (size_t)v->producer < g->n_nodes;
        if (v->cls == PH_VALUE_TEMP ? !is_made : v->producer != -1)
            return PH_FAIL(err, PH_EMISMATCH, "graph %s: value %s has no place", g->name, v->name);
    }
    return PH_OK;
}

ph_rc ph_graph_finish(ph_graph *g, ph_err *err) {
    if (g->rc) {
        if (err) *err = g->err;
        return g->rc;
    }
    return ph_graph_check(g, err);
}
