/* lanes_linear.h - y = x W^T.
 *
 *     one row       weights stream once from memory through registers, STREAM columns at a time
 *     more rows     for a block of rows, for a group of columns, for a chunk of k:
 *                       the weights become floats in scratch (f32: stay where they are, unless they lie
 *                       badly and rows are many)
 *                       for each register tile: sums[TILE_ROWS][TILE_COLS] += x w
 *                   w of the chunk stays in the first-level cache, x and the block's sums in the second
 *
 * Every output is one vector of sums, filled along k in steps of W from 0, added up by v_sum
 * (or v_sums, which adds in the same order).
 * A tile only decides which outputs are in registers together, so no split shows in the bits of a number.
 */
#ifndef PH_KERNELS_LANES_LANES_LINEAR_H
#define PH_KERNELS_LANES_LANES_LINEAR_H

#include "kernels/lanes/lanes_block.h"

enum {
    STREAM = 8,                     /* columns that a single row reads at once */
    GROUP = PH_LINEAR_SCRATCH_ROWS, /* columns that many rows share */
    CHUNK = 768,                    /* of k, at most: 8 columns of it are 24 KiB */
    CHUNK_WHOLE = 1024,             /* all of k, where that is no more, and the first-level cache has room */
    L1_ROOMY = 48 << 10,            /* for its 32 KiB and a tile's rows */
    BLOCK_ROWS = 201,               /* whose sums wait in memory: 201 x 8 x W floats */
    BLOCK_FLOATS = 512 * 1024,      /* of x that all columns pass, in or near the second-level cache */
    ROWS_MANY = 24,                 /* rows that are worth a copy of weights that lie badly */
    CACHE_TURN = 4096,              /* bytes after which places in the first-level cache come again */
    FRACTION = 32                   /* parts of a byte, in which next_step is */
};
/* Blocks of rows are whole tiles, at most BLOCK_ROWS; chunks are whole blocks of any type, and whole vectors.
 */
_Static_assert(BLOCK_ROWS % TILE_ROWS == 0 && ROWS_MANY % TILE_ROWS == 0, "whole tiles");
_Static_assert(CHUNK % 256 == 0 && 256 % W == 0, "whole blocks");

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

/* w[i .. i + n) as floats; i: where a block begins. */
INLINE void widen(packed t, float *out, const uint8_t *w, size_t i, size_t n) {
    scales s;
    w += i / t.elements * t.bytes;
    for (i = 0; i + t.elements <= n; i += t.elements, w += t.bytes) {
        t.ready(&s, w);
        for (size_t j = 0; j * t.in_part < t.elements; j++)
            t.part(w, &s, j, t.in_part, 1, NULL, &out[i + j * t.in_part], v_zero());
    }
    if (i < n) t.part(w, NULL, 0, n - i, 1, NULL, &out[i], v_zero());
}

/* A block of rows, a group of columns, a chunk of k. */
typedef struct piece {
    float       *y;
    const float *x;
    size_t       y_stride, x_stride, rows, cols, n;
    vf (*sums)[GROUP];                /* of this block and group */
    int            is_first, is_last; /* of the chunks: sums begin from 0; are added up to y */
    const uint8_t *w;                 /* floats */
    size_t         w_stride;
    /* Weights that come next, called for from memory: what the processor fetches by
     * itself ends with each short run.  The first tile of a strip calls for its part of one column, a line or
     * less a step: so no step waits for room. */
    const uint8_t *next;
    size_t         n_next; /* columns */
    size_t         next_stride;
    size_t         next_step; /* bytes that a step's elements take where they are stored, times FRACTION */
} piece;

/* Each output's lanes added up, W outputs at a time. */
INLINE void add_up(size_t rows, size_t cols, float *y, size_t y_stride, vf (*sum)[TILE_COLS]) {
    const size_t some = cols < W ? cols : W, each = W / some;
    UNROLL
    for (size_t r = 0; r < rows; r += each) {
        UNROLL
        for (size_t c = 0; c < cols; c += some) {
            vf    a[W];
            float out[W];
            UNROLL
            for (size_t i = 0; i < each; i++) {
                UNROLL
                for (size_t j = 0; j < some; j++)
                    a[i * some + j] = r + i < rows ? sum[r + i][c + j] : v_zero();
            }
            v_store(out, v_sums(a));
            for (size_t i = 0; i < each && r + i < rows; i++)
                memcpy(&y[(r + i) * y_stride + c], &out[i * some], some * sizeof *y);
        }
    }
}

