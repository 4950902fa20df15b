/* lanes_linear.h - y = x W^T.
 *
 *     one row       weights stream once from memory through registers, STREAM columns at a time
 *     more rows     PH_LINEAR_SCRATCH_ROWS columns become floats in scratch (f32: stay where they
 *                   are, unless they lie across lines of cache and rows are many), then  for a panel of rows, for a chunk of k, for each register tile
 *                                   sums[TILE_ROWS][TILE_COLS] += x w
 *                   the chunk keeps w, x and the panel's sums in the first-level cache
 *
 * Every output is one vector of sums, filled along k in steps of W from 0, added up by v_sum
 * (or v_sums, which adds in the same order).
 * A tile only decides which outputs are in registers together, so no split shows in the bits.
 */
#ifndef PH_KERNELS_LANES_LANES_LINEAR_H
#define PH_KERNELS_LANES_LANES_LINEAR_H

#include "kernels/lanes/lanes_block.h"

enum {
    STREAM = 8,                     /* columns that a single row reads at once */
    GROUP = PH_LINEAR_SCRATCH_ROWS, /* columns that many rows share */
    PANEL = 48,                     /* rows whose sums wait in memory: 48 x 8 x W floats */
    CHUNK = 768,                    /* of k, at most: 8 columns of it are 24 KiB */
    ROWS_MANY = 48,
    K_MANY = 1024,            /* rows, and columns as long, that are worth a copy of what lies astray */
    BLOCK_FLOATS = 256 * 1024 /* of x that stay in the second-level cache while all columns pass */
};

/* One stored type: its functions, elements and bytes of a block, elements of a part.
 * Always a constant, so all of it is inlined. */
typedef struct packed {
    ready_fn *ready;
    part_fn  *part;
    size_t    elements, bytes, in_part;
    int       is_f32;
} packed;

/* y[c] = x . w[c] for `many` (a constant) columns.  What the processor fetches by itself ends with each
 * column, so while these are met the next are called for, line by line; past the last that is a word to
 * nobody. */
INLINE void stream(packed t, size_t many, float *y, const float *x, const uint8_t *w, size_t w_stride,
                   size_t k) {
    vf             sum[STREAM];
    scales         s[STREAM];
    size_t         i = 0;
    const uint8_t *next = w + many * w_stride;
    const size_t   step = many * t.bytes;
    UNROLL
    for (size_t c = 0; c < many; c++) sum[c] = v_zero();
    for (; i + t.elements <= k; i += t.elements, w += t.bytes) {
        UNROLL
        for (size_t l = 0; l < step; l += 64) __builtin_prefetch(&next[l], 0, 3);
        next += step;
        UNROLL
        for (size_t c = 0; c < many; c++) t.ready(&s[c], &w[c * w_stride]);
        /* Columns inside parts: each column's sums wait for their predecessor, the others' need not. */
        UNROLL
        for (size_t j = 0; j * t.in_part < t.elements; j++) {
            const float *at = &x[i + j * t.in_part];
            UNROLL
            for (size_t c = 0; c < many; c++)
                sum[c] = t.part(&w[c * w_stride], &s[c], j, t.in_part, 0, at, NULL, sum[c]);
        }
    }
    if (i < k) {
        UNROLL
        for (size_t c = 0; c < many; c++)
            sum[c] = t.part(&w[c * w_stride], NULL, 0, k - i, 0, &x[i], NULL, sum[c]);
    }
    UNROLL
    for (size_t c = 0; c < many; c++) y[c] = v_sum(sum[c]);
}

INLINE void widen(packed t, float *out, const uint8_t *w, size_t k) {
    size_t i = 0;
    scales s;
    for (; i + t.elements <= k; i += t.elements, w += t.bytes) {
        t.ready(&s, w);
        for (size_t j = 0; j * t.in_part < t.elements; j++)
            t.part(w, &s, j, t.in_part, 1, NULL, &out[i + j * t.in_part], v_zero());
    }
    if (i < k) t.part(w, NULL, 0, k - i, 1, NULL, &out[i], v_zero());
}

