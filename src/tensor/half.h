/* half.h - binary16 and bfloat16 to and from float, by bits.
 *
 * Used where no instruction does it: the definition for every kernel.  Both
 * directions keep infinities, signed zeros and subnormals; to the narrow type
 * the rounding is to nearest, ties to even; a NaN stays a NaN, made quiet, with
 * the payload bits that fit.
 *
 * Source: IEEE 754-2008 §3.6; bfloat16 is the upper half of binary32.
 */
#ifndef PH_TENSOR_HALF_H
#define PH_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline float ph_float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t ph_float_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float ph_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1fu, fraction = h & 0x3ffu;
    if (exponent == 0x1f) return ph_float_of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent) return ph_float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    /* Subnormal: the fraction counts steps of 2^-24, and both factors are exact. */
    float magnitude = (float)fraction * 0x1p-24f;
    return ph_float_of_bits(sign | ph_float_bits(magnitude));
}

static inline uint16_t ph_f32_to_f16(float f) {
    uint32_t bits = ph_float_bits(f), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 on the nearest is infinity */
    if (rest >= 0x38800000u) {                                  /* normal: 2^-14 and above */
        rest += 0xfffu + (rest >> 13 & 1);
        return (uint16_t)(sign | (rest - 0x38000000u) >> 13);
    }
    if (rest <= 0x33000000u) return (uint16_t)sign; /* up to 2^-25, the tie included, the nearest is zero */
    uint32_t shift = 126u - (rest >> 23), fraction = (rest & 0x7fffffu) | 0x800000u; /* 14 .. 24 */
    uint32_t kept = fraction >> shift, lost = fraction & ((1u << shift) - 1), half = 1u << (shift - 1);
    kept += lost > half || (lost == half && (kept & 1));
    return (uint16_t)(sign | kept);
}

static inline float ph_bf16_to_f32(uint16_t h) {
    return ph_float_of_bits((uint32_t)h << 16);
}

static inline uint16_t ph_f32_to_bf16(float f) {
    uint32_t bits = ph_float_bits(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* The same from and to unaligned little-endian bytes, as blocks store their scales. */
static inline float ph_f16_load(const uint8_t *p) {
    return ph_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

static inline void ph_f16_store(uint8_t *p, float f) {
    uint16_t h = ph_f32_to_f16(f);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

#endif
