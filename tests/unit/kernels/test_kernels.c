/* test_kernels.c - dispatch: names to features, features to slots, types to products. */
#include "kernels/isa.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

void test_kernels_features(void);
void test_kernels_untried(void);
void test_kernels_overlay(void);
void test_kernels_linear(void);

void test_kernels_features(void) {
    ph_err   err = {0};
    unsigned cpu = ph_cpu_features(), f = 1;
    CHECK(ph_kernels_features(NULL, &f, &err) == PH_OK && f == cpu);
    CHECK(ph_kernels_features("", &f, &err) == PH_OK && f == cpu);
    CHECK(ph_kernels_features("ref", &f, &err) == PH_OK && f == 0);
    CHECK(!strcmp(ph_kernels_isa(0), "ref"));
    CHECK(ph_kernels_features("sse9", &f, &err) == PH_EUSAGE);
    CHECK(strstr(err.msg, "sse9") && strstr(err.msg, "ref"));
    for (size_t i = 0; i < ph_n_isas; i++) {
        const ph_isa *isa = &ph_isas[i];
        ph_rc         rc = ph_kernels_features(isa->name, &f, &err);
        unsigned      needs = isa->needs & ~PH_ISA_UNTRIED;
        if ((cpu & needs) == needs) {
            CHECK(rc == PH_OK && (f & ~cpu & ~PH_ISA_UNTRIED) == 0 && !strcmp(ph_kernels_isa(f), isa->name));
            CHECK((f & PH_ISA_UNTRIED) == (isa->needs & PH_ISA_UNTRIED));
        } else
            CHECK(rc == PH_EMACHINE);
    }
}

/* A set that no machine has run is nobody's best unless it is named. */
void test_kernels_untried(void) {
    CHECK(!(ph_cpu_features() & PH_ISA_UNTRIED));
    for (size_t i = 0; i < ph_n_isas; i++) {
        int         is_used;
        const char *name = ph_kernels_isa_at(i, ~PH_ISA_UNTRIED, &is_used);
        CHECK(is_used == !(ph_isas[i].needs & PH_ISA_UNTRIED));
        CHECK(is_used || strcmp(ph_kernels_isa(~PH_ISA_UNTRIED), name));
    }
}

/* Whatever is left out of the features, every slot is filled. */
void test_kernels_overlay(void) {
    for (unsigned mask = 0; mask < 1u << 7; mask++) {
        ph_kernels k;
        void (*slot)(void);
        memset(&k, 0, sizeof k);
        ph_kernels_init(&k, ph_cpu_features() & mask);
        for (size_t at = 0; at < sizeof k; at += sizeof slot) {
            memcpy(&slot, (const char *)&k + at, sizeof slot);
            CHECK(slot != NULL);
        }
    }
}

/* A type without a product of its own runs through its unpack, and splits do not show there either. */
void test_kernels_linear(void) {
    enum { ROWS = 3, COLS = 19, K = 37 };
    static float  x[ROWS * K], y[ROWS * COLS], piece[ROWS * COLS], scratch[PH_LINEAR_SCRATCH(K)];
    static int8_t w[COLS * K];
    ph_kernels    k;
    ph_kernels_init(&k, ph_cpu_features());
    CHECK(ph_linear_of(&k, PH_Q4_K).fn == k.linear_Q4_K && ph_linear_of(&k, PH_F32).fn == k.linear_F32);
    ph_linear l = ph_linear_of(&k, PH_I8);
    CHECK(l.fn == NULL && l.dtype == PH_I8 && ph_dtype_get(PH_I8)->unpack);
    for (int i = 0; i < ROWS * K; i++) x[i] = (float)(i % 11) - 5;
    for (int i = 0; i < COLS * K; i++) w[i] = (int8_t)(i * 7 % 251 - 125);
    ph_linear_run(&k, l, y, COLS, x, K, w, K, ROWS, COLS, K, scratch);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++) {
            int sum = 0; /* small integers: every order of adding gives the same */
            for (int i = 0; i < K; i++) sum += (int)x[r * K + i] * w[c * K + i];
            CHECK(fabsf(y[r * COLS + c] - (float)sum) < 0.5f);
            ph_linear_run(&k, l, &piece[r * COLS + c], COLS, &x[r * K], K, &w[c * K], K, 1, 1, K, scratch);
        }
    CHECK(!memcmp(piece, y, sizeof y));
}
