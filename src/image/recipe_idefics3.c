/* recipe_idefics3.c - a grid of square tiles, and the whole picture as one more.
 *
 *     resize: longest edge to a length, the ratio kept   (first)
 *     resize: both sides up to multiples of the tile     (canvas)
 *     cut into rows x cols tiles, then the canvas resized to one tile: the overview
 *
 * A canvas of one tile is that tile alone, with a grid of 0 x 0.  Without
 * splitting the first resize is followed by one to a single tile.  The resizes
 * are really done one after the other: each rounds to 8 bits.  Tiles of one
 * picture are always full, so the reference's padding and mask say nothing here.
 *
 * Source: transformers 4.57 models/idefics3/image_processing_idefics3.py (the
 * smolvlm class is the same).
 */
#include "image/recipe.h"

#include <string.h>

enum {
    SIDE_MAX = 4096, /* the reference's own cap on the first resize */
    GRIDS_MAX = 64,  /* sides of grids that a budget is tried on */
};

static const char *const processors[] = {"Idefics3ImageProcessor", "SmolVLMImageProcessor", NULL};
static const char *const projectors[] = {"idefics3", NULL};

static void defaults(ph_recipe *r, const char *processor) {
    (void)processor; /* both have the same */
    r->do_resize = r->do_split = r->do_rescale = r->do_normalize = 1;
    r->size = (ph_recipe_size){.longest_edge = 4 * 364};
    r->tile = 364;
    r->filter = PH_FILTER_LANCZOS;
    r->rescale_factor = 1 / 255.0;
    for (int i = 0; i < 3; i++) r->mean[i] = r->std[i] = 0.5;
}

static ph_rc read(ph_recipe *r, const ph_json *config, ph_err *err) {
    ph_json tile = ph_json_get(config, "max_image_size"), split = ph_json_get(config, "do_image_splitting");
    if (ph_json_kind_of(&split) == PH_JSON_NULL) r->do_split = 0;
    PH_TRY(ph_json_bool_or(config, "do_image_splitting", r->do_split, &r->do_split, err));
    if (!ph_json_has(config, "max_image_size")) return PH_OK;
    return ph_json_size(&tile, "longest_edge", 1, PH_RECIPE_SIDE_MAX, &r->tile, err);
}

static ph_rc check(const ph_recipe *r, ph_err *err) {
    const ph_recipe_size *s = &r->size;
    if (r->do_resize && !s->longest_edge && !(s->height && s->width))
        return PH_FAIL(err, PH_EFORMAT, "size has neither longest_edge nor height and width");
    return PH_OK;
}

static void from_params(ph_recipe *r, const ph_recipe_params *p) {
    int64_t edge = p->longest_edge ? p->longest_edge : 4 * (int64_t)p->image_size;
    r->tile = p->image_size;
    r->size = (ph_recipe_size){.longest_edge = edge < PH_RECIPE_SIDE_MAX ? (int)edge : PH_RECIPE_SIDE_MAX};
}

/* The quotients are the reference's: a double ratio, divided or multiplied, then cut. */
static void to_longest_edge(int edge, int *w, int *h) {
    double ratio = (double)*w / *h;
    if (*w >= *h) {
        *w = edge;
        *h = (int)(*w / ratio);
        *h += *h % 2;
    } else {
        *h = edge;
        *w = (int)(*h * ratio);
        *w += *w % 2;
    }
    if (*h < 1) *h = 1;
    if (*w < 1) *w = 1;
}

static void below_cap(int *w, int *h) {
    double ratio = (double)*w / *h;
    if (*w >= *h && *w > SIDE_MAX) {
        *w = SIDE_MAX;
        *h = (int)(*w / ratio);
    } else if (*h > *w && *h > SIDE_MAX) {
        *h = SIDE_MAX;
        *w = (int)(*h * ratio);
    }
    if (*h < 1) *h = 1;
    if (*w < 1) *w = 1;
}

/* edge: the longest; it stands for that of the recipe. */
static void first_size(const ph_recipe *r, int edge, int *w, int *h) {
    if (!r->do_resize) return;
    if (r->size.longest_edge) {
        to_longest_edge(edge, w, h);
        below_cap(w, h);
    } else {
        *w = r->size.width, *h = r->size.height;
    }
}

static int64_t up_to(int64_t n, int64_t tile) {
    return (n + tile - 1) / tile * tile;
}

/* Both sides up to multiples of the tile; 0 when one grows past the limit. */
static int canvas_size(int tile, int *w, int *h) {
    double  ratio = (double)*w / *h;
    int64_t cw, ch;
    if (*w >= *h) {
        cw = up_to(*w, tile);
        ch = up_to((int64_t)((double)cw / ratio), tile);
    } else {
        ch = up_to(*h, tile);
        cw = up_to((int64_t)((double)ch * ratio), tile);
    }
    /* A ratio past 1 : tile cuts to nothing; one row of tiles is the least. */
    if (cw < tile) cw = tile;
    if (ch < tile) ch = tile;
    if (cw > PH_RESIZE_SIDE_MAX || ch > PH_RESIZE_SIDE_MAX) return 0;
    *w = (int)cw, *h = (int)ch;
    return 1;
}

