/* test_packed.c - pictures and videos that become packed patches: where each value comes from, sizes,
 * refusals. The pixels themselves are compared with the reference's in tests/golden/set. */
#include "tests/unit/image/image_help.h"
#include "tests/unit/unit.h"

#include "image/recipe.h"

#include <stdlib.h>
#include <string.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/image/tests.def"
#undef PH_TEST

static ph_rc recipe_of(ph_recipe *out, const char *text, ph_err *err) {
    ph_json_doc doc = {0};
    ph_json     none = {0};
    ph_rc       rc = ph_json_parse(&doc, text, strlen(text), "preprocessor_config.json", err);
    ph_json     root = ph_json_root(&doc);
    if (!rc) rc = ph_recipe_init(out, &root, &none, &none, err);
    ph_json_close(&doc);
    return rc;
}

static const char small[] =
    "{\"image_processor_type\":\"Qwen2VLImageProcessor\",\"patch_size\":3,\"merge_size\":2,"
    "\"temporal_patch_size\":2,\"min_pixels\":100,\"max_pixels\":600}";
static const char film[] =
    "{\"video_processor_type\":\"Qwen2VLVideoProcessor\",\"patch_size\":3,\"merge_size\":2,"
    "\"temporal_patch_size\":2,\"size\":{\"shortest_edge\":100,\"longest_edge\":600}}";

static uint8_t *noise(int n, unsigned seed) {
    uint8_t *p = malloc((size_t)n);
    for (int i = 0; i < n; i++) p[i] = (uint8_t)((seed = seed * 1103515245u + 12345u) >> 16);
    return p;
}

/* The reference's own order, axis by axis: [t, h/m, w/m, m, m, channel, frame, y, x]. */
static void check_order(const ph_tiles *t, const ph_recipe *r) {
    const ph_tile_layout *l = &t->layout;
    size_t                i = 0, wrong = 0;
    int                   m = l->merge, p = l->patch;
    for (int gt = 0; gt < l->grid_t; gt++)
        for (int patch = 0; patch < l->grid_h * l->grid_w; patch++)
            for (int c = 0; c < 3; c++)
                for (int f = 0; f < l->temporal; f++)
                    for (int y = 0; y < p; y++)
                        for (int x = 0; x < p; x++, i++) {
                            int    square = patch / (m * m), within = patch % (m * m), across = l->grid_w / m;
                            int    row = (square / across * m + within / m) * p + y;
                            int    col = (square % across * m + within % m) * p + x;
                            size_t at = (((size_t)(gt * l->temporal + f) * (size_t)l->height + (size_t)row) *
                                             (size_t)l->width +
                                         (size_t)col) *
                                            3 +
                                        (size_t)c;
                            double v = ((double)t->u8[at] * r->rescale_factor - r->mean[c]) / r->std[c];
                            double off = v - (double)t->pixels[i];
                            wrong += ph_tile_source(l, i) != at || off > 1e-5 || off < -1e-5;
                        }
    CHECK_SAY(!wrong && i == (size_t)l->n_patches * 3 * (size_t)(l->temporal * p * p), "%zu of %zu", wrong,
              i);
}

void test_packed_order(void) {
    ph_recipe r;
    ph_err    err = {0};
    uint8_t  *rgb = noise(3 * 31 * 22, 3);
    ph_arena  arena;
    ph_tiles  t;
    size_t    need;
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, &err));
    CHECK_SAY(!recipe_of(&r, small, &err), "%s", err.msg);
    CHECK(!ph_recipe_run(&t, &r, &(ph_pixels){31, 22, rgb}, 1, &arena, &err));
    CHECK(t.layout.grid_t == 1 && t.layout.grid_h == 6 && t.layout.grid_w == 8 && t.layout.n_patches == 48 &&
          ph_tile_tokens(&t.layout) == 12 && t.layout.n_tiles == 2 && !t.layout.is_video);
    check_order(&t, &r);
    size_t frame = 3 * (size_t)t.layout.width * (size_t)t.layout.height;
    CHECK(!memcmp(t.u8, t.u8 + frame, frame)); /* a still picture is shown twice */
    CHECK(!ph_recipe_bytes(&need, &r, 31, 22, 1, &err) && need == arena.used);
    ph_arena_close(&arena);
    free(rgb);
}

