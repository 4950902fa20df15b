/* case_preprocess.c - resized pictures, whole image processors, and the arithmetic of their sizes.
 *
 *     resize.json        one picture, one filter, one size         exact
 *     pipelines.json     a picture through a processor's config    exact before rescaling
 *     size_tables.json   many sizes through one rule, one case a table
 *
 * Pictures stand in ../images beside the folder; alpha is dropped, as the trainers' loaders drop it.
 */
#include "measure/case.h"

#include "base/file.h"
#include "image/recipe.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int claims(const char *dir) {
    return ph_golden_json_has(dir, "resize.json", "cases") ||
           ph_golden_json_has(dir, "pipelines.json", "cases") || ph_golden_has(dir, "size_tables.json");
}

typedef struct bench {
    ph_report  *r;
    const char *dir;
    char        images[4096];
    ph_tensors resized, piped, decoded; /* decoded: another decoder's pixels of the pictures; may be zeroed */
    ph_arena   arena;                   /* reset for each case */
} bench;

/* A picture that loses in coding is taken from the reference's pixels where there are some. */
static int take_decoded(bench *b, const char *name, ph_pixels *out) {
    char        key[512];
    const char *dot = strrchr(name, '.');
    if (!dot || (strcmp(dot, ".jpg") && strcmp(dot, ".jpeg"))) return 0;
    snprintf(key, sizeof key, "%.400s/rgb_exif_transposed", name);
    const ph_weight *w = ph_weights_find(&b->decoded.file.weights, key);
    snprintf(key, sizeof key, "%.400s/rgb", name);
    if (!w) w = ph_weights_find(&b->decoded.file.weights, key);
    if (!w || w->rank != 3 || w->dim[2] != 3 || w->dtype != PH_U8 || !w->n_bytes) return 0;
    void *at;
    if (ph_arena_carve(&b->arena, &at, w->n_bytes, 1, NULL)) return 0;
    memcpy(at, w->bytes, w->n_bytes);
    *out = (ph_pixels){.width = (int)w->dim[1], .height = (int)w->dim[0], .rgb = at};
    return 1;
}

static ph_rc open_picture(bench *b, const char *name, ph_pixels *out, ph_err *err) {
    const ph_image_options how = {.alpha = PH_ALPHA_DROP};
    ph_file                f;
    if (take_decoded(b, name, out)) return PH_OK;
    PH_TRY(ph_file_open_in(&f, b->images, name, err));
    ph_rc rc = ph_image_decode(out, f.bytes, f.n, &how, &b->arena, err);
    ph_file_close(&f);
    return rc;
}

/* ---- resize.json ---- */

static int find_filter(const char *name, ph_filter *out) {
    for (int f = 0; f < PH_N_FILTERS; f++)
        if (!strcmp(name, ph_filter_name((ph_filter)f))) {
            *out = (ph_filter)f;
            return 1;
        }
    return 0;
}

static ph_rc check_resize(bench *b, const ph_json *item, const char *image, const char *filter_name,
                          ph_err *err) {
    ph_pixels        in, out;
    ph_filter        filter;
    int              w, h;
    const char      *name;
    const ph_weight *ref;
    PH_TRY(ph_json_text(item, "tensor", &name, err));
    PH_TRY(ph_json_size(item, "out_w", 1, PH_RECIPE_SIDE_MAX, &w, err));
    PH_TRY(ph_json_size(item, "out_h", 1, PH_RECIPE_SIDE_MAX, &h, err));
    PH_TRY(ph_tensors_get(&b->resized, &ref, name, err));
    if (!find_filter(filter_name, &filter))
        return PH_FAIL(err, PH_EFORMAT, "no filter is called %s", filter_name);
    PH_TRY(open_picture(b, image, &in, err));
    PH_TRY(ph_pixels_resize(&out, &in, w, h, filter, &b->arena, err));
    size_t n = (size_t)w * (size_t)h;
    if (ph_ref_count(ref) == n) { /* a gray picture: ours has three equal channels */
        for (size_t i = 0; i < n; i++) out.rgb[i] = out.rgb[3 * i];
    } else {
        n *= 3;
    }
    PH_TRY(ph_same_count(n, ref, err));
    ph_figure(b->r, ph_gap_bytes(out.rgb, n, ref, 0).diff, 0, "levels apart");
    return PH_OK;
}

