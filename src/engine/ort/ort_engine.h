/* ort_engine.h - inside the engine "ort": graphs of ours as sessions of ONNX Runtime.
 *
 *     graph ─► ONNX bytes, weights by pointer ─► session ─► inputs and outputs bound to the plan's memory ─► run
 *
 * A session runs as one step.  What ORT allocates while it runs is not ours to lay out: it is measured at
 * the first run of each shape, and an estimate before.  Only engine/ort/ includes this.
 */
#ifndef PH_ENGINE_ORT_ORT_ENGINE_H
#define PH_ENGINE_ORT_ORT_ENGINE_H

#include "engine/guest.h"
#include "engine/ort/ort_session.h"

typedef struct ph_ort_engine { /* a ph_engine */
    ph_engine base;
    ph_ort   *ort;
    char      device[64], text[64]; /* as it was named; the same taken apart, which ep points to */
    ph_ort_ep ep;                   /* in front of the CPU; name NULL: none */
} ph_ort_engine;

typedef struct ph_ort_program { /* a ph_guest */
    ph_guest        guest;
    ph_ort_session *session; /* NULL: only planned */
    void          **made;    /* [n_made] weights that were converted */
    size_t          n_made;
} ph_ort_program;

static inline ph_ort_engine *ph_ort_engine_of(const ph_program *p) {
    return (ph_ort_engine *)p->engine;
}

/* ort_compile.c */
ph_rc ph_ort_compile(ph_engine *e, const ph_graph *g, const ph_compile *how, ph_program **out, ph_err *err);
void  ph_ort_close_program(ph_program *p);

/* ort_step.c */
ph_rc ph_ort_step(ph_program *p, const ph_syms *syms, const ph_until *until, ph_run_state *state,
                  ph_err *err);

#endif
