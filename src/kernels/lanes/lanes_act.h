/* lanes_act.h - activations: y = x phi(x), and phi alone. */
#ifndef PH_KERNELS_LANES_LANES_ACT_H
#define PH_KERNELS_LANES_LANES_ACT_H

#include "kernels/lanes/lanes_math.h"

/* -inf times phi = 0 would be NaN; held at -FLT_MAX the product is the limit. */
INLINE vf gate(vf x, vf phi) {
    return v_mul(v_atleast(-FLT_MAX, x), phi);
}
INLINE vf v_silu(vf x) {
    return gate(x, v_sigmoid(x));
}
INLINE vf v_gelu(vf x) {
    vf half = v_set1(0.5f);
    return gate(x, v_fma(half, v_erf(v_mul(x, v_set1(0.70710678118654752f))), half));
}
/* (1 + tanh u) / 2 = sigmoid(2u), which does not cancel for negative u. */
INLINE vf v_gelu_tanh(vf x) {
    const double c = 2 * 0.79788456080286535588; /* 2 sqrt(2 / pi) */
    vf           u = v_fma(v_mul(x, x), v_set1((float)(c * 0.044715)), v_set1((float)c));
    return gate(x, v_sigmoid(v_mul(x, u)));
}
INLINE vf v_gelu_quick(vf x) {
    return gate(x, v_sigmoid(v_mul(x, v_set1(1.702f))));
}
INLINE vf v_relu(vf x) {
    return v_pick(v_less(x, v_zero()), v_zero(), x);
}

#define ELEMENTWISE(name)                                                                                    \
    static void act_##name(float *y, const float *x, size_t n) {                                             \
        size_t i = 0;                                                                                        \
        for (; i + W <= n; i += W) v_store(&y[i], v_##name(v_load(&x[i])));                                  \
        if (i < n) v_store_n(&y[i], v_##name(v_load_n(&x[i], n - i)), n - i);                                \
    }
ELEMENTWISE(silu)
ELEMENTWISE(gelu)
ELEMENTWISE(gelu_tanh)
ELEMENTWISE(gelu_quick)
ELEMENTWISE(relu)
ELEMENTWISE(sigmoid)
ELEMENTWISE(tanh)
#undef ELEMENTWISE

#endif
