/* low_couple.c - MultiModalAttention: one step of products for the rows of all modalities, then attention.
 *
 * The weight is read once, whatever modality a row is of: a unit's block of rows is gathered from their
 * arrays into the worker's own memory (low_linear.c), so nothing is joined beforehand.
 */
#include "engine/native/native.h"
#include "graph/couple.h"

#include <math.h>
#include <string.h>

static int can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "MultiModalAttention")) return 0;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        if (i >= PH_COUPLE_X  ? !ph_native_is_array(g, n->in[i])
            : i < PH_COUPLE_B ? !ph_linear_is_weight(g, n->in[i])
                              : !ph_build_is_floats(g, n->in[i]))
            return 0;
    }
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] < 0) return 0;
    return 1;
}

/* Products [from, to) of q, k, v over the modalities that have the slice. */
static ph_rc products(ph_builder *b, int node, const ph_couple *c, int from, int to, int has, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    ph_slice       slice[3];
    int            x[PH_COUPLE_MAX], n_x = 0, n_slices = 0;
    for (int i = 0; i < c->n_x; i++)
        if (c->slice[i] & has) x[n_x++] = n->in[PH_COUPLE_X + i];
    for (int j = from; j < to; j++)
        slice[n_slices++] = (ph_slice){.w = n->in[c->part[j].w],
                                       .bias = c->part[j].b < 0 ? -1 : n->in[c->part[j].b],
                                       .out = n->out[1 + j],
                                       .first = (size_t)c->part[j].first,
                                       .rows = (size_t)c->part[j].rows};
    return ph_linear_gathered(b, node, x, n_x, slice, n_slices, err);
}

/* Do parts i and j go into one step: the same rows, and weights of one type? */
static int go_together(const ph_builder *b, const ph_node *n, const ph_couple *c, int i, int j) {
    const ph_storage *one = &b->g->value[n->in[c->part[i].w]].storage;
    const ph_storage *two = &b->g->value[n->in[c->part[j].w]].storage;
    for (int m = 0; m < c->n_x; m++)
        if ((i == 0) != (j == 0) && c->slice[m] != PH_SLICE_BOTH) return 0;
    return one->dtype == two->dtype && one->form == two->form;
}

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    ph_couple      c;
    if (!can(b->g, node)) return PH_OK;
    *took = 1;
    PH_TRY(ph_couple_of(b->g, n, &c, err));
    for (int from = 0, to; from < 3; from = to) {
        for (to = from + 1; to < 3 && go_together(b, n, &c, from, to);) to++;
        PH_TRY(products(b, node, &c, from, to, from ? PH_SLICE_KV : PH_SLICE_Q, err));
    }
    ph_attention_of how = {.q = n->out[1], .k = n->out[2], .v = n->out[3], .y = n->out[0], .mask = -1};
    how.heads = (size_t)c.heads;
    how.kv_heads = (size_t)c.kv_heads;
    how.scale = (float)ph_node_float(n, "scale", 1 / sqrt((double)c.d));
    return ph_attention_step(b, node, &how, err);
}

const ph_lowering ph_lowering_couple = {.name = "couple", .lower = lower, .can = can};
