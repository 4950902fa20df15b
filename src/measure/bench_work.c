/* bench_work.c - multiply-adds and bytes of a graph, counted node by node.
 *
 * Multiply-adds are what each operator says of itself (macs in graph/op.h); those of a Linear count as
 * integers where the native engine would take them so.
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

/* The rule of the native engine's products (engine/native/low_linear.c). */
static ph_rc is_by_integers(const counting *c, const ph_node *n, int *out, ph_err *err) {
    double          k;
    const ph_value *w = ph_in(c->g, n, 1);
    *out = 0;
    if (strcmp(n->op->name, "Linear") || c->how->is_exact || w->cls != PH_VALUE_CONSTANT) return PH_OK;
    PH_TRY(ph_value_size(w, 1, c->syms, &k, err));
    *out = ph_dot_of_stored(c->how->kernels, &w->storage, (size_t)k) != NULL;
    return PH_OK;
}

static ph_rc add_macs(const counting *c, const ph_node *n, ph_err *err) {
    double macs;
    int    is_int8;
    if (!n->op->macs) return PH_OK;
    PH_TRY(n->op->macs(c->g, n, c->syms, &c->how->meets, &macs, err));
    PH_TRY(is_by_integers(c, n, &is_int8, err));
    *(is_int8 ? &c->out->int8_macs : &c->out->f32_macs) += macs;
    return PH_OK;
}

static ph_rc add_cached(const counting *c, const ph_node *n, ph_err *err) {
    const ph_value *k = ph_in(c->g, n, 1);
    double          rows, k_width, v_width;
    if (strcmp(n->op->name, "CachedAttention") || !ph_in(c->g, n, 0) || !k) return PH_OK;
    PH_TRY(ph_value_size(k, 0, c->syms, &rows, err));
    PH_TRY(ph_value_size(k, 1, c->syms, &k_width, err));
    PH_TRY(ph_value_size(ph_in(c->g, n, 2), 1, c->syms, &v_width, err));
    if (rows > 0)
        c->out->kv_bytes +=
            ph_keys_seen(rows, c->how->meets.keys_before, (double)ph_node_int(n, "window", 0)) *
            (k_width + v_width) * c->how->kv_item;
    return PH_OK;
}

/* ---- bytes ---- */

static double stored_bytes(const ph_value *v) {
    double bytes = 0;
    for (int i = 0; i < v->storage.n_planes; i++) bytes += (double)v->storage.plane[i].n;
    return bytes;
}

static ph_rc add_bytes(const counting *c, const ph_node *n, ph_err *err) {
    int is_look_up = !strcmp(n->op->name, "Gather");
    for (int i = 0; i < n->n_in; i++) {
        const ph_value *v = ph_in(c->g, n, i);
        double          share = 1, rows = 0;
        if (!v || v->cls != PH_VALUE_CONSTANT) continue;
        if (is_look_up && !i && v->shape.rank > 0) {
            PH_TRY(ph_value_size(v, 0, c->syms, &rows, err));
            PH_TRY(ph_value_count(ph_in(c->g, n, 1), c->syms, &share, err));
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
        PH_TRY(add_macs(&c, n, err));
        PH_TRY(add_cached(&c, n, err));
        PH_TRY(add_bytes(&c, n, err));
    }
    return PH_OK;
}
