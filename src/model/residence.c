/* residence.c - what is done with the files of weights once the model is understood.
 *
 * Reading ahead goes in the order of use: the first layers of what sees and of what answers, then the rest of
 * the one and of the other.  Tables of which only rows are looked up are left out.  A model that is read
 * whole or locked needs none of it.
 */
#include "model/residence.h"

#include "base/ahead.h"
#include "base/mem.h"
#include "graph/op.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, FIRST_LAYERS = 3, PARTS = 4 };

/* The files of weights, one after the other; NULL past the last. */
static ph_file *file_at(ph_source *s, size_t i) {
    struct {
        ph_file *file;
        int      n;
    } sets[] = {{s->hf.weights.files, s->is_gguf ? 0 : s->hf.weights.n_files},
                {s->gguf.files, s->is_gguf || s->hf.carrier ? s->gguf.n_files : 0},
                {s->mmproj.files, s->has_mmproj ? s->mmproj.n_files : 0}};
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        if (i < (size_t)sets[k].n) return &sets[k].file[i];
        i -= (size_t)sets[k].n;
    }
    return NULL;
}

static int is_in(const ph_file *f, const void *at) {
    return (uintptr_t)at >= (uintptr_t)f->bytes && (uintptr_t)at < (uintptr_t)f->bytes + f->n;
}

/* Bytes before the first tensor of a file: read when it was opened, so the process was weighed with them. */
static size_t header_of(const ph_weights *w, const ph_file *f) {
    size_t least = f->n;
    for (size_t i = 0; i < w->n; i++)
        if (is_in(f, w->at[i].bytes) && (uintptr_t)w->at[i].bytes - (uintptr_t)f->bytes < least)
            least = (uintptr_t)w->at[i].bytes - (uintptr_t)f->bytes;
    return least;
}

static ph_rc take_whole(ph_model *m, const ph_model_options *o, ph_err *err) {
    size_t headers = 0;
    for (size_t i = 0; file_at(&m->source, i); i++) {
        ph_file *f = file_at(&m->source, i);
        size_t   text = header_of(ph_source_weights(&m->source), f),
               vision = header_of(ph_source_vision_weights(&m->source), f);
        headers += text < vision ? text : vision;
        m->whole_bytes += ph_round_up(f->n, PAGE);
        if (o->is_plan_only) continue;
        if (o->is_read_whole) PH_TRY(ph_file_load(f, m->source.path, err));
        if (o->is_locked) PH_TRY(ph_file_lock(f, m->source.path, err));
    }
    headers += ph_round_up(ph_tokenizer_mapped(m->tokenizer), PAGE);
    /* They are part of the weights now, not of the process that was there before. */
    m->resident_bytes -= headers < m->resident_bytes ? headers : 0;
    return PH_OK;
}

/* ---- reading ahead ---- */

typedef struct list {
    ph_model       *m;
    ph_ahead_range *range;
    size_t          n;
} list;

static int is_mapped(ph_model *m, const void *at) {
    for (size_t i = 0; file_at(&m->source, i); i++)
        if (is_in(file_at(&m->source, i), at)) return 1;
    return 0;
}

static void add_node(list *l, const ph_graph *g, const ph_node *n) {
    for (int i = 0; i < n->n_in && strcmp(n->op->name, "Gather"); i++) {
        const ph_value *v = n->in[i] >= 0 ? &g->value[n->in[i]] : NULL;
        if (!v || v->cls != PH_VALUE_CONSTANT) continue;
        for (int k = 0; k < v->storage.n_planes; k++) {
            const ph_plane *p = &v->storage.plane[k];
            if (p->bytes && p->n && is_mapped(l->m, p->bytes))
                l->range[l->n++] = (ph_ahead_range){p->bytes, p->n};
        }
    }
}

/* The nodes of a graph's first layers, or the others: a layer has one node that attends. */
static void add_graph(list *l, const ph_graph *g, int is_first) {
    int n_attend = 0;
    for (size_t i = 0; g && i < g->n_nodes; i++) {
        n_attend += strstr(g->node[i].op->name, "Attention") != NULL;
        if ((n_attend <= FIRST_LAYERS) == is_first) add_node(l, g, &g->node[i]);
    }
}

static ph_rc read_ahead(ph_model *m, ph_err *err) {
    const ph_graph *g[PARTS] = {m->vision, m->bridge, m->cross, m->language};
    size_t          most = 0, first, available = ph_mem_available();
    list            l = {.m = m};
    for (int i = 0; i < PARTS; i++)
        for (size_t k = 0; g[i] && k < g[i]->n_nodes; k++) most += (size_t)g[i]->node[k].n_in * PH_N_PLANES;
    l.range = calloc(most ? most : 1, sizeof *l.range);
    if (!l.range) return PH_FAIL(err, PH_ENOMEM, "a list of %zu weights", most);
    add_graph(&l, m->vision, 1);
    add_graph(&l, m->language, 1);
    first = l.n;
    add_graph(&l, m->vision, 0);
    for (int k = 1; k >= 0; k--) {
        add_graph(&l, m->bridge, k);
        add_graph(&l, m->cross, k);
    }
    add_graph(&l, m->language, 0);
    /* Half of what is free: to read more would push out what was read. */
    ph_rc rc = ph_ahead_open(&m->ahead, l.range, l.n, first, available / 2, err);
    free(l.range);
    return rc;
}

ph_rc ph_model_reside(ph_model *m, const ph_model_options *o, ph_err *err) {
    if (!o) return PH_OK;
    if (o->is_read_whole || o->is_locked) return take_whole(m, o, err);
    return o->reads_ahead && !o->is_plan_only ? read_ahead(m, err) : PH_OK;
}
