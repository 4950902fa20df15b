/* inject.c - see inject.h. */
#include "graph/inject.h"

#include "graph/modal.h"

#include <math.h>
#include <string.h>

static ph_rc check(const ph_graph *g, const char *at, double alpha, ph_err *err) {
    int v = ph_graph_find(g, at);
    if (v < 0) return PH_FAIL(err, PH_EUSAGE, "graph %s has no value '%.80s' to inject at", g->name, at);
    const ph_value *x = &g->value[v];
    if (x->cls != PH_VALUE_TEMP || x->dtype != PH_F32 || x->shape.rank != 2 ||
        !ph_dim_is_fixed(x->shape.dim[1]))
        return PH_FAIL(err, PH_EUSAGE, "graph %s: '%.80s' is no array of rows that a node makes", g->name,
                       at);
    if (ph_graph_find(g, PH_INJECT_FEATURES) >= 0)
        return PH_FAIL(err, PH_EUSAGE, "graph %s: features are injected already", g->name);
    if (!(fabs(alpha) <= PH_INJECT_MOST))
        return PH_FAIL(err, PH_EUSAGE, "injecting takes an alpha from %g to %g, not %g", -PH_INJECT_MOST,
                       PH_INJECT_MOST, alpha);
    return PH_OK;
}

/* The norm's parameters, [d]. */
static int parameter(ph_graph *g, const char *name, ph_dim d, float of) {
    void *p;
    if (g->rc) return -1;
    g->rc = ph_arena_carve(&g->arena, &p, (size_t)d.mul, sizeof(float), &g->err);
    if (g->rc) return -1;
    float *x = p;
    for (int64_t i = 0; i < d.mul; i++) x[i] = of;
    return ph_graph_weight(g, name, ph_shape_of(1, d),
                           ph_storage_of(PH_F32, x, (size_t)d.mul * sizeof *x, (size_t)d.mul * sizeof *x));
}

/* The last node moves behind node `after`; makers are numbered anew. */
static void move_last(ph_graph *g, size_t after) {
    ph_node last = g->node[g->n_nodes - 1];
    memmove(&g->node[after + 2], &g->node[after + 1], (g->n_nodes - after - 2) * sizeof last);
    g->node[after + 1] = last;
    for (size_t i = after + 1; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i].n_out; k++)
            if (g->node[i].out[k] >= 0) g->value[g->node[i].out[k]].producer = (int)i;
}

ph_rc ph_graph_inject(ph_graph *g, const char *at, double alpha, ph_err *err) {
    PH_TRY(check(g, at, alpha, err));
    int         v = ph_graph_find(g, at);
    ph_dim      rows = g->value[v].shape.dim[0], d = g->value[v].shape.dim[1];
    ph_modality before = g->modality;
    g->modality = PH_MOD_FUSED;
    int features = ph_graph_input(g, PH_INJECT_FEATURES, PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_N), d));
    int takes = ph_graph_input(g, PH_INJECT_ROWS, PH_I32, ph_shape_of(2, rows, ph_dim_of(2)));
    int scale = parameter(g, "inject.scale", d, 1), bias = parameter(g, "inject.bias", d, 0);
    int y = ph_graph_node(g, "PoolInject", PH_IN(v, features, scale, bias, takes),
                          PH_ATTRS(PH_FLOAT("alpha", alpha)), "%s.injected", at);
    g->modality = before;
    if (g->rc) {
        if (err) *err = g->err;
        return g->rc;
    }
    g->node[g->n_nodes - 1].fusion_policy = PH_FUSION_INJECT;
    g->value[y].relation = "text->image";
    for (size_t i = 0; i + 1 < g->n_nodes; i++)
        for (int k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] == v) g->node[i].in[k] = y;
    move_last(g, (size_t)g->value[v].producer);
    return ph_graph_check(g, err);
}
