/* ort_engine.c - the row "ort" of the table of engines: the library and what all programs share. */
#include "engine/ort/ort_engine.h"

#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Bytes that became resident when the library was loaded, which happens once a process. */
static atomic_size_t library_bytes;

static size_t resident(void) {
    ph_mem m;
    ph_mem_read(&m);
    return m.rss;
}

static ph_rc probe(ph_err *err) {
    ph_ort_library lib;
    size_t         before = resident(), none = 0;
    PH_TRY(ph_ort_probe(&lib, err));
    size_t after = resident();
    if (after > before) atomic_compare_exchange_strong(&library_bytes, &none, after - before);
    return PH_OK;
}

static ph_rc open_engine(ph_engine **out, const ph_engine_env *env, ph_err *err) {
    *out = NULL;
    if (!env->threads)
        return PH_FAIL(err, PH_EUSAGE, "engine ort needs threads, of which it takes the number");
    PH_TRY(probe(err));
    ph_ort_engine *e = calloc(1, sizeof *e);
    if (!e) return PH_FAIL(err, PH_ENOMEM, "engine ort");
    size_t before = resident();
    e->base = (ph_engine){.def = &ph_engine_ort, .env = *env};
    ph_rc rc = ph_ort_open(&e->ort, ph_threads_count(env->threads), err);
    if (rc) {
        free(e);
        return rc;
    }
    size_t after = resident();
    e->bytes = atomic_load(&library_bytes) + (after > before ? after - before : 0);
    *out = &e->base;
    return PH_OK;
}

static void close_engine(ph_engine *engine) {
    ph_ort_engine *e = (ph_ort_engine *)engine;
    ph_ort_close(e->ort);
    free(e);
}

static double estimate_us(const ph_engine *e, const ph_graph *g, const ph_syms *syms) {
    return ph_engine_estimate_us(g, syms, ph_threads_count(e->env.threads));
}

const ph_engine_def ph_engine_ort = {
    .name = "ort",
    .probe = probe,
    .open = open_engine,
    .close = close_engine,
    .supports = ph_guest_supports,
    .estimate_us = estimate_us,
    .compile = ph_ort_compile,
    .need = ph_guest_need,
    .bind = ph_guest_bind,
    .buffer = ph_guest_buffer,
    .lend = ph_guest_lend,
    .run = ph_ort_step,
    .reset = ph_guest_reset,
    .close_program = ph_ort_close_program,
};
