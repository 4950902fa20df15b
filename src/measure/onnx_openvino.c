/* onnx_openvino.c - whole ONNX models on OpenVINO.
 *
 * What a model takes and gives is read by our own reader, which also sees that its data lies in its folder.
 * OpenVINO takes addresses of this process from models that ask for that (onnx_write.h): a file that does is
 * refused.
 */
#include "measure/onnx_guest.h"

#include "engine/openvino/openvino_model.h"
#include "formats/onnx.h"

#include <stdlib.h>
#include <string.h>

typedef struct model {
    ph_onnx            onnx;
    ph_openvino_model *opened;
    size_t             n_in, n_out;
    const char        *in[PH_ONNX_IO_MAX], *out[PH_ONNX_IO_MAX];
    ph_dtype           in_type[PH_ONNX_IO_MAX], out_type[PH_ONNX_IO_MAX];
} model;

static ph_rc open_library(void **library, int threads, ph_err *err) {
    ph_openvino *o;
    PH_TRY(ph_openvino_open(&o, threads, err));
    *library = o;
    return PH_OK;
}

static void close_library(void *library) {
    ph_openvino_close(library);
}

static void describe(void *library, char release[32], size_t *peak) {
    ph_openvino_library lib;
    (void)library;
    if (!ph_openvino_probe(&lib, NULL)) memcpy(release, lib.release, sizeof lib.release);
    *peak = 0;
}

/* ---- a model ---- */

static ph_rc list(const ph_onnx *o, const ph_onnx_value *v, size_t n, const char **name, ph_dtype *type,
                  size_t *n_out, ph_err *err) {
    *n_out = 0;
    for (size_t i = 0; i < n; i++) {
        if (ph_onnx_is_initializer(o, v[i].name)) continue; /* of an input, a default */
        if (*n_out == PH_ONNX_IO_MAX) return PH_FAIL(err, PH_ELIMIT, "more than %d inputs", PH_ONNX_IO_MAX);
        name[*n_out] = v[i].name;
        type[(*n_out)++] = ph_onnx_dtype(v[i].type);
    }
    return PH_OK;
}

static ph_rc check_addresses(const ph_onnx *o, const char *path, ph_err *err) {
    static const char mark[] = "_ORT_MEM_ADDR_";
    if (!o->file.n || !memmem(o->file.bytes, o->file.n, mark, sizeof mark - 1)) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT,
                   "%.160s: names %s: a file may not say where in this process its weights lie", path, mark);
}

static ph_rc load_model(model *m, ph_report *r, const ph_onnx_case *c, ph_err *err) {
    PH_TRY(ph_onnx_open(&m->onnx, c->path, err));
    PH_TRY(check_addresses(&m->onnx, c->path, err));
    PH_TRY(list(&m->onnx, m->onnx.input, m->onnx.n_inputs, m->in, m->in_type, &m->n_in, err));
    PH_TRY(list(&m->onnx, m->onnx.output, m->onnx.n_outputs, m->out, m->out_type, &m->n_out, err));
    const ph_openvino_source s = {
        .path = c->path, .in = m->in, .n_in = m->n_in, .out = m->out, .n_out = m->n_out};
    return ph_openvino_model_open(&m->opened, r->library, &s, err);
}

static void unload(void *at) {
    model *m = at;
    if (!m) return;
    ph_openvino_model_close(m->opened);
    ph_onnx_close(&m->onnx);
    free(m);
}

static ph_rc load(void **out, ph_report *r, const ph_onnx_case *c, ph_err *err) {
    model *m = calloc(1, sizeof *m);
    *out = m;
    return m ? load_model(m, r, c, err) : PH_FAIL(err, PH_ENOMEM, "a model's tables");
}

static int find(const char *const *list, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], name)) return (int)i;
    return -1;
}

static ph_rc find_input(const model *m, const char *name, size_t *at, ph_err *err) {
    int i = find(m->in, m->n_in, name);
    *at = i < 0 ? 0 : (size_t)i;
    return i < 0 ? PH_FAIL(err, PH_EMISMATCH, "the model has no input %s", name) : PH_OK;
}

static ph_rc input(void *at, const char *name, ph_dtype *out, ph_err *err) {
    const model *m = at;
    size_t       i;
    PH_TRY(find_input(m, name, &i, err));
    *out = m->in_type[i];
    return PH_OK;
}

static ph_rc give(void *at, const char *name, int rank, const int64_t *dim, void *data, size_t bytes,
                  ph_err *err) {
    const model      *m = at;
    ph_openvino_array a = {.rank = rank, .data = data, .bytes = bytes};
    size_t            i;
    PH_TRY(find_input(m, name, &i, err));
    memcpy(a.dim, dim, sizeof a.dim);
    return ph_openvino_bind_input(m->opened, i, &a, err);
}

static ph_rc run(void *at, ph_err *err) {
    return ph_openvino_run(((const model *)at)->opened, NULL, err);
}

static size_t n_outputs(const void *at) {
    return ((const model *)at)->n_out;
}

static int find_output(const void *at, const char *name) {
    const model *m = at;
    return find(m->out, m->n_out, name);
}

static ph_rc output(void *at, size_t i, ph_onnx_result *out, ph_err *err) {
    const model      *m = at;
    ph_openvino_array a;
    if (m->out_type[i] == PH_N_DTYPES)
        return PH_FAIL(err, PH_EUNSUP, "output %.100s: its type is not taken", m->out[i]);
    PH_TRY(ph_openvino_result(m->opened, i, &a, err));
    *out = (ph_onnx_result){
        .name = m->out[i], .dtype = m->out_type[i], .rank = a.rank, .data = a.data, .bytes = a.bytes};
    memcpy(out->dim, a.dim, sizeof out->dim);
    return PH_OK;
}

const ph_onnx_guest ph_onnx_guest_openvino = {
    .name = "openvino",
    .what = "OpenVINO",
    .elsewhere =
        "OpenVINO runs ONNX models, not this kind of case; parts of models with --engine vision=openvino",
    .open = open_library,
    .close = close_library,
    .describe = describe,
    .load = load,
    .unload = unload,
    .input = input,
    .give = give,
    .run = run,
    .n_outputs = n_outputs,
    .find_output = find_output,
    .output = output,
};
