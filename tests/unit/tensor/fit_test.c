/* fit_test.c - the free search for a part's scale, against every scale of a dense list. */
#include "tensor/fit.h"
#include "tests/unit/unit.h"

#include <math.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/tensor/tests.def"
#undef PH_TEST

enum { PARTS = 200, PART = 16, SCALES = 4000 };

/* About normal: the sum of four numbers from -1/2 .. 1/2. */
static float about_normal(uint32_t *seed) {
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        sum += (float)(*seed >> 8) / (float)(1 << 24) - 0.5f;
    }
    return sum;
}

static double error_of(const ph_book *book, const float *x, float scale) {
    uint8_t q[PART];
    return ph_fit_book_assign(book, q, x, PART, scale);
}

/* Scales of both signs up to twice the one under which the largest number is the last level. */
static double least_error(const ph_book *book, const float *x) {
    double least = INFINITY;
    float  most = 0, end = book->value ? (float)book->value[book->n - 1] : (float)(book->n / 2 - 1);
    for (int i = 0; i < PART; i++) most = fmaxf(most, fabsf(x[i]));
    for (int k = 1; k <= SCALES; k++) {
        float scale = 2 * most / end * (float)k / SCALES;
        least = fmin(least, fmin(error_of(book, x, scale), error_of(book, x, -scale)));
    }
    return least;
}

void test_fit_book_scale(void) {
    static const int8_t uneven[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    static const struct {
        const char *name;
        ph_book     book;
        double      most; /* times the least error: what several starts reach, and one does not */
    } books[] = {{"8 levels", {NULL, 8}, 1.01},
                 {"64 levels", {NULL, 64}, 1.08},
                 {"16 uneven levels", {uneven, 16}, 1.02}};
    for (size_t b = 0; b < sizeof books / sizeof *books; b++) {
        uint32_t seed = 7;
        double   found = 0, least = 0;
        for (int p = 0; p < PARTS; p++) {
            float x[PART];
            for (int i = 0; i < PART; i++) x[i] = about_normal(&seed);
            found += error_of(&books[b].book, x, ph_fit_book_scale(&books[b].book, x, PART));
            least += least_error(&books[b].book, x);
        }
        CHECK_SAY(found <= books[b].most * least, "%s: squared error %.6f, the least is %.6f (%.4f)",
                  books[b].name, found, least, found / least);
    }
}
