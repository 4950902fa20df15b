/* avx512_lanes.h - the vocabulary of lanes/lanes.h in AVX-512: 16 lanes, masks for every tail. */
#ifndef PH_KERNELS_AVX512_AVX512_LANES_H
#define PH_KERNELS_AVX512_AVX512_LANES_H

#include "kernels/inline.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { W = 16, TILE_ROWS = 3, TILE_COLS = 8 }; /* 24 sums + 3 x + 1 w of 32 registers */

typedef __m512    vf;
typedef __mmask16 vm;
typedef struct vd {
    __m512d lo, hi;
} vd;

static inline vm first(size_t n) {
    return (vm)((1u << n) - 1u);
}

static inline vf v_zero(void) {
    return _mm512_setzero_ps();
}
static inline vf v_set1(float a) {
    return _mm512_set1_ps(a);
}
static inline vf v_load(const void *p) {
    return _mm512_loadu_ps(p);
}
static inline vf v_load_n(const void *p, size_t n) {
    return _mm512_maskz_loadu_ps(first(n), p);
}
static inline void v_store(float *p, vf a) {
    _mm512_storeu_ps(p, a);
}
static inline void v_store_n(float *p, vf a, size_t n) {
    _mm512_mask_storeu_ps(p, first(n), a);
}
static inline vf v_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
static inline vf v_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf v_abs(vf a) {
    return _mm512_abs_ps(a);
}
static inline vf v_like(vf a, vf sign) {
    return _mm512_or_ps(a, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}
/* The instruction hands on its second operand when either is NaN. */
static inline vf v_atleast(float bound, vf a) {
    return _mm512_max_ps(_mm512_set1_ps(bound), a);
}
static inline vf v_atmost(float bound, vf a) {
    return _mm512_min_ps(_mm512_set1_ps(bound), a);
}
static inline vf v_maxnum(vf a, vf most) {
    return _mm512_max_ps(a, most);
}
static inline vf v_round(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf v_ldexp(vf a, vf n) {
    return _mm512_scalef_ps(a, n);
}
static inline vm v_less(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
static inline vm v_same(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
static inline int v_any(vm m) {
    return m != 0;
}
static inline vf v_pick(vm m, vf yes, vf no) {
    return _mm512_mask_blend_ps(m, no, yes);
}

/* Of each four lanes (0 + 2) + (1 + 3), then of the four fours (0 + 1) + (2 + 3). */
static inline float v_sum(vf a) {
    a = _mm512_add_ps(a, _mm512_permute_ps(a, 0x4e));
    a = _mm512_add_ps(a, _mm512_permute_ps(a, 0xb1));
    a = _mm512_add_ps(a, _mm512_shuffle_f32x4(a, a, 0xb1));
    return _mm512_cvtss_f32(_mm512_add_ps(a, _mm512_shuffle_f32x4(a, a, 0x4e)));
}
static inline vf low_ones(vf a, vf b) {
    return _mm512_unpacklo_ps(a, b);
}
static inline vf high_ones(vf a, vf b) {
    return _mm512_unpackhi_ps(a, b);
}
static inline vf low_twos(vf a, vf b) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
static inline vf high_twos(vf a, vf b) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
#include "kernels/lanes/lanes_unpack.h"
static inline vf add_quarters(vf a, vf b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
static inline vf v_sums(const vf a[W]) {
    vf u[4];
    for (int i = 0; i < 4; i++)
        u[i] = add_twos(add_pairs(a[4 * i], a[4 * i + 1]), add_pairs(a[4 * i + 2], a[4 * i + 3]));
    return add_quarters(add_quarters(u[0], u[1]), add_quarters(u[2], u[3]));
}
static inline void v_transpose(vf a[W]) {
    vf u[W];
    transpose_fours(u, a);
    UNROLL
    for (int c = 0; c < 4; c++) {
        vf even = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88),
           odd = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xdd);
        vf more = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);
        vf most = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xdd);
        a[c] = _mm512_shuffle_f32x4(even, more, 0x88), a[4 + c] = _mm512_shuffle_f32x4(odd, most, 0x88);
        a[8 + c] = _mm512_shuffle_f32x4(even, more, 0xdd), a[12 + c] = _mm512_shuffle_f32x4(odd, most, 0xdd);
    }
}
static inline float v_largest(vf a) {
    return _mm512_reduce_max_ps(a);
}

static inline vd vd_zero(void) {
    return (vd){_mm512_setzero_pd(), _mm512_setzero_pd()};
}
static inline __m512d low(vf a) {
    return _mm512_cvtps_pd(_mm512_castps512_ps256(a));
}
static inline __m512d high(vf a) {
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
}
static inline vd vd_add(vd s, vf a) {
    return (vd){_mm512_add_pd(s.lo, low(a)), _mm512_add_pd(s.hi, high(a))};
}
static inline vd vd_add_square(vd s, vf a) {
    __m512d lo = low(a), hi = high(a);
    return (vd){_mm512_fmadd_pd(lo, lo, s.lo), _mm512_fmadd_pd(hi, hi, s.hi)};
}
static inline double vd_sum(vd s) {
    double t[8];
    _mm512_storeu_pd(t, _mm512_add_pd(s.lo, s.hi));
    return ((t[0] + t[4]) + (t[1] + t[5])) + ((t[2] + t[6]) + (t[3] + t[7]));
}
/* vd_sum of eight, by the same additions. */
static inline __m512d vd_sums(const vd a[8]) {
    const __m512i at = _mm512_setr_epi64(0, 2, 1, 3, 4, 6, 5, 7);
    __m512d       s[8], t[4], u[2];
    for (int i = 0; i < 8; i++) s[i] = _mm512_add_pd(a[i].lo, a[i].hi);
    for (int i = 0; i < 4; i++)
        t[i] = _mm512_add_pd(_mm512_shuffle_f64x2(s[2 * i], s[2 * i + 1], 0x44),
                             _mm512_shuffle_f64x2(s[2 * i], s[2 * i + 1], 0xee));
    for (int i = 0; i < 2; i++)
        u[i] = _mm512_add_pd(_mm512_unpacklo_pd(t[2 * i], t[2 * i + 1]),
                             _mm512_unpackhi_pd(t[2 * i], t[2 * i + 1]));
    return _mm512_permutexvar_pd(
        at, _mm512_add_pd(_mm512_shuffle_f64x2(u[0], u[1], 0x88), _mm512_shuffle_f64x2(u[0], u[1], 0xdd)));
}
static inline __m256 rms_of(const vd a[8], double n, double eps) {
    __m512d mean = _mm512_add_pd(_mm512_div_pd(vd_sums(a), _mm512_set1_pd(n)), _mm512_set1_pd(eps));
    return _mm512_cvtpd_ps(_mm512_div_pd(_mm512_set1_pd(1), _mm512_sqrt_pd(mean)));
}
static inline vf v_rms(const vd a[W], double n, double eps) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(rms_of(a, n, eps)), rms_of(a + 8, n, eps), 1);
}

