/* case_panel.c - the built-in model: its trainer's answers to a set of questions, and how often it is right.
 *
 *     reference.json  samples: prompt ids, answer ids, five best logits; accuracy of the whole test
 *     test.jsonl      a question a line: image, type, question, answer
 *
 * Questions go through the chat template in the order of the file, on one turn: pictures that follow each
 * other are seen once.
 */
#include "measure/case.h"

#include "base/file.h"
#include "flow/flow.h"
#include "measure/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1 << 20, ANSWER_MAX = 64 };

/* Half a point, of the share of right answers; and logits as they are printed, against the largest. */
static const double accuracy_off = 0.005, logit_off = 1e-4;

static const char *questions_name(const char *dir) {
    static const char *const names[] = {"test.jsonl", "eval/test.jsonl"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ph_golden_has(dir, names[i])) return names[i];
    return NULL;
}

static int claims(const char *dir) {
    return ph_golden_json_has(dir, "reference.json", "samples") &&
           ph_golden_json_has(dir, "reference.json", "accuracy") && questions_name(dir);
}

typedef struct desk {
    ph_report  *r;
    const char *dir; /* where pictures are named from */
    ph_model   *model;
    ph_session *session;
    ph_turn    *turn;
    ph_arena    arena;
} desk;

/* The model stands in the folder, or where this project keeps its own: models/NAME. */
static ph_rc open_model(desk *d, const char *dir, const char *name, ph_err *err) {
    char path[4096];
    if (strchr(name, '/'))
        return PH_FAIL(err, PH_EFORMAT, "reference.json: '%.80s' is no model's name", name);
    for (size_t i = 0; i < 2; i++) {
        int n = i ? snprintf(path, sizeof path, "%s/../../../models/%s", dir, name)
                  : snprintf(path, sizeof path, "%s/%s", dir, name);
        if (n > 0 && (size_t)n < sizeof path && ph_path_is_dir(path))
            return ph_model_open(&d->model, path, NULL, err);
    }
    return PH_FAIL(err, PH_EPATH, "%s: the model %s is not beside its reference", dir, name);
}

static ph_rc open_desk(desk *d, const char *dir, const char *name, ph_err *err) {
    PH_TRY(open_model(d, dir, name, err));
    const ph_session_options o = ph_verify_session(d->r->how);
    PH_TRY(ph_session_open(&d->session, d->model, &o, err));
    PH_TRY(ph_turn_open(&d->turn, d->session, err));
    return ph_arena_open_growing(&d->arena, 16 << 10, err);
}

static void close_desk(desk *d) {
    ph_turn_close(d->turn);
    ph_session_close(d->session);
    ph_model_close(d->model);
    ph_arena_close(&d->arena);
}

/* ---- one question ---- */

typedef struct asked {
    ph_answer      answer;
    const int32_t *prompt;
    size_t         n_prompt;
    float         *logits; /* [vocab] after the prompt; in the arena */
} asked;

static ph_rc keep_logits(desk *d, asked *a, ph_err *err) {
    size_t vocab = (size_t)d->model->spec.text.vocab;
    void  *at;
    PH_TRY(ph_arena_carve(&d->arena, &at, vocab, sizeof *a->logits, err));
    a->logits = memcpy(at, ph_turn_logits(d->turn), vocab * sizeof *a->logits);
    return PH_OK;
}

static ph_rc walk(desk *d, const ph_question *q, asked *a, ph_err *err) {
    PH_TRY(ph_turn_begin(d->turn, q, err));
    while (ph_turn_stage(d->turn) != PH_STAGE_done) {
        if (ph_turn_stage(d->turn) == PH_STAGE_sample && !a->logits) PH_TRY(keep_logits(d, a, err));
        PH_TRY(ph_turn_walk(&d->turn, 1, err));
    }
    ph_turn_answer(d->turn, &a->answer);
    a->prompt = ph_turn_prompt_ids(d->turn, &a->n_prompt);
    return PH_OK;
}

