/* pass_common.c - of nodes that compute the same from the same, the first stays.
 *
 * Nodes are found again through a hash of operator, inputs and attributes; only nodes
 * of one modality are merged, since engines are chosen by it.
 */
#include "graph/pass.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

static uint64_t mix_text(uint64_t h, const char *text) {
    for (; *text; text++) h = mix(h, (unsigned char)*text);
    return h;
}

static uint64_t mix_float(uint64_t h, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return mix(h, bits);
}

static uint64_t mix_attr(uint64_t h, const ph_attr *a) {
    h = mix(mix_text(h, a->name), a->n);
    switch (a->type) {
    case PH_ATTR_INT:
        return mix(h, (uint64_t)a->i);
    case PH_ATTR_FLOAT:
        return mix_float(h, a->f);
    case PH_ATTR_TEXT:
        return mix_text(h, a->text);
    case PH_ATTR_INTS:
        for (size_t i = 0; i < a->n; i++) h = mix(h, (uint64_t)a->ints[i]);
        return h;
    case PH_ATTR_FLOATS:
        for (size_t i = 0; i < a->n; i++) h = mix_float(h, a->floats[i]);
        return h;
    case PH_ATTR_TEXTS:
        for (size_t i = 0; i < a->n; i++) h = mix_text(h, a->texts[i]);
        return h;
    case PH_ATTR_TENSOR:
        return mix(h, a->tensor->n_bytes); /* pure operators of plug-ins are few */
    }
    return h;
}

static uint64_t hash_of(const ph_node *n) {
    uint64_t h = mix_text(UINT64_C(0xcbf29ce484222325), n->op->name);
    for (int i = 0; i < n->n_in; i++) h = mix(h, (uint64_t)(int64_t)n->in[i]);
    for (int i = 0; i < n->n_attr; i++) h = mix_attr(h, &n->attr[i]);
    return h;
}

static int same_tensor(const ph_attr_tensor *a, const ph_attr_tensor *b) {
    if (a->dtype != b->dtype || a->rank != b->rank || a->n_bytes != b->n_bytes) return 0;
    if (memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim)) return 0;
    return !a->n_bytes || !memcmp(a->bytes, b->bytes, a->n_bytes);
}

static int same_attr(const ph_attr *a, const ph_attr *b) {
    if (strcmp(a->name, b->name) || a->type != b->type || a->n != b->n) return 0;
    switch (a->type) {
    case PH_ATTR_INT:
        return a->i == b->i;
    case PH_ATTR_FLOAT:
        return !memcmp(&a->f, &b->f, sizeof a->f);
    case PH_ATTR_TEXT:
        return !strcmp(a->text, b->text);
    case PH_ATTR_INTS:
        return !a->n || !memcmp(a->ints, b->ints, a->n * sizeof *a->ints);
    case PH_ATTR_FLOATS:
        return !a->n || !memcmp(a->floats, b->floats, a->n * sizeof *a->floats);
    case PH_ATTR_TEXTS:
        for (size_t i = 0; i < a->n; i++)
            if (strcmp(a->texts[i], b->texts[i])) return 0;
        return 1;
    case PH_ATTR_TENSOR:
        return same_tensor(a->tensor, b->tensor);
    }
    return 0;
}

static int same_node(const ph_node *a, const ph_node *b) {
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out || a->n_attr != b->n_attr ||
        a->modality != b->modality || a->fusion_policy != b->fusion_policy ||
        memcmp(&a->quantization_scale, &b->quantization_scale, sizeof a->quantization_scale))
        return 0;
    if (a->n_in && memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in)) return 0;
    for (int i = 0; i < a->n_attr; i++)
        if (!same_attr(&a->attr[i], &b->attr[i])) return 0;
    return 1;
}

static int may_go(const ph_graph *g, const ph_pass_env *env, const ph_node *n) {
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] >= 0 && ph_pass_must_survive(g, env, n->out[k])) return 0;
    return 1;
}

static void merge(ph_graph *g, ph_redirects *r, size_t first, size_t later) {
    for (int k = 0; k < g->node[later].n_out; k++)
        if (g->node[later].out[k] >= 0) ph_pass_redirect(r, g->node[later].out[k], g->node[first].out[k]);
    ph_pass_drop(g, later);
}

static ph_rc run(ph_graph *g, const ph_pass_env *env, size_t *changes, ph_err *err) {
    size_t       slots = 16;
    ph_redirects r;
    while (slots < 2 * g->n_nodes) slots *= 2;
    size_t *table = calloc(slots, sizeof *table); /* node + 1; 0: empty */
    if (!table) return PH_FAIL(err, PH_ENOMEM, "graph %s: %zu nodes", g->name, g->n_nodes);
    ph_rc rc = ph_pass_redirects_open(&r, g, err);
    for (size_t i = 0; i < g->n_nodes && !rc; i++) {
        ph_pass_follow(&r, &g->node[i]);
        const ph_node *n = &g->node[i];
        if (ph_pass_is_dropped(n) || n->op->has_effect) continue;
        size_t at = (size_t)hash_of(n) & (slots - 1);
        while (table[at] && !same_node(&g->node[table[at] - 1], n)) at = (at + 1) & (slots - 1);
        if (!table[at]) {
            table[at] = i + 1;
        } else if (may_go(g, env, n)) {
            merge(g, &r, table[at] - 1, i);
            ++*changes;
        }
    }
    ph_pass_redirects_close(&r, g);
    free(table);
    return rc;
}

const ph_pass ph_pass_common = {"common", "compute equal things once", .run = run};
