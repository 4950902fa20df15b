/* bench_work.c - multiply-adds and bytes of a graph, counted node by node.
 *
 *     Linear            rows * N * K        by integers where the native engine would take them so
 *     Conv              outputs * C/groups * kh * kw
 *     MatMul            [.., M, K] [.., K, N]
 *     Attention         queries * keys seen * (d + dv), every head
 *     CachedAttention   the same, over the cache: row i sees what was there and i + 1 more, or its window
 *     SegmentAttention  the same, over segments, whose mean the caller knows
 *
 * Norms, activations and rotations are left out: they are a percent or two of a model, and no limit is about
 * them.  Bytes are those of constants as they are stored; a table costs the rows that are looked up.
 */
#include "measure/bench.h"

#include "graph/op.h"

#include <math.h>
#include <string.h>

typedef struct counting {
    const ph_graph    *g;
    const ph_syms     *syms;
    const ph_work_how *how;
    ph_work           *out;
} counting;

static const ph_value *input(const counting *c, const ph_node *n, int i) {
    return i < n->n_in && n->in[i] >= 0 ? &c->g->value[n->in[i]] : NULL;
}

static ph_rc count(const counting *c, const ph_value *v, double *out, ph_err *err) {
    int64_t n;
    PH_TRY(ph_shape_count(&v->shape, c->syms, &n, err));
    *out = (double)n;
    return PH_OK;
}

/* Dimension i; negative ones count from the last. */
static ph_rc size_of(const counting *c, const ph_value *v, int i, double *out, ph_err *err) {
    int64_t n;
    int     at = i < 0 ? v->shape.rank + i : i;
    if (at < 0 || at >= v->shape.rank) return PH_FAIL(err, PH_EBUG, "%s has no dimension %d", v->name, i);
    PH_TRY(ph_dim_eval(v->shape.dim[at], c->syms, &n, err));
    *out = (double)n;
    return PH_OK;
}

/* ---- one function an operator ---- */

/* The rule of the native engine's products (engine/native/low_linear.c). */
static int is_by_integers(const counting *c, const ph_value *w, double k) {
    return !c->how->is_exact && w->cls == PH_VALUE_CONSTANT &&
           ph_dot_of_stored(c->how->kernels, &w->storage, (size_t)k) != NULL;
}

static ph_rc linear(const counting *c, const ph_node *n, ph_err *err) {
    double y, k;
    PH_TRY(count(c, &c->g->value[n->out[0]], &y, err));
    PH_TRY(size_of(c, input(c, n, 1), 1, &k, err));
    *(is_by_integers(c, input(c, n, 1), k) ? &c->out->int8_macs : &c->out->f32_macs) += y * k;
    return PH_OK;
}

static ph_rc conv(const counting *c, const ph_node *n, ph_err *err) {
    double y, w, filters;
    PH_TRY(count(c, &c->g->value[n->out[0]], &y, err));
    PH_TRY(count(c, input(c, n, 1), &w, err));
    PH_TRY(size_of(c, input(c, n, 1), 0, &filters, err));
    if (filters > 0) c->out->f32_macs += y * (w / filters);
    return PH_OK;
}

static ph_rc matmul(const counting *c, const ph_node *n, ph_err *err) {
    double y, k;
    PH_TRY(count(c, &c->g->value[n->out[0]], &y, err));
    PH_TRY(size_of(c, input(c, n, 0), -1, &k, err));
    c->out->f32_macs += y * k;
    return PH_OK;
}

static ph_rc attention(const counting *c, const ph_node *n, ph_err *err) {
    const ph_value *q = input(c, n, 0), *k = input(c, n, 1), *y = &c->g->value[n->out[0]];
    double          all_q, all_y, keys, queries;
    int             tokens = q->shape.rank == 4 ? 2 : 1;
    PH_TRY(count(c, q, &all_q, err));
    PH_TRY(count(c, y, &all_y, err));
    PH_TRY(size_of(c, k, tokens, &keys, err));
    PH_TRY(size_of(c, q, tokens, &queries, err));
    if (ph_node_int(n, "is_causal", 0)) keys = queries < keys ? (queries + 1) / 2 : (keys + 1) / 2;
    c->out->f32_macs += (all_q + all_y) * keys;
    return PH_OK;
}

