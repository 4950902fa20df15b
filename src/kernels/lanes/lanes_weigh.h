/* lanes_weigh.h - what all attention has in common, whatever keys and values are stored as: strips of
 * queries; scores of a block of keys become weights, and each query's softmax moves on.
 */
#ifndef PH_KERNELS_LANES_LANES_WEIGH_H
#define PH_KERNELS_LANES_LANES_WEIGH_H

#include "kernels/lanes/lanes_math.h"

/* Queries that meet four vectors of keys by channel, or of values, where there are many: all registers. SOME:
 * those whose scores stand side by side. */
enum { MANY = TILE_COLS > 4 ? 6 : 3, SOME = 2 * MANY };

/* Queries of a strip that share a key's loads. */
enum { QUERIES = TILE_COLS > 4 ? 4 : 2 };

/* The next strip's queries when `left` are left: few of one or two.  is_plain: no blocks. */
INLINE size_t strip_queries(int is_plain, size_t left) {
    if (is_plain && MANY == 6 && left >= 6 && left != 7 && left != 8 && left != 11) return 6;
    if (QUERIES == 4 && left >= 4) return 4;
    if ((QUERIES == 4 || is_plain) && left >= 3 && !(QUERIES == 2 && left == 4)) return 3;
    return left >= 2 ? 2 : 1;
}

/* `step` with its number of queries a constant. */
#define BY_QUERIES(queries, step)                                                                            \
    if (queries == MANY)                                                                                     \
        step(MANY);                                                                                          \
    else if (queries == QUERIES)                                                                             \
        step(QUERIES);                                                                                       \
    else if (queries == 3)                                                                                   \
        step(3);                                                                                             \
    else if (queries == 2)                                                                                   \
        step(2);                                                                                             \
    else                                                                                                     \
        step(1)

/* Keys that one of the strip's queries sees, `from` in whole vectors where that can be; those that all see.
 */
typedef struct seen {
    size_t from, end, first, last;
} seen;

/* How many those are, in whole vectors. */
INLINE size_t keys_of(seen x) {
    return (x.end - x.from + W - 1) / W * W;
}

/* W scores from their products' sums: times a->scale, held below a->softcap where there is one. */
INLINE vf score_of(const ph_attend *a, vf sum, vf scale_by, vf cap) {
    vf v = v_mul(sum, scale_by);
    return a->softcap > 0 ? v_mul(cap, v_tanh(v_div(v, cap))) : v;
}

INLINE int sees(const ph_attend *a, size_t i) {
    return a->hi[i] > a->lo[i];
}

INLINE void times(float *x, float by, size_t n) {
    size_t i = 0;
    for (; i + W <= n; i += W) v_store(&x[i], v_mul(v_load(&x[i]), v_set1(by)));
    if (i < n) v_store_n(&x[i], v_mul(v_load_n(&x[i], n - i), v_set1(by)), n - i);
}

/* The largest of n scores from key `from` on, whole vectors; -inf stands where query i sees none. */
INLINE float largest_seen(const ph_attend *a, size_t i, float *s, size_t from, size_t n) {
    size_t lo = (size_t)a->lo[i] - from, hi = (size_t)a->hi[i] - from;
    vf     most = v_set1(-INFINITY);
    for (size_t j = 0; j < lo; j++) s[j] = -INFINITY;
    for (size_t j = hi; j < n; j++) s[j] = -INFINITY;
    for (size_t j = 0; j < n; j += W) most = v_maxnum(v_load(&s[j]), most);
    return v_largest(most);
}

/* n scores become weights e^(s - base), in place; returns their sum, lane by lane. */
typedef vf weights_fn(float *s, float base, size_t n);

INLINE vf weights_of(float *s, float base, size_t n) {
    vf sum = v_zero();
    for (size_t j = 0; j < n; j += W) {
        vf p = v_exp(v_sub(v_load(&s[j]), v_set1(base)));
        p = v_pick(v_less(p, v_set1(FLT_MIN)), v_zero(),
                   p); /* subnormals stop the pipeline, and weigh nothing */
        sum = v_add(sum, p);
        v_store(&s[j], p);
    }
    return sum;
}

/* All masked so far: any finite reference gives weights of zero (and lets a NaN through). */
INLINE float base_of(float top) {
    return top > -INFINITY ? top : 0.0f;
}

/* Query i's m and l move on, and its answer so far is scaled. */
INLINE void move_on(const ph_attend *a, size_t i, float top, float sum) {
    if (top != a->m[i]) {
        float keep = first_lane(v_exp(v_set1(a->m[i] - base_of(top))));
        times(&a->acc[i * a->dv], keep, a->dv);
        a->l[i] *= keep;
        a->m[i] = top;
    }
    a->l[i] += sum;
}

/* Scores s of queries [i, i + n), `stride` apart, which see keys of x[c], become weights by `weights` (a
 * constant), zero for keys that a query does not see.  One that sees none of them stays as it is.  Each pass
 * asks nothing of the query before, so several are on their way at a time. */
INLINE void weigh(const ph_attend *a, size_t i, size_t n, float *s, size_t stride, const seen *x,
                  weights_fn *weights) {
    float top[SOME], sum[(SOME + W - 1) / W * W];
    vf    sums[SOME + W];
    for (size_t c = 0; c < n; c++) {
        if (!sees(a, i + c)) continue;
        float here = largest_seen(a, i + c, &s[c * stride], x[c].from, keys_of(x[c]));
        top[c] = here > a->m[i + c] ? here : a->m[i + c];
    }
    for (size_t c = 0; c < n; c++)
        sums[c] = sees(a, i + c) ? weights(&s[c * stride], base_of(top[c]), keys_of(x[c])) : v_zero();
    for (size_t c = n; c < n + W; c++) sums[c] = v_zero();
    for (size_t c = 0; c < n; c += W) v_store(&sum[c], v_sums(&sums[c]));
    for (size_t c = 0; c < n; c++)
        if (sees(a, i + c)) move_on(a, i + c, top[c], sum[c]);
}

#endif
