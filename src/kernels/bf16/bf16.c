/* bf16.c - attention of numbers rounded to bfloat16, with AVX-512 BF16: 32 products an instruction.
 *
 * vdpbf16ps adds two products to each of 16 sums in f32, so what is multiplied stands in pairs, a lane each:
 *
 *     queries     [n_q][d / 2]     two channels, once for all keys
 *     keys        [d / 2][128]     two channels of a key
 *     weights     [12][128 / 2]    two keys, where the scores stood
 *     values      [128 / 2][dv]    two keys' number of a channel
 *
 * Softmax and answers stay in f32 and are those of every set (lanes_weigh.h).  The instruction rounds to
 * nearest even and takes subnormal numbers for zero, whatever the thread's modes are.
 */
#include "kernels/isa.h"

#include "kernels/avx512/avx512_lanes.h"

#include <float.h>
#include <math.h>

#include "kernels/lanes/lanes_weigh.h"

/* Keys of a block where heads are narrow enough that it and its queries stay in the first-level cache; half
 * as many where they are not. */
enum { KEYS = 128, NARROW = 160 };

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

/* A block of keys and values in pairs, n keys that all queries see; all queries; scores of some. */
typedef struct block {
    uint32_t *keys, *values, *queries;
    float    *scores;         /* [SOME][KEYS] */
    size_t pairs, width, row; /* of channels; of a row of values; of a query: the last two in whole vectors */
    size_t n, most;           /* keys; at most, which is also from channel to channel */
} block;

static block block_in(const ph_attend *a) {
    block b = {.keys = (uint32_t *)(void *)a->keys,
               .pairs = (a->d + 1) / 2,
               .width = (a->dv + W - 1) / W * W,
               .most = a->d + a->dv > NARROW ? KEYS / 2 : KEYS};
    b.row = (b.pairs + W - 1) / W * W;
    b.values = b.keys + b.pairs * b.most;
    b.queries = b.values + b.width * b.most / 2;
    b.scores = (float *)(void *)(b.queries + a->n_q * b.row);
    return b;
}

/* Keys from k on; behind the last one, and behind the last channel, stand zeros. */
static void pack_keys(const block *b, const ph_attend *a, const float *k) {
    for (size_t j = 0; j < b->n; j += W, k += W * a->k_stride)
        for (size_t e = 0; e < a->d; e += W) {
            const size_t keys = b->n - j, channels = a->d - e < W ? a->d - e : W;
            vf           v[W];
            UNROLL_ROWS
            for (size_t c = 0; c < W; c++)
                v[c] = c < keys ? some_of(&k[c * a->k_stride + e], channels) : v_zero();
            v_transpose(v);
            for (size_t c = 0; c < channels; c += 2)
                _mm512_storeu_si512(&b->keys[(e + c) / 2 * b->most + j], pairs_of(v[c], v[c + 1]));
        }
}

static void pack_values(const block *b, const ph_attend *a, const float *v) {
    for (size_t j = 0; j < b->n; j += 2, v += 2 * a->v_stride)
        for (size_t e = 0; e < a->dv; e += W) {
            vf odd = j + 1 < b->n ? some_of(&v[a->v_stride + e], a->dv - e) : v_zero();
            _mm512_storeu_si512(&b->values[j / 2 * b->width + e], pairs_of(some_of(&v[e], a->dv - e), odd));
        }
}

static void pack_queries(const block *b, const ph_attend *a) {
    for (size_t i = 0; i < a->n_q; i++)
        for (size_t e = 0; e < a->d; e += 2 * W) {
            const float *q = &a->q[i * a->q_stride + e];
            const size_t left = a->d - e;
            _mm512_storeu_si512(&b->queries[i * b->row + e / 2],
                                in_order(some_of(q, left), left > W ? some_of(q + W, left - W) : v_zero()));
        }
}

/* Keys [j, j + many W) against `queries` (both constants) from q on: scores to s[.. , j ..]. */
INLINE void score_tile(const block *b, const ph_attend *a, size_t queries, size_t many, float *s,
                       const uint32_t *q, size_t j) {
    const uint32_t *keys = &b->keys[j];
    vf              cap = v_set1(a->softcap), scale_by = v_set1(a->scale), sum[MANY][4];
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++) sum[i][c] = v_zero();
    }
    for (size_t e = 0; e < b->pairs; e++, keys += b->most) {
        __m512i y[4];
        UNROLL
        for (size_t c = 0; c < many; c++) y[c] = _mm512_loadu_si512(&keys[c * W]);
        UNROLL
        for (size_t i = 0; i < queries; i++) {
            __m512i x = _mm512_set1_epi32((int32_t)q[i * b->row + e]);
            UNROLL
            for (size_t c = 0; c < many; c++) sum[i][c] = add_products(sum[i][c], x, y[c]);
        }
    }
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++)
            v_store(&s[i * KEYS + j + c * W], score_of(a, sum[i][c], scale_by, cap));
    }
}

