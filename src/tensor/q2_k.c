/* q2_k.c - 256 two-bit numbers: sixteen parts of 16, each with a scale and an offset of four bits.
 *
 *     u8 s[16], u8 q[64], f16 d, f16 dmin
 *     x = (d (s & 15)) q - (dmin (s >> 4))
 *
 *     Each half of 128 elements has 32 bytes of q; of its element 32 g + i,
 *     g = 0 .. 3, the level stands in byte i, shifted by 2 g.
 *
 * Packing is the search of fit.h.
 * Source: GGUF specification, block type 10.
 */
#include "tensor/dtype.h"
#include "tensor/fit.h"
#include "tensor/half.h"

enum { BLOCK = 256, PART = 16, BYTES = 84, AT_LEVELS = 16, AT_D = 80 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p + AT_D), dmin = ph_f16_load(p + AT_D + 2);
        for (size_t e = 0; e < BLOCK; e++) {
            unsigned s = p[e / PART], q = p[AT_LEVELS + e / 128 * 32 + e % 32] >> 2 * (e / 32 % 4) & 3;
            out[e] = d * (float)(s & 15) * (float)q - dmin * (float)(s >> 4);
        }
    }
}

static void put(uint8_t *p, size_t part, unsigned scale, unsigned offset, const uint8_t *q) {
    p[part] = (uint8_t)(scale | offset << 4);
    for (size_t k = 0; k < PART; k++) {
        size_t   e = part * PART + k;
        uint8_t *to = &p[AT_LEVELS + e / 128 * 32 + e % 32];
        *to = (uint8_t)(*to | q[k] << 2 * (e / 32 % 4));
    }
}

static const ph_fit_offset fit = {
    .part = PART, .levels = 3, .steps = 15, .at_d = AT_D, .bytes = BYTES, .put = put};

static void pack(void *out, const float *in, size_t n) {
    ph_fit_offset_pack(&fit, out, in, n);
}

const ph_dtype_def ph_dtype_Q2_K = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 10"};
