/* amx_bytes.h - rows against plain bytes with tiles: sums of all k stay in them.
 *
 *              B0  B1        columns, 16 a tile, four bytes of each a cell
 *         A0   C00 C01       64 of k an instruction
 *         A1   C10 C11
 *
 * A0 and A1 are sixteen rows' high and low plane, or thirty-two rows of one plane, straight from the rows'
 * memory.  Both are signed here, so nothing has to be taken back.  What rows and columns leave over goes to
 * vnni/, whose bits are the same.
 *
 * Included once, by amx.c.
 */
#ifndef PH_KERNELS_AMX_AMX_BYTES_H
#define PH_KERNELS_AMX_AMX_BYTES_H

enum { DEEP = 64, WIDE = 2 * LANES }; /* of k an instruction; columns at a time */

static void set_up_bytes(void) {
    struct {
        uint8_t  palette, start, zeros[14];
        uint16_t row_bytes[16];
        uint8_t  rows[16];
    } t = {.palette = 1};
    for (int i = 0; i < 8; i++) t.rows[i] = ROWS, t.row_bytes[i] = DEEP;
    SETTLED(&t);
    _tile_loadconfig(&t);
}

INLINE __m256i bytes_I8(const uint8_t *b, size_t j) {
    (void)j;
    return _mm256_loadu_si256((const __m256i *)(const void *)b);
}

/* Sixteen columns: [k / 4] vectors of four bytes a column. */
INLINE void bytes_pack(__m512i *out, const uint8_t *w, size_t w_stride, size_t k) {
    const form f = {.elements = PART, .bytes = PART, .span = 1, .bytes_of = bytes_I8};
    for (size_t i = 0; i < k; i += PART, out += 8) {
        __m512i v[8];
        pairs(&f, v, w + i, w_stride, LANES, 0);
        interleave(v, out);
    }
}

/* C = A B for two tiles of rows and two of columns. */
INLINE void bytes_block(int32_t c[2][2][ROWS][LANES], const int8_t *a0, const int8_t *a1, size_t a_stride,
                        const __m512i *p, size_t k) {
    const __m512i *q = p + k / 4;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t i = 0; i < k; i += DEEP) {
        _tile_loadd(4, a0 + i, a_stride);
        _tile_loadd(5, a1 + i, a_stride);
        _tile_loadd(6, p + i / 4, 64);
        _tile_loadd(7, q + i / 4, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_stored(0, c[0][0], DEEP);
    _tile_stored(1, c[0][1], DEEP);
    _tile_stored(2, c[1][0], DEEP);
    _tile_stored(3, c[1][1], DEEP);
    SETTLED(c);
}

/* Rows from sums: `low` NULL for one plane. */
INLINE void bytes_finish(float *y, size_t y_stride, const float *d, int32_t (*high)[ROWS][LANES],
                         int32_t (*low)[ROWS][LANES]) {
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < 2; c++) {
            __m512 sum = _mm512_cvtepi32_ps(_mm512_loadu_si512(high[c][r]));
            if (low)
                sum = _mm512_fmadd_ps(_mm512_set1_ps(256), sum,
                                      _mm512_cvtepi32_ps(_mm512_loadu_si512(low[c][r])));
            _mm512_storeu_ps(&y[r * y_stride + c * LANES], _mm512_mul_ps(_mm512_set1_ps(d[r]), sum));
        }
}

/* `rows`, whole tiles of them, and WIDE columns. */
INLINE void bytes_columns(float *y, size_t y_stride, const ph_qrows *x, size_t rows, const __m512i *p) {
    int32_t      c[2][2][ROWS][LANES];
    const size_t k = x->k;
    for (size_t r = 0; r < rows; r += x->lo ? ROWS : 2 * ROWS) {
        bytes_block(c, &x->hi[r * k], x->lo ? &x->lo[r * k] : &x->hi[(r + ROWS) * k], k, p, k);
        if (x->lo) {
            bytes_finish(&y[r * y_stride], y_stride, &x->d[r], c[0], c[1]);
            continue;
        }
        bytes_finish(&y[r * y_stride], y_stride, &x->d[r], c[0], NULL);
        bytes_finish(&y[(r + ROWS) * y_stride], y_stride, &x->d[r + ROWS], c[1], NULL);
    }
}

static void dot_I8(float *restrict y, size_t y_stride, const ph_qrows *restrict x, const void *restrict w,
                   size_t w_stride, size_t rows, size_t cols, void *restrict scratch) {
    const size_t   tall = x->lo ? ROWS : 2 * ROWS, k = x->k, wide = cols / WIDE * WIDE;
    const size_t   most = k && k % DEEP == 0 && wide ? rows / tall * tall : 0; /* rows that tiles meet */
    const ph_qrows rest = ph_qrows_from(x, most);
    const uint8_t *v = w;
    ph_kernels     few;
    ph_install_vnni(&few);
    if (most) {
        set_up_bytes();
        for (size_t c = 0; c < wide; c += WIDE) {
            __m512i *p = scratch;
            bytes_pack(p, v + c * w_stride, w_stride, k);
            bytes_pack(p + k / 4, v + (c + LANES) * w_stride, w_stride, k);
            SETTLED(p);
            bytes_columns(&y[c], y_stride, x, most, p);
        }
        _tile_release();
        few.dot_I8(&y[wide], y_stride, x, v + wide * w_stride, w_stride, most, cols - wide, scratch);
    }
    few.dot_I8(&y[most * y_stride], y_stride, &rest, w, w_stride, rows - most, cols, scratch);
}

#endif