/* Rows [r, r + rows) and columns [c, c + cols) of a piece (rows and cols: constants). */
INLINE void tile(size_t rows, size_t cols, const piece *p, size_t r, size_t c, const uint8_t *next,
                 size_t next_step) {
    const float   *x = &p->x[r * p->x_stride];
    const uint8_t *w = &p->w[c * p->w_stride];
    const size_t   x_stride = p->x_stride, w_stride = p->w_stride, n = p->n;
    float         *y = &p->y[r * p->y_stride + c];
    vf(*sums)[GROUP] = (vf(*)[GROUP]) & p->sums[r][c];
    vf     sum[TILE_ROWS][TILE_COLS];
    size_t i = 0, at = 0;
    UNROLL
    for (size_t j = 0; j < rows; j++) {
        UNROLL
        for (size_t l = 0; l < cols; l++) sum[j][l] = p->is_first ? v_zero() : sums[j][l];
    }
    for (; i + W <= n; i += W, at += next_step) {
        vf v[TILE_ROWS];
        __builtin_prefetch(&next[at / FRACTION], 0, 3);
        UNROLL
        for (size_t j = 0; j < rows; j++) v[j] = v_load(&x[j * x_stride + i]);
        UNROLL
        for (size_t l = 0; l < cols; l++) {
            vf u = v_once(v_load(&w[l * w_stride + i * sizeof(float)]));
            UNROLL
            for (size_t j = 0; j < rows; j++) sum[j][l] = v_fma(u, v[j], sum[j][l]);
        }
    }
    if (i < n) {
        UNROLL
        for (size_t l = 0; l < cols; l++) {
            vf u = v_load_n(&w[l * w_stride + i * sizeof(float)], n - i);
            UNROLL
            for (size_t j = 0; j < rows; j++)
                sum[j][l] = v_fma(u, v_load_n(&x[j * x_stride + i], n - i), sum[j][l]);
        }
    }
    if (!p->is_last) {
        UNROLL
        for (size_t j = 0; j < rows; j++) {
            UNROLL
            for (size_t l = 0; l < cols; l++) sums[j][l] = sum[j][l];
        }
    } else if (cols > 1) {
        add_up(rows, cols, y, p->y_stride, sum);
    } else {
        UNROLL
        for (size_t j = 0; j < rows; j++) y[j * p->y_stride] = v_sum(sum[j][0]);
    }
}

/* All columns of `rows` (a constant) rows. */
INLINE void strip(size_t rows, const piece *p, size_t r, const uint8_t *next, size_t next_step) {
    size_t c = 0;
    for (; c + TILE_COLS <= p->cols; c += TILE_COLS)
        tile(rows, TILE_COLS, p, r, c, c ? p->w : next, c ? 0 : next_step);
    for (; c < p->cols; c++) tile(rows, 1, p, r, c, c ? p->w : next, c ? 0 : next_step);
}

/* Is it time, before the strip at row r, to call for one more column?  Evenly over all rows. */
static int is_due(const piece *p, size_t called, size_t r) {
    return called < p->n_next && (r + TILE_ROWS) * p->n_next > called * p->rows;
}

static void multiply(const piece *p) {
    size_t r = 0, called = 0;
    for (; r + TILE_ROWS <= p->rows; r += TILE_ROWS) {
        int due = is_due(p, called, r);
        strip(TILE_ROWS, p, r, due ? &p->next[called * p->next_stride] : p->w, due ? p->next_step : 0);
        called += (size_t)due;
    }
    for (; r < p->rows; r++) strip(1, p, r, p->w, 0);
    for (; called < p->n_next; called++)
        for (size_t i = 0; i < p->n * p->next_step / W / FRACTION; i += 64)
            __builtin_prefetch(&p->next[called * p->next_stride + i], 0, 3);
}

/* `all` in as few parts as `most` allows, these alike, and multiples of `grain`. */
static size_t even(size_t all, size_t most, size_t grain) {
    size_t parts = (all + most - 1) / most;
    return parts ? ((all + parts - 1) / parts + grain - 1) / grain * grain : grain;
}

