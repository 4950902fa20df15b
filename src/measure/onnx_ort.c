/* onnx_ort.c - a model of a reference case on ONNX Runtime: held to the reference, or the native engine to
 * it. */
#include "measure/onnx_run.h"

#include "engine/ort/ort_session.h"

#include <string.h>

typedef struct way {
    ph_report          *r;
    const ph_onnx_case *c;
    ph_ort_session     *s;
    ph_arena            arena;
} way;

/* Two engines agree within this, of an output's largest number; halves carry their own rounding. */
static double bound_of(ph_dtype t) {
    return t == PH_F16 ? 2e-3 : t == PH_BF16 ? 1.6e-2 : 1e-4;
}

static ph_rc open_session(way *w, ph_err *err) {
    const ph_ort_model model = {.path = w->c->path};
    const ph_ort_how   how = {.ep = w->r->ep, .n_eps = w->r->n_eps, .is_exact = 1};
    PH_TRY(ph_arena_open_growing(&w->arena, 64 << 10, err));
    return ph_ort_session_open(&w->s, w->r->ort, &model, &how, err);
}

static ph_rc bind_input(way *w, const ph_onnx_io *io, ph_err *err) {
    int at = ph_ort_find_input(w->s, io->name);
    if (at < 0) return PH_FAIL(err, PH_EMISMATCH, "the model has no input %s", io->name);
    const ph_ort_io *in = ph_ort_input(w->s, (size_t)at);
    ph_ort_array     a = {.type = in->type, .rank = io->rank};
    int64_t          n = ph_onnx_io_count(io);
    if (in->dtype == PH_N_DTYPES) return PH_FAIL(err, PH_EUNSUP, "input %s: its type is not taken", io->name);
    memcpy(a.dim, io->dim, sizeof a.dim);
    PH_TRY(ph_arena_zero(&w->arena, &a.data, (size_t)n + 1, ph_dtype_bytes(in->dtype), err));
    for (int64_t i = 0; i < n; i++) ph_onnx_put(in->dtype, a.data, i, ph_onnx_given_at(io, i));
    a.bytes = (size_t)n * ph_dtype_bytes(in->dtype);
    return ph_ort_bind_input(w->s, (size_t)at, &a, err);
}

static ph_rc run(way *w, ph_err *err) {
    for (size_t i = 0; i < w->c->n_in; i++) PH_TRY(bind_input(w, &w->c->in[i], err));
    return ph_ort_run(w->s, NULL, err);
}

/* ---- against the reference ---- */

static ph_rc compare(way *w, const ph_onnx_io *io, ph_err *err) {
    ph_ort_array a;
    int          at = ph_ort_find_output(w->s, io->name);
    if (at < 0) return PH_FAIL(err, PH_EMISMATCH, "the model has no output %s", io->name);
    PH_TRY(ph_ort_result(w->s, (size_t)at, &a, err));
    const ph_onnx_made made = {ph_ort_output(w->s, (size_t)at)->dtype, a.rank, a.dim, a.data};
    ph_onnx_compare(w->r, w->c, io, &made, "ort", "");
    return PH_OK;
}

static ph_rc against_reference(way *w, ph_err *err) {
    PH_TRY(run(w, err));
    for (size_t i = 0; i < w->c->n_out; i++) PH_TRY(compare(w, &w->c->out[i], err));
    return PH_OK;
}

/* ---- the native engine against it ---- */

/* What it made of output i becomes the reference. */
static ph_rc take_output(way *w, size_t i, ph_onnx_io *io, ph_err *err) {
    const ph_ort_io *out = ph_ort_output(w->s, i);
    ph_ort_array     a;
    void            *p;
    PH_TRY(ph_ort_result(w->s, i, &a, err));
    PH_TRY(ph_arena_zero(&w->arena, &p, 1, sizeof(ph_weight), err));
    ph_weight *ref = p;
    *ref = (ph_weight){.name = out->name, .dtype = out->dtype, .bytes = a.data, .n_bytes = a.bytes};
    *io = (ph_onnx_io){.name = out->name, .ref = ref, .rank = a.rank, .tolerance = bound_of(out->dtype)};
    memcpy(io->dim, a.dim, sizeof a.dim);
    return PH_OK;
}

static ph_rc against_native(way *w, ph_err *err) {
    void *p;
    PH_TRY(run(w, err));
    PH_TRY(ph_arena_zero(&w->arena, &p, 1, sizeof(ph_onnx_case), err));
    ph_onnx_case *both = p;
    *both = *w->c;
    both->by = "native against ort";
    both->is_engine_only = 1;
    both->n_out = ph_ort_n_outputs(w->s);
    if (both->n_out > PH_ONNX_IO_MAX) return PH_FAIL(err, PH_ELIMIT, "%zu outputs", both->n_out);
    for (size_t i = 0; i < both->n_out; i++) PH_TRY(take_output(w, i, &both->out[i], err));
    return ph_onnx_run_case(w->r, both, err);
}

ph_rc ph_onnx_check(ph_report *r, const ph_onnx_case *c, ph_err *err) {
    way w = {.r = r, .c = c};
    if (!r->ort) return ph_onnx_run_case(r, c, err);
    ph_rc rc = open_session(&w, err);
    if (rc == PH_EUNSUP) { /* what it refuses to open is not its to answer for */
        ph_case_skip(r, "%.300s", err ? err->msg : "ONNX Runtime does not open it");
        rc = PH_OK;
    } else if (!rc)
        rc = r->how->against ? against_native(&w, err) : against_reference(&w, err);
    ph_ort_session_close(w.s);
    ph_arena_close(&w.arena);
    return rc;
}
