/* vnni_head.h - scales of sixteen columns as vectors, a column a lane.
 *
 * A stored block says its scale beside its integers, so that sixteen columns' scales stand in sixteen places.
 * A gather fetches them, at 14 cycles on AMD's Zen 5; vectors loaded where they lie and merged under masks
 * cost a third of that, if several blocks of a column lie in one.
 */
#ifndef PH_KERNELS_VNNI_VNNI_HEAD_H
#define PH_KERNELS_VNNI_VNNI_HEAD_H

/* Scales of sixteen columns for one part; d[1] and m where the type has them. */
typedef struct scales {
    __m512 d[2], m;
} scales;

/* What up to four blocks, or a superblock, of sixteen columns say once. */
typedef struct head {
    __m512  d[4], dmin[4];
    __m512i word[4];
} head;
typedef void head_fn(head *h, const uint8_t *w, size_t w_stride, size_t cols);

/* Column c of sixteen; those past the last repeat it. */
INLINE const uint8_t *column(const uint8_t *w, size_t w_stride, size_t cols, size_t c) {
    return w + (c < cols ? c : cols - 1) * w_stride;
}

INLINE __m512i gather(const uint8_t *w, size_t w_stride, size_t cols) {
    __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    lane = _mm512_min_epi32(lane, _mm512_set1_epi32((int)cols - 1));
    return _mm512_i32gather_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32((int)w_stride)), (const void *)w,
                                  1);
}

INLINE __m512 f16_lanes(__m512i low16) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(low16));
}

/* ---- blocks of 32 ---- */

INLINE void both_of(head *h, size_t b, __m512i both) {
    h->d[b] = f16_lanes(both);
    h->dmin[b] = f16_lanes(_mm512_srli_epi32(both, 16));
}

INLINE void head_small(head *h, const uint8_t *w, size_t w_stride, size_t cols) {
    both_of(h, 0, gather(w, w_stride, cols));
}

/* Four columns' 16-bit words that stand at the places of `mask`: those of column s move up by s places. */
INLINE __m512i words_of_four(const uint8_t *w, size_t w_stride, size_t cols, size_t c, uint32_t mask) {
    __m512i v = _mm512_loadu_si512(column(w, w_stride, cols, c));
    UNROLL
    for (size_t s = 1; s < 4; s++)
        v = _mm512_mask_loadu_epi16(v, (__mmask32)(mask << s), column(w, w_stride, cols, c + s) - 2 * s);
    return v;
}

/* Of two vectors with four blocks' words of four columns, at words first + 0 .. 3, 9 .. 12 and so on: a lane
 * of 128 bits for a block. */
INLINE __m512i words_of_eight(__m512i a, __m512i b, int step, int blocks) {
    int16_t at[32];
    for (int i = 0; i < 32; i++) {
        int block = i / 8 % blocks, c = i % 8;
        at[i] = (int16_t)(block * step + c % 4 + c / 4 * 32);
    }
    return _mm512_permutex2var_epi16(a, _mm512_loadu_si512(at), b);
}

INLINE void two_heads(head *h, size_t b, __m512i low, __m512i high, long long first) {
    const __m512i at = _mm512_set_epi64(2 * first + 11, 2 * first + 10, 2 * first + 3, 2 * first + 2,
                                        2 * first + 9, 2 * first + 8, 2 * first + 1, 2 * first);
    __m512i       v = _mm512_permutex2var_epi64(low, at, high);
    h->d[b] = _mm512_cvtph_ps(_mm512_castsi512_si256(v));
    h->d[b + 1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(v, 1));
}

