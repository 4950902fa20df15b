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

#include "kernels/vnni/vnni_head.h"

struct pair;
/* elements, bytes: of a block; span: blocks whose scales are taken at once; zero = 1 << zero_shift, -1: none;
 * nibbles: where 16 bytes stand that are elements 0 .. 15 below and 16 .. 31 above; 0: nowhere. */
typedef struct form {
    size_t elements, bytes, span;
    int    is_halved, has_min, zero_shift;
    size_t nibbles;
    __m256i (*bytes_of)(const uint8_t *block, size_t j);
    head_fn *heads_of, *head_of; /* of span blocks; of one */
    void (*scales_of)(scales *s, const head *h, size_t j);
    /* Sums of two columns' superblocks, which one row meets; NULL: it meets sixteen columns side by side. */
    void (*line)(int planes, struct pair at, const int8_t *hi, const int8_t *lo, size_t blocks);
} form;

/* ---- what the types mean ---- */

INLINE __m256i nibbles(const uint8_t *q) {
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)q), low = _mm_set1_epi8(15);
    return _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16(b, 4), low), _mm_and_si128(b, low));
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

/* ---- sixteen columns ---- */

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
    for (int i = 0; i < 2; i++) transpose_words(&v[4 * i], c[i]);
    UNROLL
    for (int t = 0; t < 4; t++) {
        out[t] = _mm512_shuffle_i64x2(c[0][t], c[1][t], 0x88);
        out[t + 4] = _mm512_shuffle_i64x2(c[0][t], c[1][t], 0xdd);
    }
}

/* The parts under one head. */
INLINE packed *pack_parts(const form *f, packed *out, size_t stride, const head *h, const uint8_t *w,
                          size_t w_stride, size_t parts, size_t cols, int is_signed) {
    const __m512i zero = _mm512_set1_epi8((char)(f->zero_shift < 0 ? 0 : 1 << f->zero_shift));
    const size_t  each = f->elements / PART;
    UNROLL
    for (size_t j = 0; j < parts; j++) {
        __m512i v[8];
        scales  s;
        f->scales_of(&s, h, j);
        pairs(f, v, w + j / each * f->bytes, w_stride, cols, j % each);
        UNROLL
        for (int t = 0; is_signed && t < 8; t++) v[t] = _mm512_sub_epi8(v[t], zero);
        interleave(v, out->q);
        out->d[0] = s.d[0];
        if (f->is_halved) out->d[1] = s.d[1];
        if (f->has_min) out->m = s.m;
        out = (packed *)(void *)((char *)out + stride);
    }
    return out;
}

/* k elements of up to sixteen columns, stride bytes from part to part; is_signed takes `zero` back. */
INLINE void pack(const form *f, packed *out, size_t stride, const uint8_t *w, size_t w_stride, size_t k,
                 size_t cols, int is_signed) {
    const size_t each = f->elements / PART;
    head         h;
    for (; k >= f->elements * f->span; k -= f->elements * f->span, w += f->bytes * f->span) {
        f->heads_of(&h, w, w_stride, cols);
        out = pack_parts(f, out, stride, &h, w, w_stride, each * f->span, cols, is_signed);
    }
    for (; f->span > 1 && k; k -= f->elements, w += f->bytes) {
        f->head_of(&h, w, w_stride, cols);
        out = pack_parts(f, out, stride, &h, w, w_stride, each, cols, is_signed);
    }
}

/* The types: elements and bytes of a block, span, halved, has a minimum, zero_shift, nibbles, its functions.
 */
#define BLOCK_TYPES_OF_32(X)                                                                                 \
    X(Q8_0, 32, 34, 2, 0, 0, 7, 0, heads_Q8_0, head_small, scales_small, NULL)                               \
    X(Q4_0, 32, 18, 4, 0, 0, 3, 2, heads_Q4_0, head_small, scales_small, NULL)                               \
    X(Q4_1, 32, 20, 4, 0, 1, -1, 4, heads_Q4_1, head_small, scales_small, NULL)                              \
    X(Q4_K, 256, 144, 1, 0, 1, -1, 0, head_Q4_K, head_Q4_K, scales_Q4_K, line_Q4_K)
#define BLOCK_TYPES_OF_16(X) X(Q6_K, 256, 210, 1, 1, 0, 5, 0, head_Q6_K, head_Q6_K, scales_Q6_K, line_Q6_K)

#endif
