/* seeds: tests/golden/recipes */
/* fuzz_recipe.c - whatever the bytes: an error, or rules whose types can be written, and a choice that fits
 * any row. */
#include "convert/recipe.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    ph_arena        arena = {0};
    ph_recipe_types r = {.has_type = 1, .type = PH_Q3_K, .is_quantize = 1};
    if (ph_arena_open_growing(&arena, 1 << 14, NULL)) return 0;
    if (!ph_recipe_types_read(&r, bytes, n, "fuzz", &arena, NULL)) {
        for (size_t i = 0; i < r.n; i++) {
            ph_dtype t = r.rule[i].type;
            if (!r.rule[i].is_keep && t != PH_RECIPE_INT8 && !ph_dtype_get(t)->pack) abort();
            if (!ph_recipe_matches("*", r.rule[i].pattern)) abort();
        }
        for (int64_t row = 30; row < 513; row += 1 + row / 2) {
            int           fell_back;
            ph_recipe_ask ask = {.name = "blk.0.ffn_down.weight", .stored = PH_F32, .rank = 2, .row = row};
            ph_dtype      t = ph_recipe_choose(&r, &ask, &fell_back);
            if (row % (int64_t)ph_dtype_block(t)) abort();
        }
    }
    ph_arena_close(&arena);
    return 0;
}
