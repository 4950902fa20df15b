/* anyres.c - visual tokens of a picture that was seen as a whole and in tiles of a padded canvas.
 *
 *     whole picture: s x s tokens
 *     grid of R x C tiles: R s x C s tokens, read row by row across the tiles, less what is padding;
 *     behind each row one newline
 *
 * The bridge gives each tile s*s rows and the newline as one more; this file says which of them stands where.
 * Source: transformers modeling_llava_next.py (unpad_image, pack_image_features).
 */
#include "model/family.h"

#include <math.h>

/* The part of the grid that shows the picture, in tokens. */
typedef struct part {
    int side, row, col, rows, cols;
} part;

/* The reference rounds to seven decimals before it cuts: a side that is whole but for its sums stays whole.
 */
static int scaled(int n, double by) {
    return (int)floor(rint(n * by * 1e7) / 1e7);
}

static part part_of(const ph_spec *spec, const ph_tile_layout *l) {
    int  side = spec->tower.image / spec->tower.patch, h = l->rows * side, w = l->cols * side;
    part p = {.side = side, .rows = h, .cols = w};
    if ((double)l->image_width / l->image_height > (double)w / h)
        p.row = (h - scaled(l->image_height, (double)w / l->image_width)) / 2;
    else
        p.col = (w - scaled(l->image_width, (double)h / l->image_height)) / 2;
    if (p.row < 0) p.row = 0;
    if (p.col < 0) p.col = 0;
    p.rows = h - 2 * p.row;
    p.cols = w - 2 * p.col;
    return p;
}

int ph_anyres_tokens(const ph_spec *spec, const ph_tile_layout *l) {
    part p = part_of(spec, l);
    return p.side * p.side + p.rows * (p.cols + 1);
}

int ph_anyres_source(const ph_spec *spec, const ph_tile_layout *l, int token) {
    part p = part_of(spec, l);
    int  whole = p.side * p.side, run = whole + 1;
    if (token < whole) return l->overview * run + token;
    int row = (token - whole) / (p.cols + 1) + p.row, col = (token - whole) % (p.cols + 1);
    int first = l->overview ? 0 : 1; /* the grid's first tile */
    if (col == p.cols) return (first + row / p.side * l->cols) * run + whole;
    col += p.col;
    int tile = first + row / p.side * l->cols + col / p.side;
    return tile * run + row % p.side * p.side + col % p.side;
}
