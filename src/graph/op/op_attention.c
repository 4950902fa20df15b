/* op_attention.c - Attention (opset 23) without a cache: softmax(scale q k^T, masked) v.
 *
 *     3-D  q [B, T, Hq*D]   k [B, S, Hkv*D]   v [B, S, Hkv*Dv]   with q_num_heads, kv_num_heads
 *     4-D  q [B, Hq, T, D]  k [B, Hkv, S, D]  v [B, Hkv, S, Dv]
 *
 * Query heads share key heads in groups.  is_causal counts from the first query
 * and key.  Without a mask the keys are absorbed 64 at a time by the attend
 * kernel, as the KV cache does; with one (bool or f32, broadcast to [B, Hq, T, S])
 * each row of scores is written out.  A row that sees no key is zero.  Past keys,
 * other outputs and softmax_precision are not done.
 */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>

enum { BLOCK = 64 };

/* Sizes, and elements from one batch, head or token to the next. */
typedef struct side {
    int64_t batch, head, token;
} side;
typedef struct form {
    int64_t q_heads, kv_heads, d, dv;
} form;

static side side_of(const ph_array *a, int64_t heads) {
    int64_t last = a->dim[a->rank - 1];
    if (a->rank == 4) return (side){a->dim[1] * a->dim[2] * last, a->dim[2] * last, last};
    return (side){a->dim[1] * last, last / heads, last};
}

static int64_t tokens_of(const ph_array *a) {
    return a->dim[a->rank == 4 ? 2 : 1];
}

/* last: the last dimensions of q, k, v; heads: dimension 1 of q, k, v for rank 4. */
static ph_rc form_of(const ph_node *n, int rank, const int64_t heads[3], const int64_t last[3], form *f,
                     ph_err *err) {
    int64_t q = rank == 4 ? heads[0] : ph_node_int(n, "q_num_heads", 0);
    int64_t kv = rank == 4 ? heads[1] : ph_node_int(n, "kv_num_heads", 0);
    if (q <= 0 || kv <= 0 || q % kv || (rank == 4 && heads[2] != kv))
        return PH_FAIL(err, PH_EMISMATCH, "Attention: %" PRId64 " query heads, %" PRId64 " key heads", q, kv);
    if (rank == 3 && (last[0] % q || last[1] % kv || last[2] % kv))
        return PH_FAIL(err, PH_EMISMATCH,
                       "Attention: %" PRId64 ", %" PRId64 ", %" PRId64 " elements in %" PRId64 " and %" PRId64
                       " heads",
                       last[0], last[1], last[2], q, kv);
    *f = (form){q, kv, rank == 4 ? last[0] : last[0] / q, rank == 4 ? last[2] : last[2] / kv};
    if (!f->d || (rank == 4 ? last[1] : last[1] / kv) != f->d)
        return PH_FAIL(err, PH_EMISMATCH,
                       "Attention: query heads of %" PRId64 " elements, keys of other size", f->d);
    return PH_OK;
}

static ph_rc check_extras(const ph_graph *g, const ph_node *n, ph_err *err) {
    for (int i = 4; i < n->n_in; i++)
        if (ph_in(g, n, i)) return PH_FAIL(err, PH_EUNSUP, "Attention: past keys (input %d) are not done", i);
    PH_TRY(ph_want_int(n, "qk_matmul_output_mode", 0, err));
    double cap = ph_node_float(n, "softcap", 0);
    if (cap < 0)
        return PH_FAIL(err, PH_EMISMATCH, "Attention: softcap is %g; it must be 0 (none) or more", cap);
    return PH_OK;
}

