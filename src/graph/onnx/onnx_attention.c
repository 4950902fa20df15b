/* onnx_attention.c - attention in the forms of opset 23 and of com.microsoft, with keys of earlier runs as
 * inputs.
 *
 * Past keys are arrays here, as the file has them: [B, heads, P, d] in, [B, heads, P + S, d] out.  Symbols
 * cannot hold P + S; with given shapes it can be imported.
 *
 *     heads:  [B, S, H d] ─ Reshape ─ Transpose ─► [B, H, S, d]
 */
#include "graph/onnx/onnx_forms.h"

#include <math.h>
#include <string.h>

/* What all forms come to. */
typedef struct job {
    int     q, k, v; /* [B, H, S, d], [B, G, L, d], [B, G, L, dv] */
    int     mask;    /* broadcasts to [B, H, S, L], or -1 */
    int64_t heads, kv_heads;
    double  scale; /* 0: 1 / sqrt d */
    double  softcap;
    int     is_causal; /* without a past */
} job;

static int to_heads(ph_oi *o, int x, int64_t heads) {
    ph_shape s = *ph_oi_shape(o, x);
    if (s.rank != 3 || heads < 1 || !ph_dim_is_fixed(s.dim[2]) || s.dim[2].mul % heads) {
        ph_graph_fail(o->g, PH_EMISMATCH, "%lld heads of an array of rank %d", (long long)heads, s.rank);
        return -1;
    }
    ph_shape to = ph_shape_of(4, s.dim[0], s.dim[1], ph_dim_of(heads), ph_dim_of(s.dim[2].mul / heads));
    return ph_oi_transpose(o, ph_oi_reshape(o, x, &to), (const int64_t[]){0, 2, 1, 3}, 4);
}

static int from_heads(ph_oi *o, int x) {
    x = ph_oi_transpose(o, x, (const int64_t[]){0, 2, 1, 3}, 4);
    ph_shape s = *ph_oi_shape(o, x), to = ph_shape_of(3, s.dim[0], s.dim[1], ph_dim_of(1));
    if (!ph_dim_mul(s.dim[2], s.dim[3], &to.dim[2])) ph_graph_fail(o->g, PH_EUNSUP, "heads of symbolic size");
    return ph_oi_reshape(o, x, &to);
}

/* past [B, G, P, d] in front of x [B, G, S, d]. */
static int append(ph_oi *o, int past, int x) {
    return past < 0 ? x : ph_oi_make(o, "Concat", PH_IN(past, x), PH_ATTRS(PH_INT("axis", 2)));
}

static int attend(ph_oi *o, const job *j) {
    ph_attr attr[5] = {PH_INT("q_num_heads", j->heads), PH_INT("kv_num_heads", j->kv_heads),
                       PH_INT("is_causal", j->is_causal), PH_FLOAT("softcap", j->softcap),
                       PH_FLOAT("scale", j->scale)};
    return ph_oi_make(o, "Attention", (const int[]){j->q, j->k, j->v, j->mask}, 3 + (j->mask >= 0), attr,
                      4 + (j->scale > 0 || j->scale < 0));
}

/* The sum of two additive masks, either of which may be missing. */
static int both(ph_oi *o, int a, int b) {
    if (a < 0 || b < 0) return a < 0 ? b : a;
    return ph_oi_make(o, "Add", PH_IN(a, b), PH_NO_ATTRS);
}

static int view(ph_oi *o, int x, int rank, ph_dim a, ph_dim b, ph_dim c, ph_dim d) {
    ph_shape s = ph_shape_of(rank, a, b, c, d);
    return ph_oi_reshape(o, x, &s);
}

