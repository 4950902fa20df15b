/* graph.c - a graph's tables: opened, closed, and read.
 *
 * Tables double inside the graph's arena; the old copies stay behind until the
 * graph is closed, which costs at most their size once more.  Building stands in
 * build.c, checking in check.c.
 */
#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA_CHUNK = 64 << 10 };

/* In the order of the enums. */
static const char *const modality_name[] = {"none", "vision", "text", "audio", "fused"};
static const char *const fusion_name[] = {"none", "concat", "inject", "cross_attention", "gated"};
enum {
    N_MODALITIES = sizeof modality_name / sizeof *modality_name,
    N_FUSIONS = sizeof fusion_name / sizeof *fusion_name
};

const char *ph_modality_name(ph_modality m) {
    return modality_name[m];
}

const char *ph_fusion_policy_name(ph_fusion f) {
    return fusion_name[f];
}

static int find_name(const char *const *list, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i], name)) return i;
    return -1;
}

int ph_modality_find(const char *name, ph_modality *out) {
    int i = find_name(modality_name, N_MODALITIES, name);
    if (i >= 0) *out = (ph_modality)i;
    return i >= 0;
}

int ph_fusion_policy_find(const char *name, ph_fusion *out) {
    int i = find_name(fusion_name, N_FUSIONS, name);
    if (i >= 0) *out = (ph_fusion)i;
    return i >= 0;
}

ph_rc ph_graph_open(ph_graph **out, const char *name, ph_err *err) {
    *out = NULL;
    ph_graph *g = calloc(1, sizeof *g);
    if (!g) return PH_FAIL(err, PH_ENOMEM, "graph %s: %zu bytes", name, sizeof *g);
    ph_rc rc = ph_arena_open_growing(&g->arena, ARENA_CHUNK, err);
    char *text = NULL;
    if (!rc) rc = ph_arena_copy_text(&g->arena, &text, name, strlen(name), err);
    g->name = text;
    if (rc)
        ph_graph_close(g);
    else
        *out = g;
    return rc;
}

void ph_graph_close(ph_graph *g) {
    if (!g) return;
    ph_arena_close(&g->arena);
    free(g);
}

int ph_graph_find(const ph_graph *g, const char *value_name) {
    for (size_t i = 0; i < g->n_values; i++)
        if (!strcmp(g->value[i].name, value_name)) return (int)i;
    return -1;
}

int ph_graph_output_of(const ph_graph *g, int value, int k) {
    if (value < 0 || (size_t)value >= g->n_values) return -1;
    int node = g->value[value].producer;
    if (node < 0 || (size_t)node >= g->n_nodes) return -1;
    const ph_node *n = &g->node[node];
    return k >= 0 && k < n->n_out ? n->out[k] : -1;
}

const ph_attr *ph_node_attr(const ph_node *n, const char *name) {
    for (int i = 0; i < n->n_attr; i++)
        if (!strcmp(n->attr[i].name, name)) return &n->attr[i];
    return NULL;
}

int64_t ph_node_int(const ph_node *n, const char *name, int64_t otherwise) {
    const ph_attr *a = ph_node_attr(n, name);
    return a && a->type == PH_ATTR_INT ? a->i : otherwise;
}

double ph_node_float(const ph_node *n, const char *name, double otherwise) {
    const ph_attr *a = ph_node_attr(n, name);
    return a && a->type == PH_ATTR_FLOAT ? a->f : otherwise;
}

const char *ph_node_text(const ph_node *n, const char *name, const char *otherwise) {
    const ph_attr *a = ph_node_attr(n, name);
    return a && a->type == PH_ATTR_TEXT && a->text ? a->text : otherwise;
}

const int64_t *ph_node_ints(const ph_node *n, const char *name, size_t *count) {
    const ph_attr *a = ph_node_attr(n, name);
    int            found = a && a->type == PH_ATTR_INTS && a->ints;
    *count = found ? a->n : 0;
    return found ? a->ints : NULL;
}

const double *ph_node_floats(const ph_node *n, const char *name, size_t *count) {
    const ph_attr *a = ph_node_attr(n, name);
    int            found = a && a->type == PH_ATTR_FLOATS && a->floats;
    *count = found ? a->n : 0;
    return found ? a->floats : NULL;
}
