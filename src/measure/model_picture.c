/* model_picture.c - the pictures of a model's case: the file as it is, and the tiles that its trainer fed.
 *
 * A lossy file may decode a little differently elsewhere.  Where the reference's own pixels are at hand
 * and differ from ours, those are fed instead, as a bitmap, so that the rest can be compared exactly.
 */
#include "measure/case_model.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static void put32(uint8_t *at, uint32_t v) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(v >> (8 * i));
}

/* A 24-bit BMP of w x h pixels: bottom row first, blue before red, rows padded to four bytes. */
static ph_rc to_bmp(ph_arena *a, const uint8_t *rgb, size_t w, size_t h, ph_picture *out, ph_err *err) {
    enum { HEADER = 54 };
    size_t stride = ph_round_up(3 * w, 4), n;
    void  *at;
    if (ph_mul_over(stride, h, &n) || n > INT32_MAX - HEADER)
        return PH_FAIL(err, PH_ELIMIT, "%zu x %zu pixels", w, h);
    PH_TRY(ph_arena_zero(a, &at, n + HEADER, 1, err));
    uint8_t *b = at;
    memcpy(b, "BM", 2);
    put32(b + 2, (uint32_t)(n + HEADER));
    put32(b + 10, HEADER);
    put32(b + 14, 40);
    put32(b + 18, (uint32_t)w);
    put32(b + 22, (uint32_t)h);
    put32(b + 26, 1 | 24u << 16);
    put32(b + 34, (uint32_t)n);
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++)
            for (size_t c = 0; c < 3; c++)
                b[HEADER + (h - 1 - y) * stride + 3 * x + c] = rgb[3 * (y * w + x) + 2 - c];
    out->bytes = b;
    out->n = n + HEADER;
    return PH_OK;
}

static const ph_weight *reference_pixels(const ph_model_case *c, const char *name) {
    char             key[512];
    const ph_weight *w;
    snprintf(key, sizeof key, "%.400s/rgb_exif_transposed", name);
    w = ph_weights_find(&c->desk->decoded.file.weights, key);
    if (w) return w;
    snprintf(key, sizeof key, "%.400s/rgb", name);
    return ph_weights_find(&c->desk->decoded.file.weights, key);
}

static ph_rc decode(ph_model_case *c, const ph_picture *p, ph_pixels *out, ph_err *err) {
    const ph_image_options how = {.alpha = PH_ALPHA_DROP};
    return ph_image_decode(out, p->bytes, p->n, &how, &c->desk->arena, err);
}

/* Lossy files only: take the reference's pixels where ours are others. */
static ph_rc settle(ph_model_case *c, ph_picture *p, ph_pixels *pixels, ph_err *err) {
    const ph_weight *w = reference_pixels(c, p->name);
    size_t           n = 3 * (size_t)pixels->width * (size_t)pixels->height;
    if (!w || w->dtype != PH_U8 || w->rank != 3 || w->dim[2] != 3 || !w->n_bytes) return PH_OK;
    if (w->n_bytes == n && !memcmp(w->bytes, pixels->rgb, n)) return PH_OK;
    ph_case_note(c->r, "%s: fed with the reference's pixels", p->name);
    PH_TRY(to_bmp(&c->desk->arena, w->bytes, (size_t)w->dim[1], (size_t)w->dim[0], p, err));
    return decode(c, p, pixels, err);
}

static ph_rc open_picture(ph_model_case *c, size_t i, int is_lossy, ph_err *err) {
    ph_picture *p = &c->picture[i];
    ph_pixels   pixels;
    PH_TRY(ph_file_open_in(&c->file[i], c->desk->images, p->name, err));
    p->bytes = c->file[i].bytes;
    p->n = c->file[i].n;
    PH_TRY(decode(c, p, &pixels, err));
    if (is_lossy) PH_TRY(settle(c, p, &pixels, err));
    return ph_recipe_run(&c->tiles[i], &c->desk->model->recipe, &pixels, 1, &c->desk->arena, err);
}

