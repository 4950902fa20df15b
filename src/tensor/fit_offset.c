/* fit_offset.c - nearest blocks of the types whose parts have a scale and an offset.  See fit.h. */
#include "tensor/fit.h"
#include "tensor/half.h"

#include <math.h>

enum { SLOPES = 9, TURNS = 3, PARTS_MAX = PH_FIT_BLOCK / 16 };

/* Levels of one part under x = scale q - offset; the result is the squared error. */
static double assign(const ph_fit_offset *f, uint8_t *q, const float *x, float scale, float offset) {
    double error = 0;
    float  inverse = scale > 0 ? 1 / scale : 0, top = (float)f->levels;
    for (size_t i = 0; i < f->part; i++) {
        float level = (x[i] + offset) * inverse + 0.5f;
        q[i] = (uint8_t)(level >= 0 ? (level < top ? level : top) : 0);
        double miss = (double)(scale * (float)q[i] - offset) - (double)x[i];
        error += miss * miss;
    }
    return error;
}

/* The line that fits these levels best, with an offset that is not negative.
 * Returns 0 when all levels are equal: then no slope is better than another. */
static int line(const uint8_t *q, const float *x, size_t n, float *scale, float *offset) {
    double sq = 0, sqq = 0, sx = 0, sxq = 0;
    for (size_t i = 0; i < n; i++) {
        sq += q[i];
        sqq += (double)q[i] * q[i];
        sx += (double)x[i];
        sxq += (double)x[i] * q[i];
    }
    double det = (double)n * sqq - sq * sq;
    if (det <= 0) return 0;
    double a = ((double)n * sxq - sq * sx) / det, m = (sq * sxq - sqq * sx) / det;
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
static void search(const ph_fit_offset *f, const float *x, float *best_scale, float *best_offset) {
    float least = 0, most = x[0];
    for (size_t i = 0; i < f->part; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    *best_scale = 0;
    *best_offset = -least;
    if (!(most > least)) return; /* all equal and not positive: the offset alone says it */
    uint8_t q[PH_FIT_PART_MAX];
    double  best = INFINITY;
    for (int slope = 0; slope < SLOPES; slope++) {
        float scale = (most - least) / ((float)f->levels - 1.5f + 0.375f * (float)slope), offset = -least;
        for (int turn = 0; turn < TURNS; turn++) {
            double error = assign(f, q, x, scale, offset);
            if (error < best) best = error, *best_scale = scale, *best_offset = offset;
            if (!line(q, x, f->part, &scale, &offset)) break;
        }
    }
}

/* value / step as a number of 0 .. steps. */
static int whole(const ph_fit_offset *f, float value, float step) {
    float q = step > 0 ? value / step + 0.5f : 0;
    return q >= 0 ? (q < (float)f->steps ? (int)q : f->steps) : 0;
}

/* The best pair of whole numbers near the free one, under the block's final d and dmin. */
static double settle(const ph_fit_offset *f, const float *x, float d, float dmin, float scale, float offset,
                     unsigned out[2], uint8_t *best_q) {
    uint8_t q[PH_FIT_PART_MAX];
    double  best = INFINITY;
    int     s0 = whole(f, scale, d), m0 = whole(f, offset, dmin);
    for (int s = s0 > 1 ? s0 - 1 : 0; s <= s0 + 1 && s <= f->steps; s++)
        for (int m = m0 > 1 ? m0 - 1 : 0; m <= m0 + 1 && m <= f->steps; m++) {
            double error = assign(f, q, x, d * (float)s, dmin * (float)m);
            /* The first pair is taken whatever its error: with hostile input it may be no number. */
            if (error < best || (s == s0 && m == m0 && !(best < INFINITY))) {
                best = error;
                out[0] = (unsigned)s;
                out[1] = (unsigned)m;
                memcpy(best_q, q, f->part);
            }
        }
    return best;
}

/* The whole block under one d and dmin; the result is its squared error. */
static double pack_under(const ph_fit_offset *f, uint8_t *p, const float *x, const float *scale,
                         const float *offset, float d, float dmin) {
    double error = 0;
    memset(p, 0, f->bytes);
    ph_f16_store(p + f->at_d, d);
    ph_f16_store(p + f->at_d + 2, dmin);
    d = ph_f16_load(p + f->at_d);
    dmin = ph_f16_load(p + f->at_d + 2);
    for (size_t part = 0; part < PH_FIT_BLOCK / f->part; part++) {
        unsigned pair[2] = {0, 0};
        uint8_t  q[PH_FIT_PART_MAX] = {0};
        error += settle(f, x + part * f->part, d, dmin, scale[part], offset[part], pair, q);
        f->put(p, part, pair[0], pair[1], q);
    }
    return error;
}

/* Steps that d and dmin give away at the top: a coarser one may suit the other parts
 * better, or round to binary16 more luckily. */
static const uint8_t trials[][2] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {0, 1}, {1, 0}, {0, 2}, {2, 0}};

void ph_fit_offset_pack(const ph_fit_offset *f, void *out, const float *in, size_t n) {
    uint8_t *p = out, trial[PH_FIT_BYTES_MAX];
    for (size_t b = 0; b < n / PH_FIT_BLOCK; b++, p += f->bytes, in += PH_FIT_BLOCK) {
        float scale[PARTS_MAX], offset[PARTS_MAX], d = 0, dmin = 0, steps = (float)f->steps;
        for (size_t part = 0; part < PH_FIT_BLOCK / f->part; part++) {
            search(f, in + part * f->part, &scale[part], &offset[part]);
            d = scale[part] > d ? scale[part] : d;
            dmin = offset[part] > dmin ? offset[part] : dmin;
        }
        double best = INFINITY;
        pack_under(f, p, in, scale, offset, d / steps, dmin / steps); /* stays if no trial gives a number */
        for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
            /* By whole steps where they are fine (63), by quarters where they are coarse (15). */
            float  by = f->steps > 32 ? 1.0f : 0.25f;
            float  d_steps = steps - by * (float)trials[i][0], m_steps = steps - by * (float)trials[i][1];
            double error = pack_under(f, trial, in, scale, offset, d / d_steps, dmin / m_steps);
            if (!(error < best)) continue;
            best = error;
            memcpy(p, trial, f->bytes);
        }
    }
}
