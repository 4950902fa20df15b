/* guest.c - inputs, outputs and taps of a part that a library of others runs, and what its plan says. */
#include "engine/guest.h"

#include "base/mem.h"
#include "graph/user.h"

#include <stdlib.h>
#include <string.h>

int ph_guest_supports(const ph_graph *g, int node) {
    static const ph_onnx_export_how how = PH_GUEST_EXPORT_HOW;
    if (node >= 0 && (size_t)node < g->n_nodes && g->node[node].op->user)
        return 0; /* only we have the plug-in */
    return !ph_onnx_export_try(g, node, &how, NULL);
}

/* ---- what it is asked for ---- */

static ph_rc check_states(const ph_graph *g, const char *engine, ph_err *err) {
    for (size_t i = 0; i < g->n_values; i++)
        if (g->value[i].cls == PH_VALUE_STATE)
            return PH_FAIL(
                err, PH_EUNSUP,
                "graph '%s' keeps the state '%s' from run to run, and parts on engine %s begin anew "
                "with each: leave it to native (--engine vision=%s)",
                g->name, g->value[i].name, engine, engine);
    return PH_OK;
}

/* A library of its own may have such an operator; whether it is the same one we cannot know. */
static ph_rc check_operators(const ph_graph *g, const char *engine, ph_err *err) {
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->node[i].op->user)
            return PH_FAIL(
                err, PH_EUNSUP,
                "graph '%s': node '%.60s' is %.80s of plug-in %.40s, which engine %s does not have: leave "
                "the part to native",
                g->name, g->node[i].name, g->node[i].op->name, g->node[i].op->user->lib->name, engine);
    return PH_OK;
}

ph_rc ph_guest_takes(const ph_graph *g, const char *engine, ph_err *err) {
    PH_TRY(check_states(g, engine, err));
    return check_operators(g, engine, err);
}

/* Values that a node makes: those that a tap sees become outputs. */
static ph_rc check_taps(const ph_graph *g, const ph_compile *how, ph_err *err) {
    for (size_t i = 0; i < how->n_taps; i++) {
        int v = how->tap[i].value;
        if (v < 0 || (size_t)v >= g->n_values)
            return PH_FAIL(err, PH_EUSAGE, "tap %zu: value %d of %zu", i, v, g->n_values);
        if (g->value[v].cls != PH_VALUE_TEMP || g->value[v].dtype != PH_F32)
            return PH_FAIL(err, PH_EUSAGE, "tap %zu: '%s' is no array of f32 that a run makes", i,
                           g->value[v].name);
    }
    return PH_OK;
}

static int by_maker(const ph_graph *g, const ph_tap *a, const ph_tap *b) {
    return g->value[a->value].producer > g->value[b->value].producer;
}

static ph_rc keep_taps(ph_guest *p, const ph_compile *how, ph_err *err) {
    PH_TRY(check_taps(p->base.graph, how, err));
    p->tap = calloc(how->n_taps + 1, sizeof *p->tap);
    if (!p->tap) return PH_FAIL(err, PH_ENOMEM, "%zu taps", how->n_taps);
    for (size_t i = 0; i < how->n_taps; i++) {
        size_t k = p->n_taps++;
        for (; k && by_maker(p->base.graph, &p->tap[k - 1], &how->tap[i]); k--) p->tap[k] = p->tap[k - 1];
        p->tap[k] = how->tap[i];
    }
    return PH_OK;
}

static int is_tapped(const ph_guest *p, int value) {
    for (size_t i = 0; i < p->n_taps; i++)
        if (p->tap[i].value == value) return 1;
    return 0;
}

static int is_in(const int *list, size_t n, int value) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == value) return 1;
    return 0;
}

static ph_rc list_ports(ph_guest *p, const ph_compile *how, ph_err *err) {
    const ph_graph *g = p->base.graph;
    p->port = calloc(g->n_values + 1, sizeof *p->port);
    if (!p->port) return PH_FAIL(err, PH_ENOMEM, "inputs and outputs of graph %s", g->name);
    for (int is_input = 1; is_input >= 0; is_input--)
        for (size_t i = 0; i < g->n_values; i++) {
            const ph_value *v = &g->value[i];
            int             id = (int)i, is_made = v->cls == PH_VALUE_TEMP;
            if (is_input ? v->cls != PH_VALUE_INPUT : !is_made || !(v->is_output || is_tapped(p, id)))
                continue;
            p->port[p->n_ports++] = (ph_port){
                .value = id, .is_input = is_input, .is_lent = is_input && is_in(how->lent, how->n_lent, id)};
        }
    for (size_t i = 0; i < how->n_lent; i++)
        if (how->lent[i] < 0 || (size_t)how->lent[i] >= g->n_values ||
            g->value[how->lent[i]].cls != PH_VALUE_INPUT)
            return PH_FAIL(err, PH_EUSAGE, "value %d is to be lent, and is no input", how->lent[i]);
    return PH_OK;
}

