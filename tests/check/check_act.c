/* check_act.c - activations: every exponent, a dense sweep where they bend, the limits, NaN, tails,
 * in place, and in pieces. */
#include "tests/check/check.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef void unary(float *y, const float *x, size_t n);

typedef enum scale_by { BY_X, BY_Y, EXACT } scale_by; /* what 4 FLT_EPSILON is multiplied with */

static void any_values(float *x, size_t n, unsigned trial) {
    static const float odd[] = {INFINITY,   -INFINITY, NAN,      0.0f,   -0.0f,   0x1p-149f,
                                -0x1p-140f, FLT_MAX,   -FLT_MAX, 1e-30f, 88.722f, -103.97f,
                                -88.5f,     0.9f,      0.6f,     -5.0f};
    for (size_t i = 0; i < n; i++)
        if (trial % 4 == 0)
            x[i] = ck_any();
        else if (trial % 4 == 1)
            x[i] = (float)ck_below(1u << 24) / 0x1p24f * 24.0f - 12.0f;
        else if (trial % 4 == 2)
            x[i] = odd[ck_below(16)];
        else
            x[i] = (float)ck_below(1u << 24) / 0x1p24f * 220.0f - 110.0f;
}

static int one_trial(unary *ref, unary *opt, scale_by by, unsigned trial) {
    size_t n = trial < 70 ? trial : 1 + ck_below(3000), half = n ? ck_below((unsigned)n + 1) : 0;
    float *x = ck_buffer(n * sizeof *x), *want = ck_buffer(n * sizeof *x), *got = ck_buffer(n * sizeof *x);
    float *again = ck_buffer(n * sizeof *x);
    any_values(x, n, trial);
    ref(want, x, n);
    opt(got, x, n);
    for (size_t i = 0; i < n; i++) {
        double size = fabs(by == BY_X ? (double)x[i] : (double)want[i]);
        if (by == EXACT
                ? !ck_same_floats(&got[i], &want[i], 1, "y")
                : !ck_close(got[i], want[i], isfinite(size) ? 4.0 * (double)FLT_EPSILON * size : 0, "y", i)) {
            ck_close(x[i], 0, 0, "    at x, number", i);
            return 0;
        }
    }
    opt(again, x, half);
    opt(&again[half], &x[half], n - half);
    if (!ck_same_floats(again, got, n, "y in two pieces")) return 0;
    opt(x, x, n);
    return ck_same_floats(x, got, n, "y in place");
}

static int check(unary *ref, unary *opt, scale_by by) {
    for (unsigned trial = 0; trial < 400; trial++, ck_free_all())
        if (!one_trial(ref, opt, by, trial)) return 0;
    return 1;
}
static ck_work bench(unary *fn, int many) {
    size_t n = many ? 65536 : 1536;
    float *x = ck_bench_floats(n), *y = ck_bench_floats(n);
    fn(y, x, n);
    return (ck_work){8.0 * (double)n, (double)n};
}

#define ACTIVATION(name, by)                                                                                 \
    int check_##name(const ph_kernels *ref, const ph_kernels *opt) {                                         \
        return check(ref->name, opt->name, by);                                                              \
    }                                                                                                        \
    ck_work bench_##name(const ph_kernels *k, int many) {                                                    \
        return bench(k->name, many);                                                                         \
    }
ACTIVATION(silu, BY_X)
ACTIVATION(gelu, BY_X)
ACTIVATION(gelu_tanh, BY_X)
ACTIVATION(gelu_quick, BY_X)
ACTIVATION(relu, EXACT)
ACTIVATION(sigmoid, BY_Y)
ACTIVATION(tanh, BY_Y)
