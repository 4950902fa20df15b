/* test_sampler.c - the chain against what each filter's paper says. */
#include "tests/unit/unit.h"

#include "sample/sampler.h"

#include <math.h>
#include <string.h>

enum { N = 8 };
static const float logits[N] = {0.5F, 3.0F, -1.0F, 3.0F, 2.0F, 0.0F, 1.0F, -4.0F};

static void counts(const ph_sampling *how, const float *x, int draws, int out[N]) {
    ph_candidate     scratch[N];
    ph_sampler_state s;
    ph_sampler_init(&s, how, scratch, N);
    memset(out, 0, N * sizeof *out);
    for (int i = 0; i < draws; i++) out[ph_sampler_next(&s, x, NULL, 0)]++;
}

void test_sample_greedy(void) {
    int         n[N];
    ph_sampling how = {.top_k = 3, .top_p = 0.5};
    counts(&how, logits, 10, n);
    CHECK(n[1] == 10); /* the first of two equal ones */
}

void test_sample_filters(void) {
    int n[N];
    counts(&(ph_sampling){.temperature = 1, .top_k = 3}, logits, 4000, n);
    CHECK(n[1] && n[3] && n[4] && n[1] + n[3] + n[4] == 4000);
    counts(&(ph_sampling){.temperature = 1, .top_p = 0.4}, logits, 4000, n);
    CHECK_SAY(n[1] + n[3] == 4000, "%d %d", n[1], n[3]); /* 0.376 each before the others: two reach 0.4 */
    counts(&(ph_sampling){.temperature = 1, .min_p = 0.3}, logits, 4000, n);
    CHECK(n[1] + n[3] + n[4] == 4000 && n[4]); /* exp(-1) = 0.37 stays, exp(-2) = 0.14 goes */
    counts(&(ph_sampling){.temperature = 0.01, .min_p = 0}, logits, 4000, n);
    CHECK(n[1] + n[3] == 4000);
}

/* However near to 0: the largest, not one of those that overflow a float. */
void test_sample_cold(void) {
    static const double cold[] = {1e-3, 1e-7, 1e-38, 1e-45, 1e-300, 5e-324};
    static const float  one[N] = {0.5F, 2.5F, -1.0F, 3.0F, 2.0F, 0.0F, 1.0F, -4.0F};
    float               negative[N];
    for (int i = 0; i < N; i++) negative[i] = one[i] - 100;
    for (size_t i = 0; i < sizeof cold / sizeof *cold; i++) {
        int n[N];
        counts(&(ph_sampling){.temperature = cold[i]}, one, 200, n);
        CHECK_SAY(n[3] == 200, "temperature %g: %d", cold[i], n[3]);
        counts(&(ph_sampling){.temperature = cold[i], .top_k = 5, .top_p = 0.9, .min_p = 0.01}, negative, 200,
               n);
        CHECK_SAY(n[3] == 200, "temperature %g, negative: %d", cold[i], n[3]);
        counts(&(ph_sampling){.temperature = cold[i]}, logits, 200, n); /* two alike: either */
        CHECK_SAY(n[1] + n[3] == 200 && n[1] && n[3], "temperature %g: %d, %d", cold[i], n[1], n[3]);
    }
}

void test_sample_repetition(void) {
    ph_candidate      scratch[N];
    ph_sampler_state  s;
    const int32_t     said[] = {1, 1, 3};
    const ph_sampling how = {.repeat_penalty = 2};
    ph_sampler_init(&s, &how, scratch, N);
    CHECK(ph_sampler_next(&s, logits, said, 3) == 4); /* 3.0 / 2 twice the same: 2.0 wins */
    s.how.repeat_last = 1;
    CHECK(ph_sampler_next(&s, logits, said, 3) == 1); /* only 3 is looked back on */
    float negative[N] = {-1, -1.5F, -9, -9, -9, -9, -9, -9};
    s.how.repeat_last = 0;
    CHECK(ph_sampler_next(&s, negative, (const int32_t[]){0}, 1) == 1); /* -1 * 2 */
    float holes[N] = {NAN, NAN, 5, 4, NAN, 3, 2, 1};
    CHECK(ph_sampler_next(&s, holes, (const int32_t[]){2, 4, 99, -1}, 4) == 3); /* 5 / 2 */
}

void test_sample_seed_and_distribution(void) {
    int         a[N], b[N], c[N];
    ph_sampling how = {.temperature = 1, .seed = 7};
    counts(&how, logits, 20000, a);
    counts(&how, logits, 20000, b);
    CHECK(!memcmp(a, b, sizeof a));
    how.seed = 8;
    counts(&how, logits, 20000, c);
    CHECK(memcmp(a, c, sizeof a));
    double sum = 0;
    for (int i = 0; i < N; i++) sum += exp((double)logits[i]);
    for (int i = 0; i < N; i++) {
        double p = exp((double)logits[i]) / sum, sd = sqrt(20000 * p * (1 - p));
        CHECK_SAY(fabs(a[i] - 20000 * p) < 5 * sd + 1, "%d: %d against %g", i, a[i], 20000 * p);
    }
}

void test_sample_hostile(void) {
    int   n[N];
    float all_nan[N], inf[N] = {0, INFINITY, 0, 0, 0, 0, 0, -INFINITY};
    for (int i = 0; i < N; i++) all_nan[i] = NAN;
    ph_candidate     scratch[N];
    ph_sampler_state s;
    ph_sampler_init(&s, &(ph_sampling){.temperature = 1}, scratch, N);
    CHECK(ph_sampler_next(&s, all_nan, NULL, 0) == -1);
    all_nan[5] = -3;
    CHECK(ph_sampler_next(&s, all_nan, NULL, 0) == 5);
    counts(&(ph_sampling){.temperature = 1, .top_k = 4, .top_p = 0.9, .min_p = 0.1}, inf, 100, n);
    CHECK(n[1] == 100);
    ph_err err;
    CHECK(ph_sampling_check(&(ph_sampling){.temperature = -1}, &err) == PH_EUSAGE);
    CHECK(ph_sampling_check(&(ph_sampling){.temperature = NAN}, &err) == PH_EUSAGE);
    CHECK(ph_sampling_check(&(ph_sampling){.top_p = 1.5}, &err) == PH_EUSAGE);
    CHECK(
        ph_sampling_check(&(ph_sampling){.temperature = 1, .top_k = 40, .top_p = 0.9, .repeat_penalty = 1.1},
                          &err) == PH_OK);
}
