/* test_err.c - the error table and what an error carries. */
#include "base/err.h"
#include "tests/unit/unit.h"

#include <string.h>

void test_err_table(void) {
    static const ph_rc all[] = {
#define PH_ERR(name, code, http, exit, text) PH_##name,
#include "base/err.def"
#undef PH_ERR
    };
    CHECK(ph_rc_http(PH_OK) == 200 && ph_rc_exit(PH_OK) == 0 && !strcmp(ph_rc_name(PH_OK), "OK"));
    CHECK(ph_rc_http(PH_EFORMAT) == 422 && ph_rc_exit(PH_EFORMAT) == 3);
    CHECK(!strcmp(ph_rc_name((ph_rc)-99), "?") && ph_rc_exit((ph_rc)-99) == 5);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK_SAY(all[i] < 0, "%d", all[i]);
        CHECK_SAY(ph_rc_exit(all[i]) >= 1 && ph_rc_exit(all[i]) <= 5, "%s", ph_rc_name(all[i]));
        CHECK_SAY(ph_rc_http(all[i]) >= 400 && ph_rc_http(all[i]) < 600, "%s", ph_rc_name(all[i]));
        CHECK(strlen(ph_rc_text(all[i])) > 5);
        for (size_t k = 0; k < i; k++) CHECK_SAY(all[i] != all[k], "%d twice", all[i]);
    }
}

void test_err_notes(void) {
    ph_err e = {0};
    CHECK(ph_note(&e, PH_FAIL(&e, PH_EFORMAT, "chunk %d", 7), "while reading %s", "a.png") == PH_EFORMAT);
    CHECK(!strcmp(e.msg, "chunk 7") && e.n_notes == 1 && !strcmp(e.note[0], "while reading a.png"));
    CHECK(strstr(e.file, "test_err.c") && e.line > 0);
    for (int i = 0; i < 5; i++) ph_note(&e, e.code, "note %d", i);
    CHECK(e.n_notes == 3 && !strcmp(e.note[2], "note 1"));
    CHECK(ph_note(&e, PH_OK, "no failure, no note") == PH_OK && e.n_notes == 3);
    CHECK(PH_FAIL(NULL, PH_EIO, "only the code") == PH_EIO && ph_note(NULL, PH_EIO, "x") == PH_EIO);
    PH_FAIL(&e, PH_ELIMIT, "%0400d", 1);
    CHECK(strlen(e.msg) == sizeof e.msg - 1 && e.n_notes == 0);
}
