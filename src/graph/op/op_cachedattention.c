/* op_cachedattention.c - pinhole.CachedAttention: the step's keys and values go into the cache, then each row
 * attends.
 *
 *     q [R, Hq*Dk]  k [R, Hkv*Dk]  v [R, Hkv*Dv]  rows [R, PH_ROW_FIELDS] i32  kv (a state)  ->  y [R, Hq*Dv]
 *
 * First every row's k and v are stored at PH_ROW_INDEX of its sequence, in the
 * page's own type (full pages that are of a type by channel are settled then); then row r sees the keys in
 * [min(index - back, max(0, index + 1 - window)), span), absorbed page by page (64 keys), so neither the
 * chunk nor the other rows change a result.  Room was made by ph_kv_extend before the step.
 *
 * Without k and v nothing is stored, and row r sees [cross begin, cross end): cross attention over a cache
 * that another graph filled.  Without q nothing attends and there is no output: that other graph.
 *
 * Attributes: layer, num_heads, kv_num_heads; scale (1/sqrt(Dk)), softcap (0: none), window (0: none).
 * Outputs 1 and 2 (attention received per key, entropy per query: attributes received, entropy) are in the
 * schema and refused until an engine computes them.
 */
#include "graph/kv_page.h"
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct form {
    int64_t heads, kv_heads, dk, dv;
} form;

static int mul_fits(int64_t a, int64_t b) {
    int64_t c;
    return !__builtin_mul_overflow(a, b, &c);
}

static ph_rc form_of(const ph_node *n, int64_t q, int64_t k, int64_t v, form *f, ph_err *err) {
    f->heads = ph_node_int(n, "num_heads", 0);
    f->kv_heads = ph_node_int(n, "kv_num_heads", 0);
    if (f->heads <= 0 || f->kv_heads <= 0 || f->heads % f->kv_heads || q % f->heads || k % f->kv_heads ||
        v % f->kv_heads || !q || q / f->heads != k / f->kv_heads)
        return PH_FAIL(err, PH_EMISMATCH,
                       "CachedAttention: q, k, v of %" PRId64 ", %" PRId64 ", %" PRId64
                       " elements in %" PRId64 " and %" PRId64 " heads",
                       q, k, v, f->heads, f->kv_heads);
    f->dk = q / f->heads;
    f->dv = v / f->kv_heads;
    return PH_OK;
}

static int outputs(const ph_graph *g, const ph_node *n) {
    (void)g;
    return ph_node_int(n, "entropy", 0) ? 3 : ph_node_int(n, "received", 0) ? 2 : 1;
}

static ph_rc check_attributes(const ph_node *n, ph_err *err) {
    double  scale = ph_node_float(n, "scale", 1), cap = ph_node_float(n, "softcap", 0);
    int64_t layer = ph_node_int(n, "layer", -1), window = ph_node_int(n, "window", 0);
    if (n->n_out > 1)
        return PH_FAIL(err, PH_EUNSUP, "CachedAttention: received and entropy are not computed");
    if (layer < 0 || layer > INT32_MAX || window < 0 || window > INT32_MAX || !isfinite(scale) ||
        !isfinite(cap) || cap < 0)
        return PH_FAIL(err, PH_EMISMATCH,
                       "CachedAttention: layer %" PRId64 ", window %" PRId64 ", scale %g, softcap %g", layer,
                       window, scale, cap);
    return PH_OK;
}

static int has_input(const ph_node *n, int i) {
    return i < n->n_in && n->in[i] >= 0;
}

