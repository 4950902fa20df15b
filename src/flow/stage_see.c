/* stage_see.c - see, drop, bridge: tiles become visual tokens, a chunk of tiles at a time.
 *
 * One run of the vision graph takes at most the planned number of tiles, from as
 * many turns as fit; drop and bridge follow for the same tiles, then the next chunk
 * is seen.  So memory depends on the chunk, never on how many pictures there are.
 * Towers over packed patches take whole pictures of any size instead, up to the
 * planned number of patches.
 */
#include "flow/session.h"

#include <malloc.h>
#include <string.h>

enum { TRIM_BYTES = 64 << 10 };

/* All pictures are seen: their pixels are of no more use. */
static void seen(ph_turn *t) {
    ph_arena_reset(&t->picture_arena);
    if (t->done.prepare > TRIM_BYTES)
        malloc_trim(0); /* sizes differ from picture to picture: no free lists */
    for (size_t i = 0; i < t->n_views; i++) t->view[i].pixels = NULL, t->view[i].tiles = (ph_tiles){0};
    t->stage = PH_STAGE_splice;
}

static ph_view *next_view(ph_turn *t) {
    while (t->see_view < t->n_views && t->view[t->see_view].is_seen) {
        t->see_view++;
        t->see_tile = 0;
    }
    return t->see_view < t->n_views ? &t->view[t->see_view] : NULL;
}

/* Put up to `room` tiles of the turn behind the `at` tiles that the input holds already. */
static int take_tiles(ph_turn *t, float *pixels, int32_t *ids, int at, int room) {
    ph_view *v = next_view(t);
    int      left = v->layout.n_tiles - t->see_tile, n = left < room ? left : room;
    size_t   tile = t->session->tile_floats;
    memcpy(pixels + (size_t)at * tile, v->tiles.pixels + (size_t)t->see_tile * tile,
           (size_t)n * tile * sizeof *pixels);
    const ph_model *m = t->session->model;
    for (int i = 0; ids && i < n; i++)
        ids[at + i] = m->family->tile_id(&m->spec, &v->layout, t->see_tile + i);
    t->tile_at = at;
    t->tile_n = n;
    return n;
}

static ph_rc see_tiles(ph_turn *const *turns, size_t n, ph_err *err) {
    ph_session *s = turns[0]->session;
    ph_syms     syms = {{0}};
    int         wanted = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        ph_view *v = next_view(turns[i]);
        if (v) wanted += v->layout.n_tiles - turns[i]->see_tile;
    }
    syms.at[PH_SYM_I] = wanted < s->how.tiles ? wanted : s->how.tiles;
    PH_TRY(ph_part_ready(s, PH_PART_VISION, &syms, err));
    float   *pixels = s->part[PH_PART_VISION].engine->def->buffer(s->part[PH_PART_VISION].program, s->pixels);
    int32_t *ids =
        s->tile_ids < 0
            ? NULL
            : s->part[PH_PART_VISION].engine->def->buffer(s->part[PH_PART_VISION].program, s->tile_ids);
    for (size_t i = 0; i < n && at < syms.at[PH_SYM_I]; i++) {
        if (!next_view(turns[i])) continue;
        at += take_tiles(turns[i], pixels, ids, at, (int)syms.at[PH_SYM_I] - at);
        turns[i]->stage = PH_STAGE_drop;
        if (at > turns[i]->done.tiles) turns[i]->done.tiles = at;
    }
    syms.at[PH_SYM_I] = at;
    s->tiles_seen = at;
    return ph_part_run(s, PH_PART_VISION, &syms, turns[0]->question->cancel, err);
}

/* ---- packed patches ---- */

/* Whole pictures of the turn behind the `at` patches that the run holds already: as many as the limit lets,
 * and one at least when it holds none.  in NULL: only count. */
