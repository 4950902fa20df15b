/* cut_test.c - stages to slots by the device's memory. */
#include "sched/cut.h"
#include "tests/unit/unit.h"

/* The example of docs/reference/pipeline.md: a picture and an answer of 25 tokens on a small device. */
static const ph_cut_stage example[] = {
    {0.12e9, 0.05}, /* decode, prepare: 2.4 GB/s */
    {1.12e9, 0.40}, /* see, bridge:     2.8 GB/s */
    {0.75e9, 0.25}, /* prefill:         3.0 GB/s */
    {1.60e9, 0.50}, /* steps:           3.2 GB/s */
};
enum { N = sizeof example / sizeof *example };

static int near_to(double a, double b) {
    return a > b - 1e-6 * b && a < b + 1e-6 * b;
}

void test_cut_example(void) {
    static const struct {
        double gbs;
        size_t n;
    } rows[] = {{2, 1},  {6, 1},    {6.1, 1},  {6.4, 2},  {8.9, 2}, {9.1, 3},
                {10, 3}, {11.3, 3}, {12.8, 4}, {25.6, 4}, {0, 4}};
    ph_cut c;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_cut_stages(&c, example, N, rows[i].gbs * 1e9, 0);
        CHECK_SAY(c.n == rows[i].n, "%.1f GB/s: %zu slots, not %zu", rows[i].gbs, c.n, rows[i].n);
        CHECK(c.begin[0] == 0 && c.begin[c.n] == N);
        CHECK(c.n == 1 || rows[i].gbs == 0 || c.drawn <= rows[i].gbs * 1e9);
    }
    ph_cut_stages(&c, example, N, 6.4e9, 0);
    CHECK(c.begin[1] == 3 && near_to(c.drawn, 6.2e9) && near_to(c.pace, 0.7));
    ph_cut_stages(&c, example, N, 25.6e9, 0);
    CHECK(near_to(c.drawn, 11.4e9) && near_to(c.pace, 0.5));
    for (size_t i = 0; i <= N; i++) CHECK(c.begin[i] == i);
}

void test_cut_edges(void) {
    const ph_cut_stage one = {1e12, 1}, idle[] = {{1e12, 0}, {0, 1}, {1e9, -1}};
    ph_cut_stage       many[PH_CUT_STAGES_MAX];
    ph_cut             c;
    ph_cut_stages(&c, &one, 1, 1, 0);
    CHECK(c.n == 1 && c.begin[1] == 1 && c.drawn == 1e12 && c.pace == 1); /* too much, and nothing to join */
    ph_cut_stages(&c, idle, 3, 1, 0);
    CHECK(c.n == 3 && c.drawn == 0 && c.pace == 1); /* no time, nothing drawn */
    ph_cut_stages(&c, example, N, 0, 2);
    CHECK(c.n == 2 && c.begin[1] == 3); /* as many as asked for, whatever the device */
    for (size_t i = 0; i < PH_CUT_STAGES_MAX; i++) many[i] = (ph_cut_stage){1e9, 1};
    ph_cut_stages(&c, many, PH_CUT_STAGES_MAX, 0, 0);
    CHECK(c.n == PH_CUT_STAGES_MAX && c.begin[PH_CUT_STAGES_MAX] == PH_CUT_STAGES_MAX);
    ph_cut_stages(&c, many, PH_CUT_STAGES_MAX, 3.5e9, 0);
    CHECK(c.n == 3 && c.drawn == 3e9 && c.begin[3] == PH_CUT_STAGES_MAX);
}