/* A list 0 .. n-1. */
static int count_up(ph_oi *o, ph_dim n) {
    ph_oi_sizes end = {.n = 1, .dtype = PH_I64, .at = {n}},
                zero = {.n = 1, .dtype = PH_I64, .at = {ph_dim_of(0)}},
                one = {.n = 1, .dtype = PH_I64, .at = {ph_dim_of(1)}};
    return ph_oi_make(
        o, "Range",
        PH_IN(ph_oi_sizes_value(o, &zero), ph_oi_sizes_value(o, &end), ph_oi_sizes_value(o, &one)),
        PH_NO_ATTRS);
}

static int whole(ph_oi *o, ph_dim n) {
    ph_oi_sizes s = {.n = 1, .dtype = PH_I64, .at = {n}};
    return ph_oi_sizes_value(o, &s);
}

/* Which key a query sees, [S, L] bool: key <= past + query, and not `window` or more before it (window < 1:
 * all). */
static int causal_mask(ph_oi *o, ph_dim queries, ph_dim keys, ph_dim past, int64_t window) {
    const ph_dim one = ph_dim_of(1);
    int          q = ph_oi_make(o, "Add", PH_IN(count_up(o, queries), whole(o, past)), PH_NO_ATTRS),
        k = count_up(o, keys);
    q = view(o, q, 2, queries, one, one, one);
    k = view(o, k, 2, one, keys, one, one);
    int sees = ph_oi_make(o, "LessOrEqual", PH_IN(k, q), PH_NO_ATTRS);
    if (window < 1) return sees;
    int near = ph_oi_make(o, "Add", PH_IN(k, whole(o, ph_dim_of(window))), PH_NO_ATTRS);
    return ph_oi_make(o, "And", PH_IN(sees, ph_oi_make(o, "Greater", PH_IN(near, q), PH_NO_ATTRS)),
                      PH_NO_ATTRS);
}

/* Bool to 0 and `low`. */
static int additive(ph_oi *o, int sees, double low) {
    return ph_oi_make(o, "Where", PH_IN(sees, ph_oi_number(o, 0), ph_oi_number(o, low)), PH_NO_ATTRS);
}

/* ---- Attention of opset 23 ---- */

ph_rc ph_oi_attention(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int past_k = ph_oi_in(o, n, 4), past_v = ph_oi_in(o, n, 5),
        keeps = ph_oi_has_out(n, 1) || ph_oi_has_out(n, 2);
    if (past_k < 0 && past_v < 0 && !keeps) return ph_oi_plain(o, n, "Attention", err);
    if (ph_oi_has_out(n, 3) || ph_oi_int(o, n, "qk_matmul_output_mode", 0))
        return ph_oi_fail(o, err, PH_EUNSUP, "the scores of Attention are not made");
    int is_flat = ph_oi_shape(o, ph_oi_in(o, n, 0))->rank == 3;
    job j = {
        .q = ph_oi_in(o, n, 0), .k = ph_oi_in(o, n, 1), .v = ph_oi_in(o, n, 2), .mask = ph_oi_in(o, n, 3)};
    j.heads = ph_oi_int(o, n, "q_num_heads", 0), j.kv_heads = ph_oi_int(o, n, "kv_num_heads", 0);
    j.scale = ph_oi_float(o, n, "scale", 0), j.softcap = ph_oi_float(o, n, "softcap", 0);
    if (is_flat)
        j.q = to_heads(o, j.q, j.heads), j.k = to_heads(o, j.k, j.kv_heads),
        j.v = to_heads(o, j.v, j.kv_heads);
    ph_dim past = past_k < 0 ? ph_dim_of(0) : ph_oi_shape(o, past_k)->dim[2], keys;
    j.k = append(o, past_k, j.k);
    j.v = append(o, past_v, j.v);
    if (o->g->rc) return ph_oi_done(o, err);
    keys = ph_oi_shape(o, j.k)->dim[2];
    if (ph_oi_int(o, n, "is_causal", 0)) {
        int sees = causal_mask(o, ph_oi_shape(o, j.q)->dim[2], keys, past, 0);
        if (j.mask >= 0 && o->g->value[j.mask].dtype == PH_BOOL)
            j.mask = ph_oi_make(o, "And", PH_IN(j.mask, sees), PH_NO_ATTRS);
        else
            j.mask = j.mask < 0 ? sees : both(o, j.mask, additive(o, sees, -(double)INFINITY));
    }
    int y = attend(o, &j);
    ph_oi_set(o, n, 0, is_flat ? from_heads(o, y) : y);
    ph_oi_set(o, n, 1, j.k);
    ph_oi_set(o, n, 2, j.v);
    return ph_oi_done(o, err);
}