/* Rows of one count, [R, fixed] each. */
static ph_rc check_inputs(const ph_graph *g, const ph_node *n, ph_err *err) {
    const ph_shape *rows = NULL;
    PH_TRY(ph_want(g, n, 3, PH_I32, 2, err));
    rows = &ph_in(g, n, 3)->shape;
    if (!ph_dim_same(rows->dim[1], ph_dim_of(PH_ROW_FIELDS)))
        return PH_FAIL(err, PH_EMISMATCH, "CachedAttention wants rows of %d fields", PH_ROW_FIELDS);
    for (int i = 0; i < 3; i++) {
        if (!has_input(n, i)) continue;
        PH_TRY(ph_want(g, n, i, PH_F32, 2, err));
        const ph_shape *s = &ph_in(g, n, i)->shape;
        if (!ph_dim_is_fixed(s->dim[1]) || !ph_dim_same(s->dim[0], rows->dim[0]))
            return ph_disagree(g, rows, s, "CachedAttention wants as many rows in q, k and v as in rows",
                               err);
    }
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int  has_q = has_input(n, 0), has_k = has_input(n, 1), has_v = has_input(n, 2);
    form f;
    PH_TRY(check_attributes(n, err));
    if (!has_input(n, 3) || !has_input(n, 4) || has_k != has_v || (!has_q && !has_k))
        return PH_FAIL(err, PH_EMISMATCH,
                       "CachedAttention wants rows and a cache, and q, or k and v, or all three");
    PH_TRY(check_inputs(g, n, err));
    const ph_value *kv = ph_in(g, n, 4);
    if (kv->cls != PH_VALUE_STATE)
        return PH_FAIL(err, PH_EMISMATCH, "CachedAttention: %s is no state", kv->name);
    /* Without k and v the cache has heads of the queries' size; the run holds it to that. */
    int64_t heads = ph_node_int(n, "num_heads", 0), kv_heads = ph_node_int(n, "kv_num_heads", 0);
    int64_t q = has_q ? ph_in(g, n, 0)->shape.dim[1].mul : 0,
            k = has_k ? ph_in(g, n, 1)->shape.dim[1].mul : 0;
    int64_t v = has_v ? ph_in(g, n, 2)->shape.dim[1].mul : 0;
    if (heads <= 0 || kv_heads <= 0)
        return PH_FAIL(err, PH_EMISMATCH, "CachedAttention wants num_heads and kv_num_heads");
    if (!has_k) k = v = q / heads * kv_heads;
    if (!has_q && mul_fits(k / kv_heads, heads)) q = k / kv_heads * heads;
    PH_TRY(form_of(n, q, k, v, &f, err));
    ph_shape y = ph_in(g, n, 3)->shape;
    if (!ph_dim_mul(ph_dim_of(f.heads), ph_dim_of(has_q ? f.dv : 0), &y.dim[1]))
        return PH_FAIL(err, PH_ELIMIT, "CachedAttention: too many elements");
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

/* The rows come from outside the graph: each must point into room that was made. */
static ph_rc check_row(const ph_kv *kv, const int32_t *row, int64_t r, int is_cross, ph_err *err) {
    int length = ph_kv_length(kv, row[PH_ROW_SEQUENCE]);
    if (is_cross && row[PH_ROW_CROSS_BEGIN] >= 0 && row[PH_ROW_CROSS_BEGIN] <= row[PH_ROW_CROSS_END] &&
        row[PH_ROW_CROSS_END] <= length)
        return PH_OK;
    if (is_cross)
        return PH_FAIL(err, PH_EMISMATCH,
                       "CachedAttention: row %" PRId64 " sees keys [%d, %d) of sequence %d, which has %d", r,
                       row[PH_ROW_CROSS_BEGIN], row[PH_ROW_CROSS_END], row[PH_ROW_SEQUENCE], length);
    if (row[PH_ROW_INDEX] < 0 || row[PH_ROW_INDEX] >= length || row[PH_ROW_SPAN] < 0 ||
        row[PH_ROW_SPAN] > length || row[PH_ROW_BACK] < 0 || row[PH_ROW_BACK] > row[PH_ROW_INDEX])
        return PH_FAIL(err, PH_EMISMATCH,
                       "CachedAttention: row %" PRId64
                       " is token %d of sequence %d and sees %d keys; the sequence has "
                       "%d tokens",
                       r, row[PH_ROW_INDEX], row[PH_ROW_SEQUENCE], row[PH_ROW_SPAN], length);
    return PH_OK;
}

typedef struct span {
    int64_t from, end; /* keys [from, end) */
} span;

static span span_of(const int32_t *row, int64_t window, int is_cross) {
    int64_t index = row[PH_ROW_INDEX], from = window && index + 1 > window ? index + 1 - window : 0;
    if (is_cross) return (span){row[PH_ROW_CROSS_BEGIN], row[PH_ROW_CROSS_END]};
    if (index - row[PH_ROW_BACK] < from) from = index - row[PH_ROW_BACK];
    return (span){from, row[PH_ROW_SPAN]};
}

/* One row and one key head: a->q points at its group of query heads. */
static void attend_row(const ph_eval *e, const ph_kv *kv, int layer, const int32_t *row, const span *s,
                       int64_t head, ph_attend *a, int32_t *lo, int32_t *hi) {
    int64_t     from = s->from, end = s->end;
    ph_kv_layer l = ph_kv_layer_at(kv, layer);
    for (size_t i = 0; i < a->n_q; i++) a->m[i] = -INFINITY, a->l[i] = 0;
    for (size_t i = 0; i < a->n_q * a->dv; i++) a->acc[i] = 0;
    for (int64_t begin = from / PH_KV_PAGE * PH_KV_PAGE; begin < end; begin += PH_KV_PAGE) {
        const ph_kv_page *page = ph_kv_seen(kv, layer, row[PH_ROW_SEQUENCE], row[PH_ROW_INDEX], (int)begin);
        for (size_t i = 0; i < a->n_q; i++) {
            lo[i] = (int32_t)(from > begin ? from - begin : 0);
            hi[i] = (int32_t)(end - begin < PH_KV_PAGE ? end - begin : PH_KV_PAGE);
        }
        ph_kv_meet(ph_attend_of(e->kernels, page->dtype), page, NULL, &l, (size_t)head, a);
    }
}

typedef struct job {
    form           f;
    ph_kv         *kv;
    int            layer;
    int64_t        window;
    int            is_cross;
    const int32_t *rows; /* [R, PH_ROW_FIELDS] */
    const float   *q;
    float         *y;
    float          scale, softcap;
} job;

static ph_rc attend_all(const job *j, int64_t count, const ph_eval *e, ph_err *err) {
    int64_t   group = j->f.heads / j->f.kv_heads;
    ph_attend a = {.q_stride = (size_t)j->f.dk};
    void     *lo, *hi;
    a.n_q = (size_t)group, a.d = (size_t)j->f.dk, a.dv = (size_t)j->f.dv;
    a.scale = j->scale, a.softcap = j->softcap;
    PH_TRY(ph_scratch(&a.m, group, e, err));
    PH_TRY(ph_scratch(&a.l, group, e, err));
    PH_TRY(ph_scratch(&a.acc, group * j->f.dv, e, err));
    PH_TRY(ph_scratch(&a.scratch, group * PH_KV_PAGE, e, err));
    PH_TRY(ph_arena_carve(e->scratch, &lo, (size_t)group, sizeof(int32_t), err));
    PH_TRY(ph_arena_carve(e->scratch, &hi, (size_t)group, sizeof(int32_t), err));
    a.lo = lo, a.hi = hi;
    for (int64_t r = 0; r < count; r++)
        for (int64_t h = 0; h < j->f.kv_heads; h++) {
            float *y = j->y + (r * j->f.heads + h * group) * j->f.dv;
            a.q = j->q + (r * j->f.heads + h * group) * j->f.dk;
            const int32_t *row = j->rows + r * PH_ROW_FIELDS;
            const span     seen = span_of(row, j->window, j->is_cross);
            attend_row(e, j->kv, j->layer, row, &seen, h, &a, lo, hi);
            for (int64_t i = 0; i < group * j->f.dv; i++)
                y[i] = a.l[i / j->f.dv] != 0 ? a.acc[i] / a.l[i / j->f.dv] : 0; /* of a NaN, NaN */
        }
    return PH_OK;
}

static ph_rc check_kv(const ph_kv *kv, int64_t layer, const form *f, ph_err *err) {
    if (!kv) return PH_FAIL(err, PH_EMISMATCH, "CachedAttention: no KV cache was given");
    if (layer >= ph_kv_layers(kv))
        return PH_FAIL(err, PH_EMISMATCH, "CachedAttention: layer %" PRId64 " of a cache of %d", layer,
                       ph_kv_layers(kv));
    ph_kv_layer l = ph_kv_layer_at(kv, (int)layer);
    if (l.n_heads != f->kv_heads || l.d_k != f->dk || l.d_v != f->dv)
        return PH_FAIL(err, PH_EMISMATCH,
                       "CachedAttention: layer %" PRId64 " of the cache has %d heads of %d and %d", layer,
                       l.n_heads, l.d_k, l.d_v);
    return PH_OK;
}

static ph_rc append(const job *j, const float *k, const float *v, int64_t count, const ph_eval *e,
                    ph_err *err) {
    ph_kv_layer l = ph_kv_layer_at(j->kv, j->layer);
    PH_TRY(ph_kv_step(j->kv, j->layer, j->rows, (size_t)count, err));
    for (int64_t r = 0; r < count; r++) {
        const int32_t *row = j->rows + r * PH_ROW_FIELDS;
        ph_kv_store(e->kernels, ph_kv_written(j->kv, j->layer, row[PH_ROW_SEQUENCE], row[PH_ROW_INDEX]), &l,
                    k + r * j->f.kv_heads * j->f.dk, v + r * j->f.kv_heads * j->f.dv,
                    (size_t)row[PH_ROW_INDEX] % PH_KV_PAGE);
    }
    for (size_t i = 0; i < ph_kv_full(j->kv); i++) {
        const ph_kv_page *from, *to;
        ph_kv_full_at(j->kv, j->layer, i, &from, &to);
        for (int64_t h = 0; h < j->f.kv_heads; h++) ph_kv_settle(to, from, &l, (size_t)h);
    }
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    int          has_q = has_input(n, 0), has_k = has_input(n, 1);
    job          j = {.kv = in[4].kv, .y = out->data, .is_cross = !has_k};
    const float *k = NULL, *v = NULL;
    ph_array     rows;
    int64_t      layer = ph_node_int(n, "layer", 0), heads = ph_node_int(n, "num_heads", 1);
    int64_t      kv_heads = ph_node_int(n, "kv_num_heads", 1), count = in[3].dim[0];
    (void)g;
    int64_t nk = has_k ? in[1].dim[1] : in[0].dim[1] / heads * kv_heads;
    int64_t nv = has_k ? in[2].dim[1] : nk, nq = has_q ? in[0].dim[1] : nk / kv_heads * heads;
    PH_TRY(form_of(n, nq, nk, nv, &j.f, err));
    PH_TRY(check_kv(j.kv, layer, &j.f, err));
    if (has_q) PH_TRY(ph_floats(&j.q, &in[0], e, err));
    if (has_k) PH_TRY(ph_floats(&k, &in[1], e, err));
    if (has_k) PH_TRY(ph_floats(&v, &in[2], e, err));
    PH_TRY(ph_dense(&rows, &in[3], e, err));
    j.layer = (int)layer;
    j.rows = rows.data;
    j.window = ph_node_int(n, "window", 0);
    j.scale = (float)ph_node_float(n, "scale", 1 / sqrt((double)j.f.dk));
    j.softcap = (float)ph_node_float(n, "softcap", 0);
    for (int64_t r = 0; r < count; r++)
        PH_TRY(check_row(j.kv, j.rows + r * PH_ROW_FIELDS, r, j.is_cross, err));
    if (has_k) PH_TRY(append(&j, k, v, count, e, err));
    return has_q ? attend_all(&j, count, e, err) : PH_OK;
}

/* ---- as ONNX: the cache is dense, past keys come in and present ones go out ---- */

/* A row's field, [B, T, 1] i64. */
static const char *field(ph_oo *o, int which) {
    return ph_oo_slice(o, o->rows, 2, which, which + 1, 1);
}

/* What each token sees of `size` keys: bool [B, 1, T, S]; span_of in operators.  Once for layers of a kind.
 */
static const char *seen_of(ph_oo *o, const char *size, int64_t window, int is_cross) {
    const char *known = ph_oo_kept(o, "seen %d %lld", is_cross, (long long)window), *from, *end;
    if (known || o->rc) return known ? known : "";
    if (is_cross) {
        from = field(o, PH_ROW_CROSS_BEGIN);
        end = field(o, PH_ROW_CROSS_END);
    } else {
        const char *index = field(o, PH_ROW_INDEX), *back = ph_oo_two(o, "Sub", index, field(o, PH_ROW_BACK));
        from = ph_oo_two(o, "Sub", index, ph_oo_int(o, window ? window - 1 : 0));
        from =
            window ? ph_oo_two(o, "Max", from, ph_oo_int(o, 0)) : ph_oo_two(o, "Mul", index, ph_oo_int(o, 0));
        from = ph_oo_two(o, "Min", from, back);
        end = field(o, PH_ROW_SPAN);
    }
    const char *keys = ph_oo_places(o, size);
    known = ph_oo_two(o, "And", ph_oo_two(o, "GreaterOrEqual", keys, from), ph_oo_two(o, "Less", keys, end));
    return ph_oo_keep(o, ph_oo_unsqueeze(o, known, 1), "seen %d %lld", is_cross, (long long)window);
}

/* Rows [R, heads * d] as [B, heads, T, d]. */
static const char *heads_of(ph_oo *o, const ph_node *n, int i, int64_t heads, int64_t d) {
    static const int64_t apart[4] = {0, 2, 1, 3};
    const int64_t        tail[2] = {heads, d};
    const char          *to = ph_oo_kept(o, "heads %lld %lld", (long long)heads, (long long)d);
    if (!to)
        to = ph_oo_keep(o,
                        ph_oo_make(o, "Concat", PH_OO_IN(o->batch, ph_oo_ints(o, tail, 2)),
                                   PH_OO_ATTRS(PH_OO_INT("axis", 0))),
                        "heads %lld %lld", (long long)heads, (long long)d);
    return ph_oo_transpose(o, ph_oo_two(o, "Reshape", ph_oo_in(o, n, i), to), apart, 4);
}

/* "past.3.key" [B, heads, `size`, d], as an input or an output. */
static const char *cache(ph_oo *o, const char *what, int64_t layer, const char *part, int is_output,
                         int64_t heads, const char *size, int64_t d) {
    const ph_onnx_dim dim[4] = {{-1, "B"}, {heads, ""}, {-1, size}, {d, ""}};
    const char       *name = ph_oo_text(o, "%s.%lld.%s", what, (long long)layer, part);
    if (is_output)
        ph_oo_put_output(o, name, PH_OO_FLOAT32, dim, 4);
    else
        ph_oo_put_input(o, name, PH_OO_FLOAT32, dim, 4);
    return name;
}

/* An output that no value of the graph is. */
static void give(ph_oo *o, const char *name, const char *op, const char *const *in, size_t n_in,
                 int64_t axis) {
    const ph_onnx_attr attr = PH_OO_INT("axis", axis);
    ph_onnx_node n = {.name = name, .op = op, .domain = "", .in = in, .n_in = n_in, .out = &name, .n_out = 1};
    n.attr = &attr;
    n.n_attrs = axis >= 0;
    if (!o->rc) ph_onnx_put_node(&o->x->writer, &n, NULL, 0);
}

/* Keys or values of one layer that its tokens see, [B, kv heads, S, d]: what came in, with the step's own. */
static const char *keys_of(ph_oo *o, const ph_node *n, int i, const form *f, int is_cross) {
    const char *part = i == 1 ? "key" : "value";
    int64_t     d = i == 1 ? f->dk : f->dv, layer = ph_node_int(n, "layer", 0);
    if (is_cross) return cache(o, "cross", layer, part, 0, f->kv_heads, "C", d);
    const char *own = heads_of(o, n, i, f->kv_heads, d);
    if (o->how->has_no_past) return own;
    const char *past = cache(o, "past", layer, part, 0, f->kv_heads, "P", d);
    const char *now = cache(o, "present", layer, part, 1, f->kv_heads, "P+T", d);
    give(o, now, "Concat", PH_OO_IN(past, own), 2);
    return now;
}

/* The graph that fills a cache: its keys and values are what it gives. */
static void write_filling(ph_oo *o, const ph_node *n, const form *f) {
    for (int i = 1; i < 3; i++) {
        int64_t     d = i == 1 ? f->dk : f->dv;
        const char *own = heads_of(o, n, i, f->kv_heads, d);
        const char *name =
            cache(o, "cross", ph_node_int(n, "layer", 0), i == 1 ? "key" : "value", 1, f->kv_heads, "T", d);
        give(o, name, "Identity", PH_OO_IN(own), -1);
    }
}

static void write_onnx(ph_oo *o, const ph_node *n) {
    static const int64_t turn[4] = {0, 1, 3, 2};
    int64_t              heads = ph_node_int(n, "num_heads", 1), kv = ph_node_int(n, "kv_num_heads", 1);
    int64_t              width[3] = {0};
    int                  is_cross = !has_input(n, 1);
    form                 f;
    for (int i = 0; i < 3; i++)
        if (has_input(n, i)) width[i] = ph_oo_shape(o, n, i)->dim[1].mul;
    if (is_cross) width[1] = width[2] = width[0] / heads * kv;
    if (!has_input(n, 0)) width[0] = width[1] / kv * heads;
    if (!o->batch || form_of(n, width[0], width[1], width[2], &f, NULL)) {
        ph_oo_none(o, n, "a cache in a graph without one");
        return;
    }
    if (!has_input(n, 0)) {
        write_filling(o, n, &f);
        return;
    }
    ph_oo_attend a = {.heads = f.heads, .kv_heads = f.kv_heads, .d = f.dk, .dv = f.dv};
    a.scale = ph_node_float(n, "scale", 1 / sqrt((double)f.dk));
    a.softcap = ph_node_float(n, "softcap", 0);
    a.q = heads_of(o, n, 0, f.heads, f.dk);
    const char *k = keys_of(o, n, 1, &f, is_cross);
    a.kt = ph_oo_transpose(o, k, turn, 4);
    a.v = keys_of(o, n, 2, &f, is_cross);
    a.seen = seen_of(o, ph_oo_size(o, k, 2), ph_node_int(n, "window", 0), is_cross);
    const int64_t flat[2] = {-1, f.heads * f.dv};
    ph_oo_attend_node(o, n, &a, flat, 2);
}

/* One row: its answers, and of each head a page of scores, the sums and the keys that it sees. */
static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    (void)g, (void)in;
    return out[0].dim[out[0].rank - 1] + ph_node_int(n, "num_heads", 1) * (PH_KV_PAGE + 8);
}

