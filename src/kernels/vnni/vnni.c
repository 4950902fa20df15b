/* vnni.c - products by integers with AVX-512 VNNI: 64 multiply-adds an instruction.
 *
 * Sixteen columns go together, a lane each.  Of 32 elements of each column
 *
 *     one row       a column's bytes meet the row's two planes (vpdpbusd), eight partial sums a column; a
 * small tree of additions turns sixteen columns' partial sums into one vector of sums more rows     the bytes
 * of sixteen columns are interleaved once, four of each column a lane, into scratch; then four bytes of a row
 * meet all sixteen columns at once
 *
 * and either way sum, scale and rounding are those of ref_dot.c, lane by lane: the bits are the same.
 *
 * vpdpbusd takes unsigned times signed: stored integers become unsigned by adding `zero` (8, 128, 32), and
 * the rows' sums take it back.
 */
#include "kernels/isa.h"

#include "base/asan.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define INLINE static inline
#define UNROLL
#elif defined(__clang__)
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum { PART = 32, LANES = 16, ROWS = 4, VECTORS = 2, FEW = 4 };

/* Scales of sixteen columns for one part; d[1] and m where the type has them. */
typedef struct scales {
    __m512 d[2], m;
} scales;

/* What a superblock of sixteen columns says once. */
typedef struct head {
    __m512  d, dmin;
    __m512i word[4];
} head;

typedef struct form {
    size_t elements, bytes;
    int    is_halved, has_min, zero_shift; /* zero = 1 << zero_shift; -1: none */
    __m256i (*bytes_of)(const uint8_t *block, size_t j);
    void (*head_of)(head *h, const uint8_t *w, __m512i at);
    void (*scales_of)(scales *s, const head *h, size_t j);
} form;

/* ---- what the types mean ---- */

INLINE __m512i gather(const uint8_t *w, __m512i at) {
    return _mm512_i32gather_epi32(at, (const void *)w, 1);
}

INLINE __m512 halves(__m512i low16) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(low16));
}

INLINE __m256i nibbles(const uint8_t *q) {
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)q), low = _mm_set1_epi8(15);
    return _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16(b, 4), low), _mm_and_si128(b, low));
}

INLINE void head_small(head *h, const uint8_t *w, __m512i at) {
    __m512i both = gather(w, at);
    h->d = halves(both);
    h->dmin = halves(_mm512_srli_epi32(both, 16));
}

INLINE void scales_small(scales *s, const head *h, size_t j) {
    (void)j;
    s->d[0] = h->d;
    s->m = h->dmin;
}

INLINE __m256i bytes_Q8_0(const uint8_t *b, size_t j) {
    (void)j;
    return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)(b + 2)),
                            _mm256_set1_epi8((char)0x80));
}

INLINE __m256i bytes_Q4_0(const uint8_t *b, size_t j) {
    (void)j;
    return nibbles(b + 2);
}

INLINE __m256i bytes_Q4_1(const uint8_t *b, size_t j) {
    (void)j;
    return nibbles(b + 4);
}

INLINE __m256i bytes_Q4_K(const uint8_t *b, size_t j) {
    __m256i q = _mm256_loadu_si256((const __m256i *)(const void *)(b + 16 + j / 2 * PART));
    if (j % 2) q = _mm256_srli_epi16(q, 4);
    return _mm256_and_si256(q, _mm256_set1_epi8(15));
}

INLINE void head_Q4_K(head *h, const uint8_t *w, __m512i at) {
    head_small(h, w, at);
    UNROLL
    for (int i = 0; i < 3; i++) h->word[i] = gather(w + 4 + 4 * i, at);
}

INLINE __m512i byte_of(__m512i word, size_t j) {
    return _mm512_and_si512(_mm512_srli_epi32(word, (unsigned)(8 * j)), _mm512_set1_epi32(255));
}

