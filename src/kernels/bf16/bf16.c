/* bf16.c - attention of numbers rounded to bfloat16, with AVX-512 BF16: 32 products an instruction.
 *
 * vdpbf16ps adds two products to each of 16 sums in f32, so what is multiplied stands in pairs, a lane each:
 *
 *     keys        [d / 2][64]     two channels of a key
 *     queries     [12][d / 2]     two channels
 *     weights     [12][64 / 2]    two keys, where the scores stood
 *     values      [64 / 2][dv]    two keys' number of a channel
 *
 * Softmax and answers stay in f32 and are those of every set (lanes_weigh.h).  The instruction rounds to
 * nearest even and takes subnormal numbers for zero, whatever the thread's modes are.
 */
#include "kernels/isa.h"

#include "kernels/avx512/avx512_lanes.h"

#include <float.h>
#include <math.h>

#include "kernels/lanes/lanes_weigh.h"

enum { PAIRS_MAX = PH_ATTEND_ROUNDED_D / 2, VALUES = PH_ATTEND_KEYS / 2 };

/* Lane i: lo's number i as bfloat16, above it hi's. */
INLINE __m512i pairs_of(vf lo, vf hi) {
    const __m512i at = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                        22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(at, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
}

/* 32 numbers as bfloat16, in their order: 16 pairs. */
INLINE __m512i in_order(vf first_ones, vf last_ones) {
    return (__m512i)_mm512_cvtne2ps_pbh(last_ones, first_ones);
}

INLINE vf add_products(vf sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

INLINE vf some_of(const float *p, size_t n) {
    return n >= W ? v_load(p) : v_load_n(p, n);
}

/* A block of keys and values in pairs; keys [from, end), which all queries see, from: in whole vectors. */
typedef struct block {
    uint32_t *keys, *values;
    size_t    pairs, width; /* of channels; numbers of a row of values, in whole vectors */
    seen      x;
} block;

/* Behind the last key, and behind the last channel, stand zeros. */
static void pack_keys(const block *b, const ph_attend *a) {
    for (size_t j = b->x.from; j < b->x.end; j += W)
        for (size_t e = 0; e < a->d; e += W) {
            const float *k = (const float *)a->k + j * a->k_stride + e;
            const size_t keys = b->x.end - j, channels = a->d - e < W ? a->d - e : W;
            vf           v[W];
            UNROLL_ROWS
            for (size_t c = 0; c < W; c++)
                v[c] = c < keys ? some_of(&k[c * a->k_stride], channels) : v_zero();
            v_transpose(v);
            for (size_t c = 0; c < channels; c += 2)
                _mm512_storeu_si512(&b->keys[(e + c) / 2 * PH_ATTEND_KEYS + j], pairs_of(v[c], v[c + 1]));
        }
}

/* A row that is not seen is zero: what stands there may be no number, and meets a weight of zero. */
static void pack_values(const block *b, const ph_attend *a) {
    const size_t lo = (size_t)a->lo[0];
    for (size_t j = b->x.from; j < b->x.end; j += 2)
        for (size_t e = 0; e < a->dv; e += W) {
            const float *v = (const float *)a->v + j * a->v_stride + e;
            vf           even = j >= lo ? some_of(v, a->dv - e) : v_zero();
            vf odd = j + 1 >= lo && j + 1 < b->x.end ? some_of(v + a->v_stride, a->dv - e) : v_zero();
            _mm512_storeu_si512(&b->values[j / 2 * b->width + e], pairs_of(even, odd));
        }
}

/* Queries [i, i + n) to rows of PAIRS_MAX pairs. */
INLINE void pack_queries(uint32_t (*to)[PAIRS_MAX], const ph_attend *a, size_t i, size_t n) {
    for (size_t c = 0; c < n; c++)
        for (size_t e = 0; e < a->d; e += 2 * W) {
            const float *q = &a->q[(i + c) * a->q_stride + e];
            const size_t left = a->d - e;
            _mm512_storeu_si512(&to[c][e / 2],
                                in_order(some_of(q, left), left > W ? some_of(q + W, left - W) : v_zero()));
        }
}

/* Keys [j, j + many W) against `queries` (both constants): scores to s[.. , j - from ..]. */
INLINE void score_tile(const block *b, const ph_attend *a, size_t queries, size_t many, float *s,
                       uint32_t (*q)[PAIRS_MAX], size_t j) {
    const uint32_t *keys = &b->keys[j];
    vf              cap = v_set1(a->softcap), scale_by = v_set1(a->scale), sum[MANY][4];
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++) sum[i][c] = v_zero();
    }
    for (size_t e = 0; e < b->pairs; e++, keys += PH_ATTEND_KEYS) {
        __m512i y[4];
        UNROLL
        for (size_t c = 0; c < many; c++) y[c] = _mm512_loadu_si512(&keys[c * W]);
        UNROLL
        for (size_t i = 0; i < queries; i++) {
            __m512i x = _mm512_set1_epi32((int32_t)q[i][e]);
            UNROLL
            for (size_t c = 0; c < many; c++) sum[i][c] = add_products(sum[i][c], x, y[c]);
        }
    }
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++)
            v_store(&s[i * PH_ATTEND_KEYS + j - b->x.from + c * W], score_of(a, sum[i][c], scale_by, cap));
    }
}