/* Frames that the reference holds as pixels: [frames, h, w, 3]. */
static ph_rc open_video(ph_model_case *c, ph_err *err) {
    const ph_weight *w;
    ph_pixels        pixels[PH_CASE_PICTURES_MAX];
    PH_TRY(ph_tensors_get(&c->t, &w, "video_frames_u8", err));
    if (w->dtype != PH_U8 || w->rank != 4 || w->dim[3] != 3 || !w->n_bytes ||
        w->dim[0] > PH_CASE_PICTURES_MAX)
        return PH_FAIL(err, PH_EMISMATCH, "%s: not the RGB pixels of at most %d frames", w->name,
                       PH_CASE_PICTURES_MAX);
    size_t n = (size_t)w->dim[0], frame = w->n_bytes / n;
    for (size_t i = 0; i < n; i++) {
        c->picture[i].name = "video_frames_u8";
        PH_TRY(to_bmp(&c->desk->arena, w->bytes + i * frame, (size_t)w->dim[2], (size_t)w->dim[1],
                      &c->picture[i], err));
        PH_TRY(decode(c, &c->picture[i], &pixels[i], err));
    }
    const ph_weight *pace = ph_weights_find(&c->t.file.weights, "second_per_grid_ts");
    const ph_recipe *recipe = &c->desk->model->video_recipe;
    if (pace && ph_ref_count(pace) == 1 && ph_ref_at(pace, 0) > 0)
        c->picture[0].fps = recipe->pack_temporal / ph_ref_at(pace, 0);
    c->picture[0].n_frames = (int)n;
    c->picture[0].is_video = 1;
    c->n_pictures = n;
    c->n_views = 1;
    return ph_recipe_run_video(&c->tiles[0], recipe, pixels, (int)n, c->picture[0].fps, 1, &c->desk->arena,
                               err);
}

static int units_of(const ph_tile_layout *l) {
    return l->n_patches ? ph_tile_tokens(l) : l->n_tiles;
}

static int is_same(const ph_tiles *a, const ph_tiles *b) {
    const ph_tile_layout *l = &a->layout, *m = &b->layout;
    size_t                n = 3 * (size_t)l->n_tiles * (size_t)l->height * (size_t)l->width;
    return l->n_tiles == m->n_tiles && l->height == m->height && l->width == m->width && l->rows == m->rows &&
           l->cols == m->cols && !memcmp(a->pixels, b->pixels, n * sizeof *a->pixels);
}

/* Equal pictures are seen once: their tiles stand where the first one's do. */
static ph_rc map_tiles(ph_model_case *c, ph_err *err) {
    int    first_of[PH_CASE_PICTURES_MAX];
    void  *at;
    size_t n = 0;
    for (size_t i = 0; i < c->n_views; i++) n += (size_t)units_of(&c->tiles[i].layout);
    PH_TRY(ph_arena_carve(&c->desk->arena, &at, n + 1, sizeof *c->tile_of, err));
    c->tile_of = at;
    for (size_t i = 0; i < c->n_views; i++) {
        size_t k = 0;
        while (k < i && !is_same(&c->tiles[k], &c->tiles[i])) k++;
        first_of[i] = k < i ? first_of[k] : (int)c->n_seen_tiles;
        int units = units_of(&c->tiles[i].layout);
        for (int t = 0; t < units; t++) c->tile_of[c->n_tiles++] = first_of[i] + t;
        if (k == i) c->n_seen_tiles += (size_t)units;
    }
    return PH_OK;
}

ph_rc ph_model_case_pictures(ph_model_case *c, ph_err *err) {
    const char *names[PH_CASE_PICTURES_MAX];
    int         is_lossy;
    PH_TRY(ph_json_texts(&c->item, "images", names, PH_CASE_PICTURES_MAX, &c->n_pictures, err));
    PH_TRY(ph_json_bool_or(&c->item, "jpeg_input", 0, &is_lossy, err));
    if (c->n_pictures && !c->desk->model->vision)
        return PH_FAIL(err, PH_EMISMATCH, "the case has pictures, the model takes none");
    for (size_t i = 0; i < c->n_pictures; i++) {
        c->picture[i].name = names[i];
        ph_rc rc = open_picture(c, i, is_lossy, err);
        if (rc) return ph_note(err, rc, "in the picture %s", names[i]);
    }
    c->n_views = c->n_pictures;
    if (!c->n_views && ph_json_has(&c->item, "video")) PH_TRY(open_video(c, err));
    return map_tiles(c, err);
}

void ph_model_case_close_pictures(ph_model_case *c) {
    for (size_t i = 0; i < c->n_pictures; i++) ph_file_close(&c->file[i]);
}
