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
 * Packing is our own search for the least squared error.  Each part first finds
 * its best (scale, offset) as free real numbers: several starting slopes, each
 * refined by alternating "round to levels" and "fit a line by least squares".
 * Then d and dmin are fixed by the largest of them, and each part tries the
 * six-bit pairs around its own.
 * Source: GGUF specification, block type 12.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"

#include <math.h>

enum {
    BLOCK = 256,
    PARTS = 8,
    PART = 32,
    BYTES = 144,
    AT_SCALES = 4,
    AT_LEVELS = 16,
    SLOPES = 9,
    TURNS = 3,
    TRIALS = 4
};

static void read_scale(const uint8_t *s, size_t part, float *scale, float *offset) {
    if (part < 4) {
        *scale = (float)(s[part] & 63);
        *offset = (float)(s[part + 4] & 63);
    } else {
        *scale = (float)((s[part + 4] & 15) | (s[part - 4] >> 6) << 4);
        *offset = (float)((s[part + 4] >> 4) | (s[part] >> 6) << 4);
    }
}

static void write_scale(uint8_t *s, size_t part, unsigned scale, unsigned offset) {
    if (part < 4) {
        s[part] = (uint8_t)(s[part] | scale);
        s[part + 4] = (uint8_t)(s[part + 4] | offset);
    } else {
        s[part + 4] = (uint8_t)((scale & 15) | (offset & 15) << 4);
        s[part - 4] = (uint8_t)(s[part - 4] | (scale >> 4) << 6);
        s[part] = (uint8_t)(s[part] | (offset >> 4) << 6);
    }
}

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p), dmin = ph_f16_load(p + 2);
        for (size_t part = 0; part < PARTS; part++) {
            const uint8_t *q = p + AT_LEVELS + part / 2 * PART;
            float          scale, offset;
            read_scale(p + AT_SCALES, part, &scale, &offset);
            scale *= d;
            offset *= dmin;
            for (size_t i = 0; i < PART; i++)
                out[part * PART + i] = scale * (float)(part & 1 ? q[i] >> 4 : q[i] & 15) - offset;
        }
    }
}

/* Levels of one part under x = scale q - offset; the result is the squared error. */
static double assign(uint8_t q[PART], const float *x, float scale, float offset) {
    double error = 0;
    float  inverse = scale > 0 ? 1 / scale : 0;
    for (size_t i = 0; i < PART; i++) {
        float level = (x[i] + offset) * inverse + 0.5f;
        q[i] = (uint8_t)(level >= 0 ? (level < 15 ? level : 15) : 0);
        double miss = (double)(scale * (float)q[i] - offset) - (double)x[i];
        error += miss * miss;
    }
    return error;
}

/* The line that fits these levels best, with an offset that is not negative.
 * Returns 0 when all levels are equal: then no slope is better than another. */
static int fit(const uint8_t q[PART], const float *x, float *scale, float *offset) {
    double sq = 0, sqq = 0, sx = 0, sxq = 0;
    for (size_t i = 0; i < PART; i++) {
        sq += q[i];
        sqq += (double)q[i] * q[i];
        sx += (double)x[i];
        sxq += (double)x[i] * q[i];
    }
    double det = PART * sqq - sq * sq;
    if (det <= 0) return 0;
    double a = (PART * sxq - sq * sx) / det, m = (sq * sxq - sqq * sx) / det;
    if (m < 0) { /* the best within the format is a line through zero */
        m = 0;
        a = sxq / sqq;
    }
    if (!(a > 0)) return 0;
    *scale = (float)a;
    *offset = (float)m;
    return 1;
}

/* The best free (scale, offset) of one part. */
static void search(const float *x, float *best_scale, float *best_offset) {
    float least = 0, most = x[0];
    for (size_t i = 0; i < PART; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    *best_scale = 0;
    *best_offset = -least;
    if (!(most > least)) return; /* all equal and not positive: the offset alone says it */
    uint8_t q[PART];
    double  best = INFINITY;
    for (int slope = 0; slope < SLOPES; slope++) {
        float scale = (most - least) / (13.5f + 0.375f * (float)slope), offset = -least;
        for (int turn = 0; turn < TURNS; turn++) {
            double error = assign(q, x, scale, offset);
            if (error < best) best = error, *best_scale = scale, *best_offset = offset;
            if (!fit(q, x, &scale, &offset)) break;
        }
    }
}

/* value / step as six bits. */
static int six_bits(float value, float step) {
    float q = step > 0 ? value / step + 0.5f : 0;
    return q >= 0 ? (q < 63 ? (int)q : 63) : 0;
}

/* The best six-bit pair near the free one, under the block's final d and dmin. */
static double settle(const float *x, float d, float dmin, float scale, float offset, unsigned out[2],
                     uint8_t best_q[PART]) {
    uint8_t q[PART];
    double  best = INFINITY;
    int     s0 = six_bits(scale, d), m0 = six_bits(offset, dmin);
    for (int s = s0 > 1 ? s0 - 1 : 0; s <= s0 + 1 && s <= 63; s++)
        for (int m = m0 > 1 ? m0 - 1 : 0; m <= m0 + 1 && m <= 63; m++) {
            double error = assign(q, x, d * (float)s, dmin * (float)m);
            /* The first pair is taken whatever its error: with hostile input it may be no number. */
            if (error < best || (s == s0 && m == m0 && !(best < INFINITY))) {
                best = error;
                out[0] = (unsigned)s;
                out[1] = (unsigned)m;
                memcpy(best_q, q, PART);
            }
        }
    return best;
}

/* The whole block under one d and dmin; the result is its squared error. */
static double pack_under(uint8_t *p, const float *x, const float scale[PARTS], const float offset[PARTS],
                         float d, float dmin) {
    double error = 0;
    memset(p, 0, BYTES);
    ph_f16_store(p, d);
    ph_f16_store(p + 2, dmin);
    d = ph_f16_load(p);
    dmin = ph_f16_load(p + 2);
    for (size_t part = 0; part < PARTS; part++) {
        unsigned pair[2] = {0, 0};
        uint8_t  q[PART] = {0}, *to = p + AT_LEVELS + part / 2 * PART;
        error += settle(x + part * PART, d, dmin, scale[part], offset[part], pair, q);
        write_scale(p + AT_SCALES, part, pair[0], pair[1]);
        for (size_t i = 0; i < PART; i++) to[i] = (uint8_t)(to[i] | (part & 1 ? q[i] << 4 : q[i]));
    }
    return error;
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out, trial[BYTES];
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, in += BLOCK) {
        float scale[PARTS], offset[PARTS], d = 0, dmin = 0;
        for (size_t part = 0; part < PARTS; part++) {
            search(in + part * PART, &scale[part], &offset[part]);
            d = scale[part] > d ? scale[part] : d;
            dmin = offset[part] > dmin ? offset[part] : dmin;
        }
        double best = pack_under(p, in, scale, offset, d / 63, dmin / 63);
        for (int most = 62; most > 63 - TRIALS; most--) { /* a coarser d may suit the other parts better */
            double error = pack_under(trial, in, scale, offset, d / (float)most, dmin / (float)most);
            if (!(error < best)) continue;
            best = error;
            memcpy(p, trial, BYTES);
        }
    }
}

const ph_dtype_def ph_dtype_Q4_K = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 12"};
