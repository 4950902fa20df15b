/* lanes_math.h - exp, erf, tanh and sigmoid of W floats.
 *
 * Polynomials are our own minimax fits (Lawson's iteration in 40 digits, then
 * coefficients rounded to float one after another, the rest refitted); the figure
 * beside each is the fit's largest error.  NaN passes through all of them.
 */
#ifndef PH_KERNELS_LANES_LANES_MATH_H
#define PH_KERNELS_LANES_LANES_MATH_H

INLINE vf horner(const float *c, int n, vf x) { /* c[0] + c[1] x + ... */
    vf p = v_set1(c[n - 1]);
    UNROLL
    for (int i = n - 2; i >= 0; i--) p = v_fma(p, x, v_set1(c[i]));
    return p;
}

/* e^x = 2^n e^r, |r| <= ln 2 / 2, ln 2 in two parts so that r is exact to its last bits.
 * The clamps lie beyond the points where the result is infinite, or nearer to 0 than to
 * the least subnormal.  Relative error of the fit 3e-9; of the function, below 1 ulp. */
INLINE vf v_exp(vf x) {
    static const float c[] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558aep-5f, 0x1.123980p-7f,
                              0x1.6a4f70p-10f};
    x = v_atleast(-105.0f, v_atmost(89.0f, x));
    vf n = v_round(v_mul(x, v_set1(0x1.715476p+0f)));
    vf r = v_fma(n, v_set1(-0x1.62e400p-1f), x);
    r = v_fma(n, v_set1(-0x1.7f7d1cp-20f), r);
    vf p = v_fma(horner(c, 5, r), v_mul(r, r), r);
    return v_ldexp(v_add(p, v_set1(1.0f)), n);
}

/* Below 0.9: x + x P(x^2), 9e-10.  Above: 1 - exp(Q(|x|)), Q fits log erfc on [0.89, 4], 2e-9 of erf;
 * from 4 on erfc is below half an ulp of 1, and the result is exactly 1. */
INLINE vf v_erf(vf x) {
    static const float small[] = {0x1.06eba8p-3f, -0x1.812740p-2f,  0x1.ce2d62p-4f, -0x1.b800bap-6f,
                                  0x1.544444p-8f, -0x1.a5c194p-11f, 0x1.4e2f0cp-14f};
    static const float large[] = {-0x1.5a16b0p-13f, -0x1.20b79cp+0f, -0x1.462114p-1f, -0x1.aa756ep-4f,
                                  0x1.6d9d10p-6f,   -0x1.91c546p-9f, 0x1.9f99b8p-13f};
    vf                 a = v_abs(x), s = v_mul(a, a);
    vf                 near = v_fma(a, horner(small, 7, s), a);
    vf                 far = v_sub(v_set1(1.0f), v_exp(horner(large, 7, v_atmost(4.0f, a))));
    return v_like(v_pick(v_less(a, v_set1(0.9f)), near, far), x);
}

/* Below 0.6: x + x^3 P(x^2), 3e-9.  Above: 1 - 2 / (e^2x + 1). */
INLINE vf v_tanh(vf x) {
    static const float c[] = {-0x1.55553cp-2f, 0x1.11093cp-3f, -0x1.b88712p-5f, 0x1.543170p-6f,
                              -0x1.7fa4ccp-8f};
    vf                 a = v_abs(x), s = v_mul(a, a), one = v_set1(1.0f), two = v_set1(2.0f);
    vf                 near = v_fma(v_mul(a, s), horner(c, 5, s), a);
    vf                 far = v_sub(one, v_div(two, v_add(v_exp(v_mul(a, two)), one)));
    return v_like(v_pick(v_less(a, v_set1(0.6f)), near, far), x);
}

/* From e^-|x|, so that neither end overflows or cancels. */
INLINE vf v_sigmoid(vf x) {
    vf one = v_set1(1.0f), e = v_exp(v_sub(v_zero(), v_abs(x)));
    return v_div(v_pick(v_less(x, v_zero()), e, one), v_add(one, e));
}

/* f(x) for one number, by the same instructions as for W. */
INLINE float first_lane(vf a) {
    float t[W];
    v_store(t, a);
    return t[0];
}

#endif
