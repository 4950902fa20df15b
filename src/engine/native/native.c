/* native.c - the native engine's table entry: opening, what it supports, a rough estimate, buffers.
 *
 * It runs every operator: those of lowering.def fast, any other by its own eval.
 */
#include "engine/native/native.h"

#include <stdlib.h>
#include <string.h>

/* Rough constants of a small machine, until route measures: multiply-adds and bytes a microsecond, one step.
 */
#define MACS_A_US  10000.0
#define BYTES_A_US 10000.0
#define STEP_US    3.0

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

static double count(const ph_value *v, const ph_syms *syms) {
    int64_t n;
    return ph_shape_count(&v->shape, syms, &n, NULL) ? 0 : (double)n;
}

static double bytes_of(const ph_value *v, const ph_syms *syms) {
    if (v->cls != PH_VALUE_CONSTANT) return count(v, syms) * (double)ph_dtype_bytes(v->dtype);
    return (double)v->storage.plane[PH_PLANE_DATA].n;
}

/* Products cost their multiply-adds; everything costs the bytes it moves.  A gathered table moves only rows.
 */
double ph_native_estimate_us(const ph_engine *e, const ph_graph *g, const ph_syms *syms) {
    double hands = (double)ph_threads_count(e->env.threads), us = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ph_node *n = &g->node[i];
        double         macs = 0, bytes = 0;
        int            is_gather = !strcmp(n->op->name, "Gather");
        for (int k = is_gather; k < n->n_in; k++)
            if (n->in[k] >= 0) bytes += bytes_of(&g->value[n->in[k]], syms);
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] >= 0) bytes += bytes_of(&g->value[n->out[k]], syms);
        if (n->n_in > 1 && n->in[1] >= 0 && n->n_out > 0 && n->out[0] >= 0) {
            const ph_value *w = &g->value[n->in[1]], *x = &g->value[n->in[0] < 0 ? n->in[1] : n->in[0]];
            double          y = count(&g->value[n->out[0]], syms);
            if (!strcmp(n->op->name, "Linear")) macs = y * (double)w->shape.dim[1].mul;
            if (!strcmp(n->op->name, "Conv")) macs = y * count(w, syms) / (double)w->shape.dim[0].mul;
            if (!strcmp(n->op->name, "Attention") &&
                x->shape.rank > 1) { /* every query meets every key, twice */
                int64_t keys = 0;
                if (!ph_dim_eval(w->shape.dim[w->shape.rank - 2], syms, &keys, NULL))
                    macs = 2 * y * (double)keys;
            }
        }
        us +=
            STEP_US + (macs / MACS_A_US > bytes / BYTES_A_US ? macs / MACS_A_US / hands : bytes / BYTES_A_US);
    }
    return us;
}

static int buffer_of(const ph_native *p, int value) {
    return value < 0 || (size_t)value >= ph_native_graph(p)->n_values ? -1 : p->home[value];
}

static void *buffer(const ph_program *program, int value) {
    const ph_native *p = (const ph_native *)program;
    int              b = buffer_of(p, value);
    return b < 0 || !p->is_bound ? NULL : p->buffer[b].at;
}

static ph_rc lend(ph_program *program, int value, void *data, ph_err *err) {
    ph_native *p = (ph_native *)program;
    int        b = buffer_of(p, value);
    if (b < 0 || p->buffer[b].home != PH_HOME_INPUT || !p->is_bound)
        return PH_FAIL(err, PH_EUSAGE, "value %d is no input of the bound graph '%s'", value,
                       program->graph->name);
    if ((uintptr_t)data % ph_dtype_bytes(program->graph->value[value].dtype))
        return PH_FAIL(err, PH_EUSAGE, "input '%s': lent memory is not aligned",
                       program->graph->value[value].name);
    p->buffer[b].at = data ? data : p->buffer[b].own;
    return PH_OK;
}

const ph_engine_def ph_engine_native = {
    .name = "native",
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
