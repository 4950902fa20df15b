/* q6_k.c - 256 six-bit numbers: sixteen parts of 16, each with a scale of eight bits.
 *
 *     u8 low[128], u8 high[64], i8 scale[16], f16 d
 *     x = (d scale[part]) (q - 32),  q = low 4 bits | high 2 bits << 4
 *
 *     Each half of 128 elements has 64 low and 32 high bytes.  Of element
 *     e = 32 g + i in a half, g = 0 .. 3: the low bits stand in low[32 (g & 1) + i],
 *     lower half of the byte for g < 2; the high bits in high[i], shifted by 2 g.
 *
 * Packing is our own search for the least squared error: each part finds its best
 * free scale (several starts, each refined by least squares), d is fixed by the
 * largest of them, and each part tries the eight-bit scales around its own.
 * Source: GGUF specification, block type 14.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"

#include <math.h>

enum {
    BLOCK = 256,
    PARTS = 16,
    PART = 16,
    BYTES = 210,
    AT_HIGH = 128,
    AT_SCALES = 192,
    AT_D = 208,
    STARTS = 11,
    TURNS = 3,
    TRIALS = 4
};

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p + AT_D);
        for (size_t e = 0; e < BLOCK; e++) {
            size_t   half = e / 128, g = e / 32 % 4, i = e % 32;
            unsigned low = p[64 * half + 32 * (g & 1) + i] >> (g < 2 ? 0 : 4) & 15;
            unsigned high = p[AT_HIGH + 32 * half + i] >> 2 * g & 3;
            out[e] = d * (float)(int8_t)p[AT_SCALES + e / PART] * (float)((int)(low | high << 4) - 32);
        }
    }
}

/* Levels of one part under x = scale q; the result is the squared error. */
static double assign(int8_t q[PART], const float *x, float scale) {
    double error = 0;
    float  inverse = fabsf(scale) > 0 ? 1 / scale : 0;
    for (size_t i = 0; i < PART; i++) {
        float level = x[i] * inverse + 32.5f; /* from here on not negative: a cast rounds */
        q[i] = (int8_t)((int)(level >= 0 ? (level < 63 ? level : 63) : 0) - 32);
        double miss = (double)(scale * (float)q[i]) - (double)x[i];
        error += miss * miss;
    }
    return error;
}

/* The best free scale of one part.  The largest element goes to the end that has one level more. */
static float search(const float *x) {
    float end = 0;
    for (size_t i = 0; i < PART; i++)
        if (fabsf(x[i]) > fabsf(end)) end = x[i];
    float  best_scale = 0;
    double best = INFINITY;
    for (int start = 0; start < STARTS; start++) {
        /* 0, 1, -1, 2, ...: the plain one first, since among equals it has the shortest fraction. */
        float step = 0.25f * (float)((start + 1) / 2), scale = end / (start & 1 ? -32 - step : -32 + step);
        for (int turn = 0; turn < TURNS; turn++) {
            int8_t q[PART];
            double error = assign(q, x, scale), qq = 0, xq = 0;
            if (error < best) best = error, best_scale = scale;
            for (size_t i = 0; i < PART; i++) {
                qq += (double)q[i] * q[i];
                xq += (double)x[i] * q[i];
            }
            if (!(qq > 0)) break;
            scale = (float)(xq / qq);
        }
    }
    return best_scale;
}

/* The best eight-bit scale near the free one, under the block's final d. */
static int8_t settle(const float *x, float d, float scale, int8_t best_q[PART]) {
    float  exact = fabsf(d) > 0 ? roundf(scale / d) : 0;
    int    centre = (int)(exact >= -128 ? (exact <= 127 ? exact : 127) : (exact < -128 ? -128 : 0));
    int    chosen = centre;
    double best = assign(best_q, x, d * (float)centre);
    for (int s = centre - 1; s <= centre + 1; s++) {
        int8_t q[PART];
        if (s < -128 || s > 127) continue;
        double error = assign(q, x, d * (float)s);
        if (!(error < best)) continue;
        best = error;
        chosen = s;
        memcpy(best_q, q, PART);
    }
    return (int8_t)chosen;
}

static void put(uint8_t *p, size_t part, const int8_t q[PART]) {
    for (size_t k = 0; k < PART; k++) {
        size_t   e = part * PART + k, half = e / 128, g = e / 32 % 4, i = e % 32;
        unsigned level = (unsigned)(q[k] + 32);
        uint8_t *low = &p[64 * half + 32 * (g & 1) + i], *high = &p[AT_HIGH + 32 * half + i];
        *low = (uint8_t)(*low | (level & 15) << (g < 2 ? 0 : 4));
        *high = (uint8_t)(*high | (level >> 4) << 2 * g);
    }
}

/* The whole block under one d; the result is its squared error. */
static double pack_under(uint8_t *p, const float *x, const float scale[PARTS], float d) {
    double error = 0;
    memset(p, 0, BYTES);
    ph_f16_store(p + AT_D, d);
    d = ph_f16_load(p + AT_D);
    for (size_t part = 0; part < PARTS; part++) {
        int8_t q[PART], s = settle(x + part * PART, d, scale[part], q);
        p[AT_SCALES + part] = (uint8_t)s;
        put(p, part, q);
        error += assign(q, x + part * PART, d * (float)s);
    }
    return error;
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out, trial[BYTES];
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, in += BLOCK) {
        float scale[PARTS], end = 0;
        for (size_t part = 0; part < PARTS; part++) {
            scale[part] = search(in + part * PART);
            if (fabsf(scale[part]) > fabsf(end)) end = scale[part];
        }
        /* The largest becomes -128, which has no positive twin, or a little less: what suits the others. */
        double best = pack_under(p, in, scale, end / -128);
        for (int most = 127; most > 128 - TRIALS; most--) {
            double error = pack_under(trial, in, scale, end / (float)-most);
            if (!(error < best)) continue;
            best = error;
            memcpy(p, trial, BYTES);
        }
    }
}

const ph_dtype_def ph_dtype_Q6_K = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 14"};
