/* vnni.c - products by integers with AVX-512 VNNI: 64 multiply-adds an instruction.
 *
 * Sixteen columns go together, a lane each.  Of 32 elements of each column
 *
 *     one row       a column's bytes meet the row's planes, one or two (vpdpbusd): eight partial sums a column,
 *                   four where nibbles are met as they stand; a small tree of additions turns sixteen columns'
 *                   partial sums into one vector of sums
 *     more rows     the bytes of sixteen columns are interleaved once, four of each column a lane, into
 *                   scratch; then four bytes of a row meet all sixteen columns at once
 *
 * and either way sum, scale and rounding are those of ref_dot.c, lane by lane: the bits are the same.
 *
 * vpdpbusd takes unsigned times signed: stored integers become unsigned by adding `zero` (8, 128, 32), and
 * the rows' sums take it back.
 */
#include "kernels/isa.h"

#include "kernels/vnni/vnni_block.h"

#include <math.h>
#include <string.h>

/* Rows of a tile: as many as leave its sums in registers, of two planes, of one, and of one with sums of
 * halves. */
enum { ROWS = 3, ROWS_MAX = 6, ROWS_HALVED = 4, VECTORS = 2, FEW = 4 };

/* Eight vectors of two times eight partial sums to sixteen sums, in order of columns, for the first 16
 * elements (even 128-bit lanes) and the last apart. */
INLINE void sum_halves(const __m512i v[8], __m512i out[2]) {
    __m512i a = sum_lanes(v), b = sum_lanes(v + 4);
    out[0] = _mm512_shuffle_i64x2(a, b, 0x88);
    out[1] = _mm512_shuffle_i64x2(a, b, 0xdd);
}

/* The same for all of them. */
INLINE __m512i sum_columns(const __m512i v[8]) {
    __m512i half[2];
    sum_halves(v, half);
    return _mm512_add_epi32(half[0], half[1]);
}

INLINE __m512 absorb(const form *f, __m512 y, const scales *s, int half, __m512i sum, float d,
                     int32_t x_sum) {
    y = _mm512_fmadd_ps(_mm512_mul_ps(s->d[half], _mm512_set1_ps(d)), _mm512_cvtepi32_ps(sum), y);
    return f->has_min ? _mm512_fmadd_ps(s->m, _mm512_set1_ps(d * (float)x_sum), y) : y;
}

/* What was added to the stored integers, met by a row whose integers sum up to x_sum: where sums begin. */
INLINE __m512i less_zero(const form *f, int32_t x_sum) {
    return f->zero_shift < 0 ? _mm512_setzero_si512()
                             : _mm512_set1_epi32((int32_t)(0 - ((uint32_t)x_sum << f->zero_shift)));
}

INLINE void store(float *y, __m512 v, size_t cols) {
    _mm512_mask_storeu_ps(y, cols >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << cols) - 1), v);
}

/* ---- one row ---- */

INLINE __m512i twice(const int8_t *q) {
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)q));
}

/* Sums of 32 elements of sixteen columns in 4 bits, four columns a vector; column 4 l + g is in 128 bits l of
 * vector g, so that what is added up stands in order. */
INLINE __m512i sum_nibbles(const form *f, int planes, const int8_t *hi, const int8_t *lo, const uint8_t *w,
                           size_t w_stride, size_t cols) {
    const __m512i low = _mm512_set1_epi8(15);
    __m512i       x[2][2], v[4];
    UNROLL
    for (int half = 0; half < 2; half++) {
        x[0][half] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(hi + 16 * half)));
        x[1][half] =
            planes == 1
                ? x[0][half]
                : _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(lo + 16 * half)));
    }
    UNROLL
    for (size_t g = 0; g < 4; g++) {
        __m128i b[4];
        UNROLL
        for (size_t l = 0; l < 4; l++) {
            size_t c = 4 * l + g < cols ? 4 * l + g : cols - 1;
            b[l] = _mm_loadu_si128((const __m128i *)(const void *)(w + c * w_stride + f->nibbles));
        }
        __m512i q = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(b[1], b[0])),
                                       _mm256_set_m128i(b[3], b[2]), 1);
        __m512i first = _mm512_and_si512(q, low), last = _mm512_and_si512(_mm512_srli_epi16(q, 4), low);
        v[g] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), first, x[0][0]);
        v[g] = _mm512_dpbusd_epi32(v[g], last, x[0][1]);
        if (planes > 1) {
            v[g] = _mm512_dpbusd_epi32(_mm512_slli_epi32(v[g], 8), first, x[1][0]);
            v[g] = _mm512_dpbusd_epi32(v[g], last, x[1][1]);
        }
    }
    return sum_lanes(v);
}