/* Blocks of 18 bytes: the scales of four are words 0, 9, 18 and 27. */
INLINE void heads_Q4_0(head *h, const uint8_t *w, size_t w_stride, size_t cols) {
    __m512i four[4], eight[2];
    UNROLL
    for (size_t i = 0; i < 4; i++) four[i] = words_of_four(w, w_stride, cols, 4 * i, 0x8040201);
    eight[0] = words_of_eight(four[0], four[1], 9, 4);
    eight[1] = words_of_eight(four[2], four[3], 9, 4);
    two_heads(h, 0, eight[0], eight[1], 0);
    two_heads(h, 2, eight[0], eight[1], 2);
}

/* Blocks of 34 bytes: the scales of two are words 0 and 17. */
INLINE void heads_Q8_0(head *h, const uint8_t *w, size_t w_stride, size_t cols) {
    __m512i four[4];
    UNROLL
    for (size_t i = 0; i < 4; i++) four[i] = words_of_four(w, w_stride, cols, 4 * i, 0x20001);
    two_heads(h, 0, words_of_eight(four[0], four[1], 17, 2), words_of_eight(four[2], four[3], 17, 2), 0);
}

/* The words of each lane of 128 bits of four vectors, transposed. */
INLINE void transpose_words(const __m512i v[4], __m512i out[4]) {
    __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpacklo_epi32(v[2], v[3]);
    __m512i c = _mm512_unpackhi_epi32(v[0], v[1]), d = _mm512_unpackhi_epi32(v[2], v[3]);
    out[0] = _mm512_unpacklo_epi64(a, b), out[1] = _mm512_unpackhi_epi64(a, b);
    out[2] = _mm512_unpacklo_epi64(c, d), out[3] = _mm512_unpackhi_epi64(c, d);
}

/* Of each lane of 128 bits of four vectors its four numbers, brought to one by `both` (a constant): lane l
 * has those of v[0] .. v[3]. */
