/* lanes_attend.h - one block of keys into each query's running softmax.
 *
 *     for some queries: scores of strips of them; weights, and what was so far is scaled; values, strip by strip
 *
 *     scores: keys channel by channel: lanes are keys, one channel after the other, some vectors of keys
 *             against some queries.  Keys as rows: laid out so first, once for all queries; blocks of Q8_0 are
 *             met as they stand, lanes along d, and the sums of W keys' lanes become one vector
 *     weights: e^(s - m') of the row of scores, zero for keys that the query does not see
 *     values: four vectors of a few answers stay in registers while all keys pass by
 */
#ifndef PH_KERNELS_LANES_LANES_ATTEND_H
#define PH_KERNELS_LANES_LANES_ATTEND_H

#include "kernels/lanes/lanes_weigh.h"

/* W elements of a stored row from element e (a multiple of W) on; _n: the first n < W of them. */
typedef vf load_fn(const unsigned char *row, size_t e);
typedef vf load_n_fn(const unsigned char *row, size_t e, size_t n);

/* One stored type: its loads, a block's elements and bytes.  Always a constant, so all of it is inlined. */
typedef struct stored {
    load_fn   *load;
    load_n_fn *load_n;
    size_t     block, bytes;
    int        by_channel; /* keys are [d, keys], not [keys, d] */
    int        calls;      /* for what comes next: of pages */
} stored;

INLINE size_t row_bytes_of(stored t, size_t stride) {
    return stride / t.block * t.bytes;
}

enum { KEYS = 4 }; /* that share a query's loads */
/* Bytes that are wanted next, called for a few at a time while multiply-adds go on. */
typedef struct ahead {
    const unsigned char *at, *end;
    size_t               step;
} ahead;
INLINE ahead ahead_of(const void *at, size_t bytes, size_t times) {
    if (!bytes) return (ahead){NULL, NULL, 0}; /* where `at` may be none, to which nothing can be added */
    return (ahead){at, (const unsigned char *)at + bytes, (bytes / times + 63) / 64 * 64};
}
INLINE void call(ahead *x) {
    if (x->at >= x->end) return;
    for (const unsigned char *stop = x->at + x->step; x->at < stop; x->at += 64)
        __builtin_prefetch(x->at, 0, 3);
}

/* sums[i][c] = lanes of q[i] . k[c], for `queries` x `keys` (constants). */
INLINE void score_tile(stored t, size_t queries, size_t keys, vf (*sums)[W], const float *q, size_t q_stride,
                       const unsigned char *k, size_t row_bytes, size_t d) {
    vf     sum[MANY][KEYS];
    size_t e = 0;
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < keys; c++) sum[i][c] = v_zero();
    }
    for (; e + W <= d; e += W) {
        vf x[MANY];
        UNROLL
        for (size_t i = 0; i < queries; i++) x[i] = v_load(&q[i * q_stride + e]);
        UNROLL
        for (size_t c = 0; c < keys; c++) {
            vf y = v_once(t.load(&k[c * row_bytes], e));
            UNROLL
            for (size_t i = 0; i < queries; i++) sum[i][c] = v_fma(x[i], y, sum[i][c]);
        }
    }
    if (e < d) {
        UNROLL
        for (size_t c = 0; c < keys; c++) {
            vf y = t.load_n(&k[c * row_bytes], e, d - e);
            UNROLL
            for (size_t i = 0; i < queries; i++)
                sum[i][c] = v_fma(v_load_n(&q[i * q_stride + e], d - e), y, sum[i][c]);
        }
    }
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < keys; c++) sums[i][c] = sum[i][c];
    }
}