static int take_pictures(ph_turn *t, int at, const ph_packed_inputs *in) {
    const ph_session *s = t->session;
    int               n = 0;
    for (size_t i = t->see_view; i < t->n_views; i++) {
        const ph_view *v = &t->view[i];
        if (v->is_seen) continue;
        if (at + n && at + n + v->layout.n_patches > s->how.patches) break;
        if (in) ph_packed_fill(&s->model->spec, &v->tiles, at + n, in);
        n += v->layout.n_patches;
    }
    return n;
}

static void *input_of(const ph_session *s, ph_part part, int value) {
    const ph_ready *r = &s->part[part];
    return value < 0 ? NULL : r->engine->def->buffer(r->program, value);
}

/* The bridge's input is filled with the tower's: it stands behind the tower's program, which leaves it alone.
 */
static ph_rc see_pictures(ph_turn *const *turns, size_t n, ph_err *err) {
    ph_session *s = turns[0]->session;
    ph_syms     syms = {{0}};
    int         at = 0;
    for (size_t i = 0; i < n; i++) at += take_pictures(turns[i], at, NULL);
    syms.at[PH_SYM_N] = s->tiles_seen = at;
    PH_TRY(ph_part_ready(s, PH_PART_VISION, &syms, err));
    PH_TRY(ph_part_ready(s, PH_PART_BRIDGE, &syms, err));
    const ph_packed_inputs in = {.patches = input_of(s, PH_PART_VISION, s->patches),
                                 .rows = input_of(s, PH_PART_VISION, s->patch_rows),
                                 .segments = input_of(s, PH_PART_VISION, s->segments),
                                 .windows = input_of(s, PH_PART_VISION, s->windows),
                                 .order = input_of(s, PH_PART_BRIDGE, s->order)};
    at = 0;
    for (size_t i = 0; i < n; i++) {
        ph_turn *t = turns[i];
        t->tile_at = at;
        t->tile_n = take_pictures(t, at, &in);
        at += t->tile_n;
        if (!t->tile_n) continue;
        t->stage = PH_STAGE_drop;
        if (s->tiles_seen > t->done.patches) t->done.patches = s->tiles_seen;
    }
    return ph_part_run(s, PH_PART_VISION, &syms, turns[0]->question->cancel, err);
}

ph_rc ph_see(ph_turn *const *turns, size_t n, ph_err *err) {
    int wanted = 0;
    for (size_t i = 0; i < n; i++) {
        if (!turns[i]->is_placed) PH_TRY(ph_turn_place(turns[i], err));
        if (next_view(turns[i]))
            wanted = 1;
        else
            seen(turns[i]);
    }
    if (!wanted) return PH_OK;
    return turns[0]->session->patches >= 0 ? see_pictures(turns, n, err) : see_tiles(turns, n, err);
}

/* No family of ours has a node that drops features yet: all of them go on. */
ph_rc ph_drop(ph_turn *const *turns, size_t n, ph_err *err) {
    (void)err;
    for (size_t i = 0; i < n; i++) turns[i]->stage = PH_STAGE_bridge;
    return PH_OK;
}

static void go_on(ph_turn *t) {
    if (next_view(t))
        t->stage = PH_STAGE_see;
    else
        seen(t);
}

static void copy(ph_turn *t, size_t row, const float *from, size_t n) {
    size_t d = t->session->d_visual;
    float *to = t->features + row * d;
    if (to == from) return; /* made where it shall stand */
    memcpy(to, from, n * d * sizeof *from);
    ph_trace_add(t->session->trace, "border bytes copied", n * d * sizeof *from);
}

/* Tokens whose order is not that of the tiles: those of the tiles that were seen now. */
static void keep_anyres(ph_turn *t, const ph_view *v, const float *visual) {
    const ph_spec *spec = &t->session->model->spec;
    int            run = spec->bridge.tokens_per_tile + 1;
    size_t         d = (size_t)spec->bridge.d_out;
    for (int k = 0; k < v->n_visual; k++) {
        int from = ph_anyres_source(spec, &v->layout, k), tile = from / run - t->see_tile;
        if (tile < 0 || tile >= t->tile_n) continue;
        copy(t, v->row + (size_t)k,
             visual + ((size_t)(t->tile_at + tile) * (size_t)run + (size_t)(from % run)) * d, 1);
    }
}