typedef __m512i both_fn(__m512i a, __m512i b);
INLINE __m512i  fold_lanes(both_fn *both, const __m512i v[4]) {
     __m512i a = both(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
     __m512i b = both(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
     return both(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

INLINE __m512i sum_of(__m512i a, __m512i b) {
    return _mm512_add_epi32(a, b);
}

INLINE __m512i sum_lanes(const __m512i v[4]) {
    return fold_lanes(sum_of, v);
}

/* Four vectors of four lanes of 128 bits, transposed. */
INLINE void transpose_lanes(const __m512i v[4], __m512i out[4]) {
    __m512i a = _mm512_shuffle_i64x2(v[0], v[1], 0x44), b = _mm512_shuffle_i64x2(v[2], v[3], 0x44);
    __m512i c = _mm512_shuffle_i64x2(v[0], v[1], 0xee), d = _mm512_shuffle_i64x2(v[2], v[3], 0xee);
    out[0] = _mm512_shuffle_i64x2(a, b, 0x88), out[1] = _mm512_shuffle_i64x2(a, b, 0xdd);
    out[2] = _mm512_shuffle_i64x2(c, d, 0x88), out[3] = _mm512_shuffle_i64x2(c, d, 0xdd);
}

/* Blocks of 20 bytes: scale and minimum of four are dwords 0, 5, 10 and 15, one in each lane of 128 bits and
 * each a place further; turned by s places within their lanes, those of four columns fill a vector. */
INLINE void heads_Q4_1(head *h, const uint8_t *w, size_t w_stride, size_t cols) {
    __m512i four[4], both[4];
    UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m512i z[4];
        UNROLL
        for (size_t s = 0; s < 4; s++) z[s] = _mm512_loadu_si512(column(w, w_stride, cols, 4 * i + s));
        four[i] = _mm512_mask_shuffle_epi32(z[0], 0x1842, z[1], _MM_PERM_CBAD);
        four[i] = _mm512_mask_shuffle_epi32(four[i], 0x2184, z[2], _MM_PERM_BADC);
        four[i] = _mm512_mask_shuffle_epi32(four[i], 0x4218, z[3], _MM_PERM_ADCB);
    }
    transpose_lanes(four, both);
    both_of(h, 0, both[0]);
    both_of(h, 1, _mm512_shuffle_epi32(both[1], _MM_PERM_ADCB));
    both_of(h, 2, _mm512_shuffle_epi32(both[2], _MM_PERM_BADC));
    both_of(h, 3, _mm512_shuffle_epi32(both[3], _MM_PERM_CBAD));
}

INLINE void scales_small(scales *s, const head *h, size_t j) {
    s->d[0] = h->d[j];
    s->m = h->dmin[j];
}

/* ---- superblocks of 256 ---- */

/* Sixteen bytes of each column: four words a column. */
INLINE void words_of(__m512i word[4], const uint8_t *w, size_t w_stride, size_t cols) {
    __m512i v[4];
    UNROLL
    for (size_t g = 0; g < 4; g++) {
        v[g] = _mm512_castsi128_si512(_mm_loadu_si128((const void *)column(w, w_stride, cols, g)));
        v[g] = _mm512_inserti32x4(v[g], _mm_loadu_si128((const void *)column(w, w_stride, cols, 4 + g)), 1);
        v[g] = _mm512_inserti32x4(v[g], _mm_loadu_si128((const void *)column(w, w_stride, cols, 8 + g)), 2);
        v[g] = _mm512_inserti32x4(v[g], _mm_loadu_si128((const void *)column(w, w_stride, cols, 12 + g)), 3);
    }
    transpose_words(v, word);
}

INLINE void head_Q4_K(head *h, const uint8_t *w, size_t w_stride, size_t cols) {
    words_of(h->word, w, w_stride, cols);
    both_of(h, 0, h->word[0]);
}

INLINE __m512i byte_of(__m512i word, size_t j) {
    return _mm512_and_si512(_mm512_srli_epi32(word, (unsigned)(8 * j)), _mm512_set1_epi32(255));
}

/* Eight 6-bit scales and minima in twelve bytes behind d and dmin, of sixteen columns. */
INLINE void scales_Q4_K(scales *s, const head *h, size_t j) {
    const __m512i six = _mm512_set1_epi32(63), four = _mm512_set1_epi32(15), *word = &h->word[1];
    __m512i       scale, least;
    if (j < 4) {
        scale = _mm512_and_si512(byte_of(word[0], j), six);
        least = _mm512_and_si512(byte_of(word[1], j), six);
    } else {
        __m512i low = byte_of(word[2], j - 4), a = byte_of(word[0], j - 4), b = byte_of(word[1], j - 4);
        scale = _mm512_or_si512(_mm512_and_si512(low, four), _mm512_slli_epi32(_mm512_srli_epi32(a, 6), 4));
        least = _mm512_or_si512(_mm512_srli_epi32(low, 4), _mm512_slli_epi32(_mm512_srli_epi32(b, 6), 4));
    }
    s->d[0] = _mm512_mul_ps(h->d[0], _mm512_cvtepi32_ps(scale));
    s->m = _mm512_mul_ps(h->dmin[0], _mm512_cvtepi32_ps(least));
    s->m = _mm512_xor_ps(s->m, _mm512_set1_ps(-0.0f));
}

INLINE void head_Q6_K(head *h, const uint8_t *w, size_t w_stride, size_t cols) {
    h->d[0] = f16_lanes(_mm512_srli_epi32(gather(w + 206, w_stride, cols), 16)); /* the last two bytes */
    words_of(h->word, w + 192, w_stride, cols);
}

INLINE void scales_Q6_K(scales *s, const head *h, size_t j) {
    UNROLL
    for (size_t i = 0; i < 2; i++) {
        unsigned up = (unsigned)(24 - 8 * (j * 2 % 4 + i));
        __m512i  scale = _mm512_srai_epi32(_mm512_slli_epi32(h->word[j / 2], up), 24);
        s->d[i] = _mm512_mul_ps(h->d[0], _mm512_cvtepi32_ps(scale));
    }
}

#endif