INLINE void score_strip(const block *b, const ph_attend *a, size_t queries, float *s, const uint32_t *q) {
    size_t j = 0;
    for (; j + 4 * W <= b->n; j += 4 * W) score_tile(b, a, queries, 4, s, q, j);
    for (; j < b->n; j += W) score_tile(b, a, queries, 1, s, q, j);
}

/* e^(x - base) by 2^n 2^r, |r| <= 1/2, to 16 bits, of which bfloat16 keeps 8; 0 where it would be subnormal.
 * The difference comes first: rounded products of scores far from 0 are further apart than these. */
INLINE vf near_exp(vf x, float base) {
    static const float c[] = {1.0f, 0x1.62e12cp-1f, 0x1.ec0372p-3f, 0x1.c9fc80p-5f, 0x1.3a04c2p-7f};
    const float        log2_e = 0x1.715476p+0f;
    vf                 t = v_mul(v_sub(x, v_set1(base)), v_set1(log2_e)), n = v_round(t);
    __mmask16          is_seen = _mm512_cmp_ps_mask(t, v_set1(-126), _CMP_NLT_UQ); /* or no number */
    return _mm512_maskz_scalef_ps(is_seen, horner(c, 5, v_sub(t, n)), n);
}

/* Weights as pairs, where the first half of the scores stood. */
INLINE vf paired_weights(float *s, float base, size_t n) {
    vf sum = v_zero();
    for (size_t j = 0; j < n; j += 2 * W) {
        vf lo = near_exp(v_load(&s[j]), base), hi = j + W < n ? near_exp(v_load(&s[j + W]), base) : v_zero();
        _mm512_storeu_si512(&s[j / 2], in_order(lo, hi));
        sum = v_add(sum, v_add(lo, hi));
    }
    return sum;
}

/* acc[i][0 .. left) += the weights times channels [e, e + many W) of the values; many: a constant. */
INLINE void mix_tile(const block *b, size_t queries, size_t many, float *acc, size_t dv, const float *s,
                     size_t e, size_t left) {
    const uint32_t *values = &b->values[e];
    vf              sum[MANY][4];
    UNROLL
    for (size_t i = 0; i < queries; i++) {
        UNROLL
        for (size_t c = 0; c < many; c++) sum[i][c] = some_of(&acc[i * dv + c * W], left - c * W);
    }
    for (size_t j = 0; j < (b->n + 1) / 2; j++, values += b->width) {
        __m512i y[4];
        UNROLL
        for (size_t c = 0; c < many; c++) y[c] = _mm512_loadu_si512(&values[c * W]);
        UNROLL
        for (size_t i = 0; i < queries; i++) {
            __m512i p = (__m512i)_mm512_set1_ps(s[i * KEYS + j]);
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
    const uint32_t *q = &b->queries[i * b->row];
    float          *s = b->scores, *acc = &a->acc[i * a->dv];
    int32_t         lo[SOME] = {0}, hi[SOME];
    seen            x[SOME];
    ph_attend       some_q = *a; /* these queries, and keys counted from the block's first */
    some_q.acc = acc, some_q.m += i, some_q.l += i, some_q.lo = lo, some_q.hi = hi;
    for (size_t c = 0; c < n; c++) {
        hi[c] = (int32_t)b->n;
        x[c] = (seen){.end = b->n};
    }
    for (size_t c = 0, some; c < n; c += some) {
        some = strip_queries(1, n - c);
#define SCORE(queries) score_strip(b, a, queries, &s[c * KEYS], &q[c * b->row])
        BY_QUERIES(some, SCORE);
#undef SCORE
    }
    weigh(&some_q, 0, n, s, KEYS, x, paired_weights);
    for (size_t c = 0, some; c < n; c += some) {
        some = strip_queries(1, n - c);
#define MIX(queries) mix_strip(b, a, queries, &acc[c * a->dv], &s[c * KEYS])
        BY_QUERIES(some, MIX);
#undef MIX
    }
}

static void attend_rounded(const ph_attend *a) {
    if (!a->n_q || a->hi[0] <= a->lo[0]) return;
    block b = block_in(a);
    pack_queries(&b, a);
    for (size_t j = (size_t)a->lo[0], end = (size_t)a->hi[0]; j < end; j += b.n) {
        b.n = end - j < b.most ? end - j : b.most;
        pack_keys(&b, a, (const float *)a->k + j * a->k_stride);
        pack_values(&b, a, (const float *)a->v + j * a->v_stride);
        for (size_t i = 0; i < a->n_q; i += SOME)
            attend_some(&b, a, i, a->n_q - i < SOME ? a->n_q - i : SOME);
    }
}

void ph_install_bf16(ph_kernels *k) {
    k->attend_rounded = attend_rounded;
}