ph_rc ph_guest_begin(ph_guest *p, ph_engine *e, const ph_graph *graph, const ph_compile *how, ph_err *err) {
    p->base = (ph_program){.engine = e, .graph = graph, .max = how->max};
    pthread_mutex_init(&p->lock, NULL);
    PH_TRY(ph_guest_takes(graph, e->def->name, err));
    PH_TRY(keep_taps(p, how, err));
    PH_TRY(list_ports(p, how, err));
    return ph_engine_weigh(graph, &p->weights, err);
}

ph_rc ph_guest_done(ph_guest *p, ph_rc rc, ph_program **out, ph_err *err) {
    ph_need need;
    size_t  scratch;
    if (!rc) rc = ph_guest_need(&p->base, &p->base.max, &need, &scratch, err);
    if (rc)
        return ph_note(err, rc, "while compiling graph '%s' for engine %s", p->base.graph->name,
                       p->base.engine->def->name);
    *out = &p->base;
    return PH_OK;
}

void ph_guest_end(ph_guest *p) {
    free(p->port);
    free(p->tap);
    p->port = NULL;
    p->tap = NULL;
}

ph_rc ph_guest_export(const ph_guest *p, ph_onnx_exported *x, ph_err *err) {
    ph_onnx_export_how as = PH_GUEST_EXPORT_HOW;
    int               *also = calloc(p->n_taps + 1, sizeof *also);
    if (!also) return PH_FAIL(err, PH_ENOMEM, "%zu taps", p->n_taps);
    for (size_t i = 0; i < p->n_taps; i++) also[i] = p->tap[i].value;
    as.also = also;
    as.n_also = p->n_taps;
    ph_rc rc = ph_onnx_export(x, p->base.graph, &as, err);
    free(also);
    return rc;
}

static ph_rc bytes_of(const ph_graph *g, int value, const ph_syms *syms, size_t *out, ph_err *err) {
    const ph_value *v = &g->value[value];
    int64_t         n;
    PH_TRY(ph_shape_count(&v->shape, syms, &n, err));
    if (ph_mul_over((size_t)n, ph_dtype_bytes(v->dtype), out))
        return PH_FAIL(err, PH_ELIMIT, "value '%s': more memory than an address can name", v->name);
    return PH_OK;
}

/* ---- what the library allocates, reckoned ---- */

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

/* Bytes of the plan's, not of a run. */
static int is_planned(const ph_guest *p, int value) {
    for (size_t i = 0; i < p->n_ports; i++)
        if (p->port[i].value == value) return p->port[i].is_input || !p->keeps_outputs;
    return 0;
}

/* Values between nodes, each from the node that makes it to the last that reads it; and scores. */
static ph_rc fill_lives(const ph_guest *p, const ph_syms *syms, ph_life *life, ph_err *err) {
    const ph_graph *g = p->base.graph;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ph_node *n = &g->node[i];
        life[g->n_values + i] = (ph_life){.bytes = scores_of(g, n, syms), .first = (int)i, .last = (int)i};
        for (int k = 0; k < n->n_out; k++) {
            if (n->out[k] < 0 || is_planned(p, n->out[k])) continue;
            life[n->out[k]].first = life[n->out[k]].last = (int)i;
            PH_TRY(bytes_of(g, n->out[k], syms, &life[n->out[k]].bytes, err));
        }
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0) life[n->in[k]].last = (int)i;
    }
    return PH_OK;
}

static ph_rc reckon(const ph_guest *p, const ph_syms *syms, size_t *out, ph_err *err) {
    size_t   n = p->base.graph->n_values + p->base.graph->n_nodes;
    ph_life *life = calloc(n + 1, sizeof *life);
    if (!life) return PH_FAIL(err, PH_ENOMEM, "lives of %zu values", n);
    ph_rc rc = fill_lives(p, syms, life, err);
    if (!rc) *out = ph_layout_bound(life, n);
    free(life);
    return rc;
}

/* ---- what is whose ---- */

/* Who would be alone goes first: where many run, it would else wait for ever. */
static pthread_rwlock_t at_work = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

