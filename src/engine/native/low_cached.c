/* low_cached.c - CachedAttention: normalise, rotate and append, then attend page by page.
 *
 *     append   a unit is a row: its queries are rotated, its keys are rotated into their page, its values
 *              are copied; heads that have a norm of their own are normalised first
 *     settle   only for caches by channel (graph/kv_hold.h): a unit is a key head of a page that the step
 *              has filled
 *     attend   a unit is a block of rows and some query heads that share a key head
 *
 * Queries of one sequence that stand side by side walk its pages together; each
 * takes from a page the keys that it may see.  A query meets its pages in order
 * and cut at page borders, whatever unit it is in, so its bits are always the same.
 *
 * Without k and v only the last step is there, over a cache that the step does not append to; without q
 * only the others.
 *
 * The optional outputs (attention per key, entropy) are the eval's business.
 */
#include "engine/native/native.h"
#include "graph/kv_page.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A rotation that was left to us, and the norm of each head before it; cos < 0: none. */
typedef struct turn {
    int     cos, sin; /* buffers */
    ph_spin spin;
    ph_norm norm; /* of kind NONE: none */
} turn;

typedef struct cached {
    int    q, turned, k, v, rows, y; /* buffers; turned: the queries as attend reads them */
    int    value, state;             /* rows: [R, fields]; the cache */
    turn   turn_q, turn_k;
    int    layer, window, is_cross;
    size_t heads, kv_heads, d, dv;
    float  scale, softcap;
    /* of this run */
    ph_kv        *kv;
    ph_kv_layer   shape;
    ph_attend_fn *attend, *attend_held; /* pages of the cache's own type, and those held as F16 */
    size_t        n, row_block, row_blocks, head_block, head_blocks; /* head blocks of one key head */
} cached;

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

static ph_rc check_cross(const cached *c, const int32_t *row, size_t i, ph_err *err) {
    int32_t sequence = row[PH_ROW_SEQUENCE], begin = row[PH_ROW_CROSS_BEGIN], end = row[PH_ROW_CROSS_END];
    int     length = sequence < 0 ? 0 : ph_kv_length(c->kv, sequence);
    if (begin >= 0 && begin <= end && end <= length) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH,
                   "row %zu: keys [%" PRId32 ", %" PRId32 ") of sequence %" PRId32 ", which has %d", i, begin,
                   end, sequence, length);
}