INLINE void score_strip(const block *b, const ph_attend *a, size_t queries, float *s,
                        uint32_t (*q)[PAIRS_MAX]) {
    size_t j = b->x.from;
    for (; j + 4 * W <= b->x.end; j += 4 * W) score_tile(b, a, queries, 4, s, q, j);
    for (; j < b->x.end; j += W) score_tile(b, a, queries, 1, s, q, j);
}

/* Weights of n keys, in their row's place, as pairs. */
INLINE void pair_weights(float *s, size_t n) {
    for (size_t j = 0; j < n; j += 2 * W)
        _mm512_storeu_si512(&s[j / 2], in_order(v_load(&s[j]), j + W < n ? v_load(&s[j + W]) : v_zero()));
}

/* acc[i][0 .. left) += the weights times channels [e, e + many W) of the values; many: a constant. */
INLINE void mix_tile(const block *b, size_t queries, size_t many, float *acc, size_t dv, const float *s,
                     size_t e, size_t left) {
    const uint32_t *values = &b->values[b->x.from / 2 * b->width + e];
    vf              sum[MANY][4];
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++) sum[i][c] = some_of(&acc[i * dv + c * W], left - c * W);
    }
    for (size_t j = 0; j < (b->x.end - b->x.from + 1) / 2; j++, values += b->width) {
        __m512i y[4];
        UNROLL
        for (size_t c = 0; c < many; c++) y[c] = _mm512_loadu_si512(&values[c * W]);
        UNROLL
        for (size_t i = 0; i < queries; i++) {
            __m512i p = (__m512i)_mm512_set1_ps(s[i * PH_ATTEND_KEYS + j]);
            UNROLL
            for (size_t c = 0; c < many; c++) sum[i][c] = add_products(sum[i][c], p, y[c]);
        }
    }
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++)
            _mm512_mask_storeu_ps(&acc[i * dv + c * W], left - c * W >= W ? (vm)0xffff : first(left - c * W),
                                  sum[i][c]);
    }
}

INLINE void mix_strip(const block *b, const ph_attend *a, size_t queries, float *acc, const float *s) {
    size_t e = 0;
    for (; e + 4 * W <= a->dv; e += 4 * W) mix_tile(b, queries, 4, &acc[e], a->dv, s, e, a->dv - e);
    for (; e < a->dv; e += W) mix_tile(b, queries, 1, &acc[e], a->dv, s, e, a->dv - e);
}

/* Queries [i, i + n), n <= SOME. */
static void attend_some(const block *b, const ph_attend *a, size_t i, size_t n) {
    uint32_t q[SOME][PAIRS_MAX];
    seen     x[SOME];
    float   *s = a->scratch, *acc = &a->acc[i * a->dv];
    pack_queries(q, a, i, n);
    for (size_t c = 0, some; c < n; c += some) {
        some = strip_queries(1, n - c);
#define SCORE(queries) score_strip(b, a, queries, &s[c * PH_ATTEND_KEYS], &q[c])
        BY_QUERIES(some, SCORE);
#undef SCORE
    }
    for (size_t c = 0; c < n; c++) x[c] = b->x;
    weigh(a, i, n, s, x);
    for (size_t c = 0; c < n; c++) pair_weights(&s[c * PH_ATTEND_KEYS], keys_of(b->x));
    for (size_t c = 0, some; c < n; c += some) {
        some = strip_queries(1, n - c);
#define MIX(queries) mix_strip(b, a, queries, &acc[c * a->dv], &s[c * PH_ATTEND_KEYS])
        BY_QUERIES(some, MIX);
#undef MIX
    }
}

static void attend_rounded(const ph_attend *a) {
    if (!a->n_q || a->hi[0] <= a->lo[0]) return;
    block b = {
        .keys = (uint32_t *)(void *)a->keys, .pairs = (a->d + 1) / 2, .width = (a->dv + W - 1) / W * W};
    b.values = b.keys + b.pairs * PH_ATTEND_KEYS;
    b.x = (seen){.from = (size_t)a->lo[0] / W * W, .end = (size_t)a->hi[0]};
    pack_keys(&b, a);
    pack_values(&b, a);
    for (size_t i = 0; i < a->n_q; i += SOME) attend_some(&b, a, i, a->n_q - i < SOME ? a->n_q - i : SOME);
}

void ph_install_bf16(ph_kernels *k) {
    k->attend_rounded = attend_rounded;
}
