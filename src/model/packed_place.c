/* packed_place.c - where the rows and visual tokens of a packed picture stand.
 *
 *     picture order  grids one after the other, squares row by row, merge x merge patches a square
 *     window order   the same squares, window by window; equal to picture order without windows
 *     prompt         one run of tokens; positions by time, height and width
 *
 * See packed.c for the graphs.
 */
#include "graph/kv.h"
#include "model/family.h"

#include <string.h>

/* A picture being laid into a run. */
typedef struct laying {
    const ph_tile_layout   *l;
    const float            *pixels; /* the picture's patches */
    const ph_packed_inputs *in;
    int                     first, at;  /* the picture's first row; squares laid so far */
    int                     high, wide; /* squares of a grid */
} laying;

static void pair(int32_t *to, int row, int begin, int end) {
    to[2 * row] = begin;
    to[2 * row + 1] = end;
}

/* Square (y, x) of grid t becomes the next one. */
static void lay_square(laying *p, int t, int y, int x) {
    const ph_tile_layout *l = p->l;
    int                   m = l->merge, area = m * m, square = (t * p->high + y) * p->wide + x;
    int                   row = p->first + p->at * area, frame = l->grid_h * l->grid_w;
    size_t                items = 3 * (size_t)l->temporal * (size_t)l->patch * (size_t)l->patch;
    memcpy(p->in->patches + (size_t)row * items, p->pixels + (size_t)(square * area) * items,
           (size_t)area * items * sizeof *p->pixels);
    for (int i = 0; i < area; i++) {
        int32_t *r = p->in->rows + (size_t)(row + i) * PH_ROW_FIELDS;
        memset(r, 0, PH_ROW_FIELDS * sizeof *r);
        r[PH_ROW_POS_T] = t;
        r[PH_ROW_POS_H] = y * m + i / m;
        r[PH_ROW_POS_W] = x * m + i % m;
        pair(p->in->segments, row + i, p->first + t * frame, p->first + (t + 1) * frame);
    }
    if (p->in->order) p->in->order[p->first / area + square] = p->first / area + p->at;
    p->at++;
}

/* Squares [y, y_end) x [x, x_end) of grid t: one window. */
static void lay_window(laying *p, int t, int y, int y_end, int x0, int x_end) {
    int area = p->l->merge * p->l->merge, begin = p->first + p->at * area;
    for (; y < y_end; y++)
        for (int x = x0; x < x_end; x++) lay_square(p, t, y, x);
    if (!p->in->windows) return;
    int end = p->first + p->at * area;
    for (int row = begin; row < end; row++) pair(p->in->windows, row, begin, end);
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

void ph_packed_fill(const ph_spec *spec, const ph_tiles *picture, int first, const ph_packed_inputs *in) {
    const ph_tile_layout *l = &picture->layout;
    laying                p = {.l = l,
                               .pixels = picture->pixels,
                               .in = in,
                               .first = first,
                               .high = l->grid_h / l->merge,
                               .wide = l->grid_w / l->merge};
    int                   high = spec->packed.window ? spec->packed.window : p.high;
    int                   wide = spec->packed.window ? spec->packed.window : p.wide;
    for (int t = 0; t < l->grid_t; t++)
        for (int y = 0; y < p.high; y += high)
            for (int x = 0; x < p.wide; x += wide)
                lay_window(&p, t, y, smaller(y + high, p.high), x, smaller(x + wide, p.wide));
}

/* ---- the prompt ---- */

/* Positions that a video may take: far beyond every context, and those of all a prompt's add up in 32 bits.
 */
enum { POSITIONS_MAX = 1 << 20 };

/* Positions that a step of a video's time axis takes; the reference cuts the seconds to whole ones, and takes
 * two frames a second where it is not told. */
static int64_t time_step(const ph_spec *spec, const ph_tile_layout *l) {
    if (!spec->packed.tokens_per_second) return 1;
    double seconds = l->grid_seconds > 0 ? l->grid_seconds : l->temporal / 2.0;
    return (int64_t)(seconds < 1 << 20 ? seconds : 1 << 20) * spec->packed.tokens_per_second;
}

ph_rc ph_packed_image(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err) {
    int64_t step = time_step(spec, tiles), last = (tiles->grid_t - 1) * step;
    if (last > POSITIONS_MAX)
        return PH_FAIL(err, PH_ELIMIT,
                       "a video of %d grids takes %lld positions in time, %lld each by the model's "
                       "tokens_per_second (%d); the limit is %d: take fewer frames, or more a second",
                       tiles->grid_t, (long long)last, (long long)step, spec->packed.tokens_per_second,
                       POSITIONS_MAX);
    return ph_pieces_run(out, ph_spec_tokens(spec, tiles), err);
}

int32_t ph_packed_place(const ph_spec *spec, const ph_tile_layout *l, int32_t from, int token,
                        int32_t out[3]) {
    int32_t high = l->grid_h / l->merge, wide = l->grid_w / l->merge, step;
    step = l->grid_t > 1 ? (int32_t)time_step(spec, l) : 0; /* within 32 bits: ph_packed_image has looked */
    int32_t last = (l->grid_t - 1) * step;
    out[0] = from + token / (high * wide) * step;
    out[1] = from + token / wide % high;
    out[2] = from + token % wide;
    if (high - 1 > last) last = high - 1;
    if (wide - 1 > last) last = wide - 1;
    return from + last + 1;
}
