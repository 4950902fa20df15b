/* ref_move.c - sums, products, rotation, the largest, and f16 conversion (by the bits of tensor/half.h). */
#include "kernels/ref/ref.h"
#include "tensor/half.h"

#include <math.h>

void ph_ref_add(float *y, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}
void ph_ref_mul(float *y, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}
void ph_ref_add_row(float *y, const float *x, const float *b, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i++) y[r * n + i] = x[r * n + i] + b[i];
}
void ph_ref_scale(float *y, const float *x, float a, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = a * x[i];
}

/* Source: arXiv:2104.09864; both pairings are in use (GGUF llama: neighbours, Hugging Face: halves). */
void ph_ref_rope(float *x, const float *cos, const float *sin, size_t heads, size_t d, size_t half,
                 int interleaved) {
    for (size_t h = 0; h < heads; h++, x += d)
        for (size_t i = 0; i < half; i++) {
            float *p = interleaved ? &x[2 * i] : &x[i], *q = interleaved ? p + 1 : p + half;
            double a = (double)*p, b = (double)*q;
            *p = (float)(a * (double)cos[i] - b * (double)sin[i]);
            *q = (float)(b * (double)cos[i] + a * (double)sin[i]);
        }
}

void ph_ref_rmsnorm_rope(float *y, const float *x, const float *g, const float *cos, const float *sin,
                         size_t heads, size_t d, size_t half, int interleaved, float eps, float g_add) {
    for (size_t h = 0; h < heads; h++, x += d, y += d) {
        double sum = 0;
        for (size_t i = 0; i < d; i++) sum += (double)x[i] * (double)x[i];
        double inv = 1.0 / sqrt(sum / (double)d + (double)eps);
        for (size_t i = 0; i < d; i++) y[i] = (float)((double)x[i] * inv * ((double)g[i] + (double)g_add));
        ph_ref_rope(y, cos, sin, 1, d, half, interleaved);
    }
}

void ph_ref_argmax(size_t *out, const float *x, size_t n) {
    size_t best = n; /* none yet */
    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i]) && (best == n || x[i] > x[best])) best = i;
    *out = best == n ? 0 : best;
}

void ph_ref_f16_of(uint16_t *restrict y, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = ph_f32_to_f16(x[i]);
}
void ph_ref_f32_of_f16(float *restrict y, const uint16_t *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = ph_f16_to_f32(x[i]);
}
