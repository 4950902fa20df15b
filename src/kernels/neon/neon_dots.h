/* neon_dots.h - products by integers in AArch64 Advanced SIMD, for sets that sum products of bytes.
 *
 * Four columns go together, a lane each.  Their parts of 32 elements are arranged once, into scratch; then
 * each row's planes, one or two, meet them, and sum, scale and rounding are those of ref_dot.c, lane by lane:
 * the bits are the same.  A set's .c file defines two words for its instructions and includes this file last:
 *
 *   arrange(out[8], q[4][2])       32 bytes of four columns, in the order that sums wants
 *   sums(out[2], w[8], hi, lo, is_halved)
 *                                  of four columns: 256 hi . w + lo . w over 32 elements in out[0];
 *                                  is_halved (a constant): over the first 16 in out[0], over the others in
 *                                  out[1]; lo NULL (rows of 8 bits): hi . w
 */
#ifndef PH_KERNELS_NEON_NEON_DOTS_H
#define PH_KERNELS_NEON_NEON_DOTS_H

#include "kernels/isa.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

enum { PART = 32, COLS = 4, ROWS = 4 };

/* A part of four columns: bytes as the set wants them, scales (of 16 elements each where halved), minimum. */
typedef struct packed {
    int8x16_t   q[8];
    float32x4_t d[2], m;
} packed;

/* A part of one column. */
typedef struct part {
    int8x16_t q[2];
    float     d[2], m;
} part;

typedef struct form {
    void (*cut)(part *out, const uint8_t *block, size_t j);
    size_t elements, bytes;
    int    is_halved, has_min;
} form;

static inline float f16_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}

/* ---- what the types mean ---- */

/* The low halves of 16 bytes, then the high halves, both less `zero`. */
static inline void nibbles(part *p, const uint8_t *q, int8_t zero) {
    uint8x16_t b = vld1q_u8(q);
    p->q[0] = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(b, vdupq_n_u8(15))), vdupq_n_s8(zero));
    p->q[1] = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(b, 4)), vdupq_n_s8(zero));
}

static inline void cut_Q8_0(part *p, const uint8_t *b, size_t j) {
    (void)j;
    p->d[0] = p->d[1] = f16_at(b);
    p->q[0] = vreinterpretq_s8_u8(vld1q_u8(b + 2));
    p->q[1] = vreinterpretq_s8_u8(vld1q_u8(b + 18));
}

static inline void cut_Q4_0(part *p, const uint8_t *b, size_t j) {
    (void)j;
    p->d[0] = p->d[1] = f16_at(b);
    nibbles(p, b + 2, 8);
}

static inline void cut_Q4_1(part *p, const uint8_t *b, size_t j) {
    (void)j;
    p->d[0] = p->d[1] = f16_at(b);
    p->m = f16_at(b + 2);
    nibbles(p, b + 4, 0);
}

/* Eight 6-bit scales and minima in twelve bytes. */
static inline void cut_Q4_K(part *p, const uint8_t *b, size_t j) {
    const uint8_t *s = b + 4, *q = b + 16 + j / 2 * PART;
    int            scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    int            least = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    int8x16_t      shift = vdupq_n_s8(j % 2 ? -4 : 0);
    p->d[0] = p->d[1] = f16_at(b) * (float)scale;
    p->m = -(f16_at(b + 2) * (float)least);
    for (size_t i = 0; i < 2; i++)
        p->q[i] = vreinterpretq_s8_u8(vandq_u8(vshlq_u8(vld1q_u8(q + 16 * i), shift), vdupq_n_u8(15)));
}

static inline void cut_Q6_K(part *p, const uint8_t *b, size_t j) {
    size_t         quarter = j % 4;
    const uint8_t *low = b + j / 4 * 64 + quarter % 2 * PART, *high = b + 128 + j / 4 * PART;
    int8x16_t low_shift = vdupq_n_s8(quarter < 2 ? 0 : -4), high_shift = vdupq_n_s8(4 - 2 * (int)quarter);
    for (size_t i = 0; i < 2; i++) {
        uint8x16_t l = vandq_u8(vshlq_u8(vld1q_u8(low + 16 * i), low_shift), vdupq_n_u8(15));
        uint8x16_t h = vandq_u8(vshlq_u8(vld1q_u8(high + 16 * i), high_shift), vdupq_n_u8(48));
        p->q[i] = vsubq_s8(vreinterpretq_s8_u8(vorrq_u8(l, h)), vdupq_n_s8(32));
        p->d[i] = f16_at(b + 208) * (float)(int8_t)b[192 + j * 2 + i];
    }
}

