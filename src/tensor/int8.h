/* int8.h - floats to bytes under one scale: weights by matrix, row or group, activations by row.
 *
 * The caller says what stands under one scale by the run of numbers it passes.
 * Rounding is to nearest, ties to even; all is reckoned in 32 bits, so that the
 * same numbers give the same bytes everywhere.  Hostile values (NaN, infinities)
 * give some bytes, never undefined behaviour.
 *
 * Source: arXiv:1712.05877 (asymmetric); arXiv:2206.01861 (rows of activations).
 */
#ifndef PH_TENSOR_INT8_H
#define PH_TENSOR_INT8_H

#include <stddef.h>
#include <stdint.h>

enum { PH_INT8_TOP = 127 /* the largest level of 8 bits, on both sides of 0 */ };

/* x[n] ~ scale * q, q from -top to top (PH_INT8_TOP for 8 bits, 7 for 4): scale = max |x| / top, or 1 where
 * all are 0. */
float ph_int8_scale(const float *x, size_t n, int top);
void  ph_int8_symmetric(int8_t *q, float *scale, const float *x, size_t n, int top);

/* x[n] ~ scale * (q - zero), q from 0 to 255 over the range of x and 0, so that 0 is exact; a range of
 * nothing has the scale 1. */
void ph_int8_asymmetric(uint8_t *q, float *scale, uint8_t *zero, const float *x, size_t n);

/* sum of a[i] b[i]: exact, for n up to PH_INT8_DOT_MAX.  The product of an activation's row and a weight's is
 * (float)sum * the activation's scale * the weight's scale, in this order. */
enum { PH_INT8_DOT_MAX = INT32_MAX / (128 * 128) };
int32_t ph_int8_dot(const int8_t *a, const int8_t *b, size_t n);

#endif
