/* seeds: tests/golden/formats/hf */
/* fuzz_json.c - whatever the bytes: an error, or a tree no deeper than allowed whose members are found by
 * key. */
#include "formats/json.h"

#include <stdlib.h>

/* Depth is bounded by the parser, so recursion here is bounded too. */
static void visit(const ph_json *j, int depth) {
    const char *key, *text;
    double      real;
    int64_t     whole;
    size_t      n;
    ph_json     value;
    if (depth > PH_JSON_DEPTH_MAX) abort();
    ph_json_kind kind = ph_json_kind_of(j);
    if ((kind == PH_JSON_TEXT) != !ph_json_to_text(j, &text, &n, NULL)) abort();
    if ((kind == PH_JSON_REAL || kind == PH_JSON_INT) != !ph_json_to_real(j, &real, NULL)) abort();
    if (kind == PH_JSON_INT && ph_json_to_int(j, &whole, NULL)) abort();
    for (ph_json_iter it = ph_json_members(j); ph_json_next(&it, &key, &value);) {
        ph_json found = ph_json_get(j, key);
        if (found.node != value.node) abort();
        visit(&value, depth + 1);
    }
    for (size_t i = 0; kind == PH_JSON_ARRAY && i < ph_json_count(j); i++) {
        value = ph_json_at(j, i);
        visit(&value, depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    ph_json_doc doc;
    if (!ph_json_parse(&doc, bytes, n, "fuzz", NULL)) {
        ph_json root = ph_json_root(&doc);
        visit(&root, 0);
    }
    ph_json_close(&doc);
    return 0;
}