/* Over the cache: row i sees what was there and i + 1 more, or its window. */
static ph_rc macs(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how, double *out,
                  ph_err *err) {
    double q, y, rows;
    *out = 0;
    if (!ph_in(g, n, 0) || !ph_in(g, n, 1)) return PH_OK; /* pictures' keys: none in a prompt of text */
    PH_TRY(ph_value_count(ph_in(g, n, 0), syms, &q, err));
    PH_TRY(ph_value_count(&g->value[n->out[0]], syms, &y, err));
    PH_TRY(ph_value_size(ph_in(g, n, 1), 0, syms, &rows, err));
    if (rows > 0)
        *out = (q + y) / rows * ph_keys_seen(rows, how->keys_before, (double)ph_node_int(n, "window", 0));
    return PH_OK;
}

const ph_op ph_op_CachedAttention = {
    .name = "CachedAttention",
    .domain = "pinhole",
    .since = 1,
    .in_min = 0, /* five places, some of them empty: infer says which */
    .in_max = 5,
    .out_min = 1,
    .out_max = 3,
    .infer = infer,
    .is_product = 1,
    .macs = macs,
    .goes_by_data = 1,
    .scratch = scratch,
    .eval = eval,
    .onnx = write_onnx,
    .source = "the design: KV; online softmax arXiv:1805.02867",
    .outputs = outputs,
    .has_effect = 1,
};
