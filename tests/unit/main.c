/* main.c - runs every row of a room's tests.def, or only those named on the command line.
 * The Makefile compiles it once a room, with PH_TESTS naming the table.  UT_LOCALE: the locale that a program
 * around the library has set, in which numbers have a comma (tests/flow/locale.sh). */
#include "tests/unit/unit.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

int ut_failed;

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
#define PH_TEST(name) {#name, test_##name},
#include PH_TESTS
#undef PH_TEST
};

static int wanted(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i])) return 1;
    return argc == 1;
}

/* Without the comma nothing would be tested. */
static int is_set(const char *name) {
    if (!name) return 1;
    if (setlocale(LC_ALL, name) && !strcmp(localeconv()->decimal_point, ",")) return 1;
    printf("UT_LOCALE=%s: no locale with a comma\n0 passed, 1 failed\n", name);
    return 0;
}

int main(int argc, char **argv) {
    int passed = 0, failed = 0;
    if (!is_set(getenv("UT_LOCALE"))) return 1;
    /* What this user measured is nothing to a test, and no folder can be made below a file: a library of
     * others would make one. */
    setenv("XDG_CACHE_HOME", "/dev/null/cache", 1);
    setenv("ORT_DISABLE_TELEMETRY", "1", 0);
    if (ut_begin) ut_begin(argc, argv);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (!wanted(tests[i].name, argc, argv)) continue;
        int before = ut_failed;
        tests[i].run();
        if (ut_failed == before)
            passed++;
        else
            failed++;
        printf("%-32s %s\n", tests[i].name, ut_failed == before ? "ok" : "FAILED");
        fflush(stdout);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return ut_failed != 0;
}