/* Scores of `queries` (a constant) queries against n keys, scaled and capped, in whole vectors. */
INLINE void score(stored t, const ph_attend *a, size_t queries, float *s, const float *q,
                  const unsigned char *k, size_t n, ahead *next) {
    size_t row_bytes = row_bytes_of(t, a->k_stride);
    vf     cap = v_set1(a->softcap), scale_by = v_set1(a->scale);
    for (size_t j = 0; j < n; j += W) {
        size_t some = n - j < W ? n - j : W, c = 0;
        vf     sums[MANY][W];
        for (; c + KEYS <= some; c += KEYS) {
            call(next);
            score_tile(t, queries, KEYS, (vf(*)[W]) & sums[0][c], q, a->q_stride, &k[(j + c) * row_bytes],
                       row_bytes, a->d);
        }
        for (; c < some; c++)
            score_tile(t, queries, 1, (vf(*)[W]) & sums[0][c], q, a->q_stride, &k[(j + c) * row_bytes],
                       row_bytes, a->d);
        for (; c < W; c++)
            for (size_t i = 0; i < queries; i++) sums[i][c] = v_zero();
        UNROLL
        for (size_t i = 0; i < queries; i++)
            v_store(&s[i * PH_ATTEND_KEYS + j], score_of(a, v_sums(sums[i]), scale_by, cap));
    }
}

/* The same where keys are [d, 64] in blocks of Q4_1: keys [i, i + W) and [i + 16, i + 16 + W) of a block of
 * 32, whose numbers share their bytes, against `queries` (a constant) queries. */
INLINE void score_pair(const ph_attend *a, size_t queries, float *s, const float *q, const unsigned char *k,
                       size_t i, ahead *next) {
    size_t row_bytes = a->k_stride / 32 * 20;
    vf     cap = v_set1(a->softcap), scale_by = v_set1(a->scale), sum[MANY][2];
    UNROLL
    for (size_t c = 0; c < queries; c++) sum[c][0] = sum[c][1] = v_zero();
    for (size_t e = 0; e < a->d; e++) {
        call(next);
        const unsigned char *b = &k[e * row_bytes];
        vf                   d = v_set1(f16_scalar(b)), m = v_set1(f16_scalar(b + 2));
        vf                   low = v_fma(d, v_load_field(b + 4 + i, 0, 15), m);
        vf                   high = v_fma(d, v_load_field(b + 4 + i, 4, 15), m);
        UNROLL
        for (size_t c = 0; c < queries; c++) {
            vf x = v_set1(q[c * a->q_stride + e]);
            sum[c][0] = v_fma(x, low, sum[c][0]);
            sum[c][1] = v_fma(x, high, sum[c][1]);
        }
    }
    UNROLL
    for (size_t c = 0; c < queries; c++) {
        UNROLL
        for (size_t half = 0; half < 2; half++)
            v_store(&s[c * PH_ATTEND_KEYS + half * 16 + i], score_of(a, sum[c][half], scale_by, cap));
    }
}
INLINE void score_channels(const ph_attend *a, size_t queries, float *s, const float *q, ahead *next) {
    for (size_t block = 0; block < PH_ATTEND_KEYS / 32; block++)
        for (size_t i = 0; i < 16; i += W)
            score_pair(a, queries, &s[block * 32], q, (const unsigned char *)a->k + block * 20, i, next);
}

/* Keys [j, j + many W) by channel against `queries` (both constants), in plain types. */
INLINE void score_keys_tile(stored t, const ph_attend *a, size_t queries, size_t many, float *s,
                            const float *q, size_t j, ahead *next) {
    const unsigned char *keys = a->k;
    vf                   cap = v_set1(a->softcap), scale_by = v_set1(a->scale), sum[MANY][4];
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++) sum[i][c] = v_zero();
    }
    for (size_t e = 0; e < a->d; e++, keys += a->k_stride * t.bytes) {
        vf x[MANY];
        call(next);
        UNROLL
        for (size_t i = 0; i < queries; i++) x[i] = v_set1(q[i * a->q_stride + e]);
        UNROLL
        for (size_t c = 0; c < many; c++) {
            vf y = v_once(t.load(keys, j + c * W));
            UNROLL
            for (size_t i = 0; i < queries; i++) sum[i][c] = v_fma(x[i], y, sum[i][c]);
        }
    }
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++)
            v_store(&s[i * PH_ATTEND_KEYS + c * W], score_of(a, sum[i][c], scale_by, cap));
    }
}

