/* low_segment.c - SegmentAttention: rows of packed pictures meet the keys of their own segment.
 *
 * A unit is one head and a block of rows.  Rows of the block that share a segment
 * walk its keys together, in blocks of 64 from the segment's begin: the answer of
 * a row depends neither on the unit that it is in nor on what is packed beside it.
 */
#include "engine/native/native.h"
#include "graph/modal.h"

#include <math.h>
#include <string.h>

typedef struct segmented {
    ph_query_kernel attend;
    int             q, k, v, segments, y, value; /* buffers; the value with the rows */
    size_t          heads, kv_heads, d, dv;
    float           scale, softcap;
    size_t          n, block, blocks; /* of this run */
} segmented;

static int can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "SegmentAttention")) return 0;
    for (int i = 0; i < 4; i++)
        if (g->value[n->in[i]].cls != PH_VALUE_TEMP && g->value[n->in[i]].cls != PH_VALUE_INPUT) return 0;
    return 1;
}

static ph_rc scratch(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out, ph_err *err) {
    const segmented *a = s->data;
    (void)p, (void)size, (void)err;
    *out = ph_query_bytes(a->attend.queries, 0, a->dv, a->attend.keys);
    return PH_OK;
}

static size_t longest_of(const int32_t *segment, size_t n) {
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        size_t rows = (size_t)(segment[2 * i + 1] - segment[2 * i]);
        if (rows > most) most = rows;
    }
    return most;
}

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    segmented     *a = s->data;
    const int32_t *segment = ph_native_at(p, a->segments);
    a->n = (size_t)ph_native_dim(p, p->size, a->value, 0);
    PH_TRY(ph_modal_segments(segment, (int64_t)a->n, (int64_t)a->n, "meets rows", err));
    a->block = ph_query_share(p, &a->attend, a->n, longest_of(segment, a->n), a->heads, a->d, a->dv);
    a->blocks = (a->n + a->block - 1) / a->block;
    s->units = a->heads * a->blocks;
    return PH_OK;
}

/* Rows [r, r + n) of one segment, one head. */
static void meet(ph_native *p, const segmented *a, const ph_query_block *b, size_t r, size_t n, size_t head,
                 size_t begin, size_t end) {
    size_t       kv_head = head / (a->heads / a->kv_heads);
    const float *keys = (const float *)ph_native_at(p, a->k) + kv_head * a->d;
    const float *values = (const float *)ph_native_at(p, a->v) + kv_head * a->dv;
    float       *y = ph_native_at(p, a->y);
    ph_attend    t = {.acc = b->acc,
                      .m = b->m,
                      .l = b->l,
                      .lo = b->lo,
                      .hi = b->hi,
                      .scratch = b->scores,
                      .keys = b->keys,
                      .q = (const float *)ph_native_at(p, a->q) + (r * a->heads + head) * a->d,
                      .k = &keys[begin * a->kv_heads * a->d],
                      .v = &values[begin * a->kv_heads * a->dv],
                      .q_stride = a->heads * a->d,
                      .k_stride = a->kv_heads * a->d,
                      .v_stride = a->kv_heads * a->dv,
                      .n_q = n,
                      .d = a->d,
                      .dv = a->dv,
                      .scale = a->scale,
                      .softcap = a->softcap};
    ph_query_begin(b, n, a->dv);
    ph_query_meet(&a->attend, &t, b, end - begin);
    for (size_t i = 0; i < n; i++) ph_query_answer(b, i, a->dv, &y[((r + i) * a->heads + head) * a->dv]);
}

static void work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const segmented *a = s->data;
    const int32_t   *segment = ph_native_at(p, a->segments);
    ph_query_block   b = ph_query_in(hand->memory, a->attend.queries, 0, a->dv);
    for (size_t u = begin; u < end; u++) {
        size_t r = u % a->blocks * a->block, last = r + a->block < a->n ? r + a->block : a->n, n;
        for (; r < last; r += n) {
            const int32_t *own = &segment[2 * r];
            for (n = 1; r + n < last && !memcmp(own, own + 2 * n, 2 * sizeof *own);) n++;
            meet(p, a, &b, r, n, u / a->blocks, (size_t)own[0], (size_t)own[1]);
        }
    }
}

static const ph_step_kind kind = {.name = "segments", .scratch = scratch, .prepare = prepare, .work = work};

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node *n = &b->g->node[node];
    void          *place;
    if (!can(b->g, node)) return PH_OK;
    *took = 1;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(segmented), err));
    segmented *a = place;
    a->value = n->in[0];
    a->heads = (size_t)ph_node_int(n, "num_heads", 1);
    a->kv_heads = (size_t)ph_node_int(n, "kv_num_heads", (int64_t)a->heads);
    a->d = (size_t)b->g->value[n->in[0]].shape.dim[1].mul / a->heads;
    a->dv = (size_t)b->g->value[n->in[2]].shape.dim[1].mul / a->kv_heads;
    a->scale = (float)ph_node_float(n, "scale", 1 / sqrt((double)a->d));
    a->attend = ph_query_attend(b, a->d, a->dv);
    a->softcap = (float)ph_node_float(n, "softcap", 0);
    int *const buffers[4] = {&a->q, &a->k, &a->v, &a->segments};
    int        reads[4];
    for (int i = 0; i < 4; i++) {
        PH_TRY(ph_build_buffer(b, n->in[i], buffers[i], err));
        reads[i] = *buffers[i];
    }
    PH_TRY(ph_build_buffer(b, n->out[0], &a->y, err));
    return ph_build_step(b, &kind, node, a, reads, 4, &a->y, 1, -1, err);
}

const ph_lowering ph_lowering_segment = {.name = "segment", .lower = lower, .can = can};
