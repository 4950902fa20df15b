/* amx.c - products by integers of many rows with AMX: 16 x 16 sums of 32 products of bytes an instruction.
 *
 * A step is a part of 32 elements of k, which share a scale.  Columns are laid out as vnni/ does: four bytes
 * of sixteen columns a vector, eight vectors a tile.  For a chunk of k the columns are laid out once, and
 * sixteen rows are copied to tiles of their two planes once for all columns.  Then four steps are on their
 * way:
 *
 *     load       of step i + 3: tiles of the rows' high and low bytes, and of the columns
 *     multiply   of step i + 2: two tiles of sums
 *     store      of step i + 1, as a vector unit cannot read a tile
 *     absorb     of step i: both sums become one float, are scaled and added up, in registers
 *
 * Sums of bytes are exact and below 2^20, and fma(256, high, low) rounds their whole once, as the conversion
 * of the integer would.  Scales and order are those of ref_dot.c, so the bits are the same.
 *
 * What takes time is not the multiplying but that each 32 elements' sums must leave the tiles: so Q6_K, with
 * a scale for 16, stays with vnni/, and so do few rows (a tile would be empty) and few columns (the copies of
 * rows would not pay).  A call sets the tiles up and releases them: a thread between calls has none to be
 * saved.
 */
#include "kernels/isa.h"

#include "kernels/vnni/vnni_block.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define UNROLL16
#elif defined(__clang__)
#define UNROLL16 _Pragma("clang loop unroll(full)")
#else
#define UNROLL16 _Pragma("GCC unroll 16")
#endif

/* gcc's tile instructions do not say which memory they read. */
#define SETTLED(p) __asm__ volatile("" ::"r"(p) : "memory")

enum {
    FEW_ROWS = 16, /* fewer rows or columns go to vnni/ */
    FEW_COLS = 32,
    ROWS = 16,  /* of a tile */
    STEPS = 16, /* of a chunk of k */
    GROUPS = 8  /* of sixteen columns that share a chunk's rows, at most */
};

/* Sixteen rows of a step: high and low bytes, row by row; d; and d times the sum of the integers. */
typedef struct row_step {
    int8_t q[2][ROWS * PART];
    float  d[ROWS], ds[ROWS];
} row_step;

typedef struct desk {
    int32_t  sums[2][2][ROWS][LANES]; /* [step's last bit][high, low] */
    row_step x[STEPS];
    packed   w[GROUPS][STEPS];
} desk;

/* Tiles 0 and 1: high and low bytes of rows; 2: columns; 3 to 6: sums, of even steps and of odd. */
static void set_up(void) {
    struct {
        uint8_t  palette, start, zeros[14];
        uint16_t row_bytes[16];
        uint8_t  rows[16];
    } t = {.palette = 1};
    for (int i = 0; i < 7; i++) t.rows[i] = ROWS, t.row_bytes[i] = LANES * sizeof(int32_t);
    t.row_bytes[0] = t.row_bytes[1] = PART;
    t.rows[2] = PART / 4;
    SETTLED(&t);
    _tile_loadconfig(&t);
}

/* d of sixteen rows, and d times the sum of the integers; x_d and x_s: the first row's, `at`: the rows'
 * places. */
INLINE void set_scales(const form *f, row_step *to, const float *x_d, const int32_t *x_s, __m512i at,
                       __mmask16 rows) {
    const __m512 d = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), rows, at, x_d, sizeof *x_d);
    _mm512_storeu_ps(to->d, d);
    if (!f->has_min) return;
    const __m512i none = _mm512_setzero_si512();
    const __m512i sum =
        _mm512_add_epi32(_mm512_mask_i32gather_epi32(none, rows, at, x_s, 2 * sizeof *x_s),
                         _mm512_mask_i32gather_epi32(none, rows, at, x_s + 1, 2 * sizeof *x_s));
    _mm512_storeu_ps(to->ds, _mm512_mul_ps(d, _mm512_cvtepi32_ps(sum)));
}

/* One plane of `rows` rows and a number of steps, a cache line at a time.  Rows of the tiles that nobody
 * asked for become zeros. */
