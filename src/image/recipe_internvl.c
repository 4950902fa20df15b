/* recipe_internvl.c - the grid of tiles whose ratio is nearest to the picture's, and the whole as one more.
 *
 *     grid: of all with tiles_min .. tiles_max tiles, the nearest ratio; of equals the larger, while
 *           the picture has more than half of its pixels
 *     resize to rows x cols tiles -> cut; resize to one tile -> the overview, behind the grid
 *
 * The reference cuts with bicubic resizing whatever `resample` says.
 *
 * Source: transformers 4.57 models/got_ocr2/image_processing_got_ocr2.py (InternVL's processor);
 * arXiv:2404.16821 (dynamic resolution).
 */
#include "image/recipe.h"

#include <math.h>
#include <string.h>

enum { TILES_MAX = 1024 };

static const double openai_mean[3] = {0.48145466, 0.4578275, 0.40821073};
static const double openai_std[3] = {0.26862954, 0.26130258, 0.27577711};

static const char *const processors[] = {"GotOcr2ImageProcessor", NULL};
static const char *const projectors[] = {"internvl", NULL};

static void defaults(ph_recipe *r, const char *processor) {
    (void)processor;
    r->do_resize = r->do_rescale = r->do_normalize = 1;
    r->size = (ph_recipe_size){.height = 384, .width = 384};
    r->filter = PH_FILTER_BICUBIC;
    r->rescale_factor = 1 / 255.0;
    memcpy(r->mean, openai_mean, sizeof r->mean);
    memcpy(r->std, openai_std, sizeof r->std);
    r->tiles_min = 1;
    r->tiles_max = 12;
}

static ph_rc read(ph_recipe *r, const ph_json *config, ph_err *err) {
    PH_TRY(ph_json_bool_or(config, "crop_to_patches", r->do_split, &r->do_split, err));
    PH_TRY(ph_json_size_or(config, "min_patches", 0, TILES_MAX, r->tiles_min, &r->tiles_min, err));
    return ph_json_size_or(config, "max_patches", 1, TILES_MAX, r->tiles_max, &r->tiles_max, err);
}

static ph_rc check(const ph_recipe *r, ph_err *err) {
    if (!(r->size.height && r->size.width))
        return PH_FAIL(err, PH_EFORMAT, "size has no height and width, which %s needs", r->processor);
    return PH_OK;
}

/* Older GGUF files do not say how many tiles: 1 .. 12, as the field's tools have it. */
static void from_params(ph_recipe *r, const ph_recipe_params *p) {
    r->size = (ph_recipe_size){.height = p->image_size, .width = p->image_size};
    r->do_split = 1;
    if (p->tiles_min) r->tiles_min = p->tiles_min;
    if (p->tiles_max) r->tiles_max = p->tiles_max;
}

static int budget(ph_recipe *r, const ph_budget *b, int64_t *least, int64_t *most) {
    int is_split = r->do_split && r->tiles_max > 1, grid;
    *least = b->per_tile;
    *most = (int64_t)b->per_tile * (is_split ? r->tiles_max + 1 : 1);
    if (b->max &&
        b->max / b->per_tile < r->tiles_max + 1) { /* a grid of n tiles has an overview, one of 1 has not */
        grid = b->max / b->per_tile - 1;
        r->tiles_max = grid > 1 ? grid : 1;
        if (r->tiles_min > r->tiles_max) r->tiles_min = r->tiles_max;
    }
    if (b->min > b->per_tile) {
        grid = (int)(((int64_t)b->min + b->per_tile - 1) / b->per_tile) - 1;
        if (grid < 2) grid = 2;
        if (r->tiles_min < grid) r->tiles_min = grid;
    }
    if (is_split && r->tiles_max == 1) { /* as a grid of one tile was prepared */
        r->do_resize = 1;
        r->filter = PH_FILTER_BICUBIC;
    }
    return r->tiles_min <= r->tiles_max;
}

/* Grids by their number of tiles, then by their columns: ties are settled in the reference's order. */
static void choose_grid(const ph_recipe *r, int w, int h, int *rows, int *cols) {
    double ratio = (double)w / h, best = INFINITY, area = (double)w * h;
    double half = 0.5 * r->size.height * r->size.width;
    *rows = *cols = 1;
    for (int n = r->tiles_min > 1 ? r->tiles_min : 1; n <= r->tiles_max; n++)
        for (int c = 1; c <= n; c++) {
            if (n % c) continue;
            double off = fabs(ratio - (double)c / (n / c));
            if (off > best || (off == best && !(area > half * n))) continue;
            best = off;
            *cols = c;
            *rows = n / c;
        }
}

static ph_rc layout(ph_tile_layout *l, const ph_recipe *r, ph_err *err) {
    int rows = 1, cols = 1, is_split = r->do_split && r->tiles_max > 1;
    if (is_split) choose_grid(r, l->image_width, l->image_height, &rows, &cols);
    int is_resized = is_split || r->do_resize;
    l->width = is_resized ? r->size.width : l->image_width;
    l->height = is_resized ? r->size.height : l->image_height;
    if ((int64_t)cols * l->width > PH_RESIZE_SIDE_MAX || (int64_t)rows * l->height > PH_RESIZE_SIDE_MAX)
        return PH_FAIL(err, PH_ELIMIT, "a grid of %d x %d tiles of %d x %d pixels", rows, cols, l->width,
                       l->height);
    l->resized_width = cols * l->width, l->resized_height = rows * l->height;
    l->n_tiles = rows * cols == 1 ? 1 : rows * cols + 1;
    if (l->n_tiles > 1) l->rows = rows, l->cols = cols;
    l->overview = l->n_tiles - 1;
    return PH_OK;
}

static ph_rc run(uint8_t *u8, const ph_tile_layout *l, const ph_recipe *r, const ph_pixels *in,
                 ph_arena *scratch, size_t *peak, ph_err *err) {
    ph_pixels canvas;
    ph_filter filter = r->do_split && r->tiles_max > 1 ? PH_FILTER_BICUBIC : r->filter;
    if (l->n_tiles == 1) return ph_recipe_to_tile(u8, l, in, filter, scratch, peak, err);
    PH_TRY(ph_recipe_to_tile(ph_recipe_tile(u8, l, l->overview), l, in, filter, scratch, peak, err));
    PH_TRY(ph_recipe_resize(&canvas, in, l->resized_width, l->resized_height, filter, scratch, peak, err));
    if (u8) ph_recipe_cut(u8, l, &canvas);
    return PH_OK;
}

const ph_recipe_kind ph_recipe_internvl = {
    .name = "internvl",
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