/* sums[r][c] += x[r, 0..n) . w[c, 0..n) for a tile of rows x cols (constants); w_stride in bytes.
 * is_first: from 0 on, whatever stands in sums. */
INLINE void tile(size_t rows, size_t cols, vf (*sums)[GROUP], const float *x, size_t x_stride,
                 const uint8_t *w, size_t w_stride, size_t n, int is_first) {
    vf     sum[TILE_ROWS][TILE_COLS];
    size_t i = 0;
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < cols; c++) sum[r][c] = is_first ? v_zero() : sums[r][c];
    }
    for (; i + W <= n; i += W) {
        vf v[TILE_ROWS];
        UNROLL
        for (size_t r = 0; r < rows; r++) v[r] = v_load(&x[r * x_stride + i]);
        UNROLL
        for (size_t c = 0; c < cols; c++) {
            vf u = v_once(v_load(&w[c * w_stride + i * sizeof(float)]));
            UNROLL
            for (size_t r = 0; r < rows; r++) sum[r][c] = v_fma(u, v[r], sum[r][c]);
        }
    }
    if (i < n) {
        UNROLL
        for (size_t c = 0; c < cols; c++) {
            vf u = v_load_n(&w[c * w_stride + i * sizeof(float)], n - i);
            UNROLL
            for (size_t r = 0; r < rows; r++)
                sum[r][c] = v_fma(u, v_load_n(&x[r * x_stride + i], n - i), sum[r][c]);
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < cols; c++) sums[r][c] = sum[r][c];
    }
}

/* All columns of a group against `rows` (a constant) rows. */
INLINE void strip(size_t rows, vf (*sums)[GROUP], const float *x, size_t x_stride, const uint8_t *w,
                  size_t w_stride, size_t cols, size_t n, int is_first) {
    size_t c = 0;
    for (; c + TILE_COLS <= cols; c += TILE_COLS)
        tile(rows, TILE_COLS, (vf(*)[GROUP]) & sums[0][c], x, x_stride, &w[c * w_stride], w_stride, n,
             is_first);
    for (; c < cols; c++)
        tile(rows, 1, (vf(*)[GROUP]) & sums[0][c], x, x_stride, &w[c * w_stride], w_stride, n, is_first);
}

/* Each output's lanes added up, W outputs at a time. */
INLINE void add_up(float *y, size_t y_stride, vf (*sums)[GROUP], size_t rows, size_t cols) {
    float     out[PANEL * GROUP];
    const vf *flat = sums[0];
    for (size_t i = 0; i < rows * GROUP; i += W) v_store(&out[i], v_sums(&flat[i]));
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) y[r * y_stride + c] = out[r * GROUP + c];
}

/* Whole vectors, and as many of them in each chunk as in the others. */
static size_t even_chunk(size_t k) {
    size_t chunks = (k + CHUNK - 1) / CHUNK;
    return chunks ? ((k + chunks - 1) / chunks + W - 1) / W * W : CHUNK;
}

/* rows <= PANEL, cols <= GROUP, w: floats. */
static void panel(float *y, size_t y_stride, const float *x, size_t x_stride, const uint8_t *w,
                  size_t w_stride, size_t rows, size_t cols, size_t k) {
    vf sums[PANEL][GROUP];
    if (rows < PANEL || cols < GROUP || !k) /* else each begins with its first products */
        for (size_t r = 0; r < PANEL; r++)
            for (size_t c = 0; c < GROUP; c++) sums[r][c] = v_zero();
    const size_t chunk = even_chunk(k);
    for (size_t i = 0; i < k; i += chunk) {
        size_t         n = k - i < chunk ? k - i : chunk, r = 0;
        const uint8_t *from = &w[i * sizeof(float)];
        for (; r + TILE_ROWS <= rows; r += TILE_ROWS)
            strip(TILE_ROWS, &sums[r], &x[r * x_stride + i], x_stride, from, w_stride, cols, n, !i);
        for (; r < rows; r++) strip(1, &sums[r], &x[r * x_stride + i], x_stride, from, w_stride, cols, n, !i);
    }
    add_up(y, y_stride, sums, rows, cols);
}

