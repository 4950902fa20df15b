/* avx2.c - the vocabulary of lanes/lanes.h in AVX2 with FMA and F16C: 8 lanes.
 *
 * One exported symbol: ph_install_avx2.  The kernels themselves stand in lanes/.
 * Floats have masked loads; narrower tails go through a padded copy.
 */
#include "kernels/inline.h"
#include "kernels/isa.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { W = 8, TILE_ROWS = 3, TILE_COLS = 4 }; /* 12 sums + 3 x + 1 w of 16 registers */

typedef __m256 vf;
typedef __m256 vm;
typedef struct vd {
    __m256d lo, hi;
} vd;

static inline __m256i first(size_t n) {
    static const int32_t on[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)&on[8 - n]);
}

static inline vf v_zero(void) {
    return _mm256_setzero_ps();
}
static inline vf v_set1(float a) {
    return _mm256_set1_ps(a);
}
static inline vf v_load(const void *p) {
    return _mm256_loadu_ps(p);
}
static inline vf v_load_n(const void *p, size_t n) {
    return _mm256_maskload_ps(p, first(n));
}
static inline void v_store(float *p, vf a) {
    _mm256_storeu_ps(p, a);
}
static inline void v_store_n(float *p, vf a, size_t n) {
    _mm256_maskstore_ps(p, first(n), a);
}
static inline vf v_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
static inline vf v_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline vf v_abs(vf a) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
static inline vf v_like(vf a, vf sign) {
    return _mm256_or_ps(a, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
}
/* The instruction hands on its second operand when either is NaN. */
static inline vf v_atleast(float bound, vf a) {
    return _mm256_max_ps(_mm256_set1_ps(bound), a);
}
static inline vf v_atmost(float bound, vf a) {
    return _mm256_min_ps(_mm256_set1_ps(bound), a);
}
static inline vf v_maxnum(vf a, vf most) {
    return _mm256_max_ps(a, most);
}
static inline vf v_round(vf a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* In two steps, so that results beyond the normal range still round once, at the end. */
static inline vf v_ldexp(vf a, vf n) {
    __m256i all = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(all, 1), bias = _mm256_set1_epi32(127);
    __m256i one = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i two = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(all, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(one)), _mm256_castsi256_ps(two));
}
static inline vm v_less(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
static inline vm v_same(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
static inline int v_any(vm m) {
    return _mm256_movemask_ps(m) != 0;
}
static inline vf v_pick(vm m, vf yes, vf no) {
    return _mm256_blendv_ps(no, yes, m);
}

/* Of each four lanes (0 + 2) + (1 + 3), then the two fours. */
static inline float v_sum(vf a) {
    a = _mm256_add_ps(a, _mm256_permute_ps(a, 0x4e));
    a = _mm256_add_ps(a, _mm256_permute_ps(a, 0xb1));
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)));
}
static inline vf low_ones(vf a, vf b) {
    return _mm256_unpacklo_ps(a, b);
}
static inline vf high_ones(vf a, vf b) {
    return _mm256_unpackhi_ps(a, b);
}
static inline vf low_twos(vf a, vf b) {
    return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
static inline vf high_twos(vf a, vf b) {
    return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
#include "kernels/lanes/lanes_unpack.h"
static inline vf v_sums(const vf a[W]) {
    vf u = add_twos(add_pairs(a[0], a[1]), add_pairs(a[2], a[3]));
    vf v = add_twos(add_pairs(a[4], a[5]), add_pairs(a[6], a[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(u, v, 0x20), _mm256_permute2f128_ps(u, v, 0x31));
}
static inline void v_transpose(vf a[W]) {
    vf u[W];
    transpose_fours(u, a);
    UNROLL
    for (int c = 0; c < 4; c++) {
        a[c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
        a[4 + c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
    }
}
static inline float v_largest(vf a) {
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

static inline vd vd_zero(void) {
    return (vd){_mm256_setzero_pd(), _mm256_setzero_pd()};
}
static inline __m256d low(vf a) {
    return _mm256_cvtps_pd(_mm256_castps256_ps128(a));
}
static inline __m256d high(vf a) {
    return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
}
static inline vd vd_add(vd s, vf a) {
    return (vd){_mm256_add_pd(s.lo, low(a)), _mm256_add_pd(s.hi, high(a))};
}
static inline vd vd_add_square(vd s, vf a) {
    __m256d lo = low(a), hi = high(a);
    return (vd){_mm256_fmadd_pd(lo, lo, s.lo), _mm256_fmadd_pd(hi, hi, s.hi)};
}
static inline double vd_sum(vd s) {
    double t[4];
    _mm256_storeu_pd(t, _mm256_add_pd(s.lo, s.hi));
    return (t[0] + t[2]) + (t[1] + t[3]);
}
static inline __m128 rms_of(const vd a[4], double n, double eps) {
    __m256d sum = _mm256_setr_pd(vd_sum(a[0]), vd_sum(a[1]), vd_sum(a[2]), vd_sum(a[3]));
    __m256d mean = _mm256_add_pd(_mm256_div_pd(sum, _mm256_set1_pd(n)), _mm256_set1_pd(eps));
    return _mm256_cvtpd_ps(_mm256_div_pd(_mm256_set1_pd(1), _mm256_sqrt_pd(mean)));
}
static inline vf v_rms(const vd a[W], double n, double eps) {
    return _mm256_set_m128(rms_of(a + 4, n, eps), rms_of(a, n, eps));
}

static inline vf v_load_f16(const void *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
static inline void v_store_f16(void *p, vf a) {
    _mm_storeu_si128(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vf v_load_bf16(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
#include "kernels/lanes/lanes_tail.h"
static inline vf v_load_i8(const void *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}
static inline vf v_load_field(const void *p, int shift, int mask) {
    __m256i u = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(u, shift), _mm256_set1_epi32(mask)));
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
    __m256 a = _mm256_castps128_ps256(_mm_loadu_ps(p));
    return _mm256_permutevar8x32_ps(a, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}
static inline vf v_swap(vf a) {
    return _mm256_permute_ps(a, 0xb1);
}
static inline vf v_negate_even(vf a) {
    return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi64x(0x80000000ll)));
}

#include "kernels/lanes/lanes.h"

void ph_install_avx2(ph_kernels *k) {
    install(k);
}
