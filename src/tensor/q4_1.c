/* q4_1.c - 32 four-bit numbers with a scale and a least value.
 *
 *     f16 d, f16 m, u8 q[16]   x = d q + m;  byte i holds element i low, i + 16 high
 *
 * Packing: m = min, d = (max - min) / 15, q = (x - m) / d to nearest, with
 * every operation rounded apart, as in the reference.
 * Source: GGUF specification, block type 3.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"

enum { BLOCK = 32, HALF = 16, BYTES = 20 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p), m = ph_f16_load(p + 2);
        for (size_t i = 0; i < HALF; i++) {
            out[i] = d * (float)(p[4 + i] & 15) + m;
            out[i + HALF] = d * (float)(p[4 + i] >> 4) + m;
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
        float least = in[0], most = in[0];
        for (size_t i = 1; i < BLOCK; i++) {
            if (in[i] < least) least = in[i];
            if (in[i] > most) most = in[i];
        }
        float d = (most - least) / 15, inverse = d > 0 ? 1 / d : 0;
        ph_f16_store(p, d);
        ph_f16_store(p + 2, least);
        for (size_t i = 0; i < HALF; i++)
            p[4 + i] = (uint8_t)(level((in[i] - least) * inverse + 0.5f) |
                                 level((in[i + HALF] - least) * inverse + 0.5f) << 4);
    }
}

const ph_dtype_def ph_dtype_Q4_1 = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 3"};
