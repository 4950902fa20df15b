/* recipe_gemma3.c - every picture to one height and width; a long one also in pieces ("pan and scan").
 *
 *     resize -> the overview; with pan and scan: cut along the longer side -> resize each -> crops behind it
 *
 * Crops are pieces of the picture as it was, not of the resized one.
 *
 * Source: transformers 4.57 models/gemma3/image_processing_gemma3.py; the defaults of the crops are those of
 * processing_gemma3.py.
 */
#include "image/recipe.h"

#include <math.h>
#include <string.h>

static const char *const processors[] = {"Gemma3ImageProcessor", NULL};
static const char *const projectors[] = {"gemma3", NULL};

static void defaults(ph_recipe *r, const char *processor) {
    (void)processor;
    r->do_resize = r->do_rescale = r->do_normalize = 1;
    r->size = (ph_recipe_size){.height = 224, .width = 224};
    r->filter = PH_FILTER_BILINEAR;
    r->rescale_factor = 1 / 255.0;
    for (int i = 0; i < 3; i++) r->mean[i] = r->std[i] = 0.5;
    r->crop_least = 256;
    r->crops_max = 4;
    r->ratio_least = 1.2;
}

static ph_rc read(ph_recipe *r, const ph_json *config, ph_err *err) {
    PH_TRY(ph_json_bool_or(config, "do_pan_and_scan", 0, &r->do_crops, err));
    PH_TRY(ph_json_size_or(config, "pan_and_scan_min_crop_size", 1, PH_RECIPE_SIDE_MAX, r->crop_least,
                           &r->crop_least, err));
    PH_TRY(ph_json_size_or(config, "pan_and_scan_max_num_crops", 1, 1024, r->crops_max, &r->crops_max, err));
    return ph_json_real_or(config, "pan_and_scan_min_ratio_to_activate", r->ratio_least, &r->ratio_least,
                           err);
}

static ph_rc check(const ph_recipe *r, ph_err *err) {
    if (!(r->size.height && r->size.width))
        return PH_FAIL(err, PH_EFORMAT, "size has no height and width, which %s needs", r->processor);
    if (!r->do_resize && r->do_crops)
        return PH_FAIL(err, PH_EUNSUP, "crops without do_resize would be tiles of different sizes");
    if (!isfinite(r->ratio_least))
        return PH_FAIL(err, PH_EFORMAT, "pan_and_scan_min_ratio_to_activate is not finite");
    return PH_OK;
}

static void from_params(ph_recipe *r, const ph_recipe_params *p) {
    r->size = (ph_recipe_size){.height = p->image_size, .width = p->image_size};
}

static int budget(ph_recipe *r, const ph_budget *b, int64_t *least, int64_t *most) {
    int crops = b->max ? b->max / b->per_tile - 1 : r->crops_max;
    *least = *most = b->per_tile;
    if (r->crops_max > crops) r->crops_max = crops;
    if (r->crops_max < 2) r->do_crops = 0;
    return 1;
}

/* Crops along the longer side, and how long each is; 0: none. */
static int count_crops(const ph_recipe *r, int longer, int shorter, int *length) {
    double ratio = (double)longer / shorter;
    if (!r->do_crops || ratio < r->ratio_least) return 0;
    double wanted = floor(ratio + 0.5), most = longer / r->crop_least;
    if (wanted > most) wanted = most;
    if (wanted < 2) wanted = 2;
    int n = wanted > r->crops_max ? r->crops_max : (int)wanted;
    *length = (longer + n - 1) / n;
    int least = *length < shorter ? *length : shorter;
    /* Rounding up may leave nothing for the last of many small crops. */
    return least < r->crop_least || (n - 1) * (int64_t)*length >= longer ? 0 : n;
}

static ph_rc layout(ph_tile_layout *l, const ph_recipe *r, ph_err *err) {
    int w = l->image_width, h = l->image_height, length;
    (void)err;
    int n = count_crops(r, w >= h ? w : h, w >= h ? h : w, &length);
    l->rows = n && w >= h ? 1 : n;
    l->cols = n && w >= h ? n : !!n;
    l->n_tiles = 1 + n;
    l->width = r->do_resize ? r->size.width : w;
    l->height = r->do_resize ? r->size.height : h;
    l->resized_width = l->width, l->resized_height = l->height;
    l->overview = 0;
    return PH_OK;
}

/* Piece i of n along the longer side, copied: a resize wants whole rows. */
static ph_rc piece(ph_pixels *out, const ph_pixels *in, int i, int length, ph_arena *scratch, ph_err *err) {
    int   is_wide = in->width >= in->height, from = i * length;
    int   most = (is_wide ? in->width : in->height) - from, n = length < most ? length : most;
    void *rgb;
    *out = (ph_pixels){is_wide ? n : in->width, is_wide ? in->height : n, NULL};
    PH_TRY(ph_arena_carve(scratch, &rgb, (size_t)out->height, 3 * (size_t)out->width, err));
    out->rgb = rgb;
    if (!rgb || !in->rgb) return PH_OK;
    size_t line = 3 * (size_t)out->width, in_line = 3 * (size_t)in->width;
    for (int y = 0; y < out->height; y++)
        memcpy(out->rgb + (size_t)y * line,
               in->rgb + (size_t)(y + (is_wide ? 0 : from)) * in_line + 3 * (size_t)(is_wide ? from : 0),
               line);
    return PH_OK;
}

static ph_rc run(uint8_t *u8, const ph_tile_layout *l, const ph_recipe *r, const ph_pixels *in,
                 ph_arena *scratch, size_t *peak, ph_err *err) {
    int w = in->width, h = in->height, length = 0;
    PH_TRY(ph_recipe_to_tile(u8, l, in, r->filter, scratch, peak, err));
    int n = count_crops(r, w >= h ? w : h, w >= h ? h : w, &length);
    for (int i = 0; i < n; i++) {
        size_t    before = scratch->used;
        ph_pixels crop;
        PH_TRY(piece(&crop, in, i, length, scratch, err));
        PH_TRY(ph_recipe_to_tile(ph_recipe_tile(u8, l, 1 + i), l, &crop, r->filter, scratch, peak, err));
        scratch->used = before;
    }
    return PH_OK;
}

const ph_recipe_kind ph_recipe_gemma3 = {
    .name = "gemma3",
    .processors = processors,
    .projectors = projectors,
    .defaults = defaults,
    .read = read,
    .check = check,
    .from_params = from_params,
    .budget = budget,
    .layout = layout,
    .run = run,
};
