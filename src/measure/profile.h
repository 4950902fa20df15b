/* profile.h - what the parts of a model take on each engine that is here, and when what happened.
 *
 *     one session an engine ─ rounds in turns ─► times of stages ─► costs (engine/costs.h) ─► route
 *                           └ rounds of their own ─► by kind of step, or operator
 *     one more, as routed ─ a question ─► timeline
 *
 * All of it walks through flow/.  A part that an engine cannot take runs on native in that engine's session,
 * and is not counted as its own.
 */
#ifndef PH_MEASURE_PROFILE_H
#define PH_MEASURE_PROFILE_H

#include "flow/flow.h"

enum { PH_PROFILE_SPANS = 1 << 16 }; /* of a timeline */

typedef struct ph_profile_options {
    const char               *model; /* path */
    ph_model_options          open;
    const ph_session_options *session; /* engines are set here; the rest as given */
    int                       rounds;
    const ph_picture         *picture;                   /* NULL: one is made */
    int                       image_width, image_height; /* of the made one; 0: 1024 x 768 */
    int                       has_kinds;                 /* also by kind of step */
    int                       has_spans;                 /* also a timeline */
    void (*say)(void *arg, const char *line);            /* progress; or NULL */
    void *arg;
} ph_profile_options;

typedef struct ph_profile {
    ph_costs costs;
    ph_plan  plan;                      /* of the placement */
    ph_route route;                     /* by these costs: all parts left to the router */
    int      image_width, image_height; /* 0: the model sees nothing */
    int      prompt, steps;             /* tokens */
    ph_span *span;                      /* [n_spans], owned, oldest first */
    size_t   n_spans;
} ph_profile;

/* Errors: PH_EUSAGE counts out of range; PH_EUNSUP a model that does not answer; PH_ECONTEXT one whose
 * context holds no such question; those of opening and of the corridor. */
ph_rc ph_profile_run(ph_profile *out, const ph_profile_options *how, ph_err *err);
void  ph_profile_close(ph_profile *p); /* accepts a zeroed one */

/* Spans as a Chrome trace: {"traceEvents": [...]}, microseconds since the first; stages in one row, what
 * engines did in another.  Errors: PH_EPATH, PH_EIO, PH_ENOMEM. */
ph_rc ph_profile_write_trace(const ph_span *span, size_t n, const char *path, ph_err *err);

#endif
