/* cost.c - what engines reckon alike: rough times, and the pages that a graph's constants stand in. */
#include "engine/engine.h"

#include "base/mem.h"
#include "graph/user.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

/* ---- time ---- */

/* Rough constants of a small machine, until route measures: multiply-adds and bytes a microsecond, one step.
 */
#define MACS_A_US  10000.0
#define BYTES_A_US 10000.0
#define STEP_US    3.0

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
double ph_engine_estimate_us(const ph_graph *g, const ph_syms *syms, int threads) {
    const ph_meets all = {0};
    double         hands = (double)threads, us = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ph_node *n = &g->node[i];
        double         macs = 0, bytes = 0;
        int            is_gather = !strcmp(n->op->name, "Gather");
        for (int k = is_gather; k < n->n_in; k++)
            if (n->in[k] >= 0) bytes += bytes_of(&g->value[n->in[k]], syms);
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] >= 0) bytes += bytes_of(&g->value[n->out[k]], syms);
        if (n->op->macs && n->op->macs(g, n, syms, &all, &macs, NULL)) macs = 0;
        us +=
            STEP_US + (macs / MACS_A_US > bytes / BYTES_A_US ? macs / MACS_A_US / hands : bytes / BYTES_A_US);
    }
    return us;
}

/* ---- weights in whole pages ---- */

enum { IS_READ = 1, IS_WHOLE = 2 }; /* IS_WHOLE: by more than look-ups of rows */

static void mark_uses(const ph_graph *g, unsigned char *use) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ph_node *n = &g->node[i];
        int            is_gather = !strcmp(n->op->name, "Gather");
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0)
                use[n->in[k]] |= (unsigned char)(is_gather && !k ? IS_READ : IS_READ | IS_WHOLE);
    }
}

static size_t add_planes(ph_range *r, const ph_storage *s) {
    size_t n = 0;
    for (int k = 0; k < s->n_planes; k++) {
        if (!s->plane[k].bytes || !s->plane[k].n) continue;
        uintptr_t at = (uintptr_t)s->plane[k].bytes;
        r[n++] = (ph_range){at, at + s->plane[k].n};
    }
    return n;
}

static void weigh(const ph_graph *g, const unsigned char *use, ph_range *r, ph_need *out) {
    ph_range table[PH_N_PLANES];
    size_t   n = 0;
    out->weights = out->table = out->table_row = 0;
    for (size_t v = 0; v < g->n_values; v++) {
        const ph_value *value = &g->value[v];
        if (value->cls != PH_VALUE_CONSTANT || !use[v]) continue;
        if (use[v] & IS_WHOLE) {
            n += add_planes(&r[n], &value->storage);
            continue;
        }
        out->table += PAGE * ph_pages_touched(table, add_planes(table, &value->storage));
        for (int k = 0; k < value->storage.n_planes; k++) /* a row may straddle one border more */
            out->table_row += ph_round_up(value->storage.plane[k].row_stride, PAGE) + PAGE;
    }
    out->weights = PAGE * ph_pages_touched(r, n);
}

ph_rc ph_engine_weigh(const ph_graph *g, ph_need *out, ph_err *err) {
    unsigned char *use = calloc(g->n_values + 1, 1);
    ph_range      *r = malloc((g->n_values * PH_N_PLANES + 1) * sizeof *r);
    ph_rc          rc = use && r ? PH_OK : PH_FAIL(err, PH_ENOMEM, "%zu weights", g->n_values);
    if (!rc) {
        mark_uses(g, use);
        weigh(g, use, r, out);
    }
    free(use);
    free(r);
    return rc;
}

/* ---- sizes ---- */

ph_rc ph_engine_within(const ph_graph *g, const ph_syms *syms, const ph_syms *most, const char *what,
                       ph_err *err) {
    for (int i = 0; i < PH_N_SYMS; i++)
        if (syms->at[i] > most->at[i] || syms->at[i] < 0)
            return PH_FAIL(err, PH_ELIMIT, "graph '%s': %c = %lld, %s for at most %lld", g->name,
                           ph_sym_letters[i], (long long)syms->at[i], what, (long long)most->at[i]);
    return PH_OK;
}
