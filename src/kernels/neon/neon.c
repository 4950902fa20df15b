/* neon.c - the vocabulary of lanes/lanes.h in AArch64 Advanced SIMD: 4 lanes.
 *
 * One exported symbol: ph_install_neon.  The kernels themselves stand in lanes/.
 * There are no masked accesses here, so every tail goes through a padded copy.
 */
#include "kernels/isa.h"

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

enum { W = 4, TILE_ROWS = 3, TILE_COLS = 8 }; /* 24 sums + 3 x + 1 w of 32 registers */

typedef float32x4_t vf;
typedef uint32x4_t  vm;
typedef struct vd {
    float64x2_t lo, hi;
} vd;

static inline vf v_zero(void) {
    return vdupq_n_f32(0);
}
static inline vf v_set1(float a) {
    return vdupq_n_f32(a);
}
static inline vf v_load(const void *p) { /* by bytes: weights stand at any address */
    return vreinterpretq_f32_u8(vld1q_u8(p));
}
static inline vf v_load_n(const void *p, size_t n) {
    float t[W] = {0};
    memcpy(t, p, n * sizeof *t);
    return vld1q_f32(t);
}
static inline void v_store(float *p, vf a) {
    vst1q_f32(p, a);
}
static inline void v_store_n(float *p, vf a, size_t n) {
    float t[W];
    vst1q_f32(t, a);
    memcpy(p, t, n * sizeof *t);
}
static inline vf v_add(vf a, vf b) {
    return vaddq_f32(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return vsubq_f32(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return vmulq_f32(a, b);
}
static inline vf v_div(vf a, vf b) {
    return vdivq_f32(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return vfmaq_f32(c, a, b);
}
static inline vf v_abs(vf a) {
    return vabsq_f32(a);
}
static inline vf v_like(vf a, vf sign) {
    uint32x4_t bit = vandq_u32(vreinterpretq_u32_f32(sign), vdupq_n_u32(0x80000000u));
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(a), bit));
}
/* FMAX and FMIN hand on a NaN. */
static inline vf v_atleast(float bound, vf a) {
    return vmaxq_f32(vdupq_n_f32(bound), a);
}
static inline vf v_atmost(float bound, vf a) {
    return vminq_f32(vdupq_n_f32(bound), a);
}
static inline vf v_maxnum(vf a, vf most) {
    return vbslq_f32(vcgtq_f32(a, most), a, most); /* FMAXNM would answer a signalling NaN with a NaN */
}
static inline vf v_round(vf a) {
    return vrndnq_f32(a);
}
/* In two steps, so that results beyond the normal range still round once, at the end. */
static inline vf v_ldexp(vf a, vf n) {
    int32x4_t all = vcvtq_s32_f32(n), half = vshrq_n_s32(all, 1), bias = vdupq_n_s32(127);
    int32x4_t one = vshlq_n_s32(vaddq_s32(half, bias), 23);
    int32x4_t two = vshlq_n_s32(vaddq_s32(vsubq_s32(all, half), bias), 23);
    return vmulq_f32(vmulq_f32(a, vreinterpretq_f32_s32(one)), vreinterpretq_f32_s32(two));
}
static inline vm v_less(vf a, vf b) {
    return vcltq_f32(a, b);
}
static inline vm v_same(vf a, vf b) {
    return vceqq_f32(a, b);
}
static inline int v_any(vm m) {
    return vmaxvq_u32(m) != 0;
}
static inline vf v_pick(vm m, vf yes, vf no) {
    return vbslq_f32(m, yes, no);
}

/* (lane 0 + lane 1) + (lane 2 + lane 3). */
static inline float v_sum(vf a) {
    vf pairs = vpaddq_f32(a, a);
    return vgetq_lane_f32(pairs, 0) + vgetq_lane_f32(pairs, 1);
}
static inline vf v_sums(const vf a[W]) {
    return vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3]));
}
static inline vf pair_of(vf a, vf b, int high) {
    float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
    return vreinterpretq_f32_f64(high ? vtrn2q_f64(x, y) : vtrn1q_f64(x, y));
}
static inline void v_transpose(vf a[W]) {
    vf t0 = vtrn1q_f32(a[0], a[1]), t1 = vtrn2q_f32(a[0], a[1]);
    vf u0 = vtrn1q_f32(a[2], a[3]), u1 = vtrn2q_f32(a[2], a[3]);
    a[0] = pair_of(t0, u0, 0), a[1] = pair_of(t1, u1, 0);
    a[2] = pair_of(t0, u0, 1), a[3] = pair_of(t1, u1, 1);
}
static inline float v_largest(vf a) {
    return vmaxnmvq_f32(a);
}

