/* eval.c - run a graph node by node with each operator's own meaning.
 *
 * This is the definition: slow, one thread, every value kept.  Tests and passes
 * hold the engines and themselves to it.  Only what the wanted value needs is run.
 */
#include "graph/op.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

enum { SCRATCH_CHUNK = 1 << 16 };

int64_t ph_array_count(const ph_array *a) {
    int64_t n = 1;
    for (int i = 0; i < a->rank; i++) n *= a->dim[i];
    return n;
}

/* The array's type and numbers from the value and the symbols; bytes are checked to fit a size_t. */
static ph_rc shape_array(const ph_value *v, const ph_syms *syms, ph_array *a, ph_err *err) {
    int64_t count;
    size_t  bytes;
    *a = (ph_array){.dtype = v->dtype, .rank = v->shape.rank};
    for (int i = 0; i < a->rank; i++) PH_TRY(ph_dim_eval(v->shape.dim[i], syms, &a->dim[i], err));
    PH_TRY(ph_shape_count(&v->shape, syms, &count, err));
    if (ph_mul_over((size_t)count, ph_dtype_bytes(v->dtype), &bytes) || bytes > SIZE_MAX / 4)
        return PH_FAIL(err, PH_ELIMIT, "%s: %" PRId64 " elements", v->name, count);
    return PH_OK;
}

static ph_rc feed_value(const ph_value *v, const ph_feed *feeds, size_t n_feeds, ph_array *a, ph_err *err) {
    const ph_array *given = NULL;
    for (size_t i = 0; i < n_feeds && !given; i++)
        if (!strcmp(feeds[i].name, v->name)) given = &feeds[i].array;
    if (!given) return PH_FAIL(err, PH_EMISMATCH, "input %s was not given", v->name);
    if (v->cls == PH_VALUE_STATE) {
        a->kv = given->kv;
        return a->kv ? PH_OK : PH_FAIL(err, PH_EMISMATCH, "state %s was not given", v->name);
    }
    int same = given->dtype == a->dtype && given->rank == a->rank;
    for (int i = 0; same && i < a->rank; i++) same = given->dim[i] == a->dim[i];
    if (!same) {
        char want[128];
        ph_shape_print(&v->shape, want, sizeof want);
        return PH_FAIL(err, PH_EMISMATCH, "input %s was given as %s of rank %d, wanted %s %s", v->name,
                       ph_dtype_name(given->dtype), given->rank, ph_dtype_name(a->dtype), want);
    }
    a->data = given->data;
    a->storage = given->storage;
    if (!a->data && !a->storage && ph_array_count(a))
        return PH_FAIL(err, PH_EMISMATCH, "input %s has no data", v->name);
    return PH_OK;
}

/* Mark the nodes that `target` needs (all when -1). */
static void mark_needed(const ph_graph *g, int target, unsigned char *node) {
    memset(node, target < 0, g->n_nodes);
    if (target >= 0 && g->value[target].producer >= 0) node[g->value[target].producer] = 1;
    for (size_t i = g->n_nodes; i-- > 0;) {
        if (!node[i]) continue;
        for (int k = 0; k < g->node[i].n_in; k++) {
            int v = g->node[i].in[k];
            if (v >= 0 && g->value[v].producer >= 0) node[g->value[v].producer] = 1;
        }
    }
}

typedef struct run {
    const ph_graph   *g;
    const ph_syms    *syms;
    const ph_feed    *feeds;
    size_t            n_feeds;
    ph_array         *value; /* [n_values] */
    unsigned char    *is_ready;
    const ph_kernels *kernels;
    ph_arena         *arena, scratch;
} run;

