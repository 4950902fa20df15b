/* q8_0.c - 32 signed bytes under one scale.
 *
 *     f16 d, i8 q[32]          x = d q
 *
 * Packing: d = max|x| / 127, q = x / d rounded half away from zero.
 * Error of a pack: at most d (1/2 + 127/2048), the second part from rounding d.
 * Source: GGUF specification, block type 8.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"

#include <math.h>

enum { BLOCK = 32, BYTES = 34 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p);
        for (size_t i = 0; i < BLOCK; i++) out[i] = d * (float)(int8_t)p[2 + i];
    }
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, in += BLOCK) {
        float most = 0;
        for (size_t i = 0; i < BLOCK; i++)
            if (fabsf(in[i]) > most) most = fabsf(in[i]);
        float d = most / 127, inverse = d > 0 ? 1 / d : 0;
        ph_f16_store(p, d);
        for (size_t i = 0; i < BLOCK; i++) {
            float q = roundf(in[i] * inverse);
            /* The first comparison also sends a NaN to zero. */
            p[2 + i] = (uint8_t)(int8_t)(q >= -127 ? (q <= 127 ? q : 127) : (q < -127 ? -127 : 0));
        }
    }
}

const ph_dtype_def ph_dtype_Q8_0 = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 8"};
