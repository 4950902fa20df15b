/* iq3_s.c - 256 numbers in 3.44 bits each: 64 points of four with all their signs, a scale for every eight
 * points.
 *
 *     f16 d, u8 low[64], u8 high[64 / 8], u8 signs[32], u8 s[8 / 2]
 *     x = d (2 s + 1) * magnitude, with signs;  point = low + 256 high
 *     high: a bit a point, the first lowest;  s: four bits, two a byte, the even one low
 *
 * Only read: to pack well the importance of each input must be known.
 * Source: GGUF specification, block type 21.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/iq_grid.h"

enum { PAIRS = 32, BYTES = 110, AT_LOW = 2, AT_HIGH = 66, AT_SIGNS = 74, AT_SCALES = 106 };

static const uint8_t level[8] = {1, 3, 5, 7, 9, 11, 13, 15};

/* Point i of the block. */
static unsigned point_of(const uint8_t *p, size_t i) {
    return ph_iq3_s_grid[p[AT_LOW + i] | (p[AT_HIGH + i / 8] >> i % 8 & 1u) << 8];
}

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / PH_IQ_BLOCK; b++, p += BYTES) {
        float d = ph_f16_load(p);
        for (size_t i = 0; i < PAIRS; i++, out += PH_IQ_POINT) {
            unsigned s = p[AT_SCALES + i / 8] >> 4 * (i / 4 % 2) & 15;
            ph_iq3_points(out, point_of(p, 2 * i), point_of(p, 2 * i + 1), level, p[AT_SIGNS + i],
                          d * (float)(2 * s + 1));
        }
    }
}

const ph_dtype_def ph_dtype_IQ3_S = {unpack, NULL, "github.com/ggml-org/ggml docs/gguf.md, type 21"};
