/* lanes_norm.h - RMSNorm, LayerNorm, softmax, gate.  Sums over a row run in double: they cost little
 * beside the memory traffic, and a row of large numbers cannot overflow its own square. */
#ifndef PH_KERNELS_LANES_LANES_NORM_H
#define PH_KERNELS_LANES_LANES_NORM_H

#include "kernels/lanes/lanes_math.h"
#include "kernels/lanes/lanes_move.h"

INLINE vd squares(const float *x, size_t n) {
    size_t i = 0;
    vd     sum = vd_zero();
    for (; i + W <= n; i += W) sum = vd_add_square(sum, v_load(&x[i]));
    return i < n ? vd_add_square(sum, v_load_n(&x[i], n - i)) : sum;
}

INLINE float rms_factor(const float *x, size_t n, float eps) {
    return (float)(1.0 / sqrt(vd_sum(squares(x, n)) / (double)n + (double)eps));
}

static void rmsnorm(float *restrict y, const float *restrict x, const float *restrict g, size_t rows,
                    size_t n, float eps, float g_add) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        size_t i = 0;
        vf     by = v_set1(rms_factor(x, n, eps)), more = v_set1(g_add);
        for (; i + W <= n; i += W)
            v_store(&y[i], v_mul(v_mul(v_load(&x[i]), by), v_add(v_load(&g[i]), more)));
        if (i < n) {
            vf v = v_mul(v_load_n(&x[i], n - i), by);
            v_store_n(&y[i], v_mul(v, v_add(v_load_n(&g[i], n - i), more)), n - i);
        }
    }
}

/* ---- the same of a head, which is then rotated: no normalised number is stored ---- */

/* is_raw: `more` is still to be added to g. */
typedef struct head {
    const float *x, *g;
    vf           by, more;
    int          is_raw;
} head;
INLINE vf normed_by(const head *h, vf x, vf g) {
    return v_mul(v_mul(x, h->by), h->is_raw ? v_add(g, h->more) : g);
}
INLINE vf normed(const head *h, size_t i) {
    return normed_by(h, v_load(&h->x[i]), v_load(&h->g[i]));
}
INLINE vf normed_n(const head *h, size_t i, size_t n) {
    return normed_by(h, v_load_n(&h->x[i], n), v_load_n(&h->g[i], n));
}

INLINE void norm_halves(float *y, const head *h, const float *c, const float *s, size_t half) {
    size_t i = 0, n;
    for (; i + W <= half; i += W) {
        vf p = normed(h, i), q = normed(h, half + i), cv = v_load(&c[i]), sv = v_load(&s[i]);
        v_store(&y[i], v_sub(v_mul(p, cv), v_mul(q, sv)));
        v_store(&y[half + i], v_add(v_mul(q, cv), v_mul(p, sv)));
    }
    if (!(n = half - i)) return;
    vf p = normed_n(h, i, n), q = normed_n(h, half + i, n), cv = v_load_n(&c[i], n), sv = v_load_n(&s[i], n);
    v_store_n(&y[i], v_sub(v_mul(p, cv), v_mul(q, sv)), n);
    v_store_n(&y[half + i], v_add(v_mul(q, cv), v_mul(p, sv)), n);
}

INLINE void norm_pairs(float *y, const head *h, const float *c, const float *s, size_t half) {
    float  ct[W / 2] = {0}, st[W / 2] = {0};
    size_t i = 0, rest;
    for (; i + W / 2 <= half; i += W / 2) v_store(&y[2 * i], turn_pairs(normed(h, 2 * i), &c[i], &s[i]));
    if (!(rest = half - i)) return;
    memcpy(ct, &c[i], rest * sizeof *ct);
    memcpy(st, &s[i], rest * sizeof *st);
    v_store_n(&y[2 * i], turn_pairs(normed_n(h, 2 * i, 2 * rest), ct, st), 2 * rest);
}

INLINE void norm_head(float *y, const head *h, const float *cos, const float *sin, size_t d, size_t half,
                      int interleaved) {
    size_t i = 2 * half;
    if (interleaved)
        norm_pairs(y, h, cos, sin, half);
    else
        norm_halves(y, h, cos, sin, half);
    for (; i + W <= d; i += W) v_store(&y[i], normed(h, i));
    if (i < d) v_store_n(&y[i], normed_n(h, i, d - i), d - i);
}

/* Factors of W heads first, whose roots and quotients are vectors: of one head they take longer than all
 * else, and wait for each other. */
INLINE void norm_heads(float *y, head h, const float *cos, const float *sin, size_t heads, size_t d,
                       size_t half, int interleaved, float eps) {
    const float *x = h.x;
    for (size_t k = 0; k < heads; k += W) {
        size_t some = heads - k < W ? heads - k : W;
        vd     sum[W];
        float  by[W];
        for (size_t i = 0; i < some; i++) sum[i] = squares(&x[(k + i) * d], d);
        for (size_t i = some; i < W; i++) sum[i] = vd_zero();
        v_store(by, v_rms(sum, (double)d, (double)eps));
        for (size_t i = 0; i < some; i++) {
            h.x = &x[(k + i) * d];
            h.by = v_set1(by[i]);
            norm_head(&y[(k + i) * d], &h, cos, sin, d, half, interleaved);
        }
    }
}

