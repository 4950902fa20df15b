/* nvfp4.c - 64 numbers of four bits (E2M1): four parts of 16, each with a scale of eight bits.
 *
 *     u8 s[4], u8 q[32]        x = scale(s[part]) level[q]
 *     q:     8 bytes a part, byte i holds element i low, i + 8 high
 *
 * A scale is E4M3 without its sign, halved, since the levels are E2M1's own
 * doubled (fp4.h); the pattern of NaN, 127, is 0.
 * Packing equals the reference byte for byte: the scale under which the largest
 * magnitude is the largest level, then the nearest level.  It rounds halves of
 * scales up, keeps those below 2^-6 to seven steps of 2^-9, and makes 448 of all
 * that would need the uppermost exponent.
 * One number more, a factor for the whole matrix, stands outside the blocks where
 * a file has it (storage_factor.c).
 * Source: GGUF specification, block type 40; NVIDIA, "Introducing NVFP4".
 */
#include "tensor/dtype.h"
#include "tensor/fp4.h"
#include "tensor/half.h"

#include <math.h>

enum { BLOCK = 64, PARTS = 4, PART = 16, HALF = 8, BYTES = 36, UPPERMOST = 0x78, LARGEST = 0x7e };

static float scale_of(uint8_t s) {
    unsigned e = s >> 3 & 15, m = s & 7;
    if (s == 0x7f) return 0;
    return e ? ph_float_of_bits((e + 119) << 23 | m << 20) : (float)m * 0x1p-10f;
}

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES)
        for (size_t part = 0; part < PARTS; part++, out += PART) {
            const uint8_t *q = p + PARTS + part * HALF;
            float          d = scale_of(p[part]);
            for (size_t i = 0; i < HALF; i++) {
                out[i] = d * (float)ph_fp4_level[q[i] & 15];
                out[i + HALF] = d * (float)ph_fp4_level[q[i] >> 4];
            }
        }
}

static uint8_t scale_for(const float *x) {
    float most = 0;
    for (size_t i = 0; i < PART; i++)
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    most /= 6;
    if (most < 0x1p-6f) {
        unsigned steps = (unsigned)(most * 0x1p9f + 0.5f);
        return (uint8_t)(steps < 7 ? steps : 7);
    }
    uint32_t s = ((ph_float_bits(most) + (1u << 19)) >> 20) - (120u << 3);
    return (uint8_t)(s < UPPERMOST ? s : LARGEST);
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES)
        for (size_t part = 0; part < PARTS; part++, in += PART) {
            uint8_t *q = p + PARTS + part * HALF;
            p[part] = scale_for(in);
            float d = scale_of(p[part]);
            for (size_t i = 0; i < HALF; i++)
                q[i] = (uint8_t)(ph_fp4_nearest(in[i], d) | ph_fp4_nearest(in[i + HALF], d) << 4);
        }
}

const ph_dtype_def ph_dtype_NVFP4 = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 40"};
