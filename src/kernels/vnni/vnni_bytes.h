/* vnni_bytes.h - rows against plain bytes, both with one scale a row: sums run over all of k.
 *
 * One row meets eight columns at a time, 64 elements an instruction.  More rows meet columns laid out as in
 * vnni_block.h, without scales: a vector for four bytes of sixteen columns.  Stored bytes become unsigned by
 * adding 128; each plane's own sum takes it back.  Sums may wrap around on their way, and end right: what
 * they are of at most PH_QROW_MAX products of bytes fits 32 bits.
 *
 * Included once, by vnni.c.
 */
#ifndef PH_KERNELS_VNNI_VNNI_BYTES_H
#define PH_KERNELS_VNNI_VNNI_BYTES_H

/* Rows whose sums are kept; columns that one row meets; rows of a tile with two planes, with one. */
enum { SUMS = 256, EIGHT = 8, TILE2 = 6, TILE1 = 12 };

INLINE __m512i up_128(__m512i v) {
    return _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80));
}

INLINE __m256i bytes_I8(const uint8_t *b, size_t j) {
    (void)j;
    return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)b),
                            _mm256_set1_epi8((char)0x80));
}

/* 64 elements, or the last 32. */
INLINE __m512i some(const void *p, size_t left) {
    return _mm512_maskz_loadu_epi64(left < 64 ? 0x0f : 0xff, p);
}

/* -128 times the sum of a plane's k elements, without overflow to speak of. */
static int32_t less_128(const int8_t *q, size_t k) {
    __m512i sum = _mm512_setzero_si512();
    for (size_t i = 0; i < k; i += 64)
        sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), some(&q[i], k - i));
    return (int32_t)(0 - ((uint32_t)_mm512_reduce_add_epi32(sum) << 7));
}

INLINE __m512 whole_of(int planes, __m512i lo, __m512i hi, float d) {
    __m512 sum = _mm512_cvtepi32_ps(lo);
    if (planes > 1) sum = _mm512_fmadd_ps(_mm512_set1_ps(256), _mm512_cvtepi32_ps(hi), sum);
    return _mm512_mul_ps(_mm512_set1_ps(d), sum);
}

/* ---- one row ---- */

/* A row's planes; with one plane, lo is it. */
typedef struct plane_pair {
    const int8_t *lo, *hi;
    int32_t       lo_start, hi_start;
    float         d;
} plane_pair;

INLINE void bytes_stream(int planes, float *y, const plane_pair *x, size_t k, const uint8_t *w,
                         size_t w_stride, size_t cols) {
    __m512i lo[EIGHT], hi[EIGHT];
    int32_t sums[2][LANES] = {{0}, {0}};
    UNROLL
    for (size_t c = 0; c < EIGHT; c++) lo[c] = hi[c] = _mm512_setzero_si512();
    for (size_t i = 0; i < k; i += 64) {
        __m512i x_lo = some(&x->lo[i], k - i), x_hi = planes > 1 ? some(&x->hi[i], k - i) : x_lo;
        UNROLL
        for (size_t c = 0; c < EIGHT; c++) {
            /* Behind the end the row is 0, whatever stands here. */
            __m512i u = up_128(some(&w[(c < cols ? c : cols - 1) * w_stride + i], k - i));
            lo[c] = _mm512_dpbusd_epi32(lo[c], u, x_lo);
            if (planes > 1) hi[c] = _mm512_dpbusd_epi32(hi[c], u, x_hi);
        }
    }
    for (size_t c = 0; c < EIGHT; c++) {
        sums[0][c] = _mm512_reduce_add_epi32(lo[c]);
        if (planes > 1) sums[1][c] = _mm512_reduce_add_epi32(hi[c]);
    }
    store(y,
          whole_of(planes, _mm512_add_epi32(_mm512_loadu_si512(sums[0]), _mm512_set1_epi32(x->lo_start)),
                   _mm512_add_epi32(_mm512_loadu_si512(sums[1]), _mm512_set1_epi32(x->hi_start)), x->d),
          cols);
}

INLINE plane_pair pair_of(const ph_qrows *x, size_t r) {
    const int8_t *hi = &x->hi[r * x->k], *lo = x->lo ? &x->lo[r * x->k] : hi;
    return (plane_pair){.lo = lo,
                        .hi = hi,
                        .lo_start = less_128(lo, x->k),
                        .hi_start = x->lo ? less_128(hi, x->k) : 0,
                        .d = x->d[r]};
}

/* ---- more rows ---- */

