/* stage_picture.c - decode and prepare: the bytes of a file become the trainer's own tiles.
 *
 * Sizes come first: what a picture will cost in pixels and in tokens is known from
 * its header, and is refused before a row of it exists.
 */
#include "flow/session.h"

#include <malloc.h>
#include <string.h>

enum { TRIM_BYTES = 1 << 20 };

static int is_video(const ph_view *v) {
    return v->n_frames > 1 || v->file.is_video;
}

/* Frames of a video are prepared by a recipe of their own. */
static const ph_recipe *recipe_of(const ph_turn *t, const ph_view *v) {
    return is_video(v) ? &t->session->model->video_recipe : &t->session->recipe;
}

static ph_rc measure_frame(ph_turn *t, ph_view *v, int i, ph_err *err) {
    const ph_image_options o = {.pixels_max = t->session->how.pixels_max, .alpha = t->session->how.alpha};
    ph_image_info          info;
    PH_TRY(ph_image_measure(&info, v->frame[i].bytes, v->frame[i].n, &o, err));
    if (i && (info.width != v->info.width || info.height != v->info.height))
        return PH_FAIL(err, PH_EFORMAT, "frame %d of a video is of %d x %d pixels, the first of %d x %d",
                       i + 1, info.width, info.height, v->info.width, v->info.height);
    if (!i) v->info = info;
    return PH_OK;
}

/* A session is opened only with a budget that all pictures keep; none is broken silently. */
static ph_rc check_budget(const ph_turn *t, const ph_view *v, ph_err *err) {
    int min = t->session->how.image_min_tokens, max = t->session->how.image_max_tokens;
    if (v->n_visual >= min && (!max || v->n_visual <= max)) return PH_OK;
    return PH_FAIL(err, PH_ELIMIT,
                   "a picture of %d x %d pixels takes %d image tokens; %d .. %d were asked for",
                   v->info.width, v->info.height, v->n_visual, min, max);
}

static ph_rc measure(ph_turn *t, ph_view *v, ph_err *err) {
    const ph_model *m = t->session->model;
    if (v->is_sound) return ph_sound_measure(t, v, err);
    if (!m->recipe.kind)
        return PH_FAIL(err, PH_EUNSUP, "this model takes sound, not pictures: give it a recording");
    if (is_video(v) && !m->video_recipe.kind)
        return PH_FAIL(err, PH_EUNSUP, "this model takes no videos: give it frames as pictures");
    for (int i = 0; i < v->n_frames; i++) PH_TRY(measure_frame(t, v, i, err));
    PH_TRY(ph_recipe_layout_video(&v->layout, recipe_of(t, v), v->info.width, v->info.height, v->n_frames,
                                  v->file.fps, err));
    v->n_visual = ph_spec_tokens(&m->spec, &v->layout);
    return is_video(v) ? PH_OK : check_budget(t, v, err);
}

static ph_rc check_tokens(ph_turn *t, ph_err *err) {
    int64_t tokens = 0;
    for (size_t i = 0; i < t->n_views; i++) tokens += t->view[i].n_visual;
    t->n_image_tokens = (int)(tokens < INT32_MAX ? tokens : INT32_MAX);
    if (t->session->model->cross) return ph_cross_check(t, (size_t)tokens, err);
    if (tokens < t->session->how.context) return PH_OK;
    return PH_FAIL(err, PH_ECONTEXT,
                   "the %zu picture%s of this prompt take %lld tokens, but the context holds %d: use fewer "
                   "or smaller pictures, or a larger -c",
                   t->n_views, t->n_views == 1 ? "" : "s", (long long)tokens, t->session->how.context);
}

static ph_rc decode_frame(ph_turn *t, ph_view *v, int i, ph_err *err) {
    const ph_image_options o = {.pixels_max = t->session->how.pixels_max, .alpha = t->session->how.alpha};
    ph_rc  rc = ph_image_decode(&v->pixels[i], v->frame[i].bytes, v->frame[i].n, &o, &t->picture_arena, err);
    size_t held = t->picture_arena.size + ph_image_decode_bytes(&v->info);
    if (held > t->done.decode) t->done.decode = held;
    t->done.files += v->frame[i].n;
    /* What a decoder gave back lies in the heap's free lists, and would stay resident while the picture is
     * seen. */
    if (ph_image_decode_bytes(&v->info) > TRIM_BYTES) malloc_trim(0);
    return rc;
}

static ph_rc decode_one(ph_turn *t, ph_view *v, ph_err *err) {
    void *at;
    if (v->is_sound) return ph_sound_decode(t, v, err);
    PH_TRY(ph_arena_zero(&t->picture_arena, &at, (size_t)v->n_frames, sizeof *v->pixels, err));
    v->pixels = at;
    for (int i = 0; i < v->n_frames; i++) PH_TRY(decode_frame(t, v, i, err));
    return PH_OK;
}

static ph_rc in_file(const ph_view *v, ph_rc rc, ph_err *err) {
    return ph_note(err, rc, "in the %s %s", v->is_sound ? "recording" : "picture", v->file.name);
}

static ph_rc decode_turn(ph_turn *t, ph_err *err) {
    const ph_model *m = t->session->model;
    if (t->n_views && !m->vision)
        return PH_FAIL(err, PH_EUNSUP, "this model takes no pictures: it is a text model%s",
                       m->source.is_gguf ? " (a GGUF model's vision part is given with --mmproj)" : "");
    for (size_t i = 0; i < t->n_views; i++) {
        ph_rc rc = measure(t, &t->view[i], err);
        if (rc) return in_file(&t->view[i], rc, err);
    }
    PH_TRY(check_tokens(t, err));
    for (size_t i = 0; i < t->n_views; i++) {
        ph_rc rc = decode_one(t, &t->view[i], err);
        if (rc) return in_file(&t->view[i], rc, err);
    }
    return PH_OK;
}

