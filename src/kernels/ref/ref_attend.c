/* ref_attend.c - one block of keys into the running (max, sum, weighted values) of each query.
 *
 *     m' = max(m, max_j s_j)     l' = l e^(m - m') + sum_j e^(s_j - m')
 *                              acc' = acc e^(m - m') + sum_j e^(s_j - m') v_j
 *
 * Source: arXiv:1805.02867, algorithm 3, a block at a time.
 */
#include "kernels/ref/ref.h"
#include "tensor/half.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef float ph_load(const void *base, size_t i); /* element i of keys or values */

static float load_F32(const void *base, size_t i) {
    float f;
    memcpy(&f, (const unsigned char *)base + i * sizeof f, sizeof f);
    return f;
}
static float load_F16(const void *base, size_t i) {
    return ph_f16_load((const unsigned char *)base + i * 2);
}
static float load_BF16(const void *base, size_t i) {
    uint16_t h;
    memcpy(&h, (const unsigned char *)base + i * sizeof h, sizeof h);
    return ph_bf16_to_f32(h);
}
static float load_Q8_0(const void *base, size_t i) {
    const unsigned char *b = (const unsigned char *)base + i / 32 * 34;
    return ph_f16_load(b) * (float)(int8_t)b[2 + i % 32];
}
static float load_Q4_1(const void *base, size_t i) {
    const unsigned char *b = (const unsigned char *)base + i / 32 * 20;
    return ph_f16_load(b) * (float)(b[4 + i % 16] >> (i % 32 < 16 ? 0 : 4) & 15) + ph_f16_load(b + 2);
}

static float rounded(float x) {
    return ph_bf16_to_f32(ph_f32_to_bf16(x));
}
static float load_rounded(const void *base, size_t i) {
    return rounded(load_F32(base, i));
}

/* How keys and values are stored; by_channel: keys are [d, keys]; is_rounded: queries and weights, too. */
typedef struct stored {
    ph_load *load;
    int      by_channel, is_rounded;
} stored;

static float key(const ph_attend *a, stored t, size_t j, size_t e) {
    return t.load(a->k, t.by_channel ? e * a->k_stride + j : j * a->k_stride + e);
}

/* Scores of query i and n keys from lo on into s[]; returns the largest (-inf: none, or all masked). */
static float score(const ph_attend *a, stored t, size_t i, size_t lo, size_t n, float *s) {
    float most = -INFINITY;
    for (size_t j = 0; j < n; j++) {
        double sum = 0;
        for (size_t e = 0; e < a->d; e++) {
            float q = a->q[i * a->q_stride + e];
            sum += (double)(t.is_rounded ? rounded(q) : q) * (double)key(a, t, lo + j, e);
        }
        sum *= (double)a->scale;
        if (a->softcap > 0) sum = (double)a->softcap * tanh(sum / (double)a->softcap);
        s[j] = (float)sum;
        if (s[j] > most) most = s[j];
    }
    return most;
}

/* Query i and n keys from lo on, at least one. */
static void absorb_block(const ph_attend *a, stored t, size_t i, size_t lo, size_t n) {
    float *s = &a->scratch[i * PH_ATTEND_KEYS], *acc = &a->acc[i * a->dv];
    float  most = fmaxf(a->m[i], score(a, t, i, lo, n, s));
    /* All masked so far: any finite reference gives weights of zero (and lets a NaN through). */
    double base = most > -INFINITY ? (double)most : 0.0, keep = exp((double)a->m[i] - base), sum = 0;
    for (size_t j = 0; j < n; j++) {
        s[j] = (float)exp((double)s[j] - base);
        if (s[j] < FLT_MIN) s[j] = 0;
        sum += (double)s[j];
        if (t.is_rounded) s[j] = rounded(s[j]);
    }
    for (size_t e = 0; e < a->dv; e++) {
        double v = (double)acc[e] * keep;
        for (size_t j = 0; j < n; j++) v += (double)s[j] * (double)t.load(a->v, (lo + j) * a->v_stride + e);
        acc[e] = (float)v;
    }
    a->l[i] = (float)((double)a->l[i] * keep + sum);
    a->m[i] = most;
}

static void absorb(const ph_attend *a, stored t, size_t i) {
    for (int32_t lo = a->lo[i], n; lo < a->hi[i]; lo += n) {
        n = a->hi[i] - lo < PH_ATTEND_KEYS ? a->hi[i] - lo : PH_ATTEND_KEYS;
        absorb_block(a, t, i, (size_t)lo, (size_t)n);
    }
}

#define ATTEND(T, by_channel)                                                                                \
    void ph_ref_attend_##T(const ph_attend *a) {                                                             \
        for (size_t i = 0; i < a->n_q; i++) absorb(a, (stored){load_##T, by_channel, 0}, i);                 \
    }
ATTEND(F32, 1)
ATTEND(F16, 1)
ATTEND(BF16, 1)
ATTEND(Q8_0, 0)
ATTEND(Q4_1, 1)

void ph_ref_attend_rows(const ph_attend *a) {
    for (size_t i = 0; i < a->n_q; i++) absorb(a, (stored){load_F32, 0, 0}, i);
}

void ph_ref_attend_rounded(const ph_attend *a) {
    for (size_t i = 0; i < a->n_q; i++) absorb(a, (stored){load_rounded, 0, 1}, i);
}
