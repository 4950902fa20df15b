/* ternary.h - how TQ1_0 and TQ2_0 reach their three levels: one scale for 256 numbers, each -1, 0 or 1 of it.
 *
 * The scale is the largest magnitude, as the format's reference has it: good for
 * weights that were trained on three levels, coarse for any other.
 */
#ifndef PH_TENSOR_TERNARY_H
#define PH_TENSOR_TERNARY_H

#include <math.h>
#include <stddef.h>

/* The largest magnitude of x[n]; NaN does not count. */
static inline float ph_ternary_scale(const float *x, size_t n) {
    float most = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    return most;
}

/* 0, 1 or 2 for the level -1, 0 or 1; by_scale is 1 / scale, or 0.  Halves go outwards, NaN is 0. */
static inline unsigned ph_ternary_of(float x, float by_scale) {
    float v = x * by_scale;
    return v >= 0.5f ? 2 : v <= -0.5f ? 0 : 1;
}

#endif
