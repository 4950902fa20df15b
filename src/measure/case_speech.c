/* case_speech.c - speech models: a recording and the ids that open the transcript in, the reference's
 * features, encoder states, logits and ids beside ours.
 *
 * A folder in Hugging Face layout with golden/manifest.json (cases with "audio" and "prefix") and
 * golden/CASE.safetensors.  "logmel30" beside the cases holds features at the setting of real checkpoints.
 */
#include "measure/probe.h"

#include "audio/audio_recipe.h"
#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct desk {
    ph_report *r;
    char       golden[4096];
    ph_model  *model;
    ph_probe   probe;
    ph_arena   arena; /* of one case */
} desk;

/* One case, opened. */
typedef struct speech {
    desk       *d;
    ph_json     item;
    ph_tensors  t;
    ph_file     sound;
    const char *audio; /* its file */
    double      atol, features_atol, encoder_rtol;
} speech;

static int has_sounds(const ph_json *root) {
    ph_json cases = ph_json_get(root, "cases"), first = ph_json_at(&cases, 0);
    return ph_json_has(&first, "audio");
}

static int claims(const char *dir) {
    char        golden[4096];
    ph_json_doc doc = {0};
    snprintf(golden, sizeof golden, "%.4080s/golden", dir);
    if (!ph_golden_has_model(dir) || !ph_golden_has(golden, "manifest.json") ||
        ph_golden_json(&doc, golden, "manifest.json", NULL))
        return 0;
    ph_json root = ph_json_root(&doc);
    int     has = has_sounds(&root);
    ph_json_close(&doc);
    return has;
}

static ph_rc open_speech(speech *s, ph_err *err) {
    desk       *d = s->d;
    const char *file;
    double      most;
    ph_json     t = ph_json_get(&s->item, "tolerance");
    PH_TRY(ph_json_text(&s->item, "audio", &s->audio, err));
    PH_TRY(ph_json_text(&s->item, "file", &file, err));
    PH_TRY(ph_tensors_open(&s->t, d->golden, file, err));
    PH_TRY(ph_file_open_in(&s->sound, d->golden, s->audio, err));
    PH_TRY(ph_json_real_or(&s->item, "logits_absmax", 0, &most, err));
    PH_TRY(ph_json_real_or(&t, "logits_atol", 1e-4 * most, &s->atol, err));
    PH_TRY(ph_json_real_or(&t, "input_features", 1e-4, &s->features_atol, err));
    PH_TRY(ph_json_real_or(&t, "encoder_rel", 1e-4, &s->encoder_rtol, err));
    if (d->r->how->is_tight) s->atol = 2e-5 * most;
    if (d->r->how->kv != PH_F32) s->atol *= 100; /* a cache of 16 bits rounds to one part in 2000 */
    return PH_OK;
}

/* ---- features ---- */

static ph_rc features_of(desk *d, const ph_audio_recipe *r, const ph_file *f, ph_mels *out, ph_err *err) {
    ph_sound sound;
    PH_TRY(ph_audio_decode(&sound, f->bytes, f->n, NULL, &d->arena, err));
    return ph_audio_recipe_run(out, r, &sound, &d->arena, err);
}

static ph_rc compare_features(speech *s, ph_err *err) {
    const ph_weight *ref;
    ph_mels          m;
    PH_TRY(ph_tensors_get(&s->t, &ref, "input_features", err));
    PH_TRY(features_of(s->d, &s->d->model->audio_recipe, &s->sound, &m, err));
    size_t n =
        (size_t)m.layout.n_mels * (size_t)m.layout.n_frames; /* the reference keeps the first stretch */
    PH_TRY(ph_same_count(n, ref, err));
    ph_figure(s->d->r, ph_gap_floats(m.features, n, ref, 0).diff, s->features_atol, "input_features");
    return PH_OK;
}

/* ---- the encoder ---- */