static ph_rc ask(desk *d, const ph_json *item, asked *a, ph_err *err) {
    const char *image, *text;
    ph_file     file;
    PH_TRY(ph_json_text(item, "image", &image, err));
    PH_TRY(ph_json_text(item, "question", &text, err));
    PH_TRY(ph_file_open_in(&file, d->dir, image, err));
    const ph_picture      picture = {.bytes = file.bytes, .n = file.n, .name = image};
    const ph_chat_part    parts[2] = {{0}, {.text = text, .n = strlen(text)}};
    const ph_chat_message message = {.role = "user", .parts = parts, .n_parts = 2};
    const ph_question     q = {.messages = &message,
                               .n_messages = 1,
                               .pictures = &picture,
                               .n_pictures = 1,
                               .answer_max = ANSWER_MAX};
    ph_arena_reset(&d->arena);
    *a = (asked){0};
    ph_rc rc = walk(d, &q, a, err);
    ph_file_close(&file);
    return rc;
}

/* ---- the reference's own answers ---- */

static ph_rc best_logits(desk *d, const ph_json *item, const asked *a, ph_err *err) {
    ph_json  ids = ph_json_get(item, "top5_ids"), values = ph_json_get(item, "top5_logits");
    int32_t *id;
    size_t   n;
    double   worst = 0, scale = 0;
    PH_TRY(ph_golden_ids(&d->arena, &ids, &id, &n, err));
    if (!n || n != ph_json_count(&values))
        return PH_FAIL(err, PH_EFORMAT, "reference.json: %zu ids and %zu logits", n, ph_json_count(&values));
    for (size_t i = 0; i < n; i++) {
        ph_json value = ph_json_at(&values, i);
        double  want;
        PH_TRY(ph_json_to_real(&value, &want, err));
        if (id[i] < 0 || id[i] >= d->model->spec.text.vocab)
            return PH_FAIL(err, PH_EMISMATCH, "reference.json: id %d of %d", id[i],
                           d->model->spec.text.vocab);
        worst = fmax(worst, fabs((double)a->logits[id[i]] - want));
        scale = fmax(scale, fabs(want));
    }
    ph_figure(d->r, worst, logit_off * scale, "five best logits");
    return PH_OK;
}

static ph_rc sample(desk *d, const ph_json *item, ph_err *err) {
    asked       a;
    ph_json     prompt = ph_json_get(item, "input_ids"), answer = ph_json_get(item, "generated_ids");
    int32_t    *ids;
    size_t      n;
    const char *text;
    PH_TRY(ask(d, item, &a, err));
    PH_TRY(ph_golden_ids(&d->arena, &prompt, &ids, &n, err));
    ph_figure_ids(d->r, a.prompt, a.n_prompt, ids, n, "prompt ids");
    PH_TRY(ph_golden_ids(&d->arena, &answer, &ids, &n, err));
    if (n && ph_model_is_stop(d->model, ids[n - 1])) n--; /* ours leaves the token that stopped it out */
    ph_figure_ids(d->r, a.answer.ids, a.answer.n_ids, ids, n, "answer ids");
    PH_TRY(ph_json_text(item, "text", &text, err));
    ph_figure_text(d->r, a.answer.text, a.answer.n_text, text, strlen(text), "answer");
    return best_logits(d, item, &a, err);
}

/* ---- how often it is right ---- */

static int is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static int is_right(const ph_answer *a, const char *want) {
    const char *got = a->text;
    size_t      n = a->n_text, m = strlen(want);
    while (n && is_blank(*got)) got++, n--;
    while (n && is_blank(got[n - 1])) n--;
    while (m && is_blank(*want)) want++, m--;
    while (m && is_blank(want[m - 1])) m--;
    return n == m && !memcmp(got, want, n);
}

typedef struct tally {
    size_t closed, closed_right, all, all_right;
} tally;

static ph_rc judge(desk *d, const uint8_t *line, size_t n, tally *t, ph_err *err) {
    ph_json_doc doc = {0};
    asked       a;
    const char *type, *want;
    PH_TRY(ph_json_parse(&doc, line, n, "test.jsonl", err));
    ph_json root = ph_json_root(&doc);
    ph_rc   rc = ph_json_text(&root, "type", &type, err);
    if (!rc) rc = ph_json_text(&root, "answer", &want, err);
    if (!rc) rc = ask(d, &root, &a, err);
    if (!rc) {
        int right = is_right(&a.answer, want), closed = strcmp(type, "caption") != 0;
        t->all++;
        t->all_right += (size_t)right;
        t->closed += (size_t)closed;
        t->closed_right += (size_t)(closed && right);
    }
    ph_json_close(&doc);
    return rc;
}

