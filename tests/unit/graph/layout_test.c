/* layout_test.c - offsets, sums, peaks and pages. */
#include "graph/plan.h"
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/unit.h"

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

enum { N_MAX = 120 };

/* Two lives that touch never share a byte; the peak is the highest end, not below the bound, and repeatable.
 */
void test_layout_random(void) {
    uint64_t state = 3;
    double   worst = 1;
    for (int trial = 0; trial < 400; trial++) {
        ph_life life[N_MAX], again[N_MAX];
        size_t  order[N_MAX], peak, peak_again, n = (size_t)gh_below(&state, N_MAX), end = 0;
        ph_err  err = {0};
        for (size_t i = 0; i < n; i++) {
            int first = gh_below(&state, 50);
            life[i] = (ph_life){(size_t)gh_below(&state, trial % 2 ? 5000 : 200), first,
                                first + gh_below(&state, 12), 77};
        }
        memcpy(again, life, sizeof life);
        CHECK(!ph_layout(life, n, order, &peak, &err) && !ph_layout(again, n, order, &peak_again, &err));
        for (size_t i = 0; i < n; i++) {
            size_t i_end = life[i].offset + (life[i].bytes + 63) / 64 * 64;
            CHECK(life[i].offset % 64 == 0 && life[i].offset == again[i].offset);
            if (i_end > end) end = i_end;
            for (size_t k = 0; k < i; k++) {
                int touch = life[i].first <= life[k].last && life[k].first <= life[i].last;
                int apart = i_end <= life[k].offset ||
                            life[k].offset + (life[k].bytes + 63) / 64 * 64 <= life[i].offset;
                CHECK(!touch || apart || !life[i].bytes || !life[k].bytes);
            }
        }
        size_t bound = ph_layout_bound(life, n);
        CHECK(peak == peak_again && peak == end && peak >= bound);
        if (bound && (double)peak / (double)bound > worst) worst = (double)peak / (double)bound;
    }
    CHECK_SAY(worst < 1.5, "worst peak is %.3f of the bound", worst);
}

void test_layout_edges(void) {
    ph_err  err;
    size_t  order[3], peak = 5;
    ph_life backwards[] = {{8, 5, 4, 0}},
            huge[] = {{SIZE_MAX / 2, 0, 1, 0}, {SIZE_MAX / 2, 0, 1, 0}, {64, 0, 1, 0}};
    CHECK(!ph_layout(NULL, 0, NULL, &peak, &err) && peak == 0);
    CHECK(ph_layout(backwards, 1, order, &peak, &err) == PH_EBUG);
    CHECK(ph_layout(huge, 3, order, &peak, &err) == PH_ELIMIT);
    ph_life chain[] = {
        {100, 0, 1, 0}, {100, 1, 2, 0}, {100, 2, 3, 0}}; /* the third takes the first one's place */
    CHECK(!ph_layout(chain, 3, order, &peak, &err) && peak == 256 && chain[0].offset == chain[2].offset);
}

void test_plan_peak(void) {
    ph_plan p = {0};
    p.phase[PH_PHASE_SEE] = (ph_memory){.input = 1,
                                        .activations = 2,
                                        .weights = 4,
                                        .engine = 8,
                                        .reserve = 16,
                                        .pools = 32,
                                        .kv = 64,
                                        .tokenizer = 128,
                                        .base = 256};
    p.phase[PH_PHASE_PREFILL] = (ph_memory){.activations = 1000};
    p.phase[PH_PHASE_STEP] = (ph_memory){.activations = 1000};
    ph_plan_finish(&p);
    CHECK(p.phase[PH_PHASE_SEE].total == 511 && p.peak_phase == PH_PHASE_PREFILL && p.peak.total == 1000);
    CHECK(!strcmp(ph_phase_name[PH_PHASE_SEE], "see") && !strcmp(ph_phase_name[PH_PHASE_STEP], "step"));
}

void test_pages_touched(void) {
    ph_range r[] = {{8191, 8193}, {0, 1}, {100, 4096}, {5000, 5000}, {12288, 20480}, {9000, 12288}};
    CHECK(ph_pages_touched(r, 6) == 5); /* pages 0, 1, 2, 3, 4 */
    CHECK(ph_pages_touched(NULL, 0) == 0);
    uint64_t state = 5;
    for (int trial = 0; trial < 200; trial++) {
        unsigned char seen[64] = {0};
        ph_range      list[20];
        size_t        want = 0;
        for (int i = 0; i < 20; i++) {
            uintptr_t a = (uintptr_t)gh_below(&state, 60 * 4096), b = a + (uintptr_t)gh_below(&state, 9000);
            list[i] = (ph_range){a, b};
            for (uintptr_t at = a; at < b; at++) seen[at / 4096] = 1;
        }
        for (int i = 0; i < 64; i++) want += seen[i];
        CHECK(ph_pages_touched(list, 20) == want);
    }
}
