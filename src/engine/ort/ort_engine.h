/* ort_engine.h - inside the engine "ort": graphs of ours as sessions of ONNX Runtime.
 *
 *     graph ─► ONNX bytes, weights by pointer ─► session ─► inputs and outputs bound to the plan's memory ─► run
 *
 * A session runs as one step.  What ORT allocates while it runs is not ours to lay out: it is measured at
 * the first run of each shape, and an estimate before.  Only engine/ort/ includes this.
 */
#ifndef PH_ENGINE_ORT_ORT_ENGINE_H
#define PH_ENGINE_ORT_ORT_ENGINE_H

#include "engine/engine.h"
#include "engine/ort/ort_session.h"

typedef struct ph_ort_engine { /* a ph_engine */
    ph_engine base;
    ph_ort   *ort;
    size_t    bytes;                /* resident since the library was loaded and set up */
    char      device[64], text[64]; /* as it was named; the same taken apart, which ep points to */
    ph_ort_ep ep;                   /* in front of the CPU; name NULL: none */
} ph_ort_engine;

/* An input or output of a program. */
typedef struct ph_ort_port {
    int         value; /* of the graph */
    int         is_input, is_lent;
    size_t      at;            /* place among the session's inputs or outputs */
    size_t      bytes, offset; /* at the bound sizes */
    void       *own, *data;    /* in the plan's memory; own, or lent by the caller */
    const void *set;           /* what the session has been told: data and dimensions; NULL: nothing yet */
    int64_t     set_dim[PH_RANK_MAX];
} ph_ort_port;

enum { PH_ORT_SHAPES = 16 };

typedef struct ph_ort_program { /* a ph_program */
    ph_program      base;
    ph_ort_session *session; /* NULL: only planned */
    ph_ort_port    *port;    /* [n_ports] inputs, then outputs */
    size_t          n_ports;
    ph_tap         *tap; /* [n_taps] in the order in which their values are made */
    size_t          n_taps;
    void          **made; /* [n_made] weights that were converted */
    size_t          n_made;
    ph_need         weights; /* the graph's constants */
    size_t          fixed;   /* engine bytes that stand whatever the sizes */
    size_t          opening; /* that it held beside them while the session was opened */
    struct {
        ph_syms syms;
        size_t  bytes; /* that a run held at most beyond what stands */
    } seen[PH_ORT_SHAPES];
    size_t  n_seen; /* ever; the newest PH_ORT_SHAPES are kept */
    ph_syms bound;
    int     is_bound;
} ph_ort_program;

static inline ph_ort_engine *ph_ort_engine_of(const ph_program *p) {
    return (ph_ort_engine *)p->engine;
}

/* How graphs become ONNX for this engine; also: values that are watched. */
#define PH_ORT_EXPORT_HOW                                                                                    \
    { .opset = 21, .is_flat = 1, .is_float = 1 }

/* ort_compile.c */
ph_rc ph_ort_compile(ph_engine *e, const ph_graph *g, const ph_compile *how, ph_program **out, ph_err *err);
void  ph_ort_close_program(ph_program *p);

/* ort_place.c */
ph_rc ph_ort_need(const ph_program *p, const ph_syms *syms, ph_need *out, size_t *scratch, ph_err *err);
ph_rc ph_ort_bind(ph_program *p, const ph_syms *syms, const ph_bind *b, ph_err *err);
/* What a run of this shape holds beyond what stands: as it was measured, or *is_estimate. */
ph_rc ph_ort_scratch(const ph_ort_program *p, const ph_syms *syms, size_t *out, int *is_estimate,
                     ph_err *err);
void  ph_ort_saw(ph_ort_program *p, const ph_syms *syms, size_t bytes);

/* ort_step.c */
ph_rc ph_ort_step(ph_program *p, const ph_syms *syms, const ph_until *until, ph_run_state *state,
                  ph_err *err);

#endif
