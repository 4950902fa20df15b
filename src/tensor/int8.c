/* int8.c - floats to bytes under one scale.  See int8.h. */
#include "tensor/int8.h"

#include <math.h>

/* The whole number nearest to v within [low, high]; NaN is the one nearest to 0. */
static int whole(float v, int low, int high) {
    float r = isnan(v) ? 0 : rintf(v);
    return r <= (float)low ? low : r >= (float)high ? high : (int)r;
}

/* A scale that can be divided by. */
static float usable(float scale) {
    return scale > 0 ? scale : 1;
}

float ph_int8_scale(const float *x, size_t n, int top) {
    float most = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    return usable(most / (float)top);
}

void ph_int8_symmetric(int8_t *q, float *scale, const float *x, size_t n, int top) {
    *scale = ph_int8_scale(x, n, top);
    for (size_t i = 0; i < n; i++) q[i] = (int8_t)whole(x[i] / *scale, -top, top);
}

void ph_int8_asymmetric(uint8_t *q, float *scale, uint8_t *zero, const float *x, size_t n) {
    float low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    *scale = usable((high - low) / 255);
    int z = whole(-low / *scale, 0, 255);
    *zero = (uint8_t)z;
    for (size_t i = 0; i < n; i++) q[i] = (uint8_t)(whole(x[i] / *scale, -z, 255 - z) + z);
}

int32_t ph_int8_dot(const int8_t *a, const int8_t *b, size_t n) {
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