static ph_rc compare_seen(speech *s, const char *value, const char *name, ph_err *err) {
    const ph_weight *ref = ph_weights_find(&s->t.file.weights, name);
    const ph_seen   *seen = ph_probe_seen(&s->d->probe, value);
    if (!ref) return PH_OK;
    if (!seen) return PH_FAIL(err, PH_EMISMATCH, "our graphs have no value %s", value);
    PH_TRY(ph_same_count(seen->n, ref, err));
    ph_gap g = ph_gap_floats(seen->at, seen->n, ref, 0);
    ph_figure(s->d->r, g.diff, s->encoder_rtol * g.scale, "%s", name);
    return PH_OK;
}

static ph_rc compare_encoder(speech *s, const ph_question *q, ph_err *err) {
    const ph_row_logits rows = {0};
    char                value[64], name[64];
    PH_TRY(ph_probe_look(&s->d->probe, q, &rows, err));
    for (int i = 0; i <= s->d->model->spec.tower.n_layers; i++) {
        snprintf(value, sizeof value, "vision.hidden.%d", i);
        snprintf(name, sizeof name, "encoder_hidden_%d", i);
        PH_TRY(compare_seen(s, value, name, err));
    }
    return compare_seen(s, "features", "encoder_last", err);
}

/* ---- the transcript ---- */

static ph_rc read_ids(speech *s, const char *name, int32_t **ids, size_t *n, ph_err *err) {
    const ph_weight *ref;
    PH_TRY(ph_tensors_get(&s->t, &ref, name, err));
    return ph_ref_ids(&s->d->arena, ref, ids, n, err);
}

static ph_rc compare_answer(speech *s, const int32_t *greedy, size_t n, ph_err *err) {
    desk            *d = s->d;
    size_t           vocab = (size_t)d->model->spec.text.vocab;
    const ph_weight *ref;
    const char      *text;
    int64_t          stable;
    int              is_same;
    PH_TRY(ph_tensors_get(&s->t, &ref, "logits_last", err));
    PH_TRY(ph_probe_figure_logits(d->r, d->probe.logits, vocab, ref, s->atol, ref->name, err));
    PH_TRY(ph_json_int_or(&s->item, "greedy_stable_len", 0, &stable, err));
    ph_probe_figure_greedy(d->r, &d->probe, greedy, n, stable > 0 ? (size_t)stable : 0, &is_same);
    PH_TRY(ph_json_text_or(&s->item, "greedy_text_skip_special", NULL, &text, err));
    if (is_same && text)
        ph_figure_text(d->r, d->probe.text, d->probe.n_text, text, strlen(text), "greedy_text_skip_special");
    if (!is_same) return PH_OK;
    PH_TRY(ph_tensors_get(&s->t, &ref, "greedy_final_step_logits", err));
    return ph_probe_figure_logits(d->r, d->probe.final_logits, vocab, ref, s->atol, ref->name, err);
}

static ph_rc check(speech *s, ph_err *err) {
    int32_t *prefix, *greedy;
    size_t   n_prefix, n_greedy;
    PH_TRY(open_speech(s, err));
    PH_TRY(read_ids(s, "decoder_prefix_ids", &prefix, &n_prefix, err));
    PH_TRY(read_ids(s, "greedy_ids", &greedy, &n_greedy, err));
    const ph_recording recording = {.bytes = s->sound.bytes, .n = s->sound.n, .name = s->audio};
    const ph_question  q = {
         .ids = prefix, .n_ids = n_prefix, .sound = &recording, .answer_max = (int)n_greedy, .ignore_stop = 1};
    PH_TRY(compare_features(s, err));
    PH_TRY(ph_probe_ask(&s->d->probe, &q, err));
    PH_TRY(compare_answer(s, greedy, n_greedy, err));
    return compare_encoder(s, &q, err);
}

/* ---- features at the real setting ---- */

