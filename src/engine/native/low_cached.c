/* low_cached.c - CachedAttention: normalise, rotate and append, then attend page by page.
 *
 *     append   a unit is a row: its queries are rotated, its keys are rotated into their page, its values
 *              are copied; heads that have a norm of their own are normalised first
 *     settle   only for caches by channel (graph/kv_hold.h): a unit is a key head of a page that the step
 *              has filled
 *     attend   cached_attend.c
 *
 * Without k and v only the last step is there, over a cache that the step does not append to; without q
 * only the others.
 *
 * The optional outputs (attention per key, entropy) are the eval's business.
 */
#include "engine/native/cached.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static int out_is(const ph_node *n, int k) {
    return k < n->n_out && n->out[k] >= 0;
}

static int cached_can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "CachedAttention") || out_is(n, 1) || out_is(n, 2)) return 0;
    for (int i = 0; i < 4; i++)
        if (n->in[i] >= 0 && g->value[n->in[i]].cls != PH_VALUE_TEMP &&
            g->value[n->in[i]].cls != PH_VALUE_INPUT)
            return 0;
    return 1;
}

int ph_cached_takes(const ph_builder *b, int node) {
    const ph_node *n = &b->g->node[node];
    if (!ph_build_fuses(b, PH_FUSE_rope) || !ph_spin_can(b->g, node) ||
        b->g->value[n->in[0]].shape.rank != 2 || !ph_build_is_alone(b, n->out[0]))
        return 0;
    int            use = ph_build_use(b, n->out[0], 0);
    const ph_node *a = &b->g->node[use];
    return cached_can(b->g, use) && a->in[1] >= 0 && (a->in[0] == n->out[0] || a->in[1] == n->out[0]);
}

int ph_cached_norms(const ph_builder *b, int node) {
    const ph_node *n = &b->g->node[node];
    if (!ph_build_fuses(b, PH_FUSE_headnorm) || !ph_norm_can(b->g, node) || !ph_build_is_alone(b, n->out[0]))
        return 0;
    int flat = ph_build_use(b, n->out[0], 0), value = b->g->node[flat].out[0];
    if (!ph_build_is(b, flat, "Reshape") || !ph_build_is_alone(b, value)) return 0;
    int spin = ph_build_use(b, value, 0);
    return ph_cached_takes(b, spin) && b->g->node[spin].in[0] == value &&
           ph_dim_same(b->g->value[n->in[1]].shape.dim[0], ph_dim_of((int64_t)ph_spin_of(b->g, spin).d));
}

/* ---- append ---- */

static ph_rc check_cross(const ph_cached *c, const int32_t *row, size_t i, ph_err *err) {
    int32_t sequence = row[PH_ROW_SEQUENCE], begin = row[PH_ROW_CROSS_BEGIN], end = row[PH_ROW_CROSS_END];
    int     length = sequence < 0 ? 0 : ph_kv_length(c->kv, sequence);
    if (begin >= 0 && begin <= end && end <= length) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH,
                   "row %zu: keys [%" PRId32 ", %" PRId32 ") of sequence %" PRId32 ", which has %d", i, begin,
                   end, sequence, length);
}

static ph_rc check_row(const ph_cached *c, const int32_t *row, size_t i, ph_err *err) {
    if (c->is_cross) return check_cross(c, row, i, err);
    int32_t sequence = row[PH_ROW_SEQUENCE], index = row[PH_ROW_INDEX], span = row[PH_ROW_SPAN];
    int     length = sequence < 0 ? 0 : ph_kv_length(c->kv, sequence);
    if (index < 0 || index >= length || span < 0 || span > length || row[PH_ROW_BACK] < 0 ||
        row[PH_ROW_BACK] > index)
        return PH_FAIL(err, PH_EMISMATCH,
                       "row %zu: index %" PRId32 ", span %" PRId32 " in sequence %" PRId32 " of %d tokens", i,
                       index, span, sequence, length);
    if (!ph_kv_at(c->kv, c->layer, sequence, index))
        return PH_FAIL(err, PH_EMISMATCH, "row %zu: sequence %" PRId32 " has no page for index %" PRId32, i,
                       sequence, index);
    return PH_OK;
}