ph_rc ph_decode(ph_turn *const *turns, size_t n, ph_err *err) {
    for (size_t i = 0; i < n; i++) {
        PH_TRY(decode_turn(turns[i], err));
        turns[i]->stage = PH_STAGE_prepare;
    }
    return PH_OK;
}

/* Two independent 64-bit multiply-and-fold hashes over 8-byte words: equal pictures after equal preparation
 * have equal keys; different ones differ but for a chance of 2^-128. */
static void hash(uint64_t key[2], const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t w = 0;
        memcpy(&w, at + i, n - i < 8 ? n - i : 8);
        key[0] = (key[0] ^ w) * 0x9e3779b97f4a7c15u;
        key[0] ^= key[0] >> 29;
        key[1] = (key[1] + w) * 0xd6e8feb86659fd93u;
        key[1] ^= key[1] >> 32;
    }
}

static ph_rc prepare_one(ph_turn *t, ph_view *v, ph_err *err) {
    if (v->is_sound)
        PH_TRY(ph_sound_prepare(t, v, err));
    else
        PH_TRY(ph_recipe_run_video(&v->tiles, recipe_of(t, v), v->pixels, v->n_frames, v->file.fps, 0,
                                   &t->picture_arena, err));
    const ph_tile_layout *l = &v->tiles.layout;
    const int32_t form[7] = {l->n_tiles, l->rows, l->cols, l->height, l->width, l->n_patches, l->is_video};
    v->key[0] = 0x243f6a8885a308d3u;
    v->key[1] = 0x13198a2e03707344u;
    hash(v->key, form, sizeof form);
    size_t planes = v->is_sound ? 1 : 3;
    hash(v->key, v->tiles.pixels,
         sizeof(float) * planes * (size_t)l->n_tiles * (size_t)l->height * (size_t)l->width);
    return PH_OK;
}

/* A picture whose features stand already among the owner's rows, from this question of it or the one before,
 * is not seen again. */
static int find_seen(const ph_turn *owner, const ph_view *among, size_t n, ph_view *v) {
    size_t first = owner->features_first, room = ph_session_features_rows(owner->session);
    for (size_t i = 0; i < n; i++)
        if (among[i].is_seen && among[i].n_visual == v->n_visual && among[i].row >= first &&
            among[i].row < first + room && !memcmp(among[i].key, v->key, sizeof v->key)) {
            v->row = among[i].row;
            v->is_seen = 1;
            return 1;
        }
    return 0;
}

/* Or of another turn, whose rows are not written while this one may read them. */
static int find_peers(ph_turn *t, ph_view *v) {
    for (size_t i = 0; i < t->n_peers; i++)
        if (t->peer[i] != t && find_seen(t->peer[i], t->peer[i]->view, t->peer[i]->n_views, v)) {
            t->borrows |= UINT64_C(1) << i;
            return 1;
        }
    return 0;
}

/* As if none had been seen. */
static void forget(ph_turn *t) {
    for (size_t i = 0; i < t->n_views; i++) t->view[i].is_seen = 0;
    t->borrows = 0;
    t->features_rows = 0;
}

/* Rows of their own for those that are to be seen. */
static ph_rc give_rows(ph_turn *t, size_t room, ph_err *err) {
    for (size_t i = 0; i < t->n_views; i++) {
        if (t->view[i].is_seen) continue;
        if (t->features_rows + (size_t)t->view[i].n_visual > room)
            return PH_FAIL(err, PH_EBUG, "no room for the visual tokens of picture %zu", i);
        t->view[i].row = t->features_first + t->features_rows;
        t->features_rows += (size_t)t->view[i].n_visual;
    }
    return PH_OK;
}

/* Where each picture's visual tokens will stand among the turn's features. */
ph_rc ph_turn_place(ph_turn *t, ph_err *err) {
    size_t   room = ph_session_features_rows(t->session), wanted = 0;
    uint64_t own = 0;
    t->is_placed = 1;
    for (size_t i = 0; i < t->n_views; i++) {
        if (find_peers(t, &t->view[i])) continue;
        if (find_seen(t, t->old, t->n_old, &t->view[i]))
            own |= UINT64_C(1) << i;
        else
            wanted += (size_t)t->view[i].n_visual;
    }
    /* Nothing of the question before is of use, or pictures no longer asked about leave no room: begin anew.
     */
    if (!own || t->features_rows + wanted > room) {
        t->features_rows = 0;
        for (size_t i = 0; i < t->n_views; i++)
            if (own >> i & 1) t->view[i].is_seen = 0;
    }
    PH_TRY(give_rows(t, room, err));
    if (ph_inject_is_piece(t)) return PH_OK;
    forget(t); /* what is injected is one run of rows */
    return give_rows(t, room, err);
}

ph_rc ph_prepare(ph_turn *const *turns, size_t n, ph_err *err) {
    for (size_t i = 0; i < n; i++) {
        ph_turn *t = turns[i];
        for (size_t v = 0; v < t->n_views; v++) {
            ph_rc rc = prepare_one(t, &t->view[v], err);
            if (rc) return in_file(&t->view[v], rc, err);
        }
        if (t->n_views && t->picture_arena.size > t->done.prepare) t->done.prepare = t->picture_arena.size;
        t->see_view = 0;
        t->see_tile = 0;
        t->stage = PH_STAGE_see;
    }
    return PH_OK;
}
