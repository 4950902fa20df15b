/* onnx_ort.c - whole ONNX models on ONNX Runtime. */
#include "measure/onnx_guest.h"

#include "engine/ort/ort_session.h"

#include <string.h>

static ph_rc open_library(void **library, int threads, ph_err *err) {
    ph_ort *ort;
    PH_TRY(ph_ort_open(&ort, threads, err));
    *library = ort;
    return PH_OK;
}

static void close_library(void *library) {
    ph_ort_close(library);
}

static void describe(void *library, char release[32], size_t *peak) {
    ph_ort_library lib;
    (void)library;
    if (!ph_ort_probe(&lib, NULL)) memcpy(release, lib.release, sizeof lib.release);
    *peak = ph_ort_memory_read().most;
}

/* Providers are asked for at once: one that is not here is said before anything runs. */
static ph_rc open_providers(ph_report *r, char *text, size_t size, ph_err *err) {
    size_t at = 0;
    for (size_t i = 0; i < r->how->n_eps; i++) {
        size_t n = strlen(r->how->ep[i]) + 1;
        if (i == PH_VERIFY_EPS_MAX || n > size - at)
            return PH_FAIL(err, PH_EUSAGE, "--ep: too many providers, or too long");
        memcpy(text + at, r->how->ep[i], n);
        PH_TRY(ph_ort_ep_read(&r->ep[i], text + at, err));
        PH_TRY(ph_ort_ep_check(r->library, &r->ep[i], err));
        r->n_eps = i + 1;
        at += n;
    }
    return PH_OK;
}

static ph_rc load(void **out, ph_report *r, const ph_onnx_case *c, ph_err *err) {
    const ph_ort_model model = {.path = c->path};
    const ph_ort_how   how = {.ep = r->ep, .n_eps = r->n_eps, .is_exact = 1};
    ph_ort_session    *s;
    ph_rc              rc = ph_ort_session_open(&s, r->library, &model, &how, err);
    *out = s;
    return rc;
}

static void unload(void *model) {
    ph_ort_session_close(model);
}

static ph_rc find_input(void *model, const char *name, size_t *at, ph_err *err) {
    int i = ph_ort_find_input(model, name);
    *at = i < 0 ? 0 : (size_t)i;
    return i < 0 ? PH_FAIL(err, PH_EMISMATCH, "the model has no input %s", name) : PH_OK;
}

static ph_rc input(void *model, const char *name, ph_dtype *out, ph_err *err) {
    size_t at;
    PH_TRY(find_input(model, name, &at, err));
    *out = ph_ort_input(model, at)->dtype;
    return PH_OK;
}

static ph_rc give(void *model, const char *name, int rank, const int64_t *dim, void *data, size_t bytes,
                  ph_err *err) {
    size_t at;
    PH_TRY(find_input(model, name, &at, err));
    ph_ort_array a = {.type = ph_ort_input(model, at)->type, .rank = rank, .data = data, .bytes = bytes};
    memcpy(a.dim, dim, sizeof a.dim);
    return ph_ort_bind_input(model, at, &a, err);
}

static ph_rc run(void *model, ph_err *err) {
    return ph_ort_run(model, NULL, err);
}

static size_t n_outputs(const void *model) {
    return ph_ort_n_outputs(model);
}

static int find_output(const void *model, const char *name) {
    return ph_ort_find_output(model, name);
}

static ph_rc output(void *model, size_t i, ph_onnx_result *out, ph_err *err) {
    ph_ort_array a;
    PH_TRY(ph_ort_result(model, i, &a, err));
    const ph_ort_io *io = ph_ort_output(model, i);
    *out = (ph_onnx_result){
        .name = io->name, .dtype = io->dtype, .rank = a.rank, .data = a.data, .bytes = a.bytes};
    memcpy(out->dim, a.dim, sizeof out->dim);
    return PH_OK;
}

const ph_onnx_guest ph_onnx_guest_ort = {
    .name = "ort",
    .what = "ONNX Runtime",
    .elsewhere =
        "ONNX Runtime runs ONNX models, not this kind of case; parts of models with --engine vision=ort",
    .open = open_library,
    .close = close_library,
    .describe = describe,
    .providers = open_providers,
    .load = load,
    .unload = unload,
    .input = input,
    .give = give,
    .run = run,
    .n_outputs = n_outputs,
    .find_output = find_output,
    .output = output,
};