/* ---- four columns ---- */

/* All of k; columns past the last repeat it. */
static inline void pack(const form *f, packed *out, const uint8_t *w, size_t w_stride, size_t k,
                        size_t cols) {
    for (size_t i = 0; i < k; i += f->elements, w += f->bytes)
        for (size_t j = 0; j < f->elements / PART; j++, out++) {
            int8x16_t q[COLS][2];
            float     d[2][COLS], m[COLS];
            for (size_t c = 0; c < COLS; c++) {
                part p = {.m = 0};
                f->cut(&p, w + (c < cols ? c : cols - 1) * w_stride, j);
                q[c][0] = p.q[0], q[c][1] = p.q[1];
                d[0][c] = p.d[0], d[1][c] = p.d[1], m[c] = p.m;
            }
            arrange(out->q, (const int8x16_t(*)[2])q);
            out->d[0] = vld1q_f32(d[0]), out->d[1] = vld1q_f32(d[1]), out->m = vld1q_f32(m);
        }
}

static inline float32x4_t absorb(const form *f, float32x4_t y, const packed *w, const int8_t *hi,
                                 const int8_t *lo, float d, const int32_t *s) {
    int32x4_t sum[2];
    sums(sum, w->q, hi, lo, f->is_halved);
    for (int half = 0; half < (f->is_halved ? 2 : 1); half++)
        y = vfmaq_f32(y, vmulq_n_f32(w->d[half], d), vcvtq_f32_s32(sum[half]));
    return f->has_min ? vfmaq_f32(y, w->m, vdupq_n_f32(d * (float)(s[0] + s[1]))) : y;
}

/* `rows` (a constant) rows and up to four columns. */
static inline void tile(const form *f, float *y, size_t y_stride, const ph_qrows *x, size_t r0,
                        const packed *w, size_t rows, size_t cols) {
    const size_t parts = x->k / PART;
    float32x4_t  sum[ROWS];
    float        out[COLS];
    for (size_t r = 0; r < rows; r++) sum[r] = vdupq_n_f32(0);
    for (size_t i = 0; i < parts; i++)
        for (size_t r = 0; r < rows; r++) {
            const size_t at = (r0 + r) * parts + i;
            sum[r] = absorb(f, sum[r], &w[i], &x->hi[at * PART], x->lo ? &x->lo[at * PART] : NULL, x->d[at],
                            &x->s[at * 2]);
        }
    for (size_t r = 0; r < rows; r++) {
        vst1q_f32(out, sum[r]);
        memcpy(&y[(r0 + r) * y_stride], out, cols * sizeof *y);
    }
}

static inline void dot(const form *f, float *y, size_t y_stride, const ph_qrows *x, const uint8_t *w,
                       size_t w_stride, size_t rows, size_t cols, packed *p) {
    for (size_t c = 0; c < cols; c += COLS) {
        size_t some = cols - c < COLS ? cols - c : COLS, r = 0;
        pack(f, p, w + c * w_stride, w_stride, x->k, some);
        for (; r + ROWS <= rows; r += ROWS) tile(f, &y[c], y_stride, x, r, p, ROWS, some);
        for (; r < rows; r++) tile(f, &y[c], y_stride, x, r, p, 1, some);
    }
}

#define DOT(T, elements, bytes, halved, min)                                                                 \
    static void dot_##T(float *restrict y, size_t      y_stride, const ph_qrows *restrict x,                 \
                        const void *restrict w, size_t w_stride, size_t rows, size_t cols,                   \
                        void *restrict scratch) {                                                            \
        const form f = {cut_##T, elements, bytes, halved, min};                                              \
        dot(&f, y, y_stride, x, w, w_stride, rows, cols, scratch);                                           \
    }
DOT(Q8_0, 32, 34, 0, 0)
DOT(Q4_0, 32, 18, 0, 0)
DOT(Q4_1, 32, 20, 0, 1)
DOT(Q4_K, 256, 144, 0, 1)
DOT(Q6_K, 256, 210, 1, 0)
#undef DOT

/* ---- rows to integers ---- */

/* The largest size of n elements, as bits: a NaN or an infinity is larger than any number. */
static inline uint32_t most_of(const float *v, size_t n) {
    uint32x4_t most = vdupq_n_u32(0);
    for (size_t i = 0; i < n; i += 4)
        most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(&v[i]))));
    return vmaxvq_u32(most);
}