/* Weights that come next, from memory to the second-level cache: rows [first, last) of row_bytes each.  What
 * the processor fetches by itself ends with each short run. */
INLINE void ahead(const uint8_t *w, size_t w_stride, size_t row_bytes, size_t first, size_t last) {
    for (size_t r = first; r < last; r++)
        for (size_t i = 0; i < row_bytes; i += 64) __builtin_prefetch(&w[r * w_stride + i], 0, 2);
}

/* Rows of x that stay cached while all columns pass: whole panels. */
static size_t rows_at_once(size_t k) {
    size_t panels = BLOCK_FLOATS / (PANEL * (k ? k : 1));
    return (panels ? panels : 1) * PANEL;
}

/* Vectors of these rows of floats lie across two lines of cache each. */
INLINE int is_astray(const uint8_t *w, size_t w_stride) {
    return ((uintptr_t)w | w_stride) % sizeof(vf) != 0;
}

INLINE void linear(packed t, float *y, size_t y_stride, const float *x, size_t x_stride, const uint8_t *w,
                   size_t w_stride, size_t rows, size_t cols, size_t k, float *scratch) {
    size_t c = 0, most = rows_at_once(k);
    if (rows == 1) {
        for (; c + STREAM <= cols; c += STREAM) stream(t, STREAM, &y[c], x, &w[c * w_stride], w_stride, k);
        for (; c < cols; c++) stream(t, 1, &y[c], x, &w[c * w_stride], w_stride, k);
        return;
    }
    for (size_t from = 0; from < rows; from += most) {
        size_t to = rows - from < most ? rows : from + most;
        for (c = 0; c < cols; c += GROUP) {
            size_t         some = cols - c < GROUP ? cols - c : GROUP, stride = w_stride;
            const uint8_t *floats = &w[c * w_stride];
            if (!t.is_f32 ||
                (scratch && to - from >= ROWS_MANY && k >= K_MANY && is_astray(floats, w_stride))) {
                stride = (k + PH_LINEAR_SCRATCH_GAP) * sizeof(float);
                for (size_t i = 0; i < some; i++)
                    widen(t, &scratch[i * stride / sizeof(float)], &floats[i * w_stride], k);
                floats = (const uint8_t *)scratch;
            }
            size_t panels = (to - from + PANEL - 1) / PANEL,
                   next = cols - c - some < GROUP ? cols - c - some : GROUP;
            for (size_t p = 0; p < panels; p++) {
                size_t r = from + p * PANEL;
                ahead(&w[(c + some) * w_stride], w_stride, (k + t.elements - 1) / t.elements * t.bytes,
                      next * p / panels, next * (p + 1) / panels);
                panel(&y[r * y_stride + c], y_stride, &x[r * x_stride], x_stride, floats, stride,
                      to - r < PANEL ? to - r : PANEL, some, k);
            }
        }
    }
}

#define LINEAR(T, ready, elements, bytes, in_part, is_f32)                                                   \
    static void linear_##T(float *restrict y, size_t y_stride, const float *restrict x, size_t x_stride,     \
                           const void *restrict w, size_t w_stride, size_t rows, size_t cols, size_t k,      \
                           float *restrict scratch) {                                                        \
        const packed t = {ready, part_##T, elements, bytes, in_part, is_f32};                                \
        linear(t, y, y_stride, x, x_stride, w, w_stride, rows, cols, k, scratch);                            \
    }
LINEAR(F32, ready_not, W, 4 * W, W, 1)
LINEAR(F16, ready_not, W, 2 * W, W, 0)
LINEAR(BF16, ready_not, W, 2 * W, W, 0)
LINEAR(Q8_0, ready_not, 32, 34, 32, 0)
LINEAR(Q4_0, ready_not, 32, 18, 32, 0)
LINEAR(Q4_1, ready_not, 32, 20, 32, 0)
LINEAR(Q4_K, ready_Q4_K, 256, 144, 32, 0)
LINEAR(Q6_K, ready_Q6_K, 256, 210, 32, 0)
#undef LINEAR

#endif
