/* q3_k.c - 256 three-bit numbers: sixteen parts of 16, each with a scale of six bits.
 *
 *     u8 high[32], u8 q[64], u8 s[12], f16 d
 *     x = (d (scale[part] - 32)) (level - 4),  level = two bits of q | third bit << 2
 *
 *     high:  bit e / 32 of byte e % 32 is the third bit of element e
 *     q:     as in Q2_K
 *     s:     low 4 bits of scale 0-7 in the low halves of bytes 0-7, of 8-15 in the high
 *            halves; high 2 bits of scale k in byte 8 + k % 4, shifted by 2 (k / 4)
 *
 * Packing is the search of fit.h.
 * Source: GGUF specification, block type 11.
 */
#include "tensor/dtype.h"
#include "tensor/fit.h"
#include "tensor/half.h"

enum { BLOCK = 256, PART = 16, BYTES = 110, AT_LEVELS = 32, AT_SCALES = 96, AT_D = 108 };

static int read_scale(const uint8_t *s, size_t part) {
    int low = s[part % 8] >> (part < 8 ? 0 : 4) & 15, high = s[8 + part % 4] >> 2 * (part / 4) & 3;
    return (low | high << 4) - 32;
}

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p + AT_D);
        for (size_t e = 0; e < BLOCK; e++) {
            int low = p[AT_LEVELS + e / 128 * 32 + e % 32] >> 2 * (e / 32 % 4) & 3;
            int high = p[e % 32] >> e / 32 & 1;
            out[e] = d * (float)read_scale(p + AT_SCALES, e / PART) * (float)((low | high << 2) - 4);
        }
    }
}

static void put(uint8_t *p, size_t part, int scale, const uint8_t *q) {
    uint8_t *s = p + AT_SCALES, *low = &s[part % 8], *high = &s[8 + part % 4];
    unsigned u = (unsigned)(scale + 32);
    *low = (uint8_t)(*low | (u & 15) << (part < 8 ? 0 : 4));
    *high = (uint8_t)(*high | (u >> 4) << 2 * (part / 4));
    for (size_t k = 0; k < PART; k++) {
        size_t   e = part * PART + k;
        uint8_t *two = &p[AT_LEVELS + e / 128 * 32 + e % 32], *third = &p[e % 32];
        *two = (uint8_t)(*two | (q[k] & 3) << 2 * (e / 32 % 4));
        *third = (uint8_t)(*third | (q[k] >> 2) << e / 32);
    }
}

static const ph_fit_book fit = {
    .part = PART, .book = {NULL, 8}, .steps = 32, .at_d = AT_D, .bytes = BYTES, .put = put};

static void pack(void *out, const float *in, size_t n) {
    ph_fit_book_pack(&fit, out, in, n);
}

const ph_dtype_def ph_dtype_Q3_K = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 11"};
