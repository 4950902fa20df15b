/* ort_place.c - where a program's inputs and outputs stand, and what a run of ORT holds beside them. */
#include "engine/ort/ort_engine.h"

#include "base/mem.h"
#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

static ph_rc bytes_of(const ph_graph *g, int value, const ph_syms *syms, size_t *out, ph_err *err) {
    const ph_value *v = &g->value[value];
    int64_t         n;
    PH_TRY(ph_shape_count(&v->shape, syms, &n, err));
    if (ph_mul_over((size_t)n, ph_dtype_bytes(v->dtype), out))
        return PH_FAIL(err, PH_ELIMIT, "value '%s': more memory than an address can name", v->name);
    return PH_OK;
}

/* ---- what ORT allocates, reckoned ---- */

/* Scores of an attention, which the export spells out: [heads, queries, keys], three times while they are
 * masked and made probabilities. */
static size_t scores_of(const ph_graph *g, const ph_node *n, const ph_syms *syms) {
    int is_segment = !strcmp(n->op->name, "SegmentAttention");
    if (!is_segment && strcmp(n->op->name, "Attention")) return 0;
    const ph_shape *q = &g->value[n->in[0]].shape, *k = &g->value[n->in[1]].shape;
    int64_t heads = ph_node_int(n, is_segment ? "num_heads" : "q_num_heads", 1), batch = 1, queries = 0,
            keys = 0;
    int at = q->rank == 4 ? 2 : q->rank - 2; /* the axis of tokens */
    if (q->rank == 4) heads = q->dim[1].mul;
    if (q->rank > 2 && ph_dim_eval(q->dim[0], syms, &batch, NULL)) return 0;
    if (ph_dim_eval(q->dim[at], syms, &queries, NULL) || ph_dim_eval(k->dim[at], syms, &keys, NULL)) return 0;
    return (size_t)(3 * batch * heads * queries * keys) * sizeof(float);
}

static int is_port(const ph_ort_program *p, int value) {
    for (size_t i = 0; i < p->n_ports; i++)
        if (p->port[i].value == value) return 1;
    return 0;
}

/* Values between nodes, each from the node that makes it to the last that reads it; and scores. */
static ph_rc fill_lives(const ph_ort_program *p, const ph_syms *syms, ph_life *life, ph_err *err) {
    const ph_graph *g = p->base.graph;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ph_node *n = &g->node[i];
        life[g->n_values + i] = (ph_life){.bytes = scores_of(g, n, syms), .first = (int)i, .last = (int)i};
        for (int k = 0; k < n->n_out; k++) {
            if (n->out[k] < 0 || is_port(p, n->out[k])) continue;
            life[n->out[k]].first = life[n->out[k]].last = (int)i;
            PH_TRY(bytes_of(g, n->out[k], syms, &life[n->out[k]].bytes, err));
        }
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0) life[n->in[k]].last = (int)i;
    }
    return PH_OK;
}

static ph_rc reckon(const ph_ort_program *p, const ph_syms *syms, size_t *out, ph_err *err) {
    size_t   n = p->base.graph->n_values + p->base.graph->n_nodes;
    ph_life *life = calloc(n + 1, sizeof *life);
    if (!life) return PH_FAIL(err, PH_ENOMEM, "lives of %zu values", n);
    ph_rc rc = fill_lives(p, syms, life, err);
    if (!rc) *out = ph_layout_bound(life, n);
    free(life);
    return rc;
}

ph_rc ph_ort_scratch(const ph_ort_program *p, const ph_syms *syms, size_t *out, int *is_estimate,
                     ph_err *err) {
    size_t n = p->n_seen < PH_ORT_SHAPES ? p->n_seen : PH_ORT_SHAPES;
    *is_estimate = 0;
    for (size_t i = 0; i < n; i++)
        if (!memcmp(&p->seen[i].syms, syms, sizeof *syms)) {
            *out = p->seen[i].bytes;
            return PH_OK;
        }
    *is_estimate = 1;
    return reckon(p, syms, out, err);
}

void ph_ort_saw(ph_ort_program *p, const ph_syms *syms, size_t bytes) {
    size_t i = p->n_seen++ % PH_ORT_SHAPES;
    p->seen[i].syms = *syms;
    p->seen[i].bytes = bytes;
}

/* ---- the plan's part ---- */

static ph_rc place(const ph_ort_program *p, const ph_syms *syms, ph_ort_port *port, size_t total[2],
                   ph_err *err) {
    size_t at = 0;
    total[0] = total[1] = 0;
    for (size_t i = 0; i < p->n_ports; i++) {
        size_t bytes;
        PH_TRY(bytes_of(p->base.graph, p->port[i].value, syms, &bytes, err));
        if (port) port[i].bytes = bytes;
        if (port) port[i].offset = at;
        if (p->port[i].is_lent) continue;
        bytes = ph_round_up(bytes, PH_ALIGN);
        if (ph_add_over(at, bytes, &at))
            return PH_FAIL(err, PH_ELIMIT, "graph '%s': more memory than an address can name",
                           p->base.graph->name);
        total[!p->port[i].is_input] += bytes;
    }
    return PH_OK;
}

ph_rc ph_ort_need(const ph_program *program, const ph_syms *syms, ph_need *out, size_t *scratch,
                  ph_err *err) {
    const ph_ort_program *p = (const ph_ort_program *)program;
    size_t                total[2], run = 0;
    int                   is_estimate = 0;
    PH_TRY(ph_engine_within(program->graph, syms, &program->max, "compiled", err));
    PH_TRY(place(p, syms, NULL, total, err));
    PH_TRY(ph_ort_scratch(p, syms, &run, &is_estimate, err));
    *out = (ph_need){.input = total[0],
                     .activations = total[1],
                     .engine = p->fixed + run,
                     .weights = p->weights.weights + p->weights.table,
                     .standing = p->fixed,
                     .opening = p->opening,
                     .is_estimate = is_estimate};
    *scratch = total[0] + total[1];
    return PH_OK;
}

ph_rc ph_ort_bind(ph_program *program, const ph_syms *syms, const ph_bind *b, ph_err *err) {
    ph_ort_program *p = (ph_ort_program *)program;
    size_t          total[2];
    p->is_bound = 0;
    if (!p->session)
        return PH_FAIL(err, PH_EUSAGE, "graph '%s' was compiled for a plan only", program->graph->name);
    PH_TRY(ph_engine_within(program->graph, syms, &program->max, "compiled", err));
    PH_TRY(place(p, syms, p->port, total, err));
    if (b->bytes < total[0] + total[1])
        return PH_FAIL(err, PH_ELIMIT, "graph '%s' wants %zu bytes for these sizes, %zu given",
                       program->graph->name, total[0] + total[1], b->bytes);
    if ((uintptr_t)b->memory % PH_ALIGN)
        return PH_FAIL(err, PH_EUSAGE, "graph '%s': memory must be %d-byte aligned", program->graph->name,
                       PH_ALIGN);
    for (size_t i = 0; i < p->n_ports; i++) {
        ph_ort_port *port = &p->port[i];
        port->own = port->data = port->is_lent ? NULL : (unsigned char *)b->memory + port->offset;
    }
    p->bound = *syms;
    p->is_bound = 1;
    return PH_OK;
}
