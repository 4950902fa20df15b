/* ref_act.c - activations, in double, rounded once.
 *
 * Source: GELU arXiv:1606.08415 (exact, tanh and quick forms), SiLU arXiv:1702.03118.
 * x * 0 at x = -inf would be NaN; the limit is 0, so x is held at -FLT_MAX there.
 */
#include "kernels/ref/ref.h"

#include <float.h>
#include <math.h>

static double sigmoid(double x) {
    return x >= 0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x)); /* NaN takes the second way and stays */
}
static double gate(float x, double open) {
    return (double)(x < -FLT_MAX ? -FLT_MAX : x) * open;
}

static float silu(float x) {
    return (float)gate(x, sigmoid((double)x));
}
static float gelu(float x) {
    return (float)gate(x, 0.5 * erfc(-(double)x * 0.70710678118654752440));
}
static float gelu_tanh(float x) {
    double d = (double)x;
    return (float)gate(x, sigmoid(2.0 * 0.79788456080286535588 * (d + 0.044715 * d * d * d)));
}
static float gelu_quick(float x) {
    return (float)gate(x, sigmoid(1.702 * (double)x));
}
static float relu(float x) {
    return x < 0 ? 0.0f : x;
}

#define ELEMENTWISE(name, f)                                                                                 \
    void ph_ref_##name(float *y, const float *x, size_t n) {                                                 \
        for (size_t i = 0; i < n; i++) y[i] = f(x[i]);                                                       \
    }
static float sigmoid_f(float x) {
    return (float)sigmoid((double)x);
}
static float tanh_f(float x) {
    return (float)tanh((double)x);
}
ELEMENTWISE(silu, silu)
ELEMENTWISE(gelu, gelu)
ELEMENTWISE(gelu_tanh, gelu_tanh)
ELEMENTWISE(gelu_quick, gelu_quick)
ELEMENTWISE(relu, relu)
ELEMENTWISE(sigmoid, sigmoid_f)
ELEMENTWISE(tanh, tanh_f)
