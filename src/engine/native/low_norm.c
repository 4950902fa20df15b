/* low_norm.c - RMSNormalization and LayerNormalization over the last dimension.
 *
 * A norm whose every reader is a Linear is left to them (low_linear.c does it in
 * its own memory, so the normalised rows are never stored), and one of heads that
 * a CachedAttention will rotate is left to that (low_cached.c).  Any other is a
 * step whose units are blocks of rows.
 */
#include "engine/native/native.h"

#include <string.h>

typedef struct norm_step {
    ph_norm norm;
    int     x, y, value; /* buffers; the value that has the shape */
    size_t  rows, block;
} norm_step;

static ph_norm_kind kind_of(const char *op) {
    if (!strcmp(op, "RMSNormalization")) return PH_NORM_RMS;
    return strcmp(op, "LayerNormalization") ? PH_NORM_NONE : PH_NORM_LAYER;
}

/* A fixed vector of the length of x's last dimension. */
static int is_parameter(const ph_graph *g, int value, ph_dim n) {
    const ph_shape *s = &g->value[value].shape;
    return ph_build_is_floats(g, value) && s->rank == 1 && ph_dim_same(s->dim[0], n);
}

int ph_norm_can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (kind_of(n->op->name) == PH_NORM_NONE || n->n_in < 2 || n->in[0] < 0 || n->in[1] < 0) return 0;
    const ph_value *x = &g->value[n->in[0]];
    if (x->dtype != PH_F32 || x->shape.rank < 1 || x->cls == PH_VALUE_CONSTANT) return 0;
    ph_dim  last = x->shape.dim[x->shape.rank - 1];
    int64_t axis = ph_node_int(n, "axis", -1);
    if (axis != -1 && axis != x->shape.rank - 1) return 0;
    for (int k = 1; k < n->n_out; k++)
        if (n->out[k] >= 0) return 0;
    return is_parameter(g, n->in[1], last) &&
           (n->n_in < 3 || n->in[2] < 0 || is_parameter(g, n->in[2], last));
}

ph_rc ph_norm_of(ph_builder *b, int node, ph_norm *out, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    *out = (ph_norm){.kind = kind_of(n->op->name),
                     .eps = (float)ph_node_float(n, "epsilon", 1e-5),
                     .n = (size_t)b->g->value[n->in[1]].shape.dim[0].mul};
    PH_TRY(ph_build_floats(b, n->in[1], &out->g, err));
    return n->n_in > 2 && n->in[2] >= 0 ? ph_build_floats(b, n->in[2], &out->b, err) : PH_OK;
}

void ph_norm_rows(const ph_kernels *k, const ph_norm *n, float *y, const float *x, size_t rows) {
    if (n->kind == PH_NORM_RMS)
        k->rmsnorm(y, x, n->g, rows, n->n, n->eps, n->g_add);
    else
        k->layernorm(y, x, n->g, n->b, rows, n->n, n->eps);
}

static int is_for_linears(const ph_builder *b, int value) {
    if (b->is_pinned[value] || !ph_build_n_uses(b, value) || !ph_build_fuses(b, PH_FUSE_norm)) return 0;
    for (int i = 0; i < ph_build_n_uses(b, value); i++) {
        int next = ph_build_use(b, value, i);
        if (!ph_linear_can(b->g, next) || b->g->node[next].in[0] != value) return 0;
    }
    return 1;
}

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    norm_step *n = s->data;
    (void)err;
    n->rows = ph_native_items(p, p->size, n->value) / n->norm.n;
    n->block = (PH_UNIT_ITEMS + n->norm.n - 1) / n->norm.n;
    s->units = (n->rows + n->block - 1) / n->block;
    return PH_OK;
}

static void work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const norm_step *n = s->data;
    size_t           r0 = begin * n->block, r1 = end * n->block < n->rows ? end * n->block : n->rows;
    const float     *x = (const float *)ph_native_at(p, n->x) + r0 * n->norm.n;
    (void)hand;
    ph_norm_rows(ph_native_kernels(p), &n->norm, (float *)ph_native_at(p, n->y) + r0 * n->norm.n, x, r1 - r0);
}

static const ph_step_kind kind = {.name = "norm", .prepare = prepare, .work = work};

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    if (!ph_norm_can(b->g, node)) return PH_OK;
    *took = 1;
    if (is_for_linears(b, n->out[0])) return PH_OK;
    if (ph_cached_norms(b, node)) return ph_build_alias(b, n->out[0], n->in[0], err);
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(norm_step), err));
    norm_step *s = place;
    PH_TRY(ph_norm_of(b, node, &s->norm, err));
    PH_TRY(ph_build_buffer(b, n->in[0], &s->x, err));
    PH_TRY(ph_build_buffer(b, n->out[0], &s->y, err));
    s->value = n->out[0];
    return ph_build_step(b, &kind, node, s, &s->x, 1, &s->y, 1, -1, err);
}

const ph_lowering ph_lowering_norm = {.name = "norm", .lower = lower, .can = ph_norm_can};
