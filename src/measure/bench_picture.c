/* bench_picture.c - the picture that a benchmark looks at, and one look.
 *
 * Without a picture of the caller's one is made: a bitmap of gradients and noise, whose pixels are the same
 * everywhere.  Seeing costs the same whatever is on it; decoding does not, so a made picture has no decode
 * row.
 */
#include "measure/bench_impl.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER = 54, SIDE_MAX = 8192 };

static void put32(uint8_t *at, uint32_t x) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(x >> 8 * i);
}

/* A 24-bit BMP of width x height; *n its bytes.  NULL: no memory. */
static uint8_t *make_picture(uint32_t width, uint32_t height, size_t *n) {
    size_t   row = ((size_t)width * 3 + 3) / 4 * 4, bytes = HEADER + row * height;
    uint8_t *at = calloc(1, bytes);
    uint32_t noise = 1;
    if (!at) return NULL;
    at[0] = 'B', at[1] = 'M';
    put32(at + 2, (uint32_t)bytes);
    put32(at + 10, HEADER);
    put32(at + 14, HEADER - 14);
    put32(at + 18, width);
    put32(at + 22, height);
    at[26] = 1, at[28] = 24;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *p = at + HEADER + y * row + (size_t)x * 3;
            noise = noise * 1664525U + 1013904223U;
            p[0] = (uint8_t)(x * 255 / width);
            p[1] = (uint8_t)(y * 255 / height);
            p[2] = (uint8_t)(noise >> 24);
        }
    *n = bytes;
    return at;
}

static ph_rc choose(ph_benching *b, ph_err *err) {
    const ph_bench_options *how = b->how;
    ph_bench               *out = b->out;
    if (how->picture) {
        const ph_image_options o = {.pixels_max = how->session->pixels_max, .alpha = how->session->alpha};
        ph_image_info          info;
        b->picture = *how->picture;
        PH_TRY(ph_image_measure(&info, b->picture.bytes, b->picture.n, &o, err));
        out->image_width = info.width;
        out->image_height = info.height;
        return PH_OK;
    }
    out->image_width = how->image_width ? how->image_width : 1024;
    out->image_height = how->image_height ? how->image_height : 768;
    if (out->image_width < 1 || out->image_width > SIDE_MAX || out->image_height < 1 ||
        out->image_height > SIDE_MAX)
        return PH_FAIL(err, PH_EUSAGE, "a picture of %dx%d; sides are 1 to %d", out->image_width,
                       out->image_height, SIDE_MAX);
    b->made = make_picture((uint32_t)out->image_width, (uint32_t)out->image_height, &b->picture.n);
    if (!b->made) return PH_FAIL(err, PH_ENOMEM, "a picture of %dx%d", out->image_width, out->image_height);
    b->picture.bytes = b->made;
    b->picture.name = "the made picture";
    return PH_OK;
}

ph_rc ph_bench_picture(ph_benching *b, ph_err *err) {
    ph_tile_layout l;
    PH_TRY(choose(b, err));
    PH_TRY(ph_recipe_layout(&l, &b->model->recipe, b->out->image_width, b->out->image_height, err));
    b->out->n_tiles = l.n_patches ? 0 : l.n_tiles;
    b->out->n_patches = l.n_patches;
    b->out->image_tokens = ph_spec_tokens(&b->model->spec, &l);
    return PH_OK;
}

/* Up to where the picture's features stand; a turn of its own, since a turn remembers pictures. */
static ph_rc look(ph_turn *t, const ph_question *q, ph_answer *out, ph_err *err) {
    PH_TRY(ph_turn_begin(t, q, err));
    while (ph_turn_stage(t) != PH_STAGE_splice) PH_TRY(ph_turn_walk(&t, 1, err));
    ph_turn_answer(t, out);
    return PH_OK;
}

ph_rc ph_bench_see(ph_benching *b, size_t threads, ph_err *err) {
    const int32_t     id = 0;
    const ph_question q = {
        .ids = &id, .n_ids = 1, .pictures = &b->picture, .n_pictures = 1, .answer_max = 1, .ignore_stop = 1};
    ph_answer a;
    ph_turn  *t;
    PH_TRY(ph_turn_open(&t, b->session[threads], err));
    ph_rc rc = look(t, &q, &a, err);
    ph_turn_close(t);
    if (rc) return rc;
    if (!b->made) ph_bench_keep(b, PH_TIMED_DECODE, threads, a.stage_ms[PH_STAGE_decode]);
    ph_bench_keep(b, PH_TIMED_PREPARE, threads, a.stage_ms[PH_STAGE_prepare]);
    ph_bench_keep(b, PH_TIMED_SEE, threads, a.stage_ms[PH_STAGE_see]);
    ph_bench_keep(b, PH_TIMED_BRIDGE, threads, a.stage_ms[PH_STAGE_bridge] + a.stage_ms[PH_STAGE_drop]);
    return PH_OK;
}

/* A window's patches see each other: the mean over patches of the size of their window. */
static double windowed(int high, int wide, int side, int area) {
    double squares = 0, patches = 0;
    for (int y = 0; y < high; y += side)
        for (int x = 0; x < wide; x += side) {
            double n =
                (double)(y + side < high ? side : high - y) * (x + side < wide ? side : wide - x) * area;
            squares += n * n;
            patches += n;
        }
    return patches > 0 ? squares / patches : 0;
}

void ph_bench_segments(const ph_spec *spec, const ph_tile_layout *l, double *whole, double *window) {
    *whole = (double)l->grid_h * l->grid_w;
    *window = *whole;
    if (spec->packed.window > 0 && l->merge > 0)
        *window =
            windowed(l->grid_h / l->merge, l->grid_w / l->merge, spec->packed.window, l->merge * l->merge);
}
