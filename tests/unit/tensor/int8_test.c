/* int8_test.c - the byte quantiser by hand (the reference's numbers: pinhole verify), and the lists of IQ
 * points. */
#include "tensor/int8.h"
#include "tensor/iq_grid.h"
#include "tests/unit/unit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/tensor/tests.def"
#undef PH_TEST

void test_int8_symmetric(void) {
    /* The scale is 1/2: halves of it are ties, to the even side. */
    static const float  x[] = {63.5f, -63.5f, 0.25f, 0.75f, -0.25f, -0.75f, 0, 1.2f};
    static const int8_t want[] = {127, -127, 0, 2, 0, -2, 0, 2};
    static const float  nothing[4] = {0, -0.0f, 0, 0}, tiny[2] = {1e-45f, -1e-45f};
    int8_t              q[8];
    float               scale;
    ph_int8_symmetric(q, &scale, x, 8, 127);
    CHECK(fabsf(scale - 0.5f) <= 0 && !memcmp(q, want, sizeof q));
    ph_int8_symmetric(q, &scale, x, 8, 7);
    CHECK(q[0] == 7 && q[1] == -7 && q[7] == 0);
    ph_int8_symmetric(q, &scale, nothing, 4, 127);
    CHECK(fabsf(scale - 1) <= 0 && q[0] == 0 && q[1] == 0);
    ph_int8_symmetric(q, &scale, tiny, 2, 127); /* the scale would be 0 */
    CHECK(fabsf(scale - 1) <= 0 && q[0] == 0);
    ph_int8_symmetric(q, &scale, x, 0, 127);
    CHECK(fabsf(scale - 1) <= 0);
}

void test_int8_asymmetric(void) {
    static const float x[] = {-1, 0, 1.5f, 254}, above[] = {10, 255}, below[] = {-255, -1}, nothing[2] = {0};
    uint8_t            q[4], zero;
    float              scale;
    ph_int8_asymmetric(q, &scale, &zero, x, 4);
    CHECK(fabsf(scale - 1) <= 0 && zero == 1 && q[0] == 0 && q[1] == 1 && q[2] == 3 && q[3] == 255);
    ph_int8_asymmetric(q, &scale, &zero, above, 2); /* 0 is in the range though no element is */
    CHECK(fabsf(scale - 1) <= 0 && zero == 0 && q[0] == 10 && q[1] == 255);
    ph_int8_asymmetric(q, &scale, &zero, below, 2);
    CHECK(fabsf(scale - 1) <= 0 && zero == 255 && q[0] == 0 && q[1] == 254);
    ph_int8_asymmetric(q, &scale, &zero, nothing, 2);
    CHECK(fabsf(scale - 1) <= 0 && zero == 0 && q[0] == 0);
}

/* UBSan watches the casts; NaN is 0 beside numbers. */
void test_int8_hostile_values(void) {
    static const float hostile[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 1e-45f};
    enum { KINDS = sizeof hostile / sizeof *hostile };
    for (size_t i = 0; i < KINDS; i++)
        for (size_t k = 0; k < KINDS; k++) {
            float   x[3] = {hostile[i], hostile[k], 1}, scale;
            int8_t  q[3];
            uint8_t u[3], zero;
            ph_int8_symmetric(q, &scale, x, 3, 127);
            CHECK(scale > 0 && (!isnan(x[0]) || q[0] == 0));
            ph_int8_asymmetric(u, &scale, &zero, x, 3);
            CHECK(scale > 0 && (!isnan(x[0]) || u[0] == zero));
        }
}

void test_int8_dot(void) {
    static int8_t a[PH_INT8_DOT_MAX], b[PH_INT8_DOT_MAX];
    memset(a, -128, sizeof a);
    memset(b, -128, sizeof b);
    CHECK(ph_int8_dot(a, b, PH_INT8_DOT_MAX) == PH_INT8_DOT_MAX * 16384);
    b[0] = 127;
    CHECK(ph_int8_dot(a, b, 2) == -128 * 127 + 16384 && ph_int8_dot(a, b, 0) == 0);
}

/* Each list is in rising order and has digits that are levels. */
static int is_list(const uint16_t *grid, size_t n, unsigned bits, unsigned levels) {
    for (size_t i = 0; i < n; i++) {
        if (i && grid[i] <= grid[i - 1]) return 0;
        for (unsigned word = grid[i]; word; word >>= bits)
            if ((word & ((1u << bits) - 1)) >= levels) return 0;
    }
    return 1;
}

void test_iq_grids(void) {
    CHECK(is_list(ph_iq2_xxs_grid, 256, 2, 3) && is_list(ph_iq2_xs_grid, 512, 2, 3));
    CHECK(is_list(ph_iq2_s_grid, 1024, 2, 3) && is_list(ph_iq1_grid, 2048, 2, 3));
    CHECK(is_list(ph_iq3_xxs_grid, 256, 3, 8) && is_list(ph_iq3_s_grid, 512, 3, 8));
    for (unsigned s = 0; s < 128; s++) {
        unsigned all = ph_iq_signs(s), n = 0;
        for (unsigned i = 0; i < 8; i++) n += all >> i & 1;
        CHECK((all & 127) == s && n % 2 == 0 && all < 256);
    }
}