static void each_resize(bench *b, const ph_json *cases) {
    for (size_t i = 0; i < ph_json_count(cases); i++) {
        ph_err      err = {0};
        ph_json     item = ph_json_at(cases, i);
        const char *op = "", *image = "", *filter = "", *tensor = "";
        ph_arena_reset(&b->arena);
        ph_rc rc = ph_json_text(&item, "op", &op, &err);
        if (!rc) rc = ph_json_text_or(&item, "image", "", &image, &err);
        if (!rc) rc = ph_json_text_or(&item, "filter", "", &filter, &err);
        if (!rc) rc = ph_json_text_or(&item, "tensor", "", &tensor, &err);
        if (!rc && !*tensor && *image) continue; /* a remark on another library: no pixels are stored */
        if (!ph_case_begin(b->r, "resize %s", *tensor ? tensor : op)) continue;
        if (!rc && !*image)
            rc = ph_case_interpolate(b->r, &b->resized, &item, op, &b->arena, &err);
        else if (!rc)
            rc = check_resize(b, &item, image, filter, &err);
        ph_case_end(b->r, rc, &err);
    }
}

/* ---- pipelines.json ---- */

/* Levels as processors lay pixels out. */
static void laid_out(uint8_t *to, const ph_tiles *t, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = t->u8[ph_tile_source(&t->layout, i)];
}

static ph_rc compare_valid(bench *b, const ph_json *valid, const ph_tiles *t, ph_err *err) {
    size_t   n;
    int32_t *ids;
    size_t   most = (size_t)t->layout.n_tiles;
    void    *at;
    if (ph_json_count(valid) != most)
        return PH_FAIL(err, PH_EMISMATCH, "ours are %zu tiles, the reference's %zu", most,
                       ph_json_count(valid));
    PH_TRY(ph_arena_carve(&b->arena, &at, 2 * most, sizeof(int32_t), err));
    for (size_t i = 0; i < most; i++) {
        ph_json pair = ph_json_at(valid, i);
        PH_TRY(ph_golden_ids(&b->arena, &pair, &ids, &n, err));
        if (n != 2) return PH_FAIL(err, PH_EFORMAT, "%s: not a height and a width", pair.where);
        memcpy((int32_t *)at + 2 * i, ids, 2 * sizeof *ids);
    }
    ph_figure_ids(b->r, t->valid, 2 * most, at, 2 * most, "valid height and width");
    return PH_OK;
}

static ph_rc check_pixels(bench *b, const ph_json *item, const ph_tiles *t, ph_err *err) {
    const ph_weight *ref;
    const char      *name;
    void            *at;
    size_t           n = 3 * (size_t)t->layout.n_tiles * (size_t)t->layout.height * (size_t)t->layout.width;
    if (ph_json_has(item, "tensor_u8")) {
        PH_TRY(ph_json_text(item, "tensor_u8", &name, err));
        PH_TRY(ph_tensors_get(&b->piped, &ref, name, err));
        PH_TRY(ph_same_count(n, ref, err));
        PH_TRY(ph_arena_carve(&b->arena, &at, n, 1, err));
        laid_out(at, t, n);
        ph_figure(b->r, ph_gap_bytes(at, n, ref, 0).diff, 0, "levels apart before rescaling");
    }
    if (ph_json_has(item, "tensor")) {
        PH_TRY(ph_json_text(item, "tensor", &name, err));
        PH_TRY(ph_tensors_get(&b->piped, &ref, name, err));
        PH_TRY(ph_same_count(n, ref, err));
        ph_figure(b->r, ph_gap_floats(t->pixels, n, ref, 0).diff, 1e-5, "pixel values");
    }
    ph_json valid = ph_json_get(item, "pixel_attention_mask_valid_hw");
    return ph_json_kind_of(&valid) == PH_JSON_ARRAY ? compare_valid(b, &valid, t, err) : PH_OK;
}

