/* native.c - the native engine's table entry: opening, what it supports, a rough estimate, buffers.
 *
 * It runs every operator: those of lowering.def fast, any other by its own eval.
 */
#include "engine/native/native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ph_rc probe(ph_err *err) {
    (void)err;
    return PH_OK;
}

static ph_rc open_engine(ph_engine **out, const ph_engine_env *env, ph_err *err) {
    *out = NULL;
    if (!env->threads || !env->kernels)
        return PH_FAIL(err, PH_EUSAGE, "engine native needs threads and kernels");
    ph_engine *e = calloc(1, sizeof *e);
    if (!e) return PH_FAIL(err, PH_ENOMEM, "engine native");
    *e = (ph_engine){.def = &ph_engine_native, .env = *env};
    *out = e;
    return PH_OK;
}

static void close_engine(ph_engine *e) {
    free(e);
}

static int supports(const ph_graph *g, int node) {
    return node >= 0 && (size_t)node < g->n_nodes && ph_lowering_eval.can(g, node);
}

double ph_native_estimate_us(const ph_engine *e, const ph_graph *g, const ph_syms *syms) {
    return ph_engine_estimate_us(g, syms, ph_threads_count(e->env.threads));
}

static int buffer_of(const ph_native *p, int value) {
    return value < 0 || (size_t)value >= ph_native_graph(p)->n_values ? -1 : p->home[value];
}

static void *buffer(const ph_program *program, int value) {
    const ph_native *p = (const ph_native *)program;
    int              b = buffer_of(p, value);
    return b < 0 || !p->is_bound ? NULL : p->buffer[b].at;
}

static int root_of(const ph_native *p, int b) {
    while (p->buffer[b].same != b) b = p->buffer[b].same;
    return b;
}

/* An output moves with all that shares its place: they are of its size. */
static void lend_output(ph_native *p, int b, void *data) {
    int root = root_of(p, b);
    for (size_t i = 0; i < p->n_buffers; i++)
        if (p->buffer[i].home == PH_HOME_TEMP && root_of(p, (int)i) == root)
            p->buffer[i].at = data ? data : p->buffer[i].own;
}

static ph_rc lend(ph_program *program, int value, void *data, ph_err *err) {
    ph_native      *p = (ph_native *)program;
    int             b = buffer_of(p, value);
    const ph_value *v = b < 0 ? NULL : &program->graph->value[value];
    /* An output that is an input under another name is made by nobody: it cannot be made elsewhere. */
    int is_input = b >= 0 && p->buffer[b].home == PH_HOME_INPUT && v->cls == PH_VALUE_INPUT;
    int is_output = b >= 0 && p->buffer[b].home == PH_HOME_TEMP && v->is_output;
    if ((!is_input && !is_output) || !p->is_bound)
        return PH_FAIL(err, PH_EUSAGE, "value %d is no input or output of the bound graph '%s'", value,
                       program->graph->name);
    if ((uintptr_t)data % ph_dtype_bytes(v->dtype))
        return PH_FAIL(err, PH_EUSAGE, "value '%s': lent memory is not aligned", v->name);
    if (is_output)
        lend_output(p, b, data);
    else
        p->buffer[b].at = data ? data : p->buffer[b].own;
    return PH_OK;
}

static void version(char *out, size_t size) {
    snprintf(out, size, "%s", PH_VERSION);
}

const ph_engine_def ph_engine_native = {
    .name = "native",
    .cls = PH_ENGINE_CPU,
    .version = version,
    .probe = probe,
    .open = open_engine,
    .close = close_engine,
    .supports = supports,
    .estimate_us = ph_native_estimate_us,
    .compile = ph_native_compile,
    .need = ph_native_need,
    .bind = ph_native_bind,
    .buffer = buffer,
    .lend = lend,
    .run = ph_native_run,
    .reset = ph_native_reset,
    .close_program = ph_native_close,
};

enum { TILE = 12 }; /* rows: whole tiles of kernels */

size_t ph_native_share(size_t all, size_t most) {
    size_t units = (all + most - 1) / most;
    if (units < 2) return all ? all : 1;
    size_t even = (all + units - 1) / units, whole = (even + TILE - 1) / TILE * TILE;
    return whole <= most ? whole : even;
}

/* A claimed piece is some unit: as many are claimed as there are, so one is left. */
size_t ph_native_dealt(ph_native *p, const ph_hand *hand, size_t units, size_t each) {
    size_t blocks = units / each, lanes = (size_t)p->n_hands < blocks ? (size_t)p->n_hands : blocks;
    for (size_t lane = (size_t)(hand - p->hand) % lanes;; lane = (lane + 1) % lanes) {
        size_t own = (blocks - lane + lanes - 1) / lanes * each;
        size_t n = atomic_fetch_add_explicit(&p->hand[lane].taken, 1, memory_order_relaxed);
        if (n < own) return (lane + n / each * lanes) * each + n % each;
    }
}