/* The same of bytes, two columns a vector; of a halved type the two halves, else all in out[0]. */
INLINE void sum_bytes(const form *f, int planes, __m512i out[2], const int8_t *hi, const int8_t *lo,
                      const uint8_t *w, size_t w_stride, size_t cols, size_t j) {
    __m512i x = twice(hi), v[8];
    pairs(f, v, w, w_stride, cols, j);
    UNROLL
    for (int c = 0; c < 8; c++) {
        __m512i up = _mm512_dpbusd_epi32(_mm512_setzero_si512(), v[c], x);
        v[c] = planes == 1 ? up : _mm512_dpbusd_epi32(_mm512_slli_epi32(up, 8), v[c], twice(lo));
    }
    if (f->is_halved)
        sum_halves(v, out);
    else
        out[0] = sum_columns(v);
}

/* A row on its way along k. */
typedef struct walk {
    const int8_t  *hi, *lo;
    const float   *d;
    const int32_t *s;
    const uint8_t *w, *ahead;
} walk;

/* The parts under one head meet the row. */
INLINE __m512 meet(const form *f, int planes, __m512 sum, walk *at, const head *h, size_t w_stride,
                   size_t parts, size_t cols) {
    const size_t each = f->elements / PART, lines = (LANES * f->bytes * PART / f->elements + 63) / 64;
    UNROLL
    for (size_t j = 0; j < parts; j++, at->hi += PART, at->d++, at->s += 2) {
        const uint8_t *w = at->w + j / each * f->bytes;
        __m512i        half[2];
        scales         scale;
        UNROLL
        for (size_t l = 0; l < lines; l++, at->ahead += 64)
            _mm_prefetch((const char *)at->ahead, _MM_HINT_T0);
        f->scales_of(&scale, h, j);
        if (f->nibbles)
            half[0] = sum_nibbles(f, planes, at->hi, at->lo, w, w_stride, cols);
        else
            sum_bytes(f, planes, half, at->hi, at->lo, w, w_stride, cols, j % each);
        if (planes > 1) at->lo += PART;
        for (int e = 0; e < (f->is_halved ? 2 : 1); e++) {
            int32_t x_sum = f->is_halved ? at->s[e] : at->s[0] + at->s[1];
            sum = absorb(f, sum, &scale, e, _mm512_add_epi32(half[e], less_zero(f, x_sum)), *at->d, x_sum);
        }
    }
    at->w += parts / each * f->bytes;
    return sum;
}

/* Sixteen columns are read side by side, more streams than a processor follows by itself; so while they are
 * met, the next sixteen are called for, line by line.  Past the last column that is a word to nobody. */
INLINE void stream(const form *f, int planes, float *y, const ph_qrows *row, const uint8_t *w,
                   size_t w_stride, size_t cols) {
    const size_t each = f->elements / PART;
    __m512       sum = _mm512_setzero_ps();
    walk         at = {row->hi, row->lo, row->d, row->s, w, w + LANES * w_stride};
    size_t       left = row->k / f->elements;
    head         h;
    for (; left >= f->span; left -= f->span) {
        f->heads_of(&h, at.w, w_stride, cols);
        sum = meet(f, planes, sum, &at, &h, w_stride, each * f->span, cols);
    }
    for (; f->span > 1 && left; left--) {
        f->head_of(&h, at.w, w_stride, cols);
        sum = meet(f, planes, sum, &at, &h, w_stride, each, cols);
    }
    store(y, sum, cols);
}

