/* mxfp4.c - 32 numbers of four bits (sign, two of exponent, one of fraction) under one power of two.
 *
 *     u8 e, u8 q[16]           x = 2^(e - 128) level[q];  byte i holds element i low, i + 16 high
 *
 * Levels are twice E2M1's own (0, 1/2, 1, 3/2, 2, 3, 4, 6), hence 128 and not 127.
 * Packing: the exponent of the largest magnitude less 2, as the OCP specification
 * has it, then the nearest level of the reference's order, the first among equals.
 * Source: OCP Microscaling Formats 1.0; GGUF block type 39.
 */
#include "tensor/dtype.h"
#include "tensor/fp4.h"
#include "tensor/half.h"

#include <float.h>
#include <math.h>

enum { BLOCK = 32, HALF = 16, BYTES = 17 };

const int8_t ph_fp4_level[PH_FP4_LEVELS] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* 2^(e - 128); below the normal range as a subnormal. */
static float power(unsigned e) {
    return ph_float_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = power(p[0]);
        for (size_t i = 0; i < HALF; i++) {
            out[i] = d * (float)ph_fp4_level[p[1 + i] & 15];
            out[i + HALF] = d * (float)ph_fp4_level[p[1 + i] >> 4];
        }
    }
}

unsigned ph_fp4_nearest(float x, float d) {
    unsigned best = 0;
    float    least = fabsf(x);
    for (unsigned q = 1; q < PH_FP4_LEVELS; q++) {
        float miss = fabsf(d * (float)ph_fp4_level[q] - x);
        if (miss < least) least = miss, best = q;
    }
    return best;
}

static unsigned exponent_of(float most) {
    if (!(most > 0)) return 0;
    int e = (int)floorf(log2f(most)) - 2 + 127;
    return e > 0 ? (e < 254 ? (unsigned)e : 254) : 0;
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, in += BLOCK) {
        float most = 0;
        for (size_t i = 0; i < BLOCK; i++)
            if (fabsf(in[i]) > most) most = fabsf(in[i]);
        unsigned e = exponent_of(most < FLT_MAX ? most : FLT_MAX);
        float    d = power(e);
        p[0] = (uint8_t)e;
        for (size_t i = 0; i < HALF; i++)
            p[1 + i] = (uint8_t)(ph_fp4_nearest(in[i], d) | ph_fp4_nearest(in[i + HALF], d) << 4);
    }
}

const ph_dtype_def ph_dtype_MXFP4 = {unpack, pack, "OCP Microscaling Formats 1.0; GGUF type 39"};
