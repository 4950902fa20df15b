/* bare.c - a graph by itself on the native engine. */
#include "engine/bare.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static ph_rc open_all(ph_bare *b, int threads, const ph_engine_env *how, ph_err *err) {
    const ph_engine_def *def = ph_engine_find("native");
    ph_compile           at_most = {.max = b->syms};
    ph_engine_env        env = *how;
    PH_TRY(ph_threads_open(&b->threads, threads < 1 ? 1 : threads, err));
    env.threads = b->threads;
    env.kernels = &b->kernels;
    PH_TRY(def->open(&b->engine, &env, err));
    PH_TRY(def->compile(b->engine, b->graph, &at_most, &b->program, err));
    PH_TRY(def->need(b->program, &b->syms, &b->need, &b->bytes, err));
    b->memory = aligned_alloc(PH_ALIGN, ph_round_up(b->bytes + 1, PH_ALIGN));
    if (!b->memory) return PH_FAIL(err, PH_ENOMEM, "%zu bytes for graph %s", b->bytes, b->graph->name);
    ph_bind bind = {.memory = b->memory, .bytes = b->bytes};
    return def->bind(b->program, &b->syms, &bind, err);
}

ph_rc ph_bare_open_as(ph_bare *b, const ph_graph *g, const ph_syms *syms, int threads, unsigned features,
                      const ph_engine_env *how, ph_err *err) {
    *b = (ph_bare){.graph = g, .syms = *syms};
    ph_kernels_init(&b->kernels, features);
    ph_rc rc = open_all(b, threads, how, err);
    if (rc) ph_bare_close(b);
    return rc;
}

ph_rc ph_bare_open(ph_bare *b, const ph_graph *g, const ph_syms *syms, int threads, unsigned features,
                   ph_err *err) {
    return ph_bare_open_as(b, g, syms, threads, features, &(ph_engine_env){.is_exact = 1}, err);
}

void ph_bare_close(ph_bare *b) {
    if (b->program) b->engine->def->close_program(b->program);
    if (b->engine) b->engine->def->close(b->engine);
    ph_threads_close(b->threads);
    free(b->memory);
    *b = (ph_bare){0};
}

void *ph_bare_buffer(const ph_bare *b, const char *name) {
    int v = ph_graph_find(b->graph, name);
    return v < 0 ? NULL : b->engine->def->buffer(b->program, v);
}

ph_rc ph_bare_run(ph_bare *b, ph_err *err) {
    ph_run_state state;
    return b->engine->def->run(b->program, &b->syms, NULL, &state, err);
}