/* ---- one row and superblocks ---- */

#include "kernels/vnni/vnni_line.h"

/* Where the row's integers for lines and the sums of sixteen columns stand in scratch. */
typedef struct desk {
    int8_t  *hi, *lo;
    int32_t *sums;
    size_t   stride; /* from column to column */
} desk;

/* The row's parts in the order in which lines of Q4_K have them; others take them as they are. */
INLINE void set_desk(const form *f, desk *t, const ph_qrows *row, void *scratch) {
    t->sums = scratch;
    t->stride = row->k / (f->is_halved ? 16 : 32);
    t->hi = row->hi, t->lo = row->lo;
    if (f->is_halved) return;
    t->hi = (int8_t *)scratch + 2 * row->k;
    t->lo = t->hi + row->k;
    for (size_t i = 0; i < row->k; i += 128)
        for (size_t j = 0; j < 4; j++) {
            size_t to = i + (j % 2 * 2 + j / 2) * PART;
            memcpy(t->hi + to, row->hi + i + j * PART, PART);
            if (row->lo) memcpy(t->lo + to, row->lo + i + j * PART, PART);
        }
}

INLINE void lines(const form *f, int planes, float *y, const ph_qrows *row, const desk *t, const uint8_t *w,
                  size_t w_stride, size_t cols) {
    const size_t   blocks = row->k / SUPER, parts = SUPER / PART;
    const uint8_t *ahead = w + LANES * w_stride;
    __m512         sum = _mm512_setzero_ps();
    for (size_t c = 0; c < cols; c += PAIR) {
        size_t d = c + 1 < cols ? c + 1 : c;
        pair   two = {
              {w + c * w_stride, w + d * w_stride}, {t->sums + c * t->stride, t->sums + d * t->stride}, ahead};
        ahead += 64 * blocks * (size_t)(f->is_halved ? LINES_Q6_K : LINES_Q4_K);
        f->line(planes, two, t->hi, t->lo, blocks);
    }
    for (size_t b = 0; b < blocks; b++, w += f->bytes) {
        __m512i n[16];
        head    h;
        f->heads_of(&h, w, w_stride, cols);
        if (f->is_halved)
            turn16(t->sums + b * 16, t->stride, n);
        else
            turn8(t->sums + b * 8, t->stride, n);
        UNROLL
        for (size_t j = 0; j < parts; j++) {
            const int32_t *s = &row->s[2 * (b * parts + j)];
            scales         scale;
            ahead = call(ahead, LINES_SCALE);
            f->scales_of(&scale, &h, j);
            for (size_t e = 0; e < (f->is_halved ? 2 : 1); e++) {
                int32_t x_sum = f->is_halved ? s[e] : s[0] + s[1];
                size_t  at = f->is_halved ? (2 * j + e) / 4 + (2 * j + e) % 4 * 4 : j;
                sum = absorb(f, sum, &scale, (int)e, _mm512_add_epi32(n[at], less_zero(f, x_sum)),
                             row->d[b * parts + j], x_sum);
            }
        }
    }
    store(y, sum, cols);
}

/* ---- more rows ---- */

