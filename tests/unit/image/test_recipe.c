/* test_recipe.c - recipes against the slow reference processors, their sizes, and configs that are refused.
 */
#include "tests/unit/image/image_help.h"
#include "tests/unit/unit.h"

#include "image/recipe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ph_rc recipe_of(ph_recipe *out, const char *text, ph_err *err) {
    ph_json_doc doc = {0};
    ph_json     none = {0};
    ph_rc       rc = ph_json_parse(&doc, text, strlen(text), "preprocessor_config.json", err);
    ph_json     root = ph_json_root(&doc);
    if (!rc) rc = ph_recipe_init(out, &root, &none, &none, err);
    ph_json_close(&doc);
    return rc;
}

typedef struct want {
    int         n, h, w, rows, cols;
    unsigned    crc_u8, crc_f32;
    char        source[80];
    const char *config;
} want;

static void one_case(const want *c) {
    ph_recipe      r;
    ph_tiles       t = {0};
    ph_tile_layout l = {0};
    ph_pixels      in;
    ph_err         err = {0};
    ph_arena       arena = {0};
    size_t         need = 0;
    if (!ut_picture(&in, c->source)) return;
    CHECK_SAY(!recipe_of(&r, c->config, &err), "%s: %s", c->config, err.msg);
    CHECK_SAY(!ph_recipe_layout(&l, &r, in.width, in.height, &err), "%s: %s", c->config, err.msg);
    CHECK_SAY(l.n_tiles == c->n && l.height == c->h && l.width == c->w && l.rows == c->rows &&
                  l.cols == c->cols,
              "%d %d %d %d %d: %s", l.n_tiles, l.height, l.width, l.rows, l.cols, c->config);
    CHECK(!ph_recipe_bytes(&need, &r, in.width, in.height, 1, &err) && !ph_arena_open(&arena, need, &err));
    CHECK_SAY(!ph_recipe_run(&t, &r, &in, 1, &arena, &err), "%s: %s", c->config, err.msg);
    CHECK_SAY(arena.used == need, "%zu bytes, %zu were predicted", arena.used, need);
    if (t.pixels && !memcmp(&t.layout, &l, sizeof l)) {
        size_t k = 3 * (size_t)l.n_tiles * (size_t)l.width * (size_t)l.height;
        CHECK_SAY(ut_crc32(t.u8, k) == c->crc_u8, "u8: %s %s", c->source, c->config);
        CHECK_SAY(ut_crc32(t.pixels, k * sizeof(float)) == c->crc_f32, "f32: %s %s", c->source, c->config);
        CHECK(t.valid[0] == l.height && t.valid[2 * l.n_tiles - 1] == l.width);
    } else
        CHECK(0);
    ph_arena_close(&arena);
    free(in.rgb);
}

static void table_of_cases(const char *name, int at_least) {
    size_t   n;
    uint8_t *table = ut_slurp(PREPROCESS, name, &n);
    char    *at = (char *)table, *line;
    int      count = 0;
    while (table && (line = ut_line(&at))) {
        want c;
        int  text = 0;
        int  got = sscanf(line, "%d %d %d %d %d %x %x %79s %n", &c.n, &c.h, &c.w, &c.rows, &c.cols, &c.crc_u8,
                          &c.crc_f32, c.source, &text);
        c.config = line + text;
        CHECK_SAY(got == 8, "%s", line);
        if (got == 8) one_case(&c);
        count++;
    }
    CHECK(count >= at_least);
    free(table);
}

void test_recipe_noise(void) {
    table_of_cases("recipes.txt", 100);
}
void test_recipe_pipelines(void) {
    table_of_cases("pipelines.txt", 20);
}

void test_recipe_splitting(void) {
    size_t   n;
    uint8_t *table = ut_slurp(PREPROCESS, "splitting.txt", &n);
    char    *at = (char *)table, *line;
    int      count = 0;
    while (table && (line = ut_line(&at))) {
        int            h, w, longest, tile, ch, cw, tiles, rows, cols;
        char           config[200];
        ph_recipe      r;
        ph_tile_layout l = {0};
        if (sscanf(line, "%d %d %d %d %d %d %d %d %d", &h, &w, &longest, &tile, &ch, &cw, &tiles, &rows,
                   &cols) != 9) {
            CHECK_SAY(0, "%s", line);
            continue;
        }
        snprintf(config, sizeof config,
                 "{\"image_processor_type\":\"SmolVLMImageProcessorFast\",\"size\":{\"longest_edge\":%d},"
                 "\"max_image_size\":{\"longest_edge\":%d}}",
                 longest, tile);
        CHECK(!recipe_of(&r, config, NULL) && !ph_recipe_layout(&l, &r, w, h, NULL));
        CHECK_SAY(l.resized_height == ch && l.resized_width == cw && l.n_tiles == tiles && l.rows == rows &&
                      l.cols == cols && l.overview == tiles - 1 && l.height == tile && l.width == tile,
                  "%s: %d x %d, %d tiles %d x %d", line, l.resized_height, l.resized_width, l.n_tiles, l.rows,
                  l.cols);
        count++;
    }
    CHECK(count > 100);
    free(table);
}

