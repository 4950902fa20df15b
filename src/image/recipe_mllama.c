/* recipe_mllama.c - a canvas of whole tiles that fits the picture best, and always as many tiles.
 *
 *     choose rows x cols <= tiles_max by how far the picture must be scaled
 *     resize into that canvas, at its top left, the ratio kept; the rest is black
 *     cut row by row; blank tiles up to tiles_max, which are zero after normalising
 *
 * Of the canvases that the picture may grow into, the one with the least growth; if it fits none, the one
 * with the least shrinking; of equals the smallest, of those the first.  Blank tiles are part of what the
 * vision tower was trained on.
 *
 * Source: transformers 4.57 models/mllama/image_processing_mllama.py.
 */
#include "image/recipe.h"

#include <string.h>

enum { TILES_MAX = 64 };

static const char *const processors[] = {"MllamaImageProcessor", NULL};
static const char *const projectors[] = {NULL};

static void defaults(ph_recipe *r, const char *processor) {
    (void)processor;
    r->do_resize = r->do_pad = r->do_rescale = r->do_normalize = 1;
    r->size = (ph_recipe_size){.height = 224, .width = 224};
    r->filter = PH_FILTER_BILINEAR;
    r->tiles_max = 4;
    r->rescale_factor = 1 / 255.0;
    for (int i = 0; i < 3; i++) r->mean[i] = r->std[i] = 0.5;
}

static ph_rc read(ph_recipe *r, const ph_json *config, ph_err *err) {
    return ph_json_size_or(config, "max_image_tiles", 1, TILES_MAX, r->tiles_max, &r->tiles_max, err);
}

static ph_rc check(const ph_recipe *r, ph_err *err) {
    if (!r->do_resize || !r->do_pad)
        return PH_FAIL(err, PH_EUNSUP, "MllamaImageProcessor without %s is not known",
                       r->do_resize ? "do_pad" : "do_resize");
    if (!r->size.height || r->size.height != r->size.width)
        return PH_FAIL(err, PH_EFORMAT, "size is %d x %d: tiles must be square", r->size.width,
                       r->size.height);
    return PH_OK;
}

/* How far the picture can be scaled in rows x cols tiles. */
static double scale_in(const ph_tile_layout *l, int tile, int rows, int cols) {
    double high = (double)rows * tile / l->image_height, wide = (double)cols * tile / l->image_width;
    return wide > high ? high : wide;
}

static int is_better(double scale, int area, double best, int best_area) {
    if (scale >= 1 && best >= 1) return scale < best || (scale <= best && area < best_area);
    if (scale < 1 && best < 1) return scale > best || (scale >= best && area < best_area);
    return scale >= 1;
}

static void choose_canvas(ph_tile_layout *l, int tile, int most) {
    double best = 0;
    for (int rows = 1; rows <= most; rows++)
        for (int cols = 1; rows * cols <= most; cols++) {
            double scale = scale_in(l, tile, rows, cols);
            if (l->rows && !is_better(scale, rows * cols, best, l->rows * l->cols)) continue;
            best = scale, l->rows = rows, l->cols = cols;
        }
}

static int clip(int x, int least, int most) {
    return x < least ? least : x > most ? most : x;
}

/* One side as aimed at, the other by the same factor, cut, at least 1. */
static void fit(ph_tile_layout *l, int tile) {
    int    w = clip(l->image_width, tile, l->cols * tile), h = clip(l->image_height, tile, l->rows * tile);
    double high = (double)h / l->image_height, wide = (double)w / l->image_width;
    if (wide < high) {
        int scaled = (int)(l->image_height * wide);
        h = scaled < 1 ? 1 : scaled < h ? scaled : h;
    } else {
        int scaled = (int)(l->image_width * high);
        w = scaled < 1 ? 1 : scaled < w ? scaled : w;
    }
    l->resized_width = w, l->resized_height = h;
}

static ph_rc layout(ph_tile_layout *l, const ph_recipe *r, ph_err *err) {
    (void)err;
    choose_canvas(l, r->size.height, r->tiles_max);
    fit(l, r->size.height);
    l->width = l->height = r->size.height;
    l->n_tiles = r->tiles_max;
    l->n_blank = l->n_tiles - l->rows * l->cols;
    return PH_OK;
}

static ph_rc run(uint8_t *u8, const ph_tile_layout *l, const ph_recipe *r, const ph_pixels *in,
                 ph_arena *scratch, size_t *peak, ph_err *err) {
    ph_canvas picture = ph_canvas_of(in);
    ph_window all = {0, 0, l->resized_width, l->resized_height};
    size_t    tile = 3 * (size_t)l->width * (size_t)l->height, line = 3 * (size_t)l->cols * (size_t)l->width;
    size_t    lines = (size_t)l->rows * (size_t)l->height;
    void     *canvas;
    PH_TRY(ph_arena_carve(scratch, &canvas, lines, line, err));
    if (u8) memset(canvas, 0, lines * line);
    PH_TRY(ph_resample(canvas, line, &picture, l->resized_width, l->resized_height, &all, r->filter, scratch,
                       peak, err));
    if (!u8) return PH_OK;
    const ph_pixels whole = {l->cols * l->width, l->rows * l->height, canvas};
    ph_recipe_cut(u8, l, &whole);
    memset(u8 + (size_t)(l->n_tiles - l->n_blank) * tile, 0, (size_t)l->n_blank * tile);
    return PH_OK;
}

const ph_recipe_kind ph_recipe_mllama = {
    .name = "mllama",
    .processors = processors,
    .projectors = projectors,
    .pads = 1,
    .defaults = defaults,
    .read = read,
    .check = check,
    .layout = layout,
    .run = run,
};