/* rows x 16 vectors columns (rows, vectors and planes constants); p: [vectors][k / 4]. */
INLINE void bytes_tile(int planes, float *y, size_t y_stride, const plane_pair *x, size_t k, const __m512i *p,
                       size_t rows, size_t vectors, size_t cols) {
    __m512i lo[TILE1][VECTORS], hi[TILE1][VECTORS];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < vectors; c++) {
            lo[r][c] = _mm512_set1_epi32(x[r].lo_start);
            hi[r][c] = _mm512_set1_epi32(x[r].hi_start);
        }
    }
    for (size_t i = 0; i < k / 4; i++) {
        __m512i u[VECTORS];
        UNROLL
        for (size_t c = 0; c < vectors; c++) u[c] = p[c * (k / 4) + i];
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            __m512i l = four(&x[r].lo[4 * i]), h = planes > 1 ? four(&x[r].hi[4 * i]) : l;
            UNROLL
            for (size_t c = 0; c < vectors; c++) {
                lo[r][c] = _mm512_dpbusd_epi32(lo[r][c], u[c], l);
                if (planes > 1) hi[r][c] = _mm512_dpbusd_epi32(hi[r][c], u[c], h);
            }
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < vectors; c++)
            store(&y[r * y_stride + c * LANES], whole_of(planes, lo[r][c], hi[r][c], x[r].d),
                  cols - c * LANES);
    }
}

INLINE void bytes_strip(int planes, float *y, size_t y_stride, const plane_pair *x, size_t k,
                        const __m512i *p, size_t rows, size_t vectors, size_t cols) {
    const size_t most = planes > 1 ? TILE2 : TILE1;
    size_t       r = 0;
    for (; r + most <= rows; r += most)
        bytes_tile(planes, &y[r * y_stride], y_stride, &x[r], k, p, most, vectors, cols);
    for (; r + 3 <= rows; r += 3)
        bytes_tile(planes, &y[r * y_stride], y_stride, &x[r], k, p, 3, vectors, cols);
    for (; r < rows; r++) bytes_tile(planes, &y[r * y_stride], y_stride, &x[r], k, p, 1, vectors, cols);
}

/* All of k of up to sixteen columns. */
INLINE void bytes_pack(__m512i *out, const uint8_t *w, size_t w_stride, size_t k, size_t cols) {
    const form f = {.elements = PART, .bytes = PART, .bytes_of = bytes_I8};
    for (size_t i = 0; i < k; i += PART, out += 8) {
        __m512i v[8];
        pairs(&f, v, w + i, w_stride, cols, 0);
        interleave(v, out);
    }
}

/* At most SUMS rows. */
INLINE void bytes_dot(int planes, float *y, size_t y_stride, const plane_pair *x, const uint8_t *w,
                      size_t w_stride, size_t rows, size_t cols, size_t k, __m512i *p) {
    for (size_t c = 0; rows < FEW && c < cols; c += EIGHT)
        for (size_t r = 0; r < rows; r++)
            bytes_stream(planes, &y[r * y_stride + c], &x[r], k, w + c * w_stride, w_stride,
                         cols - c < EIGHT ? cols - c : EIGHT);
    for (size_t c = 0; rows >= FEW && c < cols; c += VECTORS * LANES) {
        size_t left = cols - c;
        bytes_pack(p, w + c * w_stride, w_stride, k, left < LANES ? left : LANES);
        if (left <= LANES) {
            bytes_strip(planes, &y[c], y_stride, x, k, p, rows, 1, left);
            continue;
        }
        size_t second = left - LANES < LANES ? left - LANES : LANES;
        bytes_pack(p + k / 4, w + (c + LANES) * w_stride, w_stride, k, second);
        bytes_strip(planes, &y[c], y_stride, x, k, p, rows, VECTORS, LANES + second);
    }
}

static void dot_I8(float *restrict y, size_t y_stride, const ph_qrows *restrict x, const void *restrict w,
                   size_t w_stride, size_t rows, size_t cols, void *restrict scratch) {
    plane_pair pairs_of[SUMS];
    for (size_t first = 0; first < rows; first += SUMS) {
        size_t n = rows - first < SUMS ? rows - first : SUMS;
        for (size_t r = 0; r < n; r++)
            pairs_of[r] = x->k ? pair_of(x, first + r) : (plane_pair){.lo = x->hi, .hi = x->hi};
        if (x->lo)
            bytes_dot(2, &y[first * y_stride], y_stride, pairs_of, w, w_stride, n, cols, x->k, scratch);
        else
            bytes_dot(1, &y[first * y_stride], y_stride, pairs_of, w, w_stride, n, cols, x->k, scratch);
    }
}

#endif
