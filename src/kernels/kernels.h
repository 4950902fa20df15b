/* kernels.h - the arithmetic, behind one struct of function pointers.
 *
 * A ph_kernels is plain data: build one with every instruction set the CPU
 * has, or with fewer to compare.  There is no global table; whoever computes
 * is handed a const ph_kernels *.
 *
 * Contract of every kernel: one thread; sizes are in elements, strides too
 * unless a name says bytes; pointers need only their type's natural alignment
 * (linear weights: one byte); outputs never overlap inputs except where
 * a line says "may be in place"; nothing is read or written outside the stated
 * shapes; no allocation, no failure.  A size of 0 is allowed and does nothing.
 *
 * Determinism: an output element depends only on the inputs named in its
 * formula - never on how many rows or columns one call asks for, nor on where a
 * tile begins.  So a caller may split rows and columns as it likes and gets
 * the same bits (of a NaN only that it is one).  Reduction order along k is
 * fixed per instruction set.
 */
#ifndef PH_KERNELS_KERNELS_H
#define PH_KERNELS_KERNELS_H

#include "base/cpu.h"
#include "tensor/dtype.h"
#include "tensor/storage.h"

#include <stddef.h>
#include <stdint.h>

/* linear_T      y[r, c] = sum_k x[r, k] w[c, k]   r < rows, c < cols
 *               x: [rows, k] f32, row stride x_stride; y: [rows, cols] f32, row stride y_stride;
 *               w: [cols, k] stored as T, w_stride bytes from row to row; k a multiple of T's block.
 *               Weights are widened exactly, products and sums are f32.
 *               scratch: PH_LINEAR_SCRATCH(k) floats, private to the caller; linear_F32 accepts NULL.
 *               Error vs exact: at most 2 * k * FLT_EPSILON * sum |x w|. */
typedef void ph_linear_fn(float *restrict y, size_t y_stride, const float *restrict x, size_t x_stride,
                          const void *restrict w, size_t w_stride, size_t rows, size_t cols, size_t k,
                          float *restrict scratch);
#define PH_LINEAR_SCRATCH_ROWS 8
#define PH_LINEAR_SCRATCH_GAP  16 /* between rows, which else begin in the same places of the cache */
#define PH_LINEAR_SCRATCH(k)   (PH_LINEAR_SCRATCH_ROWS * ((size_t)(k) + PH_LINEAR_SCRATCH_GAP))

/* qrows_of      rows of x to integers, block elements a scale (32, or the whole row): 16 bits in two planes
 *               of 8, or, where lo is NULL, 8 bits in one:
 *                   d = max |x| / 32512,  q = round(x (32512 / max |x|)),  q = 256 hi + lo,  lo in -128 .. 127
 *                   d = max |x| / 127,    q = round(x (127 / max |x|)),    q = hi
 *               each step rounded to nearest even.
 *               s = the sums of q over each half of a block.
 *               A block with a NaN or an infinity gets d = NaN, q = 0; one whose largest is below 2^-110
 *               becomes 0.  k is a multiple of 32, at most PH_QROW_MAX where a row is a block.
 *               Eight bits do for large models and spoil small ones; the second plane costs little where
 *               reading the weights is what takes time, and half of the speed where multiplying is.
 * dot_T         y[r, c] = sum_k x[r, k] w[c, k] by integers, x in blocks of 32: within 32 elements (16 for
 *               Q6_K) the products of q and the stored integers are summed exactly; then, block by block
 *               along k, with one rounding each:
 *                   y = fma(d_w * d_x, (float)sum, y);   types with a minimum m:  y = fma(m, d_x * s, y).
 * dot_I8        x with a row for a block, w plain bytes, whose scales are the caller's business:
 *                   y = d_x * fma(256, (float)sum of hi w, (float)sum of lo w);   8 bits: d_x * (float)sum.
 *               Every instruction set gives the same bits.  k a multiple of T's block, and of 32.
 *               scratch: PH_DOT_SCRATCH(k) bytes, 64-byte aligned, private to the caller. */
struct ph_kernels;
#define PH_QROW_MAX 65536
typedef struct ph_qrows {
    int8_t  *hi, *lo; /* [rows, k]; lo NULL: rows of 8 bits */
    float   *d;       /* [rows, k / block] */
    int32_t *s;       /* [rows, k / block, 2] */
    size_t   k, block;
} ph_qrows;
typedef void ph_dot_fn(float *restrict y, size_t y_stride, const ph_qrows *restrict x, const void *restrict w,
                       size_t w_stride, size_t rows, size_t cols, void *restrict scratch);