void ph_guest_work_begin(int is_alone) {
    if (is_alone)
        pthread_rwlock_wrlock(&at_work);
    else
        pthread_rwlock_rdlock(&at_work);
}

void ph_guest_work_end(void) {
    pthread_rwlock_unlock(&at_work);
}

ph_footing ph_guest_footing(void) {
    ph_footing f;
    ph_mem_read(&f.mem);
    f.heap = ph_mem_heap();
    return f;
}

static size_t growth(size_t before, size_t after) {
    return after > before ? after - before : 0;
}

static size_t lesser(size_t a, size_t b) {
    return a < b ? a : b;
}

/* No more than was free in the heap, and came to it. */
size_t ph_guest_touched(const ph_footing *before, const ph_footing *after) {
    size_t anon = growth(before->mem.rss_anon, after->mem.rss_anon);
    if (!before->heap.system) return anon;
    return lesser(anon, before->heap.free + growth(before->heap.system, after->heap.system));
}

size_t ph_guest_kept(const ph_footing *before, const ph_footing *after) {
    size_t anon = growth(before->mem.rss_anon, after->mem.rss_anon);
    return before->heap.system ? lesser(anon, growth(before->heap.used, after->heap.used)) : anon;
}

/* ---- what it held, measured ---- */

static void lock(const ph_guest *p) {
    pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&p->lock);
}

static void unlock(const ph_guest *p) {
    pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&p->lock);
}

/* Of the shape's figures, the place; n_seen: there are none.  Under the lock. */
static size_t place_seen(const ph_guest *p, const ph_syms *syms) {
    for (size_t i = 0; i < PH_GUEST_SHAPES && i < p->n_seen; i++)
        if (!memcmp(&p->seen[i].syms, syms, sizeof *syms)) return i;
    return p->n_seen;
}

size_t ph_guest_times_seen(const ph_guest *p, const ph_syms *syms) {
    lock(p);
    size_t at = place_seen(p, syms), times = at < p->n_seen ? p->seen[at].times : 0;
    unlock(p);
    return times;
}

void ph_guest_saw(ph_guest *p, const ph_syms *syms, size_t bytes, size_t stays) {
    lock(p);
    size_t at = place_seen(p, syms), all = p->kept + bytes;
    if (at == p->n_seen) {
        at = p->n_seen++ % PH_GUEST_SHAPES;
        p->seen[at].syms = *syms;
        p->seen[at].bytes = p->seen[at].times = 0;
    }
    if (all > p->seen[at].bytes) p->seen[at].bytes = all;
    p->seen[at].times++;
    p->kept += stays;
    unlock(p);
}

/* What a run of this shape holds beyond what stands: as it was measured, or *is_estimate; and what stays of
 * all. */
static ph_rc scratch_of(const ph_guest *p, const ph_syms *syms, size_t *run, size_t *kept, int *is_estimate,
                        ph_err *err) {
    lock(p);
    size_t at = place_seen(p, syms);
    *is_estimate = at == p->n_seen;
    *kept = p->kept;
    if (!*is_estimate) *run = p->seen[at].bytes;
    unlock(p);
    return *is_estimate ? reckon(p, syms, run, err) : PH_OK;
}

/* ---- the plan's part ---- */

static ph_rc place(const ph_guest *p, const ph_syms *syms, ph_port *port, size_t total[2], ph_err *err) {
    size_t at = 0;
    total[0] = total[1] = 0;
    for (size_t i = 0; i < p->n_ports; i++) {
        size_t bytes;
        PH_TRY(bytes_of(p->base.graph, p->port[i].value, syms, &bytes, err));
        if (port) port[i].bytes = bytes;
        if (port) port[i].offset = at;
        if (p->port[i].is_lent || !is_planned(p, p->port[i].value)) continue;
        bytes = ph_round_up(bytes, PH_ALIGN);
        if (ph_add_over(at, bytes, &at))
            return PH_FAIL(err, PH_ELIMIT, "graph '%s': more memory than an address can name",
                           p->base.graph->name);
        total[!p->port[i].is_input] += bytes;
    }
    return PH_OK;
}

ph_rc ph_guest_need(const ph_program *program, const ph_syms *syms, ph_need *out, size_t *scratch,
                    ph_err *err) {
    const ph_guest *p = (const ph_guest *)program;
    size_t          total[2], run = 0, kept = 0;
    int             is_estimate = 0;
    PH_TRY(ph_engine_within(program->graph, syms, &program->max, "compiled", err));
    PH_TRY(place(p, syms, NULL, total, err));
    PH_TRY(scratch_of(p, syms, &run, &kept, &is_estimate, err));
    *out = (ph_need){.input = total[0],
                     .activations = total[1],
                     .engine = p->fixed + (run > kept ? run : kept),
                     .weights = p->weights.weights + p->weights.table,
                     .standing = p->fixed + kept,
                     .opening = p->opening,
                     .is_estimate = is_estimate};
    *scratch = total[0] + total[1];
    return PH_OK;
}

