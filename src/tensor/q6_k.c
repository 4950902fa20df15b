/* q6_k.c - 256 six-bit numbers: sixteen parts of 16, each with a scale of eight bits.
 *
 *     u8 low[128], u8 high[64], i8 scale[16], f16 d
 *     x = (d scale[part]) (q - 32),  q = low 4 bits | high 2 bits << 4
 *
 *     Each half of 128 elements has 64 low and 32 high bytes.  Of element
 *     e = 32 g + i in a half, g = 0 .. 3: the low bits stand in low[32 (g & 1) + i],
 *     lower half of the byte for g < 2; the high bits in high[i], shifted by 2 g.
 *
 * Packing is the search of fit.h.
 * Source: GGUF specification, block type 14.
 */
#include "tensor/dtype.h"
#include "tensor/fit.h"
#include "tensor/half.h"

enum { BLOCK = 256, PARTS = 16, PART = 16, BYTES = 210, AT_HIGH = 128, AT_SCALES = 192, AT_D = 208 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p + AT_D);
        for (size_t e = 0; e < BLOCK; e++) {
            size_t   half = e / 128, g = e / 32 % 4, i = e % 32;
            unsigned low = p[64 * half + 32 * (g & 1) + i] >> (g < 2 ? 0 : 4) & 15;
            unsigned high = p[AT_HIGH + 32 * half + i] >> 2 * g & 3;
            out[e] = d * (float)(int8_t)p[AT_SCALES + e / PART] * (float)((int)(low | high << 4) - 32);
        }
    }
}

static void put(uint8_t *p, size_t part, int scale, const uint8_t *q) {
    p[AT_SCALES + part] = (uint8_t)(int8_t)scale;
    for (size_t k = 0; k < PART; k++) {
        size_t   e = part * PART + k, half = e / 128, g = e / 32 % 4, i = e % 32;
        uint8_t *low = &p[64 * half + 32 * (g & 1) + i], *high = &p[AT_HIGH + 32 * half + i];
        *low = (uint8_t)(*low | (q[k] & 15) << (g < 2 ? 0 : 4));
        *high = (uint8_t)(*high | (q[k] >> 4) << 2 * g);
    }
}

static const ph_fit_book fit = {
    .part = PART, .book = {NULL, 64}, .steps = 128, .at_d = AT_D, .bytes = BYTES, .put = put};

static void pack(void *out, const float *in, size_t n) {
    ph_fit_book_pack(&fit, out, in, n);
}

const ph_dtype_def ph_dtype_Q6_K = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 14"};
