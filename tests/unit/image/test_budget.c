/* test_budget.c - budgets of image tokens: kept by every picture, or refused with the range that is
 * permitted. */
#include "tests/unit/image/image_help.h"
#include "tests/unit/unit.h"

#include "image/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/image/tests.def"
#undef PH_TEST

typedef struct budget_case {
    const char *config;
    int         per_tile, per_row;
    int         is_free; /* any budget can be kept */
} budget_case;

static const budget_case cases[] = {
    {"{\"image_processor_type\": \"Qwen2VLImageProcessor\"}", 1, 0, 1},
    {"{\"image_processor_type\": \"Qwen2VLImageProcessor\", \"patch_size\": 16, \"min_pixels\": 3000}", 1, 0,
     1},
    {"{\"image_processor_type\": \"Idefics3ImageProcessor\"}", 64, 0, 0},
    {"{\"image_processor_type\": \"SmolVLMImageProcessor\", \"size\": {\"longest_edge\": 2048}, "
     "\"max_image_size\": {\"longest_edge\": 512}}",
     64, 0, 0},
    {"{\"image_processor_type\": \"Idefics3ImageProcessor\", \"size\": {\"longest_edge\": 99}, "
     "\"max_image_size\": {\"longest_edge\": 33}}",
     9, 0, 0},
    {"{\"image_processor_type\": \"GotOcr2ImageProcessor\", \"crop_to_patches\": true}", 256, 0, 0},
    {"{\"image_processor_type\": \"GotOcr2ImageProcessor\"}", 256, 0, 0},
    {"{\"image_processor_type\": \"LlavaNextImageProcessor\", \"size\": {\"shortest_edge\": 336}, "
     "\"crop_size\": 336}",
     576, 24, 0},
    {"{\"image_processor_type\": \"Gemma3ImageProcessor\", \"do_pan_and_scan\": true}", 256, 0, 0},
    {"{\"image_processor_type\": \"MllamaImageProcessor\"}", 1601, 0, 0},
    {"{\"image_processor_type\": \"CLIPImageProcessor\"}", 576, 0, 0},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static unsigned draw(unsigned *seed, unsigned below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static int read_recipe(ph_recipe *out, const char *text) {
    ph_json_doc doc = {0};
    ph_json     none = {0};
    ph_err      err = {0};
    ph_rc       rc = ph_json_parse(&doc, text, strlen(text), "preprocessor_config.json", &err);
    ph_json     root = ph_json_root(&doc);
    if (!rc) rc = ph_recipe_init(out, &root, &none, &none, &err);
    CHECK_SAY(!rc, "%s: %s", text, err.msg);
    ph_json_close(&doc);
    return !rc;
}

/* A canvas counts as a whole: the most that it can take. */
static int64_t tokens_of(const budget_case *c, const ph_tile_layout *l) {
    if (l->n_patches) return ph_tile_tokens(l);
    return (int64_t)l->n_tiles * c->per_tile + (c->per_row ? l->rows * c->per_row : 0);
}

static void held(const budget_case *c, const ph_recipe *r, const ph_budget *b, unsigned *seed) {
    ph_tile_layout l;
    ph_err         err = {0};
    for (int i = 0; i < 120; i++) {
        int w = 1 + (int)draw(seed, i & 1 ? 4000 : 60), h = 1 + (int)draw(seed, i & 2 ? 4000 : 60);
        if (i & 4) h = w;
        if (ph_recipe_layout(&l, r, w, h, &err)) continue; /* too long for the processor */
        int64_t n = tokens_of(c, &l);
        CHECK_SAY(n >= b->min && (!b->max || n <= b->max), "%s: %d x %d takes %lld of %d .. %d", c->config, w,
                  h, (long long)n, b->min, b->max);
    }
}

void test_budget_kept(void) {
    for (int i = 0; i < N_CASES; i++) {
        const budget_case *c = &cases[i];
        ph_recipe          own, r;
        unsigned           seed = (unsigned)i;
        int                n_kept = 0;
        if (!read_recipe(&own, c->config)) continue;
        for (int trial = 0; trial < 300; trial++) {
            int       top = 1 + (int)draw(&seed, trial & 1 ? 40u : 2000u) * c->per_tile / (trial & 2 ? 1 : 8);
            ph_budget b = {.per_tile = c->per_tile, .per_row = c->per_row, .max = trial % 3 ? top : 0};
            ph_err    err = {0};
            if (trial % 4 > 1 || !b.max) b.min = 1 + (int)draw(&seed, (unsigned)top);
            r = own;
            ph_rc rc = ph_recipe_budget(&r, &b, &err);
            if (rc) {
                CHECK_SAY(rc == PH_EUSAGE && strstr(err.msg, "image tokens"), "%s", err.msg);
                CHECK_SAY(!c->is_free, "%s: %d .. %d: %s", c->config, b.min, b.max, err.msg);
                CHECK(!memcmp(&r, &own, sizeof r));
                continue;
            }
            n_kept++;
            held(c, &r, &b, &seed);
        }
        CHECK_SAY(n_kept > 20, "%s: only %d budgets were kept", c->config, n_kept);
    }
}

static void refused(int at, int min, int max, const char *words) {
    const budget_case *c = &cases[at];
    const ph_budget    b = {.min = min, .max = max, .per_tile = c->per_tile, .per_row = c->per_row};
    ph_recipe          r;
    ph_err             err = {0};
    if (!read_recipe(&r, c->config)) return;
    CHECK(ph_recipe_budget(&r, &b, &err) == PH_EUSAGE);
    CHECK_SAY(strstr(err.msg, words), "\"%s\" lacks \"%s\"", err.msg, words);
}

void test_budget_refused(void) {
    refused(0, 9, 8, "at least 9 and at most 8");
    refused(2, 0, 63, "permitted are 64 and above");
    refused(3, 600, 0, "permitted are 1 .. 576");
    refused(3, 65, 130, "no number of this model's lies between");
    refused(5, 3500, 0, "permitted are 1 .. 3328");
    refused(6, 257, 0, "permitted are 1 .. 256");
    refused(7, 0, 1000, "permitted are 1752 and above");
    refused(8, 257, 0, "permitted are 1 .. 256");
    refused(9, 0, 6403, "permitted are 6404 and above");
    refused(10, 577, 0, "permitted are 1 .. 576");
    refused(10, 0, 575, "permitted are 576 and above");
}

/* What is run is what was laid out, with a smaller edge and as one tile. */
void test_budget_run(void) {
    static const int max[] = {64, 200, 330, 700}, want[] = {1, 1, 5, 7};
    ph_pixels        in;
    if (!ut_picture(&in, "noise:300x190:4")) return;
    for (size_t i = 0; i < sizeof max / sizeof *max; i++) {
        const ph_budget b = {.max = max[i], .per_tile = 64};
        ph_recipe       r;
        ph_tiles        tiles;
        ph_tile_layout  l;
        ph_arena        arena;
        ph_err          err = {0};
        if (!read_recipe(&r, cases[2].config) || ph_arena_open_growing(&arena, 1 << 16, &err)) continue;
        ph_rc rc = ph_recipe_budget(&r, &b, &err);
        if (!rc) rc = ph_recipe_layout(&l, &r, in.width, in.height, &err);
        if (!rc) rc = ph_recipe_run(&tiles, &r, &in, 1, &arena, &err);
        CHECK_SAY(!rc, "%d: %s", max[i], err.msg);
        if (!rc) {
            CHECK(tiles.layout.n_tiles == l.n_tiles && l.n_tiles * 64 <= max[i]);
            CHECK_SAY(l.n_tiles == want[i], "%d: %d tiles", max[i], l.n_tiles);
            const uint8_t *last = tiles.u8 + 3 * (size_t)l.width * (size_t)l.height * (size_t)(l.n_tiles - 1);
            int            spread = 0;
            for (int k = 0; k < 300; k++) spread |= last[k] ^ last[k + 300];
            CHECK(spread); /* the overview shows the noise */
        }
        ph_arena_close(&arena);
    }
    free(in.rgb);
}
