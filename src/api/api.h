/* api.h - inside the library's face: what its handles are made of.  Only api/ includes this.
 *
 * Every function of include/pinhole.h has the same frame: check the pointers, call the rooms below with a
 * ph_err, and hand its contents out with ph_api_end.  Nothing is decided here that a room decides.
 */
#ifndef PH_API_API_H
#define PH_API_API_H

#include "flow/flow.h"

#include "pinhole.h"

#include <stdatomic.h>

struct pinhole_model {
    ph_model  *opened;
    atomic_int n_users; /* its owner, and sessions */
};

struct pinhole_session {
    pinhole_model *model;
    ph_session    *running;
    ph_log         log;
    void (*say)(void *arg, pinhole_level level, const char *line);
    void      *say_arg;
    atomic_int n_users; /* its owner, and conversations */
    atomic_int is_busy; /* an answer is being given */
};

/* A message and everything in it: one block of memory. */
typedef struct ph_api_message {
    char         *role;
    ph_chat_part *part; /* [n_parts] */
    size_t        n_parts;
    ph_picture   *picture; /* [n_pictures], in order of their parts */
    size_t        n_pictures;
} ph_api_message;

struct pinhole_conversation {
    pinhole_session *session;
    ph_turn         *turn;
    ph_api_message **message; /* [n_messages], each owned */
    size_t           n_messages, messages_max;
    atomic_int       cancel;
    pinhole_answer   answer;
    double           stage_ms[PH_N_STAGES];
};

/* Copy *err to *error (NULL: nowhere); returns the code. */
int ph_api_end(ph_rc rc, const ph_err *err, pinhole_error *error);

ph_rc ph_api_null(const char *function, const char *argument, ph_err *err); /* PH_EUSAGE */
/* In a function whose ph_err is `err`: leave with PH_EUSAGE when a pointer is NULL. */
#define PH_API_WANT(argument)                                                                                \
    do {                                                                                                     \
        if (!(argument)) return ph_api_null(__func__, #argument, err);                                       \
    } while (0)

/* A struct of options that begins with its size, as older and newer programs know it: at most `size` bytes
 * are taken, what is missing is zero.  from NULL: all zero.
 * Errors: PH_EUSAGE no size, or something set that this library does not know. */
ph_rc ph_api_take(void *to, size_t size, const void *from, const char *what, ph_err *err);
/* The other way: fill as much of the caller's struct as it has.  Its size stays. */
ph_rc ph_api_give(void *to, const void *from, size_t size, const char *what, ph_err *err);

pinhole_memory ph_api_memory(const ph_memory *m);

ph_rc ph_api_session_options(const pinhole_session_options *given, ph_session_options *out, ph_err *err);
ph_rc ph_api_plan(const ph_plan *p, pinhole_plan *out, ph_err *err);

void ph_api_model_give(pinhole_model *m); /* one user less; the last closes; so below */
void ph_api_session_give(pinhole_session *s);

/* No two answers at once on a session.  Errors: PH_EUSAGE one is being given. */
ph_rc ph_api_enter(pinhole_session *s, ph_err *err);
void  ph_api_leave(pinhole_session *s);

/* A picture part, borrowed.  Errors: PH_EUSAGE. */
ph_rc ph_api_picture(const pinhole_part *part, ph_picture *out, ph_err *err);
/* Append a copy; take the newest back. */
ph_rc ph_api_message_add(pinhole_conversation *c, const char *role, const pinhole_part *parts, size_t n_parts,
                         ph_err *err);
void  ph_api_message_drop(pinhole_conversation *c);

#endif
