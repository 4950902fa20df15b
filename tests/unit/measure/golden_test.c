/* golden_test.c - which files of a folder are its model. */
#include "measure/case.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT   "tests/golden/formats/llama.Q4_0.gguf"
#define VISION "tests/golden/gguf/vlm_llava15.mmproj.gguf"

/* A folder of links: "name" leads to a good file, or is empty where it is not to be opened. */
static ph_rc opens(const char *const name[4], ph_err *err) {
    char      folder[] = "/tmp/ph-golden-XXXXXX", command[400];
    ph_model *m = NULL;
    *err = (ph_err){0};
    CHECK(mkdtemp(folder) != NULL);
    for (int i = 0; i < 4 && name[i]; i++) {
        snprintf(command, sizeof command, "ln -s \"$PWD/%s\" '%s/%s'",
                 strncmp(name[i], "mmproj-", 7) ? TEXT : VISION, folder, name[i]);
        CHECK(!system(command));
    }
    CHECK(ph_golden_has_model(folder) == (name[0] != NULL && strncmp(name[0], "mmproj-", 7) != 0));
    ph_rc rc = ph_golden_open_model(&m, folder, err);
    CHECK(!rc == (m != NULL));
    ph_model_close(m);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    CHECK(!system(command));
    return rc;
}

void test_golden_model_files(void) {
    static const struct {
        const char *name[4];
        ph_rc       rc;
        const char *part[3];
    } rows[] = {
        {{"a.gguf"}, PH_OK, {0}},
        {{"a-00001-of-00002.gguf", "a-00002-of-00002.gguf"},
         PH_OK,
         {0}}, /* that no file is a part, its keys say */
        {{"a.gguf", "a.gguf.part", "notes.txt"}, PH_OK, {0}},
        {{"a.gguf", "b.gguf"}, PH_EMISMATCH, {"two models", "a.gguf", "b.gguf"}},
        {{"a-00001-of-00002.gguf", "b-00001-of-00002.gguf"},
         PH_EMISMATCH,
         {"two models", "a-00001", "b-00001"}},
        {{"a.gguf", "mmproj-a.gguf", "mmproj-b.gguf"},
         PH_EMISMATCH,
         {"two vision files", "mmproj-a.gguf", "mmproj-b.gguf"}},
        {{"mmproj-a.gguf"}, PH_EPATH, {"neither config.json nor a .gguf or .bundle"}},
        {{NULL}, PH_EPATH, {"neither config.json nor a .gguf"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_err err;
        ph_rc  rc = opens(rows[i].name, &err);
        CHECK_SAY(rc == rows[i].rc, "row %zu: %s %s", i, ph_rc_name(rc), err.msg);
        for (int k = 0; k < 3 && rows[i].part[k]; k++)
            CHECK_SAY(strstr(err.msg, rows[i].part[k]), "row %zu: %s", i, err.msg);
    }
}
