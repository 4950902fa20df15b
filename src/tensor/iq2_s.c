/* iq2_s.c - 256 numbers in 2.56 bits each: 32 points of eight with all their signs, a scale for every two
 * points.
 *
 *     f16 d, u8 low[32], u8 signs[32], u8 high[32 / 4], u8 s[16 / 2]
 *     x = d (s + 1/2) / 4 * magnitude, with signs;  point = low + 256 high
 *     high: two bits a point, shifted by 2 (point % 4);  s: four bits, two a byte, the even one low
 *
 * Only read: to pack well the importance of each input must be known.
 * Source: GGUF specification, block type 22.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/iq_grid.h"

enum { POINTS = 32, BYTES = 82, AT_LOW = 2, AT_SIGNS = 34, AT_HIGH = 66, AT_SCALES = 74 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / PH_IQ_BLOCK; b++, p += BYTES) {
        float d = ph_f16_load(p);
        for (size_t i = 0; i < POINTS; i++, out += PH_IQ_POINT) {
            unsigned point = p[AT_LOW + i] | (p[AT_HIGH + i / 4] >> 2 * (i % 4) & 3u) << 8;
            unsigned s = p[AT_SCALES + i / 4] >> 4 * (i / 2 % 2) & 15;
            float    scale = d * (0.5f + (float)s) * 0.25f;
            ph_iq2_point(out, ph_iq2_s_grid[point], p[AT_SIGNS + i], scale);
        }
    }
}

const ph_dtype_def ph_dtype_IQ2_S = {unpack, NULL, "github.com/ggml-org/ggml docs/gguf.md, type 22"};