/* Gains of heads that are not too deep are made ready once. */
static void rmsnorm_rope(float *y, const float *x, const float *g, const float *cos, const float *sin,
                         size_t heads, size_t d, size_t half, int interleaved, float eps, float g_add) {
    enum { READY = 256 };
    float more[READY + W];
    head  h = {.x = x, .g = g, .more = v_set1(g_add), .is_raw = 1};
    if (d > READY) {
        norm_heads(y, h, cos, sin, heads, d, half, interleaved, eps);
        return;
    }
    for (size_t i = 0; i < d; i += W)
        v_store(&more[i], v_add(d - i < W ? v_load_n(&g[i], d - i) : v_load(&g[i]), h.more));
    h.g = more;
    h.is_raw = 0;
    if (interleaved)
        norm_heads(y, h, cos, sin, heads, d, half, 1, eps);
    else
        norm_heads(y, h, cos, sin, heads, d, half, 0, eps);
}

/* x minus a mean that is given in two floats: the first difference is exact where it matters. */
INLINE vf centred(vf x, vf mean, vf mean_rest) {
    return v_sub(v_sub(x, mean), mean_rest);
}

static void layernorm(float *restrict y, const float *restrict x, const float *restrict g,
                      const float *restrict b, size_t rows, size_t n, float eps) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        size_t i = 0, rest = n % W;
        vd     sum = vd_zero(), square = vd_zero();
        for (; i + W <= n; i += W) sum = vd_add(sum, v_load(&x[i]));
        if (rest) sum = vd_add(sum, v_load_n(&x[i], rest));
        double exact = vd_sum(sum) / (double)n;
        vf     mean = v_set1((float)exact), mean_rest = v_set1((float)(exact - (double)(float)exact));
        for (i = 0; i + W <= n; i += W)
            square = vd_add_square(square, centred(v_load(&x[i]), mean, mean_rest));
        if (rest) { /* the lanes beyond the row must add nothing */
            float t[W] = {0};
            v_store_n(t, centred(v_load_n(&x[i], rest), mean, mean_rest), rest);
            square = vd_add_square(square, v_load(t));
        }
        vf by = v_set1((float)(1.0 / sqrt(vd_sum(square) / (double)n + (double)eps)));
        for (i = 0; i + W <= n; i += W) {
            vf v = v_mul(centred(v_load(&x[i]), mean, mean_rest), by);
            v_store(&y[i], v_fma(v, v_load(&g[i]), b ? v_load(&b[i]) : v_zero()));
        }
        if (rest) {
            vf v = v_mul(centred(v_load_n(&x[i], rest), mean, mean_rest), by);
            vf plus = b ? v_load_n(&b[i], rest) : v_zero();
            v_store_n(&y[i], v_fma(v, v_load_n(&g[i], rest), plus), rest);
        }
    }
}

static float largest(const float *x, size_t n) { /* -inf if there is none; NaN is ignored */
    size_t i = 0;
    vf     most = v_set1(-INFINITY);
    for (; i + W <= n; i += W) most = v_maxnum(v_load(&x[i]), most);
    float best = v_largest(most);
    for (; i < n; i++) best = x[i] > best ? x[i] : best;
    return best;
}

static void softmax(float *y, const float *x, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        size_t i = 0, rest = n % W;
        float  most = largest(x, n);
        /* A row of -inf only: measured from 0 its terms are all 0, and so is the sum. */
        vf base = v_set1(most > -INFINITY ? most : 0.0f);
        vd sum = vd_zero();
        for (; i + W <= n; i += W) {
            vf e = v_exp(v_sub(v_load(&x[i]), base));
            sum = vd_add(sum, e);
            v_store(&y[i], e);
        }
        if (rest) {
            v_store_n(&y[i], v_exp(v_sub(v_load_n(&x[i], rest), base)), rest);
            sum = vd_add(sum, v_load_n(&y[i], rest));
        }
        double total = vd_sum(sum);
        vf     by = v_set1(total == 0.0 ? 0.0f : (float)(1.0 / total));
        for (i = 0; i + W <= n; i += W) v_store(&y[i], v_mul(v_load(&y[i]), by));
        if (rest) v_store_n(&y[i], v_mul(v_load_n(&y[i], rest), by), rest);
    }
}

/* Number i of `rows` <= W rows, lanes are rows; i NULL: each row's own. */
INLINE vf gate_column(const float *x, const float *bias, const int32_t *pick, size_t i, size_t rows,
                      size_t n) {
    float t[W] = {0};
    for (size_t r = 0; r < rows; r++) {
        size_t at = pick ? (size_t)pick[r] : i;
        t[r] = x[r * n + at] - (bias ? bias[at] : 0.0f);
    }
    return v_load(t);
}

/* Rows are a few numbers long: W of them go together, so that exp has no empty lanes. */
static void gate_pick(float *restrict y, const float *restrict x, const float *restrict bias,
                      const int32_t *restrict pick, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r += W, x += W * n) {
        size_t some = rows - r < W ? rows - r : W;
        vf     most = v_set1(-INFINITY), sum = v_zero();
        for (size_t i = 0; i < n; i++) most = v_maxnum(gate_column(x, bias, NULL, i, some, n), most);
        vf base = v_pick(v_less(v_set1(-INFINITY), most), most, v_zero());
        for (size_t i = 0; i < n; i++)
            sum = v_add(sum, v_exp(v_sub(gate_column(x, bias, NULL, i, some, n), base)));
        vf own = v_div(v_exp(v_sub(gate_column(x, bias, &pick[r], 0, some, n), base)), sum);
        /* The largest alone adds 1: a smaller sum is that of a row of -inf only.  NaN stays. */
        v_store_n(&y[r], v_pick(v_less(sum, v_set1(0.5f)), v_zero(), own), some);
    }
}

#endif
