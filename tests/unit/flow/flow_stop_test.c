/* flow_stop_test.c - every way an answer ends, and prompts that cannot be answered. */
#include "tests/unit/flow/flow_help.h"

#include <string.h>

static const char *const scene[] = {"scene.png", NULL};

typedef struct bench {
    ph_model   *m;
    ph_session *s;
    ph_turn    *t;
    fh_talk     talk;
} bench;

static int open_bench(bench *b, const char *path, int context, const char *const *pictures,
                      const char *text) {
    b->m = fh_model(path);
    b->s = fh_session(b->m, &(ph_session_options){.threads = 2, .context = context});
    b->t = fh_turn(b->s);
    fh_ask(&b->talk, pictures, text);
    return b->t != NULL;
}

static void close_bench(bench *b) {
    fh_close(&b->talk);
    ph_turn_close(b->t);
    ph_session_close(b->s);
    ph_model_close(b->m);
}

static void drive(bench *b, fh_answer *out) {
    ph_err e = {0};
    if (fh_drive(b->t, &b->talk, out, &e)) fh_say(&e);
}

void test_stop_length(void) {
    bench     b;
    fh_answer whole, part;
    if (open_bench(&b, FH_SMOLLM2, 0, NULL, "How many windows does the house have?")) {
        drive(&b, &whole);
        CHECK(whole.stop == PH_STOP_LENGTH && whole.n == 12);
        for (int n = 1; n < 12; n += 5) {
            b.talk.q.answer_max = n;
            drive(&b, &part);
            CHECK(part.stop == PH_STOP_LENGTH && part.n == (size_t)n &&
                  !memcmp(part.id, whole.id, (size_t)n * sizeof *part.id));
            fh_forget(&part);
        }
        fh_forget(&whole);
    }
    close_bench(&b);
}

/* A model that was trained to stop does, unless it is told not to. */
void test_stop_token(void) {
    static const char *const panel[] = {"examples/panel1.png", NULL};
    bench                    b;
    fh_answer                stopped, on;
    if (open_bench(&b, FH_PANEL, 0, panel, "what is on the display?")) {
        b.talk.q.ignore_stop = 0;
        drive(&b, &stopped);
        CHECK_SAY(stopped.stop == PH_STOP_TOKEN && stopped.n < 12, "%zu ids, stopped by %s", stopped.n,
                  ph_stop_name[stopped.stop]);
        for (size_t i = 0; i < stopped.n; i++) CHECK(!ph_model_is_stop(b.m, stopped.id[i]));
        b.talk.q.ignore_stop = 1;
        drive(&b, &on);
        CHECK(on.stop == PH_STOP_LENGTH && on.n == 12 &&
              !memcmp(on.id, stopped.id, stopped.n * sizeof *on.id));
        CHECK(ph_model_is_stop(b.m, on.id[stopped.n]));
        fh_forget(&on);
        fh_forget(&stopped);
    }
    close_bench(&b);
}

static void said(fh_answer *a, const char *whole, const char *word) {
    const char *at = strstr(whole, word);
    size_t      n = at ? (size_t)(at - whole) : 0;
    CHECK_SAY(at && a->stop == PH_STOP_WORD && strlen(a->text) == n && !strncmp(a->text, whole, n),
              "'%s' cut before '%s' is '%s', stopped by %s", whole, word, a->text, ph_stop_name[a->stop]);
}

/* Every piece of the answer as a stop word: within a token, and across several. */
void test_stop_words(void) {
    bench       b;
    fh_answer   whole, cut;
    char        word[16];
    const char *words[2] = {"not in there at all", word};
    if (open_bench(&b, FH_LLAVA, 0, scene, "What is in the image?")) {
        b.talk.q.answer_max = 40;
        drive(&b, &whole);
        size_t n = strlen(whole.text);
        CHECK_SAY(n > 30, "%s", whole.text);
        for (size_t width = 2; width <= 9; width += 7)
            for (size_t at = 1; at + width <= n; at += 3) {
                if (((unsigned char)whole.text[at] & 0xC0) == 0x80)
                    continue; /* a word begins with a character */
                size_t take = width;
                while (at + take < n && ((unsigned char)whole.text[at + take] & 0xC0) == 0x80) take++;
                snprintf(word, sizeof word, "%.*s", (int)take, whole.text + at);
                b.talk.q.stop = words;
                b.talk.q.n_stop = 2;
                drive(&b, &cut);
                said(&cut, whole.text, word);
                fh_forget(&cut);
            }
        fh_forget(&whole);
    }
    close_bench(&b);
}

void test_stop_context_full(void) {
    bench     b;
    fh_answer whole, cut;
    int       prompt = 0;
    if (open_bench(&b, FH_LLAVA, 0, scene, "What is in the image?")) {
        drive(&b, &whole);
        prompt = whole.prompt;
    }
    close_bench(&b);
    /* Room for the prompt and k of the answer's tokens: the last one said need not stand in the cache. */
    for (int k = 0; prompt && k < 3; k++) {
        if (open_bench(&b, FH_LLAVA, prompt + k, scene, "What is in the image?")) {
            drive(&b, &cut);
            CHECK_SAY(cut.stop == PH_STOP_CONTEXT && cut.n == (size_t)k + 1 &&
                          !memcmp(cut.id, whole.id, cut.n * sizeof *cut.id),
                      "room for %d: %zu ids, stopped by %s", k, cut.n, ph_stop_name[cut.stop]);
            fh_forget(&cut);
        }
        close_bench(&b);
    }
    fh_forget(&whole);
}