void test_packed_video(void) {
    ph_recipe r;
    ph_err    err = {0};
    ph_arena  arena;
    ph_tiles  t;
    ph_pixels frame[3];
    for (int i = 0; i < 3; i++) frame[i] = (ph_pixels){31, 22, noise(3 * 31 * 22, 7 + (unsigned)i)};
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, &err));
    CHECK_SAY(!recipe_of(&r, film, &err), "%s", err.msg);
    CHECK(!ph_recipe_run_video(&t, &r, frame, 3, 4, 1, &arena, &err));
    CHECK(t.layout.grid_t == 2 && t.layout.n_tiles == 4 && t.layout.n_patches == 96 && t.layout.is_video);
    CHECK(t.layout.grid_seconds > 0.499 && t.layout.grid_seconds < 0.501);
    check_order(&t, &r);
    size_t bytes = 3 * (size_t)t.layout.width * (size_t)t.layout.height;
    CHECK(!memcmp(t.u8 + 2 * bytes, t.u8 + 3 * bytes, bytes)); /* the last frame fills the group */
    CHECK(memcmp(t.u8, t.u8 + bytes, bytes) && memcmp(t.u8 + bytes, t.u8 + 2 * bytes, bytes));
    frame[2].width = 30;
    CHECK(ph_recipe_run_video(&t, &r, frame, 3, 4, 1, &arena, &err) == PH_EFORMAT &&
          strstr(err.msg, "frame 3"));
    frame[2].width = 31;
    ph_arena_close(&arena);
    for (int i = 0; i < 3; i++) free(frame[i].rgb);
}

/* Sizes by the reference's smart_resize at a factor of 28: ties to even, bounds of the area. */
void test_packed_sizes(void) {
    static const int row[][6] = {
        /* height, width, min_pixels, max_pixels; resized height, width */
        {70, 98, 3136, 12845056, 56, 112},
        {42, 126, 3136, 12845056, 56, 112},
        {100, 200, 3136, 12845056, 112, 196},
        {1080, 1920, 3136, 1003520, 728, 1316},
        {4000, 3000, 3136, 12845056, 4004, 2996},
        {5, 900, 3136, 12845056, 28, 756},
        {1, 1, 3136, 9408, 56, 56},
        {200, 1, 3136, 9408, 812, 28},
        {56, 56, 3136, 3136, 56, 56},
        {57, 1000, 3136, 9408, 28, 392},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char           text[160];
        ph_recipe      r;
        ph_tile_layout l = {0};
        snprintf(
            text, sizeof text,
            "{\"image_processor_type\":\"Qwen2VLImageProcessorFast\",\"min_pixels\":%d,\"max_pixels\":%d}",
            row[i][2], row[i][3]);
        CHECK(!recipe_of(&r, text, NULL) && !ph_recipe_layout(&l, &r, row[i][1], row[i][0], NULL));
        CHECK_SAY(l.height == row[i][4] && l.width == row[i][5] &&
                      l.n_patches == l.height / 14 * (l.width / 14),
                  "%d x %d: %d x %d", row[i][0], row[i][1], l.height, l.width);
    }
}