static ph_rc segments(const counting *c, const ph_node *n, ph_err *err) {
    const ph_value *bounds = input(c, n, 3);
    double          q, y;
    PH_TRY(count(c, input(c, n, 0), &q, err));
    PH_TRY(count(c, &c->g->value[n->out[0]], &y, err));
    c->out->f32_macs +=
        (q + y) * (strcmp(bounds->name, "windows") ? c->how->segment_keys : c->how->window_keys);
    return PH_OK;
}

/* Keys that rows 0 .. n-1 see together: each what was there before, and those up to itself; a window cuts. */
static double keys_seen(double n, double before, double window) {
    double all = n * before + n * (n + 1) / 2;
    if (window <= 0 || window >= before + n) return all;
    double whole = window > before ? window - before : 0; /* rows that see everything */
    return whole * before + whole * (whole + 1) / 2 + (n - whole) * window;
}

static ph_rc cached(const counting *c, const ph_node *n, ph_err *err) {
    const ph_value *k = input(c, n, 1);
    double          q, y, rows, k_width, v_width;
    if (!input(c, n, 0) || !k) return PH_OK; /* pictures' keys: none in a prompt of text */
    PH_TRY(count(c, input(c, n, 0), &q, err));
    PH_TRY(count(c, &c->g->value[n->out[0]], &y, err));
    PH_TRY(size_of(c, k, 0, &rows, err));
    PH_TRY(size_of(c, k, 1, &k_width, err));
    PH_TRY(size_of(c, input(c, n, 2), 1, &v_width, err));
    if (rows <= 0) return PH_OK;
    double seen = keys_seen(rows, c->how->keys_before, (double)ph_node_int(n, "window", 0));
    c->out->f32_macs += (q + y) / rows * seen;
    c->out->kv_bytes += seen * (k_width + v_width) * c->how->kv_item;
    return PH_OK;
}

static const struct {
    const char *op;
    ph_rc (*add)(const counting *c, const ph_node *n, ph_err *err);
} counted[] = {{"Linear", linear},          {"Conv", conv},
               {"MatMul", matmul},          {"Attention", attention},
               {"CachedAttention", cached}, {"SegmentAttention", segments}};

/* ---- bytes ---- */

static double stored_bytes(const ph_value *v) {
    double bytes = 0;
    for (int i = 0; i < v->storage.n_planes; i++) bytes += (double)v->storage.plane[i].n;
    return bytes;
}

static ph_rc add_bytes(const counting *c, const ph_node *n, ph_err *err) {
    int is_look_up = !strcmp(n->op->name, "Gather");
    for (int i = 0; i < n->n_in; i++) {
        const ph_value *v = input(c, n, i);
        double          share = 1, rows = 0;
        if (!v || v->cls != PH_VALUE_CONSTANT) continue;
        if (is_look_up && !i && v->shape.rank > 0) {
            PH_TRY(size_of(c, v, 0, &rows, err));
            PH_TRY(count(c, input(c, n, 1), &share, err));
            share = rows > share ? share / rows : 1;
        }
        c->out->weight_bytes += share * stored_bytes(v);
    }
    return PH_OK;
}

ph_rc ph_work_count(const ph_graph *g, const ph_syms *syms, const ph_work_how *how, ph_work *out,
                    ph_err *err) {
    counting c = {.g = g, .syms = syms, .how = how, .out = out};
    *out = (ph_work){0};
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ph_node *n = &g->node[i];
        for (size_t k = 0; k < sizeof counted / sizeof *counted; k++)
            if (!strcmp(n->op->name, counted[k].op)) PH_TRY(counted[k].add(&c, n, err));
        PH_TRY(add_bytes(&c, n, err));
    }
    return PH_OK;
}