ph_rc ph_guest_bind(ph_program *program, const ph_syms *syms, const ph_bind *b, ph_err *err) {
    ph_guest *p = (ph_guest *)program;
    size_t    total[2];
    p->is_bound = 0;
    if (!p->is_open)
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
        ph_port *port = &p->port[i];
        port->own = port->data = NULL;
        if (!port->is_lent && is_planned(p, port->value))
            port->own = port->data = (unsigned char *)b->memory + port->offset;
    }
    p->bound = *syms;
    p->is_bound = 1;
    return PH_OK;
}

/* ---- buffers ---- */

static ph_port *port_of(const ph_program *program, int value) {
    const ph_guest *p = (const ph_guest *)program;
    for (size_t i = 0; i < p->n_ports; i++)
        if (p->port[i].value == value) return &p->port[i];
    return NULL;
}

void *ph_guest_buffer(const ph_program *program, int value) {
    const ph_port *port = port_of(program, value);
    return port && ((const ph_guest *)program)->is_bound ? port->data : NULL;
}

ph_rc ph_guest_lend(ph_program *program, int value, void *data, ph_err *err) {
    const ph_guest *p = (const ph_guest *)program;
    ph_port        *port = port_of(program, value);
    int             is_made = port && !port->is_input && program->graph->value[value].is_output;
    if (!port || !p->is_bound || !(port->is_input || (is_made && !p->keeps_outputs)))
        return PH_FAIL(err, PH_EUSAGE,
                       "value %d is no input or output of the bound graph '%s' that can be lent", value,
                       program->graph->name);
    if ((uintptr_t)data % ph_dtype_bytes(program->graph->value[value].dtype))
        return PH_FAIL(err, PH_EUSAGE, "value '%s': lent memory is not aligned",
                       program->graph->value[value].name);
    port->data = data ? data : port->own;
    return PH_OK;
}

void ph_guest_reset(ph_program *program) {
    (void)program;
}

/* ---- a run ---- */

ph_rc ph_guest_ready(const ph_guest *p, const ph_syms *syms, ph_err *err) {
    if (!p->is_bound)
        return PH_FAIL(err, PH_EUSAGE, "graph '%s' is run before it is bound", p->base.graph->name);
    return ph_engine_within(p->base.graph, syms, &p->bound, "bound", err);
}

ph_rc ph_guest_shape(const ph_guest *p, ph_port *port, const ph_syms *syms, int64_t dim[PH_RANK_MAX],
                     size_t *bytes, int *is_new, ph_err *err) {
    const ph_value *v = &p->base.graph->value[port->value];
    int64_t         n = 1;
    memset(dim, 0, PH_RANK_MAX * sizeof *dim);
    for (int i = 0; i < v->shape.rank; i++) {
        PH_TRY(ph_dim_eval(v->shape.dim[i], syms, &dim[i], err));
        n *= dim[i]; /* bind counted the largest */
    }
    *bytes = (size_t)n * ph_dtype_bytes(v->dtype);
    if (n && !port->data) return PH_FAIL(err, PH_EUSAGE, "input '%s' was to be lent and is not", v->name);
    if (*bytes > port->bytes)
        return PH_FAIL(err, PH_ELIMIT, "value '%s': %zu bytes, bound for %zu", v->name, *bytes, port->bytes);
    *is_new = !port->set || port->set != port->data || memcmp(port->set_dim, dim, sizeof port->set_dim);
    if (*is_new) port->set = NULL;
    return PH_OK;
}

void ph_guest_told(ph_port *port, const int64_t dim[PH_RANK_MAX]) {
    port->set = port->data;
    memcpy(port->set_dim, dim, sizeof port->set_dim);
}

void ph_guest_show_taps(const ph_guest *p, const ph_syms *syms) {
    for (size_t t = 0; t < p->n_taps; t++)
        for (size_t i = 0; i < p->n_ports; i++)
            if (p->port[i].value == p->tap[t].value)
                p->tap[t].see(p->tap[t].arg, p->tap[t].value, p->port[i].data,
                              &p->base.graph->value[p->tap[t].value].shape, syms);
}
