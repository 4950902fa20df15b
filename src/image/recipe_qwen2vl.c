/* recipe_qwen2vl.c - pictures in their own ratio, cut into patches that are packed one after the other.
 *
 *     resize: both sides to multiples of patch * merge, the area between the least and the most
 *     frames: a still picture stands `temporal` times; a video's last frame fills up its last group
 *     patches [grid_t, grid_h / merge, grid_w / merge, merge, merge] of [3, temporal, patch, patch]
 *
 * size holds areas: shortest_edge the least, longest_edge the most pixels, over which
 * min_pixels and max_pixels go when the config has them.
 *
 * Source: transformers 4.57 models/qwen2_vl/image_processing_qwen2_vl.py (smart_resize, _preprocess),
 * video_processing_qwen2_vl.py; sampling: qwen_vl_utils 0.0.14 vision_process.py (smart_nframes), by which
 * the family's own examples read video files.
 */
#include "image/recipe.h"

#include <math.h>
#include <string.h>

enum { RATIO_MAX = 200 /* the reference's own: beyond it a picture is refused */ };

static const char *const processors[] = {"Qwen2VLImageProcessor", "Qwen2VLVideoProcessor", NULL};
static const char *const projectors[] = {"qwen2vl_merger", "qwen2.5vl_merger", NULL};

static void defaults(ph_recipe *r, const char *processor) {
    static const double mean[3] = {0.48145466, 0.4578275, 0.40821073};
    static const double std[3] = {0.26862954, 0.26130258, 0.27577711};
    int                 is_video = processor == processors[1];
    r->do_resize = r->do_rescale = r->do_normalize = 1;
    r->size = is_video ? (ph_recipe_size){.shortest_edge = 128 * 28 * 28, .longest_edge = 28 * 28 * 768}
                       : (ph_recipe_size){.shortest_edge = 56 * 56, .longest_edge = 28 * 28 * 1280};
    r->filter = PH_FILTER_BICUBIC;
    r->rescale_factor = 1 / 255.0;
    for (int i = 0; i < 3; i++) r->mean[i] = mean[i], r->std[i] = std[i];
    r->pack_patch = 14;
    r->pack_merge = r->pack_temporal = 2;
    r->video_fps = 2;
    r->frames_min = 4;
    r->frames_max = 768;
}

static ph_rc read(ph_recipe *r, const ph_json *config, ph_err *err) {
    enum { PATCH_MAX = 256, MERGE_MAX = 16, FRAMES_MAX = 1 << 20 };
    PH_TRY(ph_json_size_or(config, "patch_size", 1, PATCH_MAX, r->pack_patch, &r->pack_patch, err));
    PH_TRY(ph_json_size_or(config, "min_frames", 1, FRAMES_MAX, r->frames_min, &r->frames_min, err));
    PH_TRY(ph_json_size_or(config, "max_frames", 1, FRAMES_MAX, r->frames_max, &r->frames_max, err));
    if (ph_json_has(config, "fps")) PH_TRY(ph_json_real_or(config, "fps", r->video_fps, &r->video_fps, err));
    PH_TRY(ph_json_size_or(config, "merge_size", 1, MERGE_MAX, r->pack_merge, &r->pack_merge, err));
    return ph_json_size_or(config, "temporal_patch_size", 1, MERGE_MAX, r->pack_temporal, &r->pack_temporal,
                           err);
}

static ph_rc check(const ph_recipe *r, ph_err *err) {
    if (!(r->video_fps > 0 && r->video_fps < 1e6))
        return PH_FAIL(err, PH_EFORMAT, "fps is %g: expected a number above 0", r->video_fps);
    if (r->size.shortest_edge <= r->size.longest_edge) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "pictures of at least %d and at most %d pixels", r->size.shortest_edge,
                   r->size.longest_edge);
}

static void from_params(ph_recipe *r, const ph_recipe_params *p) {
    if (p->is_video) defaults(r, r->processor = processors[1]);
    memcpy(r->mean, p->mean, sizeof r->mean);
    memcpy(r->std, p->std, sizeof r->std);
    r->pack_patch = p->patch_size;
    if (p->merge) r->pack_merge = p->merge;
    if (p->frames_min) r->frames_min = p->frames_min;
    if (p->frames_max) r->frames_max = p->frames_max;
    if (p->fps > 0) r->video_fps = p->fps;
    /* Where the file holds none: the published checkpoints' own. */
    if (p->max_pixels || !p->is_video) r->size.longest_edge = p->max_pixels ? p->max_pixels : 28 * 28 * 16384;
    if (p->min_pixels) r->size.shortest_edge = p->min_pixels;
}

/* The nearest multiples, ties to even; then down or up with the ratio kept when the area is out of bounds. */
static void smart_size(const ph_recipe *r, double factor, double *w, double *h) {
    double in_w = *w, in_h = *h, least = r->size.shortest_edge, most = r->size.longest_edge;
    *w = nearbyint(in_w / factor) * factor;
    *h = nearbyint(in_h / factor) * factor;
    if (*w * *h > most) {
        double beta = sqrt(in_h * in_w / most);
        *w = fmax(factor, floor(in_w / beta / factor) * factor);
        *h = fmax(factor, floor(in_h / beta / factor) * factor);
    } else if (*w * *h < least) {
        double beta = sqrt(least / (in_h * in_w));
        *w = ceil(in_w * beta / factor) * factor;
        *h = ceil(in_h * beta / factor) * factor;
    }
}