void test_recipe_refused(void) {
    size_t   n;
    uint8_t *table = ut_slurp(PREPROCESS, "bad.txt", &n);
    char    *at = (char *)table, *line;
    int      count = 0;
    while (table && (line = ut_line(&at))) {
        char          *config = strchr(line, '\t'), *words = config ? strchr(config + 1, '\t') : NULL;
        ph_recipe      r;
        ph_tile_layout l;
        ph_err         err = {0};
        CHECK_SAY(words, "%s", line);
        if (!words) continue;
        *config++ = *words++ = 0;
        ph_rc rc = recipe_of(&r, config, &err);
        if (!rc) rc = ph_recipe_layout(&l, &r, 100, 90, &err);
        CHECK_SAY(!strcmp(ph_rc_name(rc), line), "%s: %s %s", config, ph_rc_name(rc), err.msg);
        CHECK_SAY(strstr(err.msg, words), "%s: \"%s\" lacks \"%s\"", config, err.msg, words);
        count++;
    }
    CHECK(count > 15);
    free(table);
}

/* No picture size leads to an empty tile or a fault, only to tiles or to a limit. */
void test_recipe_extremes(void) {
    static const int         sides[] = {1, 2, 3, 55, 4096, 65535, 1000000, 100000000};
    static const char *const configs[] = {
        "{\"image_processor_type\":\"CLIPImageProcessor\"}",
        "{\"image_processor_type\":\"CLIPImageProcessor\",\"do_center_crop\":false}",
        "{\"image_processor_type\":\"LlavaImageProcessor\",\"do_pad\":true}",
        "{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"height\":1,\"width\":7}}",
        "{\"image_processor_type\":\"SmolVLMImageProcessor\"}",
        "{\"image_processor_type\":\"SmolVLMImageProcessor\",\"do_resize\":false}",
        "{\"image_processor_type\":\"SmolVLMImageProcessor\",\"do_image_splitting\":false}",
    };
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++)
        for (int i = 0; i < 64; i++) {
            int            w = sides[i / 8], h = sides[i % 8];
            ph_recipe      r;
            ph_tile_layout l;
            size_t         bytes;
            CHECK(!recipe_of(&r, configs[c], NULL));
            ph_rc rc = ph_recipe_layout(&l, &r, w, h, NULL);
            CHECK(rc == PH_ELIMIT || (!rc && l.width > 0 && l.height > 0 && l.n_tiles > 0 &&
                                      l.resized_width > 0 && l.resized_height > 0));
            CHECK(rc == ph_recipe_bytes(&bytes, &r, w, h, 0, NULL));
        }
}

/* From a GGUF vision file: the same recipe as from the checkpoint's own configs. */
void test_recipe_params(void) {
    ph_recipe_params p = {.projector = "idefics3",
                          .image_size = 512,
                          .patch_size = 16,
                          .mean = {0.5, 0.5, 0.5},
                          .std = {0.5, 0.5, 0.5}};
    ph_recipe        r, q;
    ph_err           err = {0};
    CHECK(!ph_recipe_init_from_params(&r, &p, &err));
    CHECK(!recipe_of(&q,
                     "{\"image_processor_type\":\"Idefics3ImageProcessor\",\"size\":{\"longest_edge\":2048},"
                     "\"max_image_size\":{\"longest_edge\":512}}",
                     &err));
    q.image_size = 512, q.patch_size = 16;
    CHECK(!memcmp(&r, &q, sizeof r));
    p.projector = "mlp", p.image_size = 336, p.patch_size = 14, p.pad_to_square = 1;
    CHECK(!ph_recipe_init_from_params(&r, &p, &err));
    CHECK(!strcmp(r.processor, "LlavaImageProcessor") && r.do_pad && r.size.shortest_edge == 336 &&
          r.crop_width == 336);
    p.patch_size = 0;
    CHECK(ph_recipe_init_from_params(&r, &p, &err) == PH_EFORMAT && strstr(err.msg, "patch size 0"));
    p.patch_size = 14, p.std[1] = 0;
    CHECK(ph_recipe_init_from_params(&r, &p, &err) == PH_EFORMAT);
    p.projector = "resampler";
    CHECK(ph_recipe_init_from_params(&r, &p, &err) == PH_EUNSUP && strstr(err.msg, "idefics3"));
}

