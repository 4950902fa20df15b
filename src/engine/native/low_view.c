/* low_view.c - operators that give the same bytes another shape: one buffer, and no work.
 *
 * Where symbols are involved the two counts are compared once a run: a family
 * that writes N/4 promises that N is a multiple of 4.
 */
#include "engine/native/native.h"

#include <string.h>

static int can(const ph_graph *g, int node) {
    static const char *const names[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Copy"};
    const ph_node           *n = &g->node[node];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(n->op->name, names[i]))
            /* A constant may be stored otherwise than its readers see it, and needs widening. */
            return n->in[0] >= 0 &&
                   (g->value[n->in[0]].cls == PH_VALUE_INPUT || g->value[n->in[0]].cls == PH_VALUE_TEMP);
    return 0;
}

typedef struct view {
    int from_value, to_value;
} view;

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    const view *v = s->data;
    size_t have = ph_native_items(p, p->size, v->from_value), want = ph_native_items(p, p->size, v->to_value);
    s->units = 0;
    if (have == want) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "%zu numbers cannot take a shape of %zu", have, want);
}

static const ph_step_kind kind = {.name = "view", .prepare = prepare};

static int is_fixed(const ph_shape *s) {
    for (int k = 0; k < s->rank; k++)
        if (!ph_dim_is_fixed(s->dim[k])) return 0;
    return 1;
}

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    if (!can(b->g, node)) return PH_OK;
    const ph_shape *from = &b->g->value[n->in[0]].shape, *to = &b->g->value[n->out[0]].shape;
    void           *place;
    int             buffer;
    *took = 1;
    PH_TRY(ph_build_alias(b, n->out[0], n->in[0], err));
    if (ph_shape_same(from, to) || (is_fixed(from) && is_fixed(to))) return PH_OK;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(view), err));
    *(view *)place = (view){n->in[0], n->out[0]};
    PH_TRY(ph_build_buffer(b, n->in[0], &buffer, err));
    return ph_build_step(b, &kind, node, place, &buffer, 1, NULL, 0, -1, err);
}

const ph_lowering ph_lowering_view = {.name = "view", .lower = lower, .can = can};