void test_packed_refused(void) {
    static const struct {
        const char *config;
        int         w, h;
        ph_rc       rc;
        const char *words;
    } row[] = {
        {"\"min_pixels\":100,\"max_pixels\":99", 1, 1, PH_EFORMAT, "at least 100 and at most 99 pixels"},
        {"\"patch_size\":0", 1, 1, PH_EFORMAT, "patch_size"},
        {"\"merge_size\":\"2\"", 1, 1, PH_EFORMAT, "merge_size"},
        {"\"temporal_patch_size\":99", 1, 1, PH_EFORMAT, "temporal_patch_size"},
        {"\"size\":{\"longest_edge\":-1}", 1, 1, PH_EFORMAT, "longest_edge"},
        {"\"do_resize\":false", 30, 28, PH_EFORMAT, "30 x 28 is no multiple of 28, and do_resize is false"},
        {"\"max_pixels\":3136", 201, 1, PH_ELIMIT, "more than 200 times as long"},
        {"\"max_pixels\":1073741824,\"min_pixels\":1073741824", 9, 9, PH_ELIMIT, "the limit is"},
        {"\"patch_size\":14", 200, 1, PH_OK, ""},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char           text[256];
        ph_recipe      r;
        ph_tile_layout l;
        ph_err         err = {0};
        snprintf(text, sizeof text, "{\"image_processor_type\":\"Qwen2VLImageProcessor\",%s}", row[i].config);
        ph_rc rc = recipe_of(&r, text, &err);
        if (!rc) rc = ph_recipe_layout(&l, &r, row[i].w, row[i].h, &err);
        CHECK_SAY(rc == row[i].rc && (!rc || strstr(err.msg, row[i].words)), "%s: %s %s", row[i].config,
                  ph_rc_name(rc), err.msg);
    }
    ph_recipe      clip;
    ph_tile_layout l;
    ph_err         err = {0};
    CHECK(!recipe_of(&clip, "{\"image_processor_type\":\"CLIPImageProcessor\"}", &err));
    CHECK(ph_recipe_layout_video(&l, &clip, 9, 9, 2, 0, &err) == PH_EUNSUP && strstr(err.msg, "no videos"));
}

/* By qwen_vl_utils' smart_nframes and torch.linspace(0, total - 1, n).round(). */
void test_packed_sampling(void) {
    static const struct {
        int    total;
        double fps, wanted;
        int    most, want;
    } rows[] = {
        {30, 10, 0, 0, 6},  {300, 30, 0, 0, 20},     {7, 30, 0, 0, 4},       {3, 30, 0, 0, 2},
        {1, 30, 0, 0, 1},   {100000, 25, 0, 0, 768}, {300, 30, 1, 0, 10},    {300, 30, 0, 7, 6},
        {300, 30, 0, 1, 2}, {9, 0, 0, 0, 8},         {301, 29.97, 0, 0, 20}, {1000, 24, 0, 64, 64},
        {5, 30, 50, 0, 4},  {11, 10, 1e9, 0, 10},
    };
    static const int of30[] = {0, 6, 12, 17, 23, 29}, of7[] = {0, 2, 4, 6}, of4[] = {0, 2, 3}, of1[] = {0};
    ph_recipe        r;
    ph_err           err = {0};
    if (recipe_of(&r, "{\"video_processor_type\": \"Qwen2VLVideoProcessor\", \"fps\": null}", &err)) CHECK(0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int n = 0;
        CHECK(!ph_recipe_sample(&n, &r, rows[i].total, rows[i].fps, rows[i].wanted, rows[i].most, &err));
        CHECK_SAY(n == rows[i].want, "%d frames at %g: %d, expected %d", rows[i].total, rows[i].fps, n,
                  rows[i].want);
    }
    for (int i = 0; i < 6; i++) CHECK(ph_recipe_sampled(i, 6, 30) == of30[i]);
    for (int i = 0; i < 4; i++) CHECK(ph_recipe_sampled(i, 4, 7) == of7[i]);
    for (int i = 0; i < 3; i++)
        CHECK(ph_recipe_sampled(i, 3, 4) == of4[i]); /* a tie goes to the even frame */
    CHECK(ph_recipe_sampled(0, 1, 1) == of1[0]);
    for (int n = 1; n < 300; n += 7)
        for (int i = 0, last = -1; i < n; i++) {
            int at = ph_recipe_sampled(i, n, 300);
            CHECK(at > last && at < 300);
            last = at;
        }
    if (recipe_of(&r, "{\"image_processor_type\": \"CLIPImageProcessor\"}", &err)) CHECK(0);
    int n;
    CHECK(ph_recipe_sample(&n, &r, 30, 10, 0, 0, &err) == PH_EUNSUP);
    CHECK(recipe_of(&r, "{\"video_processor_type\": \"Qwen2VLVideoProcessor\", \"fps\": -1}", &err) ==
          PH_EFORMAT);
}