static ph_rc check_mask(const ph_graph *g, const ph_node *n, const ph_shape *full, ph_err *err) {
    const ph_value *mask = ph_in(g, n, 3);
    ph_shape        both;
    if (!mask) return PH_OK;
    PH_TRY(ph_want(g, n, 3, mask->dtype == PH_BOOL ? PH_BOOL : PH_F32, -1, err));
    PH_TRY(ph_broadcast(g, &mask->shape, full, &both, err));
    if (!ph_shape_same(&both, full))
        return ph_disagree(g, &mask->shape, full, "mask and scores of Attention", err);
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_shape *s[3];
    int64_t         heads[3] = {0}, last[3];
    form            f;
    PH_TRY(check_extras(g, n, err));
    for (int i = 0; i < 3; i++) {
        PH_TRY(ph_want(g, n, i, PH_F32, -1, err));
        s[i] = &ph_in(g, n, i)->shape;
        if ((s[i]->rank != 3 && s[i]->rank != 4) || s[i]->rank != s[0]->rank)
            return ph_disagree(g, s[0], s[i], "Attention wants rank 3 or 4 for all", err);
        if (!ph_dim_is_fixed(s[i]->dim[s[i]->rank - 1]) ||
            (s[i]->rank == 4 && !ph_dim_is_fixed(s[i]->dim[1])))
            return ph_disagree(g, s[0], s[i], "Attention wants plain numbers of heads and elements", err);
        last[i] = s[i]->dim[s[i]->rank - 1].mul;
        if (s[i]->rank == 4) heads[i] = s[i]->dim[1].mul;
    }
    int rank = s[0]->rank, at = rank == 4 ? 2 : 1;
    PH_TRY(form_of(n, rank, heads, last, &f, err));
    if (!ph_dim_same(s[0]->dim[0], s[1]->dim[0]) || !ph_dim_same(s[0]->dim[0], s[2]->dim[0]))
        return ph_disagree(g, s[0], s[1], "Attention wants the same batch", err);
    if (!ph_dim_same(s[1]->dim[at], s[2]->dim[at]))
        return ph_disagree(g, s[1], s[2], "Attention wants as many keys as values", err);
    ph_shape full = ph_shape_of(4, s[0]->dim[0], ph_dim_of(f.q_heads), s[0]->dim[at], s[1]->dim[at]),
             y = *s[0];
    PH_TRY(check_mask(g, n, &full, err));
    if (rank == 4)
        y.dim[3] = ph_dim_of(f.dv);
    else if (!ph_dim_mul(ph_dim_of(f.q_heads), ph_dim_of(f.dv), &y.dim[2]))
        return PH_FAIL(err, PH_ELIMIT, "Attention: too many elements");
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

/* One query head: lists are [T], acc [T, dv]. */
typedef struct work {
    float   *acc, *m, *l, *scratch, *keys;
    int32_t *lo, *hi;
} work;

static ph_rc work_open(work *w, int64_t tokens, int64_t d, int64_t dv, const ph_eval *e, ph_err *err) {
    void *p;
    PH_TRY(ph_scratch(&w->acc, tokens * dv, e, err));
    PH_TRY(ph_scratch(&w->m, tokens, e, err));
    PH_TRY(ph_scratch(&w->l, tokens, e, err));
    PH_TRY(ph_scratch(&w->scratch, tokens * BLOCK, e, err));
    PH_TRY(ph_scratch(&w->keys, d * BLOCK, e, err));
    PH_TRY(ph_arena_carve(e->scratch, &p, (size_t)tokens, sizeof *w->lo, err));
    w->lo = p;
    PH_TRY(ph_arena_carve(e->scratch, &p, (size_t)tokens, sizeof *w->hi, err));
    w->hi = p;
    return PH_OK;
}

/* All keys of one head, block by block; a->k and a->v point at the first. */
static void absorb(const ph_kernels *kernels, ph_attend *a, work *w, int64_t keys, int is_causal) {
    const float *k = a->k, *v = a->v;
    for (size_t i = 0; i < a->n_q; i++) a->m[i] = -INFINITY, a->l[i] = 0;
    for (size_t i = 0; i < a->n_q * a->dv; i++) a->acc[i] = 0;
    for (int64_t begin = 0; begin < keys; begin += BLOCK) {
        int64_t n = keys - begin < BLOCK ? keys - begin : BLOCK;
        for (size_t i = 0; i < a->n_q; i++) {
            int64_t seen = is_causal ? (int64_t)i + 1 - begin : n;
            w->lo[i] = 0;
            w->hi[i] = (int32_t)(seen < 0 ? 0 : seen > n ? n : seen);
        }
        a->k = k + (size_t)begin * a->k_stride;
        a->v = v + (size_t)begin * a->v_stride;
        kernels->attend_rows(a);
    }
}

/* What both ways of computing need: sides of q, k, v and the output. */
typedef struct job {
    form         f;
    side         q, k, v, y;
    const float *qp, *kp, *vp;
    float       *yp;
    int64_t      tokens, keys;
    float        scale, softcap;
    int          is_causal;
} job;

static ph_rc without_mask(const job *j, int64_t batches, const ph_eval *e, ph_err *err) {
    work w;
    PH_TRY(work_open(&w, j->tokens, j->f.d, j->f.dv, e, err));
    for (int64_t b = 0; b < batches; b++)
        for (int64_t h = 0; h < j->f.q_heads; h++) {
            int64_t   kv = h / (j->f.q_heads / j->f.kv_heads);
            ph_attend a = {.acc = w.acc, .m = w.m, .l = w.l, .lo = w.lo, .hi = w.hi};
            a.scratch = w.scratch, a.keys = w.keys;
            a.q = j->qp + b * j->q.batch + h * j->q.head;
            a.k = j->kp + b * j->k.batch + kv * j->k.head;
            a.v = j->vp + b * j->v.batch + kv * j->v.head;
            a.q_stride = (size_t)j->q.token, a.k_stride = (size_t)j->k.token, a.v_stride = (size_t)j->v.token;
            a.n_q = (size_t)j->tokens, a.d = (size_t)j->f.d, a.dv = (size_t)j->f.dv;
            a.scale = j->scale, a.softcap = j->softcap;
            absorb(e->kernels, &a, &w, j->keys, j->is_causal);
            for (int64_t t = 0; t < j->tokens; t++)
                for (int64_t i = 0; i < j->f.dv; i++)
                    j->yp[b * j->y.batch + h * j->y.head + t * j->y.token + i] =
                        w.l[t] > 0 ? w.acc[t * j->f.dv + i] / w.l[t] : 0;
        }
    return PH_OK;
}

/* The score of one query and key, before the mask. */
static float score(const job *j, const float *q, const float *k) {
    double sum = 0;
    for (int64_t i = 0; i < j->f.d; i++) sum += (double)q[i] * (double)k[i];
    float s = (float)sum * j->scale;
    return j->softcap > 0 ? j->softcap * tanhf(s / j->softcap) : s;
}

/* One output row from its probabilities p[keys]; v: the first value of the head. */
static void mix(const job *j, const float *p, const float *v, float *y) {
    for (int64_t i = 0; i < j->f.dv; i++) {
        double sum = 0;
        for (int64_t s = 0; s < j->keys; s++) sum += (double)p[s] * (double)v[s * j->v.token + i];
        y[i] = (float)sum;
    }
}

static ph_rc with_mask(const job *j, int64_t batches, const ph_array *mask, const ph_eval *e, ph_err *err) {
    float   *p;
    ph_array full = {.rank = 4, .dim = {batches, j->f.q_heads, j->tokens, j->keys}};
    ph_walk  w = ph_walk_over(&full);
    ph_walk_add(&w, mask);
    PH_TRY(ph_scratch(&p, j->keys, e, err));
    for (int64_t row = 0; row < batches * j->f.q_heads * j->tokens; row++) {
        int64_t t = row % j->tokens, h = row / j->tokens % j->f.q_heads, b = row / j->tokens / j->f.q_heads;
        int64_t kv = h / (j->f.q_heads / j->f.kv_heads);
        const float *q = j->qp + b * j->q.batch + h * j->q.head + t * j->q.token;
        const float *k = j->kp + b * j->k.batch + kv * j->k.head,
                    *v = j->vp + b * j->v.batch + kv * j->v.head;
        for (int64_t s = 0; s < j->keys; s++, ph_walk_next(&w)) {
            float more = mask->dtype == PH_BOOL ? (((const uint8_t *)mask->data)[w.at[0]] ? 0 : -INFINITY)
                                                : ((const float *)mask->data)[w.at[0]];
            int   hidden = (j->is_causal && s > t) || (isinf(more) && more < 0);
            p[s] = hidden ? -INFINITY : score(j, q, k + s * j->k.token) + more;
        }
        e->kernels->softmax(p, p, 1, (size_t)j->keys);
        mix(j, p, v, j->yp + b * j->y.batch + h * j->y.head + t * j->y.token);
    }
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    job      j = {.is_causal = ph_node_int(n, "is_causal", 0) != 0, .yp = out->data};
    int64_t  heads[3], last[3];
    int      rank = in[0].rank;
    ph_array mask;
    (void)g;
    for (int i = 0; i < 3; i++) {
        heads[i] = in[i].dim[1];
        last[i] = in[i].dim[rank - 1];
    }
    PH_TRY(form_of(n, rank, heads, last, &j.f, err));
    PH_TRY(ph_floats(&j.qp, &in[0], e, err));
    PH_TRY(ph_floats(&j.kp, &in[1], e, err));
    PH_TRY(ph_floats(&j.vp, &in[2], e, err));
    j.q = side_of(&in[0], j.f.q_heads), j.k = side_of(&in[1], j.f.kv_heads),
    j.v = side_of(&in[2], j.f.kv_heads);
    j.y = side_of(out, j.f.q_heads);
    j.tokens = tokens_of(&in[0]), j.keys = tokens_of(&in[1]);
    j.scale = (float)ph_node_float(n, "scale", 1 / sqrt((double)j.f.d));
    j.softcap = (float)ph_node_float(n, "softcap", 0);
    if (!ph_array_count(out)) return PH_OK;
    if (n->n_in < 4 || n->in[3] < 0) return without_mask(&j, in[0].dim[0], e, err);
    PH_TRY(ph_dense(&mask, &in[3], e, err));
    return with_mask(&j, in[0].dim[0], &mask, e, err);
}

/* A head's queries, with a block of scores each, or a row of scores; a block of keys by channel. */
static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    int at = in[0].rank == 4 ? 2 : 1;
    (void)g, (void)n, (void)out;
    return in[0].dim[at] * (in[2].dim[in[2].rank - 1] + BLOCK + 8) + in[1].dim[at] +
           in[0].dim[in[0].rank - 1] * BLOCK;
}

