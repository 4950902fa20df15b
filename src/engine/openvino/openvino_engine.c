/* openvino_engine.c - the row "openvino" of the table of engines. */
#include "engine/openvino/openvino_engine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static ph_rc probe(ph_err *err) {
    ph_openvino_library lib;
    return ph_openvino_probe(&lib, err);
}

static ph_rc open_engine(ph_engine **out, const ph_engine_env *env, ph_err *err) {
    *out = NULL;
    if (!env->threads)
        return PH_FAIL(err, PH_EUSAGE, "engine openvino needs threads, of which it takes the number");
    ph_openvino_engine *e = calloc(1, sizeof *e);
    if (!e) return PH_FAIL(err, PH_ENOMEM, "engine openvino");
    e->base = (ph_engine){.def = &ph_engine_openvino, .env = *env};
    ph_rc rc = ph_openvino_open(&e->openvino, ph_threads_count(env->threads), err);
    if (rc)
        free(e);
    else
        *out = &e->base;
    return rc;
}

static void close_engine(ph_engine *engine) {
    ph_openvino_engine *e = (ph_openvino_engine *)engine;
    ph_openvino_close(e->openvino);
    free(e);
}

static void version(char *out, size_t size) {
    ph_openvino_library lib;
    snprintf(out, size, "%s", ph_openvino_probe(&lib, NULL) ? "" : lib.release);
}

/* Pages of its code that opening and running first touch, and of them what loading it touched before a part
 * is compiled: as found with release 2026.4 on x86-64. */
enum { CODE_BYTES = 34 << 20, LIBRARY_BYTES = 10 << 20 };

/* The same as measured; they stay, whoever closes what.  0: nothing was opened yet. */
static atomic_size_t code;

void ph_openvino_note_code(size_t bytes) {
    atomic_fetch_add(&code, bytes);
}

static size_t holds(const ph_engine *engine) {
    size_t measured = atomic_load(&code);
    (void)engine;
    return LIBRARY_BYTES + (measured ? measured : CODE_BYTES);
}

static ph_rc takes(const ph_graph *g, ph_err *err) {
    return ph_guest_takes(g, "openvino", err);
}

static double estimate_us(const ph_engine *e, const ph_graph *g, const ph_syms *syms) {
    return ph_engine_estimate_us(g, syms, ph_threads_count(e->env.threads));
}

const ph_engine_def ph_engine_openvino = {
    .name = "openvino",
    .cls = PH_ENGINE_CPU,
    .version = version,
    .probe = probe,
    .open = open_engine,
    .close = close_engine,
    .holds = holds,
    .supports = ph_guest_supports,
    .takes = takes,
    .estimate_us = estimate_us,
    .compile = ph_openvino_compile,
    .need = ph_guest_need,
    .bind = ph_guest_bind,
    .buffer = ph_guest_buffer,
    .lend = ph_guest_lend,
    .run = ph_openvino_step,
    .reset = ph_guest_reset,
    .close_program = ph_openvino_close_program,
    .steps_hidden = 1,
};
