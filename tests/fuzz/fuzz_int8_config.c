/* seeds: tests/golden/formats/hf */
/* fuzz_int8_config.c - whatever the bytes: an error, or a document that has quantization_config and, beside
 * it, as many members as before. */
#include "convert/int8_config.h"
#include "formats/json.h"

#include <stdlib.h>
#include <string.h>

static size_t others(const ph_json *root) {
    ph_json q = ph_json_get(root, "quantization_config");
    return ph_json_count(root) - (ph_json_kind_of(&q) != PH_JSON_ABSENT);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char *const ignore[] = {"lm_head"};
    ph_arena                 arena = {0};
    ph_int8_config           c;
    ph_json_doc              before = {0}, after = {0};
    if (ph_arena_open_growing(&arena, 1 << 14, NULL)) return 0;
    int is_json = !ph_json_parse(&before, bytes, n, "fuzz", NULL);
    if (!ph_int8_config_make(&c, (const char *)bytes, n, ignore, 1, &arena, NULL)) {
        if (ph_json_parse(&after, c.text, c.n, "fuzz", NULL)) abort();
        ph_json root = ph_json_root(&after), was = ph_json_root(&before),
                q = ph_json_get(&root, "quantization_config");
        if (ph_json_kind_of(&q) != PH_JSON_OBJECT) abort();
        if (is_json && others(&root) != others(&was)) abort();
    }
    ph_json_close(&before);
    ph_json_close(&after);
    ph_arena_close(&arena);
    return 0;
}
