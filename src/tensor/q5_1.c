/* q5_1.c - 32 five-bit numbers with a scale and a least value.
 *
 *     f16 d, f16 m, u32 high, u8 q[16]   x = d level + m;  levels are laid out as in Q5_0
 *
 * Packing: m = min, d = (max - min) / 31, level = (x - m) / d to nearest, with
 * every operation rounded apart, as in the reference.
 * Source: GGUF specification, block type 7.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"

enum { BLOCK = 32, HALF = 16, BYTES = 24, AT_HIGH = 4, AT_LEVELS = 8 };

static int level_at(const uint8_t *p, size_t i) {
    int low = p[AT_LEVELS + i % HALF] >> (i < HALF ? 0 : 4) & 15, high = p[AT_HIGH + i / 8] >> i % 8 & 1;
    return low | high << 4;
}

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p), m = ph_f16_load(p + 2);
        for (size_t i = 0; i < BLOCK; i++) out[i] = d * (float)level_at(p, i) + m;
    }
}

/* 0 .. 31, whatever x is. */
static unsigned level(float x) {
    return x >= 0 ? (x < 31 ? (unsigned)x : 31) : 0;
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, in += BLOCK) {
        float least = in[0], most = in[0];
        for (size_t i = 1; i < BLOCK; i++) {
            if (in[i] < least) least = in[i];
            if (in[i] > most) most = in[i];
        }
        float d = (most - least) / 31, inverse = d > 0 ? 1 / d : 0;
        memset(p, 0, BYTES);
        ph_f16_store(p, d);
        ph_f16_store(p + 2, least);
        for (size_t i = 0; i < BLOCK; i++) {
            unsigned q = level((in[i] - least) * inverse + 0.5f);
            uint8_t *low = &p[AT_LEVELS + i % HALF], *high = &p[AT_HIGH + i / 8];
            *low = (uint8_t)(*low | (q & 15) << (i < HALF ? 0 : 4));
            *high = (uint8_t)(*high | (q >> 4) << i % 8);
        }
    }
}

const ph_dtype_def ph_dtype_Q5_1 = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 7"};
