/* float8.h - floats of eight bits to and from float: E4M3 (sign, 4 of exponent, 3 of fraction) and E5M2.
 *
 * E4M3 here is the field's "e4m3fn": it has no infinity, and its largest pattern
 * is the one NaN; its largest number is 448.  E5M2 is the upper half of binary16,
 * infinities included; its largest number is 57344.  Rounding is to nearest, ties
 * to even, in one step from 32 bits.  What rounds past the largest number becomes
 * NaN in E4M3 and infinity in E5M2, as PyTorch has it; a NaN stays one.
 *
 * Source: arXiv:2209.05433; github.com/pytorch/pytorch c10/util/Float8_e4m3fn.h for overflow.
 */
#ifndef PH_TENSOR_FLOAT8_H
#define PH_TENSOR_FLOAT8_H

#include "tensor/half.h"

/* A magnitude (bits of a float without its sign) to `fraction` bits under an exponent bias, as if the narrow
 * exponent had no end. */
static inline uint32_t ph_float8_narrow(uint32_t magnitude, unsigned fraction, unsigned bias) {
    unsigned lost = 23 - fraction;
    if (magnitude >= (128 - bias) << 23) /* normal; NaN becomes large too */
        return (magnitude + (1u << (lost - 1)) - 1 + (magnitude >> lost & 1) - ((127 - bias) << 23)) >> lost;
    /* Subnormal: below the sum's last place nothing is kept, and that place is the narrow type's. */
    float ruler = ph_float_of_bits((128 - bias + lost) << 23);
    return ph_float_bits(ph_float_of_bits(magnitude) + ruler) - ph_float_bits(ruler);
}

static inline uint8_t ph_f32_to_e4m3(float f) {
    uint32_t bits = ph_float_bits(f), code = ph_float8_narrow(bits & 0x7fffffffu, 3, 7);
    return (uint8_t)((bits >> 24 & 0x80) | (code < 0x7f ? code : 0x7f));
}

static inline float ph_e4m3_to_f32(uint8_t v) {
    uint32_t sign = (uint32_t)(v & 0x80) << 24, rest = v & 0x7f;
    if (rest == 0x7f) return ph_float_of_bits(sign | 0x7fc00000u);
    if (rest >= 8) return ph_float_of_bits(sign | ((rest << 20) + (120u << 23)));
    return ph_float_of_bits(sign | ph_float_bits((float)rest * 0x1p-9f));
}

static inline uint8_t ph_f32_to_e5m2(float f) {
    uint32_t bits = ph_float_bits(f), rest = bits & 0x7fffffffu, code = ph_float8_narrow(rest, 2, 15);
    if (code > 0x7c) code = rest > 0x7f800000u ? 0x7f : 0x7c;
    return (uint8_t)((bits >> 24 & 0x80) | code);
}

static inline float ph_e5m2_to_f32(uint8_t v) {
    return ph_f16_to_f32((uint16_t)(v << 8));
}

#endif
