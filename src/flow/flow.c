/* flow.c - read this first: a question with its pictures in, an answer out.
 *
 *     decode    bytes of a file          ► upright RGB pixels
 *     prepare   pixels                   ► the trainer's own tiles [n, 3, h, w]
 *     see       tiles                    ► features [n, patches, d]      (vision graph)
 *     drop      features                 ► fewer features
 *     bridge    features                 ► visual tokens [n, d_model]    (bridge graph)
 *     splice    template, text, tokens   ► one sequence with positions
 *     prefill   sequence                 ► KV cache, logits              (language graph)
 *     sample    logits                   ► an id
 *     speak     an id                    ► whole characters to the caller
 *     step      an id                    ► KV cache, logits              (language graph)
 *
 * A turn knows its next stage; a stage moves it on.  ph_ask() drives one turn to
 * its end.  There is no second way through: the command, the server, benchmarks
 * and verification all walk here.
 */
#include "flow/session.h"

#include "base/clock.h"

typedef ph_rc stage_fn(ph_turn *const *turns, size_t n, ph_err *err);

static stage_fn *const stages[PH_N_STAGES] = {
#define PH_STAGE(name) ph_##name,
#include "flow/stage.def"
#undef PH_STAGE
};

/* One stage over a batch of turns, timed and traced; each turn is charged the whole time it waited. */
static ph_rc walk(ph_stage stage, ph_turn *const *turns, size_t n, ph_err *err) {
    ph_trace *trace = turns[0]->session->trace;
    uint64_t  begin = ph_trace_begin(trace), before = ph_clock_ns();
    ph_rc     rc = stages[stage](turns, n, err);
    double    ms = (double)(ph_clock_ns() - before) / 1e6;
    ph_trace_end(trace, ph_stage_name[stage], begin, n);
    for (size_t i = 0; i < n; i++) turns[i]->stage_ms[stage] += ms;
    ph_log_say(turns[0]->session->how.log, PH_LOG_DEBUG, "%s: %.3f ms, %zu turn%s%s", ph_stage_name[stage],
               ms, n, n == 1 ? "" : "s", rc ? ", failed" : "");
    return rc ? ph_note(err, rc, "while at the stage '%s'", ph_stage_name[stage]) : PH_OK;
}

ph_rc ph_turn_walk(ph_turn *const *turns, size_t n, ph_err *err) {
    return walk(turns[0]->stage, turns, n, err);
}

ph_rc ph_turn_walk_until(ph_turn *t, ph_stage until, ph_err *err) {
    while (t->stage != until && t->stage != PH_STAGE_done) PH_TRY(walk(t->stage, &t, 1, err));
    return PH_OK;
}

ph_rc ph_turn_end(ph_turn *t, ph_rc rc, ph_answer *out) {
    if (rc == PH_ECANCEL) { /* what has been said so far is the answer */
        t->stop = PH_STOP_CANCEL;
        t->stage = PH_STAGE_done;
        rc = PH_OK;
    }
    if (rc)
        ph_turn_abandon(t);
    else
        ph_turn_answer(t, out);
    return rc;
}

ph_rc ph_ask(ph_turn *t, const ph_question *q, ph_answer *out, ph_err *err) {
    ph_rc rc = ph_turn_begin(t, q, err);
    if (!rc) rc = ph_turn_walk_until(t, PH_STAGE_done, err);
    return ph_turn_end(t, rc, out);
}