/* pixel values = (u8 * rescale - mean) / std, in double, for every pixel. */
static void check_normalised(bench *b, const ph_recipe *recipe, const ph_tiles *t) {
    size_t n = 3 * (size_t)t->layout.height * (size_t)t->layout.width *
               (size_t)(t->layout.n_tiles - t->layout.n_blank);
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = ph_tile_source(&t->layout, i), c = at % 3;
        double v = t->u8[at];
        if (recipe->do_rescale) v *= recipe->rescale_factor;
        if (recipe->do_normalize) v = (v - recipe->mean[c]) / recipe->std[c];
        double diff = v - (double)t->pixels[i];
        if (diff < 0) diff = -diff;
        if (!(diff <= worst)) worst = diff;
    }
    ph_figure(b->r, worst, 1e-5, "pixel values from levels");
}

/* The class is a key of its own here; in a checkpoint it is part of the config. */
static ph_rc read_recipe(ph_recipe *out, const json_t *config, const char *processor, ph_err *err) {
    ph_json_doc doc = {0};
    ph_json     none = {0};
    json_t     *whole = json_copy((json_t *)(uintptr_t)config);
    if (whole && !json_object_get(whole, "image_processor_type"))
        json_object_set_new(whole, "image_processor_type", json_string(processor));
    char *text = whole ? json_dumps(whole, 0) : NULL;
    json_decref(whole);
    if (!text) return PH_FAIL(err, PH_EFORMAT, "the case has no config");
    ph_rc   rc = ph_json_parse(&doc, text, strlen(text), "config", err);
    ph_json root = ph_json_root(&doc);
    if (!rc) rc = ph_recipe_init(out, &root, &none, &none, err);
    ph_json_close(&doc);
    free(text);
    return rc;
}

static ph_rc check_pipeline(bench *b, const ph_json *item, const json_t *config, ph_err *err) {
    const char *processor, *image;
    ph_recipe   recipe;
    ph_pixels   pixels;
    ph_tiles    tiles;
    PH_TRY(ph_json_text(item, "hf_class", &processor, err));
    PH_TRY(ph_json_text(item, "image", &image, err));
    ph_rc rc = read_recipe(&recipe, config, processor, err);
    if (rc == PH_EUNSUP) {
        ph_case_skip(b->r, "%s", err->msg);
        return PH_OK;
    }
    PH_TRY(rc);
    PH_TRY(open_picture(b, image, &pixels, err));
    PH_TRY(ph_recipe_run(&tiles, &recipe, &pixels, 1, &b->arena, err));
    PH_TRY(check_pixels(b, item, &tiles, err));
    if (b->r->n_figures) check_normalised(b, &recipe, &tiles);
    return PH_OK;
}

static void each_pipeline(bench *b, const ph_json *cases, const json_t *same) {
    for (size_t i = 0; i < ph_json_count(cases); i++) {
        ph_err      err = {0};
        ph_json     item = ph_json_at(cases, i);
        const char *processor = "?", *image = "?";
        ph_arena_reset(&b->arena);
        ph_rc rc = ph_json_text(&item, "processor", &processor, &err);
        if (!rc) rc = ph_json_text(&item, "image", &image, &err);
        if (!ph_case_begin(b->r, "%s %s", processor, image)) continue;
        if (!rc) rc = check_pipeline(b, &item, json_object_get(json_array_get(same, i), "config"), &err);
        ph_case_end(b->r, rc, &err);
    }
}

/* ---- size_tables.json ---- */

/* A row of a table: our sizes beside the reference's. */
typedef ph_rc row_fn(ph_report *r, const ph_json *row, int *is_right, ph_err *err);

static ph_rc pair_is(const ph_json *row, const char *key, int first, int second, int *is_right, ph_err *err) {
    int64_t pair[2];
    size_t  n;
    PH_TRY(ph_json_ints(row, key, pair, 2, &n, err));
    *is_right &= n == 2 && pair[0] == first && pair[1] == second;
    return PH_OK;
}

