/* ref_dot.c - products by integers: rows of 16 or 8 bits against stored integers.
 *
 * A stored block is cut into parts of 32 elements: integers, a scale (two for types whose scales are for 16),
 * and perhaps a minimum.  The sums of integers are exact and the order of the few float operations is the
 * definition, so every instruction set must give these bits.
 */
#include "kernels/ref/ref.h"

#include "tensor/half.h"

#include <math.h>
#include <string.h>

enum { PART = 32 };

typedef struct part {
    int   q[PART];
    float d[2]; /* of the first and the last 16 elements */
    float m;
} part;

typedef void cut_fn(part *out, const unsigned char *block, size_t j);

typedef struct form {
    cut_fn *cut;
    size_t  elements, bytes;
    int     is_halved; /* scales are for 16 elements */
    int     has_min;
} form;

static void block_of(const ph_qrows *out, size_t at, const float *v) {
    const float top = out->lo ? 32512.0f : 127.0f;
    float       most = 0;
    int         is_finite = 1;
    for (size_t i = 0; i < out->block; i++) {
        is_finite = is_finite && isfinite(v[i]);
        if (fabsf(v[i]) > most) most = fabsf(v[i]);
    }
    float    inverse = is_finite && most >= 0x1p-110f ? top / most : 0;
    int32_t *s = &out->s[at * 2];
    out->d[at] = !is_finite ? NAN : inverse > 0 ? most / top : 0;
    s[0] = s[1] = 0;
    for (size_t i = 0; i < out->block; i++) {
        int32_t q = inverse > 0 ? (int32_t)rintf(v[i] * inverse) : 0, hi = out->lo ? (q + 128) >> 8 : q;
        out->hi[at * out->block + i] = (int8_t)hi;
        if (out->lo) out->lo[at * out->block + i] = (int8_t)(q - hi * 256);
        s[i / (out->block / 2)] += q;
    }
}

void ph_ref_qrows_of(const ph_qrows *restrict out, const float *restrict x, size_t x_stride, size_t rows) {
    size_t blocks = out->block ? out->k / out->block : 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t b = 0; b < blocks; b++) block_of(out, r * blocks + b, &x[r * x_stride + b * out->block]);
}

static void cut_Q8_0(part *p, const unsigned char *b, size_t j) {
    (void)j;
    p->d[0] = p->d[1] = ph_f16_load(b);
    for (size_t i = 0; i < PART; i++) p->q[i] = (int8_t)b[2 + i];
}

static void nibbles(part *p, const unsigned char *q, int less) {
    for (size_t i = 0; i < PART / 2; i++) {
        p->q[i] = (q[i] & 15) - less;
        p->q[i + PART / 2] = (q[i] >> 4) - less;
    }
}

static void cut_Q4_0(part *p, const unsigned char *b, size_t j) {
    (void)j;
    p->d[0] = p->d[1] = ph_f16_load(b);
    nibbles(p, b + 2, 8);
}

static void cut_Q4_1(part *p, const unsigned char *b, size_t j) {
    (void)j;
    p->d[0] = p->d[1] = ph_f16_load(b);
    p->m = ph_f16_load(b + 2);
    nibbles(p, b + 4, 0);
}

/* Eight 6-bit scales and minima in twelve bytes. */
static void cut_Q4_K(part *p, const unsigned char *b, size_t j) {
    const unsigned char *s = b + 4, *q = b + 16 + j / 2 * PART;
    int                  scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    int                  least = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    p->d[0] = p->d[1] = ph_f16_load(b) * (float)scale;
    p->m = -(ph_f16_load(b + 2) * (float)least);
    for (size_t i = 0; i < PART; i++) p->q[i] = j % 2 ? q[i] >> 4 : q[i] & 15;
}

static void cut_Q6_K(part *p, const unsigned char *b, size_t j) {
    size_t               half = j / 4, quarter = j % 4;
    const unsigned char *low = b + half * 64 + quarter % 2 * PART, *high = b + 128 + half * PART;
    for (size_t i = 0; i < PART; i++) {
        int l = quarter < 2 ? low[i] & 15 : low[i] >> 4;
        p->q[i] = (l | (high[i] >> (2 * quarter) & 3) << 4) - 32;
    }
    for (size_t i = 0; i < 2; i++) p->d[i] = ph_f16_load(b + 208) * (float)(int8_t)b[192 + j * 2 + i];
}

static float absorb(float y, const form *f, const part *p, const ph_qrows *x, size_t at) {
    const int8_t  *hi = &x->hi[at * PART], *lo = x->lo ? &x->lo[at * PART] : NULL;
    const float    d = x->d[at];
    const int32_t *s = &x->s[at * 2];
    int32_t        sum[2] = {0, 0};
    for (size_t i = 0; i < PART; i++) sum[i / 16] += p->q[i] * (lo ? hi[i] * 256 + lo[i] : hi[i]);
    if (f->is_halved) {
        y = fmaf(p->d[0] * d, (float)sum[0], y);
        return fmaf(p->d[1] * d, (float)sum[1], y);
    }
    y = fmaf(p->d[0] * d, (float)(sum[0] + sum[1]), y);
    return f->has_min ? fmaf(p->m, d * (float)(s[0] + s[1]), y) : y;
}

static void dot(const form *f, float *y, size_t y_stride, const ph_qrows *x, const unsigned char *w,
                size_t w_stride, size_t rows, size_t cols) {
    size_t parts = f->elements / PART, n = x->k / PART;
    for (size_t c = 0; c < cols; c++)
        for (size_t r = 0; r < rows; r++) {
            float sum = 0;
            part  p;
            for (size_t i = 0; i < n; i++) {
                f->cut(&p, &w[c * w_stride + i / parts * f->bytes], i % parts);
                sum = absorb(sum, f, &p, x, r * n + i);
            }
            y[r * y_stride + c] = sum;
        }
}

#define DOT(T, elements, bytes, halved, min)                                                                 \
    void ph_ref_dot_##T(float *restrict y, size_t      y_stride, const ph_qrows *restrict x,                 \
                        const void *restrict w, size_t w_stride, size_t rows, size_t cols,                   \
                        void *restrict scratch) {                                                            \
        const form f = {cut_##T, elements, bytes, halved, min};                                              \
        (void)scratch;                                                                                       \
        dot(&f, y, y_stride, x, w, w_stride, rows, cols);                                                    \
    }
DOT(Q8_0, 32, 34, 0, 0)
DOT(Q4_0, 32, 18, 0, 0)
DOT(Q4_1, 32, 20, 0, 1)
DOT(Q4_K, 256, 144, 0, 1)
DOT(Q6_K, 256, 210, 1, 0)

void ph_ref_dot_I8(float *restrict y, size_t y_stride, const ph_qrows *restrict x, const void *restrict w,
                   size_t w_stride, size_t rows, size_t cols, void *restrict scratch) {
    (void)scratch;
    for (size_t c = 0; c < cols; c++)
        for (size_t r = 0; r < rows; r++) {
            const int8_t *v = (const int8_t *)w + c * w_stride;
            int32_t       hi = 0, lo = 0;
            for (size_t i = 0; i < x->k; i++) {
                hi += v[i] * x->hi[r * x->k + i];
                if (x->lo) lo += v[i] * x->lo[r * x->k + i];
            }
            float sum = x->lo ? fmaf(256.0f, (float)hi, (float)lo) : (float)hi;
            y[r * y_stride + c] = x->k ? x->d[r] * sum : 0;
        }
}
