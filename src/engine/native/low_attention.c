/* low_attention.c - Attention of a vision tower: every query of a tile meets every key of it.
 *
 * Q, K, V are [I, N, heads * d].  A unit is one tile, one head and a block of
 * queries; it walks the keys in order, in blocks that d and dv alone decide (64; kernels.h), so
 * the answer of a query does not depend on the unit that it is in.  Of a mask (bool, the same for all
 * heads) each query takes the runs of keys that it sees, one after the other.  Other
 * masks, caches, causal order and heads as a dimension of their own are left to the
 * operator's eval.
 */
#include "engine/native/native.h"

#include <math.h>
#include <string.h>

/* ---- what attention units share ---- */

size_t ph_query_bytes(size_t n, size_t d, size_t dv, size_t keys) {
    return (ph_whole_lines(n * d) + ph_whole_lines(n * dv) + 4 * ph_whole_lines(n) + n * PH_ATTEND_KEYS +
            keys) *
           sizeof(float);
}

size_t ph_query_share(const ph_native *p, const ph_query_kernel *k, size_t all, size_t n, size_t heads,
                      size_t d, size_t dv) {
    size_t macs = k->queries / PH_QUERIES_MAX * PH_ATTEND_MACS, cost = (n + 1) * (d + dv);
    size_t hands = (size_t)p->n_hands, fair = all * heads / (4 * hands), most = cost < macs ? macs / cost : 1;
    if (most > k->queries) most = k->queries;
    if (hands > 1 && most > fair) most = fair ? fair : 1;
    return ph_native_share(all, most);
}

ph_query_block ph_query_in(void *memory, size_t n, size_t d, size_t dv) {
    ph_query_block b;
    b.q = memory;
    b.acc = b.q + ph_whole_lines(n * d);
    b.m = b.acc + ph_whole_lines(n * dv);
    b.l = b.m + ph_whole_lines(n);
    b.lo = (int32_t *)(void *)(b.l + ph_whole_lines(n));
    b.hi = b.lo + ph_whole_lines(n);
    b.scores = (float *)(void *)(b.hi + ph_whole_lines(n));
    b.keys = b.scores + n * PH_ATTEND_KEYS;
    return b;
}

ph_query_kernel ph_query_attend(const ph_builder *b, size_t d, size_t dv) {
    ph_attend_fn *rounded = ph_attend_rounded_of(ph_native_kernels(b->p));
    int           is_coarse = b->has_dots && b->p->base.engine->env.is_rows8;
    if (rounded && is_coarse && d <= PH_ATTEND_ROUNDED_D)
        return (ph_query_kernel){rounded, INT32_MAX, PH_ATTEND_ROUNDED_FLOATS(PH_QUERIES_ROUNDED, d, dv),
                                 PH_QUERIES_ROUNDED};
    return (ph_query_kernel){ph_native_kernels(b->p)->attend_rows, PH_ATTEND_KEYS, d * PH_ATTEND_KEYS,
                             PH_QUERIES_MAX};
}

void ph_query_meet(const ph_query_kernel *k, ph_attend *t, const ph_query_block *b, size_t n) {
    const float *keys = t->k, *values = t->v;
    for (size_t j = 0, some; j < n; j += some) {
        some = n - j < k->most ? n - j : k->most;
        for (size_t i = 0; i < t->n_q; i++) {
            b->lo[i] = 0;
            b->hi[i] = (int32_t)some;
        }
        t->k = &keys[j * t->k_stride];
        t->v = &values[j * t->v_stride];
        k->fn(t);
    }
}

void ph_query_begin(const ph_query_block *b, size_t n, size_t dv) {
    for (size_t i = 0; i < n; i++) {
        b->m[i] = -INFINITY;
        b->l[i] = 0;
    }
    for (size_t i = 0; i < n * dv; i++) b->acc[i] = 0;
}

/* y = x / by, in blocks that the compiler makes vectors of. */
static void divide(float *restrict y, const float *restrict x, float by, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (size_t j = 0; j < 16; j++) y[i + j] = x[i + j] / by;
    for (; i < n; i++) y[i] = x[i] / by;
}

void ph_query_answer(const ph_query_block *b, size_t i, size_t dv, float *out) {
    if (b->l[i] > 0 || isnan(b->l[i])) /* NaN goes through, it is not hidden as a zero */
        divide(out, &b->acc[i * dv], b->l[i], dv);
    else
        memset(out, 0, dv * sizeof *out);
}

