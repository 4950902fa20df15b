/* ref_norm.c - RMSNorm (arXiv:1910.07467), LayerNorm (arXiv:1607.06450) softmax and one number of it,
 * a row at a time. */
#include "kernels/ref/ref.h"

#include <math.h>

void ph_ref_rmsnorm(float *restrict y, const float *restrict x, const float *restrict g, size_t rows,
                    size_t n, float eps, float g_add) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
        double inv = 1.0 / sqrt(sum / (double)n + (double)eps);
        for (size_t i = 0; i < n; i++) y[i] = (float)((double)x[i] * inv * ((double)g[i] + (double)g_add));
    }
}

void ph_ref_layernorm(float *restrict y, const float *restrict x, const float *restrict g,
                      const float *restrict b, size_t rows, size_t n, float eps) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        double sum = 0, square = 0;
        for (size_t i = 0; i < n; i++) sum += (double)x[i];
        double mean = sum / (double)n;
        for (size_t i = 0; i < n; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean);
        double inv = 1.0 / sqrt(square / (double)n + (double)eps);
        for (size_t i = 0; i < n; i++)
            y[i] = (float)(((double)x[i] - mean) * inv * (double)g[i] + (b ? (double)b[i] : 0.0));
    }
}

void ph_ref_softmax(float *y, const float *x, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        float  most = -INFINITY;
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            if (x[i] > most) most = x[i];
        /* A row of -inf only: measured from 0 its terms are all 0, and so is the sum. */
        double base = most > -INFINITY ? (double)most : 0.0;
        for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - base);
        for (size_t i = 0; i < n; i++) y[i] = (float)(sum == 0.0 ? 0.0 : exp((double)x[i] - base) / sum);
    }
}

void ph_ref_gate(float *restrict y, const float *restrict x, const float *restrict bias,
                 const int32_t *restrict pick, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++, x += n) {
        double most = -INFINITY, sum = 0;
        for (size_t i = 0; i < n; i++) {
            double s = (double)x[i] - (bias ? (double)bias[i] : 0);
            if (s > most) most = s;
        }
        double base = most > -INFINITY ? most : 0.0;
        for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - (bias ? (double)bias[i] : 0) - base);
        size_t own = (size_t)pick[r];
        double e = exp((double)x[own] - (bias ? (double)bias[own] : 0) - base);
        y[r] = (float)(sum == 0.0 ? 0.0 : e / sum);
    }
}