/* Heads of x as the products want them: [B, heads, T, d], or with is_turned [B, heads, d, T]. */
static const char *heads_of(ph_oo *o, const ph_node *n, int i, int64_t heads, int is_turned) {
    static const int64_t apart[2][4] = {{0, 2, 1, 3}, {0, 2, 3, 1}}, turn[4] = {0, 1, 3, 2};
    const ph_shape      *s = ph_oo_shape(o, n, i);
    const char          *x = ph_oo_in(o, n, i);
    if (s->rank == 4) return is_turned ? ph_oo_transpose(o, x, turn, 4) : x;
    const int64_t split[4] = {0, 0, heads, s->dim[2].mul / heads};
    return ph_oo_transpose(o, ph_oo_reshape(o, x, split, 4), apart[is_turned], 4);
}

/* Keys from the first on up to the query's own: bool [T, S]. */
static const char *causal(ph_oo *o, const char *q, const char *kt) {
    static const int64_t end[1] = {1};
    const char *queries = ph_oo_places(o, ph_oo_size(o, q, 2)), *keys = ph_oo_places(o, ph_oo_size(o, kt, 3));
    return ph_oo_two(o, "GreaterOrEqual", ph_oo_two(o, "Unsqueeze", queries, ph_oo_ints(o, end, 1)), keys);
}

