/* ort_engine.c - the row "ort" of the table of engines: opening, what it supports, buffers. */
#include "engine/ort/ort_engine.h"

#include "base/mem.h"
#include "graph/onnx/onnx_out.h"

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

static int supports(const ph_graph *g, int node) {
    static const ph_onnx_export_how how = PH_ORT_EXPORT_HOW;
    return !ph_onnx_export_try(g, node, &how, NULL);
}

static double estimate_us(const ph_engine *e, const ph_graph *g, const ph_syms *syms) {
    return ph_engine_estimate_us(g, syms, ph_threads_count(e->env.threads));
}

/* ---- buffers ---- */

static ph_ort_port *port_of(const ph_program *program, int value) {
    const ph_ort_program *p = (const ph_ort_program *)program;
    for (size_t i = 0; i < p->n_ports; i++)
        if (p->port[i].value == value) return &p->port[i];
    return NULL;
}

static void *buffer(const ph_program *program, int value) {
    const ph_ort_port *port = port_of(program, value);
    return port && ((const ph_ort_program *)program)->is_bound ? port->data : NULL;
}

static ph_rc lend(ph_program *program, int value, void *data, ph_err *err) {
    ph_ort_port *port = port_of(program, value);
    int          is_ours = port && (port->is_input || program->graph->value[value].is_output);
    if (!is_ours || !((ph_ort_program *)program)->is_bound)
        return PH_FAIL(err, PH_EUSAGE, "value %d is no input or output of the bound graph '%s'", value,
                       program->graph->name);
    if ((uintptr_t)data % ph_dtype_bytes(program->graph->value[value].dtype))
        return PH_FAIL(err, PH_EUSAGE, "value '%s': lent memory is not aligned",
                       program->graph->value[value].name);
    port->data = data ? data : port->own;
    return PH_OK;
}

/* A run that was given up left nothing behind. */
static void reset(ph_program *program) {
    (void)program;
}

const ph_engine_def ph_engine_ort = {
    .name = "ort",
    .probe = probe,
    .open = open_engine,
    .close = close_engine,
    .supports = supports,
    .estimate_us = estimate_us,
    .compile = ph_ort_compile,
    .need = ph_ort_need,
    .bind = ph_ort_bind,
    .buffer = buffer,
    .lend = lend,
    .run = ph_ort_step,
    .reset = reset,
    .close_program = ph_ort_close_program,
};
