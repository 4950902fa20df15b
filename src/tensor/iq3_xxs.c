/* iq3_xxs.c - 256 numbers in 3.06 bits each: 64 points of four, a scale of four bits for every eight points.
 *
 *     f16 d, u8 point[64], u32 w[8]
 *     x = d (s + 1/2) / 2 * magnitude, with signs;  s = w >> 28, signs of eight elements: seven bits of w
 *
 * Only read: to pack well the importance of each input must be known.
 * Source: GGUF specification, block type 18.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/iq_grid.h"

enum { PARTS = 8, PAIRS = 4, BYTES = 98, AT_POINTS = 2, AT_WORDS = 66 };

static const uint8_t level[8] = {4, 12, 20, 28, 36, 44, 52, 62};

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / PH_IQ_BLOCK; b++, p += BYTES) {
        float          d = ph_f16_load(p);
        const uint8_t *q = p + AT_POINTS;
        for (size_t part = 0; part < PARTS; part++) {
            uint32_t w = ph_load_u32(p + AT_WORDS + 4 * part);
            float    scale = d * (0.5f + (float)(w >> 28)) * 0.5f;
            for (size_t i = 0; i < PAIRS; i++, q += 2, out += PH_IQ_POINT)
                ph_iq3_points(out, ph_iq3_xxs_grid[q[0]], ph_iq3_xxs_grid[q[1]], level,
                              ph_iq_signs(w >> 7 * i & 127), scale);
        }
    }
}

const ph_dtype_def ph_dtype_IQ3_XXS = {unpack, NULL, "github.com/ggml-org/ggml docs/gguf.md, type 18"};