static ph_rc check_long(desk *d, const ph_json *item, ph_tensors *t, ph_file *f, ph_err *err) {
    enum { SECONDS = 30 };
    ph_audio_recipe  r = d->model->audio_recipe;
    const char      *audio;
    const ph_weight *at, *ref;
    ph_mels          m;
    double           worst = 0;
    PH_TRY(ph_json_text(item, "audio", &audio, err));
    PH_TRY(ph_file_open_in(f, d->golden, audio, err));
    PH_TRY(ph_tensors_open(t, d->golden, "logmel30.safetensors", err));
    PH_TRY(ph_tensors_get(t, &at, "sample_index", err));
    PH_TRY(ph_tensors_get(t, &ref, "sample", err));
    PH_TRY(ph_same_count(ph_ref_count(at), ref, err));
    r.chunk_samples = SECONDS * r.rate;
    r.n_frames = r.chunk_samples / r.hop;
    PH_TRY(features_of(d, &r, f, &m, err));
    size_t n = (size_t)r.n_mels * (size_t)r.n_frames;
    for (size_t i = 0; i < ph_ref_count(at); i++) {
        double flat = ph_ref_at(at, i);
        if (!(flat >= 0 && flat < (double)n))
            return PH_FAIL(err, PH_EMISMATCH, "%s: index %g of %zu features", at->name, flat, n);
        double diff = fabs((double)m.features[(size_t)flat] - ph_ref_at(ref, i));
        worst = diff <= worst ? worst : diff;
    }
    ph_figure(d->r, worst, 1e-4, "features of %d seconds", SECONDS);
    return PH_OK;
}

static void long_case(desk *d, const ph_json *root, const ph_err *closed) {
    ph_json    item = ph_json_get(root, "logmel30");
    ph_err     err = *closed;
    ph_tensors t = {0};
    ph_file    f = {0};
    if (ph_json_kind_of(&item) != PH_JSON_OBJECT || !ph_case_begin(d->r, "logmel30")) return;
    ph_arena_reset(&d->arena);
    ph_rc rc = closed->code ? closed->code : check_long(d, &item, &t, &f, &err);
    ph_case_end(d->r, rc, &err);
    ph_tensors_close(&t);
    ph_file_close(&f);
}

/* ---- the folder ---- */

static void one(desk *d, const ph_json *item, const ph_err *closed) {
    ph_err      err = {0};
    const char *name = "?";
    ph_rc       rc = ph_json_text(item, "name", &name, &err);
    speech      s = {.d = d, .item = *item};
    if (!ph_case_begin(d->r, "%s", name)) return;
    if (closed->code) {
        err = *closed;
        rc = closed->code;
    }
    ph_arena_reset(&d->arena);
    if (!rc) rc = check(&s, &err);
    ph_case_end(d->r, rc, &err);
    ph_tensors_close(&s.t);
    ph_file_close(&s.sound);
}

static ph_rc open_desk(desk *d, const char *dir, ph_err *err) {
    PH_TRY(ph_arena_open_growing(&d->arena, 256 << 10, err));
    PH_TRY(ph_golden_open_model(&d->model, dir, err));
    if (!d->model->audio_recipe.processor)
        return PH_FAIL(err, PH_EMISMATCH, "the cases have sounds, the model takes none");
    return ph_probe_open(&d->probe, d->model, d->r->how, 1, err);
}

static void run(ph_report *r, const char *dir) {
    ph_json_doc doc = {0};
    ph_err      err = {0};
    desk        d = {.r = r};
    snprintf(d.golden, sizeof d.golden, "%.4080s/golden", dir);
    ph_rc   rc = ph_golden_json(&doc, d.golden, "manifest.json", &err);
    ph_json root = ph_json_root(&doc), cases = ph_json_get(&root, "cases");
    if (rc && ph_case_begin(r, "manifest.json")) ph_case_end(r, rc, &err);
    if (!rc) {
        err.code = open_desk(&d, dir, &err);
        for (size_t i = 0; i < ph_json_count(&cases); i++) {
            ph_json item = ph_json_at(&cases, i);
            one(&d, &item, &err);
        }
        long_case(&d, &root, &err);
    }
    ph_probe_close(&d.probe);
    ph_model_close(d.model);
    ph_arena_close(&d.arena);
    ph_json_close(&doc);
}

const ph_case_kind ph_case_speech = {
    "speech", "speech models: features, encoder states, transcripts", claims, run, 0, 1};
