/* test_kernels.c - dispatch: names to features, features to slots, types to products. */
#include "kernels/isa.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

void test_kernels_features(void);
void test_kernels_untried(void);
void test_kernels_overlay(void);
void test_kernels_linear(void);
void test_kernels_stored(void);

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

static void by_integers(float *restrict y, size_t      y_stride, const ph_qrows *restrict x,
                        const void *restrict w, size_t w_stride, size_t rows, size_t cols,
                        void *restrict scratch) {
    (void)y, (void)y_stride, (void)x, (void)w, (void)w_stride, (void)rows, (void)cols, (void)scratch;
}

/* `rows` rows of cols signed bytes with `scales` scales; a zero point for each if has_zero. */
static ph_storage bytes_of(const ph_storage_form *form, size_t rows, size_t cols, size_t scales,
                           int has_zero) {
    static int8_t  bytes[2 * (PH_QROW_MAX + 32)], zero[64];
    static float   scale[64];
    const ph_plane none = {0};
    ph_err         err = {0};
    ph_storage     s = {.dtype = PH_I8, .n_planes = has_zero ? 3 : 2, .form = form, .n_rows = rows};
    CHECK(rows * cols <= sizeof bytes && scales <= 64);
    s.plane[PH_PLANE_DATA] = (ph_plane){bytes, rows * cols, cols, PH_I8};
    s.plane[PH_PLANE_SCALE] = (ph_plane){scale, scales * 4, scales / rows * 4, PH_F32};
    s.plane[PH_PLANE_ZERO] = has_zero ? (ph_plane){zero, scales, scales / rows, PH_I8} : none;
    CHECK_SAY(!form->check(&s, cols, &err), "%s", err.msg);
    return s;
}

/* Bytes are met by integers only where each row has one scale and stands behind the other. */
void test_kernels_stored(void) {
    const ph_storage_form *const channels = &ph_storage_channels;
    ph_kernels                   k;
    ph_kernels_init(&k, 0);
    ph_storage s = bytes_of(channels, 2, 64, 2, 0);
    CHECK(!ph_dot_of_stored(&k, &s, 64)); /* the definition is for reading */
    k.dot_I8 = by_integers;
    CHECK(ph_dot_of_stored(&k, &s, 64) == by_integers);
    s.first = 1;
    CHECK(ph_dot_of_stored(&k, &s, 64) == by_integers);
    s.plane[PH_PLANE_DATA].row_stride = 128; /* a file's own idea of its rows */
    CHECK(!ph_dot_of_stored(&k, &s, 64));
    s = bytes_of(channels, 2, 64, 2, 1);
    CHECK(!ph_dot_of_stored(&k, &s, 64));
    s = bytes_of(channels, 2, 64, 1, 0);
    CHECK(!ph_dot_of_stored(&k, &s, 64));
    s = bytes_of(channels, 2, 64, 4, 0);
    CHECK(!ph_dot_of_stored(&k, &s, 64));
    s = bytes_of(&ph_storage_factor, 2, 64, 1, 0);
    CHECK(!ph_dot_of_stored(&k, &s, 64));
    s = bytes_of(channels, 2, 48, 2, 0);
    CHECK(!ph_dot_of_stored(&k, &s, 48));
    s = bytes_of(channels, 2, PH_QROW_MAX, 2, 0);
    CHECK(ph_dot_of_stored(&k, &s, PH_QROW_MAX) == by_integers);
    s = bytes_of(channels, 2, PH_QROW_MAX + 32, 2, 0);
    CHECK(!ph_dot_of_stored(&k, &s, PH_QROW_MAX + 32));
}