/* Tiles of a picture with that longest edge. */
static int64_t tiles_at(const ph_recipe *r, int edge, int w, int h) {
    int64_t tile = r->tile;
    first_size(r, edge, &w, &h);
    if (!canvas_size(r->tile, &w, &h)) return INT64_MAX;
    return w == tile && h == tile ? 1 : w / tile * (h / tile) + 1;
}

/* The longest edge for a picture: that of the recipe, or the nearest whole number of tiles that keeps the
 * budget; 0: it stays one tile. */
static int edge_for(const ph_recipe *r, int w, int h) {
    int     own = r->size.longest_edge, k = (own + r->tile - 1) / r->tile;
    int64_t min = r->budget_min, max = r->budget_max ? r->budget_max : INT64_MAX;
    if (!own || (!r->budget_min && !r->budget_max)) return own;
    int64_t n = tiles_at(r, own, w, h);
    if (n >= min && n <= max) return own;
    if (n > max) {
        for (k--; k > 0; k--)
            if (tiles_at(r, k * r->tile, w, h) <= max) return k * r->tile;
        return 0;
    }
    for (k++; k * r->tile <= SIDE_MAX; k++)
        if (tiles_at(r, k * r->tile, w, h) >= min) return k * r->tile;
    return own;
}

/* Do pictures of every ratio that makes a difference keep the budget? */
static int all_keep(const ph_recipe *r) {
    int64_t max = r->budget_max ? r->budget_max : INT64_MAX;
    for (int k = 1; k * r->tile <= SIDE_MAX && k <= GRIDS_MAX; k++)
        for (int j = 1; j <= k; j++)
            for (int more = -1; more <= 1; more++) {
                int     w = 64 * k, h = 64 * j + more, edge = edge_for(r, w, h), tall = edge_for(r, h, w);
                int64_t n = edge ? tiles_at(r, edge, w, h) : 1, m = tall ? tiles_at(r, tall, h, w) : 1;
                if (n < r->budget_min || n > max || m < r->budget_min || m > max) return 0;
            }
    return 1;
}

static int budget(ph_recipe *r, const ph_budget *b, int64_t *least, int64_t *most) {
    int k = SIDE_MAX / r->tile;
    *least = *most = b->per_tile;
    if (!r->do_split) return 1;
    if (!r->size.longest_edge || !r->do_resize) { /* the config's size decides, whatever the picture */
        if (r->do_resize) *least = *most = tiles_at(r, 0, 1, 1) * b->per_tile;
        return r->do_resize;
    }
    if (k > 1) *most = (int64_t)(k + 1) * b->per_tile; /* of the longest picture: one row */
    r->budget_min = (int)(((int64_t)b->min + b->per_tile - 1) / b->per_tile);
    r->budget_max = b->max / b->per_tile;
    if (b->min > *most || (b->max && b->max < *least)) return 0;
    return all_keep(r);
}

static ph_rc layout(ph_tile_layout *l, const ph_recipe *r, ph_err *err) {
    int w = l->image_width, h = l->image_height;
    l->n_tiles = 1;
    l->overview = 0;
    l->width = l->height = r->tile;
    int edge = edge_for(r, w, h);
    first_size(r, edge ? edge : r->tile, &w, &h);
    if (!r->do_split || (!edge && r->budget_max)) {
        l->resized_width = l->resized_height = r->tile;
        return PH_OK;
    }
    if (!canvas_size(r->tile, &w, &h))
        return PH_FAIL(err, PH_ELIMIT, "a picture of %d x %d leads to a side of more than %d pixels",
                       l->image_width, l->image_height, PH_RESIZE_SIDE_MAX);
    l->resized_width = w, l->resized_height = h;
    if (w == r->tile && h == r->tile) return PH_OK;
    l->rows = h / r->tile;
    l->cols = w / r->tile;
    int64_t n = (int64_t)l->rows * l->cols + 1;
    if (n > PH_TILES_PIXELS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "a picture of %d x %d becomes %lld tiles", l->image_width,
                       l->image_height, (long long)n);
    l->n_tiles = (int)n;
    l->overview = l->n_tiles - 1;
    return PH_OK;
}

static ph_rc run(uint8_t *u8, const ph_tile_layout *l, const ph_recipe *r, const ph_pixels *in,
                 ph_arena *scratch, size_t *peak, ph_err *err) {
    ph_pixels first, canvas;
    int       w = in->width, h = in->height;
    int       edge = edge_for(r, w, h);
    first_size(r, edge ? edge : r->tile, &w, &h);
    PH_TRY(ph_recipe_resize(&first, in, w, h, r->filter, scratch, peak, err));
    if (l->n_tiles == 1) return ph_recipe_to_tile(u8, l, &first, r->filter, scratch, peak, err);
    PH_TRY(ph_recipe_resize(&canvas, &first, l->resized_width, l->resized_height, r->filter, scratch, peak,
                            err));
    if (u8) ph_recipe_cut(u8, l, &canvas);
    return ph_recipe_to_tile(ph_recipe_tile(u8, l, l->overview), l, &canvas, r->filter, scratch, peak, err);
}

const ph_recipe_kind ph_recipe_idefics3 = {
    .name = "idefics3",
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
