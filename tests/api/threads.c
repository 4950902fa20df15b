/* threads.c - one model, many threads: the same answers, and a cancel from elsewhere. */
#include "api_check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { ASKERS = 2, ROUNDS = 3 };

static const char *const questions[ASKERS][ROUNDS] = {
    {"what is on the display?", "what does the gauge show?", "how many LEDs are lit?"},
    {"what shape is on the panel?", "what is on the display?", "is the needle in the red zone?"},
};

static unsigned char *picture;
static size_t         n_picture;

typedef struct asker {
    pinhole_model *model;
    int            which;
    char           answer[ROUNDS][256];
    int            rc;
} asker;

static void *run(void *arg) {
    asker                  *a = arg;
    pinhole_session        *s;
    pinhole_conversation   *c = NULL;
    pinhole_error           error;
    pinhole_session_options o = {.size = sizeof o, .threads = 2};
    a->rc = pinhole_session_open(&s, a->model, &o, &error);
    if (!a->rc) a->rc = pinhole_conversation_open(&c, s, &error);
    for (int i = 0; i < ROUNDS && !a->rc; i++) {
        pinhole_part          parts[2];
        const pinhole_answer *answer;
        question(parts, picture, n_picture, questions[a->which][i]);
        a->rc = pinhole_ask(c, i ? parts + 1 : parts, i ? 1 : 2, NULL, &answer, &error);
        if (!a->rc) snprintf(a->answer[i], sizeof a->answer[i], "%s", answer->text);
    }
    if (a->rc) printf("%s: %s\n", error.name, error.message);
    pinhole_session_close(s); /* kept by its conversation */
    pinhole_conversation_close(c);
    return NULL;
}

static void two_sessions(pinhole_model *m) {
    asker     alone[ASKERS] = {{.model = m, .which = 0}, {.model = m, .which = 1}};
    asker     beside[ASKERS] = {{.model = m, .which = 0}, {.model = m, .which = 1}};
    pthread_t thread[ASKERS];
    for (int i = 0; i < ASKERS; i++) run(&alone[i]);
    for (int i = 0; i < ASKERS; i++) CHECK(!pthread_create(&thread[i], NULL, run, &beside[i]));
    for (int i = 0; i < ASKERS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < ASKERS; i++) {
        CHECK(!alone[i].rc && !beside[i].rc);
        for (int k = 0; k < ROUNDS; k++)
            CHECK(alone[i].answer[k][0] && !strcmp(alone[i].answer[k], beside[i].answer[k]));
    }
    CHECK(!strcmp(alone[0].answer[0], alone[1].answer[1])); /* the same question */
}

/* ---- cancel ---- */

typedef struct watch {
    pinhole_conversation *talk;
    atomic_int            n_pieces, is_over;
} watch;

static int count(void *arg, const char *bytes, size_t n) {
    watch *w = arg;
    (void)bytes, (void)n;
    atomic_fetch_add(&w->n_pieces, 1);
    return 0;
}

static void *cancel_soon(void *arg) {
    watch                *w = arg;
    const struct timespec tick = {0, 200000};
    while (atomic_load(&w->n_pieces) < 3 && !atomic_load(&w->is_over)) nanosleep(&tick, NULL);
    pinhole_cancel(w->talk);
    return NULL;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void cancel(pinhole_conversation *c) {
    watch                 w = {.talk = c};
    pinhole_error         error;
    pinhole_part          parts[2];
    const pinhole_answer *a;
    pthread_t             thread;
    size_t                n_whole;
    pinhole_asking        how = {.size = sizeof how, .ignore_stop = 1, .answer_max = 400};
    question(parts, picture, n_picture, "describe the panel");
    MUST(pinhole_ask(c, parts, 2, &how, &a, &error));
    n_whole = a->n_ids;
    MUST(pinhole_conversation_reset(c, &error));
    how.sink = count;
    how.arg = &w;
    CHECK(!pthread_create(&thread, NULL, cancel_soon, &w));
    MUST(pinhole_ask(c, parts, 2, &how, &a, &error));
    atomic_store(&w.is_over, 1);
    pthread_join(thread, NULL);
    CHECK(a->stop == PINHOLE_STOP_CANCEL && a->n_ids >= 3 && a->n_ids < n_whole);
    /* Consumed: the next answer is whole.  Set beforehand: the next one does not begin. */
    pinhole_cancel_clear(c);
    MUST(pinhole_conversation_reset(c, &error));
    how.sink = NULL;
    MUST(pinhole_ask(c, parts, 2, &how, &a, &error));
    CHECK(a->stop == PINHOLE_STOP_LENGTH && a->n_ids == n_whole);
    MUST(pinhole_conversation_reset(c, &error));
    pinhole_cancel(c);
    double begin = now();
    MUST(pinhole_ask(c, parts, 2, &how, &a, &error));
    CHECK(a->stop == PINHOLE_STOP_CANCEL && a->n_ids == 0 && a->n_text == 0 && now() - begin < 5);
    MUST(pinhole_conversation_reset(c, &error));
    MUST(pinhole_ask(c, parts, 2, &how, &a, &error));
    CHECK(a->n_ids == n_whole);
}

/* ---- one answer at a time ---- */

static int meddle(void *arg, const char *bytes, size_t n) {
    pinhole_error error;
    pinhole_part  text = {PINHOLE_TEXT, bytes, n, NULL};
    CHECK(pinhole_ask(arg, &text, 1, NULL, NULL, &error) == PINHOLE_EUSAGE &&
          strstr(error.message, "already"));
    CHECK(pinhole_conversation_reset(arg, &error) == PINHOLE_EUSAGE);
    CHECK(pinhole_conversation_add(arg, "user", &text, 1, &error) == PINHOLE_EUSAGE);
    return 0;
}

static void not_within(pinhole_conversation *c) {
    pinhole_error         error;
    pinhole_part          parts[2];
    const pinhole_answer *a;
    pinhole_asking        how = {.size = sizeof how, .sink = meddle, .arg = c};
    MUST(pinhole_conversation_reset(c, &error));
    question(parts, picture, n_picture, "what is on the display?");
    MUST(pinhole_ask(c, parts, 2, &how, &a, &error));
    CHECK(a->stop == PINHOLE_STOP_TOKEN && a->n_text > 0);
}

int main(void) {
    pinhole_model        *m;
    pinhole_session      *s;
    pinhole_conversation *c;
    pinhole_error         error;
    picture = read_file(PICTURE, &n_picture);
    MUST(pinhole_model_open(&m, MODEL, NULL, &error));
    two_sessions(m);
    MUST(pinhole_session_open(&s, m, NULL, &error));
    MUST(pinhole_conversation_open(&c, s, &error));
    pinhole_model_close(m); /* kept by its session */
    cancel(c);
    not_within(c);
    pinhole_session_close(s);
    pinhole_conversation_close(c);
    free(picture);
    return sum();
}
