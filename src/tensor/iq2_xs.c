/* iq2_xs.c - 256 numbers in 2.31 bits each: 32 points of eight, a scale of four bits for every two points.
 *
 *     f16 d, u16 w[32], u8 s[16 / 2]
 *     x = d (s + 1/2) / 4 * magnitude, with signs;  w: nine bits of point, seven of signs
 *     s: two a byte, the even one low
 *
 * Only read: to pack well the importance of each input must be known.
 * Source: GGUF specification, block type 17.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/iq_grid.h"

enum { POINTS = 32, BYTES = 74, AT_POINTS = 2, AT_SCALES = 66 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / PH_IQ_BLOCK; b++, p += BYTES) {
        float d = ph_f16_load(p);
        for (size_t i = 0; i < POINTS; i++, out += PH_IQ_POINT) {
            unsigned w = ph_load_u16(p + AT_POINTS + 2 * i), s = p[AT_SCALES + i / 4] >> 4 * (i / 2 % 2) & 15;
            float    scale = d * (0.5f + (float)s) * 0.25f;
            ph_iq2_point(out, ph_iq2_xs_grid[w & 511], ph_iq_signs(w >> 9), scale);
        }
    }
}

const ph_dtype_def ph_dtype_IQ2_XS = {unpack, NULL, "github.com/ggml-org/ggml docs/gguf.md, type 17"};
