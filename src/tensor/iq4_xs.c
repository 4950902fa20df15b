/* iq4_xs.c - 256 four-bit numbers over IQ4_NL's levels: eight parts of 32, each with a scale of six bits.
 *
 *     f16 d, u16 high, u8 low[4], u8 q[128]
 *     x = (d (scale[part] - 32)) book[q]
 *
 *     low:   4 bits of scale, the even part in the low half of byte part / 2
 *     high:  2 bits of each scale, shifted by 2 part
 *     q:     16 bytes a part; byte i holds element i low, i + 16 high
 *
 * Packing is the search of fit.h.
 * Source: GGUF specification, block type 23.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/iq4.h"

enum { BLOCK = 256, PARTS = 8, PART = 32, HALF = 16, BYTES = 136, AT_HIGH = 2, AT_LOW = 4, AT_LEVELS = 8 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p);
        for (size_t part = 0; part < PARTS; part++) {
            const uint8_t *q = p + AT_LEVELS + part * HALF;
            int            low = p[AT_LOW + part / 2] >> (part & 1 ? 4 : 0) & 15;
            int            high = p[AT_HIGH + part / 4] >> 2 * (part % 4) & 3;
            float          scale = d * (float)((low | high << 4) - 32);
            for (size_t i = 0; i < HALF; i++) {
                out[part * PART + i] = scale * (float)ph_iq4_book.value[q[i] & 15];
                out[part * PART + i + HALF] = scale * (float)ph_iq4_book.value[q[i] >> 4];
            }
        }
    }
}

static void put(uint8_t *p, size_t part, int scale, const uint8_t *q) {
    uint8_t *low = &p[AT_LOW + part / 2], *high = &p[AT_HIGH + part / 4], *to = p + AT_LEVELS + part * HALF;
    unsigned u = (unsigned)(scale + 32);
    *low = (uint8_t)(*low | (u & 15) << (part & 1 ? 4 : 0));
    *high = (uint8_t)(*high | (u >> 4) << 2 * (part % 4));
    for (size_t i = 0; i < HALF; i++) to[i] = (uint8_t)(q[i] | q[i + HALF] << 4);
}

static void pack(void *out, const float *in, size_t n) {
    const ph_fit_book fit = {
        .part = PART, .book = ph_iq4_book, .steps = 32, .at_d = 0, .bytes = BYTES, .put = put};
    ph_fit_book_pack(&fit, out, in, n);
}

const ph_dtype_def ph_dtype_IQ4_XS = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 23"};