/* Refused with prompt, pictures and limit, before anything is run; the session answers the next question. */
static void too_long(const char *path, const char *const *pictures, int context, const char *text,
                     const char *const *words) {
    bench     b;
    fh_answer before = {0}, after = {0};
    fh_talk   small;
    if (open_bench(&b, path, context, pictures, text)) {
        ph_err e = {0}, none = {0};
        fh_ask(&small, NULL, "What?");
        if (fh_drive(b.t, &small, &before, &none)) fh_say(&none);
        uint64_t  barriers = ph_session_barriers(b.s);
        ph_answer a;
        ph_rc     rc = ph_ask(b.t, &b.talk.q, &a, &e);
        CHECK_SAY(rc == PH_ECONTEXT, "%s: %s", ph_rc_name(rc), e.msg);
        for (; *words; words++) CHECK_SAY(strstr(e.msg, *words), "'%s' not in: %s", *words, e.msg);
        if (!pictures) CHECK(ph_session_barriers(b.s) == barriers);
        CHECK(ph_turn_stage(b.t) == PH_STAGE_done);
        if (fh_drive(b.t, &small, &after, &none)) fh_say(&none);
        fh_same(&before, &after, "after a prompt that was too long");
        fh_close(&small);
    }
    fh_forget(&before);
    fh_forget(&after);
    close_bench(&b);
}

void test_context_too_long(void) {
    static const char *const        text[] = {"tokens", "the context holds 40", "-c", NULL},
                             *const one[] = {"16 of them for pictures", "the context holds 50", NULL},
                             *const all[] = {"take 160 tokens", "the context holds 60", NULL};
    too_long(FH_SMOLLM2, NULL, 40,
             "Describe the colours and the shapes and whatever else there is to be seen here.", text);
    too_long(FH_LLAVA, scene, 50,
             "Describe the colours and the shapes and whatever else there is to be seen here.", one);
    too_long(FH_IDEFICS3, scene, 60, "What is in the image?", all);
}

void test_questions_refused(void) {
    bench                   b;
    ph_answer               a;
    static const ph_picture none = {.bytes = NULL, .n = 0, .name = "empty.png"};
    static const ph_picture many[1000];
    if (open_bench(&b, FH_SMOLLM2, 0, scene, "What is in the image?")) {
        ph_err e = {0};
        CHECK(ph_ask(b.t, &b.talk.q, &a, &e) == PH_EUNSUP && strstr(e.msg, "text model"));
        CHECK(ph_ask(b.t, &(ph_question){.answer_max = 1}, &a, &e) == PH_EUSAGE);
        CHECK(ph_ask(b.t, &(ph_question){.raw = ""}, &a, &e) == PH_EUSAGE);
        CHECK(ph_ask(b.t, &(ph_question){.raw = "a", .answer_max = -1}, &a, &e) == PH_EUSAGE);
        CHECK(ph_ask(b.t, &(ph_question){.raw = "a", .sampling = {.temperature = -1}}, &a, &e) == PH_EUSAGE);
        CHECK(ph_ask(b.t, &(ph_question){.ids = (int32_t[]){1, 1 << 20}, .n_ids = 2}, &a, &e) ==
              PH_EMISMATCH);
        CHECK(ph_ask(b.t, &(ph_question){.ids = (int32_t[]){-1}, .n_ids = 1}, &a, &e) == PH_EMISMATCH);
    }
    close_bench(&b);
    if (open_bench(&b, FH_LLAVA, 0, scene, "What is in the image?")) {
        ph_err e = {0};
        CHECK(
            ph_ask(b.t,
                   &(ph_question){.raw = "a <image> b <image>", .pictures = b.talk.picture, .n_pictures = 1},
                   &a, &e) == PH_EMISMATCH &&
            strstr(e.msg, "more image marks"));
        CHECK(ph_ask(b.t, &(ph_question){.raw = "a b", .pictures = b.talk.picture, .n_pictures = 1}, &a,
                     &e) == PH_EMISMATCH &&
              strstr(e.msg, "0 image marks"));
        CHECK(ph_ask(b.t, &(ph_question){.raw = "<image>", .pictures = &none, .n_pictures = 1}, &a, &e) &&
              strstr(e.msg, "empty"));
        CHECK(ph_ask(b.t, &(ph_question){.raw = "<image>", .pictures = many, .n_pictures = 1000}, &a, &e) ==
              PH_ELIMIT);
    }
    close_bench(&b);
}

void test_session_refused(void) {
    ph_model                       *m = fh_model(FH_SMOLLM2);
    ph_session                     *s = NULL;
    static const ph_session_options bad[] = {
        {.threads = 1000},     {.context = 1 << 30},         {.sequences = 1 << 20}, {.images = 1000},
        {.kv_dtype = PH_Q5_0}, {.engine_language = "steam"}, {.isa = "abacus"}};
    for (size_t i = 0; m && i < sizeof bad / sizeof *bad; i++) {
        ph_err  e = {0};
        ph_plan plan;
        ph_rc   rc = ph_session_open(&s, m, &bad[i], &e);
        CHECK_SAY(rc && !s && e.msg[0], "options %zu: %s", i, ph_rc_name(rc));
        CHECK_SAY(ph_session_plan(m, &bad[i], &plan, &e) == rc, "options %zu", i);
        ph_session_close(s);
    }
    /* As many turns as sequences. */
    s = fh_session(m, &(ph_session_options){.threads = 1, .sequences = 1});
    ph_turn *t = fh_turn(s), *more = NULL;
    ph_err   e = {0};
    CHECK(s && ph_turn_open(&more, s, &e) == PH_ELIMIT && !more);
    ph_turn_close(t);
    t = fh_turn(s);
    CHECK(t);
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
}
