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

/* Rows whose sums are kept; columns that one row meets; rows of a tile with two planes, with one; elements
 * that are packed at once. */
enum { SUMS = 144, EIGHT = 8, TILE2 = 6, TILE1 = 12, CHUNK = 512, SLOT = 8 };

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
    UNROLL
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
    const int32_t all = (int32_t)((uint32_t)x->s[2 * r] + (uint32_t)x->s[2 * r + 1]);
    return (plane_pair){.lo = lo,
                        .hi = hi,
                        .lo_start = x->lo ? less_128(lo, x->k) : (int32_t)(0 - ((uint32_t)all << 7)),
                        .hi_start = x->lo ? less_128(hi, x->k) : 0,
                        .d = x->d[r]};
}

/* ---- more rows ---- */

/* Sums as what they are: as __m512i, which is of 64-bit lanes, GCC 12 keeps a second copy of each in memory.
 */
typedef int32_t lane_sums __attribute__((vector_size(64)));

/* Elements [from, from + n) of k.  Of more than one such the sums wait in memory, tile by tile; so what is
 * packed stays in the first-level cache while all rows pass. */
typedef struct chunk {
    const __m512i *p; /* [vectors][n / 4] */
    size_t         from, n;
    int            is_first, is_last;
} chunk;

/* Rows of a tile one below the other, three from each of these places on: so they are met through few
 * registers. */
enum { PLACES = TILE1 / 3 };

INLINE void places_of(const int8_t *at[PLACES], const int8_t *x, size_t stride, size_t rows) {
    UNROLL
    for (size_t i = 0; 3 * i < rows; i++) at[i] = x + 3 * i * stride;
}

INLINE __m512i four_of(const int8_t *at[PLACES], size_t r, size_t stride, size_t i) {
    return four(&at[r / 3][r % 3 * stride + 4 * i]);
}

/* rows x 16 vectors columns (rows, vectors and planes constants); rows of x are k apart.  kept:
 * [rows][vectors] sums of the chunks before, for each plane. */
INLINE void bytes_tile(int planes, float *y, size_t y_stride, const plane_pair *x, size_t k,
                       const chunk *part, calls *next, lane_sums *kept, size_t rows, size_t vectors,
                       size_t cols) {
    lane_sums     lo[TILE1][VECTORS], hi[TILE1][VECTORS];
    const int8_t *lo_at[PLACES], *hi_at[PLACES];
    const size_t  steps = part->n / 4;
    places_of(lo_at, x->lo + part->from, k, rows);
    places_of(hi_at, x->hi + part->from, k, rows);
    UNROLL_ROWS
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < vectors; c++) {
            size_t at = (r * vectors + c) * (size_t)planes;
            lo[r][c] = part->is_first ? (lane_sums)_mm512_set1_epi32(x[r].lo_start) : kept[at];
            if (planes > 1)
                hi[r][c] = part->is_first ? (lane_sums)_mm512_set1_epi32(x[r].hi_start) : kept[at + 1];
        }
    }
    for (size_t at = 0; at < steps; at += SLOT) {
        call_for(next, SLOT);
        for (size_t i = at; i < at + SLOT; i++) {
            __m512i u[VECTORS];
            UNROLL
            for (size_t c = 0; c < vectors; c++) u[c] = part->p[c * steps + i];
            UNROLL_ROWS
            for (size_t r = 0; r < rows; r++) {
                __m512i l = four_of(lo_at, r, k, i), h = planes > 1 ? four_of(hi_at, r, k, i) : l;
                UNROLL
                for (size_t c = 0; c < vectors; c++) {
                    lo[r][c] = (lane_sums)_mm512_dpbusd_epi32((__m512i)lo[r][c], u[c], l);
                    if (planes > 1) hi[r][c] = (lane_sums)_mm512_dpbusd_epi32((__m512i)hi[r][c], u[c], h);
                }
            }
        }
    }
    UNROLL_ROWS
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < vectors; c++) {
            size_t at = (r * vectors + c) * (size_t)planes;
            if (part->is_last) {
                store(
                    &y[r * y_stride + c * LANES],
                    whole_of(planes, (__m512i)lo[r][c], (__m512i)(planes > 1 ? hi[r][c] : lo[r][c]), x[r].d),
                    cols - c * LANES);
                continue;
            }
            kept[at] = lo[r][c];
            if (planes > 1) kept[at + 1] = hi[r][c];
        }
    }
}