INLINE void copy_plane(row_step *out, size_t plane, const int8_t *q, size_t stride, size_t rows,
                       size_t steps) {
    for (size_t i = 0; i < steps; i += 2)
        for (size_t r = 0; r < rows; r++) {
            memcpy(&out[i].q[plane][r * PART], &q[r * stride + i * PART], PART);
            if (i + 1 < steps) memcpy(&out[i + 1].q[plane][r * PART], &q[r * stride + (i + 1) * PART], PART);
        }
    for (size_t i = 0; rows < ROWS && i < steps; i++)
        memset(&out[i].q[plane][rows * PART], 0, (ROWS - rows) * PART);
}

/* Steps [i0, i0 + steps) of rows [r0, r0 + rows). */
INLINE void copy_rows(const form *f, row_step *out, const ph_qrows *x, size_t r0, size_t rows, size_t i0,
                      size_t steps) {
    const size_t    all = x->k / PART, from = r0 * all + i0;
    const __m512i   lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i   at = _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)all));
    const __mmask16 there = (__mmask16)((1u << rows) - 1);
    copy_plane(out, 0, &x->hi[from * PART], x->k, rows, steps);
    if (x->lo) copy_plane(out, 1, &x->lo[from * PART], x->k, rows, steps);
    for (size_t i = 0; i < steps; i++)
        set_scales(f, &out[i], &x->d[from + i], &x->s[2 * (from + i)], at, there);
}

/* A step's sums of sixteen rows. */
INLINE void absorb(const form *f, int planes, __m512 y[ROWS], int32_t (*sums)[ROWS][LANES], const row_step *x,
                   const packed *w) {
    const __m512 high = _mm512_set1_ps(256), d = w->d[0];
    UNROLL16
    for (size_t r = 0; r < ROWS; r++) {
        __m512 sum = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums[0][r]));
        if (planes > 1) sum = _mm512_fmadd_ps(high, sum, _mm512_cvtepi32_ps(_mm512_loadu_si512(sums[1][r])));
        y[r] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(x->d[r])), sum, y[r]);
        if (f->has_min) y[r] = _mm512_fmadd_ps(w->m, _mm512_set1_ps(x->ds[r]), y[r]);
    }
}

/* Names of tiles must be digits. */
#define LOAD(i)                                                                                              \
    if ((i) < n) {                                                                                           \
        _tile_loadd(0, t->x[i].q[0], PART);                                                                  \
        if (planes > 1) _tile_loadd(1, t->x[i].q[1], PART);                                                  \
        _tile_loadd(2, w[i].q, 64);                                                                          \
    }
#define MULTIPLY(i, high, low)                                                                               \
    if ((i) < n) {                                                                                           \
        _tile_zero(high);                                                                                    \
        if (planes > 1) _tile_zero(low);                                                                     \
        _tile_dpbssd(high, 0, 2);                                                                            \
        if (planes > 1) _tile_dpbssd(low, 1, 2);                                                             \
    }
#define STORE(i, high, low)                                                                                  \
    if ((i) < n) {                                                                                           \
        _tile_stored(high, t->sums[(i) % 2][0], LANES * sizeof(int32_t));                                    \
        if (planes > 1) _tile_stored(low, t->sums[(i) % 2][1], LANES * sizeof(int32_t));                     \
    }
#define ABSORB(i) absorb(f, planes, sum, t->sums[(i) % 2], &t->x[i], &w[i])

/* n steps of sixteen rows, of which `rows` are there, and up to 16 columns; y is continued unless is_first.
 */