static void keep_tiles(ph_turn *t, const float *visual) {
    const ph_spec *spec = &t->session->model->spec;
    ph_view       *v = next_view(t);
    size_t         run = (size_t)spec->bridge.tokens_per_tile, d = t->session->d_visual;
    if (spec->bridge.has_newline)
        keep_anyres(t, v, visual);
    else
        copy(t, v->row + (size_t)t->see_tile * run, visual + (size_t)t->tile_at * run * d,
             (size_t)t->tile_n * run);
    t->see_tile += t->tile_n;
    if (t->see_tile == v->layout.n_tiles) v->is_seen = 1;
    go_on(t);
}

/* The pictures that take_pictures() took, in the same order. */
static void keep_pictures(ph_turn *t, const float *visual) {
    size_t d = t->session->d_visual;
    for (int left = t->tile_n, at = t->tile_at; left;) {
        ph_view *v = next_view(t);
        int      patches = v->layout.n_patches, first = at / (v->layout.merge * v->layout.merge);
        copy(t, v->row, visual + (size_t)first * d, (size_t)v->n_visual);
        v->is_seen = 1;
        left -= patches;
        at += patches;
    }
    go_on(t);
}

/* Where the run's visual tokens shall stand, if that is one piece, as they are made: one turn's tiles in
 * their order, or its pictures behind each other; else NULL. */
static float *one_piece(ph_turn *const *turns, size_t n) {
    ph_session    *s = turns[0]->session;
    const ph_spec *spec = &s->model->spec;
    ph_turn       *t = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!turns[i]->tile_n) continue;
        if (t) return NULL;
        t = turns[i];
    }
    if (!t || s->how.copies_features) return NULL;
    const ph_view *v = next_view(t);
    if (s->patches < 0)
        return spec->bridge.has_newline
                   ? NULL
                   : t->features +
                         (v->row + (size_t)t->see_tile * (size_t)spec->bridge.tokens_per_tile) * s->d_visual;
    size_t row = v->row;
    int    left = t->tile_n;
    for (size_t i = t->see_view; left; i++) {
        if (t->view[i].is_seen) continue;
        if (t->view[i].row != row) return NULL;
        row += (size_t)t->view[i].n_visual;
        left -= t->view[i].layout.n_patches;
    }
    return t->features + v->row * s->d_visual;
}

ph_rc ph_bridge(ph_turn *const *turns, size_t n, ph_err *err) {
    ph_session     *s = turns[0]->session;
    const ph_ready *v = &s->part[PH_PART_VISION], *b = &s->part[PH_PART_BRIDGE];
    ph_syms         syms = {{0}};
    syms.at[s->patches >= 0 ? PH_SYM_N : PH_SYM_I] = s->tiles_seen;
    PH_TRY(ph_part_ready(s, PH_PART_BRIDGE, &syms, err));
    PH_TRY(
        b->engine->def->lend(b->program, s->bridge_in, v->engine->def->buffer(v->program, s->features), err));
    /* An engine that makes its outputs nowhere else is copied from. */
    (void)b->engine->def->lend(b->program, s->visual_out, one_piece(turns, n), NULL);
    PH_TRY(ph_part_run(s, PH_PART_BRIDGE, &syms, turns[0]->question->cancel, err));
    const float *visual = b->engine->def->buffer(b->program, s->visual_out);
    for (size_t i = 0; i < n; i++)
        s->patches >= 0 ? keep_pictures(turns[i], visual) : keep_tiles(turns[i], visual);
    return PH_OK;
}
