/* api_ask.c - questions and answers: a conversation, or a prompt as it is, through the corridor. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)PINHOLE_STOP_CANCEL == (int)PH_STOP_CANCEL &&
                   (int)PINHOLE_STOP_TOKEN == (int)PH_STOP_TOKEN,
               "stops");

const char *pinhole_stage_name(size_t i) {
    return i < PH_N_STAGES ? ph_stage_name[i] : NULL;
}

const char *pinhole_stop_name(int stop) {
    return stop >= PINHOLE_STOP_NONE && stop <= PINHOLE_STOP_CANCEL ? ph_stop_name[stop] : "?";
}

static ph_rc fill_how(const pinhole_asking *given, ph_question *q, ph_err *err) {
    pinhole_asking how;
    PH_TRY(ph_api_take(&how, sizeof how, given, "pinhole_asking", err));
    if (how.n_stop && !how.stop) return PH_FAIL(err, PH_EUSAGE, "%zu stop words at NULL", how.n_stop);
    for (size_t i = 0; i < how.n_stop; i++)
        if (!how.stop[i]) return PH_FAIL(err, PH_EUSAGE, "stop word %zu is NULL", i);
    q->answer_max = how.answer_max;
    q->ignore_stop = how.ignore_stop;
    q->sampling = (ph_sampling){.temperature = how.temperature,
                                .top_k = how.top_k,
                                .top_p = how.top_p,
                                .min_p = how.min_p,
                                .repeat_penalty = how.repeat_penalty,
                                .repeat_last = how.repeat_last,
                                .seed = how.seed};
    q->stop = how.stop;
    q->n_stop = how.n_stop;
    q->piece = how.sink;
    q->arg = how.arg;
    return PH_OK;
}

static void keep_answer(pinhole_conversation *c, const ph_answer *a) {
    memcpy(c->stage_ms, a->stage_ms, sizeof c->stage_ms);
    c->answer = (pinhole_answer){.text = a->text,
                                 .n_text = a->n_text,
                                 .ids = a->ids,
                                 .n_ids = a->n_ids,
                                 .prompt_tokens = a->prompt_tokens,
                                 .image_tokens = a->image_tokens,
                                 .cached_tokens = a->cached_tokens,
                                 .stop = (pinhole_stop)a->stop,
                                 .stop_name = ph_stop_name[a->stop],
                                 .stage_ms = c->stage_ms,
                                 .n_stages = PH_N_STAGES,
                                 .predicted = ph_api_memory(&a->predicted),
                                 .measured_peak = a->measured_peak,
                                 .measured_anon = a->measured_anon};
}

static ph_rc walk(pinhole_conversation *c, ph_question *q, ph_err *err) {
    ph_answer a;
    q->cancel = &c->cancel;
    PH_TRY(ph_ask(c->turn, q, &a, err));
    keep_answer(c, &a);
    return PH_OK;
}

/* ---- a conversation ---- */

/* The messages as the corridor takes them: borrowed views of the blocks. */
typedef struct view {
    ph_chat_message *message;
    ph_picture      *picture;
    size_t           n_pictures;
} view;

static ph_rc view_all(const pinhole_conversation *c, view *v, ph_err *err) {
    size_t n = 0;
    for (size_t i = 0; i < c->n_messages; i++) n += c->message[i]->n_pictures;
    v->message = calloc(c->n_messages + 1, sizeof *v->message);
    v->picture = calloc(n + 1, sizeof *v->picture);
    if (!v->message || !v->picture) return PH_FAIL(err, PH_ENOMEM, "a list of %zu messages", c->n_messages);
    for (size_t i = 0; i < c->n_messages; i++) {
        const ph_api_message *m = c->message[i];
        v->message[i] = (ph_chat_message){.role = m->role, .parts = m->part, .n_parts = m->n_parts};
        for (size_t k = 0; k < m->n_pictures; k++) v->picture[v->n_pictures++] = m->picture[k];
    }
    return PH_OK;
}

