/* onnx_guest.c - a model of a reference case on a library of others: held to the reference, or the native
 * engine to it. */
#include "measure/onnx_guest.h"

#include <stdio.h>
#include <string.h>

static const ph_onnx_guest *const guests[] = {
#define PH_ONNX_GUEST(name) &ph_onnx_guest_##name,
#include "measure/onnx_guest.def"
#undef PH_ONNX_GUEST
};
enum { N_GUESTS = sizeof guests / sizeof *guests };

const ph_onnx_guest *ph_onnx_guest_find(const char *name) {
    for (size_t i = 0; name && i < N_GUESTS; i++)
        if (!strcmp(guests[i]->name, name)) return guests[i];
    return NULL;
}

const char *ph_onnx_guest_names(char *out, size_t size) {
    size_t n = 0;
    *out = 0;
    for (size_t i = 0; i < N_GUESTS && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? " or " : "", guests[i]->name);
    return out;
}

typedef struct way {
    ph_report           *r;
    const ph_onnx_guest *guest;
    const ph_onnx_case  *c;
    void                *model;
    ph_arena             arena;
} way;

/* Two engines agree within this, of an output's largest number; halves carry their own rounding. */
static double bound_of(ph_dtype t) {
    return t == PH_F16 ? 2e-3 : t == PH_BF16 ? 1.6e-2 : 1e-4;
}

static ph_rc give(way *w, const ph_onnx_io *io, ph_err *err) {
    ph_dtype t = PH_N_DTYPES;
    int64_t  n = ph_onnx_io_count(io);
    void    *data;
    PH_TRY(w->guest->input(w->model, io->name, &t, err));
    if (t == PH_N_DTYPES) return PH_FAIL(err, PH_EUNSUP, "input %s: its type is not taken", io->name);
    PH_TRY(ph_arena_zero(&w->arena, &data, (size_t)n + 1, ph_dtype_bytes(t), err));
    for (int64_t i = 0; i < n; i++) ph_onnx_put(t, data, i, ph_onnx_given_at(io, i));
    return w->guest->give(w->model, io->name, io->rank, io->dim, data, (size_t)n * ph_dtype_bytes(t), err);
}

static ph_rc run(way *w, ph_err *err) {
    for (size_t i = 0; i < w->c->n_in; i++) PH_TRY(give(w, &w->c->in[i], err));
    return w->guest->run(w->model, err);
}

/* ---- against the reference ---- */

static ph_rc compare(way *w, const ph_onnx_io *io, ph_err *err) {
    ph_onnx_result a;
    int            at = w->guest->find_output(w->model, io->name);
    if (at < 0) return PH_FAIL(err, PH_EMISMATCH, "the model has no output %s", io->name);
    PH_TRY(w->guest->output(w->model, (size_t)at, &a, err));
    const ph_onnx_made made = {a.dtype, a.rank, a.dim, a.data};
    ph_onnx_compare(w->r, w->c, io, &made, w->guest->name, "");
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
    ph_onnx_result a;
    void          *p, *bytes;
    PH_TRY(w->guest->output(w->model, i, &a, err));
    PH_TRY(ph_arena_zero(&w->arena, &p, 1, sizeof(ph_weight), err));
    PH_TRY(ph_arena_zero(&w->arena, &bytes, a.bytes + 1, 1, err));
    if (a.bytes) memcpy(bytes, a.data, a.bytes);
    ph_weight *ref = p;
    *ref = (ph_weight){.name = a.name, .dtype = a.dtype, .bytes = bytes, .n_bytes = a.bytes};
    *io = (ph_onnx_io){.name = a.name, .ref = ref, .rank = a.rank, .tolerance = bound_of(a.dtype)};
    memcpy(io->dim, a.dim, sizeof a.dim);
    return PH_OK;
}

static ph_rc against_native(way *w, ph_err *err) {
    char  by[64];
    void *p;
    PH_TRY(run(w, err));
    PH_TRY(ph_arena_zero(&w->arena, &p, 1, sizeof(ph_onnx_case), err));
    ph_onnx_case *both = p;
    *both = *w->c;
    snprintf(by, sizeof by, "native against %s", w->guest->name);
    both->by = by;
    both->is_engine_only = 1;
    both->n_out = w->guest->n_outputs(w->model);
    if (both->n_out > PH_ONNX_IO_MAX) return PH_FAIL(err, PH_ELIMIT, "%zu outputs", both->n_out);
    for (size_t i = 0; i < both->n_out; i++) PH_TRY(take_output(w, i, &both->out[i], err));
    return ph_onnx_run_case(w->r, both, err);
}

/* The first operator of a plug-in that the model holds; NULL: none. */
static ph_rc find_user(const ph_report *r, const char *path, const ph_user **out, ph_err *err) {
    ph_onnx m;
    *out = NULL;
    if (!r->how->user) return PH_OK;
    PH_TRY(ph_onnx_open(&m, path, err));
    for (size_t i = 0; i < m.n_nodes && !*out; i++) {
        const ph_op *op =
            ph_onnx_function_of(&m, &m.node[i])
                ? NULL
                : ph_user_op_find(r->how->user, m.node[i].domain, m.node[i].op, INT64_MAX, NULL);
        if (op) *out = op->user;
    }
    ph_onnx_close(&m);
    return PH_OK;
}

ph_rc ph_onnx_check(ph_report *r, const ph_onnx_case *c, ph_err *err) {
    way            w = {.r = r, .guest = r->guest, .c = c};
    const ph_user *user;
    if (!r->guest) return ph_onnx_run_case(r, c, err);
    PH_TRY(find_user(r, c->path, &user, err));
    if (user) {
        ph_case_skip(
            r, "%s is of plug-in %s: native runs it, %s does not (pinhole registers no operators with it)",
            user->full, user->lib->name, r->guest->what);
        return PH_OK;
    }
    ph_rc rc = ph_arena_open_growing(&w.arena, 64 << 10, err);
    if (!rc) rc = w.guest->load(&w.model, r, c, err);
    if (rc == PH_EUNSUP) { /* what it refuses to open is not its to answer for */
        ph_case_skip(r, "%.300s", err ? err->msg : "it does not open it");
        rc = PH_OK;
    } else if (!rc)
        rc = r->how->against ? against_native(&w, err) : against_reference(&w, err);
    w.guest->unload(w.model);
    ph_arena_close(&w.arena);
    return rc;
}
