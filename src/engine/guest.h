/* guest.h - parts of models on a library of others (ort/, openvino/): what such engines share.
 *
 *     graph ─► inputs, outputs, taps ─► ONNX bytes ─► the library's own model ─► run over the plan's memory
 *
 * The library takes the graph as a whole and gives it back as one step.  What stands at its border is ours:
 * inputs lie in the plan's memory, outputs too unless the library can only copy them there, values that are
 * watched become outputs.  What it holds inside
 * is not ours to lay out: it is measured at the first run of each shape, and reckoned before.
 */
#ifndef PH_ENGINE_GUEST_H
#define PH_ENGINE_GUEST_H

#include "base/mem.h"
#include "engine/engine.h"
#include "graph/onnx/onnx_out.h"

#include <pthread.h>

/* An input or output of a program. */
typedef struct ph_port {
    int    value; /* of the graph */
    int    is_input, is_lent;
    size_t at;            /* place among the library's inputs or outputs */
    size_t bytes, offset; /* at the bound sizes */
    void  *own, *data;    /* in the plan's memory; own, or lent by the caller; of an output that the library
                           * keeps, its memory after a run */
    const void *set;      /* what the library has been told: data and dimensions; NULL: nothing yet */
    int64_t     set_dim[PH_RANK_MAX];
} ph_port;

enum { PH_GUEST_SHAPES = 16 };

typedef struct ph_guest { /* a ph_program; first member of each such engine's own struct */
    ph_program base;
    int        is_open;     /* the library has its model; 0: only planned */
    int      keeps_outputs; /* they lie in the library's memory, where they are read: set before beginning */
    ph_port *port;          /* [n_ports] inputs, then outputs */
    size_t   n_ports;
    ph_tap  *tap; /* [n_taps] in the order in which their values are made */
    size_t   n_taps;
    ph_need  weights; /* the graph's constants */
    size_t   fixed;   /* engine bytes that stand whatever the sizes */
    size_t   opening; /* that it held beside them while the model was opened */
    /* Figures of runs: one thread runs, another asks what is needed; under the lock. */
    pthread_mutex_t lock;
    size_t          kept; /* that runs so far left behind for the next ones; 0 where they give all back */
    struct {
        ph_syms syms;
        size_t  bytes; /* that a run held at most beyond what stands */
        size_t  times; /* measured */
    } seen[PH_GUEST_SHAPES];
    size_t  n_seen; /* ever; the newest PH_GUEST_SHAPES are kept */
    ph_syms bound;
    int     is_bound;
} ph_guest;

/* How graphs become ONNX for such engines. */
#define PH_GUEST_EXPORT_HOW                                                                                  \
    { .opset = 21, .is_flat = 1, .is_float = 1 }

/* Has this node a form that the library would be given? */
int ph_guest_supports(const ph_graph *g, int node);
/* Does the graph keep nothing from run to run, and need no plug-in?  Errors: PH_EUNSUP, naming the engine. */
ph_rc ph_guest_takes(const ph_graph *g, const char *engine, ph_err *err);

/* Lists inputs, outputs and taps, and weighs the graph; *g is zeroed before but for keeps_outputs, and closed
 * by the caller whatever comes.  Errors: PH_EUNSUP a state that lasts from run to run, named; PH_EUSAGE taps
 * and lent values that are none; PH_ENOMEM. */
ph_rc ph_guest_begin(ph_guest *g, ph_engine *e, const ph_graph *graph, const ph_compile *how, ph_err *err);
void  ph_guest_end(ph_guest *g);
/* The last of compiling, which came to rc so far: the largest sizes must at least be countable.  *out is the
 * program; after an error, which says what was being compiled, *g is the caller's to close. */
ph_rc ph_guest_done(ph_guest *g, ph_rc rc, ph_program **out, ph_err *err);
/* The graph as ONNX, watched values as outputs; closed with ph_onnx_exported_close. */
ph_rc ph_guest_export(const ph_guest *g, ph_onnx_exported *x, ph_err *err);

/* The entries of the table that are alike. */
ph_rc ph_guest_need(const ph_program *p, const ph_syms *syms, ph_need *out, size_t *scratch, ph_err *err);
ph_rc ph_guest_bind(ph_program *p, const ph_syms *syms, const ph_bind *b, ph_err *err);
void *ph_guest_buffer(const ph_program *p, int value);
ph_rc ph_guest_lend(ph_program *p, int value, void *data, ph_err *err);
void  ph_guest_reset(ph_program *p); /* a run that was given up left nothing behind */

/* ---- what is whose ---- */

/* Such parts are run and closed side by side, whichever library and session they are of; one that is opened,
 * or whose run is measured, is at it alone, and waits for the others: what the process grows by is its own
 * then, as far as they are concerned.  Not twice in one thread. */
void ph_guest_work_begin(int is_alone);
void ph_guest_work_end(void);

/* Where the process stands: its pages, and what malloc holds. */
typedef struct ph_footing {
    ph_mem  mem;
    ph_heap heap;
} ph_footing;
ph_footing ph_guest_footing(void);
/* Bytes since then that are the library's: it has them from malloc.  What the rest of the process touches
 * meanwhile (weights that are mapped, scratch, cache) is none of the heap, and not counted.  touched: at
 * most, free again or not; kept: not given back. */
size_t ph_guest_touched(const ph_footing *before, const ph_footing *after);
size_t ph_guest_kept(const ph_footing *before, const ph_footing *after);

/* ---- a run ---- */

/* It is bound, for at least these sizes.  Errors: PH_EUSAGE, PH_ELIMIT. */
ph_rc ph_guest_ready(const ph_guest *g, const ph_syms *syms, ph_err *err);
/* The port's dimensions and bytes at these sizes; *is_new: they, or its memory, are not what the library was
 * told, and it must be told before ph_guest_told.  Errors: PH_EUSAGE it was to be lent and is not;
 * PH_ELIMIT. */
ph_rc ph_guest_shape(const ph_guest *g, ph_port *port, const ph_syms *syms, int64_t dim[PH_RANK_MAX],
                     size_t *bytes, int *is_new, ph_err *err);
void  ph_guest_told(ph_port *port, const int64_t dim[PH_RANK_MAX]);
/* How many runs of this shape were measured; those of the newest PH_GUEST_SHAPES are known. */
size_t ph_guest_times_seen(const ph_guest *g, const ph_syms *syms);
/* One more was: it held `bytes` at most beyond what stood before it, and left `stays` behind.  Of several,
 * the most counts. */
void ph_guest_saw(ph_guest *g, const ph_syms *syms, size_t bytes, size_t stays);
void ph_guest_show_taps(const ph_guest *g, const ph_syms *syms);

#endif