/* Keys [from, from + n), in whole vectors. */
INLINE void score_keys(stored t, const ph_attend *a, size_t queries, float *s, const float *q, size_t from,
                       size_t n, ahead *next) {
    size_t j = 0;
    for (; j + 4 * W <= n; j += 4 * W) score_keys_tile(t, a, queries, 4, &s[j], q, from + j, next);
    for (; j < n; j += W) score_keys_tile(t, a, queries, 1, &s[j], q, from + j, next);
}

/* acc[i][0 .. many W) += sum_j p[i][j] v[j][e ..] over keys [0, n); queries and many are constants. */
INLINE void mix_tile(stored t, size_t queries, size_t many, float *acc, size_t dv, const float *p,
                     const unsigned char *v, size_t row_bytes, size_t e, size_t n, ahead *next) {
    vf sum[MANY][4];
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++) sum[i][c] = v_load(&acc[i * dv + c * W]);
    }
    for (size_t j = 0; j < n; j++) {
        vf w[MANY];
        call(next);
        UNROLL
        for (size_t i = 0; i < queries; i++) w[i] = v_set1(p[i * PH_ATTEND_KEYS + j]);
        UNROLL
        for (size_t c = 0; c < many; c++) {
            vf y = v_once(t.load(&v[j * row_bytes], e + c * W));
            UNROLL
            for (size_t i = 0; i < queries; i++) sum[i][c] = v_fma(w[i], y, sum[i][c]);
        }
    }
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++) v_store(&acc[i * dv + c * W], sum[i][c]);
    }
}

/* All of dv for keys [0, n). */
INLINE void mix(stored t, const ph_attend *a, size_t queries, float *acc, const float *p,
                const unsigned char *v, size_t n, ahead *next) {
    size_t row_bytes = row_bytes_of(t, a->v_stride), e = 0, rest;
    for (; e + 4 * W <= a->dv; e += 4 * W)
        mix_tile(t, queries, 4, &acc[e], a->dv, p, v, row_bytes, e, n, next);
    for (; e + W <= a->dv; e += W) mix_tile(t, queries, 1, &acc[e], a->dv, p, v, row_bytes, e, n, next);
    rest = a->dv - e;
    for (size_t i = 0; rest && i < queries; i++) {
        vf sum = v_load_n(&acc[i * a->dv + e], rest);
        for (size_t j = 0; j < n; j++)
            sum = v_fma(v_set1(p[i * PH_ATTEND_KEYS + j]), t.load_n(&v[j * row_bytes], e, rest), sum);
        v_store_n(&acc[i * a->dv + e], sum, rest);
    }
}

/* ---- a strip: some queries side by side ---- */

INLINE seen seen_of(stored t, const ph_attend *a, size_t i, size_t queries) {
    seen x = {PH_ATTEND_KEYS, 0, 0, PH_ATTEND_KEYS};
    for (size_t q = i; q < i + queries; q++) {
        size_t lo = (size_t)a->lo[q], hi = (size_t)a->hi[q];
        if (sees(a, q))
            x.from = lo < x.from ? lo : x.from, x.end = hi > x.end ? hi : x.end;
        else
            lo = hi = x.first = PH_ATTEND_KEYS; /* nothing is shared with it */
        x.first = lo > x.first ? lo : x.first;
        x.last = hi < x.last ? hi : x.last;
    }
    x.from = t.by_channel && t.block > 1 ? 0 : x.from / W * W;
    if (x.first >= x.last) x.first = x.last = PH_ATTEND_KEYS;
    return x;
}

/* Queries [i, i + queries), a constant, to scores s [queries, 64]. */
INLINE void score_strip(stored t, const ph_attend *a, seen x, size_t i, size_t queries, float *s,
                        ahead *next) {
    const float *q = &a->q[i * a->q_stride];
    if (x.from >= x.end) return;
    if (t.by_channel && t.block == 1)
        score_keys(t, a, queries, s, q, x.from, x.end - x.from, next);
    else if (t.by_channel)
        score_channels(a, queries, s, q, next);
    else
        score(t, a, queries, s, q, (const unsigned char *)a->k + x.from * row_bytes_of(t, a->k_stride),
              x.end - x.from, next);
}

