/* quant_model.c - prompts through GGUF files: ids, last logits, answer.
 *
 * The reference states no limits of its own here: 1e-4 of the largest logit, as for all f32 engines, and
 * the ids up to the first step whose margin is below 3e-4 of it.
 */
#include "measure/quant_model.h"

#include "measure/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct desk {
    ph_report *r;
    ph_model  *model;
    ph_probe   probe;
    ph_tensors t;
    ph_arena   arena;
} desk;

static ph_rc find(const desk *d, const char *name, const char *what, const ph_weight **w, ph_err *err) {
    char full[256];
    snprintf(full, sizeof full, "%.100s/%s", name, what);
    return ph_tensors_get(&d->t, w, full, err);
}

static double largest(const ph_weight *w) {
    double most = 0;
    for (size_t i = 0; i < ph_ref_count(w); i++) most = fmax(most, fabs(ph_ref_at(w, i)));
    return most;
}

static size_t stable_steps(const ph_weight *margins, double least) {
    size_t n = 0;
    while (n < ph_ref_count(margins) && ph_ref_at(margins, n) >= least) n++;
    return n;
}

static ph_rc check(desk *d, const ph_json *item, const char *name, ph_err *err) {
    const ph_weight *logits, *greedy, *margins;
    const char      *prompt;
    int32_t         *ids, *answer;
    size_t           n_ids, n;
    int              is_same;
    double           loose = ph_verify_looseness(d->r->how);
    ph_json          array = ph_json_get(item, "input_ids");
    PH_TRY(ph_json_text(item, "prompt", &prompt, err));
    PH_TRY(find(d, name, "logits_last", &logits, err));
    PH_TRY(find(d, name, "greedy_ids", &greedy, err));
    PH_TRY(find(d, name, "greedy_margins", &margins, err));
    PH_TRY(ph_golden_ids(&d->arena, &array, &ids, &n_ids, err));
    PH_TRY(ph_ref_ids(&d->arena, greedy, &answer, &n, err));
    const ph_question q = {.raw = prompt, .add_special = 1, .answer_max = (int)n, .ignore_stop = 1};
    PH_TRY(ph_probe_ask(&d->probe, &q, err));
    ph_probe_figure_ids(d->r, &d->probe, ids, n_ids);
    if (d->r->verdict != PH_VERDICT_OK) return PH_OK;
    double most = largest(logits);
    PH_TRY(ph_probe_figure_logits(d->r, d->probe.logits, (size_t)d->model->spec.text.vocab, logits,
                                  most * loose * (d->r->how->is_tight ? 2e-5 : 1e-4), "logits_last", err));
    ph_probe_figure_greedy(d->r, &d->probe, answer, n,
                           stable_steps(margins, most * (loose > 1 ? 1e-2 : 3e-4)), &is_same);
    return PH_OK;
}

static void each(desk *d, const char *file, const ph_json *cases, const ph_err *closed) {
    for (size_t i = 0; i < ph_json_count(cases); i++) {
        ph_err      err = {0};
        ph_json     item = ph_json_at(cases, i);
        const char *name = "?";
        ph_rc       rc = ph_json_text(&item, "name", &name, &err);
        if (!ph_case_begin(d->r, "%s %s", file, name)) continue;
        if (closed->code == PH_EUNSUP) {
            ph_case_skip(d->r, "%s", closed->msg);
        } else if (closed->code) {
            err = *closed;
            rc = closed->code;
        } else if (!rc) {
            ph_arena_reset(&d->arena);
            rc = check(d, &item, name, &err);
        }
        ph_case_end(d->r, rc, &err);
    }
}

static ph_rc open_desk(desk *d, const char *dir, const char *file, const ph_json *model, ph_err *err) {
    char        path[4096];
    const char *tensors;
    PH_TRY(ph_json_text(model, "tensors", &tensors, err));
    PH_TRY(ph_golden_path(path, sizeof path, dir, file, err));
    PH_TRY(ph_arena_open_growing(&d->arena, 64 << 10, err));
    PH_TRY(ph_tensors_open(&d->t, dir, tensors, err));
    PH_TRY(ph_model_open(&d->model, path, NULL, err));
    return ph_probe_open(&d->probe, d->model, d->r->how, 0, err);
}

static void one(ph_report *r, const char *dir, const ph_json *model) {
    ph_err      closed = {0};
    const char *file = "?";
    desk        d = {.r = r};
    ph_json     cases = ph_json_get(model, "cases");
    ph_rc       rc = ph_json_text(model, "file", &file, &closed);
    if (!rc) rc = open_desk(&d, dir, file, model, &closed);
    closed.code = rc;
    each(&d, file, &cases, &closed);
    ph_probe_close(&d.probe);
    ph_model_close(d.model);
    ph_tensors_close(&d.t);
    ph_arena_close(&d.arena);
}

void ph_quant_models(ph_report *r, const char *dir, const ph_json *models) {
    for (size_t i = 0; i < ph_json_count(models); i++) {
        ph_json model = ph_json_at(models, i);
        one(r, dir, &model);
    }
}
