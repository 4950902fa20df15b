/* case_model.c - tiny checkpoints with what a reference implementation computed from them.
 *
 * A folder in Hugging Face layout with golden/manifest.json (cases) and golden/CASE.safetensors.  Each
 * case goes through the corridor twice: as users run it, for ids, logits and the answer; and with taps, for
 * the values inside.  Ids first: where they differ, nothing else means anything.
 */
#include "measure/case_model.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int claims(const char *dir) {
    char golden[4096];
    snprintf(golden, sizeof golden, "%s/golden", dir);
    return ph_golden_has_model(dir) && ph_golden_json_has(golden, "manifest.json", "cases");
}

/* ---- what the manifest says ---- */

/* A 16-bit KV cache rounds to one part in 2000: the reference's loose limits hold then, a hundredfold. */
static ph_rc read_tolerance(ph_model_case *c, ph_err *err) {
    const ph_verify_options *how = c->r->how;
    ph_json                  t = ph_json_get(&c->item, "tolerance");
    double                   most, tight, loose = ph_verify_looseness(how);
    PH_TRY(ph_json_real_or(&c->item, "logits_absmax", 0, &most, err));
    PH_TRY(ph_json_real_or(&t, "logits_atol", 1e-4 * most, &c->atol, err));
    PH_TRY(ph_json_real_or(&t, "logits_atol_tight", c->atol, &tight, err));
    PH_TRY(ph_json_real_or(&t, "hidden_rtol", 1e-4, &c->rtol, err));
    if (how->is_tight) c->atol = tight;
    c->atol *= loose;
    c->atol_final = c->atol;
    c->language_rtol = c->rtol * loose;
    return PH_OK;
}

/* From the case's tensors, else from the manifest. */
static ph_rc read_ids(ph_model_case *c, const char *name, int32_t **ids, size_t *n, ph_err *err) {
    const ph_weight *w = ph_weights_find(&c->t.file.weights, name);
    ph_json          array = ph_json_get(&c->item, name);
    *n = 0;
    if (w) return ph_ref_ids(&c->desk->arena, w, ids, n, err);
    if (ph_json_kind_of(&array) == PH_JSON_ARRAY) return ph_golden_ids(&c->desk->arena, &array, ids, n, err);
    return PH_OK;
}

static ph_rc read_case(ph_model_case *c, ph_err *err) {
    int64_t     stable;
    const char *file;
    char        golden[4096];
    snprintf(golden, sizeof golden, "%.4080s/golden", c->desk->dir);
    PH_TRY(ph_json_text(&c->item, "file", &file, err));
    PH_TRY(ph_tensors_open(&c->t, golden, file, err));
    PH_TRY(read_tolerance(c, err));
    PH_TRY(read_ids(c, "input_ids", &c->ids, &c->n_ids, err));
    PH_TRY(read_ids(c, "greedy_ids", &c->greedy, &c->n_greedy, err));
    if (!c->n_ids) return PH_FAIL(err, PH_EMISMATCH, "the reference holds no input_ids");
    PH_TRY(ph_json_int_or(
        &c->item, ph_verify_looseness(c->r->how) <= 1 ? "greedy_stable_len" : "greedy_stable_len_loose", 0,
        &stable, err));
    c->stable = stable > 0 ? (size_t)stable : 0;
    PH_TRY(ph_json_text_or(&c->item, "rendered_text", NULL, &c->prompt, err));
    if (!c->prompt) PH_TRY(ph_json_text(&c->item, "prompt", &c->prompt, err));
    return PH_OK;
}

/* ---- figures that are not tensors ---- */

enum { MESSAGES_MAX = 64 };

/* A case with messages says that our template gives the prompt. */
static ph_rc check_template(ph_model_case *c, ph_err *err) {
    ph_json         list = ph_json_get(&c->item, "messages");
    ph_chat_message message[MESSAGES_MAX];
    ph_chat_part    part[MESSAGES_MAX];
    ph_chat_text    text;
    size_t          n = ph_json_count(&list);
    if (!n) return PH_OK;
    if (n > MESSAGES_MAX) return PH_FAIL(err, PH_ELIMIT, "%zu messages; at most %d", n, MESSAGES_MAX);
    for (size_t i = 0; i < n; i++) {
        ph_json one = ph_json_at(&list, i), content = ph_json_get(&one, "content");
        if (ph_json_kind_of(&content) != PH_JSON_TEXT) return PH_OK;
        message[i] = (ph_chat_message){.parts = &part[i], .n_parts = 1};
        PH_TRY(ph_json_text(&one, "role", &message[i].role, err));
        PH_TRY(ph_json_to_text(&content, &part[i].text, &part[i].n, err));
    }
    PH_TRY(ph_model_render(c->desk->model, message, n, &c->desk->arena, &text, err));
    ph_figure_text(c->r, text.bytes, text.n, c->prompt, strlen(c->prompt), "messages through the template");
    return PH_OK;
}

