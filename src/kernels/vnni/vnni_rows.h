/* vnni_rows.h - rows to integers: one scale for each block, or for a whole row.
 *
 * A block's largest size and sums run across lanes, which costs more than the rest of it; so eight blocks of
 * 32 go together, and two small trees have the largest of all eight and the sums of their sixteen halves. The
 * bits are those of one block after the other.
 *
 * Included once, by vnni.c.
 */
#ifndef PH_KERNELS_VNNI_VNNI_ROWS_H
#define PH_KERNELS_VNNI_VNNI_ROWS_H

/* The largest size of n elements, as bits: a NaN or an infinity is larger than any number. */
INLINE uint32_t most_of(const float *v, size_t n) {
    const __m512i size = _mm512_set1_epi32(0x7fffffff);
    __m512i       most = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += LANES)
        most = _mm512_max_epu32(most, _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(&v[i])), size));
    return _mm512_reduce_max_epu32(most);
}

/* n elements to integers from `at` on: their sum. */
INLINE int32_t integers_of(const ph_qrows *out, int planes, size_t at, const float *v, size_t n,
                           float inverse) {
    const __m512    by = _mm512_set1_ps(inverse);
    const __mmask16 keep = inverse > 0 ? (__mmask16)0xffff : 0;
    __m512i         sum = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += LANES) {
        __m512i q = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(_mm512_loadu_ps(&v[i]), by)), hi = q;
        if (planes > 1) {
            hi = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
            _mm_storeu_si128((__m128i *)(void *)&out->lo[at + i],
                             _mm512_cvtepi32_epi8(_mm512_sub_epi32(q, _mm512_slli_epi32(hi, 8))));
        }
        _mm_storeu_si128((__m128i *)(void *)&out->hi[at + i], _mm512_cvtepi32_epi8(hi));
        sum = _mm512_add_epi32(sum, q);
    }
    return _mm512_reduce_add_epi32(sum);
}

/* Block b of all rows; its halves are of whole vectors. */
INLINE void block_of(const ph_qrows *out, int planes, size_t b, const float *v, size_t n) {
    const uint32_t bits = most_of(v, n);
    const float    top = planes > 1 ? 32512.0f : 127.0f;
    float          most;
    memcpy(&most, &bits, sizeof most);
    int   is_finite = bits < 0x7f800000u;
    float inverse = is_finite && most >= 0x1p-110f ? top / most : 0;
    out->d[b] = !is_finite ? NAN : inverse > 0 ? most / top : 0;
    for (size_t i = 0; i < 2; i++)
        out->s[b * 2 + i] = integers_of(out, planes, b * n + i * (n / 2), v + i * (n / 2), n / 2, inverse);
}

/* ---- eight blocks of 32 ---- */

enum { TOGETHER = 8 };

INLINE __m512i larger_of(__m512i a, __m512i b) {
    return _mm512_max_epu32(a, b);
}

/* The largest size in each of eight blocks, as bits, in the lower half. */
INLINE __m512i most_of_eight(const __m512 v[2 * TOGETHER]) {
    const __m512i size = _mm512_set1_epi32(0x7fffffff);
    __m512i       m[TOGETHER];
    UNROLL
    for (int i = 0; i < TOGETHER; i++)
        m[i] = larger_of(_mm512_and_si512(_mm512_castps_si512(v[2 * i]), size),
                         _mm512_and_si512(_mm512_castps_si512(v[2 * i + 1]), size));
    __m512i a = fold_lanes(larger_of, m), b = fold_lanes(larger_of, m + 4);
    __m512i four = larger_of(_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xdd));
    four = larger_of(four, _mm512_shuffle_i64x2(four, four, 0xb1));
    return _mm512_shuffle_i64x2(four, four, 0x08);
}

/* Four vectors of small numbers as 64 bytes, in their order. */
INLINE __m512i bytes_of_four(const __m512i q[4]) {
    const __m512i at = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(
        at, _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3])));
}