static inline vd vd_zero(void) {
    return (vd){vdupq_n_f64(0), vdupq_n_f64(0)};
}
static inline vd vd_add(vd s, vf a) {
    return (vd){vaddq_f64(s.lo, vcvt_f64_f32(vget_low_f32(a))), vaddq_f64(s.hi, vcvt_high_f64_f32(a))};
}
static inline vd vd_add_square(vd s, vf a) {
    float64x2_t lo = vcvt_f64_f32(vget_low_f32(a)), hi = vcvt_high_f64_f32(a);
    return (vd){vfmaq_f64(s.lo, lo, lo), vfmaq_f64(s.hi, hi, hi)};
}
static inline double vd_sum(vd s) {
    float64x2_t t = vaddq_f64(s.lo, s.hi);
    return vgetq_lane_f64(t, 0) + vgetq_lane_f64(t, 1);
}
static inline float64x2_t rms_of(const vd a[2], double n, double eps) {
    float64x2_t sum = vsetq_lane_f64(vd_sum(a[1]), vdupq_n_f64(vd_sum(a[0])), 1);
    float64x2_t mean = vaddq_f64(vdivq_f64(sum, vdupq_n_f64(n)), vdupq_n_f64(eps));
    return vdivq_f64(vdupq_n_f64(1), vsqrtq_f64(mean));
}
static inline vf v_rms(const vd a[W], double n, double eps) {
    return vcvt_high_f32_f64(vcvt_f32_f64(rms_of(a, n, eps)), rms_of(a + 2, n, eps));
}

static inline vf v_load_f16(const void *p) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
static inline void v_store_f16(void *p, vf a) {
    vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(a)));
}
static inline vf v_load_bf16(const void *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}
#include "kernels/lanes/lanes_tail.h"
static inline uint8x8_t four_bytes(const void *p) {
    uint32_t t;
    memcpy(&t, p, sizeof t);
    return vreinterpret_u8_u32(vdup_n_u32(t));
}
static inline vf v_load_i8(const void *p) {
    int16x8_t h = vmovl_s8(vreinterpret_s8_u8(four_bytes(p)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(h)));
}
static inline vf v_load_field(const void *p, int shift, int mask) {
    uint32x4_t u = vmovl_u16(vget_low_u16(vmovl_u8(four_bytes(p))));
    return vcvtq_f32_u32(vandq_u32(vshlq_u32(u, vdupq_n_s32(-shift)), vdupq_n_u32((uint32_t)mask)));
}
static inline float f16_scalar(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}

static inline vf v_once(vf a) {
    __asm__("" : "+w"(a));
    return a;
}
static inline vf v_twice(const float *p) {
    float32x2_t a = vld1_f32(p);
    return vcombine_f32(vdup_lane_f32(a, 0), vdup_lane_f32(a, 1));
}
static inline vf v_swap(vf a) {
    return vrev64q_f32(a);
}
static inline vf v_negate_even(vf a) {
    uint64x2_t sign = vdupq_n_u64(0x80000000u);
    return vreinterpretq_f32_u64(veorq_u64(vreinterpretq_u64_f32(a), sign));
}

#include "kernels/lanes/lanes.h"

void ph_install_neon(ph_kernels *k) {
    install(k);
}