/* Keys of query i alone: [lo, hi), counted from `from`. */
INLINE void mix_alone(stored t, const ph_attend *a, size_t i, const float *s, size_t from, size_t lo,
                      size_t hi, ahead *next) {
    const unsigned char *v = (const unsigned char *)a->v + lo * row_bytes_of(t, a->v_stride);
    if (lo < hi) mix(t, a, 1, &a->acc[i * a->dv], &s[lo - from], v, hi - lo, next);
}

/* Their weights s [queries, 64] meet the values.  Keys that only some see are for those alone: a weight of
 * zero would let an infinity through. */
INLINE void mix_strip(stored t, const ph_attend *a, seen x, size_t i, size_t queries, const float *s,
                      ahead *next) {
    for (size_t q = 0; q < queries; q++) {
        size_t hi = (size_t)a->hi[i + q];
        if (sees(a, i + q))
            mix_alone(t, a, i + q, &s[q * PH_ATTEND_KEYS], x.from, (size_t)a->lo[i + q],
                      hi < x.first ? hi : x.first, next);
    }
    if (x.first == x.last) return;
    mix(t, a, queries, &a->acc[i * a->dv], &s[x.first - x.from],
        (const unsigned char *)a->v + x.first * row_bytes_of(t, a->v_stride), x.last - x.first, next);
    for (size_t q = 0; q < queries; q++)
        mix_alone(t, a, i + q, &s[q * PH_ATTEND_KEYS], x.from, x.last, (size_t)a->hi[i + q], next);
}

/* ---- queries in strips ---- */

INLINE size_t strips_of(stored t, size_t n) {
    size_t strips = 0;
    for (; n; n -= strip_queries(t.block == 1, n)) strips++;
    return strips;
}

/* Queries [i, i + n), n <= SOME.  Values are called for while scores are made, and what comes next while
 * values are met.  Lanes are keys modulo W whatever the queries beside, and each query's keys come in order,
 * so its bits are its own. */
INLINE void attend_some(stored t, const ph_attend *a, size_t i, size_t n, int is_first, int is_last) {
    float *s = a->scratch; /* of these queries; the next ones have it after them, while it is cached */
    size_t strips = strips_of(t, n);
    seen   x[SOME]; /* of each query, its strip's */
    ahead  v = ahead_of(a->v, t.calls && is_first ? a->v_bytes : 0, a->d * strips);
    ahead  k = ahead_of(a->next, t.calls && is_last ? a->next_bytes : 0, PH_ATTEND_KEYS * strips);
    for (size_t q = 0, some; q < n; q += some) {
        some = strip_queries(t.block == 1, n - q);
        x[q] = seen_of(t, a, i + q, some);
        for (size_t c = q + 1; c < q + some; c++) x[c] = x[q];
#define SCORE(c) score_strip(t, a, x[q], i + q, c, &s[q * PH_ATTEND_KEYS], &v)
        BY_QUERIES(some, SCORE);
#undef SCORE
    }
    weigh(a, i, n, s, PH_ATTEND_KEYS, x, weights_of);
    for (size_t q = 0, some; q < n; q += some) {
        some = strip_queries(t.block == 1, n - q);
#define MIX(c) mix_strip(t, a, x[q], i + q, c, &s[q * PH_ATTEND_KEYS], &k)
        BY_QUERIES(some, MIX);
#undef MIX
    }
}

INLINE void attend(stored t, const ph_attend *a) {
    for (size_t i = 0; i < a->n_q; i += SOME) {
        size_t left = a->n_q - i;
        attend_some(t, a, i, left < SOME ? left : SOME, !i, left <= SOME);
    }
}

