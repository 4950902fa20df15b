/* engine.h - what can run a part of a graph: one vtable, one row of engine.def each.
 *
 *     compile(graph) ─► program ─► need(sizes) ─► bind(buffers) ─► run(sizes, until) ─► done | again
 *
 * An engine owns what is common to its programs (threads, kernels, a library
 * handle); a program is one graph made ready.  bind places the program's buffers
 * in memory that the caller gives, so the plan's figures are the run's.
 */
#ifndef PH_ENGINE_ENGINE_H
#define PH_ENGINE_ENGINE_H

#include "base/threads.h"
#include "base/trace.h"
#include "engine/class.h"
#include "graph/graph.h"
#include "graph/kv.h"
#include "graph/plan.h"
#include "kernels/kernels.h"

typedef struct ph_engine_def ph_engine_def;

/* What all programs of one engine share; borrowed, lives longer than the engine. */
typedef struct ph_engine_env {
    ph_threads       *threads;
    const ph_kernels *kernels;
    ph_trace         *trace;       /* or NULL */
    int               is_profiled; /* also spans that cost time (ph_engine_def.profile) */
    const char       *device;      /* of the engine's own names for where it runs; NULL: its default */
    int               is_deterministic;
    int is_exact; /* block-typed weights and bytes meet floats, not rows of 16 bits: slower, the reference's
                   * numbers */
    int      is_rows8; /* they meet rows of 8 bits: faster where multiplying takes the time, coarser */
    unsigned unfused;  /* bits 1 << PH_FUSE_*: what must not be joined */
} ph_engine_env;

/* What an engine may join: fusion.def. */
enum {
#define PH_FUSION(name, what) PH_FUSE_##name,
#include "engine/fusion.def"
#undef PH_FUSION
    PH_N_FUSIONS
};
const char *ph_fusion_name(int i); /* NULL past the last */
const char *ph_fusion_what(int i); /* one line for a human */
/* "norm,act", "all" or NULL (none) to bits.  Errors: PH_EUSAGE a name that is none (lists them). */
ph_rc ph_fusions_of(const char *list, unsigned *out, ph_err *err);

typedef struct ph_engine { /* first member of each engine's own struct */
    const ph_engine_def *def;
    ph_engine_env        env;
} ph_engine;

/* An observer of values: called between steps, on the thread that called run, after the value was made. */
typedef struct ph_tap {
    int value; /* of the graph */
    void (*see)(void *arg, int value, const float *data, const ph_shape *shape, const ph_syms *syms);
    void *arg;
} ph_tap;

typedef struct ph_compile {
    ph_syms       max; /* the largest sizes that run will be called with */
    const ph_tap *tap; /* [n_taps]; no step fuses across a tapped value */
    size_t        n_taps;
    const int    *lent; /* [n_lent] inputs that the caller always lends: they take no bytes of the program */
    size_t        n_lent;
    int is_plan_only; /* the program is asked what it needs and never bound: no weight is read for it */
} ph_compile;

typedef struct ph_program { /* first member of each engine's own struct */
    ph_engine      *engine;
    const ph_graph *graph; /* borrowed */
    ph_syms         max;
} ph_program;

/* The caller's memory for one program, at the sizes given to need(). */
typedef struct ph_bind {
    void  *memory; /* 64-byte aligned, `need.input + activations + engine` scratch part as need() said */
    size_t bytes;
    ph_kv *kv;    /* for graphs with the state PH_STATE_OWN; else NULL */
    ph_kv *cross; /* and with PH_STATE_CROSS */
} ph_bind;

typedef enum ph_run_state { PH_RUN_DONE, PH_RUN_AGAIN } ph_run_state;

