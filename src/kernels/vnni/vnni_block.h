/* vnni_block.h - sixteen columns of a stored type: their integers as bytes, their scales as vectors.
 *
 * Shared by the sets that multiply bytes in 512-bit registers (vnni/, amx/).  A column is a lane; of 32
 * elements of each column the bytes come side by side (pairs), or interleaved, four of each column a lane
 * (pack), which is what an instruction wants that sums four products a lane, and what a matrix unit wants.
 *
 * Integers are unsigned: what is signed in the file has `zero` (8, 128, 32) added.  Needs AVX-512 F, BW, DQ,
 * VL; all static, so that each folder has its own.
 */
#ifndef PH_KERNELS_VNNI_VNNI_BLOCK_H
#define PH_KERNELS_VNNI_VNNI_BLOCK_H

#include "base/asan.h"
#include "kernels/inline.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { PART = 32, LANES = 16 };

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
    size_t nibbles; /* where 16 bytes stand that are elements 0 .. 15 below and 16 .. 31 above; 0: nowhere */
    __m256i (*bytes_of)(const uint8_t *block, size_t j);
    void (*head_of)(head *h, const uint8_t *w, __m512i at);
    void (*scales_of)(scales *s, const head *h, size_t j);
} form;

/* ---- what the types mean ---- */

INLINE __m512i gather(const uint8_t *w, __m512i at) {
    return _mm512_i32gather_epi32(at, (const void *)w, 1);
}

INLINE __m512 f16_lanes(__m512i low16) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(low16));
}

INLINE __m256i nibbles(const uint8_t *q) {
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)q), low = _mm_set1_epi8(15);
    return _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16(b, 4), low), _mm_and_si128(b, low));
}

INLINE void head_small(head *h, const uint8_t *w, __m512i at) {
    __m512i both = gather(w, at);
    h->d = f16_lanes(both);
    h->dmin = f16_lanes(_mm512_srli_epi32(both, 16));
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
    h->d = f16_lanes(_mm512_srli_epi32(gather(w + 206, at), 16)); /* the last two bytes of the block */
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

/* k elements of up to sixteen columns, stride bytes from part to part; is_signed takes `zero` back. */
INLINE void pack(const form *f, packed *out, size_t stride, const uint8_t *w, size_t w_stride, size_t k,
                 size_t cols, int is_signed) {
    const __m512i at = places(w_stride, cols);
    const __m512i zero = _mm512_set1_epi8((char)(f->zero_shift < 0 ? 0 : 1 << f->zero_shift));
    for (size_t i = 0; i < k; i += f->elements, w += f->bytes) {
        head h;
        f->head_of(&h, w, at);
        UNROLL
        for (size_t j = 0; j < f->elements / PART; j++) {
            __m512i v[8];
            scales  s;
            f->scales_of(&s, &h, j);
            pairs(f, v, w, w_stride, cols, j);
            UNROLL
            for (int t = 0; is_signed && t < 8; t++) v[t] = _mm512_sub_epi8(v[t], zero);
            interleave(v, out->q);
            out->d[0] = s.d[0];
            if (f->is_halved) out->d[1] = s.d[1];
            if (f->has_min) out->m = s.m;
            out = (packed *)(void *)((char *)out + stride);
        }
    }
}

/* The types: elements and bytes of a block, halved, has a minimum, zero_shift, nibbles, its functions. */
#define BLOCK_TYPES_OF_32(X)                                                                                 \
    X(Q8_0, 32, 34, 0, 0, 7, 0, head_small, scales_small)                                                    \
    X(Q4_0, 32, 18, 0, 0, 3, 2, head_small, scales_small)                                                    \
    X(Q4_1, 32, 20, 0, 1, -1, 4, head_small, scales_small)                                                   \
    X(Q4_K, 256, 144, 0, 1, -1, 0, head_Q4_K, scales_Q4_K)
#define BLOCK_TYPES_OF_16(X) X(Q6_K, 256, 210, 1, 0, 5, 0, head_Q6_K, scales_Q6_K)

#endif