/* ---- com.microsoft ---- */

/* Columns [from, from + n) of the last dimension, which has them; widths may come from a file. */
static int columns(ph_oi *o, int x, int64_t from, int64_t n) {
    const ph_shape *s = ph_oi_shape(o, x);
    const ph_dim    last = s->rank ? s->dim[s->rank - 1] : ph_dim_of(0);
    int64_t         to, axis = -1;
    if (from < 0 || n < 0 || __builtin_add_overflow(from, n, &to) ||
        (ph_dim_is_fixed(last) && to > last.mul)) {
        ph_graph_fail(o->g, PH_EMISMATCH, "%lld columns from %lld on, of an array that has %lld",
                      (long long)n, (long long)from, (long long)last.mul);
        return -1;
    }
    int a = ph_oi_list(o, &from, 1), b = ph_oi_list(o, &to, 1);
    return ph_oi_make(o, "Slice", PH_IN(x, a, b, ph_oi_list(o, &axis, 1)), PH_NO_ATTRS);
}

/* A mask of 0 and 1: [B, L], [B, S, L] or [B, 1, S, L]; what is 0 gets `low`. */
static int raw_mask(ph_oi *o, int mask, double low) {
    const ph_dim one = ph_dim_of(1);
    ph_shape     s = *ph_oi_shape(o, mask);
    int          keep = ph_oi_make(o, "Cast", PH_IN(mask), PH_ATTRS(PH_INT("to", 9)));
    if (s.rank == 2)
        keep = view(o, keep, 4, s.dim[0], one, one, s.dim[1]);
    else if (s.rank == 3)
        keep = view(o, keep, 4, s.dim[0], one, s.dim[1], s.dim[2]);
    else if (s.rank != 4)
        ph_graph_fail(o->g, PH_EUNSUP, "a mask of rank %d; lengths of sequences are not read", s.rank);
    return additive(o, keep, low);
}

/* Causal as well: a triangle from the first key of this run on. */
static int with_causal(ph_oi *o, int mask, const job *j, ph_dim past, double low) {
    int sees = causal_mask(o, ph_oi_shape(o, j->q)->dim[2], ph_oi_shape(o, j->k)->dim[2], past, 0);
    return both(o, mask, additive(o, sees, low));
}

