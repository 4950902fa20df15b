/* lanes_attend.h - one block of keys into each query's running softmax.
 *
 *     scores: a few keys against a few queries, lanes along d; the sums of W keys' lanes become one vector
 *     weights: e^(s - m') of the row of scores, zero for keys that the query does not see
 *     values: four vectors of a few answers stay in registers while all keys pass by
 */
#ifndef PH_KERNELS_LANES_LANES_ATTEND_H
#define PH_KERNELS_LANES_LANES_ATTEND_H

#include "kernels/lanes/lanes_math.h"

typedef vf load_fn(const void *p);
typedef vf load_n_fn(const void *p, size_t n);

/* One stored type: its loads and the bytes of an element.  Always a constant, so all of it is inlined. */
typedef struct stored {
    load_fn   *load;
    load_n_fn *load_n;
    size_t     bytes;
} stored;

/* Queries that share a key's loads, and keys a query's. */
enum { QUERIES = TILE_COLS > 4 ? 4 : 2, KEYS = 4 };

/* sums[i][c] = lanes of q[i] . k[c], for `queries` x `keys` (constants). */
INLINE void score_tile(stored t, size_t queries, size_t keys, vf (*sums)[W], const float *q, size_t q_stride,
                       const unsigned char *k, size_t row_bytes, size_t d) {
    vf     sum[QUERIES][KEYS];
    size_t e = 0;
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < keys; c++) sum[i][c] = v_zero();
    }
    for (; e + W <= d; e += W) {
        vf x[QUERIES];
        UNROLL
        for (size_t i = 0; i < queries; i++) x[i] = v_load(&q[i * q_stride + e]);
        UNROLL
        for (size_t c = 0; c < keys; c++) {
            vf y = v_once(t.load(&k[c * row_bytes + e * t.bytes]));
            UNROLL
            for (size_t i = 0; i < queries; i++) sum[i][c] = v_fma(x[i], y, sum[i][c]);
        }
    }
    if (e < d) {
        UNROLL
        for (size_t c = 0; c < keys; c++) {
            vf y = t.load_n(&k[c * row_bytes + e * t.bytes], d - e);
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
                  const unsigned char *k, size_t n) {
    size_t row_bytes = a->k_stride * t.bytes;
    vf     cap = v_set1(a->softcap), scale_by = v_set1(a->scale);
    for (size_t j = 0; j < n; j += W) {
        size_t some = n - j < W ? n - j : W, c = 0;
        vf     sums[QUERIES][W];
        for (; c + KEYS <= some; c += KEYS)
            score_tile(t, queries, KEYS, (vf(*)[W]) & sums[0][c], q, a->q_stride, &k[(j + c) * row_bytes],
                       row_bytes, a->d);
        for (; c < some; c++)
            score_tile(t, queries, 1, (vf(*)[W]) & sums[0][c], q, a->q_stride, &k[(j + c) * row_bytes],
                       row_bytes, a->d);
        for (; c < W; c++)
            for (size_t i = 0; i < queries; i++) sums[i][c] = v_zero();
        UNROLL
        for (size_t i = 0; i < queries; i++) {
            vf v = v_mul(v_sums(sums[i]), scale_by);
            if (a->softcap > 0) v = v_mul(cap, v_tanh(v_div(v, cap)));
            v_store(&s[i * PH_ATTEND_KEYS + j], v);
        }
    }
}

/* acc[i][0 .. many W) += sum_j p[i][j] v[j] over keys [0, n); queries and many are constants. */
INLINE void mix_tile(stored t, size_t queries, size_t many, float *acc, size_t dv, const float *p,
                     const unsigned char *v, size_t row_bytes, size_t n) {
    vf sum[QUERIES][4];
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++) sum[i][c] = v_load(&acc[i * dv + c * W]);
    }
    for (size_t j = 0; j < n; j++) {
        vf w[QUERIES];
        UNROLL
        for (size_t i = 0; i < queries; i++) w[i] = v_set1(p[i * PH_ATTEND_KEYS + j]);
        UNROLL
        for (size_t c = 0; c < many; c++) {
            vf y = v_once(t.load(&v[j * row_bytes + c * W * t.bytes]));
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
                const unsigned char *v, size_t n) {
    size_t row_bytes = a->v_stride * t.bytes, e = 0, rest;
    for (; e + 4 * W <= a->dv; e += 4 * W)
        mix_tile(t, queries, 4, &acc[e], a->dv, p, &v[e * t.bytes], row_bytes, n);
    for (; e + W <= a->dv; e += W) mix_tile(t, queries, 1, &acc[e], a->dv, p, &v[e * t.bytes], row_bytes, n);
    rest = a->dv - e;
    for (size_t i = 0; rest && i < queries; i++) {
        vf sum = v_load_n(&acc[i * a->dv + e], rest);
        for (size_t j = 0; j < n; j++)
            sum = v_fma(v_set1(p[i * PH_ATTEND_KEYS + j]), t.load_n(&v[j * row_bytes + e * t.bytes], rest),
                        sum);
        v_store_n(&acc[i * a->dv + e], sum, rest);
    }
}

INLINE void times(float *x, float by, size_t n) {
    size_t i = 0;
    for (; i + W <= n; i += W) v_store(&x[i], v_mul(v_load(&x[i]), v_set1(by)));
    if (i < n) v_store_n(&x[i], v_mul(v_load_n(&x[i], n - i), v_set1(by)), n - i);
}

/* Scores of keys [from, end) become weights of those in [lo, hi), zero for the others; the query's m and l
 * move on. Returns what its answer so far is multiplied with.  A query that sees none of them stays as it is.
 */
INLINE float weigh(const ph_attend *a, size_t i, float *s, size_t from, size_t end) {
    size_t lo = (size_t)a->lo[i] - from, hi = (size_t)a->hi[i] - from, n = (end - from + W - 1) / W * W;
    vf     most = v_set1(-INFINITY), sum = v_zero();
    if (a->hi[i] <= a->lo[i]) {
        for (size_t j = 0; j < n; j++) s[j] = 0;
        return 1;
    }
    for (size_t j = 0; j < lo; j++) s[j] = -INFINITY;
    for (size_t j = hi; j < n; j++) s[j] = -INFINITY;
    for (size_t j = 0; j < n; j += W) most = v_maxnum(v_load(&s[j]), most);
    float here = v_largest(most), top = here > a->m[i] ? here : a->m[i];
    /* All masked so far: any finite reference gives weights of zero (and lets a NaN through). */
    float base = top > -INFINITY ? top : 0.0f, keep = first_lane(v_exp(v_set1(a->m[i] - base)));
    for (size_t j = 0; j < n; j += W) {
        vf p = v_exp(v_sub(v_load(&s[j]), v_set1(base)));
        sum = v_add(sum, p);
        v_store(&s[j], p);
    }
    a->l[i] = a->l[i] * keep + v_sum(sum);
    a->m[i] = top;
    return keep;
}

/* Keys of query i alone: [lo, hi), counted from `from`. */
INLINE void mix_alone(stored t, const ph_attend *a, size_t i, const float *s, size_t from, size_t lo,
                      size_t hi) {
    const unsigned char *v = (const unsigned char *)a->v + lo * a->v_stride * t.bytes;
    if (lo < hi) mix(t, a, 1, &a->acc[i * a->dv], &s[lo - from], v, hi - lo);
}

/* Queries [i, i + queries), a constant.  Lanes are keys modulo W whatever the queries beside, and each
 * query's keys come in order, so its bits are its own. */
INLINE void attend_some(stored t, const ph_attend *a, size_t i, size_t queries) {
    float *s = &a->scratch[i * PH_ATTEND_KEYS];
    size_t from = PH_ATTEND_KEYS, end = 0, first = 0, last = PH_ATTEND_KEYS;
    for (size_t q = i; q < i + queries; q++) {
        size_t lo = (size_t)a->lo[q], hi = (size_t)a->hi[q];
        if (a->hi[q] <= a->lo[q])
            lo = hi = first = PH_ATTEND_KEYS; /* nothing is shared with it */
        else
            from = lo < from ? lo : from, end = hi > end ? hi : end;
        first = lo > first ? lo : first;
        last = hi < last ? hi : last;
    }
    if (from >= end) return;
    from = from / W * W;
    score(t, a, queries, s, &a->q[i * a->q_stride],
          (const unsigned char *)a->k + from * a->k_stride * t.bytes, end - from);
    for (size_t q = i; q < i + queries; q++)
        times(&a->acc[q * a->dv], weigh(a, q, &s[(q - i) * PH_ATTEND_KEYS], from, end), a->dv);
    if (first >= last) first = last = PH_ATTEND_KEYS;
    /* Keys that only some see are for those alone: a weight of zero would let an infinity through. */
    for (size_t q = i; q < i + queries; q++) {
        if (a->hi[q] <= a->lo[q]) continue;
        size_t lo = (size_t)a->lo[q], hi = (size_t)a->hi[q];
        mix_alone(t, a, q, &s[(q - i) * PH_ATTEND_KEYS], from, lo, hi < first ? hi : first);
    }
    if (first < last)
        mix(t, a, queries, &a->acc[i * a->dv], &s[first - from],
            (const unsigned char *)a->v + first * a->v_stride * t.bytes, last - first);
    for (size_t q = i; first < last && q < i + queries; q++)
        mix_alone(t, a, q, &s[(q - i) * PH_ATTEND_KEYS], from, last, (size_t)a->hi[q]);
}

INLINE void attend(stored t, const ph_attend *a) {
    size_t i = 0;
    for (; i + QUERIES <= a->n_q; i += QUERIES) attend_some(t, a, i, QUERIES);
    for (; i < a->n_q; i++) attend_some(t, a, i, 1);
}

static void attend_F32(const ph_attend *a) {
    attend((stored){v_load, v_load_n, sizeof(float)}, a);
}
static void attend_F16(const ph_attend *a) {
    attend((stored){v_load_f16, v_load_f16_n, sizeof(uint16_t)}, a);
}

#endif