/* Eight 6-bit scales and minima in twelve bytes, of sixteen columns. */
INLINE void scales_Q4_K(scales *s, const head *h, size_t j) {
    const __m512i six = _mm512_set1_epi32(63), four = _mm512_set1_epi32(15);
    __m512i       scale, least;
    if (j < 4) {
        scale = _mm512_and_si512(byte_of(h->word[0], j), six);
        least = _mm512_and_si512(byte_of(h->word[1], j), six);
    } else {
        __m512i low = byte_of(h->word[2], j - 4), a = byte_of(h->word[0], j - 4),
                b = byte_of(h->word[1], j - 4);
        scale = _mm512_or_si512(_mm512_and_si512(low, four), _mm512_slli_epi32(_mm512_srli_epi32(a, 6), 4));
        least = _mm512_or_si512(_mm512_srli_epi32(low, 4), _mm512_slli_epi32(_mm512_srli_epi32(b, 6), 4));
    }
    s->d[0] = _mm512_mul_ps(h->d, _mm512_cvtepi32_ps(scale));
    s->m = _mm512_mul_ps(h->dmin, _mm512_cvtepi32_ps(least));
    s->m = _mm512_xor_ps(s->m, _mm512_set1_ps(-0.0f));
}

INLINE __m256i bytes_Q6_K(const uint8_t *b, size_t j) {
    size_t  quarter = j % 4;
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)(b + j / 4 * 64 + quarter % 2 * PART));
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(b + 128 + j / 4 * PART));
    if (quarter >= 2) low = _mm256_srli_epi16(low, 4);
    high = quarter == 0   ? _mm256_slli_epi16(high, 4)
           : quarter == 1 ? _mm256_slli_epi16(high, 2)
           : quarter == 2 ? high
                          : _mm256_srli_epi16(high, 2);
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)),
                           _mm256_and_si256(high, _mm256_set1_epi8(48)));
}

INLINE void head_Q6_K(head *h, const uint8_t *w, __m512i at) {
    h->d = halves(_mm512_srli_epi32(gather(w + 206, at), 16)); /* the last two bytes of the block */
    UNROLL
    for (int i = 0; i < 4; i++) h->word[i] = gather(w + 192 + 4 * i, at);
}

INLINE void scales_Q6_K(scales *s, const head *h, size_t j) {
    UNROLL
    for (size_t i = 0; i < 2; i++) {
        unsigned up = (unsigned)(24 - 8 * (j * 2 % 4 + i));
        __m512i  scale = _mm512_srai_epi32(_mm512_slli_epi32(h->word[j / 2], up), 24);
        s->d[i] = _mm512_mul_ps(h->d, _mm512_cvtepi32_ps(scale));
    }
}

/* ---- sixteen columns ---- */

/* Where the columns' blocks begin; those past the last repeat it. */
INLINE __m512i places(size_t w_stride, size_t cols) {
    __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    lane = _mm512_min_epi32(lane, _mm512_set1_epi32((int)cols - 1));
    return _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)w_stride));
}

/* Columns i and 4 + i (+ 8 for the second four) side by side: what both trees below begin with. */
INLINE void pairs(const form *f, __m512i v[8], const uint8_t *w, size_t w_stride, size_t cols, size_t j) {
    UNROLL
    for (size_t i = 0; i < 8; i++) {
        size_t a = i % 4 + i / 4 * 8, b = a + 4;
        a = a < cols ? a : cols - 1;
        b = b < cols ? b : cols - 1;
        v[i] = _mm512_inserti64x4(_mm512_castsi256_si512(f->bytes_of(w + a * w_stride, j)),
                                  f->bytes_of(w + b * w_stride, j), 1);
    }
}

/* Eight vectors of two times eight partial sums to sixteen sums, in order of columns. */
INLINE __m512i sum_columns(const __m512i v[8]) {
    __m512i t[4], u[2];
    UNROLL
    for (int i = 0; i < 4; i++)
        t[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    UNROLL
    for (int i = 0; i < 2; i++)
        u[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(t[2 * i], t[2 * i + 1]),
                                _mm512_unpackhi_epi64(t[2 * i], t[2 * i + 1]));
    return _mm512_add_epi32(_mm512_shuffle_i64x2(u[0], u[1], 0x88), _mm512_shuffle_i64x2(u[0], u[1], 0xdd));
}

/* The same for the first 16 elements (even 128-bit lanes) and the last apart. */
INLINE void sum_halves(const __m512i v[8], __m512i out[2]) {
    __m512i t[4], u[2];
    UNROLL
    for (int i = 0; i < 4; i++)
        t[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    UNROLL
    for (int i = 0; i < 2; i++)
        u[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(t[2 * i], t[2 * i + 1]),
                                _mm512_unpackhi_epi64(t[2 * i], t[2 * i + 1]));
    out[0] = _mm512_shuffle_i64x2(u[0], u[1], 0x88);
    out[1] = _mm512_shuffle_i64x2(u[0], u[1], 0xdd);
}

INLINE __m512 absorb(const form *f, __m512 y, const scales *s, int half, __m512i sum, float d,
                     int32_t x_sum) {
    if (f->zero_shift >= 0)
        sum = _mm512_sub_epi32(sum, _mm512_set1_epi32((int32_t)((uint32_t)x_sum << f->zero_shift)));
    y = _mm512_fmadd_ps(_mm512_mul_ps(s->d[half], _mm512_set1_ps(d)), _mm512_cvtepi32_ps(sum), y);
    return f->has_min ? _mm512_fmadd_ps(s->m, _mm512_set1_ps(d * (float)x_sum), y) : y;
}

INLINE void store(float *y, __m512 v, size_t cols) {
    _mm512_mask_storeu_ps(y, cols >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << cols) - 1), v);
}