/* Sixteen or thirty-two columns of k elements, or a chunk of k of 128 columns. */
#define PH_DOT_SCRATCH(k) (48 * (size_t)(k) + 4096 > 112640 ? 48 * (size_t)(k) + 4096 : 112640)
/* The product by integers for weights stored as t; NULL where this instruction set has none that is fast. */
ph_dot_fn *ph_dot_of(const struct ph_kernels *k, ph_dtype t);
/* The same for rows of cols elements of s: blocks, or signed bytes with one scale a row (both from row
 * s->first on). */
ph_dot_fn *ph_dot_of_stored(const struct ph_kernels *k, const ph_storage *s, size_t cols);
/* The elements of a scale that rows for dot_T have: 32, or all k. */
size_t ph_dot_block(ph_dtype t, size_t k);
/* Bytes of a ph_qrows's planes (one or two, of 8 bits), each rounded up to 64; and the same placed in memory
 * that large, 64-byte aligned.  ph_qrows_from: the rows from r on. */
size_t   ph_qrows_bytes(size_t rows, size_t k, int planes, size_t block);
ph_qrows ph_qrows_in(void *memory, size_t rows, size_t k, int planes, size_t block);
ph_qrows ph_qrows_from(const ph_qrows *x, size_t r);

/* attend_T      one step of online softmax (Milakov and Gimelshein, arXiv:1805.02867) over a block of keys:
 *               for each query i < n_q and key j in [lo[i], hi[i]):
 *                   s = scale * q[i] . k[j];  if (softcap > 0) s = softcap * tanh(s / softcap)
 *                   (m, l, acc)[i] absorb (s, v[j])
 *               q: [n_q, d] stride q_stride; k: [d, 64] stride k_stride, all 64 keys readable whatever lo and
 *               hi are (keys by channel); v: [.., dv] stride v_stride, stored as T; m, l: [n_q]; acc: [n_q, dv],
 *               packed.  Q8_0 alone has its keys as rows: k: [.., d] stride k_stride.  Strides are multiples of
 *               T's block; a row's last block is whole in memory: what stands behind the row is read, meets
 *               nothing, and is finite where the row is.
 *               Stored numbers are widened with at most one rounding.
 *               Start with m = -INFINITY, l = 0, acc = 0; the answer is acc / l after the last block (l = 0:
 *               no key was seen).  Block borders change the last bits, so callers keep them fixed (64 keys).
 *               A query with hi[i] <= lo[i] is left as it was; otherwise 0 <= lo[i] < hi[i] <= PH_ATTEND_KEYS.
 *               A key whose score is -inf weighs 0, also before any other was seen, and so does one whose
 *               weight e^(s - m) would be below FLT_MIN; NaN passes into l and acc.
 *               Error of acc / l: at most (d + 64) * FLT_EPSILON * (1 + max_j sum |scale q k_j|) *
 *               max_j |v_j|.
 * attend_rows   attend_F32 with k: [.., d] stride k_stride; keys [lo, hi) are laid out by channel first, once
 *               for all queries.  The same bits.
 *               keys: d * PH_ATTEND_KEYS floats, private to the caller.
 * attend_rounded   attend_rows of q, k, v and weights e^(s - m) that are rounded to bfloat16 (nearest even; subnormal
 *               numbers may become 0), with sums in f32; l sums weights that are not rounded.  lo and hi are the same
 *               for all queries, and hi may be anything: of many keys it makes blocks of its own, from lo on, by
 *               d and dv alone.  d is at most PH_ATTEND_ROUNDED_D.
 *               keys: PH_ATTEND_ROUNDED_FLOATS(n_q, d, dv) floats, private to the caller.
 *               Error of acc / l: at most 2^-7 * (1 + max_j sum |scale q k_j|) * max_j |v_j|; where q, k and v are
 *               bfloat16 already, 2^-8 max_j |v_j| more than that of attend_rows. */
#define PH_ATTEND_KEYS      64
#define PH_ATTEND_ROUNDED_D 256
#define PH_ATTEND_ROUNDED_FLOATS(n_q, d, dv)                                                                 \
    (PH_ATTEND_KEYS * ((size_t)(d) + (size_t)(dv) + 16 + 24) + (size_t)(n_q) * ((size_t)(d) / 2 + 16))
typedef struct ph_attend {
    float         *acc, *m, *l;
    const float   *q;
    const void    *k, *v;
    const int32_t *lo, *hi; /* [n_q], keys of k and v, 0 .. PH_ATTEND_KEYS (attend_rounded: any) */
    size_t         q_stride, k_stride, v_stride, n_q, d, dv;
    float          scale, softcap;
    float         *scratch; /* [n_q, PH_ATTEND_KEYS] */
    float         *keys;    /* [d, PH_ATTEND_KEYS] of attend_rows; of attend_rounded: see there */
    const void    *next; /* what is met after this block: called for meanwhile, where there are bytes of it */
    size_t         v_bytes, next_bytes; /* of v, where it stands in one piece, else 0; of next */
} ph_attend;
typedef void ph_attend_fn(const ph_attend *a);
/* attend_rounded where this instruction set has one that is fast, else NULL. */
ph_attend_fn *ph_attend_rounded_of(const struct ph_kernels *k);
/* attend_T for keys and values stored as t; NULL: there is none, no cache can be of that type. */
ph_attend_fn *ph_attend_of(const struct ph_kernels *k, ph_dtype t);

