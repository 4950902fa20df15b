/* library_test.c - which file of a folder is the library. */
#include "engine/library.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void touch(const char *folder, const char *name) {
    char  path[128];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "w");
    CHECK(f && !fclose(f));
}

/* Versions are numbers: 1.27 is after 1.9. */
void test_library_newest(void) {
    static const char *const names[] = {"libx.so.1.9.0", "libx.so.1.27.0", "libx.so.1.27.0.sig",
                                        "libx.so.1.10.2", "liby.so.9"};
    static const struct {
        size_t      n; /* of the names, that are there */
        const char *want;
    } rows[] = {{1, "libx.so.1.9.0"}, {2, "libx.so.1.27.0"}, {4, "libx.so.1.27.0"}, {5, "libx.so.1.27.0"}};
    const ph_library l = {
        .what = "X", .remedy = "none", .file = "libx.so", .variable = "PINHOLE_TEST_LIBRARY"};
    char   folder[] = "/tmp/ph-library-XXXXXX", path[PH_LIBRARY_PATH], want[128];
    ph_err err = {0};
    if (!mkdtemp(folder)) {
        CHECK(0);
        return;
    }
    setenv(l.variable, folder, 1);
    CHECK(ph_library_find(&l, path, &err) == PH_EMACHINE);
    for (size_t i = 0, n = 0; i < sizeof rows / sizeof *rows; i++) {
        for (; n < rows[i].n; n++) touch(folder, names[n]);
        snprintf(want, sizeof want, "%s/%s", folder, rows[i].want);
        CHECK_SAY(!ph_library_find(&l, path, &err) && !strcmp(path, want), "row %zu: %s", i, path);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(want, sizeof want, "%s/%s", folder, names[i]);
        unlink(want);
    }
    rmdir(folder);
    unsetenv(l.variable);
}