/* What is left below whole tiles is done as the last rows of a whole one once more, if that is cheaper. */
INLINE void bytes_strip(int planes, float *y, size_t y_stride, const plane_pair *x, size_t k,
                        const chunk *part, calls next, lane_sums *kept, size_t rows, size_t vectors,
                        size_t cols) {
    const size_t most = planes > 1 ? TILE2 : TILE1, sums = vectors * (size_t)planes;
    size_t       r = 0;
    for (; r + most <= rows; r += most, kept += most * sums)
        bytes_tile(planes, &y[r * y_stride], y_stride, &x[r], k, part, &next, kept, most, vectors, cols);
    if (rows - r > most / 3 && rows >= most) {
        r = rows - most;
        bytes_tile(planes, &y[r * y_stride], y_stride, &x[r], k, part, &next, kept, most, vectors, cols);
        r = rows;
    }
    for (; r + 3 <= rows; r += 3, kept += 3 * sums)
        bytes_tile(planes, &y[r * y_stride], y_stride, &x[r], k, part, &next, kept, 3, vectors, cols);
    for (; r < rows; r++, kept += sums)
        bytes_tile(planes, &y[r * y_stride], y_stride, &x[r], k, part, &next, kept, 1, vectors, cols);
    call_for(&next, next.cols * CHUNK / 64);
}

/* n elements of up to sixteen columns. */
INLINE void bytes_pack(__m512i *out, const uint8_t *w, size_t w_stride, size_t n, size_t cols) {
    const form f = {.elements = PART, .bytes = PART, .span = 1, .bytes_of = bytes_I8};
    for (size_t i = 0; i < n; i += PART, out += 8) {
        __m512i v[8];
        pairs(&f, v, w + i, w_stride, cols, 0);
        interleave(v, out);
    }
}

/* `cols` columns, up to 32, of `left` that there are from w on. */
INLINE void bytes_columns(int planes, float *y, size_t y_stride, const plane_pair *x, const uint8_t *w,
                          size_t w_stride, size_t rows, size_t left, size_t cols, size_t k, __m512i *p) {
    lane_sums kept[(SUMS + TILE1) * VECTORS * 2];
    size_t    i = 0;
    do { /* once at least: of no elements there are sums too */
        const size_t n = k - i < CHUNK ? k - i : CHUNK, first = cols < LANES ? cols : LANES;
        const chunk  part = {p, i, n, !i, i + n == k};
        const size_t to_come = part.is_last ? k : k - i - n, run = to_come < CHUNK ? to_come : CHUNK;
        const calls  next = part.is_last
                                ? calls_behind(w, w_stride, left, cols, run)
                                : (calls){.at = w + i + n, .stride = w_stride, .n = run, .cols = cols};
        bytes_pack(p, w + i, w_stride, n, first);
        if (cols > LANES) bytes_pack(p + n / 4, w + i + LANES * w_stride, w_stride, n, cols - LANES);
        if (cols > LANES)
            bytes_strip(planes, y, y_stride, x, k, &part, next, kept, rows, VECTORS, cols);
        else
            bytes_strip(planes, y, y_stride, x, k, &part, next, kept, rows, 1, cols);
        i += CHUNK;
    } while (i < k);
}

/* At most SUMS rows. */
INLINE void bytes_dot(int planes, float *y, size_t y_stride, const plane_pair *x, const uint8_t *w,
                      size_t w_stride, size_t rows, size_t cols, size_t k, __m512i *p) {
    for (size_t c = 0; rows < FEW && c < cols; c += EIGHT)
        for (size_t r = 0; r < rows; r++)
            bytes_stream(planes, &y[r * y_stride + c], &x[r], k, w + c * w_stride, w_stride,
                         cols - c < EIGHT ? cols - c : EIGHT);
    for (size_t c = 0; rows >= FEW && c < cols; c += VECTORS * LANES) {
        const size_t left = cols - c, most = VECTORS * LANES;
        bytes_columns(planes, &y[c], y_stride, x, w + c * w_stride, w_stride, rows, left,
                      left < most ? left : most, k, p);
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
