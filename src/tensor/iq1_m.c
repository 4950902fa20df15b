/* iq1_m.c - 256 numbers in 1.75 bits each: 32 points of eight with a shift each, a scale for every two
 * points.
 *
 *     u8 low[32], u8 high[32 / 2], u16 w[4]
 *     x = d (2 s + 1) (number + delta);  point = low + 256 high
 *     high: half a byte a point, the even one low: three bits, then 1 for delta -1/8, 0 for 1/8
 *     w:    four s of three bits, the first lowest; the upper four bits of the four words, the first
 *           lowest, are the f16 d
 *
 * Only read: to pack well the importance of each input must be known.
 * Source: GGUF specification, block type 29.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/iq_grid.h"

enum { POINTS = 32, BYTES = 56, AT_HIGH = 32, AT_WORDS = 48 };

static float scale_of(const uint8_t *words) {
    unsigned d = 0;
    for (size_t k = 0; k < 4; k++) d |= ph_load_u16(words + 2 * k) >> 12 << 4 * k;
    return ph_f16_to_f32((uint16_t)d);
}

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / PH_IQ_BLOCK; b++, p += BYTES) {
        float d = scale_of(p + AT_WORDS);
        for (size_t i = 0; i < POINTS; i++, out += PH_IQ_POINT) {
            unsigned high = p[AT_HIGH + i / 2] >> 4 * (i % 2) & 15;
            unsigned s = ph_load_u16(p + AT_WORDS + 2 * (i / 8)) >> 3 * (i / 2 % 4) & 7;
            ph_iq1_point(out, ph_iq1_grid[p[i] | (high & 7) << 8], high & 8 ? -0.125f : 0.125f,
                         d * (float)(2 * s + 1));
        }
    }
}

const ph_dtype_def ph_dtype_IQ1_M = {unpack, NULL, "github.com/ggml-org/ggml docs/gguf.md, type 29"};