/* ---- one row ---- */

INLINE __m512i twice(const int8_t *q) {
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)q));
}

/* Sixteen columns are read side by side, more streams than a processor follows by itself; so while they are
 * met, the next sixteen are called for, line by line.  Past the last column that is a word to nobody. */
INLINE void stream(const form *f, float *y, const int8_t *hi, const int8_t *lo, const float *d,
                   const int32_t *s, const uint8_t *w, size_t w_stride, size_t k, size_t cols) {
    __m512         sum = _mm512_setzero_ps();
    const __m512i  at = places(w_stride, cols);
    const uint8_t *ahead = w + LANES * w_stride; /* the next sixteen columns, most often */
    const size_t   lines = (LANES * f->bytes * PART / f->elements + 63) / 64;
    for (size_t i = 0; i < k; i += f->elements, w += f->bytes) {
        head h;
        f->head_of(&h, w, at);
        UNROLL
        for (size_t j = 0; j < f->elements / PART; j++, hi += PART, lo += PART, d++, s += 2) {
            __m512i x = twice(hi), rest = twice(lo), v[8], half[2];
            scales  scale;
            UNROLL
            for (size_t l = 0; l < lines; l++, ahead += 64) _mm_prefetch((const char *)ahead, _MM_HINT_T0);
            f->scales_of(&scale, &h, j);
            pairs(f, v, w, w_stride, cols, j);
            UNROLL
            for (int c = 0; c < 8; c++) {
                __m512i up = _mm512_slli_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), v[c], x), 8);
                v[c] = _mm512_dpbusd_epi32(up, v[c], rest);
            }
            if (f->is_halved) {
                sum_halves(v, half);
                sum = absorb(f, sum, &scale, 0, half[0], *d, s[0]);
                sum = absorb(f, sum, &scale, 1, half[1], *d, s[1]);
            } else {
                sum = absorb(f, sum, &scale, 0, sum_columns(v), *d, s[0] + s[1]);
            }
        }
    }
    store(y, sum, cols);
}

/* ---- more rows ---- */

/* A part of sixteen columns in scratch: eight vectors of four bytes a column, then the scales. */
typedef struct packed {
    __m512i q[8];
    __m512  d[2], m;
} packed;

INLINE void interleave(const __m512i v[8], __m512i out[8]) {
    __m512i c[2][4];
    UNROLL
    for (int i = 0; i < 2; i++) {
        const __m512i *p = &v[4 * i];
        __m512i        a0 = _mm512_unpacklo_epi32(p[0], p[1]), a1 = _mm512_unpackhi_epi32(p[0], p[1]);
        __m512i        b0 = _mm512_unpacklo_epi32(p[2], p[3]), b1 = _mm512_unpackhi_epi32(p[2], p[3]);
        c[i][0] = _mm512_unpacklo_epi64(a0, b0), c[i][1] = _mm512_unpackhi_epi64(a0, b0);
        c[i][2] = _mm512_unpacklo_epi64(a1, b1), c[i][3] = _mm512_unpackhi_epi64(a1, b1);
    }
    UNROLL
    for (int t = 0; t < 4; t++) {
        out[t] = _mm512_shuffle_i64x2(c[0][t], c[1][t], 0x88);
        out[t + 4] = _mm512_shuffle_i64x2(c[0][t], c[1][t], 0xdd);
    }
}

