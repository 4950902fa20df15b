/* ref_linear.c - y = x W^T for every stored type: unpack a row, then a sum in double.
 *
 * What a stored byte means is said once, in tensor/; here a type is only its unpack.
 */
#include "kernels/ref/ref.h"

#include <string.h>

static float dot(const float *x, const float *w, size_t k) {
    double sum = 0;
    for (size_t i = 0; i < k; i++) sum += (double)x[i] * (double)w[i];
    return (float)sum;
}

static void linear(const ph_dtype_def *type, float *y, size_t y_stride, const float *x, size_t x_stride,
                   const unsigned char *w, size_t w_stride, size_t rows, size_t cols, size_t k, float *row) {
    for (size_t c = 0; c < cols; c++) {
        type->unpack(row, &w[c * w_stride], k);
        for (size_t r = 0; r < rows; r++) y[r * y_stride + c] = dot(&x[r * x_stride], row, k);
    }
}

/* Apart from the others, since it promises to need no scratch. */
void ph_ref_linear_F32(float *restrict y, size_t y_stride, const float *restrict x, size_t x_stride,
                       const void *restrict w, size_t w_stride, size_t rows, size_t cols, size_t k,
                       float *restrict scratch) {
    (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            const unsigned char *row = (const unsigned char *)w + c * w_stride;
            double               sum = 0;
            for (size_t i = 0; i < k; i++) {
                float v;
                memcpy(&v, row + i * sizeof v, sizeof v);
                sum += (double)x[r * x_stride + i] * (double)v;
            }
            y[r * y_stride + c] = (float)sum;
        }
}

#define LINEAR(T)                                                                                            \
    void ph_ref_linear_##T(float *restrict y, size_t y_stride, const float *restrict x, size_t x_stride,     \
                           const void *restrict w, size_t w_stride, size_t rows, size_t cols, size_t k,      \
                           float *restrict scratch) {                                                        \
        linear(&ph_dtype_##T, y, y_stride, x, x_stride, w, w_stride, rows, cols, k, scratch);                \
    }
LINEAR(F16)
LINEAR(BF16)
LINEAR(Q8_0)
LINEAR(Q4_0)
LINEAR(Q4_1)
LINEAR(Q4_K)
LINEAR(Q6_K)
