/* stage_see.c - see, drop, bridge: tiles become visual tokens, a chunk of tiles at a time.
 *
 * One run of the vision graph takes at most the planned number of tiles, from as
 * many turns as fit; drop and bridge follow for the same tiles, then the next chunk
 * is seen.  So memory depends on the chunk, never on how many pictures there are.
 */
#include "flow/session.h"

#include <string.h>

static ph_view *next_view(ph_turn *t) {
    while (t->see_view < t->n_views && t->view[t->see_view].is_seen) {
        t->see_view++;
        t->see_tile = 0;
    }
    return t->see_view < t->n_views ? &t->view[t->see_view] : NULL;
}

/* Put up to `room` tiles of the turn behind the `at` tiles that the input holds already. */
static int take_tiles(ph_turn *t, float *pixels, int at, int room) {
    ph_view *v = next_view(t);
    int      left = v->layout.n_tiles - t->see_tile, n = left < room ? left : room;
    size_t   tile = 3 * (size_t)v->layout.height * (size_t)v->layout.width;
    memcpy(pixels + (size_t)at * tile, v->tiles.pixels + (size_t)t->see_tile * tile,
           (size_t)n * tile * sizeof *pixels);
    t->tile_at = at;
    t->tile_n = n;
    return n;
}

ph_rc ph_see(ph_turn *const *turns, size_t n, ph_err *err) {
    ph_session *s = turns[0]->session;
    ph_syms     syms = {{0}};
    int         wanted = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        ph_view *v = next_view(turns[i]);
        if (v)
            wanted += v->layout.n_tiles - turns[i]->see_tile;
        else
            turns[i]->stage = PH_STAGE_splice;
    }
    if (!wanted) return PH_OK;
    syms.at[PH_SYM_I] = wanted < s->how.tiles ? wanted : s->how.tiles;
    PH_TRY(ph_part_ready(s, PH_PART_VISION, &syms, err));
    float *pixels = s->part[PH_PART_VISION].engine->def->buffer(s->part[PH_PART_VISION].program, s->pixels);
    for (size_t i = 0; i < n && at < syms.at[PH_SYM_I]; i++) {
        if (!next_view(turns[i])) continue;
        at += take_tiles(turns[i], pixels, at, (int)syms.at[PH_SYM_I] - at);
        turns[i]->stage = PH_STAGE_drop;
        if (at > turns[i]->done.tiles) turns[i]->done.tiles = at;
    }
    syms.at[PH_SYM_I] = at;
    s->tiles_seen = at;
    return ph_part_run(s, PH_PART_VISION, &syms, turns[0]->question->cancel, err);
}

/* No family of ours has a node that drops features yet: all of them go on. */
ph_rc ph_drop(ph_turn *const *turns, size_t n, ph_err *err) {
    (void)err;
    for (size_t i = 0; i < n; i++) turns[i]->stage = PH_STAGE_bridge;
    return PH_OK;
}

static void keep_tokens(ph_turn *t, const float *visual) {
    const ph_spec *spec = &t->session->model->spec;
    ph_view       *v = next_view(t);
    size_t         run = (size_t)spec->bridge.tokens_per_tile, d = (size_t)spec->text.d_model;
    memcpy(t->features + (v->row + (size_t)t->see_tile * run) * d, visual + (size_t)t->tile_at * run * d,
           (size_t)t->tile_n * run * d * sizeof *visual);
    t->see_tile += t->tile_n;
    if (t->see_tile == v->layout.n_tiles) v->is_seen = 1;
    t->stage = next_view(t) ? PH_STAGE_see : PH_STAGE_splice;
}

ph_rc ph_bridge(ph_turn *const *turns, size_t n, ph_err *err) {
    ph_session     *s = turns[0]->session;
    const ph_ready *v = &s->part[PH_PART_VISION], *b = &s->part[PH_PART_BRIDGE];
    ph_syms         syms = {{0}};
    syms.at[PH_SYM_I] = s->tiles_seen;
    PH_TRY(ph_part_ready(s, PH_PART_BRIDGE, &syms, err));
    PH_TRY(
        b->engine->def->lend(b->program, s->bridge_in, v->engine->def->buffer(v->program, s->features), err));
    PH_TRY(ph_part_run(s, PH_PART_BRIDGE, &syms, turns[0]->question->cancel, err));
    const float *visual = b->engine->def->buffer(b->program, s->visual_out);
    for (size_t i = 0; i < n; i++) keep_tokens(turns[i], visual);
    return PH_OK;
}