/* 64 integers to a plane or two from `at` on; their sums, four by four. */
INLINE __m512i planes_of_four(const ph_qrows *out, int planes, size_t at, __m512i q[4]) {
    const __m512i one = _mm512_set1_epi8(1), zero = _mm512_setzero_si512();
    __m512i       low[4], bytes;
    if (planes == 1) {
        bytes = bytes_of_four(q);
        _mm512_storeu_si512(&out->hi[at], bytes);
        return _mm512_dpbusd_epi32(zero, one, bytes);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m512i high = _mm512_srai_epi32(_mm512_add_epi32(q[i], _mm512_set1_epi32(128)), 8);
        low[i] = _mm512_sub_epi32(q[i], _mm512_slli_epi32(high, 8));
        q[i] = high;
    }
    bytes = bytes_of_four(q);
    _mm512_storeu_si512(&out->hi[at], bytes);
    __m512i sum = _mm512_slli_epi32(_mm512_dpbusd_epi32(zero, one, bytes), 8);
    bytes = bytes_of_four(low);
    _mm512_storeu_si512(&out->lo[at], bytes);
    return _mm512_dpbusd_epi32(sum, one, bytes);
}

/* Blocks [b, b + 8) of all rows; 0: one of them wants more care. */
INLINE int eight_blocks(const ph_qrows *out, int planes, size_t b, const float *x) {
    const __m512 top = _mm512_set1_ps(planes > 1 ? 32512.0f : 127.0f);
    __m512       v[2 * TOGETHER];
    __m512i      sum[4];
    float        inverse[LANES];
    UNROLL
    for (int i = 0; i < 2 * TOGETHER; i++) v[i] = _mm512_loadu_ps(&x[i * LANES]);
    const __m512i bits = most_of_eight(v);
    const __m512  most = _mm512_castsi512_ps(bits);
    if ((_mm512_cmplt_epu32_mask(bits, _mm512_set1_epi32(0x7f800000)) &
         _mm512_cmp_ps_mask(most, _mm512_set1_ps(0x1p-110f), _CMP_GE_OQ) & 0xff) != 0xff)
        return 0;
    _mm512_storeu_ps(inverse, _mm512_div_ps(top, most));
    _mm256_storeu_ps(&out->d[b], _mm512_castps512_ps256(_mm512_div_ps(most, top)));
    UNROLL
    for (size_t g = 0; g < 4; g++) {
        __m512i q[4];
        UNROLL
        for (size_t i = 0; i < 4; i++)
            q[i] = _mm512_cvtps_epi32(_mm512_mul_ps(v[4 * g + i], _mm512_set1_ps(inverse[2 * g + i / 2])));
        sum[g] = planes_of_four(out, planes, b * PART + g * 64, q);
    }
    /* Half 4 g + l is in 128 bits l of vector g. */
    const __m512i at = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(&out->s[2 * b], _mm512_permutexvar_epi32(at, sum_lanes(sum)));
    return 1;
}

/* Blocks [b, b + n) of all rows, n elements each. */
INLINE void run_of(const ph_qrows *out, int planes, size_t b, const float *x, size_t blocks, size_t n) {
    size_t i = 0;
    while (i < blocks) {
        if (n == PART && i + TOGETHER <= blocks && eight_blocks(out, planes, b + i, &x[i * n])) {
            i += TOGETHER;
            continue;
        }
        block_of(out, planes, b + i, &x[i * n], n);
        i++;
    }
}

INLINE void blocks_of(const ph_qrows *out, int planes, size_t n, const float *x, size_t x_stride,
                      size_t rows) {
    size_t blocks = n ? out->k / n : 0;
    for (size_t r = 0; r < rows; r++) run_of(out, planes, r * blocks, &x[r * x_stride], blocks, n);
}

static void qrows_of(const ph_qrows *restrict out, const float *restrict x, size_t x_stride, size_t rows) {
    if (out->block == PART && out->lo)
        blocks_of(out, 2, PART, x, x_stride, rows);
    else if (out->block == PART)
        blocks_of(out, 1, PART, x, x_stride, rows);
    else
        blocks_of(out, out->lo ? 2 : 1, out->block, x, x_stride, rows);
}

#endif
