/* cut.c - a graph in two, by copies of its tables. */
#include "graph/cut.h"

#include <stdlib.h>

typedef struct cutting {
    const ph_graph *g;
    unsigned char  *is_before; /* [n_values] the seam follows from it; the seam itself, too */
    unsigned char  *is_early;  /* [n_nodes] it makes such a value */
    int            *to;        /* [n_values] places in the graph that is being made; -1: not there yet */
    int             seam;      /* the value in between */
} cutting;

/* Backwards from the seam: nodes stand in an order in which they can run. */
static void mark(cutting *c) {
    c->is_before[c->seam] = 1;
    for (size_t i = c->g->n_nodes; i-- > 0;) {
        const ph_node *n = &c->g->node[i];
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] >= 0 && c->is_before[n->out[k]]) c->is_early[i] = 1;
        for (int k = 0; k < n->n_in && c->is_early[i]; k++)
            if (n->in[k] >= 0 && c->g->value[n->in[k]].cls != PH_VALUE_CONSTANT) c->is_before[n->in[k]] = 1;
    }
}

static ph_rc check_read(const cutting *c, int v, ph_err *err) {
    if (v < 0 || v == c->seam || !c->is_before[v]) return PH_OK;
    return PH_FAIL(err, PH_EUNSUP,
                   "graph '%s' cannot be cut at '%s': the rest reads '%s' too, which is before it",
                   c->g->name, c->g->value[c->seam].name, c->g->value[v].name);
}

/* Nothing but the seam passes from one to the other. */
static ph_rc check_seam(const cutting *c, ph_err *err) {
    for (size_t v = 0; v < c->g->n_values; v++)
        if (c->g->value[v].is_output) PH_TRY(check_read(c, (int)v, err));
    for (size_t i = 0; i < c->g->n_nodes; i++)
        for (int k = 0; k < c->g->node[i].n_in && !c->is_early[i]; k++)
            PH_TRY(check_read(c, c->g->node[i].in[k], err));
    return PH_OK;
}

/* ---- making one of the two ---- */

static ph_rc value_to(cutting *c, ph_graph *out, int v, int *to, ph_err *err) {
    *to = v;
    if (v < 0) return PH_OK;
    if (c->to[v] < 0) {
        if (out->n_values == out->values_max) return PH_FAIL(err, PH_EBUG, "more values than there were");
        c->to[v] = (int)out->n_values;
        out->value[out->n_values] = c->g->value[v];
        out->value[out->n_values++].producer = -1;
    }
    *to = c->to[v];
    return PH_OK;
}

static ph_rc list_to(cutting *c, ph_graph *out, const int *from, int n, int **list, ph_err *err) {
    void *at;
    PH_TRY(ph_arena_carve(&out->arena, &at, (size_t)n + 1, sizeof **list, err));
    *list = at;
    for (int i = 0; i < n; i++) PH_TRY(value_to(c, out, from[i], &(*list)[i], err));
    return PH_OK;
}

static ph_rc node_to(cutting *c, ph_graph *out, const ph_node *from, ph_err *err) {
    ph_node *n = &out->node[out->n_nodes];
    *n = *from;
    PH_TRY(list_to(c, out, from->in, from->n_in, &n->in, err));
    PH_TRY(list_to(c, out, from->out, from->n_out, &n->out, err));
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] >= 0) out->value[n->out[k]].producer = (int)out->n_nodes;
    out->n_nodes++;
    return PH_OK;
}

/* The caller's inputs stand first, in their order, whatever reads them. */
static ph_rc inputs_to(cutting *c, ph_graph *out, int early, ph_err *err) {
    int at;
    for (size_t v = 0; v < c->g->n_values; v++)
        if (c->g->value[v].cls == PH_VALUE_INPUT && c->is_before[v] == early)
            PH_TRY(value_to(c, out, (int)v, &at, err));
    return PH_OK;
}

static ph_rc fill(cutting *c, ph_graph *out, int early, ph_err *err) {
    void *at;
    int   seam;
    for (size_t v = 0; v < c->g->n_values; v++) c->to[v] = -1;
    PH_TRY(ph_arena_carve(&out->arena, &at, c->g->n_values + 1, sizeof *out->value, err));
    out->value = at;
    out->values_max = c->g->n_values;
    PH_TRY(ph_arena_carve(&out->arena, &at, c->g->n_nodes + 1, sizeof *out->node, err));
    out->node = at;
    out->nodes_max = c->g->n_nodes;
    PH_TRY(inputs_to(c, out, early, err));
    if (!early) PH_TRY(value_to(c, out, c->seam, &seam, err));
    for (size_t i = 0; i < c->g->n_nodes; i++)
        if (c->is_early[i] == early) PH_TRY(node_to(c, out, &c->g->node[i], err));
    PH_TRY(value_to(c, out, c->seam, &seam, err));
    out->value[seam].is_output = early;
    if (!early) out->value[seam].cls = PH_VALUE_INPUT;
    return ph_graph_finish(out, err);
}

static ph_rc cut(cutting *c, const char *before_name, ph_graph **before, ph_graph **after, ph_err *err) {
    mark(c);
    PH_TRY(check_seam(c, err));
    PH_TRY(ph_graph_open(before, before_name, err));
    PH_TRY(ph_graph_open(after, c->g->name, err));
    PH_TRY(fill(c, *before, 1, err));
    return fill(c, *after, 0, err);
}

ph_rc ph_graph_cut(const ph_graph *g, const char *value, const char *before_name, ph_graph **before,
                   ph_graph **after, ph_err *err) {
    cutting c = {.g = g, .seam = ph_graph_find(g, value)};
    *before = *after = NULL;
    if (c.seam < 0 || g->value[c.seam].cls != PH_VALUE_TEMP || g->value[c.seam].is_output)
        return PH_FAIL(err, PH_EUNSUP, "graph '%s' makes no value '%s' between its nodes", g->name, value);
    c.is_before = calloc(g->n_values + 1, 1);
    c.is_early = calloc(g->n_nodes + 1, 1);
    c.to = calloc(g->n_values + 1, sizeof *c.to);
    ph_rc rc = c.is_before && c.is_early && c.to ? PH_OK : PH_FAIL(err, PH_ENOMEM, "%zu values", g->n_values);
    if (!rc) rc = cut(&c, before_name, before, after, err);
    free(c.is_before);
    free(c.is_early);
    free(c.to);
    if (!rc) return PH_OK;
    ph_graph_close(*before);
    ph_graph_close(*after);
    *before = *after = NULL;
    return rc;
}
