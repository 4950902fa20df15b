/* bare.h - one graph on the native engine, with threads and memory of its own: an imported model run by
 * itself.
 *
 *     open(graph, sizes) ─► write buffer(input) ─► run ─► read buffer(output)
 */
#ifndef PH_ENGINE_BARE_H
#define PH_ENGINE_BARE_H

#include "engine/engine.h"

typedef struct ph_bare {
    ph_kernels      kernels;
    ph_threads     *threads;
    ph_engine      *engine;
    ph_program     *program;
    const ph_graph *graph;
    ph_syms         syms;
    ph_need         need; /* bytes by kind at these sizes */
    void           *memory;
    size_t          bytes;
} ph_bare;

/* Compile g (borrowed) and lay it out for these sizes.  threads: at least 1; features: of ph_kernels_init.
 * With exact products; _as: as `how` says, of which threads and kernels do not count.
 * On failure *b is zeroed.  Errors: what compiling says; PH_ENOMEM. */
ph_rc ph_bare_open_as(ph_bare *b, const ph_graph *g, const ph_syms *syms, int threads, unsigned features,
                      const ph_engine_env *how, ph_err *err);
ph_rc ph_bare_open(ph_bare *b, const ph_graph *g, const ph_syms *syms, int threads, unsigned features,
                   ph_err *err);
void  ph_bare_close(ph_bare *b); /* accepts a zeroed one */
/* Where an input is written before a run and an output is read after it, in C order; NULL: no such value. */
void *ph_bare_buffer(const ph_bare *b, const char *name);
ph_rc ph_bare_run(ph_bare *b, ph_err *err);

#endif