/* Of k, what goes together: fewer chunks have fewer sums to wait in memory. */
static size_t chunk_of(size_t k, size_t grain) {
    return k <= CHUNK_WHOLE && ph_cpu_l1() >= L1_ROOMY ? k : even(k, CHUNK, grain);
}

/* Rows of x that go together. */
static size_t rows_at_once(size_t rows, size_t k) {
    size_t most = BLOCK_FLOATS / (k ? k : 1);
    if (most > BLOCK_ROWS) most = BLOCK_ROWS;
    return even(rows, most > ROWS_MANY ? most : ROWS_MANY, TILE_ROWS);
}

/* Vectors of these columns of floats lie across two lines of cache each, or those of all columns in the same
 * places of the cache. */
INLINE int lies_badly(const uint8_t *w, size_t w_stride) {
    return ((uintptr_t)w | w_stride) % sizeof(vf) != 0 || w_stride % CACHE_TURN == 0;
}

/* The weights of [i, i + p->n) of k, as floats: where they stand, or in scratch. */
INLINE void set_weights(packed t, piece *p, const uint8_t *w, size_t w_stride, size_t i, size_t stride,
                        float *scratch) {
    p->w = scratch ? (const uint8_t *)scratch : &w[i * sizeof(float)];
    p->w_stride = scratch ? stride * sizeof(float) : w_stride;
    for (size_t c = 0; scratch && c < p->cols; c++) widen(t, &scratch[c * stride], &w[c * w_stride], i, p->n);
}

/* Columns from w on, of a block of rows of x: all of k, a chunk after another.  n_next columns come behind.
 * scratch: NULL where the weights are met as they stand. */
INLINE void group(packed t, piece p, const uint8_t *w, size_t w_stride, size_t k, size_t n_next,
                  float *scratch) {
    const float   *x = p.x;
    const uint8_t *behind = n_next ? &w[GROUP * w_stride] : w;
    const size_t   chunk = chunk_of(k, t.elements > W ? t.elements : W);
    const size_t   stride = (chunk < k ? chunk : k) + PH_LINEAR_SCRATCH_GAP;
    size_t         i = 0;
    p.next_step = t.bytes * W * FRACTION / t.elements;
    p.next_stride = w_stride;
    do {
        p.is_first = !i;
        p.is_last = k - i <= chunk;
        p.n = p.is_last ? k - i : chunk;
        p.x = &x[i];
        p.next = p.is_last ? behind : &w[(i + chunk) / t.elements * t.bytes];
        p.n_next = p.is_last ? n_next : p.cols;
        set_weights(t, &p, w, w_stride, i, stride, scratch);
        multiply(&p);
    } while ((i += chunk) < k);
}

INLINE void linear(packed t, float *y, size_t y_stride, const float *x, size_t x_stride, const uint8_t *w,
                   size_t w_stride, size_t rows, size_t cols, size_t k, float *scratch) {
    if (rows == 1) {
        size_t c = 0;
        for (; c + STREAM <= cols; c += STREAM) stream(t, STREAM, &y[c], x, &w[c * w_stride], w_stride, k);
        for (; c < cols; c++) stream(t, 1, &y[c], x, &w[c * w_stride], w_stride, k);
        return;
    }
    vf           sums[BLOCK_ROWS][GROUP];
    const size_t block = rows_at_once(rows, k);
    for (size_t r = 0; r < rows; r += block)
        for (size_t c = 0; c < cols; c += GROUP) {
            const uint8_t *from = &w[c * w_stride];
            const size_t   left = cols - c, own = left < GROUP ? left : GROUP;
            const int      is_kept = t.is_f32 && !(rows >= ROWS_MANY && lies_badly(from, w_stride));
            const piece    p = {.y = &y[r * y_stride + c],
                                .x = &x[r * x_stride],
                                .y_stride = y_stride,
                                .x_stride = x_stride,
                                .rows = rows - r < block ? rows - r : block,
                                .cols = own,
                                .sums = sums};
            group(t, p, from, w_stride, k, left - own < GROUP ? left - own : GROUP, is_kept ? NULL : scratch);
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