static ph_rc check_text(ph_model_case *c, ph_err *err) {
    const char *ref;
    size_t      n;
    ph_json     text = ph_json_get(&c->item, "greedy_text_skip_special");
    if (ph_json_kind_of(&text) != PH_JSON_TEXT || !c->is_answer_same) return PH_OK;
    PH_TRY(ph_json_to_text(&text, &ref, &n, err)); /* an answer may hold a NUL */
    ph_figure_text(c->r, c->probe->text, c->probe->n_text, ref, n, "greedy_text_skip_special");
    return PH_OK;
}

static ph_rc check_nll(ph_model_case *c, ph_err *err) {
    const ph_row_logits *rows = &c->probe->rows;
    double               ref, sum = 0;
    if (!ph_json_has(&c->item, "prompt_mean_nll") || rows->n < 2) return PH_OK;
    PH_TRY(ph_json_real(&c->item, "prompt_mean_nll", &ref, err));
    for (size_t i = 0; i + 1 < rows->n; i++) sum += rows->nll[i];
    ph_figure(c->r, fabs(sum / (double)(rows->n - 1) - ref), c->atol, "prompt_mean_nll");
    return PH_OK;
}

/* A checkpoint with a vision part that its family here does not build: its text is compared, its pictures
 * wait. */
static int lacks_vision(const ph_model_desk *d, const ph_json *item) {
    ph_json images = ph_json_get(item, "images"), config = ph_json_root(&d->model->source.hf.config);
    return ph_json_count(&images) && !d->model->vision && ph_json_has(&config, "vision_config");
}

/* ---- one case ---- */

static ph_rc look(ph_model_case *c, const ph_question *q, ph_err *err) {
    int32_t         *argmax = NULL, *next;
    size_t           n;
    void            *at;
    const ph_weight *w = ph_weights_find(&c->t.file.weights, "prompt_argmax");
    if (w) {
        PH_TRY(ph_ref_ids(&c->desk->arena, w, &argmax, &n, err));
        if (n != c->n_ids) argmax = NULL;
    }
    PH_TRY(ph_arena_carve(&c->desk->arena, &at, c->n_ids, sizeof *next, err));
    next = at;
    for (size_t i = 0; i < c->n_ids; i++) next[i] = i + 1 < c->n_ids ? c->ids[i + 1] : -1;
    const ph_row_logits rows = {.argmax_ref = argmax, .next = next, .n_ref = c->n_ids};
    PH_TRY(ph_probe_look(c->probe, q, &rows, err));
    if (c->probe->rows.n == c->n_ids) return PH_OK;
    return PH_FAIL(err, PH_EBUG, "logits of %zu rows for a prompt of %zu", c->probe->rows.n, c->n_ids);
}

static ph_rc compare(ph_model_case *c, ph_err *err) {
    int add_special;
    PH_TRY(ph_json_bool_or(&c->item, "add_special_tokens", 1, &add_special, err));
    const ph_question q = {.raw = c->prompt,
                           .add_special = add_special,
                           .pictures = c->picture,
                           .n_pictures = c->n_pictures,
                           .answer_max = c->n_greedy ? (int)c->n_greedy : 1,
                           .ignore_stop = 1};
    if (c->r->how->against) return ph_model_case_parts(c, &q, err);
    PH_TRY(ph_probe_ask(c->probe, &q, err));
    ph_probe_figure_ids(c->r, c->probe, c->ids, c->n_ids);
    if (c->r->verdict != PH_VERDICT_OK) return PH_OK;
    PH_TRY(look(c, &q, err));
    PH_TRY(ph_model_case_tensors(c, err));
    PH_TRY(check_template(c, err));
    PH_TRY(check_text(c, err));
    PH_TRY(check_nll(c, err));
    if (!c->n_outputs)
        return PH_FAIL(err, PH_EMISMATCH, "the reference holds no output that could be compared");
    return PH_OK;
}