/* A picture split into a grid of tiles and an overview, when its longest edge is scaled to `longest_edge`. */
static ph_rc split_row(ph_report *r, const ph_json *row, int *is_right, ph_err *err) {
    int            w, h, edge, tile, n_tiles, rows, cols;
    char           text[256];
    json_t        *config;
    ph_recipe      recipe;
    ph_tile_layout l;
    (void)r;
    PH_TRY(ph_json_size(row, "w", 1, 1 << 20, &w, err));
    PH_TRY(ph_json_size(row, "h", 1, 1 << 20, &h, err));
    PH_TRY(ph_json_size(row, "longest_edge", 1, PH_RECIPE_SIDE_MAX, &edge, err));
    PH_TRY(ph_json_size(row, "tile", 1, PH_RECIPE_SIDE_MAX, &tile, err));
    PH_TRY(ph_json_size(row, "n_tiles_with_global", 0, 1 << 20, &n_tiles, err));
    PH_TRY(ph_json_size_or(row, "rows", 0, 1 << 20, 0, &rows, err));
    PH_TRY(ph_json_size_or(row, "cols", 0, 1 << 20, 0, &cols, err));
    snprintf(text, sizeof text,
             "{\"size\": {\"longest_edge\": %d}, \"max_image_size\": {\"longest_edge\": %d}, "
             "\"do_image_splitting\": true}",
             edge, tile);
    config = json_loads(text, 0, NULL);
    ph_rc rc = read_recipe(&recipe, config, "Idefics3ImageProcessor", err);
    json_decref(config);
    PH_TRY(rc);
    PH_TRY(ph_recipe_layout(&l, &recipe, w, h, err));
    *is_right = l.n_tiles == n_tiles && l.rows == rows && l.cols == cols;
    /* With a grid the picture is stretched once more, to the canvas of whole tiles. */
    if (l.rows) return pair_is(row, "tiled_canvas", l.resized_height, l.resized_width, is_right, err);
    return PH_OK;
}

/* Both sides to multiples of a factor, the area within bounds. */
static ph_rc area_row(ph_report *r, const ph_json *row, int *is_right, ph_err *err) {
    int            w, h, factor, least, most;
    char           text[256];
    ph_recipe      recipe;
    ph_tile_layout l;
    (void)r;
    PH_TRY(ph_json_size(row, "w", 1, 1 << 20, &w, err));
    PH_TRY(ph_json_size(row, "h", 1, 1 << 20, &h, err));
    PH_TRY(ph_json_size(row, "factor", 2, 512, &factor, err));
    PH_TRY(ph_json_size(row, "min_pixels", 1, 1 << 30, &least, err));
    PH_TRY(ph_json_size(row, "max_pixels", 1, 1 << 30, &most, err));
    snprintf(text, sizeof text,
             "{\"min_pixels\": %d, \"max_pixels\": %d, \"patch_size\": %d, \"merge_size\": %d}", least, most,
             factor % 2 ? factor : factor / 2, factor % 2 ? 1 : 2);
    json_t *config = json_loads(text, 0, NULL);
    ph_rc   rc = read_recipe(&recipe, config, "Qwen2VLImageProcessor", err);
    json_decref(config);
    PH_TRY(rc);
    rc = ph_recipe_layout(&l, &recipe, w, h, err);
    ph_json out = ph_json_get(row, "out");
    if (ph_json_kind_of(&out) == PH_JSON_TEXT) { /* the reference's refusal */
        *is_right = rc == PH_ELIMIT;
        return PH_OK;
    }
    PH_TRY(rc);
    return pair_is(row, "out", l.height, l.width, is_right, err);
}

static ph_rc read_picture(const ph_json *row, int *w, int *h, ph_err *err) {
    PH_TRY(ph_json_size(row, "w", 1, 1 << 20, w, err));
    return ph_json_size(row, "h", 1, 1 << 20, h, err);
}

/* The layout of a w x h picture by a processor with this config; takes the reference to it. */
static ph_rc lay_out(const char *processor, json_t *config, int w, int h, ph_tile_layout *l, ph_err *err) {
    ph_recipe recipe;
    ph_rc     rc = read_recipe(&recipe, config, processor, err);
    json_decref(config);
    PH_TRY(rc);
    return ph_recipe_layout(l, &recipe, w, h, err);
}

