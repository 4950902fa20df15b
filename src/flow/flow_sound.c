/* flow_sound.c - a recording on its way: what stage_picture.c does for pictures.
 *
 *     bytes ─ decode ─► samples ─ resample, take the stretch ─ log-mel ─► one tile [n_mels, n_frames]
 *
 * A recording that is longer than the model hears at once has several stretches; a question is about one of
 * them.
 */
#include "flow/session.h"

#include <string.h>

ph_rc ph_sound_measure(ph_turn *t, ph_view *v, ph_err *err) {
    const ph_model        *m = t->session->model;
    const ph_audio_recipe *r = &m->audio_recipe;
    ph_mel_layout          mel;
    if (!r->processor)
        return PH_FAIL(err, PH_EUNSUP, "this model takes no sound: ask it about %s",
                       m->vision ? "pictures or text" : "text");
    PH_TRY(ph_audio_measure(&v->heard, v->file.bytes, v->file.n, NULL, err));
    PH_TRY(ph_audio_recipe_layout(&mel, r, v->heard.frames, v->heard.rate, err));
    t->n_stretches = mel.n_chunks;
    if (v->stretch < 0 || v->stretch >= mel.n_chunks)
        return PH_FAIL(err, PH_EUSAGE, "stretch %d of a recording that has %d", v->stretch, mel.n_chunks);
    v->layout = (ph_tile_layout){
        .n_tiles = 1, .overview = -1, .height = mel.n_mels, .width = mel.n_frames, .image_width = v->stretch};
    v->n_visual = m->spec.bridge.tokens_per_tile;
    return PH_OK;
}

ph_rc ph_sound_decode(ph_turn *t, ph_view *v, ph_err *err) {
    PH_TRY(ph_audio_decode(&v->sound, v->file.bytes, v->file.n, NULL, &t->picture_arena, err));
    size_t held = t->picture_arena.size + v->heard.heap_bytes;
    if (held > t->done.decode) t->done.decode = held;
    t->done.files += v->file.n;
    return PH_OK;
}

/* The stretch is cut out first, so that it is prepared as if it were alone, and nothing else is. */
ph_rc ph_sound_prepare(ph_turn *t, ph_view *v, ph_err *err) {
    const ph_audio_recipe *r = &t->session->model->audio_recipe;
    ph_sound               whole, part;
    ph_mels                mels;
    PH_TRY(ph_audio_resample(&whole, &v->sound, r->rate, &t->picture_arena, err));
    size_t from = (size_t)v->stretch * (size_t)r->chunk_samples;
    if (from >= whole.n)
        return PH_FAIL(err, PH_EBUG, "stretch %d begins at sample %zu of %zu", v->stretch, from, whole.n);
    part = (ph_sound){.n = whole.n - from, .rate = whole.rate, .samples = whole.samples + from};
    if (part.n > (size_t)r->chunk_samples) part.n = (size_t)r->chunk_samples;
    PH_TRY(ph_audio_recipe_run(&mels, r, &part, &t->picture_arena, err));
    v->tiles = (ph_tiles){.layout = v->layout, .pixels = mels.features};
    return PH_OK;
}

ph_rc ph_sound_stated(const ph_session *s, ph_done *d, ph_err *err) {
    const ph_audio_recipe *r = &s->model->audio_recipe;
    size_t                 n = (size_t)r->chunk_samples, mels;
    enum { PCM = 2 };
    PH_TRY(ph_audio_recipe_bytes(&mels, r, n, r->rate, err));
    d->tiles = 1;
    d->visual = d->beside = (size_t)s->model->spec.bridge.tokens_per_tile;
    d->files = n * PCM;
    d->decode = n * sizeof(float);
    d->prepare = d->decode + mels;
    return PH_OK;
}