/* The cache was made for this layer's heads. */
static ph_rc check_cache(const ph_cached *c, ph_err *err) {
    if (c->layer < 0 || c->layer >= ph_kv_layers(c->kv))
        return PH_FAIL(err, PH_EMISMATCH, "layer %d of a cache of %d layers", c->layer, ph_kv_layers(c->kv));
    ph_kv_layer l = ph_kv_layer_at(c->kv, c->layer);
    if ((size_t)l.n_heads != c->kv_heads || (size_t)l.d_k != c->d || (size_t)l.d_v != c->dv)
        return PH_FAIL(err, PH_EMISMATCH,
                       "layer %d: the cache has %d heads of %d and %d, the graph %zu of %zu and %zu",
                       c->layer, l.n_heads, l.d_k, l.d_v, c->kv_heads, c->d, c->dv);
    return PH_OK;
}

ph_rc ph_cached_check(ph_native *p, ph_cached *c, ph_err *err) {
    const int32_t *rows = ph_native_at(p, c->rows);
    c->n = (size_t)ph_native_dim(p, p->size, c->value, 0);
    c->kv = ph_native_kv(p, c->state);
    PH_TRY(check_cache(c, err));
    for (size_t i = 0; i < c->n; i++) PH_TRY(check_row(c, &rows[i * PH_ROW_FIELDS], i, err));
    c->shape = ph_kv_layer_at(c->kv, c->layer);
    c->attend = ph_attend_of(ph_native_kernels(p), ph_kv_dtype(c->kv));
    c->attend_held = ph_attend_of(ph_native_kernels(p), PH_F16);
    return PH_OK;
}

static ph_rc prepare_append(ph_native *p, ph_step *s, ph_err *err) {
    ph_cached *c = s->data;
    PH_TRY(ph_cached_check(p, c, err));
    PH_TRY(ph_kv_step(c->kv, c->layer, ph_native_at(p, c->rows), c->n, err));
    s->units = c->n;
    size_t width = (c->heads + c->kv_heads) * c->d + c->kv_heads * c->dv;
    s->piece = (PH_UNIT_ITEMS + width) / (width + 1);
    return PH_OK;
}

static ph_rc scratch_append(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out,
                            ph_err *err) {
    const ph_cached *c = s->data;
    (void)p, (void)size, (void)err;
    *out = (c->turn_q.norm.kind == PH_NORM_LAYER ? c->heads : c->kv_heads) * c->d * sizeof(float);
    return PH_OK;
}

/* Heads x [heads, d] of a row, normalised and rotated, to y.  y may be x: `spare` [heads, d] is for that. */
static void turn_row(const ph_native *p, const ph_turn *t, float *y, const float *x, float *spare,
                     size_t row) {
    const ph_kernels *k = ph_native_kernels(p);
    size_t            half = t->spin.half, n = t->spin.heads * t->spin.d;
    const float      *c = (const float *)ph_native_at(p, t->cos) + row * half;
    const float      *s = (const float *)ph_native_at(p, t->sin) + row * half;
    if (t->norm.kind == PH_NORM_RMS) {
        k->rmsnorm_rope(y, x, t->norm.g, c, s, t->spin.heads, t->spin.d, half, t->spin.is_pairs, t->norm.eps,
                        t->norm.g_add);
        return;
    }
    if (t->norm.kind && x == y) x = memcpy(spare, x, n * sizeof *x);
    if (t->norm.kind)
        ph_norm_rows(k, &t->norm, y, x, t->spin.heads);
    else if (x != y)
        memcpy(y, x, n * sizeof *y);
    k->rope(y, c, s, t->spin.heads, t->spin.d, half, t->spin.is_pairs);
}

