/* recipe_llava_next.c - the whole picture as one tile, then a canvas of several, chosen from a list
 * ("anyres").
 *
 *     canvas: of the listed ones, where the picture keeps most of its pixels; of equals the one wasting least
 *     resize to fit, ratio kept -> in the middle of the canvas, black around -> cut: the grid
 *     resize to one tile, ratio given up: the overview, before the grid
 *
 * The reference resizes and crops every tile once more; with one size for all that does nothing, and
 * other configs are refused.
 *
 * Source: transformers 4.57 models/llava_next/image_processing_llava_next.py, image_processing_utils.py
 * (select_best_resolution, get_patch_output_size).
 */
#include "image/recipe.h"

#include <math.h>
#include <string.h>

static const double openai_mean[3] = {0.48145466, 0.4578275, 0.40821073};
static const double openai_std[3] = {0.26862954, 0.26130258, 0.27577711};

static const char *const processors[] = {"LlavaNextImageProcessor", NULL};
static const char *const projectors[] = {"mlp", NULL};

static void defaults(ph_recipe *r, const char *processor) {
    static const int pinpoints[5][2] = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
    (void)processor;
    r->do_resize = r->do_center_crop = r->do_rescale = r->do_normalize = 1;
    r->size = (ph_recipe_size){.shortest_edge = 224};
    r->crop_height = r->crop_width = 224;
    r->filter = PH_FILTER_BICUBIC;
    r->rescale_factor = 1 / 255.0;
    memcpy(r->mean, openai_mean, sizeof r->mean);
    memcpy(r->std, openai_std, sizeof r->std);
    r->n_pinpoints = 5;
    memcpy(r->pinpoint, pinpoints, sizeof pinpoints);
}

static ph_rc read_pinpoint(const ph_json *item, int out[2], ph_err *err) {
    for (size_t i = 0; i < 2; i++) {
        ph_json side = ph_json_at(item, i);
        int64_t v;
        if (ph_json_count(item) != 2)
            return PH_FAIL(err, PH_EFORMAT, "%s: expected a height and a width", item->where);
        PH_TRY(ph_json_to_int(&side, &v, err));
        if (v < 1 || v > PH_RECIPE_SIDE_MAX)
            return PH_FAIL(err, PH_EFORMAT, "%s: a side of %lld pixels; 1 .. %d are possible", side.where,
                           (long long)v, PH_RECIPE_SIDE_MAX);
        out[i] = (int)v;
    }
    return PH_OK;
}

static ph_rc read(ph_recipe *r, const ph_json *config, ph_err *err) {
    ph_json list = ph_json_get(config, "image_grid_pinpoints");
    if (!ph_json_has(config, "image_grid_pinpoints")) return PH_OK;
    size_t n = ph_json_kind_of(&list) == PH_JSON_ARRAY ? ph_json_count(&list) : 0;
    if (!n || n > PH_PINPOINTS_MAX)
        return PH_FAIL(err, PH_EFORMAT, "%s: expected a list of 1 .. %d canvases", list.where,
                       PH_PINPOINTS_MAX);
    for (size_t i = 0; i < n; i++) {
        ph_json item = ph_json_at(&list, i);
        PH_TRY(read_pinpoint(&item, r->pinpoint[i], err));
    }
    r->n_pinpoints = (int)n;
    return PH_OK;
}

/* Side of the overview before it is cropped. */
static int side_of(const ph_recipe *r) {
    const ph_recipe_size *s = &r->size;
    if (s->shortest_edge) return s->shortest_edge;
    return s->height < s->width ? s->height : s->width;
}

static ph_rc check(const ph_recipe *r, ph_err *err) {
    int side = side_of(r);
    if (!side) return PH_FAIL(err, PH_EFORMAT, "size has neither shortest_edge nor height and width");
    if (side != r->crop_height || side != r->crop_width)
        return PH_FAIL(err, PH_EUNSUP,
                       "tiles of %d x %d pixels, the overview of %d: %s is supported with one size for both",
                       r->crop_height, r->crop_width, side, r->processor);
    for (int i = 0; i < r->n_pinpoints; i++)
        if (r->pinpoint[i][0] % side || r->pinpoint[i][1] % side)
            return PH_FAIL(err, PH_EFORMAT, "the canvas %d x %d is not made of whole tiles of %d pixels",
                           r->pinpoint[i][0], r->pinpoint[i][1], side);
    return PH_OK;
}