/* The grid whose ratio is nearest to the picture's. */
static ph_rc tiled_row(ph_report *r, const ph_json *row, int *is_right, ph_err *err) {
    int            w, h, tile, least, most, rows, cols;
    ph_tile_layout l;
    (void)r;
    PH_TRY(read_picture(row, &w, &h, err));
    PH_TRY(ph_json_size(row, "tile", 1, PH_RECIPE_SIDE_MAX, &tile, err));
    PH_TRY(ph_json_size(row, "min_patches", 0, 1 << 20, &least, err));
    PH_TRY(ph_json_size(row, "max_patches", 1, 1 << 20, &most, err));
    PH_TRY(ph_json_size(row, "rows", 1, 1 << 20, &rows, err));
    PH_TRY(ph_json_size(row, "cols", 1, 1 << 20, &cols, err));
    json_t *config = json_pack("{s{si si} sb si si}", "size", "height", tile, "width", tile,
                               "crop_to_patches", 1, "min_patches", least, "max_patches", most);
    PH_TRY(lay_out("GotOcr2ImageProcessor", config, w, h, &l, err));
    *is_right = l.resized_height == rows * tile && l.resized_width == cols * tile;
    return PH_OK;
}

static int64_t common(int64_t a, int64_t b) {
    while (b > 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Canvases, and the largest tile that they are all made of. */
static ph_rc read_canvases(const ph_json *list, json_t *points, int64_t *side, ph_err *err) {
    int64_t pair[2];
    for (size_t i = 0; i < ph_json_count(list); i++) {
        ph_json item = ph_json_at(list, i);
        for (size_t k = 0; k < 2; k++) {
            ph_json one = ph_json_at(&item, k);
            PH_TRY(ph_json_to_int(&one, &pair[k], err));
            *side = common(*side, pair[k]);
        }
        json_array_append_new(points, json_pack("[I I]", (json_int_t)pair[0], (json_int_t)pair[1]));
    }
    return PH_OK;
}

/* The canvas of a list on which the picture keeps most of its pixels. */
static ph_rc canvas_row(ph_report *r, const ph_json *row, int *is_right, ph_err *err) {
    int            w, h;
    int64_t        side = 0;
    ph_tile_layout l;
    ph_json        list = ph_json_get(row, "pinpoints");
    (void)r;
    PH_TRY(read_picture(row, &w, &h, err));
    json_t *points = json_array();
    ph_rc   rc = read_canvases(&list, points, &side, err);
    json_t *config =
        json_pack("{s{sI} s{sI sI} so}", "size", "shortest_edge", (json_int_t)side, "crop_size", "height",
                  (json_int_t)side, "width", (json_int_t)side, "image_grid_pinpoints", points);
    if (rc) json_decref(config);
    PH_TRY(rc);
    PH_TRY(lay_out("LlavaNextImageProcessor", config, w, h, &l, err));
    *is_right = 1;
    return pair_is(row, "out", l.resized_height, l.resized_width, is_right, err);
}

/* The grid in which the picture must grow least, or shrink least, and its size there. */
static ph_rc fitted_row(ph_report *r, const ph_json *row, int *is_right, ph_err *err) {
    int            w, h, tile, most;
    ph_tile_layout l;
    (void)r;
    PH_TRY(read_picture(row, &w, &h, err));
    PH_TRY(ph_json_size(row, "tile", 1, PH_RECIPE_SIDE_MAX, &tile, err));
    PH_TRY(ph_json_size(row, "max_image_tiles", 1, 1 << 10, &most, err));
    json_t *config =
        json_pack("{s{si si} si}", "size", "height", tile, "width", tile, "max_image_tiles", most);
    PH_TRY(lay_out("MllamaImageProcessor", config, w, h, &l, err));
    *is_right = 1;
    PH_TRY(pair_is(row, "canvas", l.rows * tile, l.cols * tile, is_right, err));
    return pair_is(row, "resized", l.resized_height, l.resized_width, is_right, err);
}

static const struct {
    const char *table;
    row_fn     *row;
    const char *why; /* it is skipped; NULL: it is not */
} tables[] = {
    {"idefics3_splitting", split_row, NULL},          {"qwen2vl_smart_resize", area_row, NULL},
    {"internvl_tiled_canvas", tiled_row, NULL},       {"mllama_canvas", fitted_row, NULL},
    {"llava_next_best_resolution", canvas_row, NULL},
};

static ph_rc check_table(ph_report *r, const ph_json *table, row_fn *check, ph_err *err) {
    size_t wrong = 0, first = 0, n = ph_json_count(table);
    for (size_t i = 0; i < n; i++) {
        ph_json row = ph_json_at(table, i);
        int     is_right = 1;
        PH_TRY(check(r, &row, &is_right, err));
        if (!is_right && !wrong++) first = i;
    }
    if (wrong) ph_case_fail(r, "first at row %zu", first);
    if (n) ph_figure(r, (double)wrong, 0, "rows that differ of %zu", n);
    return PH_OK;
}

static void one_table(bench *b, const char *name, const ph_json *table) {
    enum { N = sizeof tables / sizeof *tables };
    ph_err err = {0};
    size_t i = 0;
    if (!ph_case_begin(b->r, "size %s", name)) return;
    while (i < N && strcmp(tables[i].table, name)) i++;
    ph_rc rc = PH_OK;
    if (i == N)
        ph_case_skip(b->r, "a size rule that is not known");
    else if (!tables[i].row)
        ph_case_skip(b->r, "%s", tables[i].why);
    else
        rc = check_table(b->r, table, tables[i].row, &err);
    ph_case_end(b->r, rc, &err);
}

static void each_table(bench *b, const ph_json *root) {
    const char *name;
    ph_json     table;
    for (ph_json_iter it = ph_json_members(root); ph_json_next(&it, &name, &table);)
        if (ph_json_kind_of(&table) == PH_JSON_ARRAY) one_table(b, name, &table);
}

/* ---- the folder ---- */

static void broken(bench *b, const char *file, ph_rc rc, const ph_err *err) {
    if (rc && ph_case_begin(b->r, "%s", file)) ph_case_end(b->r, rc, err);
}

static void resizes(bench *b) {
    ph_json_doc doc = {0};
    ph_err      err = {0};
    if (!ph_golden_has(b->dir, "resize.json")) return;
    ph_rc rc = ph_golden_json(&doc, b->dir, "resize.json", &err);
    if (!rc) rc = ph_tensors_open(&b->resized, b->dir, "resize.safetensors", &err);
    broken(b, "resize.json", rc, &err);
    ph_json root = ph_json_root(&doc), cases = ph_json_get(&root, "cases");
    if (!rc) each_resize(b, &cases);
    ph_json_close(&doc);
}

static void pipelines(bench *b) {
    char        path[4096];
    ph_json_doc doc = {0};
    ph_err      err = {0};
    if (!ph_golden_has(b->dir, "pipelines.json")) return;
    snprintf(path, sizeof path, "%s/pipelines.json", b->dir);
    ph_rc rc = ph_golden_json(&doc, b->dir, "pipelines.json", &err);
    if (!rc) rc = ph_tensors_open(&b->piped, b->dir, "pipelines.safetensors", &err);
    broken(b, "pipelines.json", rc, &err);
    ph_json root = ph_json_root(&doc), cases = ph_json_get(&root, "cases");
    json_t *same = rc ? NULL : json_load_file(path, 0, NULL);
    if (!rc) each_pipeline(b, &cases, json_object_get(same, "cases"));
    json_decref(same);
    ph_json_close(&doc);
}

static void size_tables(bench *b) {
    ph_json_doc doc = {0};
    ph_err      err = {0};
    if (!ph_golden_has(b->dir, "size_tables.json")) return;
    ph_rc rc = ph_golden_json(&doc, b->dir, "size_tables.json", &err);
    broken(b, "size_tables.json", rc, &err);
    ph_json root = ph_json_root(&doc);
    if (!rc) each_table(b, &root);
    ph_json_close(&doc);
}

static void run(ph_report *r, const char *dir) {
    char   golden[4096 + 16];
    bench  b = {.r = r, .dir = dir};
    ph_err err = {0};
    ph_rc  rc = ph_arena_open_growing(&b.arena, 256 << 10, &err);
    broken(&b, "arena", rc, &err);
    if (rc) return;
    snprintf(b.images, sizeof b.images, "%.4080s/../images", dir);
    snprintf(golden, sizeof golden, "%s/golden", b.images);
    if (ph_golden_has(golden, "decoded.safetensors"))
        broken(&b, "decoded.safetensors", ph_tensors_open(&b.decoded, golden, "decoded.safetensors", &err),
               &err);
    resizes(&b);
    pipelines(&b);
    size_tables(&b);
    ph_tensors_close(&b.resized);
    ph_tensors_close(&b.piped);
    ph_tensors_close(&b.decoded);
    ph_arena_close(&b.arena);
}

const ph_case_kind ph_case_preprocess = {
    "preprocess", "resizes, image processors, size arithmetic", claims, run, 0, 0};