/* `own`: the worker's memory, for a row's queries and then for its keys. */
static void append_row(ph_native *p, const ph_cached *c, size_t i, float *own) {
    const ph_kernels *k = ph_native_kernels(p);
    const int32_t    *row = (const int32_t *)ph_native_at(p, c->rows) + i * PH_ROW_FIELDS;
    size_t wide = c->heads * c->d, narrow = c->kv_heads * c->d, slot = (size_t)row[PH_ROW_INDEX] % PH_KV_PAGE;
    const float *keys = (const float *)ph_native_at(p, c->k) + i * narrow;
    const float *values = (const float *)ph_native_at(p, c->v) + i * c->kv_heads * c->dv;
    if (c->turn_q.cos >= 0) {
        const float *q = (const float *)ph_native_at(p, c->q) + i * wide;
        turn_row(p, &c->turn_q, (float *)ph_native_at(p, c->turned) + i * wide, q, own, i);
    }
    if (c->turn_k.cos >= 0) {
        turn_row(p, &c->turn_k, own, keys, NULL, i);
        keys = own;
    }
    ph_kv_store(k, ph_kv_written(c->kv, c->layer, row[PH_ROW_SEQUENCE], row[PH_ROW_INDEX]), &c->shape, keys,
                values, slot);
}

static void append(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    for (size_t i = begin; i < end; i++) append_row(p, s->data, i, (float *)(void *)hand->memory);
}

static const ph_step_kind append_kind = {
    .name = "append", .scratch = scratch_append, .prepare = prepare_append, .work = append};

/* ---- settle ---- */

static ph_rc prepare_settle(ph_native *p, ph_step *s, ph_err *err) {
    const ph_cached *c = s->data;
    (void)p, (void)err;
    s->units = ph_kv_full(c->kv) * c->kv_heads;
    s->piece = 1;
    return PH_OK;
}

static void settle(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const ph_cached *c = s->data;
    (void)p, (void)hand;
    for (size_t u = begin; u < end; u++) {
        const ph_kv_page *from, *to;
        ph_kv_full_at(c->kv, c->layer, u / c->kv_heads, &from, &to);
        ph_kv_settle(to, from, &c->shape, u % c->kv_heads);
    }
}

static const ph_step_kind settle_kind = {.name = "settle", .prepare = prepare_settle, .work = settle};

/* ---- lowering ---- */

/* The norm behind `value`, if it was left to us: low_norm.c gave both sides of it one buffer. */
static ph_rc take_norm(ph_builder *b, int value, ph_norm *out, ph_err *err) {
    int flat = b->g->value[value].producer;
    if (flat < 0 || !ph_build_is(b, flat, "Reshape")) return PH_OK;
    int norm = b->g->value[b->g->node[flat].in[0]].producer;
    return norm >= 0 && ph_cached_norms(b, norm) ? ph_norm_of(b, norm, out, err) : PH_OK;
}

/* The buffer of `value`, or what a rotation that was left to us reads. */
static ph_rc take_turn(ph_builder *b, int value, ph_turn *t, int *buffer, ph_err *err) {
    int made_by = b->g->value[value].producer;
    t->cos = t->sin = -1;
    if (made_by < 0 || b->p->home[value] >= 0 || !ph_cached_takes(b, made_by))
        return ph_build_buffer(b, value, buffer, err);
    const ph_node *n = &b->g->node[made_by];
    t->spin = ph_spin_of(b->g, made_by);
    PH_TRY(ph_build_buffer(b, n->in[1], &t->cos, err));
    PH_TRY(ph_build_buffer(b, n->in[2], &t->sin, err));
    PH_TRY(take_norm(b, n->in[0], &t->norm, err));
    return ph_build_buffer(b, n->in[0], buffer, err);
}

