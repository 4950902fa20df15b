/* unit.h - the whole test framework.  A test is a void function named in its
 * room's tests.def; it counts its failures and goes on. */
#ifndef PH_TESTS_UNIT_H
#define PH_TESTS_UNIT_H

#include <stdio.h>

extern int ut_failed;

/* What a room's program does before its tests, if the room has something. */
void ut_begin(int argc, char **argv) __attribute__((weak));

/* While held, an allocation or a release aborts the program (not under a sanitizer, which has the
 * allocator to itself). */
void ut_hold_malloc(int hold);
int  ut_can_hold_malloc(void);

/* The room's own tests; the Makefile names their table. */
#define PH_TEST(name) void test_##name(void);
#include PH_TESTS
#undef PH_TEST

#define CHECK(cond)                                                                                          \
    do {                                                                                                     \
        if (!(cond)) ut_failed++, printf("%s:%d: %s\n", __FILE__, __LINE__, #cond);                          \
    } while (0)

/* The same, with a printf of the numbers when it fails. */
#define CHECK_SAY(cond, ...)                                                                                 \
    do {                                                                                                     \
        if (!(cond))                                                                                         \
            ut_failed++, printf("%s:%d: %s: ", __FILE__, __LINE__, #cond), printf(__VA_ARGS__),              \
                printf("\n");                                                                                \
    } while (0)

#endif