static ph_rc judge_all(desk *d, const ph_file *f, tally *t, ph_err *err) {
    for (size_t at = 0, line = 1; at < f->n; line++) {
        const uint8_t *end = memchr(f->bytes + at, '\n', f->n - at);
        size_t         n = end ? (size_t)(end - (f->bytes + at)) : f->n - at;
        if (n > LINE_MAX_BYTES)
            return PH_FAIL(err, PH_ELIMIT, "test.jsonl: line %zu is %zu bytes long", line, n);
        if (n) {
            ph_rc rc = judge(d, f->bytes + at, n, t, err);
            if (rc) return ph_note(err, rc, "at line %zu of test.jsonl", line);
        }
        at += n + 1;
    }
    return PH_OK;
}

static ph_rc share(ph_report *r, const ph_json *test, const char *count_key, const char *share_key,
                   size_t right, size_t n, ph_err *err) {
    int    count;
    double want;
    PH_TRY(ph_json_size(test, count_key, 1, 1 << 24, &count, err));
    PH_TRY(ph_json_real(test, share_key, &want, err));
    if (n != (size_t)count)
        return PH_FAIL(err, PH_EMISMATCH, "test.jsonl: %zu questions, the reference counts %d", n, count);
    double ours = (double)right / (double)n;
    ph_case_note(r, "%s: %zu of %zu right, %.2f %%", share_key, right, n, 100 * ours);
    ph_figure(r, fabs(ours - want), accuracy_off, "%s", share_key);
    return PH_OK;
}

static ph_rc accuracy(desk *d, const char *dir, const ph_json *root, ph_err *err) {
    char    path[4096];
    ph_file f;
    tally   t = {0};
    ph_json all = ph_json_get(root, "accuracy"), test = ph_json_get(&all, "test");
    snprintf(path, sizeof path, "%.3500s/%s", dir, questions_name(dir));
    PH_TRY(ph_file_open(&f, path, err));
    ph_rc rc = judge_all(d, &f, &t, err);
    ph_file_close(&f);
    PH_TRY(rc);
    PH_TRY(share(d->r, &test, "closed_n", "closed_exact_match", t.closed_right, t.closed, err));
    return share(d->r, &test, "n", "exact_match_all", t.all_right, t.all, err);
}

static void samples(desk *d, const ph_json *root) {
    ph_json all = ph_json_get(root, "samples");
    for (size_t i = 0; i < ph_json_count(&all); i++) {
        ph_json     item = ph_json_at(&all, i);
        ph_err      err = {0};
        const char *id = "?";
        ph_rc       rc = ph_json_text(&item, "id", &id, &err);
        if (!ph_case_begin(d->r, "%s", id)) continue;
        if (!rc) rc = sample(d, &item, &err);
        ph_case_end(d->r, rc, &err);
    }
}

static void run(ph_report *r, const char *dir) {
    desk        d = {.r = r};
    ph_json_doc doc = {0};
    ph_err      err = {0};
    const char *name = "";
    char        pictures[4096];
    /* Pictures are named from where the questions stand. */
    snprintf(pictures, sizeof pictures, "%.4000s%s", dir, strchr(questions_name(dir), '/') ? "/eval" : "");
    d.dir = pictures;
    ph_rc   rc = ph_golden_json(&doc, dir, "reference.json", &err);
    ph_json root = ph_json_root(&doc);
    if (!rc) rc = ph_json_text(&root, "model", &name, &err);
    if (!rc) rc = open_desk(&d, dir, name, &err);
    if (rc) {
        if (ph_case_begin(r, "reference.json")) ph_case_end(r, rc, &err);
    } else {
        samples(&d, &root);
        if (ph_case_begin(r, "accuracy")) {
            rc = accuracy(&d, dir, &root, &err);
            ph_case_end(r, rc, &err);
        }
    }
    close_desk(&d);
    ph_json_close(&doc);
}

const ph_case_kind ph_case_panel = {"panel", "the built-in model's answers", claims, run, 0, 1};