/* input [B, S, D_in] W [D_in, Dq + Dk + Dv] + bias, split and attended. */
ph_rc ph_oi_ms_attention(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    const ph_onnx_attr *sizes = ph_oi_attr(o, n, "qkv_hidden_sizes");
    double              low = ph_oi_float(o, n, "mask_filter_value", -10000);
    job j = {.mask = -1, .heads = ph_oi_int(o, n, "num_heads", 0), .scale = ph_oi_float(o, n, "scale", 0)};
    int x = ph_oi_in(o, n, 0), w = ph_oi_in(o, n, 1), bias = ph_oi_in(o, n, 2), mask = ph_oi_in(o, n, 3);
    int more = ph_oi_in(o, n, 5);
    if (ph_oi_has(o, n, 4) || ph_oi_has_out(n, 1))
        return ph_oi_fail(o, err, PH_EUNSUP, "Attention with a past");
    if (ph_oi_int(o, n, "do_rotary", 0)) return ph_oi_fail(o, err, PH_EUNSUP, "Attention with do_rotary");
    if (o->g->rc || ph_oi_shape(o, w)->rank != 2 || !ph_dim_is_fixed(ph_oi_shape(o, w)->dim[1]))
        return ph_oi_fail(o, err, PH_EMISMATCH, "Attention wants a weight [D, 3 D]");
    int64_t width = ph_oi_shape(o, w)->dim[1].mul, d = width / 3, dq = d, dk = d, dv = d;
    if (sizes && sizes->type == PH_ONNX_A_INTS && sizes->n == 3)
        dq = sizes->ints[0], dk = sizes->ints[1], dv = sizes->ints[2];
    if (dq < 1 || dk < 1 || dv < 1 || dq > width || dk > width - dq || dv > width - dq - dk)
        return ph_oi_fail(o, err, PH_EMISMATCH,
                          "Attention: qkv_hidden_sizes %lld, %lld, %lld of a weight with %lld columns",
                          (long long)dq, (long long)dk, (long long)dv, (long long)width);
    int all = ph_oi_product(o, x, w, 0, bias);
    j.kv_heads = j.heads;
    j.q = to_heads(o, columns(o, all, 0, dq), j.heads);
    j.k = to_heads(o, columns(o, all, dq, dk), j.heads);
    j.v = to_heads(o, columns(o, all, dq + dk, dv), j.heads);
    if (o->g->rc) return ph_oi_done(o, err);
    if (mask >= 0) j.mask = raw_mask(o, mask, low);
    j.mask = both(o, j.mask, more);
    if (ph_oi_int(o, n, "unidirectional", 0)) {
        if (j.mask < 0)
            j.is_causal = 1;
        else
            j.mask = with_causal(o, j.mask, &j, ph_dim_of(0), low);
    }
    ph_oi_set(o, n, 0, from_heads(o, attend(o, &j)));
    return ph_oi_done(o, err);
}

/* x plus those of bias from `from` on, as many as x has. */
static int add_columns(ph_oi *o, int x, int bias, int64_t from) {
    const ph_shape *s = ph_oi_shape(o, x);
    if (bias < 0 || s->rank != 3) return x;
    return ph_oi_make(o, "Add", PH_IN(x, columns(o, bias, from, s->dim[2].mul)), PH_NO_ATTRS);
}

/* The last dimension of [B, S, D]; 0: of another rank, or no plain number. */
static int64_t width_of(const ph_oi *o, int x) {
    const ph_shape *s = ph_oi_shape(o, x);
    return s->rank == 3 && ph_dim_is_fixed(s->dim[2]) ? s->dim[2].mul : 0;
}

/* query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value */
ph_rc ph_oi_mha(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    double low = ph_oi_float(o, n, "mask_filter_value", -10000);
    job    j = {.mask = -1, .heads = ph_oi_int(o, n, "num_heads", 0), .scale = ph_oi_float(o, n, "scale", 0)};
    int    q = ph_oi_in(o, n, 0), k = ph_oi_in(o, n, 1), v = ph_oi_in(o, n, 2), bias = ph_oi_in(o, n, 3);
    int    mask = ph_oi_in(o, n, 4), more = ph_oi_in(o, n, 5), past_k = ph_oi_in(o, n, 6),
        past_v = ph_oi_in(o, n, 7);
    if (o->g->rc || k < 0 || v < 0 || ph_oi_shape(o, q)->rank != 3 || n->n_in > 8)
        return ph_oi_fail(o, err, PH_EUNSUP, "MultiHeadAttention wants query, key and value apart");
    int64_t dq = width_of(o, q), dk = width_of(o, k);
    int64_t all = dq + dk + width_of(o, v);
    if (bias >= 0 && dk && width_of(o, v) && !ph_dim_same(ph_oi_shape(o, bias)->dim[0], ph_dim_of(all)))
        return ph_oi_fail(
            o, err, PH_EMISMATCH,
            "MultiHeadAttention: a bias of %lld, and query, key and value have %lld columns together",
            (long long)ph_oi_shape(o, bias)->dim[0].mul, (long long)all);
    j.kv_heads = j.heads;
    j.q = to_heads(o, add_columns(o, q, bias, 0), j.heads);
    j.k = ph_oi_shape(o, k)->rank == 4 ? k : to_heads(o, add_columns(o, k, bias, dq), j.heads);
    j.v = ph_oi_shape(o, v)->rank == 4 ? v : to_heads(o, add_columns(o, v, bias, dq + dk), j.heads);
    ph_dim past = past_k < 0 ? ph_dim_of(0) : ph_oi_shape(o, past_k)->dim[2];
    j.k = append(o, past_k, j.k);
    j.v = append(o, past_v, j.v);
    if (o->g->rc) return ph_oi_done(o, err);
    if (mask >= 0) j.mask = raw_mask(o, mask, low);
    j.mask = both(o, j.mask, more);
    if (ph_oi_int(o, n, "unidirectional", 0)) {
        if (j.mask < 0 && past_k < 0)
            j.is_causal = 1;
        else
            j.mask = with_causal(o, j.mask, &j, past, low);
    }
    ph_oi_set(o, n, 0, from_heads(o, attend(o, &j)));
    ph_oi_set(o, n, 1, j.k);
    ph_oi_set(o, n, 2, j.v);
    return ph_oi_done(o, err);
}

