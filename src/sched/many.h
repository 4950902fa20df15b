/* many.h - many questions to one model: one side, two or three at a time, or whatever suits this device.
 *
 *     serial   prepare, see, answer: one after the other, all threads
 *     double   two sides at a time        deep   three
 *
 * What overlap brings cannot be reckoned: were stages to scale with threads, two sides with half the threads
 * each would take as long as all threads on one side after the other.  What decides is how far they fall
 * short of that (reading weights that no thread brings faster, barriers, decoding by one thread), and that is
 * measured:
 *
 *     auto    1 question serial, not counted ► 4 serial ► 1 double, not counted ► 4 double ► the rest as was faster
 *
 * Serial has all threads.  The price of the double ones, had they been serial, follows from the serial ones:
 * time a visual token that was seen, a token that was prefilled, a token that was said.  So questions and
 * answers may differ in length.  Changing sides opens the session anew; answers are the same, whichever way.
 *
 * Where the device's bandwidth is given, it chooses: the serial ones tell what the three groups of stages
 * move and take, and cut.h how many of them the memory feeds at a time, up to what was asked for.
 *
 *     bandwidth    1 question serial, not counted ► 4 serial ► the rest with the sides of the cut
 *
 * Fewer are all serial.
 */
#ifndef PH_SCHED_MANY_H
#define PH_SCHED_MANY_H

#include "sched/cut.h"
#include "sched/pipeline.h"

typedef enum ph_overlap { PH_OVERLAP_SERIAL, PH_OVERLAP_DOUBLE, PH_OVERLAP_DEEP, PH_OVERLAP_AUTO } ph_overlap;
extern const char *const ph_overlap_name[];                 /* "serial" "double" "deep" "auto" */
int                      ph_overlap_find(const char *name); /* -1: none */

/* Fewer questions than this are not worth trying: auto is serial then. */
enum { PH_MANY_WARM = 1, PH_MANY_TRIED = 4, PH_MANY_LEAST = 3 * (PH_MANY_WARM + PH_MANY_TRIED) };

/* Groups of stages that can be sides: decode and prepare; see, drop and bridge; splice to speak. */
enum { PH_MANY_GROUPS = 3 };

/* How the three groups are parted: each flag is a border between neighbours. */
typedef struct ph_sides {
    int ahead;  /* preparing apart from seeing */
    int beside; /* seeing apart from answering */
} ph_sides;
/* Of a cut of the groups: neighbours that share a slot share a thread. */
ph_sides ph_many_sides(const ph_cut *cut);
/* The sides that a memory of so many bytes a second feeds, `most` at most. */
ph_sides ph_many_choose(const ph_cut_stage group[PH_MANY_GROUPS], double bytes_a_second, size_t most,
                        ph_cut *cut);

typedef struct ph_many {
    const ph_model    *model;
    ph_session_options session; /* `beside` and `ahead` are set by how */
    ph_overlap         how;
    size_t             n;  /* questions that next() has */
    double bytes_a_second; /* of the device's memory; 0: not known.  Nothing to serial.  The sides are those
                            * that it feeds, not more than how says (auto: as many as there are threads) */
} ph_many;

typedef struct ph_many_report {
    ph_overlap  used;                       /* by the last session: what `why` is about */
    const char *why;                        /* of auto: static; else NULL */
    int         see_threads, threads;       /* of the sides of the last session; serial: the same crew */
    size_t      n_serial, n_double, n_deep; /* questions */
    ph_sides    sides;                      /* of the last session */
    double      serial_ms,
        double_ms;  /* of auto, a tried question: reckoned from the serial ones, measured; or 0 */
    double wall_ms; /* from the first question to the last answer, opening sessions left out */
    double answer_ms,
        picture_ms;      /* of the answers: sums of their stages, splice to speak and decode to bridge */
    ph_cut    cut;       /* with a bandwidth, of the three groups; n 0: not made */
    ph_memory predicted; /* the largest that an answer was told */
    size_t    measured, measured_anon;
    ph_place  place[PH_PLACES_MAX]; /* [n_places] of the last session */
    size_t    n_places;
} ph_many_report;

/* As ph_pipeline_run with sessions of its own.  Errors: PH_EUSAGE and others of ph_session_open,
 * ph_pipeline_open. */
ph_rc ph_many_run(const ph_many *m, const ph_pipeline_calls *calls, ph_many_report *out, ph_err *err);

/* How many of n threads see, by the time that both sides took with all of them: at least 1, at most n - 1. */
int ph_many_see_threads(int n, double picture_ms, double answer_ms);

#endif
