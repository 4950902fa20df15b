/* iq1_s.c - 256 numbers in 1.56 bits each: 32 points of eight, a scale and a shift for every four points.
 *
 *     f16 d, u8 low[32], u16 w[8]
 *     x = d (2 s + 1) (number + delta);  point = low + 256 high
 *     w: three bits of high a point, the first lowest; then three bits of s; then 1 for delta -1/8, 0 for 1/8
 *
 * Only read: to pack well the importance of each input must be known.
 * Source: GGUF specification, block type 19.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/iq_grid.h"

enum { PARTS = 8, POINTS = 4, BYTES = 50, AT_LOW = 2, AT_WORDS = 34 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / PH_IQ_BLOCK; b++, p += BYTES) {
        float d = ph_f16_load(p);
        for (size_t part = 0; part < PARTS; part++) {
            const uint8_t *low = p + AT_LOW + part * POINTS;
            unsigned       w = ph_load_u16(p + AT_WORDS + 2 * part);
            float          scale = d * (float)(2 * (w >> 12 & 7) + 1), delta = w >> 15 ? -0.125f : 0.125f;
            for (size_t i = 0; i < POINTS; i++, out += PH_IQ_POINT)
                ph_iq1_point(out, ph_iq1_grid[low[i] | (w >> 3 * i & 7) << 8], delta, scale);
        }
    }
}

const ph_dtype_def ph_dtype_IQ1_S = {unpack, NULL, "github.com/ggml-org/ggml docs/gguf.md, type 19"};