INLINE __m512i four(const int8_t *q) {
    int32_t bytes;
    memcpy(&bytes, q, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

/* Weights that come next, called for to the second-level cache, some lines at a time: a processor has room
 * for a few dozen calls, and what it fetches by itself ends with each column's run. */
typedef struct calls {
    const uint8_t *at;
    size_t         stride, n, cols; /* bytes from column to column; of a run; columns to come */
    size_t         i;               /* bytes of this column's run that were called for */
} calls;

INLINE void call_for(calls *c, size_t lines) {
    for (; lines && c->cols; lines--) {
        _mm_prefetch((const char *)&c->at[c->i], _MM_HINT_T1);
        c->i += 64;
        if (c->i < c->n) continue;
        c->i = 0;
        c->at += c->stride;
        c->cols--;
    }
}

/* What comes behind `own` of `left` columns from w on, runs of n bytes. */
INLINE calls calls_behind(const uint8_t *w, size_t w_stride, size_t left, size_t own, size_t n) {
    const size_t most = VECTORS * LANES, cols = left - own < most ? left - own : most;
    return (calls){.at = cols ? w + own * w_stride : w, .stride = w_stride, .n = n, .cols = cols};
}

/* rows x 16 vectors columns (both and planes constants); p: [vectors][parts]. */
INLINE void tile(const form *f, int planes, float *y, size_t y_stride, const ph_qrows *x, size_t r0,
                 const packed *p, size_t rows, size_t vectors, size_t cols) {
    size_t parts = x->k / PART;
    __m512 sum[ROWS_MAX][VECTORS];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < vectors; c++) sum[r][c] = _mm512_setzero_ps();
    }
    for (size_t i = 0; i < parts; i++) {
        for (size_t half = 0; half < (f->is_halved ? 2u : 1u); half++) {
            __m512i n[ROWS_MAX][VECTORS], high[ROWS_MAX][VECTORS];
            int32_t x_sum[ROWS_MAX];
            size_t  from = half * 4, to = f->is_halved ? from + 4 : 8;
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const int32_t *s = &x->s[((r0 + r) * parts + i) * 2];
                x_sum[r] = f->is_halved ? s[half] : s[0] + s[1];
                UNROLL
                for (size_t c = 0; c < vectors; c++) {
                    n[r][c] = less_zero(f, x_sum[r]);
                    high[r][c] = _mm512_setzero_si512();
                }
            }
            UNROLL
            for (size_t t = from; t < to; t++) {
                __m512i u[VECTORS];
                UNROLL
                for (size_t c = 0; c < vectors; c++) u[c] = p[c * parts + i].q[t];
                UNROLL
                for (size_t r = 0; r < rows; r++) {
                    size_t  at = (r0 + r) * x->k + i * PART + t * 4;
                    __m512i hi = four(&x->hi[at]), lo = planes == 1 ? hi : four(&x->lo[at]);
                    UNROLL
                    for (size_t c = 0; c < vectors; c++) {
                        n[r][c] = _mm512_dpbusd_epi32(n[r][c], u[c], lo);
                        if (planes > 1) high[r][c] = _mm512_dpbusd_epi32(high[r][c], u[c], hi);
                    }
                }
            }
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                float d = x->d[(r0 + r) * parts + i];
                UNROLL
                for (size_t c = 0; c < vectors; c++) {
                    const packed *at = &p[c * parts + i];
                    scales        scale = {.d = {at->d[0], at->d[0]}, .m = _mm512_setzero_ps()};
                    __m512i       whole = n[r][c];
                    if (f->is_halved) scale.d[1] = at->d[1];
                    if (f->has_min) scale.m = at->m;
                    if (planes > 1) whole = _mm512_add_epi32(_mm512_slli_epi32(high[r][c], 8), whole);
                    sum[r][c] = absorb(f, sum[r][c], &scale, (int)half, whole, d, x_sum[r]);
                }
            }
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < vectors; c++)
            store(&y[(r0 + r) * y_stride + c * LANES], sum[r][c], cols - c * LANES);
    }
}

INLINE void strip(const form *f, int planes, float *y, size_t y_stride, const ph_qrows *x, const packed *p,
                  calls next, size_t rows, size_t vectors, size_t cols) {
    size_t       r = 0;
    const size_t most = planes > 1 ? ROWS : f->is_halved ? ROWS_HALVED : ROWS_MAX;
    /* All of them by the last whole tile. */
    const size_t lines = next.cols * ((next.n + 63) / 64), tiles = rows / most + 1;
    for (; r + most <= rows; r += most) {
        call_for(&next, lines / tiles + 1);
        tile(f, planes, y, y_stride, x, r, p, most, vectors, cols);
    }
    call_for(&next, lines);
    for (; r + 2 <= rows; r += 2) tile(f, planes, y, y_stride, x, r, p, 2, vectors, cols);
    for (; r < rows; r++) tile(f, planes, y, y_stride, x, r, p, 1, vectors, cols);
}