/* rmsnorm       y = x / sqrt(mean(x^2) + eps) * (g + g_add)    per row of n; g_add is 0 or 1 (Gemma)
 * layernorm     y = (x - mean) / sqrt(var + eps) * g + b       per row of n; b may be NULL
 *               Sums run in double, so x^2 may be as large as FLT_MAX^2.
 *               Error: at most 8 * FLT_EPSILON * (|the normalised x| * |g| + |b|).
 * sigmoid, tanh elementwise, may be in place
 *               Error: at most 4 * FLT_EPSILON * |y|.
 * silu, gelu, gelu_tanh, gelu_quick    elementwise, may be in place
 *               y = x phi(x); gelu: phi = (1 + erf(x / sqrt 2)) / 2; gelu_tanh: its tanh form;
 *               silu: phi = sigmoid(x); gelu_quick: phi = sigmoid(1.702 x).
 *               Error: at most 4 * FLT_EPSILON * |x|; the limits at +-inf are exact.
 * relu, add, mul, scale (y = a x)      elementwise, may be in place; correctly rounded
 * add_row       y[r, :] = x[r, :] + b[:]                       may be in place; correctly rounded
 * softmax       per row of n, may be in place; a row of -inf only gives zeros, one with NaN or +inf NaNs
 *               Error: at most 2 * FLT_EPSILON * (4 + max x - x[i]) * y[i].
 * gate          one number of each row's softmax: y[r] = softmax(x[r, :] - bias)[pick[r]]
 *               x: [rows, n]; bias: [n] or NULL; pick: [rows], 0 .. n-1.  Rows of -inf, NaN and +inf as above.
 *               Error: at most 4 * FLT_EPSILON * (4 + n + max |x - bias|) * y[r].
 * rope          rotate pairs of x[heads, d] (first 2*half elements of each head) by cos, sin [half];
 *               interleaved: pairs (2i, 2i+1), else (i, i + half).  In place.
 *               Error: at most 2 * FLT_EPSILON * (|a cos| + |b sin|).
 * rmsnorm_rope  rmsnorm of each head of x[heads, d] by g[d], then rope, to y[heads, d], which may be x.
 *               The bits of the two apart.
 * argmax        index of the first largest of x[n]; NaN never wins; 0 if there is nothing but NaN
 * f16_of, f32_of_f16   convert n elements, round to nearest even; NaN stays NaN
 *
 * All bounds plus FLT_MIN: what lies below it may become 0. */
typedef struct ph_kernels {
#define PH_KERNEL(name, args) void(*name) args;
#include "kernels/kernels.def"
#undef PH_KERNEL
} ph_kernels;

/* Fill *k with the best kernel of each kind that `features` allows.  Passing
 * ph_cpu_features() & mask disables what the mask leaves out. */
void ph_kernels_init(ph_kernels *k, unsigned features);

/* The features to use: the CPU's, cut down by the PINHOLE_ISA value `force` ("ref", "avx2", ...; NULL: all).
 * Errors: PH_EUSAGE no such instruction set (lists them); PH_EMACHINE this CPU lacks it. */
ph_rc ph_kernels_features(const char *force, unsigned *out, ph_err *err);

/* Instruction set i of this kind of processor, slowest first, NULL past the last; whether `features` has it.
 */
const char *ph_kernels_isa_at(size_t i, unsigned features, int *is_used);

/* Name of the best instruction set in `features`: "avx512". */
const char *ph_kernels_isa(unsigned features);

/* The product for weights stored as t: the type's own kernel, or the generic one that unpacks
 * PH_LINEAR_SCRATCH_ROWS rows at a time (every type that has `unpack` works at once). */
typedef struct ph_linear {
    ph_linear_fn *fn; /* NULL: use generic */
    ph_dtype      dtype;
} ph_linear;
ph_linear ph_linear_of(const ph_kernels *k, ph_dtype t);
void      ph_linear_run(const ph_kernels *k, ph_linear l, float *y, size_t y_stride, const float *x,
                        size_t x_stride, const void *w, size_t w_stride, size_t rows, size_t cols, size_t cols_k,
                        float *scratch);
/* The same for weights in any storage: rows [first, first + cols) of s, unpacked a few at a time. */
void ph_linear_run_stored(const ph_kernels *k, const ph_storage *s, size_t first, float *y, size_t y_stride,
                          const float *x, size_t x_stride, size_t rows, size_t cols, size_t n,
                          float *scratch);

#endif
