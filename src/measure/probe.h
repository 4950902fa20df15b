/* probe.h - a model asked through the corridor, with everything that a reference may have recorded.
 *
 * Two sessions on one model: `plain` runs as users run it (steps fused, logits of the last row only),
 * `tapped` shows the values inside.  Each question gets a turn of its own, so nothing is remembered.
 */
#ifndef PH_MEASURE_PROBE_H
#define PH_MEASURE_PROBE_H

#include "flow/flow.h"
#include "measure/case.h"

/* What a tap saw, run after run. */
typedef struct ph_seen {
    const char *value;         /* its name in the graph */
    const int  *is_on;         /* nothing is kept while this is 0 */
    float      *at;            /* [n] floats; owned */
    size_t      n, cap, width; /* width: the last dimension */
    int         is_last_row;   /* keep only the newest row */
    ph_rc       rc;            /* out of memory */
} ph_seen;

/* Logits are not kept: for each prompt row its log-sum-exp, its largest, and its value at two given ids. */
typedef struct ph_row_logits {
    const int32_t *argmax_ref, *next; /* [n_ref] the reference's argmax, the id that follows; or NULL */
    size_t         n_ref, n;
    double *lse, *gap, *nll; /* [n_ref]; gap: largest - value at argmax_ref; nll: lse - value at next */
} ph_row_logits;

typedef struct ph_probe {
    const ph_model *model;
    ph_session     *plain, *tapped;
    ph_arena        arena;
    ph_session_tap *tap;
    ph_seen        *seen;
    size_t          n_seen;
    ph_row_logits   rows;
    int             is_recording;
    /* Of the newest plain question, carved from answer_arena: */
    ph_arena       answer_arena;
    const int32_t *prompt;        /* [n_prompt] */
    const int32_t *positions;     /* [n_prompt, 3] of the answered question's prompt: time, height, width */
    int32_t        next_position; /* of the row behind it */
    size_t         n_prompt;
    const float   *logits;       /* [vocab] after the prompt */
    const float   *final_logits; /* [vocab] that gave the last id */
    const int32_t *ids;          /* [n_ids] the answer */
    size_t         n_ids;
    const char    *text;
    size_t         n_text;
} ph_probe;

/* Sessions of every kind of case begin as this says. */
ph_session_options ph_verify_session(const ph_verify_options *how);

/* Errors: those of ph_session_open.  with_taps 0: plain only. */
ph_rc ph_probe_open(ph_probe *p, const ph_model *m, const ph_verify_options *how, int with_taps, ph_err *err);
void  ph_probe_close(ph_probe *p); /* accepts a zeroed one */

/* q->answer_max tokens, greedily; EOS does not stop. */
ph_rc ph_probe_ask(ph_probe *p, const ph_question *q, ph_err *err);
/* The prompt only, seen by the taps; rows->argmax_ref and next are looked at on the way. */
ph_rc ph_probe_look(ph_probe *p, const ph_question *q, const ph_row_logits *rows, ph_err *err);

const ph_seen *ph_probe_seen(const ph_probe *p, const char *value); /* NULL: there is no such tap */

/* ---- figures that model cases share ---- */

void ph_probe_figure_ids(ph_report *r, const ph_probe *p, const int32_t *ref, size_t n);
/* ours[vocab] against the reference's. */
ph_rc ph_probe_figure_logits(ph_report *r, const float *ours, size_t vocab, const ph_weight *ref, double atol,
                             const char *what, ph_err *err);
/* The answer's first `stable` ids; *is_same: all n are. */
void ph_probe_figure_greedy(ph_report *r, const ph_probe *p, const int32_t *ref, size_t n, size_t stable,
                            int *is_same);

#endif