/* ---- Attention ---- */

/* A mask of one byte a query and a key, whatever the head. */
static int can_mask(const ph_graph *g, const ph_node *n) {
    if (n->n_in < 4 || n->in[3] < 0) return 1;
    const ph_value *m = &g->value[n->in[3]];
    const ph_shape *q = &g->value[n->in[0]].shape, *k = &g->value[n->in[1]].shape;
    return m->cls == PH_VALUE_TEMP && m->dtype == PH_BOOL && m->shape.rank == 4 &&
           ph_dim_same(m->shape.dim[0], q->dim[0]) && ph_dim_same(m->shape.dim[1], ph_dim_of(1)) &&
           ph_dim_same(m->shape.dim[2], q->dim[1]) && ph_dim_same(m->shape.dim[3], k->dim[1]);
}

typedef struct attention {
    int             q, k, v, y, q_value, k_value; /* buffers; values with the shapes */
    int             mask;                         /* buffer of u8 [I, 1, n_q, n_k]; -1: every key is seen */
    size_t          heads, kv_heads, d, dv;
    float           scale, softcap;
    ph_query_kernel attend;
    size_t          tiles, n_q, n_k, block, blocks; /* of this run */
} attention;

static int can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "Attention") || n->n_in < 3) return 0;
    for (int i = 0; i < n->n_in; i++) {
        if (i > 3 && n->in[i] >= 0) return 0;
        if (i > 2) continue;
        if (n->in[i] < 0) return 0;
        const ph_value *x = &g->value[n->in[i]];
        if ((x->cls != PH_VALUE_INPUT && x->cls != PH_VALUE_TEMP) || x->shape.rank != 3 ||
            !ph_dim_is_fixed(x->shape.dim[2]) || x->dtype != PH_F32)
            return 0;
    }
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] >= 0) return 0;
    if (!can_mask(g, n)) return 0;
    int64_t q_heads = ph_node_int(n, "q_num_heads", 0), kv_heads = ph_node_int(n, "kv_num_heads", 0);
    return q_heads > 0 && kv_heads > 0 && q_heads % kv_heads == 0 && !ph_node_int(n, "is_causal", 0);
}

static ph_rc scratch(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out, ph_err *err) {
    const attention *a = s->data;
    (void)p, (void)size, (void)err;
    *out = ph_query_bytes(a->attend.queries, 0, a->dv, a->attend.keys);
    return PH_OK;
}

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    attention *a = s->data;
    (void)err;
    a->tiles = (size_t)ph_native_dim(p, p->size, a->q_value, 0);
    a->n_q = (size_t)ph_native_dim(p, p->size, a->q_value, 1);
    a->n_k = (size_t)ph_native_dim(p, p->size, a->k_value, 1);
    a->block = ph_query_share(p, &a->attend, a->n_q, a->n_k, a->tiles * a->heads, a->d, a->dv);
    a->blocks = (a->n_q + a->block - 1) / a->block;
    s->units = a->tiles * a->heads * a->blocks;
    return PH_OK;
}

/* The keys of one block that each query sees: its first run, then its second, as long as any has one. */
static void attend_runs(const ph_kernels *k, const ph_attend *t, const ph_query_block *b, const uint8_t *seen,
                        size_t stride, int32_t some) {
    for (size_t i = 0; i < t->n_q; i++) b->hi[i] = 0;
    for (;;) {
        int is_any = 0;
        for (size_t i = 0; i < t->n_q; i++) {
            const uint8_t *row = seen + i * stride;
            int32_t        lo = b->hi[i];
            while (lo < some && !row[lo]) lo++;
            int32_t hi = lo;
            while (hi < some && row[hi]) hi++;
            b->lo[i] = lo;
            b->hi[i] = hi;
            is_any |= hi > lo;
        }
        if (!is_any) return;
        k->attend_rows(t);
    }
}

/* All n keys, block by block, of each query those that it sees. */
static void attend_masked(const ph_kernels *k, ph_attend *t, const ph_query_block *b, const uint8_t *seen,
                          size_t n) {
    const float *keys = t->k, *values = t->v;
    for (size_t j = 0; j < n; j += PH_ATTEND_KEYS) {
        t->k = &keys[j * t->k_stride];
        t->v = &values[j * t->v_stride];
        attend_runs(k, t, b, seen + j, n, (int32_t)(n - j < PH_ATTEND_KEYS ? n - j : PH_ATTEND_KEYS));
    }
}