#define AT(T, get, get_n, bytes)                                                                             \
    INLINE vf at_##T(const unsigned char *row, size_t e) {                                                   \
        return get(row + e * (bytes));                                                                       \
    }                                                                                                        \
    INLINE vf at_##T##_n(const unsigned char *row, size_t e, size_t n) {                                     \
        return get_n(row + e * (bytes), n);                                                                  \
    }                                                                                                        \
    static void attend_##T(const ph_attend *a) {                                                             \
        attend((stored){at_##T, at_##T##_n, 1, bytes, 1, 1}, a);                                             \
    }
AT(F32, v_load, v_load_n, 4)
AT(F16, v_load_f16, v_load_f16_n, 2)
AT(BF16, v_load_bf16, v_load_bf16_n, 2)
#undef AT

/* ---- keys as rows ---- */

/* W keys' elements [0, W) to W rows of channels, in registers. */
INLINE void turn(float *to, const float *k, size_t k_stride) {
    vf v[W];
    UNROLL_ROWS
    for (size_t c = 0; c < W; c++) v[c] = v_load(&k[c * k_stride]);
    v_transpose(v);
    UNROLL_ROWS
    for (size_t c = 0; c < W; c++) v_store(&to[c * PH_ATTEND_KEYS], v[c]);
}

/* The same of `keys` keys and d elements, W or fewer; behind the last key stand zeros. */
INLINE void turn_some(float *to, const float *k, size_t k_stride, size_t keys, size_t d) {
    vf v[W];
    for (size_t c = 0; c < W; c++)
        v[c] = c >= keys ? v_zero() : d == W ? v_load(&k[c * k_stride]) : v_load_n(&k[c * k_stride], d);
    v_transpose(v);
    for (size_t c = 0; c < d; c++) v_store(&to[c * PH_ATTEND_KEYS], v[c]);
}

/* Keys [from, end) to [d, keys]; between the last and the end of its vector stand zeros. */
INLINE void by_channel(const ph_attend *a, size_t from, size_t end) {
    for (size_t j = from / W * W; j < end; j += W) {
        const float *k = (const float *)a->k + j * a->k_stride;
        size_t       keys = end - j < W ? end - j : W, e = 0;
        for (; e + W <= a->d && keys == W; e += W) turn(&a->keys[e * PH_ATTEND_KEYS + j], &k[e], a->k_stride);
        for (; e < a->d; e += W)
            turn_some(&a->keys[e * PH_ATTEND_KEYS + j], &k[e], a->k_stride, keys,
                      a->d - e < W ? a->d - e : W);
    }
}

static void attend_rows(const ph_attend *a) {
    ph_attend by = *a;
    size_t    from = PH_ATTEND_KEYS, end = 0;
    for (size_t q = 0; q < a->n_q; q++) {
        if (a->hi[q] <= a->lo[q]) continue;
        from = (size_t)a->lo[q] < from ? (size_t)a->lo[q] : from;
        end = (size_t)a->hi[q] > end ? (size_t)a->hi[q] : end;
    }
    by_channel(a, from, end);
    by.k = a->keys;
    by.k_stride = PH_ATTEND_KEYS;
    attend((stored){at_F32, at_F32_n, 1, 4, 1, 0}, &by);
}

/* Blocks are whole in memory, so the last few elements of a row are read with what stands behind them. */
INLINE vf at_Q8_0(const unsigned char *row, size_t e) {
    const unsigned char *b = row + e / 32 * 34;
    return v_mul(v_set1(f16_scalar(b)), v_load_i8(b + 2 + e % 32));
}
INLINE vf at_Q8_0_n(const unsigned char *row, size_t e, size_t n) {
    (void)n;
    return at_Q8_0(row, e);
}
static void attend_Q8_0(const ph_attend *a) {
    attend((stored){at_Q8_0, at_Q8_0_n, 32, 34, 0, 1}, a);
}

INLINE vf at_Q4_1(const unsigned char *row, size_t e) {
    const unsigned char *b = row + e / 32 * 20;
    vf                   q = v_load_field(b + 4 + e % 16, e % 32 < 16 ? 0 : 4, 15);
    return v_fma(v_set1(f16_scalar(b)), q, v_set1(f16_scalar(b + 2)));
}
INLINE vf at_Q4_1_n(const unsigned char *row, size_t e, size_t n) {
    (void)n;
    return at_Q4_1(row, e);
}
static void attend_Q4_1(const ph_attend *a) {
    attend((stored){at_Q4_1, at_Q4_1_n, 32, 20, 1, 1}, a);
}

#endif