/* x [B, H, S, d] turned by positions [B, S]. */
static int rotate(ph_oi *o, int x, int cos, int sin, int positions, int64_t interleaved, int64_t dims) {
    return ph_oi_make(o, "RotaryEmbedding", PH_IN(x, cos, sin, positions),
                      PH_ATTRS(PH_INT("interleaved", interleaved), PH_INT("rotary_embedding_dim", dims)));
}

/* All sequences are taken to be as long as the arrays: seqlens_k, which says otherwise for padded batches, is
 * not looked at. */
ph_rc ph_oi_gqa(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    job j = {
        .heads = ph_oi_int(o, n, "num_heads", 0), .kv_heads = ph_oi_int(o, n, "kv_num_heads", 0), .mask = -1};
    int q = ph_oi_in(o, n, 0), k = ph_oi_in(o, n, 1), v = ph_oi_in(o, n, 2), past_k = ph_oi_in(o, n, 3),
        past_v = ph_oi_in(o, n, 4);
    int cos = ph_oi_in(o, n, 7), sin = ph_oi_in(o, n, 8);
    j.scale = ph_oi_float(o, n, "scale", 0), j.softcap = ph_oi_float(o, n, "softcap", 0);
    if (ph_oi_has(o, n, 9) || ph_oi_has(o, n, 10) || n->n_in > 11 || ph_oi_int(o, n, "smooth_softmax", 0) > 0)
        return ph_oi_fail(o, err, PH_EUNSUP, "GroupQueryAttention with positions, a bias or sinks");
    const ph_shape *s = ph_oi_shape(o, q);
    if (o->g->rc || s->rank != 3 || !ph_dim_is_fixed(s->dim[2]) || j.heads < 1 || j.kv_heads < 1 ||
        j.heads > 1 << 20 || j.kv_heads > 1 << 20)
        return ph_oi_fail(o, err, PH_EMISMATCH,
                          "GroupQueryAttention wants query [B, S, D] and numbers of heads");
    if (k < 0) { /* all three in one */
        int64_t d = s->dim[2].mul / (j.heads + 2 * j.kv_heads);
        k = columns(o, q, j.heads * d, j.kv_heads * d);
        v = columns(o, q, (j.heads + j.kv_heads) * d, j.kv_heads * d);
        q = columns(o, q, 0, j.heads * d);
    }
    j.q = to_heads(o, q, j.heads), j.k = to_heads(o, k, j.kv_heads), j.v = to_heads(o, v, j.kv_heads);
    if (o->g->rc) return ph_oi_done(o, err);
    ph_dim rows = ph_oi_shape(o, j.q)->dim[2], own = ph_oi_shape(o, j.k)->dim[2];
    if (ph_dim_is_fixed(rows) && ph_dim_is_fixed(own) && rows.mul != own.mul)
        return ph_oi_fail(o, err, PH_EMISMATCH, "GroupQueryAttention: %lld rows of query, %lld of key",
                          (long long)rows.mul, (long long)own.mul);
    ph_dim batch = ph_oi_shape(o, j.q)->dim[0];
    ph_dim past = past_k < 0 ? ph_dim_of(0) : ph_oi_shape(o, past_k)->dim[2];
    if (ph_oi_int(o, n, "do_rotary", 0)) {
        ph_shape wide = ph_shape_of(2, batch, rows);
        int      at = ph_oi_make(o, "Add", PH_IN(count_up(o, rows), whole(o, past)), PH_NO_ATTRS);
        at = ph_oi_make(o, "Expand",
                        PH_IN(view(o, at, 2, ph_dim_of(1), rows, rows, rows), ph_oi_shape_list(o, &wide)),
                        PH_NO_ATTRS);
        int64_t pairs = ph_oi_int(o, n, "rotary_interleaved", 0), dims = 2 * ph_oi_shape(o, cos)->dim[1].mul;
        j.q = rotate(o, j.q, cos, sin, at, pairs, dims);
        j.k = rotate(o, j.k, cos, sin, at, pairs, dims);
    }
    j.k = append(o, past_k, j.k);
    j.v = append(o, past_v, j.v);
    if (o->g->rc) return ph_oi_done(o, err);
    j.mask =
        causal_mask(o, rows, ph_oi_shape(o, j.k)->dim[2], past, ph_oi_int(o, n, "local_window_size", -1));
    ph_oi_set(o, n, 0, from_heads(o, attend(o, &j)));
    ph_oi_set(o, n, 1, j.k);
    ph_oi_set(o, n, 2, j.v);
    return ph_oi_done(o, err);
}