static ph_rc check(ph_model_case *c, ph_err *err) {
    PH_TRY(read_case(c, err));
    PH_TRY(ph_model_case_pictures(c, err));
    return compare(c, err);
}

static void one(ph_model_desk *d, const ph_json *item, const ph_err *closed) {
    ph_err        err = {0};
    const char   *name = "?";
    ph_rc         rc = ph_json_text(item, "name", &name, &err);
    ph_model_case c = {.desk = d, .r = d->r, .probe = &d->probe, .item = *item};
    if (!ph_case_begin(d->r, "%s", name)) return;
    if (closed->code == PH_EUNSUP) {
        ph_case_skip(d->r, "%s", closed->msg);
    } else if (closed->code) {
        err = *closed;
        rc = closed->code;
    } else if (ph_json_has(item, "video") && !d->model->video_recipe.kind) {
        ph_case_skip(d->r, "the videos of '%s' are not supported yet", d->model->source.type);
    } else if (!rc && lacks_vision(d, item)) {
        ph_case_skip(d->r, "the vision part of '%s' is not supported yet", d->model->source.type);
    } else if (!rc) {
        ph_arena_reset(&d->arena);
        rc = check(&c, &err);
    }
    ph_case_end(d->r, rc, &err);
    ph_model_case_close_pictures(&c);
    ph_tensors_close(&c.t);
}

/* ---- the folder ---- */

static int is_any_wanted(ph_report *r, const ph_json *cases) {
    char whole[1024];
    if (!r->how->filter) return 1;
    for (size_t i = 0; i < ph_json_count(cases); i++) {
        ph_json     item = ph_json_at(cases, i);
        const char *name = "?";
        if (ph_json_text(&item, "name", &name, NULL)) name = "?";
        snprintf(whole, sizeof whole, "%s/%s", r->folder, name);
        if (strstr(whole, r->how->filter)) return 1;
    }
    r->left_out++;
    return 0;
}

static ph_rc open_desk(ph_model_desk *d, const char *dir, ph_err *err) {
    char golden[4300];
    snprintf(d->images, sizeof d->images, "%.4080s/../../images", dir);
    snprintf(golden, sizeof golden, "%s/golden", d->images);
    PH_TRY(ph_arena_open_growing(&d->arena, 256 << 10, err));
    PH_TRY(ph_golden_open_model(&d->model, dir, err));
    if (d->model->vision && ph_golden_has(golden, "decoded.safetensors"))
        PH_TRY(ph_tensors_open(&d->decoded, golden, "decoded.safetensors", err));
    if (d->r->how->against) PH_TRY(ph_model_parts_open(d, err));
    return ph_probe_open(&d->probe, d->model, d->r->how, 1, err);
}

static void each(ph_model_desk *d, const ph_json *cases) {
    ph_err closed = {0};
    if (!is_any_wanted(d->r, cases)) return;
    ph_rc rc = open_desk(d, d->dir, &closed);
    closed.code = rc;
    for (size_t i = 0; i < ph_json_count(cases); i++) {
        ph_json item = ph_json_at(cases, i);
        one(d, &item, &closed);
    }
}

static void run(ph_report *r, const char *dir) {
    char          golden[4096];
    ph_json_doc   doc = {0};
    ph_err        err = {0};
    ph_model_desk d = {.r = r, .dir = dir};
    snprintf(golden, sizeof golden, "%.4080s/golden", dir);
    ph_rc   rc = ph_golden_json(&doc, golden, "manifest.json", &err);
    ph_json root = ph_json_root(&doc), cases = ph_json_get(&root, "cases");
    if (rc && ph_case_begin(r, "manifest.json")) ph_case_end(r, rc, &err);
    if (!rc) each(&d, &cases);
    ph_probe_close(&d.probe);
    ph_probe_close(&d.other);
    ph_tensors_close(&d.decoded);
    ph_model_close(d.model);
    ph_arena_close(&d.arena);
    ph_json_close(&doc);
}

const ph_case_kind ph_case_model = {
    "model", "checkpoints: ids, pixels, hidden states, logits, answers", claims, run, 0, 2};
