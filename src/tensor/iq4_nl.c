/* iq4_nl.c - 32 four-bit numbers under one scale, over a book of uneven levels.
 *
 *     f16 d, u8 q[16]          x = d book[q];  byte i holds element i low, i + 16 high
 *
 * Packing is the search of fit.h, with one part a block.
 * Source: GGUF specification, block type 20; the levels: ggml's kvalues_iq4nl.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/iq4.h"

enum { BLOCK = 32, HALF = 16, BYTES = 18 };

static const int8_t level[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const ph_book       ph_iq4_book = {level, 16};

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p);
        for (size_t i = 0; i < HALF; i++) {
            out[i] = d * (float)level[p[2 + i] & 15];
            out[i + HALF] = d * (float)level[p[2 + i] >> 4];
        }
    }
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out, q[BLOCK];
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, in += BLOCK) {
        ph_f16_store(p, ph_fit_book_scale(&ph_iq4_book, in, BLOCK));
        ph_fit_book_assign(&ph_iq4_book, q, in, BLOCK, ph_f16_load(p)); /* under the scale as it is stored */
        for (size_t i = 0; i < HALF; i++) p[2 + i] = (uint8_t)(q[i] | q[i + HALF] << 4);
    }
}

const ph_dtype_def ph_dtype_IQ4_NL = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 20"};