INLINE void block(const form *f, int planes, float *y, size_t y_stride, desk *t, const packed *w, size_t n,
                  size_t rows, size_t cols, int is_first) {
    const __mmask16 there = (__mmask16)((1u << cols) - 1);
    __m512          sum[ROWS];
    UNROLL16
    for (size_t r = 0; r < ROWS; r++)
        sum[r] = is_first || r >= rows ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(there, &y[r * y_stride]);
    LOAD(0)
    MULTIPLY(0, 3, 4)
    LOAD(1)
    STORE(0, 3, 4)
    MULTIPLY(1, 5, 6)
    LOAD(2)
    for (size_t i = 0; i < n; i += 2) {
        STORE(i + 1, 5, 6)
        MULTIPLY(i + 2, 3, 4)
        LOAD(i + 3)
        ABSORB(i);
        if (i + 1 == n) break;
        STORE(i + 2, 3, 4)
        MULTIPLY(i + 3, 5, 6)
        LOAD(i + 4)
        ABSORB(i + 1);
    }
    UNROLL16
    for (size_t r = 0; r < ROWS; r++)
        if (r < rows) _mm512_mask_storeu_ps(&y[r * y_stride], there, sum[r]);
}

/* A chunk of k, steps [i0, i0 + steps), of all rows and of up to GROUPS groups of columns. */
INLINE void chunk(const form *f, int planes, float *y, size_t y_stride, const ph_qrows *x, desk *t,
                  const uint8_t *w, size_t w_stride, size_t rows, size_t cols, size_t i0, size_t steps) {
    w += i0 * PART / f->elements * f->bytes;
    for (size_t c = 0; c < cols; c += LANES)
        pack(f, t->w[c / LANES], sizeof(packed), w + c * w_stride, w_stride, steps * PART,
             cols - c < LANES ? cols - c : LANES, 1);
    for (size_t r = 0; r < rows; r += ROWS) {
        size_t some = rows - r < ROWS ? rows - r : ROWS;
        copy_rows(f, t->x, x, r, some, i0, steps);
        SETTLED(t);
        for (size_t c = 0; c < cols; c += LANES)
            block(f, planes, &y[r * y_stride + c], y_stride, t, t->w[c / LANES], steps, some,
                  cols - c < LANES ? cols - c : LANES, !i0);
    }
}

INLINE void dot(const form *f, int planes, float *y, size_t y_stride, const ph_qrows *x, const uint8_t *w,
                size_t w_stride, size_t rows, size_t cols, desk *t) {
    const size_t steps = x->k / PART, wide = GROUPS * LANES;
    set_up();
    for (size_t c = 0; c < cols; c += wide)
        for (size_t i = 0; i < steps; i += STEPS)
            chunk(f, planes, &y[c], y_stride, x, t, w + c * w_stride, w_stride, rows,
                  cols - c < wide ? cols - c : wide, i, steps - i < STEPS ? steps - i : STEPS);
    _tile_release();
}

_Static_assert(sizeof(desk) <= PH_DOT_SCRATCH(0), "scratch holds a desk");

#define DOT(T, elements, bytes, span, halved, min, zero, nibbles, heads, head, scales, line)                 \
    static void dot_##T(float *restrict y, size_t      y_stride, const ph_qrows *restrict x,                 \
                        const void *restrict w, size_t w_stride, size_t rows, size_t cols,                   \
                        void *restrict scratch) {                                                            \
        const form f = {elements, bytes,     span,  halved, min,    zero,                                    \
                        nibbles,  bytes_##T, heads, head,   scales, NULL};                                   \
        ph_kernels few;                                                                                      \
        if (rows < FEW_ROWS || cols < FEW_COLS || !x->k) {                                                   \
            ph_install_vnni(&few);                                                                           \
            few.dot_##T(y, y_stride, x, w, w_stride, rows, cols, scratch);                                   \
        } else if (x->lo) {                                                                                  \
            dot(&f, 2, y, y_stride, x, w, w_stride, rows, cols, scratch);                                    \
        } else {                                                                                             \
            dot(&f, 1, y, y_stride, x, w, w_stride, rows, cols, scratch);                                    \
        }                                                                                                    \
    }
BLOCK_TYPES_OF_32(DOT)

#include "kernels/amx/amx_bytes.h"

void ph_install_amx(ph_kernels *k) {
    k->dot_I8 = dot_I8;
    k->dot_Q8_0 = dot_Q8_0, k->dot_Q4_0 = dot_Q4_0, k->dot_Q4_1 = dot_Q4_1, k->dot_Q4_K = dot_Q4_K;
}
