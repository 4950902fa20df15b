/* tq2_0.c - 256 numbers of three levels, two bits each, under one scale.
 *
 *     u8 q[64], f16 d          x = d (q - 1)
 *
 *     Each half of 128 elements has 32 bytes of q; of its element 32 g + i,
 *     g = 0 .. 3, the level stands in byte i, shifted by 2 g.
 *
 * Packing equals the reference byte for byte (ternary.h).  A level of 3 is never
 * packed, and is read as 2 d.
 * Source: GGUF specification, block type 35.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/ternary.h"

#include <string.h>

enum { BLOCK = 256, LEVELS = 64, BYTES = 66 };

static size_t byte_of(size_t e) {
    return e / 128 * 32 + e % 32;
}

static size_t shift_of(size_t e) {
    return 2 * (e / 32 % 4);
}

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p + LEVELS);
        for (size_t e = 0; e < BLOCK; e++) out[e] = d * (float)((int)(p[byte_of(e)] >> shift_of(e) & 3) - 1);
    }
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, in += BLOCK) {
        float d = ph_ternary_scale(in, BLOCK), by = d > 0 ? 1 / d : 0;
        memset(p, 0, LEVELS);
        for (size_t e = 0; e < BLOCK; e++)
            p[byte_of(e)] = (uint8_t)(p[byte_of(e)] | ph_ternary_of(in[e], by) << shift_of(e));
        ph_f16_store(p + LEVELS, d);
    }
}

const ph_dtype_def ph_dtype_TQ2_0 = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 35"};