static void unit(ph_native *p, const attention *a, size_t u, const ph_query_block *b) {
    size_t q0 = u % a->blocks * a->block, head = u / a->blocks % a->heads, tile = u / a->blocks / a->heads;
    size_t n = a->n_q - q0 < a->block ? a->n_q - q0 : a->block, kv_head = head / (a->heads / a->kv_heads);
    const float   *keys = ph_native_at(p, a->k), *values = ph_native_at(p, a->v);
    float         *y = ph_native_at(p, a->y);
    ph_attend      t = {.acc = b->acc,
                        .m = b->m,
                        .l = b->l,
                        .lo = b->lo,
                        .hi = b->hi,
                        .scratch = b->scores,
                        .keys = b->keys,
                        .q =
                            (const float *)ph_native_at(p, a->q) + ((tile * a->n_q + q0) * a->heads + head) * a->d,
                        .k = &keys[(tile * a->n_k * a->kv_heads + kv_head) * a->d],
                        .v = &values[(tile * a->n_k * a->kv_heads + kv_head) * a->dv],
                        .q_stride = a->heads * a->d,
                        .k_stride = a->kv_heads * a->d,
                        .v_stride = a->kv_heads * a->dv,
                        .n_q = n,
                        .d = a->d,
                        .dv = a->dv,
                        .scale = a->scale,
                        .softcap = a->softcap};
    const uint8_t *mask = a->mask < 0 ? NULL : ph_native_at(p, a->mask);
    ph_query_begin(b, n, a->dv);
    if (mask)
        attend_masked(ph_native_kernels(p), &t, b, mask + (tile * a->n_q + q0) * a->n_k, a->n_k);
    else
        ph_query_meet(&a->attend, &t, b, a->n_k);
    for (size_t i = 0; i < n; i++)
        ph_query_answer(b, i, a->dv, &y[((tile * a->n_q + q0 + i) * a->heads + head) * a->dv]);
}

static void work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const attention *a = s->data;
    ph_query_block   b = ph_query_in(hand->memory, a->attend.queries, 0, a->dv);
    for (size_t u = begin; u < end; u++) unit(p, a, u, &b);
}

static const ph_step_kind kind = {.name = "attention", .scratch = scratch, .prepare = prepare, .work = work};

ph_rc ph_attention_step(ph_builder *b, int node, const ph_attention_of *how, ph_err *err) {
    void *place;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(attention), err));
    attention *a = place;
    a->q_value = how->q;
    a->k_value = how->k;
    a->heads = how->heads;
    a->kv_heads = how->kv_heads;
    a->d = (size_t)b->g->value[how->q].shape.dim[2].mul / a->heads;
    a->dv = (size_t)b->g->value[how->v].shape.dim[2].mul / a->kv_heads;
    a->scale = how->scale;
    a->softcap = how->softcap;
    PH_TRY(ph_build_buffer(b, how->q, &a->q, err));
    PH_TRY(ph_build_buffer(b, how->k, &a->k, err));
    PH_TRY(ph_build_buffer(b, how->v, &a->v, err));
    PH_TRY(ph_build_buffer(b, how->y, &a->y, err));
    a->mask = -1;
    if (how->mask >= 0) PH_TRY(ph_build_buffer(b, how->mask, &a->mask, err));
    a->attend = ph_query_attend(b, a->d, a->dv);
    int reads[4] = {a->q, a->k, a->v, a->mask};
    return ph_build_step(b, &kind, node, a, reads, a->mask < 0 ? 3 : 4, &a->y, 1, -1, err);
}

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    if (!can(b->g, node)) return PH_OK;
    *took = 1;
    ph_attention_of how = {.q = n->in[0], .k = n->in[1], .v = n->in[2], .y = n->out[0]};
    how.mask = n->n_in > 3 ? n->in[3] : -1;
    how.heads = (size_t)ph_node_int(n, "q_num_heads", 1);
    how.kv_heads = (size_t)ph_node_int(n, "kv_num_heads", 1);
    double d = (double)((size_t)b->g->value[how.q].shape.dim[2].mul / how.heads);
    how.scale = (float)ph_node_float(n, "scale", 1 / sqrt(d));
    how.softcap = (float)ph_node_float(n, "softcap", 0);
    return ph_attention_step(b, node, &how, err);
}

const ph_lowering ph_lowering_attention = {.name = "attention", .lower = lower, .can = can};