/* Runtimes take a mask whose last two dimensions are all queries and keys. */
static int is_usual(const ph_oo *o, const ph_node *n) {
    const ph_shape *m = ph_oo_shape(o, n, 3), *q = ph_oo_shape(o, n, 0), *k = ph_oo_shape(o, n, 1);
    int             at = q->rank == 4 ? 2 : 1;
    return !ph_oo_has(n, 3) || (m->rank >= 2 && ph_dim_same(m->dim[m->rank - 2], q->dim[at]) &&
                                ph_dim_same(m->dim[m->rank - 1], k->dim[at]));
}

/* Before opset 23 in parts. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    const ph_shape *s[3] = {ph_oo_shape(o, n, 0), ph_oo_shape(o, n, 1), ph_oo_shape(o, n, 2)};
    int             rank = s[0]->rank;
    int64_t         heads[3] = {0}, last[3];
    form            f;
    if (o->opset >= 23 && is_usual(o, n)) {
        ph_oo_plain(o, n);
        return;
    }
    for (int i = 0; i < 3; i++) {
        last[i] = s[i]->dim[rank - 1].mul;
        if (rank == 4) heads[i] = s[i]->dim[1].mul;
    }
    if (form_of(n, rank, heads, last, &f, NULL)) {
        ph_oo_none(o, n, "its heads");
        return;
    }
    ph_oo_attend a = {.heads = f.q_heads, .kv_heads = f.kv_heads, .d = f.d, .dv = f.dv};
    a.scale = ph_node_float(n, "scale", 1 / sqrt((double)f.d));
    a.softcap = ph_node_float(n, "softcap", 0);
    a.q = heads_of(o, n, 0, f.q_heads, 0);
    a.kt = heads_of(o, n, 1, f.kv_heads, 1);
    a.v = heads_of(o, n, 2, f.kv_heads, 0);
    if (ph_oo_has(n, 3) && o->g->value[n->in[3]].dtype == PH_BOOL)
        a.seen = ph_oo_in(o, n, 3);
    else if (ph_oo_has(n, 3))
        a.bias = ph_oo_in(o, n, 3);
    if (ph_node_int(n, "is_causal", 0)) {
        const char *before = causal(o, a.q, a.kt);
        a.seen = a.seen ? ph_oo_two(o, "And", a.seen, before) : before;
    }
    const int64_t flat[3] = {0, 0, f.q_heads * f.dv};
    if (rank == 4)
        ph_oo_is(o, n, 0, ph_oo_attention(o, &a));
    else
        ph_oo_attend_node(o, n, &a, flat, 3);
}

/* Queries times keys seen times (d + dv), every head. */
static ph_rc macs(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how, double *out,
                  ph_err *err) {
    const ph_value *q = ph_in(g, n, 0);
    double          all_q, all_y, keys, queries;
    int             tokens = q->shape.rank == 4 ? 2 : 1;
    (void)how;
    PH_TRY(ph_value_count(q, syms, &all_q, err));
    PH_TRY(ph_value_count(&g->value[n->out[0]], syms, &all_y, err));
    PH_TRY(ph_value_size(ph_in(g, n, 1), tokens, syms, &keys, err));
    PH_TRY(ph_value_size(q, tokens, syms, &queries, err));
    if (ph_node_int(n, "is_causal", 0)) keys = queries < keys ? (queries + 1) / 2 : (keys + 1) / 2;
    *out = (all_q + all_y) * keys;
    return PH_OK;
}

const ph_op ph_op_Attention = {
    .name = "Attention",
    .domain = "",
    .since = 23,
    .in_min = 3,
    .in_max = 7,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .is_product = 1,
    .macs = macs,
    .scratch = scratch,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__Attention.html",
};
