/* seeds: tests/golden/preprocess/configs */
/* fuzz_image_recipe.c - a config that is accepted prepares any picture, in exactly the bytes that were
 * announced. */
#include "image/recipe.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Every pixel value comes from a level of its own. */
static void check_sources(const ph_tile_layout *l) {
    size_t n = 3 * (size_t)l->n_tiles * (size_t)l->width * (size_t)l->height, step = n / 64 + 1;
    for (size_t i = 0; i < n; i += step) assert(ph_tile_source(l, i) < n);
    assert(ph_tile_source(l, 0) == 0 && ph_tile_source(l, n - 1) == n - 1);
}

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
    check_sources(&tiles.layout);
    ph_arena_close(&arena);
}

/* Three frames where a kind packs them, else a refusal. */
static void prepare_video(const ph_recipe *r) {
    static uint8_t  rgb[3 * 40 * 40];
    const ph_pixels in[3] = {{30, 20, rgb}, {30, 20, rgb}, {30, 20, rgb}};
    ph_tile_layout  l;
    ph_tiles        tiles;
    ph_arena        arena;
    if (ph_recipe_layout_video(&l, r, 30, 20, 3, 2, NULL)) return;
    assert(l.n_patches > 0 && l.is_video && l.n_tiles >= 3);
    if ((size_t)l.n_tiles * (size_t)l.width * (size_t)l.height > 1 << 18) return;
    if (ph_arena_open_growing(&arena, 1 << 16, NULL)) return;
    assert(!ph_recipe_run_video(&tiles, r, in, 3, 2, 0, &arena, NULL));
    check_sources(&l);
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
        prepare(&r, 1, 40), prepare(&r, 33, 2), prepare(&r, 17, 19), prepare(&r, 40, 40), prepare_video(&r);
    ph_json_close(&doc);
    return 0;
}
