/* pass.c - the table of passes, their driver, and how the gaps are closed.
 *
 * While passes run, a dropped node has no operator.  Closing the gaps removes such
 * nodes, values that nobody makes or reads, and renumbers what is left, the list of
 * kept values included.
 */
#include "graph/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 16 };

static const ph_pass *const passes[] = {
#define PH_PASS(name) &ph_pass_##name,
#include "graph/pass.def"
#undef PH_PASS
};

size_t ph_pass_count(void) {
    return sizeof passes / sizeof *passes;
}

const ph_pass *ph_pass_at(size_t i) {
    return i < ph_pass_count() ? passes[i] : NULL;
}

int ph_pass_must_survive(const ph_graph *g, const ph_pass_env *env, int value) {
    if (g->value[value].is_output) return 1;
    for (size_t i = 0; i < env->n_keep; i++)
        if (env->keep[i] == value) return 1;
    return 0;
}

ph_rc ph_pass_redirects_open(ph_redirects *r, const ph_graph *g, ph_err *err) {
    r->to = malloc((g->n_values + 1) * sizeof *r->to);
    if (!r->to) return PH_FAIL(err, PH_ENOMEM, "graph %s: %zu values", g->name, g->n_values);
    for (size_t v = 0; v < g->n_values; v++) r->to[v] = (int)v;
    return PH_OK;
}

void ph_pass_redirect(ph_redirects *r, int from, int to) {
    r->to[from] = to;
}

/* The end of the chain, to which all of it points from then on. */
static int end_of(ph_redirects *r, int v) {
    int end = v;
    while (r->to[end] != end) end = r->to[end];
    while (r->to[v] != end) {
        int next = r->to[v];
        r->to[v] = end;
        v = next;
    }
    return end;
}

void ph_pass_follow(ph_redirects *r, ph_node *n) {
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] >= 0) n->in[k] = end_of(r, n->in[k]);
}

void ph_pass_redirects_close(ph_redirects *r, ph_graph *g) {
    for (size_t i = 0; r->to && i < g->n_nodes; i++) ph_pass_follow(r, &g->node[i]);
    free(r->to);
    r->to = NULL;
}

void ph_pass_drop(ph_graph *g, size_t node) {
    ph_node *n = &g->node[node];
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] >= 0 && g->value[n->out[k]].producer == (int)node) g->value[n->out[k]].producer = -1;
    n->op = NULL;
    n->n_in = n->n_out = 0;
}

int ph_pass_is_dropped(const ph_node *n) {
    return !n->op;
}

/* Close the gaps in the node table; producers follow. */
static void close_nodes(ph_graph *g) {
    size_t to = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        if (ph_pass_is_dropped(&g->node[i])) continue;
        g->node[to] = g->node[i];
        for (int k = 0; k < g->node[to].n_out; k++)
            if (g->node[to].out[k] >= 0) g->value[g->node[to].out[k]].producer = (int)to;
        to++;
    }
    g->n_nodes = to;
}

/* Inputs and states stay even if unused: callers fill them by name. */
static int is_wanted(const ph_graph *g, const ph_pass_env *env, const unsigned char *is_used, int v) {
    const ph_value *value = &g->value[v];
    if (is_used[v] || ph_pass_must_survive(g, env, v)) return 1;
    if (value->cls == PH_VALUE_CONSTANT) return 0;
    return value->cls != PH_VALUE_TEMP || value->producer >= 0;
}

static void renumber(int *list, int n, const int *to) {
    for (int i = 0; i < n; i++)
        if (list[i] >= 0) list[i] = to[list[i]];
}

static ph_rc close_values(ph_graph *g, ph_pass_env *env, ph_err *err) {
    unsigned char *is_used = calloc(g->n_values + 1, 1);
    int           *to = calloc(g->n_values + 1, sizeof *to);
    int            n = 0;
    ph_rc          rc = PH_OK;
    if (!is_used || !to) {
        rc = PH_FAIL(err, PH_ENOMEM, "graph %s: %zu values", g->name, g->n_values);
        goto out;
    }
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] >= 0) is_used[g->node[i].in[k]] = 1;
    for (size_t v = 0; v < g->n_values; v++) to[v] = is_wanted(g, env, is_used, (int)v) ? n++ : -1;
    for (size_t v = 0; v < g->n_values; v++)
        if (to[v] >= 0) g->value[to[v]] = g->value[v];
    g->n_values = (size_t)n;
    for (size_t i = 0; i < g->n_nodes; i++) {
        renumber(g->node[i].in, g->node[i].n_in, to);
        renumber(g->node[i].out, g->node[i].n_out, to);
    }
    for (size_t i = 0; i < env->n_keep; i++) renumber(&env->keep[i], 1, to);
out:
    free(is_used);
    free(to);
    return rc;
}

/* Is name one of the comma-separated names in list? */
static int is_listed(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *p = list; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (!strncmp(p, name, n) && (!p[n] || p[n] == ',')) return 1;
    }
    return 0;
}

static ph_rc check_off(const char *off, ph_err *err) {
    char   known[128] = "";
    size_t at = 0, n;
    for (size_t i = 0; i < ph_pass_count() && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, " %s", passes[i]->name);
    for (const char *p = off; p && *p; p += n + (p[n] == ',')) {
        int found = 0;
        n = strcspn(p, ",");
        for (size_t i = 0; i < ph_pass_count(); i++)
            found |= strlen(passes[i]->name) == n && !strncmp(p, passes[i]->name, n);
        if (!found)
            return PH_FAIL(err, PH_EUSAGE, "no pass is named \"%.*s\"; there are%s", (int)n, p, known);
    }
    return PH_OK;
}

static ph_rc run_one(ph_graph *g, const ph_pass *pass, ph_pass_env *env, size_t *changes, ph_err *err) {
    size_t n = 0;
    ph_rc  rc = pass->run(g, env, &n, err);
    if (!rc && n) {
        close_nodes(g);
        rc = close_values(g, env, err);
    }
    if (!rc && n) rc = ph_graph_check(g, err);
    *changes += n;
    return rc ? ph_note(err, rc, "in pass %s over graph %s", pass->name, g->name) : PH_OK;
}

ph_rc ph_passes_run(ph_graph *g, ph_pass_env *env, size_t *changes, ph_err *err) {
    size_t all = 0, before = SIZE_MAX;
    PH_TRY(check_off(env->off, err));
    for (size_t i = 0; i < env->n_keep; i++)
        if (env->keep[i] < 0 || (size_t)env->keep[i] >= g->n_values)
            return PH_FAIL(err, PH_EBUG, "graph %s: kept value %d does not exist", g->name, env->keep[i]);
    for (int round = 0; round < ROUNDS_MAX && all != before; round++) {
        before = all;
        for (size_t i = 0; i < ph_pass_count(); i++)
            if (!is_listed(env->off, passes[i]->name) && (passes[i]->is_of_meaning || !env->is_built))
                PH_TRY(run_one(g, passes[i], env, &all, err));
    }
    if (changes) *changes = all;
    return PH_OK;
}