/* input, position_ids ([B, S], or [1]: the first), cos_cache, sin_cache [P, half] */
ph_rc ph_oi_ms_rotary(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int      x = ph_oi_in(o, n, 0), at = ph_oi_in(o, n, 1), cos = ph_oi_in(o, n, 2), sin = ph_oi_in(o, n, 3);
    int64_t  heads = ph_oi_int(o, n, "num_heads", 0), dims = ph_oi_int(o, n, "rotary_embedding_dim", 0);
    ph_shape s = *ph_oi_shape(o, x);
    if (o->g->rc || at < 0 || sin < 0 || (s.rank != 3 && s.rank != 4) || ph_oi_shape(o, cos)->rank != 2 ||
        ph_oi_int(o, n, "is_packed_batching", 0))
        return ph_oi_fail(o, err, PH_EUNSUP,
                          "RotaryEmbedding wants x [B, S, H d] or [B, H, S, d], positions, cos and sin");
    int64_t half = ph_oi_shape(o, cos)->dim[1].mul;
    ph_dim  rows = s.dim[s.rank == 4 ? 2 : 1];
    if (!dims) dims = 2 * half;
    if (s.rank == 3 && !heads) heads = half ? s.dim[2].mul / (2 * half) : 0;
    if (ph_oi_shape(o, at)->rank == 1) { /* the first position: the others follow */
        ph_shape wide = ph_shape_of(2, s.dim[0], rows);
        at = ph_oi_make(o, "Add", PH_IN(count_up(o, rows), at), PH_NO_ATTRS);
        at = ph_oi_make(o, "Expand",
                        PH_IN(view(o, at, 2, ph_dim_of(1), rows, rows, rows), ph_oi_shape_list(o, &wide)),
                        PH_NO_ATTRS);
    }
    return ph_oi_emit(o, n, "RotaryEmbedding", PH_IN(x, cos, sin, at),
                      PH_ATTRS(PH_INT("interleaved", ph_oi_int(o, n, "interleaved", 0)),
                               PH_INT("num_heads", heads), PH_INT("rotary_embedding_dim", dims)),
                      err);
}
