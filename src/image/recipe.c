/* recipe.c - what all recipes share: finding one, reading its config, running it.
 *
 *   init    class name -> kind, its defaults, the config's keys over them
 *   layout  the kind's arithmetic, then the limits
 *   run     carve; the kind makes u8 tiles; a table per channel makes floats
 *
 * Floats come from a table of 256 values a channel: a pixel has no other values,
 * and a table entry is computed with the reference's own roundings.  That covers
 * do_rescale and do_normalize in any combination.
 */
#include "image/recipe.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PH_RECIPE(name) extern const ph_recipe_kind ph_recipe_##name;
#include "image/recipe.def"
#undef PH_RECIPE

static const ph_recipe_kind *const kinds[] = {
#define PH_RECIPE(name) &ph_recipe_##name,
#include "image/recipe.def"
#undef PH_RECIPE
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* ---- finding ---- */

static void list_add(char *out, size_t size, const char *name) {
    size_t n = strlen(out);
    snprintf(out + n, size - n, "%s%s", n ? ", " : "", name);
}

void ph_recipe_list(char *out, size_t size) {
    if (!size) return;
    out[0] = 0;
    for (size_t i = 0; i < N_KINDS; i++)
        for (const char *const *p = kinds[i]->processors; *p; p++) list_add(out, size, *p);
}

const ph_recipe_kind *ph_recipe_kind_at(size_t i) {
    return i < N_KINDS ? kinds[i] : NULL;
}

/* Is name the class, its Fast sibling, or the old feature extractor? */
static int is_class(const char *name, const char *processor) {
    size_t n = strlen(processor), stem = n - strlen("ImageProcessor");
    if (!strncmp(name, processor, n)) return !name[n] || !strcmp(name + n, "Fast");
    return !strncmp(name, processor, stem) && !strcmp(name + stem, "FeatureExtractor");
}

static ph_rc find_class(ph_recipe *out, const char *name, ph_err *err) {
    char list[200];
    for (size_t i = 0; i < N_KINDS; i++)
        for (const char *const *p = kinds[i]->processors; *p; p++)
            if (is_class(name, *p)) {
                out->kind = kinds[i];
                out->processor = *p;
                return PH_OK;
            }
    ph_recipe_list(list, sizeof list);
    return PH_FAIL(err, PH_EUNSUP, "image processor \"%.60s\" is not known; known are %s", name, list);
}

/* ---- reading ---- */

/* The reference passes null on as "no": a null flag is 0, an absent one the default. */
static ph_rc read_flag(const ph_json *config, const char *key, int *out, ph_err *err) {
    ph_json node = ph_json_get(config, key);
    if (ph_json_kind_of(&node) == PH_JSON_NULL) *out = 0;
    return ph_json_bool_or(config, key, *out, out, err);
}

static ph_rc read_side(const ph_json *object, const char *key, int *out, ph_err *err) {
    return ph_json_size_or(object, key, 1, PH_RECIPE_SIDE_MAX, 0, out, err);
}

/* Packed kinds: the least and the most pixels of a picture. */
static ph_rc read_areas(const ph_json *config, ph_recipe_size *out, ph_err *err) {
    enum { AREA_MAX = 1 << 30 };
    ph_json node = ph_json_get(config, "size");
    if (ph_json_kind_of(&node) == PH_JSON_OBJECT) {
        PH_TRY(ph_json_size_or(&node, "shortest_edge", 1, AREA_MAX, out->shortest_edge, &out->shortest_edge,
                               err));
        PH_TRY(
            ph_json_size_or(&node, "longest_edge", 1, AREA_MAX, out->longest_edge, &out->longest_edge, err));
    }
    PH_TRY(ph_json_size_or(config, "min_pixels", 1, AREA_MAX, out->shortest_edge, &out->shortest_edge, err));
    return ph_json_size_or(config, "max_pixels", 1, AREA_MAX, out->longest_edge, &out->longest_edge, err);
}

/* n; [height, width]; or an object of sides.  is_edge: a bare n is the shortest edge, else a square. */
static ph_rc read_size(const ph_json *config, const char *key, int is_edge, ph_recipe_size *out,
                       ph_err *err) {
    ph_json        node = ph_json_get(config, key);
    ph_recipe_size s = {0};
    int64_t        pair[2];
    size_t         n = 0;
    switch (ph_json_kind_of(&node)) {
    case PH_JSON_ABSENT:
    case PH_JSON_NULL:
        return PH_OK;
    case PH_JSON_OBJECT:
        PH_TRY(read_side(&node, "shortest_edge", &s.shortest_edge, err));
        PH_TRY(read_side(&node, "longest_edge", &s.longest_edge, err));
        PH_TRY(read_side(&node, "height", &s.height, err));
        PH_TRY(read_side(&node, "width", &s.width, err));
        break;
    case PH_JSON_ARRAY:
        PH_TRY(ph_json_ints(config, key, pair, 2, &n, err));
        if (n != 2 || pair[0] < 1 || pair[1] < 1 || pair[0] > PH_RECIPE_SIDE_MAX ||
            pair[1] > PH_RECIPE_SIDE_MAX)
            return PH_FAIL(err, PH_EFORMAT, "%s: expected a height and a width of 1 .. %d", node.where,
                           PH_RECIPE_SIDE_MAX);
        s.height = (int)pair[0], s.width = (int)pair[1];
        break;
    default:
        PH_TRY(ph_json_size(config, key, 1, PH_RECIPE_SIDE_MAX, &s.height, err));
        if (is_edge)
            s.shortest_edge = s.height, s.height = 0;
        else
            s.width = s.height;
    }
    *out = s;
    return PH_OK;
}

/* One number for all channels, or three. */
static ph_rc read_channels(const ph_json *config, const char *key, double *out, ph_err *err) {
    ph_json node = ph_json_get(config, key);
    if (!ph_json_has(config, key)) return PH_OK;
    int is_list = ph_json_kind_of(&node) == PH_JSON_ARRAY;
    if (is_list && ph_json_count(&node) != 3)
        return PH_FAIL(err, PH_EFORMAT, "%s: %zu values, expected one for each of 3 channels", node.where,
                       ph_json_count(&node));
    for (size_t i = 0; i < 3; i++) {
        ph_json item = is_list ? ph_json_at(&node, i) : node;
        PH_TRY(ph_json_to_real(&item, &out[i], err));
    }
    return PH_OK;
}

static ph_rc read_filter(const ph_json *config, ph_filter *out, ph_err *err) {
    int64_t v;
    PH_TRY(ph_json_int_or(config, "resample", *out, &v, err));
    if (v < 0 || v >= PH_N_FILTERS)
        return PH_FAIL(err, PH_EUNSUP, "%s: resample is %lld: the filters 0 .. %d are known (%s .. %s)",
                       config->where, (long long)v, PH_N_FILTERS - 1, ph_filter_name(0),
                       ph_filter_name(PH_N_FILTERS - 1));
    *out = (ph_filter)v;
    return PH_OK;
}

static ph_rc read_common(ph_recipe *r, const ph_json *c, ph_err *err) {
    ph_recipe_size crop = {.height = r->crop_height, .width = r->crop_width};
    PH_TRY(read_flag(c, "do_pad", &r->do_pad, err));
    PH_TRY(read_flag(c, "do_resize", &r->do_resize, err));
    PH_TRY(read_flag(c, "do_center_crop", &r->do_center_crop, err));
    PH_TRY(read_flag(c, "do_rescale", &r->do_rescale, err));
    PH_TRY(read_flag(c, "do_normalize", &r->do_normalize, err));
    if (r->kind->is_packed)
        PH_TRY(read_areas(c, &r->size, err));
    else
        PH_TRY(read_size(c, "size", r->size.shortest_edge != 0, &r->size, err));
    PH_TRY(read_size(c, "crop_size", 0, &crop, err));
    if (r->do_center_crop && (!crop.height || !crop.width))
        return PH_FAIL(err, PH_EFORMAT, "%s: crop_size has no height and width, and do_center_crop is true",
                       c->where);
    r->crop_height = crop.height, r->crop_width = crop.width;
    PH_TRY(read_filter(c, &r->filter, err));
    PH_TRY(ph_json_real_or(c, "rescale_factor", r->rescale_factor, &r->rescale_factor, err));
    PH_TRY(read_channels(c, "image_mean", r->mean, err));
    return read_channels(c, "image_std", r->std, err);
}

static ph_rc check_numbers(const ph_recipe *r, const char *where, ph_err *err) {
    if (!isfinite(r->rescale_factor) ||
        (r->do_rescale && !(r->rescale_factor > 0 && r->rescale_factor <= 1e6)))
        return PH_FAIL(err, PH_EFORMAT, "%s: rescale_factor is %g: expected a number above 0, up to 1e6",
                       where, r->rescale_factor);
    for (int i = 0; i < 3; i++) {
        if (!isfinite(r->mean[i]) || fabs(r->mean[i]) > 1e6)
            return PH_FAIL(err, PH_EFORMAT, "%s: image_mean[%d] is %g: expected a number within 1e6 of 0",
                           where, i, r->mean[i]);
        /* As a float it must not be 0: it divides. */
        if (!isfinite(r->std[i]) || r->std[i] < 1e-30 || r->std[i] > 1e30)
            return PH_FAIL(err, PH_EFORMAT, "%s: image_std[%d] is %g: expected a number above 0", where, i,
                           r->std[i]);
    }
    return r->kind->check ? r->kind->check(r, err) : PH_OK;
}

/* image_size and patch_size are for the reader of the recipe; only their type matters here. */
static ph_rc read_tower(ph_recipe *r, const ph_json *processor, const ph_json *config, ph_err *err) {
    ph_json vision = ph_json_get(config, "vision_config");
    ph_json from = ph_json_kind_of(&vision) == PH_JSON_OBJECT ? vision : *config;
    PH_TRY(read_side(processor, "patch_size", &r->patch_size, err));
    ph_json patch = ph_json_get(&from, "patch_size"), image = ph_json_get(&from, "image_size");
    /* Some towers give [height, width]; that is the model's to judge. */
    if (ph_json_kind_of(&patch) == PH_JSON_INT) PH_TRY(read_side(&from, "patch_size", &r->patch_size, err));
    if (ph_json_kind_of(&image) == PH_JSON_INT) PH_TRY(read_side(&from, "image_size", &r->image_size, err));
    return PH_OK;
}

ph_rc ph_recipe_init(ph_recipe *out, const ph_json *preprocessor, const ph_json *processor,
                     const ph_json *config, ph_err *err) {
    const char *name = NULL;
    ph_recipe   r = {0};
    ph_json     inner = ph_json_get(processor, "image_processor");
    int         is_inner = ph_json_kind_of(preprocessor) != PH_JSON_OBJECT;
    *out = r;
    if (is_inner) preprocessor = &inner;
    if (ph_json_kind_of(preprocessor) != PH_JSON_OBJECT)
        return PH_FAIL(err, PH_EFORMAT,
                       "no image processor: preprocessor_config.json is missing or no object");
    PH_TRY(ph_json_text_or(preprocessor, "image_processor_type", NULL, &name, err));
    if (!name) PH_TRY(ph_json_text_or(preprocessor, "video_processor_type", NULL, &name, err));
    if (!name) PH_TRY(ph_json_text_or(preprocessor, "feature_extractor_type", NULL, &name, err));
    if (!name)
        return PH_FAIL(
            err, PH_EFORMAT,
            "preprocessor_config.json has no image_processor_type: it cannot be told how pictures were "
            "prepared");
    PH_TRY(find_class(&r, name, err));
    r.kind->defaults(&r, r.processor);
    PH_TRY(read_common(&r, preprocessor, err));
    if (r.kind->read) PH_TRY(r.kind->read(&r, preprocessor, err));
    PH_TRY(read_tower(&r, processor, config, err));
    PH_TRY(check_numbers(&r, preprocessor->where, err));
    *out = r;
    return PH_OK;
}

static ph_rc find_projector(ph_recipe *out, const char *name, int is_anyres, ph_err *err) {
    char list[200] = "";
    for (size_t i = 0; i < N_KINDS; i++)
        for (const char *const *p = kinds[i]->projectors; *p; p++) {
            if (kinds[i]->is_anyres != is_anyres) continue;
            if (name && !strcmp(name, *p)) {
                out->kind = kinds[i];
                out->processor = kinds[i]->processors[0];
                return PH_OK;
            }
            list_add(list, sizeof list, *p);
        }
    return PH_FAIL(err, PH_EUNSUP, "vision projector \"%.40s\" is not known; known are %s", name ? name : "",
                   list);
}

ph_rc ph_recipe_init_from_params(ph_recipe *out, const ph_recipe_params *p, ph_err *err) {
    ph_recipe r = {0};
    *out = r;
    PH_TRY(find_projector(&r, p->projector, p->n_pinpoints > 0, err));
    if (p->image_size < 1 || p->image_size > PH_RECIPE_SIDE_MAX)
        return PH_FAIL(err, PH_EFORMAT, "image size %d: expected 1 .. %d", p->image_size, PH_RECIPE_SIDE_MAX);
    if (p->patch_size < 1 || p->patch_size > p->image_size)
        return PH_FAIL(err, PH_EFORMAT, "patch size %d for pictures of %d pixels", p->patch_size,
                       p->image_size);
    if (p->longest_edge < 0 || p->longest_edge > PH_RECIPE_SIDE_MAX)
        return PH_FAIL(err, PH_EFORMAT, "longest edge %d: expected 1 .. %d", p->longest_edge,
                       PH_RECIPE_SIDE_MAX);
    r.kind->defaults(&r, r.processor);
    memcpy(r.mean, p->mean, sizeof r.mean);
    memcpy(r.std, p->std, sizeof r.std);
    r.image_size = p->image_size;
    r.patch_size = p->patch_size;
    r.kind->from_params(&r, p);
    PH_TRY(check_numbers(&r, "the vision file", err));
    *out = r;
    return PH_OK;
}

/* ---- comparing ---- */

static int same_channels(const ph_recipe *a, const ph_recipe *b) { /* as they are used: floats */
    float x[6], y[6];
    for (int i = 0; i < 3; i++) {
        x[i] = (float)a->mean[i], x[3 + i] = (float)a->std[i];
        y[i] = (float)b->mean[i], y[3 + i] = (float)b->std[i];
    }
    return !memcmp(x, y, sizeof x);
}

static int same_tiles(const ph_recipe *a, const ph_recipe *b) {
    int is_split = a->do_split && a->tiles_max != 1;
    if (is_split != (b->do_split && b->tiles_max != 1)) return 0;
    if (is_split && (a->tile != b->tile || a->tiles_min != b->tiles_min || a->tiles_max != b->tiles_max))
        return 0;
    if (a->do_crops != b->do_crops ||
        (a->do_crops && (a->crop_least != b->crop_least || a->crops_max != b->crops_max ||
                         fabs(a->ratio_least - b->ratio_least) > 0)))
        return 0;
    return a->n_pinpoints == b->n_pinpoints &&
           !memcmp(a->pinpoint, b->pinpoint, (size_t)a->n_pinpoints * sizeof *a->pinpoint);
}

static int same_video(const ph_recipe *a, const ph_recipe *b) {
    return a->frames_min == b->frames_min && a->frames_max == b->frames_max &&
           !(fabs((double)((float)a->video_fps - (float)b->video_fps)) > 0);
}

int ph_recipe_same(const ph_recipe *a, const ph_recipe *b) {
    if (a->kind != b->kind) return 0;
    if (!a->kind) return 1;
    if (a->do_center_crop != b->do_center_crop ||
        (a->do_center_crop && (a->crop_height != b->crop_height || a->crop_width != b->crop_width)))
        return 0;
    /* Classes of one kind differ in their defaults, but for these. */
    if ((a->kind->is_packed || (a->kind->pads && a->do_pad)) && strcmp(a->processor, b->processor)) return 0;
    return (!a->kind->pads || a->do_pad == b->do_pad) && a->do_resize == b->do_resize &&
           !memcmp(&a->size, &b->size, sizeof a->size) && a->filter == b->filter && same_tiles(a, b) &&
           a->do_rescale == b->do_rescale && a->do_normalize == b->do_normalize &&
           !(fabs(a->rescale_factor - b->rescale_factor) > 0) && same_channels(a, b) &&
           a->pack_patch == b->pack_patch && a->pack_merge == b->pack_merge &&
           a->pack_temporal == b->pack_temporal && same_video(a, b);
}

/* ---- budgets ---- */

static ph_rc range_of(ph_recipe *r, const ph_budget *b, int64_t *least, int64_t *most, int *is_kept,
                      ph_err *err) {
    enum { ANY_SIDE = 64 };
    ph_tile_layout l;
    *is_kept = 1;
    if (r->kind->budget) {
        *is_kept = r->kind->budget(r, b, least, most);
        return PH_OK;
    }
    PH_TRY(ph_recipe_layout(&l, r, ANY_SIDE, ANY_SIDE, err));
    *least = *most = (int64_t)l.n_tiles * b->per_tile;
    return PH_OK;
}

ph_rc ph_recipe_budget(ph_recipe *recipe, const ph_budget *b, ph_err *err) {
    ph_recipe r = *recipe;
    int64_t   least, most;
    int       is_kept;
    if (!b->min && !b->max) return PH_OK;
    if (!r.kind) return PH_FAIL(err, PH_EUSAGE, "a budget of image tokens: this model takes no pictures");
    if (b->min < 0 || b->max < 0 || (b->max && b->min > b->max))
        return PH_FAIL(err, PH_EUSAGE, "a budget of at least %d and at most %d image tokens", b->min, b->max);
    PH_TRY(range_of(&r, b, &least, &most, &is_kept, err));
    if (b->max && b->max < least)
        return PH_FAIL(
            err, PH_EUSAGE,
            "at most %d image tokens: this model makes %lld of a picture at least; permitted are %lld and "
            "above",
            b->max, (long long)least, (long long)least);
    if (b->min > most)
        return PH_FAIL(
            err, PH_EUSAGE,
            "at least %d image tokens: this model cannot be made to take more than %lld of every picture; "
            "permitted are 1 .. %lld",
            b->min, (long long)most, (long long)most);
    if (!is_kept)
        return PH_FAIL(
            err, PH_EUSAGE,
            "%d .. %d image tokens: for some pictures no number of this model's lies between; give a wider "
            "range (at least up to %lld, at most from %lld)",
            b->min, b->max, (long long)most, (long long)least);
    *recipe = r;
    return PH_OK;
}

/* ---- sizes ---- */

ph_rc ph_recipe_resized(const ph_recipe *r, int w, int h, int *out_w, int *out_h, ph_err *err) {
    *out_w = r->size.width, *out_h = r->size.height;
    if (!r->size.shortest_edge) return PH_OK;
    int64_t shorter = w <= h ? w : h, longer = w <= h ? h : w, edge = r->size.shortest_edge;
    /* The reference divides two integers into a double and cuts. */
    double scaled = (double)(edge * longer) / (double)shorter;
    if (scaled > PH_RESIZE_SIDE_MAX)
        return PH_FAIL(
            err, PH_ELIMIT,
            "a picture of %d x %d, its shorter side resized to %d, would be %.0f pixels long: the limit "
            "is %d; crop it first",
            w, h, (int)edge, scaled, PH_RESIZE_SIDE_MAX);
    *out_w = (int)(w <= h ? edge : (int64_t)scaled);
    *out_h = (int)(w <= h ? (int64_t)scaled : edge);
    return PH_OK;
}

ph_rc ph_recipe_layout_video(ph_tile_layout *out, const ph_recipe *r, int width, int height, int n_frames,
                             double fps, ph_err *err) {
    ph_tile_layout l = {.image_width = width, .image_height = height, .overview = -1, .n_tiles = n_frames};
    *out = (ph_tile_layout){0};
    if (!r->kind) return PH_FAIL(err, PH_EUNSUP, "no recipe for pictures: this model takes none");
    if (width < 1 || height < 1)
        return PH_FAIL(err, PH_EFORMAT, "a picture of %d x %d pixels", width, height);
    if (width > PH_IMAGE_SIDE_MAX || height > PH_IMAGE_SIDE_MAX)
        return PH_FAIL(err, PH_ELIMIT, "a picture of %d x %d pixels: a side has at most %d; shrink it first",
                       width, height, PH_IMAGE_SIDE_MAX);
    if (n_frames < 1 || (n_frames > 1 && !r->kind->is_packed))
        return PH_FAIL(err, PH_EUNSUP, "%d frames: %s makes no videos", n_frames, r->processor);
    PH_TRY(r->kind->layout(&l, r, err));
    size_t pixels, area;
    if (ph_mul_over((size_t)l.width, (size_t)l.height, &area) ||
        ph_mul_over(area, (size_t)l.n_tiles, &pixels) || pixels > PH_TILES_PIXELS_MAX)
        return PH_FAIL(err, PH_ELIMIT,
                       "a picture of %d x %d becomes %d tiles of %d x %d pixels: the limit is %d in all",
                       width, height, l.n_tiles, l.width, l.height, PH_TILES_PIXELS_MAX);
    if (l.is_video && fps > 0) l.grid_seconds = l.temporal / fps;
    *out = l;
    return PH_OK;
}

ph_rc ph_recipe_layout(ph_tile_layout *out, const ph_recipe *r, int width, int height, ph_err *err) {
    return ph_recipe_layout_video(out, r, width, height, 1, 0, err);
}

/* ---- frames of video files ---- */

ph_rc ph_recipe_sample(int *out, const ph_recipe *r, int n_frames, double fps, double wanted, int most,
                       ph_err *err) {
    int group = r->pack_temporal > 0 ? r->pack_temporal : 1;
    if (!r->kind || r->video_fps <= 0)
        return PH_FAIL(err, PH_EUNSUP, "this model does not say how videos are sampled");
    double n = fps > 0 ? n_frames / fps * (wanted > 0 ? wanted : r->video_fps) : n_frames;
    double least = (double)((r->frames_min + group - 1) / group * group);
    int    max = r->frames_max < n_frames ? r->frames_max : n_frames;
    if (most > 0 && most < max) max = most;
    max = max / group * group;
    n = n > least ? n : least;
    n = n < max ? n : max;
    *out = (int)n / group * group;
    if (*out < 1)
        *out = n_frames < group ? n_frames : group; /* fewer than a group: the last stands for the rest */
    return PH_OK;
}

/* The reference's float arithmetic: from both ends to the middle, ties to even. */
int ph_recipe_sampled(int i, int n, int n_frames) {
    float end = (float)(n_frames - 1), step = n > 1 ? end / (float)(n - 1) : 0;
    if (i < n / 2 || n == 1) return (int)rintf(step * (float)i);
    return (int)rintf(end - step * (float)(n - i - 1));
}

/* ---- running ---- */

/* uint8 * double factor, cut to float; minus float mean, by float std: each step rounded to float. */
static void fill_table(float table[256], const ph_recipe *r, int channel) {
    float mean = (float)r->mean[channel], std = (float)r->std[channel];
    for (int v = 0; v < 256; v++) {
        float x = r->do_rescale ? (float)((double)v * r->rescale_factor) : (float)v;
        table[v] = r->do_normalize ? (x - mean) / std : x;
    }
}

size_t ph_tile_source(const ph_tile_layout *l, size_t i) {
    size_t w = (size_t)l->width, h = (size_t)l->height, area = w * h;
    if (!l->n_patches) return (i / (3 * area) * area + i % area) * 3 + i / area % 3;
    size_t p = (size_t)l->patch, m = (size_t)l->merge, across = (size_t)l->grid_w / m;
    size_t x = i % p, y = i / p % p;
    i /= p * p;
    size_t frame = i % (size_t)l->temporal, channel = i / (size_t)l->temporal % 3;
    i /= 3 * (size_t)l->temporal; /* the patch */
    x += p * (i % m + m * (i / (m * m) % across));
    y += p * (i / m % m + m * (i / (m * m) / across % ((size_t)l->grid_h / m)));
    frame += i / ((size_t)l->grid_h * (size_t)l->grid_w) * (size_t)l->temporal;
    return ((frame * h + y) * w + x) * 3 + channel;
}

/* [n, height, width, 3] u8 -> [n, 3, height, width] f32. */
static void normalize_tiles(float *out, const uint8_t *u8, const ph_tile_layout *l, float table[3][256]) {
    size_t area = (size_t)l->width * (size_t)l->height;
    for (int t = 0; t < l->n_tiles - l->n_blank; t++, u8 += 3 * area)
        for (int c = 0; c < 3; c++, out += area)
            for (size_t i = 0; i < area; i++) out[i] = table[c][u8[3 * i + (size_t)c]];
    if (l->n_blank) memset(out, 0, (size_t)l->n_blank * 3 * area * sizeof *out);
}

/* The same into patches, a line of a patch at a time. */
static void normalize_patches(float *out, const uint8_t *u8, const ph_tile_layout *l, float table[3][256]) {
    size_t p = (size_t)l->patch, lines = (size_t)l->n_patches * 3 * (size_t)l->temporal * p;
    for (size_t i = 0; i < lines; i++, out += p) {
        const uint8_t *from = u8 + ph_tile_source(l, i * p);
        const float   *of = table[i / (p * (size_t)l->temporal) % 3];
        for (size_t x = 0; x < p; x++) out[x] = of[from[3 * x]];
    }
}

static void normalize(float *out, const uint8_t *u8, const ph_tile_layout *l, const ph_recipe *r) {
    float table[3][256];
    for (int c = 0; c < 3; c++) fill_table(table[c], r, c);
    if (l->n_patches)
        normalize_patches(out, u8, l, table);
    else
        normalize_tiles(out, u8, l, table);
}

/* Scratch is measured by running the kind on a ruler, then carved as one block which the kind may rewind.
 * Frames of a video are all of one size, so the first one's measure is theirs. */
static ph_rc make_tiles(uint8_t *u8, const ph_tile_layout *l, const ph_recipe *r, const ph_pixels *in,
                        int n_in, ph_arena *arena, ph_err *err) {
    ph_arena ruler = ph_arena_ruler(), scratch = {0};
    size_t   need = 0, peak = 0, frame = 3 * (size_t)l->width * (size_t)l->height;
    void    *block;
    PH_TRY(r->kind->run(NULL, l, r, in, &ruler, &need, err));
    PH_TRY(ph_arena_carve(arena, &block, need, 1, err));
    if (!u8 || !in->rgb) return PH_OK;
    for (int i = 0; i < n_in; i++) {
        scratch = (ph_arena){.base = block, .size = ph_round_up(need, PH_ALIGN)};
        PH_TRY(r->kind->run(u8 + (size_t)i * frame, l, r, &in[i], &scratch, &peak, err));
    }
    for (int i = n_in; l->n_patches && i < l->n_tiles; i++) /* the last frame stands for those that lack */
        memcpy(u8 + (size_t)i * frame, u8 + (size_t)(n_in - 1) * frame, frame);
    return PH_OK;
}

static ph_rc check_frames(const ph_pixels *in, int n_in, ph_err *err) {
    for (int i = 1; i < n_in; i++)
        if (in[i].width != in->width || in[i].height != in->height)
            return PH_FAIL(err, PH_EFORMAT, "frame %d of a video is of %d x %d pixels, the first of %d x %d",
                           i + 1, in[i].width, in[i].height, in->width, in->height);
    return PH_OK;
}

ph_rc ph_recipe_run_video(ph_tiles *out, const ph_recipe *r, const ph_pixels *in, int n_in, double fps,
                          int keep_u8, ph_arena *arena, ph_err *err) {
    ph_tile_layout l;
    void          *pixels, *u8, *valid;
    *out = (ph_tiles){0};
    PH_TRY(ph_recipe_layout_video(&l, r, in->width, in->height, n_in, fps, err));
    PH_TRY(check_frames(in, n_in, err));
    size_t n = (size_t)l.n_tiles, tile = 3 * (size_t)l.width * (size_t)l.height;
    PH_TRY(ph_arena_carve(arena, &pixels, n * tile, sizeof(float), err));
    PH_TRY(ph_arena_carve(arena, &valid, n * 2, sizeof(int32_t), err));
    PH_TRY(ph_arena_carve(arena, &u8, n, tile, err));
    PH_TRY(make_tiles(u8, &l, r, in, n_in, arena, err));
    if (u8 && in->rgb) {
        normalize(pixels, u8, &l, r);
        for (size_t i = 0; i < n; i++)
            ((int32_t *)valid)[2 * i] = l.height, ((int32_t *)valid)[2 * i + 1] = l.width;
    }
    *out = (ph_tiles){.layout = l, .pixels = pixels, .u8 = keep_u8 ? u8 : NULL, .valid = valid};
    return PH_OK;
}

ph_rc ph_recipe_run(ph_tiles *out, const ph_recipe *r, const ph_pixels *in, int keep_u8, ph_arena *arena,
                    ph_err *err) {
    return ph_recipe_run_video(out, r, in, 1, 0, keep_u8, arena, err);
}

ph_rc ph_recipe_bytes(size_t *out, const ph_recipe *r, int width, int height, int keep_u8, ph_err *err) {
    ph_arena  ruler = ph_arena_ruler();
    ph_tiles  tiles;
    ph_pixels in = {.width = width, .height = height};
    *out = 0;
    PH_TRY(ph_recipe_run(&tiles, r, &in, keep_u8, &ruler, err));
    *out = ruler.used;
    return PH_OK;
}