struct ph_engine_def {
    const char     *name; /* "native", "ort" */
    ph_engine_class cls;
    /* Bytes a microsecond between its memory and the host's, for values that its runs leave there; 0: they
     * read and write the host's, which the times of its runs hold. */
    double border_bytes_a_us;
    /* Which release computes ("1.32.0"): times that another one took are not its own.  NULL: it has none. */
    void (*version)(char *out, size_t size);
    /* The class of a device of its own, by the name alone.  NULL: it has none.  Errors: PH_EUSAGE. */
    ph_rc (*device)(const char *name, ph_engine_class *cls, ph_err *err);
    /* Device i of those that are here beside the default one; 0: past the last. */
    int (*device_at)(const ph_engine *e, size_t i, char *out, size_t size);
    /* Is it here?  PH_OK, or PH_EMACHINE with the reason. */
    ph_rc (*probe)(ph_err *err);
    ph_rc (*open)(ph_engine **e, const ph_engine_env *env, ph_err *err);
    void (*close)(ph_engine *e);
    /* Bytes that it holds itself, whatever parts it runs: a library, a device's tables.  NULL: none. */
    size_t (*holds)(const ph_engine *e);
    int (*supports)(const ph_graph *g, int node);
    /* Can it take the graph, as far as that shows before the engine is opened, or is here?  NULL: nothing
     * shows.  Errors: PH_EUNSUP, in the words of compile. */
    ph_rc (*takes)(const ph_graph *g, ph_err *err);
    double (*estimate_us)(const ph_engine *e, const ph_graph *g, const ph_syms *syms);
    ph_rc (*compile)(ph_engine *e, const ph_graph *g, const ph_compile *how, ph_program **out, ph_err *err);
    /* Bytes by kind when run with sizes up to `syms`.  scratch: the bytes that bind() wants in one piece. */
    ph_rc (*need)(const ph_program *p, const ph_syms *syms, ph_need *out, size_t *scratch, ph_err *err);
    /* Lay the program out in b->memory for sizes up to `syms`; may be called again with other memory or
     * sizes. Allocates nothing. */
    ph_rc (*bind)(ph_program *p, const ph_syms *syms, const ph_bind *b, ph_err *err);
    /* Where the caller writes an input before run, valid until the next bind; and reads an output after it,
     * asked for then and valid until the next run: some engines have it in memory of their own. */
    void *(*buffer)(const ph_program *p, int value);
    /* An input may instead be the caller's own memory (the next program's input is this program's output: no
     * copy), and an output may be made there.  Lasts until the next bind; NULL restores the program's own
     * buffer (none for those of ph_compile.lent, which must be lent before each first run after a bind).
     * Errors: PH_EUSAGE neither, not bound, not aligned; an engine may refuse outputs with it: then they are
     * copied from its buffer. */
    ph_rc (*lend)(ph_program *p, int value, void *data, ph_err *err);
    /* Run all steps, or resume after `again`.  *state is AGAIN when `until` was reached at a step border. */
    ph_rc (*run)(ph_program *p, const ph_syms *syms, const ph_until *until, ph_run_state *state, ph_err *err);
    void (*reset)(ph_program *p); /* forget a half-done run */
    void (*close_program)(ph_program *p);
    /* Spans of what ran so far, by operator, into the trace, where env.is_profiled asked for them; later runs
     * need not be in it.  NULL: each step's stand there already, or steps_hidden. */
    ph_rc (*profile)(ph_program *p, ph_err *err);
    /* A run is one step, and what took how long within it is told nowhere: times of parts, none by kind. */
    int steps_hidden;
};

/* ---- for engines (cost.c) ---- */

/* A rough time at these sizes, microseconds on so many threads: products by their multiply-adds, all else by
 * the bytes moved. */
double ph_engine_estimate_us(const ph_graph *g, const ph_syms *syms, int threads);
/* weights, table and table_row of *out: the graph's constants in whole pages.  Errors: PH_ENOMEM. */
ph_rc ph_engine_weigh(const ph_graph *g, ph_need *out, ph_err *err);
/* Is every symbol from 0 to most?  what: "compiled", "bound".  Errors: PH_ELIMIT, naming the symbol. */
ph_rc ph_engine_within(const ph_graph *g, const ph_syms *syms, const ph_syms *most, const char *what,
                       ph_err *err);

#define PH_ENGINE(name) extern const ph_engine_def ph_engine_##name;
#include "engine/engine.def"
#undef PH_ENGINE

const ph_engine_def *ph_engine_find(const char *name); /* or NULL */
/* "ort", "ort:cuda": the row, the device's name (within `name`; NULL: none is named) and the class.
 * Errors: PH_EUSAGE no such engine (lists those that are known), or no such device of it. */
ph_rc  ph_engine_named(const char *name, const ph_engine_def **def, const char **device, ph_engine_class *cls,
                       ph_err *err);
size_t ph_engine_count(void);
const ph_engine_def *ph_engine_at(size_t i);

#endif
