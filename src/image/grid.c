/* grid.c - what kinds of recipes that cut a picture into tiles share. */
#include "image/recipe.h"

#include <string.h>

ph_rc ph_recipe_resize(ph_pixels *out, const ph_pixels *in, int w, int h, ph_filter filter, ph_arena *scratch,
                       size_t *peak, ph_err *err) {
    ph_canvas canvas = ph_canvas_of(in);
    ph_window all = {0, 0, w, h};
    void     *rgb;
    if (in->width == w && in->height == h) {
        *out = *in;
        return PH_OK;
    }
    PH_TRY(ph_arena_carve(scratch, &rgb, (size_t)h, 3 * (size_t)w, err));
    PH_TRY(ph_resample(rgb, 3 * (size_t)w, &canvas, w, h, &all, filter, scratch, peak, err));
    *out = (ph_pixels){w, h, rgb};
    return PH_OK;
}

ph_rc ph_recipe_to_tile(uint8_t *dst, const ph_tile_layout *l, const ph_pixels *in, ph_filter filter,
                        ph_arena *scratch, size_t *peak, ph_err *err) {
    ph_canvas canvas = ph_canvas_of(in);
    ph_window all = {0, 0, l->width, l->height};
    return ph_resample(dst, 3 * (size_t)l->width, &canvas, l->width, l->height, &all, filter, scratch, peak,
                       err);
}

void ph_recipe_cut(uint8_t *u8, const ph_tile_layout *l, const ph_pixels *canvas) {
    size_t line = 3 * (size_t)l->width, canvas_line = 3 * (size_t)canvas->width;
    for (int row = 0; row < l->rows; row++)
        for (int col = 0; col < l->cols; col++)
            for (int y = 0; y < l->height; y++, u8 += line)
                memcpy(u8,
                       canvas->rgb + ((size_t)row * (size_t)l->height + (size_t)y) * canvas_line +
                           (size_t)col * line,
                       line);
}

uint8_t *ph_recipe_tile(uint8_t *u8, const ph_tile_layout *l, int i) {
    return u8 ? u8 + (size_t)i * 3 * (size_t)l->width * (size_t)l->height : NULL;
}