/* Inputs, states and constants are made ready when a node first asks for them. */
static ph_rc ready(run *r, int v, ph_err *err) {
    const ph_value *value = &r->g->value[v];
    ph_array       *a = &r->value[v];
    if (r->is_ready[v]) return PH_OK;
    if (value->cls == PH_VALUE_TEMP)
        return PH_FAIL(err, PH_EBUG, "%s is read before it is made", value->name);
    PH_TRY(shape_array(value, r->syms, a, err));
    if (value->cls == PH_VALUE_CONSTANT)
        a->storage = &value->storage;
    else
        PH_TRY(feed_value(value, r->feeds, r->n_feeds, a, err));
    r->is_ready[v] = 1;
    return PH_OK;
}

static ph_rc run_node(run *r, const ph_node *n, ph_err *err) {
    void *in_p, *out_p;
    PH_TRY(ph_arena_zero(&r->scratch, &in_p, (size_t)n->n_in, sizeof(ph_array), err));
    PH_TRY(ph_arena_zero(&r->scratch, &out_p, (size_t)n->n_out, sizeof(ph_array), err));
    ph_array *in = in_p, *out = out_p;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        PH_TRY(ready(r, n->in[i], err));
        in[i] = r->value[n->in[i]];
    }
    for (int k = 0; k < n->n_out; k++) {
        if (n->out[k] < 0) continue;
        PH_TRY(shape_array(&r->g->value[n->out[k]], r->syms, &out[k], err));
        PH_TRY(ph_arena_zero(r->arena, &out[k].data, (size_t)ph_array_count(&out[k]),
                             ph_dtype_bytes(out[k].dtype), err));
    }
    ph_eval e = {.kernels = r->kernels, .scratch = &r->scratch};
    PH_TRY(n->op->eval(r->g, n, in, out, &e, err));
    for (int k = 0; k < n->n_out; k++) {
        if (n->out[k] < 0) continue;
        r->value[n->out[k]] = out[k];
        r->is_ready[n->out[k]] = 1;
    }
    return PH_OK;
}

static ph_rc run_all(run *r, int target, ph_err *err) {
    void *list;
    PH_TRY(ph_arena_zero(r->arena, &list, r->g->n_values, 1, err));
    r->is_ready = list;
    PH_TRY(ph_arena_zero(r->arena, &list, r->g->n_values, sizeof(ph_array), err));
    r->value = list;
    PH_TRY(ph_arena_carve(r->arena, &list, r->g->n_nodes, 1, err));
    mark_needed(r->g, target, list);
    for (size_t i = 0; i < r->g->n_nodes; i++) {
        const ph_node *n = &r->g->node[i];
        if (!((unsigned char *)list)[i]) continue;
        ph_arena_reset(&r->scratch);
        ph_rc rc = run_node(r, n, err);
        if (rc) return ph_note(err, rc, "while evaluating %s (%s)", n->name, n->op->name);
    }
    if (target >= 0) return ready(r, target, err);
    for (size_t v = 0; v < r->g->n_values; v++) /* inputs that are outputs, and that no node reads */
        if (r->g->value[v].is_output) PH_TRY(ready(r, (int)v, err));
    return PH_OK;
}

ph_rc ph_graph_eval(const ph_graph *g, const ph_syms *syms, const ph_feed *feeds, size_t n_feeds,
                    const char *want, ph_array *out, const ph_kernels *kernels, ph_arena *arena,
                    ph_err *err) {
    int target = want ? ph_graph_find(g, want) : -1;
    if (want && target < 0) return PH_FAIL(err, PH_EMISMATCH, "graph %s has no value %s", g->name, want);
    run r = {.g = g, .syms = syms, .feeds = feeds, .n_feeds = n_feeds, .kernels = kernels, .arena = arena};
    PH_TRY(ph_arena_open_growing(&r.scratch, SCRATCH_CHUNK, err));
    ph_rc rc = run_all(&r, target, err);
    ph_arena_close(&r.scratch);
    if (rc) return rc;
    if (want)
        *out = r.value[target];
    else
        memcpy(out, r.value, g->n_values * sizeof *out);
    return PH_OK;
}