/* With a budget that neither rounding keeps (narrow ones, and very long pictures): of all numbers of squares
 * across and down that keep it, the nearest ratio; of equals the most squares. */
static void keep_budget(const ph_recipe *r, double factor, double ratio, double *w, double *h) {
    int    min = r->budget_min ? r->budget_min : 1, max = r->budget_max ? r->budget_max : INT32_MAX;
    double tokens = *w / factor * (*h / factor), best = INFINITY, most = 0;
    if (tokens >= min && tokens <= max) return;
    if (!r->budget_max) max = (int)fmax(min, r->size.longest_edge / (factor * factor));
    for (int down = 1; down <= max; down++) {
        int    least = (min + down - 1) / down, across = max / down;
        double wanted = nearbyint(down * ratio);
        if (least > across) continue;
        if (wanted < across) across = wanted < least ? least : (int)wanted;
        double off = fabs(log(across / (down * ratio)));
        if (off > best || (off >= best && (double)across * down <= most)) continue;
        best = off;
        most = (double)across * down;
        *w = across * factor;
        *h = down * factor;
    }
}

static int budget(ph_recipe *r, const ph_budget *b, int64_t *least, int64_t *most) {
    int64_t area = (int64_t)r->pack_patch * r->pack_merge * r->pack_patch * r->pack_merge;
    int64_t min = b->min * area, max = b->max * area, all = PH_TILES_PIXELS_MAX / r->pack_temporal;
    *least = 1;
    *most = all / area;
    if (b->min > *most) return 0;
    if (b->min) r->size.shortest_edge = (int)min;
    if (b->max) r->size.longest_edge = (int)(max < all ? max : all);
    if (r->size.shortest_edge > r->size.longest_edge) {
        if (b->max)
            r->size.shortest_edge = r->size.longest_edge;
        else
            r->size.longest_edge = r->size.shortest_edge;
    }
    r->budget_min = b->min;
    r->budget_max = b->max;
    return r->do_resize;
}

static ph_rc resized(ph_tile_layout *l, const ph_recipe *r, ph_err *err) {
    int    factor = r->pack_patch * r->pack_merge;
    double w = l->image_width, h = l->image_height;
    if (fmax(w, h) / fmin(w, h) > RATIO_MAX)
        return PH_FAIL(err, PH_ELIMIT,
                       "a picture of %d x %d is more than %d times as long as it is wide: crop it first",
                       l->image_width, l->image_height, RATIO_MAX);
    if (r->do_resize) smart_size(r, factor, &w, &h);
    if (r->budget_min || r->budget_max)
        keep_budget(r, factor, (double)l->image_width / l->image_height, &w, &h);
    if (w > PH_RESIZE_SIDE_MAX || h > PH_RESIZE_SIDE_MAX)
        return PH_FAIL(err, PH_ELIMIT, "a picture of %d x %d leads to a side of more than %d pixels",
                       l->image_width, l->image_height, PH_RESIZE_SIDE_MAX);
    l->width = l->resized_width = (int)w;
    l->height = l->resized_height = (int)h;
    if (l->width % factor == 0 && l->height % factor == 0) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "a picture of %d x %d is no multiple of %d, and do_resize is false",
                   l->width, l->height, factor);
}

static ph_rc layout(ph_tile_layout *l, const ph_recipe *r, ph_err *err) {
    int frames = l->n_tiles, temporal = r->pack_temporal;
    PH_TRY(resized(l, r, err));
    if (frames > PH_TILES_PIXELS_MAX) return PH_FAIL(err, PH_ELIMIT, "a video of %d frames", frames);
    l->patch = r->pack_patch;
    l->merge = r->pack_merge;
    l->temporal = temporal;
    l->is_video = frames > 1 || r->processor == processors[1];
    l->grid_t = (frames + temporal - 1) / temporal;
    l->grid_h = l->height / l->patch;
    l->grid_w = l->width / l->patch;
    l->n_tiles = l->grid_t * temporal;
    l->overview = 0;
    int64_t n = (int64_t)l->grid_h * l->grid_w;
    if (n > PH_TILES_PIXELS_MAX || n * l->grid_t > PH_TILES_PIXELS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "a picture of %d x %d becomes %d x %d x %d patches", l->image_width,
                       l->image_height, l->grid_t, l->grid_h, l->grid_w);
    l->n_patches = (int)(n * l->grid_t);
    return PH_OK;
}

static ph_rc run(uint8_t *u8, const ph_tile_layout *l, const ph_recipe *r, const ph_pixels *in,
                 ph_arena *scratch, size_t *peak, ph_err *err) {
    ph_canvas canvas = ph_canvas_of(in);
    ph_window all = {0, 0, l->width, l->height};
    /* The video class has no sibling in Pillow: torchvision's rounding is the trainer's own. */
    int is_torch = r->processor == processors[1] && r->filter != PH_FILTER_NEAREST;
    return ph_resample(u8, 3 * (size_t)l->width, &canvas, l->width, l->height, &all,
                       is_torch ? r->filter | PH_FILTER_INT16 : r->filter, scratch, peak, err);
}

const ph_recipe_kind ph_recipe_qwen2vl = {
    .name = "qwen2vl",
    .processors = processors,
    .projectors = projectors,
    .is_packed = 1,
    .defaults = defaults,
    .read = read,
    .check = check,
    .from_params = from_params,
    .budget = budget,
    .layout = layout,
    .run = run,
};
