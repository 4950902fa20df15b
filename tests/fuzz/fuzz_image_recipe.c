/* seeds: tests/golden/preprocess/configs */
/* fuzz_image_recipe.c - a config that is accepted prepares any picture, in exactly the bytes that were
 * announced. */
#include "image/recipe.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void prepare(const ph_recipe *r, int w, int h) {
    static uint8_t rgb[3 * 40 * 40];
    ph_pixels      in = {w, h, rgb};
    ph_tiles       tiles;
    ph_arena       arena = {0};
    size_t         need;
    if (ph_recipe_bytes(&need, r, w, h, 0, NULL) || need > 8 << 20) return;
    if (ph_arena_open(&arena, need, NULL)) return;
    assert(!ph_recipe_run(&tiles, r, &in, 0, &arena, NULL) && arena.used == need);
    assert(tiles.layout.n_tiles > 0 && tiles.layout.width > 0 && tiles.layout.height > 0);
    ph_arena_close(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    ph_json_doc doc = {0};
    ph_json     none = {0};
    ph_recipe   r;
    ph_err      err = {0};
    if (ph_json_parse(&doc, bytes, n, "preprocessor_config.json", NULL)) return 0;
    ph_json root = ph_json_root(&doc);
    if (ph_recipe_init(&r, &root, &none, &root, &err))
        assert(err.msg[0] && !r.kind);
    else
        prepare(&r, 1, 40), prepare(&r, 33, 2), prepare(&r, 17, 19), prepare(&r, 40, 40);
    ph_json_close(&doc);
    return 0;
}
