/* openvino_compile.c - a graph becomes a compiled model: written as ONNX in memory, its weights by address.
 *
 * OpenVINO reads each weight once, into memory of its own, and packs those of products beside that: it holds
 * twice what the part has as f32, and nothing of ours is read afterwards.
 */
#include "engine/openvino/openvino_engine.h"

#include "base/mem.h"

#include <malloc.h>
#include <stdlib.h>

enum {
    BY_ADDRESS_ABOVE = 1024, /* bytes; smaller weights are in the model */
    COPIES = 2,
    TABLES_BYTES = 6 << 20, /* the least that a model's take: as found with release 2026.4 on x86-64 */
};

/* Ports are inputs, then outputs: so are the model's. */
static size_t list_names(ph_guest *g, const char **name) {
    size_t n_in = 0;
    for (size_t i = 0; i < g->n_ports; i++) n_in += (size_t)g->port[i].is_input;
    for (size_t i = 0; i < g->n_ports; i++) {
        name[i] = g->base.graph->value[g->port[i].value].name;
        g->port[i].at = i < n_in ? i : i - n_in;
    }
    return n_in;
}

static ph_rc open_model(ph_openvino_program *p, ph_err *err) {
    ph_guest    *g = &p->guest;
    const char **name = calloc(g->n_ports + 1, sizeof *name);
    if (!name) return PH_FAIL(err, PH_ENOMEM, "%zu names", g->n_ports);
    size_t                   n_in = list_names(g, name);
    const ph_openvino_source s = {.name = g->base.graph->name,
                                  .bytes = p->given.model,
                                  .n = p->given.n,
                                  .in = name,
                                  .n_in = n_in,
                                  .out = name + n_in,
                                  .n_out = g->n_ports - n_in};
    ph_rc rc = ph_openvino_model_open(&p->model, ((ph_openvino_engine *)g->base.engine)->openvino, &s, err);
    free(name);
    g->is_open = !rc;
    return rc;
}

/* ---- what stands ---- */

/* All that it is given; *made: of these, what is made for it. */
static size_t given_bytes(const ph_onnx_writer *w, size_t *made) {
    size_t n = 0;
    *made = 0;
    for (size_t i = 0; i < w->n_weights; i++) {
        n += w->weight[i].n_bytes;
        if (!w->weight[i].bytes) *made += w->weight[i].n_bytes;
    }
    return n;
}

static size_t growth(size_t before, size_t after) {
    return after > before ? after - before : 0;
}

/* Pages that opening touched and that are neither weights nor the model's: of files its code, others its
 * data, of which there were no more with release 2026.4 on x86-64: the rest is of whoever is at work beside
 * it. */
static size_t library_bytes(const ph_guest *g, const ph_footing *before, const ph_footing *now) {
    enum { DATA_MAX = 8 << 20 };
    size_t weights = g->weights.weights + g->weights.table;
    size_t files = growth(before->mem.rss_file, now->mem.rss_file);
    size_t data = growth(ph_guest_kept(before, now), growth(before->mem.rss_anon, now->mem.rss_anon));
    return (files > weights ? files - weights : 0) + (data < DATA_MAX ? data : DATA_MAX);
}

/* What opening added to the process, as it was measured; before it is opened, what is known to be there. */
static void count_fixed(ph_openvino_program *p, const ph_footing *before) {
    size_t made, known = COPIES * given_bytes(&p->exported.writer, &made) + TABLES_BYTES;
    p->guest.opening = made;
    p->guest.fixed = sizeof *p;
    if (p->model) {
        ph_footing now = ph_guest_footing();
        p->guest.fixed += ph_guest_kept(before, &now);
        ph_openvino_note_code(library_bytes(&p->guest, before, &now));
    } else {
        p->guest.fixed += known;
    }
}

static ph_rc open_with(ph_openvino_program *p, ph_err *err) {
    ph_onnx_exported *x = &p->exported;
    PH_TRY(ph_onnx_write_addressed(&p->given, &x->writer, &x->producer, BY_ADDRESS_ABOVE, err));
    PH_TRY(open_model(p, err));
    if (ph_openvino_copies_weights(((ph_openvino_engine *)p->guest.base.engine)->openvino))
        ph_onnx_memory_close(&p->given);
    malloc_trim(0); /* and what OpenVINO needed while it read the model */
    return PH_OK;
}

static ph_rc build(ph_openvino_program *p, const ph_compile *how, ph_err *err) {
    ph_footing before = ph_guest_footing();
    PH_TRY(ph_guest_export(&p->guest, &p->exported, err));
    if (!how->is_plan_only) PH_TRY(open_with(p, err));
    count_fixed(p, &before);
    return PH_OK;
}

ph_rc ph_openvino_compile(ph_engine *e, const ph_graph *g, const ph_compile *how, ph_program **out,
                          ph_err *err) {
    ph_openvino_program *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p) return PH_FAIL(err, PH_ENOMEM, "a program");
    p->guest.keeps_outputs = 1;
    ph_rc rc = ph_guest_begin(&p->guest, e, g, how, err);
    ph_guest_work_begin(!how->is_plan_only);
    if (!rc) rc = build(p, how, err);
    ph_guest_work_end();
    rc = ph_guest_done(&p->guest, rc, out, err);
    if (rc) ph_openvino_close_program(&p->guest.base);
    return rc;
}

void ph_openvino_close_program(ph_program *program) {
    ph_openvino_program *p = (ph_openvino_program *)program;
    if (!p) return;
    ph_guest_work_begin(0);
    ph_openvino_model_close(p->model); /* before what it may read */
    ph_guest_work_end();
    ph_onnx_memory_close(&p->given);
    ph_onnx_exported_close(&p->exported);
    ph_guest_end(&p->guest);
    free(p);
}