static ph_rc check_row(const cached *c, const int32_t *row, size_t i, ph_err *err) {
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
static ph_rc check_cache(const cached *c, ph_err *err) {
    if (c->layer < 0 || c->layer >= ph_kv_layers(c->kv))
        return PH_FAIL(err, PH_EMISMATCH, "layer %d of a cache of %d layers", c->layer, ph_kv_layers(c->kv));
    ph_kv_layer l = ph_kv_layer_at(c->kv, c->layer);
    if ((size_t)l.n_heads != c->kv_heads || (size_t)l.d_k != c->d || (size_t)l.d_v != c->dv)
        return PH_FAIL(err, PH_EMISMATCH,
                       "layer %d: the cache has %d heads of %d and %d, the graph %zu of %zu and %zu",
                       c->layer, l.n_heads, l.d_k, l.d_v, c->kv_heads, c->d, c->dv);
    return PH_OK;
}

static ph_rc check_all(ph_native *p, cached *c, ph_err *err) {
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
    cached *c = s->data;
    PH_TRY(check_all(p, c, err));
    PH_TRY(ph_kv_step(c->kv, c->layer, ph_native_at(p, c->rows), c->n, err));
    s->units = c->n;
    size_t width = (c->heads + c->kv_heads) * c->d + c->kv_heads * c->dv;
    s->piece = (PH_UNIT_ITEMS + width) / (width + 1);
    return PH_OK;
}

static ph_rc scratch_append(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out,
                            ph_err *err) {
    const cached *c = s->data;
    (void)p, (void)size, (void)err;
    *out = (c->turn_q.norm.kind ? c->heads : c->kv_heads) * c->d * sizeof(float);
    return PH_OK;
}

/* Heads x [heads, d] of a row, normalised and rotated, to y.  y may be x: `spare` [heads, d] is for that. */
static void turn_row(const ph_native *p, const turn *t, float *y, const float *x, float *spare, size_t row) {
    const ph_kernels *k = ph_native_kernels(p);
    const float      *c = ph_native_at(p, t->cos), *s = ph_native_at(p, t->sin);
    size_t            half = t->spin.half, n = t->spin.heads * t->spin.d;
    if (t->norm.kind && x == y) x = memcpy(spare, x, n * sizeof *x);
    if (t->norm.kind)
        ph_norm_rows(k, &t->norm, y, x, t->spin.heads);
    else if (x != y)
        memcpy(y, x, n * sizeof *y);
    k->rope(y, &c[row * half], &s[row * half], t->spin.heads, t->spin.d, half, t->spin.is_pairs);
}

/* `own`: the worker's memory, for a row's queries and then for its keys. */
static void append_row(ph_native *p, const cached *c, size_t i, float *own) {
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
    const cached *c = s->data;
    (void)p, (void)err;
    s->units = ph_kv_full(c->kv) * c->kv_heads;
    s->piece = 1;
    return PH_OK;
}

static void settle(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const cached *c = s->data;
    (void)p, (void)hand;
    for (size_t u = begin; u < end; u++) {
        const ph_kv_page *from, *to;
        ph_kv_full_at(c->kv, c->layer, u / c->kv_heads, &from, &to);
        ph_kv_settle(to, from, &c->shape, u % c->kv_heads);
    }
}

static const ph_step_kind settle_kind = {.name = "settle", .prepare = prepare_settle, .work = settle};

/* ---- attend ---- */

/* First key that a row may see, and the one behind the last. */
static void span_of(const cached *c, const int32_t *row, int32_t *lo, int32_t *hi) {
    *hi = c->is_cross ? row[PH_ROW_CROSS_END] : row[PH_ROW_SPAN];
    *lo = c->window > 0 && row[PH_ROW_INDEX] + 1 > c->window ? row[PH_ROW_INDEX] + 1 - c->window : 0;
    if (row[PH_ROW_INDEX] - row[PH_ROW_BACK] < *lo) *lo = row[PH_ROW_INDEX] - row[PH_ROW_BACK];
    if (c->is_cross) *lo = row[PH_ROW_CROSS_BEGIN];
    if (*lo > *hi) *lo = *hi;
}

static ph_rc prepare_attend(ph_native *p, ph_step *s, ph_err *err) {
    cached        *c = s->data;
    const int32_t *rows = ph_native_at(p, c->rows);
    size_t         most = 1, group = c->heads / c->kv_heads, hands = (size_t)p->n_hands;
    if (c->is_cross) PH_TRY(check_all(p, c, err)); /* else the append step has */
    for (size_t i = 0; i < c->n; i++) {
        int32_t lo, hi;
        span_of(c, &rows[i * PH_ROW_FIELDS], &lo, &hi);
        if ((size_t)(hi - lo) > most) most = (size_t)(hi - lo);
    }
    /* As many queries a unit as 2 ms allow, few enough that every worker finds some. */
    size_t queries = PH_ATTEND_MACS / (most * (c->d + c->dv) + 1);
    if (hands > 1 && queries > c->n * c->heads / (2 * hands)) queries = c->n * c->heads / (2 * hands);
    if (queries > PH_QUERIES_MAX) queries = PH_QUERIES_MAX;
    if (!queries) queries = 1;
    c->head_block = group < queries ? group : queries;
    c->head_blocks = (group + c->head_block - 1) / c->head_block;
    c->row_block = queries / c->head_block;
    c->row_blocks = (c->n + c->row_block - 1) / c->row_block;
    s->units = c->row_blocks * c->kv_heads * c->head_blocks;
    if (c->n * c->heads * most * (c->d + c->dv) < PH_UNIT_MACS / 32)
        s->piece = s->units; /* not worth a barrier */
    return PH_OK;
}

static ph_rc scratch_attend(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out,
                            ph_err *err) {
    const cached *c = s->data;
    (void)p, (void)size, (void)err;
    *out = ph_query_bytes(PH_QUERIES_MAX, c->d, c->dv, 0);
    return PH_OK;
}

/* The queries of b whose rows see the page at `base` as `page` meet its keys. */
static void meet_form(const cached *c, const ph_query_block *b, ph_attend *t, const int32_t *rows,
                      size_t n_rows, size_t heads, size_t kv_head, int32_t base, const ph_kv_page *page) {
    for (size_t i = 0; i < n_rows; i++) {
        const int32_t *row = &rows[i * PH_ROW_FIELDS];
        int32_t        lo, hi;
        span_of(c, row, &lo, &hi);
        lo = lo < base ? 0 : lo - base;
        hi = hi - base > PH_KV_PAGE ? PH_KV_PAGE : hi - base;
        if (hi < lo || ph_kv_seen(c->kv, c->layer, row[PH_ROW_SEQUENCE], row[PH_ROW_INDEX], base) != page)
            lo = hi = 0;
        for (size_t h = 0; h < heads; h++) {
            b->lo[i * heads + h] = lo;
            b->hi[i * heads + h] = hi;
        }
    }
    ph_kv_meet(page->dtype == PH_F16 ? c->attend_held : c->attend, page, &c->shape, kv_head, t);
}

/* All queries of b meet the keys that stand in one page, in each form that one of them sees: the later the
 * row, the sooner it is settled. */
static void meet_page(const cached *c, const ph_query_block *b, ph_attend *t, const int32_t *rows,
                      size_t n_rows, size_t heads, size_t kv_head, int32_t base) {
    const ph_kv_page *form[2] = {NULL, NULL};
    size_t            n_forms = 0;
    for (size_t i = 0; i < n_rows; i++) {
        const int32_t    *row = &rows[i * PH_ROW_FIELDS];
        const ph_kv_page *page = ph_kv_seen(c->kv, c->layer, row[PH_ROW_SEQUENCE], row[PH_ROW_INDEX], base);
        if (page && page != form[0] && page != form[1]) form[n_forms++] = page;
    }
    for (size_t i = 0; i < n_forms; i++) meet_form(c, b, t, rows, n_rows, heads, kv_head, base, form[i]);
}

/* Rows [r0, r0 + n) of one sequence, query heads [h0, h0 + heads). */
static void meet(ph_native *p, const cached *c, const ph_query_block *b, size_t r0, size_t n, size_t h0,
                 size_t heads) {
    const int32_t *rows = (const int32_t *)ph_native_at(p, c->rows) + r0 * PH_ROW_FIELDS;
    const float   *q = ph_native_at(p, c->turned);
    float         *y = ph_native_at(p, c->y);
    int32_t        first = INT32_MAX, last = 0;
    ph_attend      t = {.acc = b->acc,
                        .m = b->m,
                        .l = b->l,
                        .lo = b->lo,
                        .hi = b->hi,
                        .scratch = b->scores,
                        .q = b->q,
                        .q_stride = c->d,
                        .n_q = n * heads,
                        .d = c->d,
                        .dv = c->dv,
                        .scale = c->scale,
                        .softcap = c->softcap};
    for (size_t i = 0; i < n; i++) {
        int32_t lo, hi;
        span_of(c, &rows[i * PH_ROW_FIELDS], &lo, &hi);
        if (lo < first) first = lo;
        if (hi > last) last = hi;
        memcpy(&b->q[i * heads * c->d], &q[((r0 + i) * c->heads + h0) * c->d], heads * c->d * sizeof *q);
    }
    ph_query_begin(b, n * heads, c->dv);
    for (int32_t base = first / PH_KV_PAGE * PH_KV_PAGE; base < last; base += PH_KV_PAGE)
        meet_page(c, b, &t, rows, n, heads, h0 / (c->heads / c->kv_heads), base);
    for (size_t i = 0; i < n * heads; i++)
        ph_query_answer(b, i, c->dv, &y[((r0 + i / heads) * c->heads + h0 + i % heads) * c->dv]);
}

static void attend(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const cached  *c = s->data;
    const int32_t *rows = ph_native_at(p, c->rows);
    size_t         group = c->heads / c->kv_heads;
    ph_query_block b = ph_query_in(hand->memory, PH_QUERIES_MAX, c->d, c->dv);
    for (size_t u = begin; u < end; u++) {
        size_t r = u % c->row_blocks * c->row_block,
               r_end = r + c->row_block < c->n ? r + c->row_block : c->n;
        size_t part = u / c->row_blocks % c->head_blocks * c->head_block;
        size_t h0 = u / c->row_blocks / c->head_blocks * group + part;
        size_t heads = group - part < c->head_block ? group - part : c->head_block;
        while (r < r_end) { /* rows of one sequence at a time */
            size_t n = 1;
            while (r + n < r_end && rows[(r + n) * PH_ROW_FIELDS + PH_ROW_SEQUENCE] ==
                                        rows[r * PH_ROW_FIELDS + PH_ROW_SEQUENCE])
                n++;
            meet(p, c, &b, r, n, h0, heads);
            r += n;
        }
    }
}

static const ph_step_kind attend_kind = {
    .name = "attend", .scratch = scratch_attend, .prepare = prepare_attend, .work = attend};

/* ---- lowering ---- */

/* The norm behind `value`, if it was left to us: low_norm.c gave both sides of it one buffer. */
static ph_rc take_norm(ph_builder *b, int value, ph_norm *out, ph_err *err) {
    int flat = b->g->value[value].producer;
    if (flat < 0 || !ph_build_is(b, flat, "Reshape")) return PH_OK;
    int norm = b->g->value[b->g->node[flat].in[0]].producer;
    return norm >= 0 && ph_cached_norms(b, norm) ? ph_norm_of(b, norm, out, err) : PH_OK;
}

/* The buffer of `value`, or what a rotation that was left to us reads. */
static ph_rc take_turn(ph_builder *b, int value, turn *t, int *buffer, ph_err *err) {
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

static void read_attributes(const ph_builder *b, int node, cached *c) {
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

static ph_rc add_append(ph_builder *b, int node, cached *c, ph_err *err) {
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

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    if (!cached_can(b->g, node)) return PH_OK;
    *took = 1;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(cached), err));
    cached *c = place;
    int     state;
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
    PH_TRY(ph_build_buffer(b, n->out[0], &c->y, err));
    int reads[2] = {c->turned, c->rows};
    return ph_build_step(b, &attend_kind, node, c, reads, 2, &c->y, 1, -1, err);
}

const ph_lowering ph_lowering_cached = {.name = "cached", .lower = lower, .can = cached_can};
