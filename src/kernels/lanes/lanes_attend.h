/* lanes_attend.h - one block of keys into each query's running softmax.
 *
 *     scores: four keys at a time against one query, lanes along d
 *     weights: e^(s - m') of the padded row of scores
 *     values: four vectors of the answer stay in registers while all keys pass by
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

/* s[c] = q . k[c] for `keys` (a constant) rows of k, row_bytes apart. */
INLINE void score_some(stored t, size_t keys, float *s, const float *q, const unsigned char *k,
                       size_t row_bytes, size_t d) {
    vf     sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    size_t e = 0;
    for (; e + W <= d; e += W) {
        vf x = v_load(&q[e]);
        UNROLL
        for (size_t c = 0; c < keys; c++) sum[c] = v_fma(x, t.load(&k[c * row_bytes + e * t.bytes]), sum[c]);
    }
    if (e < d) {
        vf x = v_load_n(&q[e], d - e);
        UNROLL
        for (size_t c = 0; c < keys; c++)
            sum[c] = v_fma(x, t.load_n(&k[c * row_bytes + e * t.bytes], d - e), sum[c]);
    }
    for (size_t c = 0; c < keys; c++) s[c] = v_sum(sum[c]);
}

/* Scaled and capped scores of n keys, padded with -inf to whole vectors; returns the largest. */
INLINE float score(stored t, const ph_attend *a, float *s, const float *q, const unsigned char *k, size_t n) {
    size_t row_bytes = a->k_stride * t.bytes, j = 0;
    vf     most = v_set1(-INFINITY), cap = v_set1(a->softcap), scale_by = v_set1(a->scale);
    for (; j + 4 <= n; j += 4) score_some(t, 4, &s[j], q, &k[j * row_bytes], row_bytes, a->d);
    for (; j < n; j++) score_some(t, 1, &s[j], q, &k[j * row_bytes], row_bytes, a->d);
    for (; j % W; j++) s[j] = 0;
    for (size_t i = 0; i < j; i += W) {
        vf v = v_mul(v_load(&s[i]), scale_by);
        if (a->softcap > 0) v = v_mul(cap, v_tanh(v_div(v, cap)));
        v_store(&s[i], v);
    }
    for (size_t i = n; i < j; i++) s[i] = -INFINITY;
    for (size_t i = 0; i < j; i += W) most = v_maxnum(v_load(&s[i]), most);
    return v_largest(most);
}

/* acc[e .. e + many W) = acc keep + sum_j p[j] v[j]; many is a constant. */
INLINE void mix_some(stored t, size_t many, float *acc, float keep, const float *p, const unsigned char *v,
                     size_t row_bytes, size_t n) {
    vf sum[4];
    UNROLL
    for (size_t c = 0; c < many; c++) sum[c] = v_mul(v_load(&acc[c * W]), v_set1(keep));
    for (size_t j = 0; j < n; j++) {
        vf w = v_set1(p[j]);
        UNROLL
        for (size_t c = 0; c < many; c++)
            sum[c] = v_fma(w, t.load(&v[j * row_bytes + c * W * t.bytes]), sum[c]);
    }
    UNROLL
    for (size_t c = 0; c < many; c++) v_store(&acc[c * W], sum[c]);
}

INLINE void mix(stored t, const ph_attend *a, float *acc, float keep, const float *p, const unsigned char *v,
                size_t n) {
    size_t row_bytes = a->v_stride * t.bytes, e = 0, rest;
    for (; e + 4 * W <= a->dv; e += 4 * W) mix_some(t, 4, &acc[e], keep, p, &v[e * t.bytes], row_bytes, n);
    for (; e + W <= a->dv; e += W) mix_some(t, 1, &acc[e], keep, p, &v[e * t.bytes], row_bytes, n);
    rest = a->dv - e;
    if (!rest) return;
    vf sum = v_mul(v_load_n(&acc[e], rest), v_set1(keep));
    for (size_t j = 0; j < n; j++)
        sum = v_fma(v_set1(p[j]), t.load_n(&v[j * row_bytes + e * t.bytes], rest), sum);
    v_store_n(&acc[e], sum, rest);
}

INLINE void attend(stored t, const ph_attend *a) {
    for (size_t i = 0; i < a->n_q; i++) {
        if (a->hi[i] <= a->lo[i]) continue;
        size_t               lo = (size_t)a->lo[i], n = (size_t)a->hi[i] - lo;
        float               *s = &a->scratch[i * PH_ATTEND_KEYS];
        const unsigned char *k = (const unsigned char *)a->k + lo * a->k_stride * t.bytes;
        const unsigned char *v = (const unsigned char *)a->v + lo * a->v_stride * t.bytes;
        float                here = score(t, a, s, &a->q[i * a->q_stride], k, n);
        float                most = here > a->m[i] ? here : a->m[i];
        /* All masked so far: any finite reference gives weights of zero (and lets a NaN through). */
        float base = most > -INFINITY ? most : 0.0f, keep = first_lane(v_exp(v_set1(a->m[i] - base)));
        vf    sum = v_zero();
        for (size_t j = 0; j < n; j += W) {
            vf p = v_exp(v_sub(v_load(&s[j]), v_set1(base)));
            sum = v_add(sum, p);
            v_store(&s[j], p);
        }
        mix(t, a, &a->acc[i * a->dv], keep, s, v, n);
        a->l[i] = a->l[i] * keep + v_sum(sum);
        a->m[i] = most;
    }
}

static void attend_F32(const ph_attend *a) {
    attend((stored){v_load, v_load_n, sizeof(float)}, a);
}
static void attend_F16(const ph_attend *a) {
    attend((stored){v_load_f16, v_load_f16_n, sizeof(uint16_t)}, a);
}

#endif
