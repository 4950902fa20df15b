/* q8_k.c - 256 signed bytes under one float scale, with the sums of 16 each.
 *
 *     f32 d, i8 q[256], i16 sum[16]          x = d q
 *
 * The field uses it for activations beside K blocks; the sums serve its kernels
 * and are written, but not needed to read.  Packing: the element of largest
 * magnitude becomes -127 (d has the opposite sign of it), the others round to
 * nearest, ties to even.
 * Source: GGUF specification, block type 15.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"

#include <math.h>

enum { BLOCK = 256, BYTES = 292, AT_LEVELS = 4, AT_SUMS = 260, SUMMED = 16 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d;
        memcpy(&d, p, sizeof d);
        for (size_t i = 0; i < BLOCK; i++) out[i] = d * (float)(int8_t)p[AT_LEVELS + i];
    }
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, in += BLOCK) {
        float end = 0;
        for (size_t i = 0; i < BLOCK; i++)
            if (fabsf(in[i]) > fabsf(end)) end = in[i];
        float inverse = fabsf(end) > 0 ? -127 / end : 0, d = fabsf(inverse) > 0 ? 1 / inverse : 0;
        memcpy(p, &d, sizeof d);
        for (size_t i = 0; i < BLOCK; i++) {
            float q = rintf(in[i] * inverse);
            /* The first comparison also sends a NaN to zero. */
            p[AT_LEVELS + i] = (uint8_t)(int8_t)(q >= -127 ? (q <= 127 ? q : 127) : (q < -127 ? -127 : 0));
        }
        for (size_t g = 0; g < BLOCK / SUMMED; g++) {
            int16_t sum = 0;
            for (size_t i = 0; i < SUMMED; i++) sum = (int16_t)(sum + (int8_t)p[AT_LEVELS + g * SUMMED + i]);
            memcpy(p + AT_SUMS + 2 * g, &sum, sizeof sum);
        }
    }
}

const ph_dtype_def ph_dtype_Q8_K = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 15"};