static void from_params(ph_recipe *r, const ph_recipe_params *p) {
    r->size = (ph_recipe_size){.shortest_edge = p->image_size};
    r->crop_height = r->crop_width = p->image_size;
    r->n_pinpoints = p->n_pinpoints;
    for (int i = 0; i < p->n_pinpoints; i++)
        r->pinpoint[i][0] = p->pinpoint[i][1], r->pinpoint[i][1] = p->pinpoint[i][0];
}

/* What is left out as padding depends on the picture: a canvas counts as a whole, and of less than the
 * overview nothing is sure. */
static int budget(ph_recipe *r, const ph_budget *b, int64_t *least, int64_t *most) {
    int side = side_of(r), n = 0;
    *least = INT64_MAX;
    *most = b->per_tile;
    for (int i = 0; i < r->n_pinpoints; i++) {
        const int64_t rows = r->pinpoint[i][0] / side, cols = r->pinpoint[i][1] / side;
        const int64_t tokens = (1 + rows * cols) * b->per_tile + rows * b->per_row;
        if (tokens < *least) *least = tokens;
        if (b->max && tokens > b->max) continue;
        memmove(r->pinpoint[n++], r->pinpoint[i], sizeof r->pinpoint[i]);
    }
    r->n_pinpoints = n;
    return n > 0;
}

/* The sums are the reference's: a double scale, sides cut to whole pixels. */
static const int *choose_canvas(const ph_recipe *r, int w, int h) {
    double     best = 0, least = INFINITY, own = (double)w * h;
    const int *chosen = NULL;
    for (int i = 0; i < r->n_pinpoints; i++) {
        const int *p = r->pinpoint[i];
        double     sw = (double)p[1] / w, sh = (double)p[0] / h, scale = sw < sh ? sw : sh;
        double     kept = floor(w * scale) * floor(h * scale);
        if (kept > own) kept = own;
        double wasted = (double)p[0] * p[1] - kept;
        if (!(kept > best || (kept == best && wasted < least))) continue;
        best = kept;
        least = wasted;
        chosen = p;
    }
    return chosen ? chosen : r->pinpoint[0];
}

/* The picture within the canvas. */
static void fit(int w, int h, int canvas_w, int canvas_h, int *out_w, int *out_h) {
    double sw = (double)canvas_w / w, sh = (double)canvas_h / h;
    double ww = sw < sh ? canvas_w : ceil(w * sh), hh = sw < sh ? ceil(h * sw) : canvas_h;
    *out_w = ww < canvas_w ? (int)ww : canvas_w;
    *out_h = hh < canvas_h ? (int)hh : canvas_h;
}

static ph_rc layout(ph_tile_layout *l, const ph_recipe *r, ph_err *err) {
    const int *p = choose_canvas(r, l->image_width, l->image_height);
    (void)err;
    l->width = l->height = side_of(r);
    l->rows = p[0] / l->height;
    l->cols = p[1] / l->width;
    l->resized_width = p[1], l->resized_height = p[0];
    l->n_tiles = 1 + l->rows * l->cols;
    l->overview = 0;
    return PH_OK;
}

static ph_rc run(uint8_t *u8, const ph_tile_layout *l, const ph_recipe *r, const ph_pixels *in,
                 ph_arena *scratch, size_t *peak, ph_err *err) {
    ph_canvas picture = ph_canvas_of(in);
    size_t    line = 3 * (size_t)l->resized_width;
    int       w, h;
    void     *at;
    PH_TRY(ph_recipe_to_tile(u8, l, in, r->filter, scratch, peak, err));
    fit(in->width, in->height, l->resized_width, l->resized_height, &w, &h);
    PH_TRY(ph_arena_carve(scratch, &at, (size_t)l->resized_height, line, err));
    ph_window all = {0, 0, w, h};
    uint8_t  *canvas = at, *place = NULL;
    if (canvas && u8) {
        memset(canvas, 0, (size_t)l->resized_height * line);
        place =
            canvas + (size_t)((l->resized_height - h) / 2) * line + 3 * (size_t)((l->resized_width - w) / 2);
    }
    PH_TRY(ph_resample(place, line, &picture, w, h, &all, r->filter, scratch, peak, err));
    const ph_pixels whole = {l->resized_width, l->resized_height, canvas};
    if (u8) ph_recipe_cut(ph_recipe_tile(u8, l, 1), l, &whole);
    return PH_OK;
}

const ph_recipe_kind ph_recipe_llava_next = {
    .name = "llava_next",
    .processors = processors,
    .projectors = projectors,
    .is_anyres = 1,
    .defaults = defaults,
    .read = read,
    .check = check,
    .from_params = from_params,
    .budget = budget,
    .layout = layout,
    .run = run,
};
