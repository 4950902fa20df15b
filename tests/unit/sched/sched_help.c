/* sched_help.c - lists of questions and what came of them, see sched_help.h. */
#include "tests/unit/sched/sched_help.h"

#include <string.h>

static void say(const ph_err *e) {
    ut_failed++;
    printf("%s: %s\n", ph_rc_name(e->code), e->msg);
}

ph_model *sh_model(const char *path) {
    ph_err    e = {0};
    ph_model *m;
    if (ph_model_open(&m, path, NULL, &e)) say(&e);
    return m;
}

ph_session *sh_session(const ph_model *m, const ph_session_options *o) {
    ph_err      e = {0};
    ph_session *s = NULL;
    if (m && ph_session_open(&s, m, o, &e)) say(&e);
    return s;
}

void sh_open(sh_list *l, const sh_ask *ask, size_t n) {
    memset(l, 0, sizeof *l);
    l->ask = ask;
    l->n = n;
    l->in_order = 1;
    for (size_t i = 0; i < n; i++) {
        ph_err e = {0};
        char   path[256];
        size_t parts = 0;
        if (ask[i].picture) {
            snprintf(path, sizeof path, "%s%s", SH_IMAGES, ask[i].picture);
            if (ph_file_open(&l->file[i], path, &e)) say(&e);
            l->picture[i] =
                (ph_picture){.bytes = l->file[i].bytes, .n = l->file[i].n, .name = ask[i].picture};
            l->part[i][parts++] = (ph_chat_part){0};
        }
        l->part[i][parts++] = (ph_chat_part){.text = ask[i].text, .n = strlen(ask[i].text)};
        l->message[i] = (ph_chat_message){.role = "user", .parts = l->part[i], .n_parts = parts};
        l->q[i] = (ph_question){.messages = &l->message[i],
                                .n_messages = 1,
                                .pictures = &l->picture[i],
                                .n_pictures = parts - 1,
                                .answer_max = 6 + (int)i % 5,
                                .ignore_stop = 1};
    }
}

void sh_close(sh_list *l) {
    for (size_t i = 0; i < l->n; i++) ph_file_close(&l->file[i]);
}

int sh_next(void *arg, size_t index, const ph_question **q, ph_err *err) {
    sh_list *l = arg;
    if (index >= l->n) return 0;
    if (!*l->ask[index].text) return PH_FAIL(err, PH_EFORMAT, "question %zu cannot be read", index);
    *q = &l->q[index];
    return 1;
}

int sh_done(void *arg, size_t index, ph_rc rc, const ph_answer *a, const ph_err *err) {
    sh_list   *l = arg;
    sh_answer *to = &l->answer[index];
    l->in_order &= index == l->n_told;
    l->n_told++;
    to->is_told++;
    to->rc = rc;
    CHECK(!rc == !!a);
    if (rc) snprintf(to->why, sizeof to->why, "%s", err->msg);
    if (a) {
        to->n = a->n_ids < SH_IDS ? a->n_ids : SH_IDS;
        memcpy(to->id, a->ids, to->n * sizeof *to->id);
        snprintf(to->text, sizeof to->text, "%s", a->text);
        to->prompt = a->prompt_tokens;
        to->image = a->image_tokens;
        to->cached = a->cached_tokens;
        to->stop = a->stop;
    }
    return l->stop_after && l->n_told >= l->stop_after;
}

void sh_one_by_one(sh_list *l, const ph_model *m, const ph_session_options *o) {
    ph_session *s = sh_session(m, o);
    for (size_t i = 0; s && i < l->n; i++) {
        const ph_question *q = NULL;
        ph_err             e = {0};
        ph_answer          a;
        ph_turn           *t;
        int                got = sh_next(l, i, &q, &e);
        if (ph_turn_open(&t, s, &e)) say(&e);
        if (!t) break;
        ph_rc rc = got < 0 ? (ph_rc)got : ph_ask(t, q, &a, &e);
        sh_done(l, i, rc, rc ? NULL : &a, &e);
        ph_turn_close(t);
    }
    ph_session_close(s);
}

void sh_pipeline(sh_list *l, const ph_model *m, const ph_session_options *o) {
    const ph_pipeline_calls calls = {sh_next, sh_done, l};
    ph_session             *s = sh_session(m, o);
    ph_pipeline            *p = NULL;
    ph_err                  e = {0};
    if (s && (ph_pipeline_open(&p, s, &e) || ph_pipeline_run(p, &calls, &e))) say(&e);
    ph_pipeline_close(p);
    ph_session_close(s);
}

void sh_same(const sh_list *a, const sh_list *b, const char *what) {
    CHECK_SAY(b->n_told == b->n && b->in_order, "%s: told of %zu of %zu, %s", what, b->n_told, b->n,
              b->in_order ? "in order" : "not in order");
    size_t answered = 0;
    for (size_t i = 0; i < a->n; i++) answered += a->answer[i].n > 1;
    CHECK_SAY(answered, "%s: nothing was answered", what);
    for (size_t i = 0; i < a->n; i++) {
        const sh_answer *x = &a->answer[i], *y = &b->answer[i];
        CHECK_SAY(y->is_told == 1, "%s: question %zu was told of %d times", what, i, y->is_told);
        CHECK_SAY(x->rc == y->rc && !strcmp(x->why, y->why), "%s: question %zu: '%s' and '%s'", what, i,
                  x->why, y->why);
        CHECK_SAY(x->n == y->n && !memcmp(x->id, y->id, x->n * sizeof *x->id) && !strcmp(x->text, y->text),
                  "%s: question %zu: '%s' and '%s'", what, i, x->text, y->text);
        CHECK_SAY(x->prompt == y->prompt && x->image == y->image && x->stop == y->stop,
                  "%s: question %zu: %d tokens, %d of pictures, and %d, %d", what, i, x->prompt, x->image,
                  y->prompt, y->image);
    }
}
