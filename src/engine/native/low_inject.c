/* low_inject.c - PoolInject: features pooled where the bridge left them, added to rows, normalised.
 *
 * A unit is a block of rows.  A worker keeps the mean that it made last, so that the
 * features of a sequence are read once a worker, however many rows it does of it.
 */
#include "engine/native/native.h"
#include "graph/modal.h"

#include <string.h>

typedef struct inject {
    int     h, v, segments, y; /* buffers; segments: -1, all features for all rows */
    int     value, v_value;    /* whose shapes give rows and features */
    ph_norm norm;
    float   alpha;
    size_t  rows, features, block; /* of this run */
} inject;

static int can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "PoolInject") || !ph_native_is_array(g, n->in[0]) ||
        !ph_native_is_array(g, n->in[1]))
        return 0;
    for (int i = 2; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        if (i == 4 ? !ph_native_is_array(g, n->in[i]) : !ph_build_is_floats(g, n->in[i])) return 0;
    }
    return g->value[n->in[0]].shape.dim[g->value[n->in[0]].shape.rank - 1].mul > 0;
}

/* The mean, and a row on its way. */
static ph_rc scratch(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out, ph_err *err) {
    const inject *a = s->data;
    (void)p, (void)size, (void)err;
    *out = 2 * ph_whole_lines(a->norm.n) * sizeof(float);
    return PH_OK;
}

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    inject *a = s->data;
    a->rows = ph_native_items(p, p->size, a->value) / a->norm.n;
    a->features = ph_native_items(p, p->size, a->v_value) / a->norm.n;
    if (a->features > INT32_MAX) return PH_FAIL(err, PH_ELIMIT, "PoolInject: %zu features", a->features);
    if (a->segments >= 0)
        PH_TRY(ph_modal_segments(ph_native_at(p, a->segments), (int64_t)a->rows, (int64_t)a->features,
                                 "takes features", err));
    a->block = (PH_UNIT_ITEMS + a->norm.n - 1) / a->norm.n;
    s->units = (a->rows + a->block - 1) / a->block;
    return PH_OK;
}

static void work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const inject     *a = s->data;
    const ph_kernels *k = ph_native_kernels(p);
    const int32_t    *segments = a->segments < 0 ? NULL : ph_native_at(p, a->segments);
    const float      *h = ph_native_at(p, a->h), *v = ph_native_at(p, a->v);
    float            *y = ph_native_at(p, a->y), *mean = (float *)(void *)hand->memory;
    float            *part = mean + ph_whole_lines(a->norm.n);
    size_t            n = a->norm.n, last = end * a->block < a->rows ? end * a->block : a->rows;
    for (size_t r = begin * a->block; r < last; r++) {
        size_t from = segments ? (size_t)segments[2 * r] : 0;
        size_t to = segments ? (size_t)segments[2 * r + 1] : a->features;
        if (segments && from == to) {
            memcpy(y + r * n, h + r * n, n * sizeof *y);
            continue;
        }
        size_t own = from * (a->features + 1) + to; /* one number for each segment */
        if (hand->held != own) ph_modal_pool(k, mean, part, v + from * n, to - from, n, a->alpha);
        hand->held = own;
        k->add(part, h + r * n, mean, n);
        ph_norm_rows(k, &a->norm, y + r * n, part, 1);
    }
}

static const ph_step_kind kind = {.name = "inject", .scratch = scratch, .prepare = prepare, .work = work};

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    int            reads[3], n_reads = 2;
    if (!can(b->g, node)) return PH_OK;
    *took = 1;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(inject), err));
    inject *a = place;
    *a = (inject){.segments = -1, .value = n->in[0], .v_value = n->in[1]};
    a->alpha = (float)ph_node_float(n, "alpha", PH_INJECT_ALPHA);
    a->norm = (ph_norm){.kind = PH_NORM_LAYER,
                        .eps = (float)ph_node_float(n, "epsilon", PH_INJECT_EPSILON),
                        .n = (size_t)b->g->value[n->in[2]].shape.dim[0].mul};
    PH_TRY(ph_build_floats(b, n->in[2], &a->norm.g, err));
    if (n->n_in > 3 && n->in[3] >= 0) PH_TRY(ph_build_floats(b, n->in[3], &a->norm.b, err));
    PH_TRY(ph_build_buffer(b, n->in[0], &a->h, err));
    PH_TRY(ph_build_buffer(b, n->in[1], &a->v, err));
    if (n->n_in > 4 && n->in[4] >= 0) {
        PH_TRY(ph_build_buffer(b, n->in[4], &a->segments, err));
        reads[n_reads++] = a->segments;
    }
    reads[0] = a->h, reads[1] = a->v;
    PH_TRY(ph_build_buffer(b, n->out[0], &a->y, err));
    return ph_build_step(b, &kind, node, a, reads, n_reads, &a->y, 1, -1, err);
}

const ph_lowering ph_lowering_inject = {.name = "inject", .lower = lower, .can = can};
