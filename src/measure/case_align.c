/* case_align.c - models that place texts and pictures side by side: recognised, and not run yet. */
#include "measure/case.h"

#include <stdio.h>

static int claims(const char *dir) {
    char golden[4096];
    snprintf(golden, sizeof golden, "%.4080s/golden", dir);
    return ph_golden_has(dir, "config.json") && ph_golden_json_has(golden, "manifest.json", "texts") &&
           !ph_golden_json_has(golden, "manifest.json", "cases");
}

static void run(ph_report *r, const char *dir) {
    ph_err err = {0};
    (void)dir;
    if (!ph_case_begin(r, "texts and pictures")) return;
    ph_case_skip(
        r,
        "models without a decoder are not run yet: similarity of texts and pictures comes in a later step");
    ph_case_end(r, PH_OK, &err);
}

const ph_case_kind ph_case_align = {"align", "similarity of texts and pictures", claims, run};
