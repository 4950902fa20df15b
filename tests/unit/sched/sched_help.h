/* sched_help.h - what the pipeline's tests share: models, lists of questions, and what came of them. */
#ifndef PH_TESTS_SCHED_HELP_H
#define PH_TESTS_SCHED_HELP_H

#include "base/file.h"
#include "sched/many.h"
#include "tests/unit/unit.h"

#define SH_SET    "tests/golden/set/models/"
#define SH_IMAGES "tests/golden/set/images/"

ph_model   *sh_model(const char *path); /* NULL with a failure counted */
ph_session *sh_session(const ph_model *m, const ph_session_options *o);

/* A question: a picture's name under SH_IMAGES or NULL, and a text. */
typedef struct sh_ask {
    const char *picture, *text;
} sh_ask;

enum { SH_ASKS = 24, SH_IDS = 48 };
typedef struct sh_answer {
    ph_rc   rc;
    int     is_told; /* how often done() told of it */
    int32_t id[SH_IDS];
    size_t  n;
    char    text[512], why[320];
    int     prompt, image, cached;
    ph_stop stop;
} sh_answer;

/* A list and its answers; next and done are those of ph_pipeline_calls with this as arg. */
typedef struct sh_list {
    const sh_ask   *ask; /* [n] */
    size_t          n;
    ph_question     q[SH_ASKS];
    ph_chat_message message[SH_ASKS];
    ph_chat_part    part[SH_ASKS][2];
    ph_picture      picture[SH_ASKS];
    ph_file         file[SH_ASKS];
    sh_answer       answer[SH_ASKS];
    size_t          n_told, stop_after; /* done() says stop when so many were told; 0: never */
    int             in_order;
} sh_list;
void sh_open(sh_list *l, const sh_ask *ask, size_t n);
void sh_close(sh_list *l);
int  sh_next(void *arg, size_t index, const ph_question **q, ph_err *err);
int  sh_done(void *arg, size_t index, ph_rc rc, const ph_answer *a, const ph_err *err);
/* Each question by ph_ask on a turn of its own. */
void sh_one_by_one(sh_list *l, const ph_model *m, const ph_session_options *o);
/* By a pipeline of a session with these options. */
void sh_pipeline(sh_list *l, const ph_model *m, const ph_session_options *o);
void sh_same(const sh_list *a, const sh_list *b, const char *what);

#endif
