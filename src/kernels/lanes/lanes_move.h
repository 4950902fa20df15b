/* lanes_move.h - sums, products, rotation, the largest, f16 conversion. */
#ifndef PH_KERNELS_LANES_LANES_MOVE_H
#define PH_KERNELS_LANES_LANES_MOVE_H

static void add(float *y, const float *a, const float *b, size_t n) {
    size_t i = 0;
    for (; i + W <= n; i += W) v_store(&y[i], v_add(v_load(&a[i]), v_load(&b[i])));
    if (i < n) v_store_n(&y[i], v_add(v_load_n(&a[i], n - i), v_load_n(&b[i], n - i)), n - i);
}
static void mul(float *y, const float *a, const float *b, size_t n) {
    size_t i = 0;
    for (; i + W <= n; i += W) v_store(&y[i], v_mul(v_load(&a[i]), v_load(&b[i])));
    if (i < n) v_store_n(&y[i], v_mul(v_load_n(&a[i], n - i), v_load_n(&b[i], n - i)), n - i);
}
static void add_row(float *y, const float *x, const float *b, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++) add(&y[r * n], &x[r * n], b, n);
}
static void scale(float *y, const float *x, float a, size_t n) {
    size_t i = 0;
    vf     by = v_set1(a);
    for (; i + W <= n; i += W) v_store(&y[i], v_mul(by, v_load(&x[i])));
    if (i < n) v_store_n(&y[i], v_mul(by, v_load_n(&x[i], n - i)), n - i);
}

/* W floats are W / 2 pairs; cos and sin are one number a pair. */
INLINE vf turn_pairs(vf v, const float *c, const float *s) {
    return v_add(v_mul(v, v_twice(c)), v_negate_even(v_mul(v_swap(v), v_twice(s))));
}
static void rope_pairs(float *x, const float *c, const float *s, size_t half) {
    size_t i = 0, rest;
    for (; i + W / 2 <= half; i += W / 2) v_store(&x[2 * i], turn_pairs(v_load(&x[2 * i]), &c[i], &s[i]));
    rest = half - i;
    if (!rest) return;
    float ct[W / 2] = {0}, st[W / 2] = {0};
    memcpy(ct, &c[i], rest * sizeof *ct);
    memcpy(st, &s[i], rest * sizeof *st);
    v_store_n(&x[2 * i], turn_pairs(v_load_n(&x[2 * i], 2 * rest), ct, st), 2 * rest);
}
static void rope_halves(float *x, const float *c, const float *s, size_t half) {
    float *a = x, *b = &x[half];
    size_t i = 0;
    for (; i + W <= half; i += W) {
        vf p = v_load(&a[i]), q = v_load(&b[i]), cv = v_load(&c[i]), sv = v_load(&s[i]);
        v_store(&a[i], v_sub(v_mul(p, cv), v_mul(q, sv)));
        v_store(&b[i], v_add(v_mul(q, cv), v_mul(p, sv)));
    }
    if (i < half) {
        size_t n = half - i;
        vf p = v_load_n(&a[i], n), q = v_load_n(&b[i], n), cv = v_load_n(&c[i], n), sv = v_load_n(&s[i], n);
        v_store_n(&a[i], v_sub(v_mul(p, cv), v_mul(q, sv)), n);
        v_store_n(&b[i], v_add(v_mul(q, cv), v_mul(p, sv)), n);
    }
}
static void rope(float *x, const float *cos, const float *sin, size_t heads, size_t d, size_t half,
                 int interleaved) {
    for (size_t h = 0; h < heads; h++)
        if (interleaved)
            rope_pairs(&x[h * d], cos, sin, half);
        else
            rope_halves(&x[h * d], cos, sin, half);
}

/* Twice over x: the largest number, then the first place that holds it. */
static void argmax(size_t *out, const float *x, size_t n) {
    size_t i = 0;
    vf     most = v_set1(-INFINITY);
    for (; i + W <= n; i += W) most = v_maxnum(v_load(&x[i]), most);
    float best = v_largest(most);
    for (; i < n; i++) best = x[i] > best ? x[i] : best;
    most = v_set1(best);
    for (i = 0; i + W <= n && !v_any(v_same(v_load(&x[i]), most));) i += W;
    while (i < n && !(x[i] >= best)) i++;
    *out = i < n ? i : 0;
}

static void f16_of(uint16_t *restrict y, const float *restrict x, size_t n) {
    size_t i = 0;
    for (; i + W <= n; i += W) v_store_f16(&y[i], v_load(&x[i]));
    if (i < n) v_store_f16_n(&y[i], v_load_n(&x[i], n - i), n - i);
}
static void f32_of_f16(float *restrict y, const uint16_t *restrict x, size_t n) {
    size_t i = 0;
    for (; i + W <= n; i += W) v_store(&y[i], v_load_f16(&x[i]));
    if (i < n) v_store_n(&y[i], v_load_f16_n(&x[i], n - i), n - i);
}

#endif
