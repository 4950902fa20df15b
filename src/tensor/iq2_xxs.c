/* iq2_xxs.c - 256 numbers in 2.06 bits each: 32 points of eight, a scale of four bits for every four points.
 *
 *     f16 d, 8 x { u8 point[4], u32 w }
 *     x = d (s + 1/2) / 4 * magnitude, with signs;  s = w >> 28, signs of point i: seven bits of w from 7 i
 *
 * Only read: to pack well the importance of each input must be known.
 * Source: GGUF specification, block type 16.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/iq_grid.h"

enum { PARTS = 8, POINTS = 4, PART_BYTES = 8, BYTES = 66, AT_PARTS = 2 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / PH_IQ_BLOCK; b++, p += BYTES) {
        float d = ph_f16_load(p);
        for (size_t part = 0; part < PARTS; part++) {
            const uint8_t *q = p + AT_PARTS + part * PART_BYTES;
            uint32_t       w = ph_load_u32(q + POINTS);
            float          scale = d * (0.5f + (float)(w >> 28)) * 0.25f;
            for (size_t i = 0; i < POINTS; i++, out += PH_IQ_POINT)
                ph_iq2_point(out, ph_iq2_xxs_grid[q[i]], ph_iq_signs(w >> 7 * i & 127), scale);
        }
    }
}

const ph_dtype_def ph_dtype_IQ2_XXS = {unpack, NULL, "github.com/ggml-org/ggml docs/gguf.md, type 16"};