static ph_rc answer_all(pinhole_conversation *c, ph_question *q, ph_err *err) {
    view  v = {0};
    ph_rc rc = view_all(c, &v, err);
    q->messages = v.message;
    q->n_messages = c->n_messages;
    q->pictures = v.picture;
    q->n_pictures = v.n_pictures;
    if (!rc) rc = walk(c, q, err);
    free(v.message);
    free(v.picture);
    if (rc) return rc;
    const pinhole_part said = {PINHOLE_TEXT, c->answer.text, c->answer.n_text, NULL};
    return ph_api_message_add(c, "assistant", &said, 1, err);
}

static ph_rc ask(pinhole_conversation *c, const pinhole_part *parts, size_t n_parts,
                 const pinhole_asking *how, ph_err *err) {
    ph_question q = {0};
    PH_TRY(fill_how(how, &q, err));
    size_t before = c->n_messages;
    if (n_parts) PH_TRY(ph_api_message_add(c, "user", parts, n_parts, err));
    ph_rc rc = answer_all(c, &q, err);
    while (rc && c->n_messages > before) ph_api_message_drop(c);
    return rc;
}

static ph_rc check(const pinhole_conversation *conversation, const pinhole_part *parts, size_t n_parts,
                   ph_err *err) {
    PH_API_WANT(conversation);
    if (n_parts) PH_API_WANT(parts);
    return PH_OK;
}

int pinhole_ask(pinhole_conversation *conversation, const pinhole_part *parts, size_t n_parts,
                const pinhole_asking *how, const pinhole_answer **answer, pinhole_error *error) {
    ph_err err = {0};
    if (answer) *answer = NULL;
    ph_rc rc = check(conversation, parts, n_parts, &err);
    if (!rc) rc = ph_api_enter(conversation->session, &err);
    if (rc) return ph_api_end(rc, &err, error);
    rc = ask(conversation, parts, n_parts, how, &err);
    atomic_store(&conversation->cancel, 0);
    if (!rc && answer) *answer = &conversation->answer;
    ph_api_leave(conversation->session);
    return ph_api_end(rc, &err, error);
}

/* ---- a prompt as it is ---- */

static ph_rc complete(pinhole_conversation *c, const char *prompt, size_t n, const pinhole_part *pictures,
                      size_t n_pictures, const pinhole_asking *how, ph_err *err) {
    ph_question q = {.add_special = 1};
    if (n == PINHOLE_WHOLE) n = strlen(prompt);
    if (memchr(prompt, 0, n)) return PH_FAIL(err, PH_EUSAGE, "the prompt holds a zero byte");
    PH_TRY(fill_how(how, &q, err));
    char       *raw = malloc(n + 1);
    ph_picture *picture = calloc(n_pictures + 1, sizeof *picture);
    ph_rc       rc = raw && picture ? PH_OK : PH_FAIL(err, PH_ENOMEM, "a prompt of %zu bytes", n);
    for (size_t i = 0; !rc && i < n_pictures; i++) rc = ph_api_picture(&pictures[i], &picture[i], err);
    if (!rc) {
        memcpy(raw, prompt, n);
        raw[n] = 0;
        q.raw = raw;
        q.pictures = picture;
        q.n_pictures = n_pictures;
        rc = walk(c, &q, err);
    }
    free(raw);
    free(picture);
    return rc;
}

static ph_rc check_prompt(const char *prompt, ph_err *err) {
    PH_API_WANT(prompt);
    return PH_OK;
}

int pinhole_complete(pinhole_conversation *conversation, const char *prompt, size_t n,
                     const pinhole_part *pictures, size_t n_pictures, const pinhole_asking *how,
                     const pinhole_answer **answer, pinhole_error *error) {
    ph_err err = {0};
    if (answer) *answer = NULL;
    ph_rc rc = check(conversation, pictures, n_pictures, &err);
    if (!rc) rc = check_prompt(prompt, &err);
    if (!rc) rc = ph_api_enter(conversation->session, &err);
    if (rc) return ph_api_end(rc, &err, error);
    rc = complete(conversation, prompt, n, pictures, n_pictures, how, &err);
    atomic_store(&conversation->cancel, 0);
    if (!rc && answer) *answer = &conversation->answer;
    ph_api_leave(conversation->session);
    return ph_api_end(rc, &err, error);
}
