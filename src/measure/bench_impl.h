/* bench_impl.h - what the files of bench and profile share.  Only src/measure/bench*.c and profile*.c include
 * this. */
#ifndef PH_MEASURE_BENCH_IMPL_H
#define PH_MEASURE_BENCH_IMPL_H

#include "measure/bench.h"

/* What is timed: a row of the result each, where there is something to time. */
typedef enum ph_timed {
    PH_TIMED_LOAD_COLD,
    PH_TIMED_FIRST_COLD,
    PH_TIMED_LOAD,
    PH_TIMED_FIRST,
    PH_TIMED_DECODE,
    PH_TIMED_PREPARE,
    PH_TIMED_SEE,
    PH_TIMED_BRIDGE,
    PH_TIMED_PREFILL,
    PH_TIMED_STEP,
    PH_TIMED_ANSWER,
    PH_N_TIMED
} ph_timed;

typedef struct ph_samples {
    double ms[PH_BENCH_ROUNDS_MAX]; /* [n] */
    int    n;
} ph_samples;

typedef struct ph_summary {
    double median, least, most;
} ph_summary;
ph_summary ph_bench_sum(const double *x, int n); /* of x[n], 1 to PH_BENCH_ROUNDS_MAX */

typedef struct ph_benching {
    ph_bench               *out;
    const ph_bench_options *how;
    ph_samples (*sample)[PH_BENCH_THREADS_MAX]; /* [PH_N_TIMED]; owned */
    ph_model   *model;                          /* owned */
    ph_session *session[PH_BENCH_THREADS_MAX];  /* owned; all open at once, so that they can take turns */
    int32_t    *ids;                            /* [context], a prompt; owned */
    int         context;
    uint8_t    *made; /* a picture of our own; owned, or NULL */
    ph_picture  picture;
} ph_benching;

void ph_bench_say(const ph_benching *b, const char *what);
void ph_bench_keep(ph_benching *b, ph_timed what, size_t threads, double ms);
/* The options of session `i` (its threads). */
ph_session_options ph_bench_session(const ph_benching *b, size_t i);
/* n ids of plain text, other ones for another seed. */
void ph_bench_prompt(const ph_benching *b, int n, unsigned seed);

/* A prompt of n ids, answered with so many tokens, by a turn that knows nothing yet. */
ph_rc ph_bench_ask(ph_benching *b, size_t threads, int n, int answer, unsigned seed, ph_err *err);
/* One round of a prompt and of steps after `depth`, on session `threads`: samples of prefill, step, answer.
 */
ph_rc ph_bench_text(ph_benching *b, size_t threads, unsigned seed, ph_err *err);
/* bench_steps.c: the parts of the rows that are there; and is a span a stage of the corridor's? */
int   ph_bench_is_stage(const char *name);
ph_rc ph_bench_steps(ph_benching *b, ph_err *err);

/* bench_load.c: opening, warm and cold, for all threads and rounds.  b->model is not open then. */
ph_rc ph_bench_load(ph_benching *b, ph_err *err);
/* bench_picture.c: choose the picture, count its tiles; and one round of seeing it. */
ph_rc ph_bench_picture(ph_benching *b, ph_err *err);
ph_rc ph_bench_see(ph_benching *b, size_t threads, ph_err *err);
/* Keys that a patch meets on average: in its whole picture, and in its window. */
void ph_bench_segments(const ph_spec *spec, const ph_tile_layout *l, double *whole, double *window);

#endif
