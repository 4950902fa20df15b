/* ort_compile.c - a graph becomes a session: written as ONNX in memory, its weights shared with the map.
 *
 * f32, bytes by channel and n-bit blocks are read where they lie.  Halves and types without a form in ONNX
 * become f32 once, blocks of GGUF become the planes of DequantizeLinear once: memory of ours, counted as the
 * engine's.  ORT packs no weight for speed: that would be a second copy, for rows that are many anyway.
 */
#include "engine/ort/ort_engine.h"

#include "base/mem.h"
#include "formats/onnx.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARED_ABOVE = 1024, /* bytes; smaller weights are in the model, which ORT copies */
    /* The least that a session's tables and its threads' heaps take: as found with release 1.32 on x86-64. */
    TABLES_BYTES = 1 << 20,
};

/* ---- weights ---- */

static size_t item_of(int type) {
    ph_dtype t = ph_onnx_dtype(type);
    return t == PH_N_DTYPES ? 1 : ph_dtype_bytes(t);
}

/* Memory that the session reads for as long as it stands becomes the program's. */
static void *keep(ph_ort_program *p, void *bytes) {
    p->made[p->n_made++] = bytes;
    return bytes;
}

/* Where runs read weight s: where it lies, unless it is made for this or lies askew. */
static ph_rc place_weight(ph_ort_program *p, ph_onnx_shared *s, ph_ort_weight *out, ph_err *err) {
    const ph_onnx_stored *w = s->weight;
    void                 *data;
    memcpy(&data, &s->bytes, sizeof data);
    if (s->is_owned) {
        s->is_owned = 0;
        keep(p, data);
    } else if ((uintptr_t)data % item_of(w->type)) {
        void *copy = malloc(w->n_bytes);
        if (!copy) return PH_FAIL(err, PH_ENOMEM, "%zu bytes of weight %.100s", w->n_bytes, w->name);
        data = memcpy(keep(p, copy), data, w->n_bytes);
    }
    *out = (ph_ort_weight){w->name, {.type = w->type, .rank = w->rank, .data = data, .bytes = w->n_bytes}};
    if (w->rank > PH_ORT_RANK_MAX) return PH_FAIL(err, PH_ELIMIT, "weight %.100s: rank %d", w->name, w->rank);
    for (int i = 0; i < w->rank; i++) out->array.dim[i] = w->dim[i];
    return PH_OK;
}

static ph_rc open_session(ph_ort_program *p, ph_onnx_memory *m, ph_ort_weight *weight, ph_err *err) {
    for (size_t i = 0; i < m->n_shared; i++) PH_TRY(place_weight(p, &m->shared[i], &weight[i], err));
    const ph_ort_model   model = {.name = p->guest.base.graph->name,
                                  .bytes = m->model,
                                  .n = m->n,
                                  .weight = weight,
                                  .n_weights = m->n_shared};
    const ph_engine_env *env = &p->guest.base.engine->env;
    const ph_ort_how     how = {.ep = &ph_ort_engine_of(&p->guest.base)->ep,
                                .n_eps = ph_ort_engine_of(&p->guest.base)->ep.name != NULL,
                                .is_lean = 1,
                                .is_exact = env->is_exact,
                                .trace = env->is_profiled ? env->trace : NULL};
    return ph_ort_session_open(&p->session, ph_ort_engine_of(&p->guest.base)->ort, &model, &how, err);
}

static ph_rc open_with(ph_ort_program *p, ph_onnx_exported *x, ph_err *err) {
    ph_onnx_memory m;
    PH_TRY(ph_onnx_write_memory(&m, &x->writer, &x->producer, SHARED_ABOVE, err));
    ph_ort_weight *weight = calloc(m.n_shared + 1, sizeof *weight);
    p->made = calloc(m.n_shared + 1, sizeof *p->made);
    ph_rc rc = weight && p->made ? PH_OK : PH_FAIL(err, PH_ENOMEM, "%zu weights", m.n_shared);
    if (!rc) rc = open_session(p, &m, weight, err);
    free(weight);
    ph_onnx_memory_close(&m);
    return rc;
}

static ph_rc find_ports(ph_ort_program *p, ph_err *err) {
    for (size_t i = 0; i < p->guest.n_ports; i++) {
        ph_port    *port = &p->guest.port[i];
        const char *name = p->guest.base.graph->value[port->value].name;
        int at = port->is_input ? ph_ort_find_input(p->session, name) : ph_ort_find_output(p->session, name);
        if (at < 0) return PH_FAIL(err, PH_EBUG, "the session has no value %.100s", name);
        port->at = (size_t)at;
    }
    return PH_OK;
}

/* ---- what stands ---- */

/* Bytes of weights that are made for ORT, and of those that are in the model, which it copies; *all: of all
 * that it is given, which it copies for as long as it opens. */
static size_t made_bytes(const ph_onnx_writer *w, size_t *all) {
    size_t n = 0;
    *all = 0;
    for (size_t i = 0; i < w->n_weights; i++) {
        *all += w->weight[i].n_bytes;
        if (!w->weight[i].bytes || w->weight[i].n_bytes <= SHARED_ABOVE) n += w->weight[i].n_bytes;
    }
    return n;
}

/* What opening added to the process beside pages of files, and what is known to be there at least. */
static void count_fixed(ph_ort_program *p, const ph_onnx_exported *x, const ph_footing *before) {
    size_t     known = made_bytes(&x->writer, &p->guest.opening) + TABLES_BYTES;
    ph_footing now = ph_guest_footing();
    size_t     kept = ph_guest_kept(before, &now);
    if (p->session && kept > known) known = kept;
    p->guest.fixed = known + sizeof *p;
}

static ph_rc build(ph_ort_program *p, const ph_compile *how, ph_err *err) {
    ph_onnx_exported x;
    ph_footing       before = ph_guest_footing();
    PH_TRY(ph_guest_export(&p->guest, &x, err));
    ph_rc rc = how->is_plan_only ? PH_OK : open_with(p, &x, err);
    if (!rc && p->session) rc = find_ports(p, err);
    p->guest.is_open = !rc && p->session;
    if (!rc && p->session) malloc_trim(0); /* what ORT needed while it read the model */
    if (!rc) count_fixed(p, &x, &before);
    ph_onnx_exported_close(&x);
    return rc;
}

ph_rc ph_ort_compile(ph_engine *e, const ph_graph *g, const ph_compile *how, ph_program **out, ph_err *err) {
    ph_ort_program *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p) return PH_FAIL(err, PH_ENOMEM, "a program");
    ph_rc rc = ph_guest_begin(&p->guest, e, g, how, err);
    ph_guest_work_begin(!how->is_plan_only);
    if (!rc) rc = build(p, how, err);
    ph_guest_work_end();
    rc = ph_guest_done(&p->guest, rc, out, err);
    if (rc) ph_ort_close_program(&p->guest.base);
    return rc;
}

void ph_ort_close_program(ph_program *program) {
    ph_ort_program *p = (ph_ort_program *)program;
    if (!p) return;
    ph_guest_work_begin(0);
    ph_ort_session_close(p->session); /* before the weights that it reads */
    ph_guest_work_end();
    for (size_t i = 0; i < p->n_made; i++) free(p->made[i]);
    free(p->made);
    ph_guest_end(&p->guest);
    free(p);
}
