/* pipeline.h - many questions through the corridor: one after the other, two at a time, or three.
 *
 *     preparing  decode ► prepare                                   question k+2, a thread of its own
 *                            │  hand-over: the turn, with its tiles; one waits at most
 *     seeing     ( see ► drop ► bridge )*                           question k+1, workers of its own
 *                            │  hand-over: the turn, with its features in a slot of the ring
 *     answering  splice ► prefill* ► ( sample ► speak ► step )*     question k
 *
 * All sides walk the same stages as ph_ask() does, so answers have the same bits whichever way.  Which
 * neighbours share a thread is the session's word: `beside` parts seeing from answering and gives it workers,
 * `ahead` parts preparing from seeing.  Neither: serial, one thread, one side after the other.  A side works
 * ahead as far as there are slots.  All turns answer in one sequence of the KV cache, which is handed from
 * turn to turn: what one question's prompt has in common with the next's is not run again, and the cache is
 * no larger than for one turn. A picture that a slot still holds is not seen again; its rows are read where
 * they stand.
 *
 * A question that fails, or is cancelled, is told of as such; the others go on.
 */
#ifndef PH_SCHED_PIPELINE_H
#define PH_SCHED_PIPELINE_H

#include "flow/flow.h"

enum { PH_PIPELINE_SLOTS = 3 }; /* one is seen, one is answered, one is kept for its pictures */

typedef struct ph_pipeline_calls {
    /* Question `index`, borrowed until done() told of it: above 0 and *q; 0: there are no more.  Below 0: a
     * ph_rc, the question cannot be asked; done() will tell of it in its turn.  On the first side's thread.
     */
    int (*next)(void *arg, size_t index, const ph_question **q, ph_err *err);
    /* Once for each question that next() gave, in their order, on the thread that called run.  rc 0: its
     * answer, whose text lives until this returns; else err says why.  Other than 0: no further question is
     * begun, and those that are seen already end with PH_ECANCEL. */
    int (*done)(void *arg, size_t index, ph_rc rc, const ph_answer *a, const ph_err *err);
    void *arg;
} ph_pipeline_calls;

typedef struct ph_pipeline ph_pipeline;

/* With the sides that the session was opened for (ph_session_options.beside, the slots, and ahead), else
 * serial with one slot.  The session has a free sequence for it, and is not used otherwise while it runs.
 * Errors: those of ph_turn_open. */
ph_rc ph_pipeline_open(ph_pipeline **p, ph_session *s, ph_err *err);
void  ph_pipeline_close(ph_pipeline *p); /* before its session; accepts NULL */

/* All questions of next(), to their ends.  May be called again.  Errors: PH_EMACHINE no thread; what happens
 * to a question is no error of the run. */
ph_rc ph_pipeline_run(ph_pipeline *p, const ph_pipeline_calls *calls, ph_err *err);

#endif
