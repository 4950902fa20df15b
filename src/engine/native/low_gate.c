/* low_gate.c - ModalGate and ModalitySwitch: per row, by a modality that came as data.
 *
 * Indices are checked once, before the first unit.  A unit of a gate is a block of tokens, of a switch a
 * block of rows.
 */
#include "engine/native/native.h"
#include "graph/modal.h"

#include <string.h>

enum { GATE_BLOCK = 2048 }; /* tokens of a unit: their modalities lie in a worker's memory */

/* ---- ModalGate ---- */

typedef struct gate {
    int          x, pick, latency, y; /* buffers; latency: -1, none or constant */
    const float *constant;            /* latencies, or NULL */
    int          is_wide, value;      /* modalities are i64; the value with the tokens */
    float        lambda;
    size_t       m, rows; /* rows: of this run */
} gate;

static int gate_can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "ModalGate") || !ph_native_is_array(g, n->in[0]) ||
        !ph_native_is_array(g, n->in[1]))
        return 0;
    return n->n_in < 3 || n->in[2] < 0 || ph_native_is_array(g, n->in[2]) || ph_build_is_floats(g, n->in[2]);
}

static ph_rc gate_scratch(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out,
                          ph_err *err) {
    const gate *a = s->data;
    (void)p, (void)size, (void)err;
    *out = (ph_whole_lines(a->m) + GATE_BLOCK) * sizeof(float);
    return PH_OK;
}

static ph_rc gate_prepare(ph_native *p, ph_step *s, ph_err *err) {
    gate *a = s->data;
    a->rows = ph_native_items(p, p->size, a->value);
    s->units = (a->rows + GATE_BLOCK - 1) / GATE_BLOCK;
    return ph_modal_indices(NULL, ph_native_at(p, a->pick), a->is_wide, (int64_t)a->rows, (int64_t)a->m, err);
}

static void gate_work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const gate       *a = s->data;
    const ph_kernels *k = ph_native_kernels(p);
    const char       *pick = ph_native_at(p, a->pick);
    const float      *x = ph_native_at(p, a->x), *latency = a->constant;
    float            *y = ph_native_at(p, a->y), *bias = (float *)(void *)hand->memory;
    int32_t          *own = (int32_t *)(void *)(bias + ph_whole_lines(a->m));
    if (a->latency >= 0) latency = ph_native_at(p, a->latency);
    if (latency) k->scale(bias, latency, a->lambda, a->m);
    for (size_t u = begin; u < end; u++) {
        size_t r = u * GATE_BLOCK, n = a->rows - r < GATE_BLOCK ? a->rows - r : GATE_BLOCK;
        (void)ph_modal_indices(own, pick + r * (a->is_wide ? 8 : 4), a->is_wide, (int64_t)n, (int64_t)a->m,
                               NULL);
        k->gate(y + r, x + r * a->m, latency ? bias : NULL, own, n, a->m);
    }
}

static const ph_step_kind gate_kind = {
    .name = "gate", .scratch = gate_scratch, .prepare = gate_prepare, .work = gate_work};

static ph_rc lower_gate(ph_builder *b, int node, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    int            reads[3], n_reads = 2, shape = b->g->value[n->in[0]].shape.rank - 1;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(gate), err));
    gate *a = place;
    *a = (gate){.latency = -1, .value = n->in[1], .is_wide = b->g->value[n->in[1]].dtype == PH_I64};
    a->m = (size_t)b->g->value[n->in[0]].shape.dim[shape].mul;
    a->lambda = (float)ph_node_float(n, "lambda", 1);
    PH_TRY(ph_build_buffer(b, n->in[0], &a->x, err));
    PH_TRY(ph_build_buffer(b, n->in[1], &a->pick, err));
    reads[0] = a->x, reads[1] = a->pick;
    if (n->n_in > 2 && n->in[2] >= 0 && ph_native_is_array(b->g, n->in[2])) {
        PH_TRY(ph_build_buffer(b, n->in[2], &a->latency, err));
        reads[n_reads++] = a->latency;
    } else if (n->n_in > 2 && n->in[2] >= 0) {
        PH_TRY(ph_build_floats(b, n->in[2], &a->constant, err));
    }
    PH_TRY(ph_build_buffer(b, n->out[0], &a->y, err));
    return ph_build_step(b, &gate_kind, node, a, reads, n_reads, &a->y, 1, -1, err);
}

/* ---- ModalitySwitch ---- */

typedef struct branches {
    int    pick, y, is_wide, value; /* buffers; the value with the rows */
    int   *x, m;                    /* [m] buffers */
    size_t d, rows, block;          /* of this run, but d */
} branches;

static int switch_can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "ModalitySwitch")) return 0;
    for (int i = 0; i < n->n_in; i++)
        if (!ph_native_is_array(g, n->in[i])) return 0;
    const ph_shape *x = &g->value[n->in[1]].shape;
    return ph_dim_is_fixed(x->dim[x->rank - 1]) && x->dim[x->rank - 1].mul > 0;
}

static ph_rc switch_prepare(ph_native *p, ph_step *s, ph_err *err) {
    branches *a = s->data;
    a->rows = ph_native_items(p, p->size, a->value) / a->d;
    a->block = (PH_UNIT_ITEMS + a->d - 1) / a->d;
    s->units = (a->rows + a->block - 1) / a->block;
    return ph_modal_indices(NULL, ph_native_at(p, a->pick), a->is_wide, (int64_t)a->rows, a->m, err);
}

static void switch_work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const branches *a = s->data;
    const char     *pick = ph_native_at(p, a->pick);
    float          *y = ph_native_at(p, a->y);
    size_t          last = end * a->block < a->rows ? end * a->block : a->rows;
    (void)hand;
    for (size_t r = begin * a->block; r < last; r++) {
        int32_t own;
        (void)ph_modal_indices(&own, pick + r * (a->is_wide ? 8 : 4), a->is_wide, 1, a->m, NULL);
        memcpy(y + r * a->d, (const float *)ph_native_at(p, a->x[own]) + r * a->d, a->d * sizeof *y);
    }
}

static const ph_step_kind switch_kind = {.name = "switch", .prepare = switch_prepare, .work = switch_work};

static ph_rc lower_switch(ph_builder *b, int node, ph_err *err) {
    const ph_node  *n = &b->g->node[node];
    const ph_shape *shape = &b->g->value[n->in[1]].shape;
    void           *place, *reads;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(branches), err));
    branches *a = place;
    *a = (branches){.m = n->n_in - 1, .value = n->in[1], .is_wide = b->g->value[n->in[0]].dtype == PH_I64};
    a->d = (size_t)shape->dim[shape->rank - 1].mul;
    PH_TRY(ph_build_carve(b, &reads, (size_t)n->n_in, sizeof(int), err));
    a->x = reads;
    for (int i = 0; i < a->m; i++) PH_TRY(ph_build_buffer(b, n->in[i + 1], &a->x[i], err));
    PH_TRY(ph_build_buffer(b, n->in[0], &a->x[a->m], err));
    a->pick = a->x[a->m];
    PH_TRY(ph_build_buffer(b, n->out[0], &a->y, err));
    return ph_build_step(b, &switch_kind, node, a, a->x, n->n_in, &a->y, 1, -1, err);
}

static int can(const ph_graph *g, int node) {
    return gate_can(g, node) || switch_can(g, node);
}

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    *took = can(b->g, node);
    if (!*took) return PH_OK;
    return gate_can(b->g, node) ? lower_gate(b, node, err) : lower_switch(b, node, err);
}

const ph_lowering ph_lowering_gate = {.name = "gate", .lower = lower, .can = can};