INLINE void pack(const form *f, packed *out, const uint8_t *w, size_t w_stride, size_t k, size_t cols) {
    const __m512i at = places(w_stride, cols);
    for (size_t i = 0; i < k; i += f->elements, w += f->bytes) {
        head h;
        f->head_of(&h, w, at);
        UNROLL
        for (size_t j = 0; j < f->elements / PART; j++, out++) {
            __m512i v[8];
            scales  s;
            f->scales_of(&s, &h, j);
            pairs(f, v, w, w_stride, cols, j);
            interleave(v, out->q);
            out->d[0] = s.d[0];
            if (f->is_halved) out->d[1] = s.d[1];
            if (f->has_min) out->m = s.m;
        }
    }
}

INLINE __m512i four(const int8_t *q) {
    int32_t bytes;
    memcpy(&bytes, q, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

/* rows x 16 vectors columns (both constants); p: [vectors][parts]. */
INLINE void tile(const form *f, float *y, size_t y_stride, const ph_rows16 *x, size_t r0, const packed *p,
                 size_t rows, size_t vectors, size_t cols) {
    size_t parts = x->k / PART;
    __m512 sum[ROWS][VECTORS];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < vectors; c++) sum[r][c] = _mm512_setzero_ps();
    }
    for (size_t i = 0; i < parts; i++) {
        for (size_t half = 0; half < (f->is_halved ? 2u : 1u); half++) {
            __m512i n[ROWS][VECTORS], rest[ROWS][VECTORS];
            size_t  from = half * 4, to = f->is_halved ? from + 4 : 8;
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                UNROLL
                for (size_t c = 0; c < vectors; c++) n[r][c] = rest[r][c] = _mm512_setzero_si512();
            }
            UNROLL
            for (size_t t = from; t < to; t++) {
                __m512i u[VECTORS];
                UNROLL
                for (size_t c = 0; c < vectors; c++) u[c] = p[c * parts + i].q[t];
                UNROLL
                for (size_t r = 0; r < rows; r++) {
                    size_t  at = (r0 + r) * x->k + i * PART + t * 4;
                    __m512i hi = four(&x->hi[at]), lo = four(&x->lo[at]);
                    UNROLL
                    for (size_t c = 0; c < vectors; c++) {
                        n[r][c] = _mm512_dpbusd_epi32(n[r][c], u[c], hi);
                        rest[r][c] = _mm512_dpbusd_epi32(rest[r][c], u[c], lo);
                    }
                }
            }
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const int32_t *s = &x->s[((r0 + r) * parts + i) * 2];
                int32_t        x_sum = f->is_halved ? s[half] : s[0] + s[1];
                float          d = x->d[(r0 + r) * parts + i];
                UNROLL
                for (size_t c = 0; c < vectors; c++) {
                    const packed *at = &p[c * parts + i];
                    scales        scale = {.d = {at->d[0], at->d[0]}, .m = _mm512_setzero_ps()};
                    if (f->is_halved) scale.d[1] = at->d[1];
                    if (f->has_min) scale.m = at->m;
                    __m512i whole = _mm512_add_epi32(_mm512_slli_epi32(n[r][c], 8), rest[r][c]);
                    sum[r][c] = absorb(f, sum[r][c], &scale, (int)half, whole, d, x_sum);
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

INLINE void strip(const form *f, float *y, size_t y_stride, const ph_rows16 *x, const packed *p, size_t rows,
                  size_t vectors, size_t cols) {
    size_t r = 0;
    for (; r + ROWS <= rows; r += ROWS) tile(f, y, y_stride, x, r, p, ROWS, vectors, cols);
    for (; r + 2 <= rows; r += 2) tile(f, y, y_stride, x, r, p, 2, vectors, cols);
    for (; r < rows; r++) tile(f, y, y_stride, x, r, p, 1, vectors, cols);
}

INLINE void dot(const form *f, float *y, size_t y_stride, const ph_rows16 *x, const uint8_t *w,
                size_t w_stride, size_t rows, size_t cols, packed *p) {
    size_t parts = x->k / PART;
    if (rows < FEW) {
        for (size_t c = 0; c < cols; c += LANES)
            for (size_t r = 0; r < rows; r++)
                stream(f, &y[r * y_stride + c], &x->hi[r * x->k], &x->lo[r * x->k], &x->d[r * parts],
                       &x->s[r * parts * 2], w + c * w_stride, w_stride, x->k,
                       cols - c < LANES ? cols - c : LANES);
        return;
    }
    for (size_t c = 0; c < cols; c += VECTORS * LANES) {
        size_t left = cols - c;
        pack(f, p, w + c * w_stride, w_stride, x->k, left < LANES ? left : LANES);
        if (left <= LANES) {
            strip(f, &y[c], y_stride, x, p, rows, 1, left);
            continue;
        }
        size_t second = left - LANES < LANES ? left - LANES : LANES;
        pack(f, p + parts, w + (c + LANES) * w_stride, w_stride, x->k, second);
        strip(f, &y[c], y_stride, x, p, rows, VECTORS, LANES + second);
    }
}

#define DOT(T, elements, bytes, halved, min, zero, head, scales)                                             \
    static void dot_##T(float *restrict y, size_t      y_stride, const ph_rows16 *restrict x,                \
                        const void *restrict w, size_t w_stride, size_t rows, size_t cols,                   \
                        void *restrict scratch) {                                                            \
        const form f = {elements, bytes, halved, min, zero, bytes_##T, head, scales};                        \
        dot(&f, y, y_stride, x, w, w_stride, rows, cols, scratch);                                           \
    }
DOT(Q8_0, 32, 34, 0, 0, 7, head_small, scales_small)
DOT(Q4_0, 32, 18, 0, 0, 3, head_small, scales_small)
DOT(Q4_1, 32, 20, 0, 1, -1, head_small, scales_small)
DOT(Q4_K, 256, 144, 0, 1, -1, head_Q4_K, scales_Q4_K)
DOT(Q6_K, 256, 210, 1, 0, 5, head_Q6_K, scales_Q6_K)

/* ---- rows to 16 bits ---- */

/* One block of 32. */
INLINE void block_of(const ph_rows16 *out, size_t at, const float *v) {
    const __m512i size = _mm512_set1_epi32(0x7fffffff), round = _mm512_set1_epi32(128);
    __m512i       q[2];
    __m512        x[2] = {_mm512_loadu_ps(v), _mm512_loadu_ps(v + 16)};
    /* As integers: a NaN or an infinity is larger than any number. */
    uint32_t bits =
        _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(x[0]), size),
                                                 _mm512_and_si512(_mm512_castps_si512(x[1]), size)));
    float most;
    memcpy(&most, &bits, sizeof most);
    int       is_finite = bits < 0x7f800000u;
    float     inverse = is_finite && most >= 0x1p-110f ? 32512.0f / most : 0;
    __mmask16 keep = inverse > 0 ? (__mmask16)0xffff : 0;
    out->d[at] = !is_finite ? NAN : inverse > 0 ? most / 32512.0f : 0;
    for (size_t i = 0; i < 2; i++) {
        q[i] = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x[i], _mm512_set1_ps(inverse)));
        __m512i hi = _mm512_srai_epi32(_mm512_add_epi32(q[i], round), 8);
        __m512i lo = _mm512_sub_epi32(q[i], _mm512_slli_epi32(hi, 8));
        _mm_storeu_si128((__m128i *)(void *)&out->hi[at * PART + i * 16], _mm512_cvtepi32_epi8(hi));
        _mm_storeu_si128((__m128i *)(void *)&out->lo[at * PART + i * 16], _mm512_cvtepi32_epi8(lo));
        out->s[at * 2 + i] = _mm512_reduce_add_epi32(q[i]);
    }
}

static void rows16_of(const ph_rows16 *restrict out, const float *restrict x, size_t x_stride, size_t rows) {
    size_t parts = out->k / PART;
    for (size_t r = 0; r < rows; r++)
        for (size_t b = 0; b < parts; b++) block_of(out, r * parts + b, &x[r * x_stride + b * PART]);
}

void ph_install_vnni(ph_kernels *k) {
    k->rows16_of = rows16_of;
    k->dot_Q8_0 = dot_Q8_0, k->dot_Q4_0 = dot_Q4_0, k->dot_Q4_1 = dot_Q4_1;
    k->dot_Q4_K = dot_Q4_K, k->dot_Q6_K = dot_Q6_K;
}
