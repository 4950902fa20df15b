/* q5_0.c - 32 five-bit numbers under one scale.
 *
 *     f16 d, u32 high, u8 q[16]   x = d (level - 16);  byte i holds the low bits of element i low,
 *                                 of i + 16 high; bit i of high is the fifth bit of element i
 *
 * Packing: the element of largest magnitude becomes -16, the others round to
 * nearest.  Multiply and add are rounded apart, as in the reference.
 * Source: GGUF specification, block type 6.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"

#include <math.h>

enum { BLOCK = 32, HALF = 16, BYTES = 22, AT_HIGH = 2, AT_LEVELS = 6 };

static int level_at(const uint8_t *p, size_t i) {
    int low = p[AT_LEVELS + i % HALF] >> (i < HALF ? 0 : 4) & 15, high = p[AT_HIGH + i / 8] >> i % 8 & 1;
    return low | high << 4;
}

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p);
        for (size_t i = 0; i < BLOCK; i++) out[i] = d * (float)(level_at(p, i) - 16);
    }
}

/* 0 .. 31, whatever x is. */
static unsigned level(float x) {
    return x >= 0 ? (x < 31 ? (unsigned)x : 31) : 0;
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, in += BLOCK) {
        float most = 0, end = 0;
        for (size_t i = 0; i < BLOCK; i++)
            if (fabsf(in[i]) > most) most = fabsf(in[i]), end = in[i];
        float d = end / -16, inverse = fabsf(d) > 0 ? 1 / d : 0;
        memset(p, 0, BYTES);
        ph_f16_store(p, d);
        for (size_t i = 0; i < BLOCK; i++) {
            unsigned q = level(in[i] * inverse + 16.5f);
            uint8_t *low = &p[AT_LEVELS + i % HALF], *high = &p[AT_HIGH + i / 8];
            *low = (uint8_t)(*low | (q & 15) << (i < HALF ? 0 : 4));
            *high = (uint8_t)(*high | (q >> 4) << i % 8);
        }
    }
}

const ph_dtype_def ph_dtype_Q5_0 = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 6"};