/* Eight of them. */
static inline int32x4_t eight_of(const ph_qrows *out, size_t at, const float *v, float inverse) {
    int32x4_t q[2];
    int16x4_t hi[2], lo[2];
    for (int i = 0; i < 2; i++) {
        q[i] = inverse > 0 ? vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(v + 4 * i), inverse)) : vdupq_n_s32(0);
        int32x4_t h = out->lo ? vshrq_n_s32(vaddq_s32(q[i], vdupq_n_s32(128)), 8) : q[i];
        hi[i] = vmovn_s32(h);
        lo[i] = vmovn_s32(vsubq_s32(q[i], vshlq_n_s32(h, 8)));
    }
    vst1_s8(&out->hi[at], vmovn_s16(vcombine_s16(hi[0], hi[1])));
    if (out->lo) vst1_s8(&out->lo[at], vmovn_s16(vcombine_s16(lo[0], lo[1])));
    return vaddq_s32(q[0], q[1]);
}

/* Block b of all rows, of n elements. */
static inline void block_of(const ph_qrows *out, size_t b, const float *v, size_t n) {
    const uint32_t bits = most_of(v, n);
    const float    top = out->lo ? 32512.0f : 127.0f;
    float          most;
    memcpy(&most, &bits, sizeof most);
    int   is_finite = bits < 0x7f800000u;
    float inverse = is_finite && most >= 0x1p-110f ? top / most : 0;
    out->d[b] = !is_finite ? NAN : inverse > 0 ? most / top : 0;
    for (size_t half = 0; half < 2; half++) {
        int32x4_t sum = vdupq_n_s32(0);
        for (size_t i = half * (n / 2); i < (half + 1) * (n / 2); i += 8)
            sum = vaddq_s32(sum, eight_of(out, b * n + i, &v[i], inverse));
        out->s[b * 2 + half] = vaddvq_s32(sum);
    }
}

static void qrows_of(const ph_qrows *restrict out, const float *restrict x, size_t x_stride, size_t rows) {
    size_t blocks = out->block ? out->k / out->block : 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t b = 0; b < blocks; b++)
            block_of(out, r * blocks + b, &x[r * x_stride + b * out->block], out->block);
}

/* ---- plain bytes ---- */

/* The sum of x w over k elements. */
static inline int32_t bytes_sum(const int8_t *x, const int8_t *w, size_t k) {
    int32x4_t sum = vdupq_n_s32(0);
    for (size_t i = 0; i < k; i += 16) {
        int8x16_t a = vld1q_s8(&x[i]), b = vld1q_s8(&w[i]);
        sum = vdotq_s32(sum, a, b);
    }
    return vaddvq_s32(sum);
}

static void dot_I8(float *restrict y, size_t y_stride, const ph_qrows *restrict x, const void *restrict w,
                   size_t w_stride, size_t rows, size_t cols, void *restrict scratch) {
    (void)scratch;
    for (size_t c = 0; c < cols; c++)
        for (size_t r = 0; r < rows; r++) {
            const int8_t *v = (const int8_t *)w + c * w_stride;
            float         sum = (float)bytes_sum(&x->hi[r * x->k], v, x->k);
            if (x->lo) sum = fmaf(256.0f, sum, (float)bytes_sum(&x->lo[r * x->k], v, x->k));
            y[r * y_stride + c] = x->k ? x->d[r] * sum : 0;
        }
}

static void install(ph_kernels *k) {
    k->qrows_of = qrows_of;
    k->dot_I8 = dot_I8, k->dot_Q8_0 = dot_Q8_0, k->dot_Q4_0 = dot_Q4_0, k->dot_Q4_1 = dot_Q4_1;
    k->dot_Q4_K = dot_Q4_K, k->dot_Q6_K = dot_Q6_K;
}

#endif