/* Sixteen columns, or the last, by themselves. */
INLINE void sixteen(const form *f, int planes, float *y, const ph_qrows *row, const desk *t, const uint8_t *w,
                    size_t w_stride, size_t cols) {
    if (f->line)
        lines(f, planes, y, row, t, w, w_stride, cols);
    else
        stream(f, planes, y, row, w, w_stride, cols);
}

INLINE void few(const form *f, int planes, float *y, size_t y_stride, const ph_qrows *x, const uint8_t *w,
                size_t w_stride, size_t rows, size_t cols, void *scratch) {
    for (size_t r = 0; r < rows; r++) {
        ph_qrows row = ph_qrows_from(x, r);
        desk     t;
        if (f->line) set_desk(f, &t, &row, scratch);
        for (size_t c = 0; c < cols; c += LANES) {
            if (cols - c < LANES)
                sixteen(f, planes, &y[r * y_stride + c], &row, &t, w + c * w_stride, w_stride, cols - c);
            else
                sixteen(f, planes, &y[r * y_stride + c], &row, &t, w + c * w_stride, w_stride, LANES);
        }
    }
}

INLINE void dot(const form *f, int planes, float *y, size_t y_stride, const ph_qrows *x, const uint8_t *w,
                size_t w_stride, size_t rows, size_t cols, packed *p) {
    size_t parts = x->k / PART;
    if (rows < FEW) {
        few(f, planes, y, y_stride, x, w, w_stride, rows, cols, p);
        return;
    }
    for (size_t c = 0; c < cols; c += VECTORS * LANES) {
        const size_t left = cols - c, most = VECTORS * LANES;
        const calls  next = calls_behind(w + c * w_stride, w_stride, left, left < most ? left : most,
                                         x->k / f->elements * f->bytes);
        pack(f, p, sizeof *p, w + c * w_stride, w_stride, x->k, left < LANES ? left : LANES, 0);
        if (left <= LANES) {
            strip(f, planes, &y[c], y_stride, x, p, next, rows, 1, left);
            continue;
        }
        size_t second = left - LANES < LANES ? left - LANES : LANES;
        pack(f, p + parts, sizeof *p, w + (c + LANES) * w_stride, w_stride, x->k, second, 0);
        strip(f, planes, &y[c], y_stride, x, p, next, rows, VECTORS, LANES + second);
    }
}

#define DOT(T, elements, bytes, span, halved, min, zero, nibbles, heads, head, scales, line)                 \
    static void dot_##T(float *restrict y, size_t      y_stride, const ph_qrows *restrict x,                 \
                        const void *restrict w, size_t w_stride, size_t rows, size_t cols,                   \
                        void *restrict scratch) {                                                            \
        const form f = {elements, bytes,     span,  halved, min,    zero,                                    \
                        nibbles,  bytes_##T, heads, head,   scales, line};                                   \
        if (x->lo)                                                                                           \
            dot(&f, 2, y, y_stride, x, w, w_stride, rows, cols, scratch);                                    \
        else                                                                                                 \
            dot(&f, 1, y, y_stride, x, w, w_stride, rows, cols, scratch);                                    \
    }
BLOCK_TYPES_OF_32(DOT)
BLOCK_TYPES_OF_16(DOT)

#include "kernels/vnni/vnni_bytes.h"

#include "kernels/vnni/vnni_rows.h"

void ph_install_vnni(ph_kernels *k) {
    k->qrows_of = qrows_of;
    k->dot_I8 = dot_I8, k->dot_Q8_0 = dot_Q8_0, k->dot_Q4_0 = dot_Q4_0, k->dot_Q4_1 = dot_Q4_1;
    k->dot_Q4_K = dot_Q4_K, k->dot_Q6_K = dot_Q6_K;
}