/* What only some kinds take from there: canvases, numbers of tiles, areas, how videos are sampled. */
void test_recipe_params_of_kinds(void) {
    ph_recipe_params p = {.projector = "mlp",
                          .image_size = 56,
                          .patch_size = 14,
                          .n_pinpoints = 2,
                          .pinpoint = {{56, 112}, {168, 56}},
                          .mean = {0.5, 0.5, 0.5},
                          .std = {0.5, 0.5, 0.5}};
    ph_recipe        r, q;
    ph_err           err = {0};
    CHECK(!ph_recipe_init_from_params(&r, &p, &err));
    CHECK(!strcmp(r.processor, "LlavaNextImageProcessor") && r.n_pinpoints == 2 && r.pinpoint[0][0] == 112 &&
          r.pinpoint[0][1] == 56 && r.pinpoint[1][0] == 56 && r.pinpoint[1][1] == 168);
    q = r, q.pinpoint[1][0] = 112;
    CHECK(ph_recipe_same(&r, &r) && !ph_recipe_same(&r, &q));
    p.projector = "internvl";
    CHECK(ph_recipe_init_from_params(&r, &p, &err) == PH_EUNSUP && strstr(err.msg, "known are mlp"));
    p.n_pinpoints = 0;
    CHECK(!ph_recipe_init_from_params(&r, &p, &err) && r.do_split && r.tiles_min == 1 && r.tiles_max == 12);
    p.tiles_min = p.tiles_max = 1;
    CHECK(!ph_recipe_init_from_params(&q, &p, &err) && q.tiles_max == 1 && !ph_recipe_same(&r, &q));
    r = q, r.do_split = 0, r.tiles_max = 12; /* one tile, said otherwise */
    CHECK(ph_recipe_same(&r, &q));
    p.projector = "qwen2vl_merger", p.image_size = 560, p.min_pixels = 784, p.max_pixels = 7840, p.merge = 4;
    CHECK(!ph_recipe_init_from_params(&r, &p, &err) && r.pack_merge == 4 && r.pack_patch == 14);
    p.is_video = 1, p.frames_max = 9, p.fps = 0.5;
    CHECK(!ph_recipe_init_from_params(&q, &p, &err) && q.frames_max == 9 && q.size.longest_edge == 7840);
    CHECK(!strcmp(q.processor, "Qwen2VLVideoProcessor") && fabs(q.mean[0] - 0.5) < 1e-9 &&
          !ph_recipe_same(&r, &q));
    p.min_pixels = 8000;
    CHECK(ph_recipe_init_from_params(&q, &p, &err) == PH_EFORMAT && strstr(err.msg, "at least 8000"));
}

/* The processor's config may hold the recipe; the tower's sizes come from the model's. */
void test_recipe_documents(void) {
    static const char outer[] =
        "{\"image_processor\":{\"image_processor_type\":\"CLIPImageProcessorFast\",\"size\":30},"
        "\"patch_size\":7}";
    static const char model[] = "{\"vision_config\":{\"image_size\":28,\"patch_size\":14}}";
    ph_json_doc       a = {0}, b = {0};
    ph_json           none = {0};
    ph_recipe         r;
    ph_err            err = {0};
    CHECK(!ph_json_parse(&a, outer, sizeof outer - 1, "processor_config.json", &err));
    CHECK(!ph_json_parse(&b, model, sizeof model - 1, "config.json", &err));
    ph_json outer_root = ph_json_root(&a), model_root = ph_json_root(&b);
    CHECK_SAY(!ph_recipe_init(&r, &none, &outer_root, &model_root, &err), "%s", err.msg);
    CHECK(r.size.shortest_edge == 30 && r.image_size == 28 && r.patch_size == 14);
    CHECK(!ph_recipe_init(&r, &none, &outer_root, &none, &err) && r.patch_size == 7 && r.image_size == 0);
    CHECK(ph_recipe_init(&r, &none, &none, &model_root, &err) == PH_EFORMAT);
    ph_json_close(&a);
    ph_json_close(&b);
}
