/* q4_0.c - 32 four-bit numbers under one scale.
 *
 *     f16 d, u8 q[16]          x = d (q - 8);  byte i holds element i low, i + 16 high
 *
 * Packing: the element of largest magnitude becomes -8 (so d has the opposite
 * sign of it), the others round to nearest.  Multiply and add are rounded
 * apart, as in the reference: a fused one gives other bytes.
 * Source: GGUF specification, block type 2.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"

#include <math.h>

enum { BLOCK = 32, HALF = 16, BYTES = 18 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p);
        for (size_t i = 0; i < HALF; i++) {
            out[i] = d * (float)((p[2 + i] & 15) - 8);
            out[i + HALF] = d * (float)((p[2 + i] >> 4) - 8);
        }
    }
}

/* 0 .. 15, whatever x is. */
static unsigned level(float x) {
    return x >= 0 ? (x < 15 ? (unsigned)x : 15) : 0;
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, in += BLOCK) {
        float most = 0, end = 0;
        for (size_t i = 0; i < BLOCK; i++)
            if (fabsf(in[i]) > most) most = fabsf(in[i]), end = in[i];
        float d = end / -8, inverse = fabsf(d) > 0 ? 1 / d : 0;
        ph_f16_store(p, d);
        for (size_t i = 0; i < HALF; i++)
            p[2 + i] = (uint8_t)(level(in[i] * inverse + 8.5f) | level(in[i + HALF] * inverse + 8.5f) << 4);
    }
}

const ph_dtype_def ph_dtype_Q4_0 = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 2"};
