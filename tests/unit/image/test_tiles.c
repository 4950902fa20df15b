/* test_tiles.c - kinds of recipes that choose a grid: layouts by hand, configs that are refused, and the
 * bytes that were promised. */
#include "image/recipe.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static ph_rc recipe_of(ph_recipe *r, const char *text, ph_err *err) {
    ph_json_doc doc = {0};
    ph_json     none = {0};
    PH_TRY(ph_json_parse(&doc, text, strlen(text), "config", err));
    ph_json root = ph_json_root(&doc);
    ph_rc   rc = ph_recipe_init(r, &root, &none, &none, err);
    ph_json_close(&doc);
    return rc;
}

#define GEMMA  "\"image_processor_type\": \"Gemma3ImageProcessor\", \"size\": {\"height\": 8, \"width\": 8}"
#define INTERN "\"image_processor_type\": \"GotOcr2ImageProcessor\", \"size\": {\"height\": 8, \"width\": 8}"
#define NEXT                                                                                                 \
    "\"image_processor_type\": \"LlavaNextImageProcessor\", \"size\": {\"shortest_edge\": 8}, "              \
    "\"crop_size\": 8"
#define CROPS                                                                                                \
    ", \"do_pan_and_scan\": true, \"pan_and_scan_min_crop_size\": 4, \"pan_and_scan_max_num_crops\": 3"

void test_tiles_layout(void) {
    static const struct {
        const char *config;
        int         w, h, n, rows, cols, overview;
    } rows[] = {
        {"{" GEMMA "}", 90, 10, 1, 0, 0, 0},
        {"{" GEMMA CROPS "}", 20, 20, 1, 0, 0, 0},  /* square */
        {"{" GEMMA CROPS "}", 40, 20, 3, 1, 2, 0},  /* two crops */
        {"{" GEMMA CROPS "}", 20, 200, 4, 3, 1, 0}, /* ten wanted, three at most */
        {"{" GEMMA CROPS "}", 12, 3, 1, 0, 0, 0},   /* crops would be too small */
        {"{" INTERN "}", 90, 10, 1, 0, 0, 0},       /* not asked to crop */
        {"{" INTERN ", \"crop_to_patches\": true, \"max_patches\": 6}", 100, 100, 5, 2, 2, 4},
        {"{" INTERN ", \"crop_to_patches\": true, \"max_patches\": 6}", 4, 4, 1, 0, 0,
         0}, /* too few pixels */
        {"{" INTERN ", \"crop_to_patches\": true, \"max_patches\": 6}", 300, 10, 7, 1, 6, 6},
        {"{" INTERN ", \"crop_to_patches\": true, \"max_patches\": 1}", 300, 10, 1, 0, 0, 0},
        {"{" NEXT ", \"image_grid_pinpoints\": [[8, 16], [16, 8], [16, 16]]}", 30, 10, 3, 1, 2, 0},
        {"{" NEXT ", \"image_grid_pinpoints\": [[8, 16], [16, 8], [16, 16]]}", 10, 30, 3, 2, 1, 0},
        {"{" NEXT ", \"image_grid_pinpoints\": [[8, 16], [16, 8], [16, 16]]}", 30, 30, 5, 2, 2, 0},
        {"{" NEXT ", \"image_grid_pinpoints\": [[8, 8]]}", 1, 1, 2, 1, 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_recipe      r;
        ph_tile_layout l = {0};
        ph_err         e = {0};
        ph_rc          rc = recipe_of(&r, rows[i].config, &e);
        if (!rc) rc = ph_recipe_layout(&l, &r, rows[i].w, rows[i].h, &e);
        CHECK_SAY(!rc, "row %zu: %s", i, e.msg);
        CHECK_SAY(l.n_tiles == rows[i].n && l.rows == rows[i].rows && l.cols == rows[i].cols &&
                      l.overview == rows[i].overview,
                  "row %zu: %d tiles, %d x %d, overview %d", i, l.n_tiles, l.rows, l.cols, l.overview);
    }
}

void test_tiles_refused(void) {
    static const struct {
        const char *config;
        ph_rc       rc;
    } rows[] = {
        {"{\"image_processor_type\": \"Gemma3ImageProcessor\", \"size\": {\"shortest_edge\": 8}}",
         PH_EFORMAT},
        {"{" GEMMA ", \"do_pan_and_scan\": true, \"do_resize\": false}", PH_EUNSUP},
        {"{" GEMMA ", \"do_pan_and_scan\": true, \"pan_and_scan_max_num_crops\": 0}", PH_EFORMAT},
        {"{" GEMMA ", \"do_pan_and_scan\": true, \"pan_and_scan_min_crop_size\": 0}", PH_EFORMAT},
        {"{" INTERN ", \"max_patches\": 0}", PH_EFORMAT},
        {"{" INTERN ", \"max_patches\": 1000000}", PH_EFORMAT},
        {"{" NEXT ", \"image_grid_pinpoints\": []}", PH_EFORMAT},
        {"{" NEXT ", \"image_grid_pinpoints\": [[8]]}", PH_EFORMAT},
        {"{" NEXT ", \"image_grid_pinpoints\": [[8, 0]]}", PH_EFORMAT},
        {"{" NEXT ", \"image_grid_pinpoints\": [[8, 12]]}", PH_EFORMAT},
        {"{" NEXT ", \"image_grid_pinpoints\": 8}", PH_EFORMAT},
        {"{\"image_processor_type\": \"LlavaNextImageProcessor\", \"size\": {\"shortest_edge\": 8}, "
         "\"crop_size\": 16}",
         PH_EUNSUP},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_recipe r;
        ph_err    e = {0};
        ph_rc     rc = recipe_of(&r, rows[i].config, &e);
        CHECK_SAY(rc == rows[i].rc && e.msg[0], "row %zu: %s", i, e.msg);
    }
}

/* Strips and dots: as many bytes as were promised, and every pixel of every tile written. */
void test_tiles_bytes(void) {
    static const char *const configs[] = {"{" GEMMA CROPS "}", "{" INTERN ", \"crop_to_patches\": true}",
                                          "{" NEXT
                                          ", \"image_grid_pinpoints\": [[8, 16], [24, 8], [16, 16]]}"};
    static const int         sizes[][2] = {{1, 1}, {1, 300}, {300, 1}, {7, 13}, {64, 48}, {5, 16}};
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            ph_recipe r;
            ph_tiles  tiles;
            ph_arena  arena = {0};
            ph_err    e = {0};
            size_t    bytes = 0, n = 3 * (size_t)sizes[i][0] * (size_t)sizes[i][1];
            uint8_t  *rgb = malloc(n);
            CHECK(rgb && !recipe_of(&r, configs[c], &e));
            if (rgb) memset(rgb, 200, n);
            const ph_pixels in = {sizes[i][0], sizes[i][1], rgb};
            CHECK(!ph_recipe_bytes(&bytes, &r, in.width, in.height, 1, &e));
            CHECK(!ph_arena_open(&arena, bytes, &e));
            CHECK_SAY(!ph_recipe_run(&tiles, &r, &in, 1, &arena, &e), "config %zu, size %zu: %s", c, i,
                      e.msg);
            size_t whole = 0, tile = 3 * 64;
            for (size_t k = 0; k < tile; k++)
                whole += tiles.u8[(size_t)tiles.layout.overview * tile + k] == 200;
            CHECK_SAY(whole == tile, "config %zu, size %zu: %zu of %zu", c, i, whole, tile);
            ph_arena_close(&arena);
            free(rgb);
        }
}
