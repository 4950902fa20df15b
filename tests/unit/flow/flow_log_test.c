/* flow_log_test.c - what a session says to those who listen, and to nobody else. */
#include "tests/unit/flow/flow_help.h"

#include <string.h>

typedef struct heard {
    int  n[PH_LOG_DEBUG + 1];
    char warning[512];
} heard;

static void hear(void *arg, ph_log_level level, const char *line) {
    heard *h = arg;
    h->n[level]++;
    if (level == PH_LOG_WARN) strncpy(h->warning, line, sizeof h->warning - 1);
}

static heard listen(const char *path, ph_session_options o, ph_log_level most) {
    heard        h = {{0}, ""};
    const ph_log log = {.write = hear, .arg = &h, .most = most};
    ph_err       e = {0};
    ph_answer    a;
    ph_model    *m = fh_model(path);
    o.log = &log;
    ph_session *s = fh_session(m, &o);
    ph_turn    *t = fh_turn(s);
    fh_talk     talk;
    fh_ask(&talk, NULL, "What is there?");
    talk.q.answer_max = 3;
    if (t && ph_ask(t, &talk.q, &a, &e)) fh_say(&e);
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
    fh_close(&talk);
    return h;
}

void test_session_says(void) {
    heard h = listen(FH_SMOLLM2, (ph_session_options){.chunk = 16}, PH_LOG_DEBUG);
    CHECK(!h.n[PH_LOG_ERROR] && !h.n[PH_LOG_WARN] && h.n[PH_LOG_INFO] == 1);
    CHECK_SAY(h.n[PH_LOG_DEBUG] >= PH_N_STAGES, "%d lines of stages", h.n[PH_LOG_DEBUG]);
    h = listen(FH_SMOLLM2, (ph_session_options){.chunk = 16}, PH_LOG_INFO);
    CHECK(!h.n[PH_LOG_WARN] && h.n[PH_LOG_INFO] == 1 && !h.n[PH_LOG_DEBUG]);
    h = listen(FH_SMOLLM2, (ph_session_options){.chunk = 1, .sequences = 3}, PH_LOG_WARN);
    CHECK_SAY(h.n[PH_LOG_WARN] == 1 && strstr(h.warning, "a chunk of 1 ") && strstr(h.warning, "one of 3"),
              "'%s'", h.warning);
    h = listen(FH_GEMMA3, (ph_session_options){.chunk = 2}, PH_LOG_WARN); /* a picture is run as a whole */
    CHECK_SAY(h.n[PH_LOG_WARN] == 1 && strstr(h.warning, "a chunk of 2 "), "'%s'", h.warning);
    h = listen(FH_MLLAMA, (ph_session_options){.tiles = 1}, PH_LOG_WARN);
    CHECK_SAY(h.n[PH_LOG_WARN] == 1 && strstr(h.warning, "1 tiles a run"), "'%s'", h.warning);
}
