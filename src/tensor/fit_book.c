/* fit_book.c - nearest blocks of the types whose parts have one scale over a book of levels.  See fit.h. */
#include "tensor/fit.h"
#include "tensor/half.h"

#include <math.h>

enum { STARTS = 11, TURNS = 3, TRIALS = 4, PARTS_MAX = PH_FIT_BLOCK / 16 };

static int value_of(const ph_book *b, int q) {
    return b->value ? b->value[q] : q - b->n / 2;
}

/* Index of the nearest level; not a number: 0. */
static int nearest(const ph_book *b, float x) {
    if (!b->value) {
        float level = x + (float)(b->n / 2) + 0.5f; /* from here on not negative: a cast rounds */
        return level >= 0 ? (level < (float)(b->n - 1) ? (int)level : b->n - 1) : 0;
    }
    int low = 0, high = b->n - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (2 * x > (float)(b->value[middle] + b->value[middle + 1]))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

double ph_fit_book_assign(const ph_book *book, uint8_t *q, const float *x, size_t n, float scale) {
    double error = 0;
    float  inverse = fabsf(scale) > 0 ? 1 / scale : 0;
    for (size_t i = 0; i < n; i++) {
        q[i] = (uint8_t)nearest(book, x[i] * inverse);
        double miss = (double)(scale * (float)value_of(book, q[i])) - (double)x[i];
        error += miss * miss;
    }
    return error;
}

/* From one start, by turns, the best scale so far. */
static void refine(const ph_book *book, const float *x, size_t n, float scale, float *best_scale,
                   double *best) {
    for (int turn = 0; turn < TURNS; turn++) {
        uint8_t q[PH_FIT_PART_MAX];
        double  error = ph_fit_book_assign(book, q, x, n, scale), vv = 0, xv = 0;
        if (error < *best) *best = error, *best_scale = scale;
        for (size_t i = 0; i < n; i++) {
            double v = value_of(book, q[i]);
            vv += v * v;
            xv += (double)x[i] * v;
        }
        if (!(vv > 0)) break;
        scale = (float)(xv / vv);
    }
}

float ph_fit_book_scale(const ph_book *book, const float *x, size_t n) {
    float  end = 0, best_scale = 0;
    double best = INFINITY;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(end)) end = x[i];
    for (int start = 0; start < STARTS; start++) {
        /* 0, 1, -1, 2, ...: the plain one first, since among equals it has the shortest fraction.  The
         * largest element goes to the end that reaches further, then to the other. */
        float step = 0.5f * (float)((start + 1) / 2) / (float)book->n, by = start & 1 ? 1 + step : 1 - step;
        refine(book, x, n, end / ((float)value_of(book, 0) * by), &best_scale, &best);
        refine(book, x, n, end / ((float)value_of(book, book->n - 1) * by), &best_scale, &best);
    }
    return best_scale;
}

/* The best whole-numbered scale near the free one, under the block's final d. */
static int settle(const ph_fit_book *f, const float *x, float d, float scale, uint8_t *best_q, double *best) {
    float exact = fabsf(d) > 0 ? roundf(scale / d) : 0, low = (float)-f->steps, high = (float)(f->steps - 1);
    int   centre = (int)(exact >= low ? (exact <= high ? exact : high) : (exact < low ? low : 0));
    int   chosen = centre;
    *best = ph_fit_book_assign(&f->book, best_q, x, f->part, d * (float)centre);
    for (int s = centre - 1; s <= centre + 1; s++) {
        uint8_t q[PH_FIT_PART_MAX];
        if (s < -f->steps || s >= f->steps) continue;
        double error = ph_fit_book_assign(&f->book, q, x, f->part, d * (float)s);
        if (!(error < *best)) continue;
        *best = error;
        chosen = s;
        memcpy(best_q, q, f->part);
    }
    return chosen;
}

/* The whole block under one d; the result is its squared error. */
static double pack_under(const ph_fit_book *f, uint8_t *p, const float *x, const float *scale, float d) {
    double error = 0, one = 0;
    memset(p, 0, f->bytes);
    ph_f16_store(p + f->at_d, d);
    d = ph_f16_load(p + f->at_d);
    for (size_t part = 0; part < PH_FIT_BLOCK / f->part; part++) {
        uint8_t q[PH_FIT_PART_MAX] = {0};
        int     s = settle(f, x + part * f->part, d, scale[part], q, &one);
        f->put(p, part, s, q);
        error += one;
    }
    return error;
}

void ph_fit_book_pack(const ph_fit_book *f, void *out, const float *in, size_t n) {
    uint8_t *p = out, trial[PH_FIT_BYTES_MAX];
    for (size_t b = 0; b < n / PH_FIT_BLOCK; b++, p += f->bytes, in += PH_FIT_BLOCK) {
        float scale[PARTS_MAX], end = 0, steps = (float)f->steps;
        for (size_t part = 0; part < PH_FIT_BLOCK / f->part; part++) {
            scale[part] = ph_fit_book_scale(&f->book, in + part * f->part, f->part);
            if (fabsf(scale[part]) > fabsf(end)) end = scale[part];
        }
        /* The largest becomes -steps, which has no positive twin, or a little less: what suits the others. */
        double best = pack_under(f, p, in, scale, end / -steps);
        for (int less = 1; less < TRIALS; less++) {
            double error = pack_under(f, trial, in, scale, end / ((float)less - steps));
            if (!(error < best)) continue;
            best = error;
            memcpy(p, trial, f->bytes);
        }
    }
}
