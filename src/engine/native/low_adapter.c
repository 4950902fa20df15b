/* low_adapter.c - AdapterDispatch: rows of one adapter that follow each other go through it together.
 *
 * A unit is a block of rows.  A row's bits do not depend on the run that it is in: the products promise that,
 * and the rest is elementwise.
 */
#include "engine/native/native.h"
#include "graph/adapters.h"

#include <string.h>

enum { BLOCK = 16 };

typedef struct adapters {
    int              base, x, ids, y, value; /* buffers; the value of x */
    int              is_wide;                /* ids are i64 */
    size_t           k, n, rows;             /* rows: of this run */
    ph_adapters      which;
    ph_adapter_side *side; /* A and B of each */
} adapters;

static int can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "AdapterDispatch")) return 0;
    for (int i = 0; i < n->n_in; i++)
        if (i < PH_ADAPTER_A ? !ph_native_is_array(g, n->in[i]) : !ph_linear_is_weight(g, n->in[i])) return 0;
    return g->value[n->in[PH_ADAPTER_A + 1]].shape.dim[0].mul > 0;
}

static ph_rc scratch(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out, ph_err *err) {
    const adapters *a = s->data;
    (void)p, (void)size, (void)err;
    *out = ph_adapter_floats(BLOCK, a->k, (size_t)a->which.rank_max, a->n) * sizeof(float);
    return PH_OK;
}

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    adapters *a = s->data;
    (void)err;
    a->rows = (size_t)ph_native_dim(p, p->size, a->value, 0);
    s->units = (a->rows + BLOCK - 1) / BLOCK;
    return PH_OK;
}

static int adapter_at(const adapters *a, const void *ids, size_t r) {
    return ph_adapter_for(&a->which, a->is_wide ? ((const int64_t *)ids)[r] : ((const int32_t *)ids)[r]);
}

static void work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const adapters *a = s->data;
    const float    *base = ph_native_at(p, a->base), *x = ph_native_at(p, a->x);
    const void     *ids = ph_native_at(p, a->ids);
    float          *y = ph_native_at(p, a->y);
    size_t          last = end * BLOCK < a->rows ? end * BLOCK : a->rows, some;
    for (size_t r = begin * BLOCK; r < last; r += some) {
        int m = adapter_at(a, ids, r);
        for (some = 1; some < BLOCK && r + some < last && adapter_at(a, ids, r + some) == m;) some++;
        if (m < 0)
            memcpy(y + r * a->n, base + r * a->n, some * a->n * sizeof *y);
        else
            ph_adapter_add(ph_native_kernels(p), &a->side[2 * m], &a->side[2 * m + 1], a->which.scale[m],
                           y + r * a->n, base + r * a->n, x + r * a->k, some, (float *)(void *)hand->memory);
    }
}

static const ph_step_kind kind = {.name = "adapters", .scratch = scratch, .prepare = prepare, .work = work};

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    if (!can(b->g, node)) return PH_OK;
    *took = 1;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(adapters), err));
    adapters *a = place;
    PH_TRY(ph_adapters_of(b->g, n, &a->which, err));
    a->value = n->in[PH_ADAPTER_X];
    a->is_wide = b->g->value[n->in[PH_ADAPTER_IDS]].dtype == PH_I64;
    PH_TRY(ph_build_carve(b, &place, 2 * (size_t)a->which.n, sizeof(ph_adapter_side), err));
    a->side = place;
    for (int i = 0; i < 2 * a->which.n; i++) {
        const ph_value *w = &b->g->value[n->in[PH_ADAPTER_A + i]];
        a->side[i] = (ph_adapter_side){
            .storage = &w->storage, .rows = (size_t)w->shape.dim[0].mul, .cols = (size_t)w->shape.dim[1].mul};
    }
    a->k = a->side[0].cols;
    a->n = a->side[1].rows;
    PH_TRY(ph_build_buffer(b, n->in[PH_ADAPTER_BASE], &a->base, err));
    PH_TRY(ph_build_buffer(b, n->in[PH_ADAPTER_X], &a->x, err));
    PH_TRY(ph_build_buffer(b, n->in[PH_ADAPTER_IDS], &a->ids, err));
    PH_TRY(ph_build_buffer(b, n->out[0], &a->y, err));
    const int reads[3] = {a->base, a->x, a->ids};
    return ph_build_step(b, &kind, node, a, reads, 3, &a->y, 1, -1, err);
}

const ph_lowering ph_lowering_adapter = {.name = "adapter", .lower = lower, .can = can};
