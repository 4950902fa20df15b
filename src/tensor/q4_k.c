/* q4_k.c - 256 four-bit numbers: eight parts of 32, each with a scale and an offset of six bits.
 *
 *     f16 d, f16 dmin, u8 s[12], u8 q[128]
 *     x = (d scale[part]) q - (dmin offset[part])
 *
 *     s:  bytes 0-3   scale 0-3 (6 bits), above them the 2 upper bits of scale 4-7
 *         bytes 4-7   offset 0-3 (6 bits), above them the 2 upper bits of offset 4-7
 *         bytes 8-11  lower 4 bits of scale 4-7, above them those of offset 4-7
 *     q:  32 bytes a pair of parts, the even part in the low halves
 *
 * Packing is the search of fit.h.
 * Source: GGUF specification, block type 12.
 */
#include "tensor/dtype.h"
#include "tensor/fit.h"
#include "tensor/half.h"
#include "tensor/six_bits.h"

enum { BLOCK = 256, PARTS = 8, PART = 32, BYTES = 144, AT_SCALES = 4, AT_LEVELS = 16 };

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p), dmin = ph_f16_load(p + 2);
        for (size_t part = 0; part < PARTS; part++) {
            const uint8_t *q = p + AT_LEVELS + part / 2 * PART;
            float          scale, offset;
            ph_six_bits_read(p + AT_SCALES, part, &scale, &offset);
            scale *= d;
            offset *= dmin;
            for (size_t i = 0; i < PART; i++)
                out[part * PART + i] = scale * (float)(part & 1 ? q[i] >> 4 : q[i] & 15) - offset;
        }
    }
}

static void put(uint8_t *p, size_t part, unsigned scale, unsigned offset, const uint8_t *q) {
    uint8_t *to = p + AT_LEVELS + part / 2 * PART;
    ph_six_bits_write(p + AT_SCALES, part, scale, offset);
    for (size_t i = 0; i < PART; i++) to[i] = (uint8_t)(to[i] | (part & 1 ? q[i] << 4 : q[i]));
}

static const ph_fit_offset fit = {
    .part = PART, .levels = 15, .steps = 63, .at_d = 0, .bytes = BYTES, .put = put};

static void pack(void *out, const float *in, size_t n) {
    ph_fit_offset_pack(&fit, out, in, n);
}

const ph_dtype_def ph_dtype_Q4_K = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 12"};