static void read_attributes(const ph_builder *b, int node, ph_cached *c) {
    const ph_node *n = &b->g->node[node];
    c->heads = (size_t)ph_node_int(n, "num_heads", 1);
    c->kv_heads = (size_t)ph_node_int(n, "kv_num_heads", 1);
    c->is_cross = n->in[1] < 0;
    c->d = c->is_cross ? (size_t)b->g->value[n->in[0]].shape.dim[1].mul / c->heads
                       : (size_t)b->g->value[n->in[1]].shape.dim[1].mul / c->kv_heads;
    c->dv = c->is_cross ? c->d : (size_t)b->g->value[n->in[2]].shape.dim[1].mul / c->kv_heads;
    c->layer = (int)ph_node_int(n, "layer", 0);
    c->window = (int)ph_node_int(n, "window", 0);
    c->scale = (float)ph_node_float(n, "scale", 1 / sqrt((double)c->d));
    c->softcap = (float)ph_node_float(n, "softcap", 0);
    c->value = n->in[3];
    c->state = n->in[4];
}

static ph_rc add_append(ph_builder *b, int node, ph_cached *c, ph_err *err) {
    int reads[8] = {c->k, c->v, c->rows}, n_reads = 3, writes[1] = {c->turned}, n_writes = 0, over = -1;
    if (c->turn_k.cos >= 0) {
        reads[n_reads++] = c->turn_k.cos;
        reads[n_reads++] = c->turn_k.sin;
    }
    if (c->turn_q.cos >= 0) {
        reads[n_reads++] = c->q;
        reads[n_reads++] = c->turn_q.cos;
        reads[n_reads++] = c->turn_q.sin;
        n_writes = 1;
        over = c->q;
    }
    PH_TRY(ph_build_step(b, &append_kind, node, c, reads, n_reads, writes, n_writes, over, err));
    return ph_build_step(b, &settle_kind, node, c, &c->rows, 1, NULL, 0, -1, err);
}

static ph_rc add_attend(ph_builder *b, int node, ph_cached *c, ph_err *err) {
    int reads[2] = {c->turned, c->rows}, writes[2];
    c->parts = -1;
    PH_TRY(ph_build_buffer(b, b->g->node[node].out[0], &c->y, err));
    if (b->p->n_hands > 1) PH_TRY(ph_build_shared(b, ph_cached_parts_bytes(c), &c->parts, err));
    writes[0] = c->y;
    writes[1] = c->parts;
    return ph_build_step(b, &ph_cached_attend, node, c, reads, 2, writes, c->parts < 0 ? 1 : 2, -1, err);
}

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    if (!cached_can(b->g, node)) return PH_OK;
    *took = 1;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(ph_cached), err));
    ph_cached *c = place;
    int        state;
    read_attributes(b, node, c);
    c->turn_q.cos = c->turn_k.cos = -1;
    if (n->in[0] >= 0 && !c->is_cross) PH_TRY(take_turn(b, n->in[0], &c->turn_q, &c->q, err));
    if (n->in[0] >= 0 && c->is_cross) PH_TRY(ph_build_buffer(b, n->in[0], &c->q, err));
    if (!c->is_cross) PH_TRY(take_turn(b, n->in[1], &c->turn_k, &c->k, err));
    if (!c->is_cross) PH_TRY(ph_build_buffer(b, n->in[2], &c->v, err));
    PH_TRY(ph_build_buffer(b, n->in[3], &c->rows, err));
    PH_TRY(ph_build_buffer(b, n->in[4], &state, err));
    c->turned = c->q;
    if (c->turn_q.cos >= 0) PH_TRY(ph_build_buffer(b, n->in[0], &c->turned, err));
    if (!c->is_cross) PH_TRY(add_append(b, node, c, err));
    if (n->in[0] < 0) return PH_OK;
    return add_attend(b, node, c, err);
}

const ph_lowering ph_lowering_cached = {.name = "cached", .lower = lower, .can = cached_can};