static inline vf v_load_f16(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
static inline vf v_load_f16_n(const void *p, size_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
}
static inline void v_store_f16(void *p, vf a) {
    _mm256_storeu_si256(p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void v_store_f16_n(void *p, vf a, size_t n) {
    __m256i h = _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(p, first(n), h);
}
static inline vf of_bf16(__m256i h) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
static inline vf v_load_bf16(const void *p) {
    return of_bf16(_mm256_loadu_si256(p));
}
static inline vf v_load_bf16_n(const void *p, size_t n) {
    return of_bf16(_mm256_maskz_loadu_epi16(first(n), p));
}
static inline vf v_load_i8(const void *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}
static inline vf v_load_field(const void *p, int shift, int mask) {
    __m512i u = _mm512_cvtepu8_epi32(_mm_loadu_si128(p));
    return _mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srli_epi32(u, (unsigned)shift), _mm512_set1_epi32(mask)));
}
static inline float f16_scalar(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return _cvtsh_ss(h);
}

static inline vf v_once(vf a) {
    __asm__("" : "+v"(a));
    return a;
}
static inline vf v_twice(const float *p) {
    __m512i at = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(at, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
}
static inline vf v_swap(vf a) {
    return _mm512_permute_ps(a, 0xb1);
}
static inline vf v_negate_even(vf a) {
    __m512 sign = _mm512_castsi512_ps(_mm512_set1_epi64(0x80000000ll));
    return _mm512_xor_ps(a, sign);
}

#endif
