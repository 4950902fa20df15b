/* openvino_model.c - a model read, compiled for the processor, and run over the caller's memory.
 *
 * A run is started and waited for: OpenVINO works on threads of its own, the caller sleeps, and where there
 * is a flag it looks at it every millisecond.  Signals stay with the program's threads.
 */
#include "engine/openvino/openvino_model.h"

#include "engine/openvino/openvino_api.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ph_openvino {
    const ph_openvino_api *api;
    openvino_core         *core;
    int                    threads;
};

typedef struct bound {
    char             name[96]; /* for messages */
    openvino_port   *port;
    int              type;   /* as this release numbers it */
    openvino_tensor *tensor; /* the caller's memory; NULL: not bound */
} bound;

struct ph_openvino_model {
    ph_openvino       *o;
    char               name[160];
    openvino_compiled *compiled;
    openvino_request  *request;
    bound             *port; /* [n_in + n_out] */
    size_t             n_in, n_out;
    openvino_tensor   *result; /* the last that was asked for and is not the caller's */
};

ph_rc ph_openvino_open(ph_openvino **out, int threads, ph_err *err) {
    const ph_openvino_api *api;
    *out = NULL;
    PH_TRY(ph_openvino_api_get(&api, err));
    ph_openvino *o = calloc(1, sizeof *o);
    if (!o) return PH_FAIL(err, PH_ENOMEM, "a handle of OpenVINO");
    *o = (ph_openvino){.api = api, .threads = threads < 1 ? 1 : threads};
    ph_rc rc = ph_openvino_take(api, api->ov_core_create(&o->core), "opening it", err);
    if (rc)
        free(o);
    else
        *out = o;
    return rc;
}

void ph_openvino_close(ph_openvino *o) {
    if (!o) return;
    o->api->ov_core_free(o->core);
    free(o);
}

int ph_openvino_copies_weights(const ph_openvino *o) {
    enum { YEAR = 2026, MINOR = 4 }; /* the newest release that was run */
    return o->api->year < YEAR || (o->api->year == YEAR && o->api->minor <= MINOR);
}

/* ---- opening a model ---- */

/* What is the same in every release that is taken: f32 and no rows of bytes, one run at a time, as many
 * threads as there are to be, on any core; of sizes that were seen few are remembered, so that pictures of
 * all sizes leave little behind. */
static ph_rc compile(ph_openvino_model *m, const openvino_read *read, ph_err *err) {
    enum { TEXTS = 14 };
    const ph_openvino_api *api = m->o->api;
    char                   threads[16];
    snprintf(threads, sizeof threads, "%d", m->o->threads);
    return ph_openvino_take(
        api,
        api->ov_core_compile_model(m->o->core, read, "CPU", TEXTS, &m->compiled, "INFERENCE_NUM_THREADS",
                                   threads, "NUM_STREAMS", "1", "INFERENCE_PRECISION_HINT", "f32",
                                   "EXECUTION_MODE_HINT", "ACCURACY", "DYNAMIC_QUANTIZATION_GROUP_SIZE", "0",
                                   "ENABLE_CPU_PINNING", "NO", "CPU_RUNTIME_CACHE_CAPACITY", "16"),
        m->name, err);
}

/* By its name; where a node that does nothing has given it another, by its place. */
static ph_rc open_port(ph_openvino_model *m, int is_output, const char *const *name, size_t i, size_t n,
                       bound *b, ph_err *err) {
    const ph_openvino_api *api = m->o->api;
    size_t                 all = 0;
    snprintf(b->name, sizeof b->name, "%s", name[i]);
    int status = is_output ? api->ov_compiled_model_output_by_name(m->compiled, name[i], &b->port)
                           : api->ov_compiled_model_input_by_name(m->compiled, name[i], &b->port);
    if (status) {
        status = is_output ? api->ov_compiled_model_outputs_size(m->compiled, &all)
                           : api->ov_compiled_model_inputs_size(m->compiled, &all);
        if (status || all != n)
            return PH_FAIL(err, PH_EBUG, "%.100s has no %s %.100s", m->name, is_output ? "output" : "input",
                           name[i]);
        status = is_output ? api->ov_compiled_model_output_by_index(m->compiled, i, &b->port)
                           : api->ov_compiled_model_input_by_index(m->compiled, i, &b->port);
    }
    PH_TRY(ph_openvino_take(api, status, m->name, err));
    return ph_openvino_take(api, api->ov_port_get_element_type(b->port, &b->type), name[i], err);
}

static ph_rc open_ports(ph_openvino_model *m, const ph_openvino_source *s, ph_err *err) {
    m->port = calloc(s->n_in + s->n_out + 1, sizeof *m->port);
    if (!m->port) return PH_FAIL(err, PH_ENOMEM, "%zu inputs and outputs", s->n_in + s->n_out);
    m->n_in = s->n_in;
    m->n_out = s->n_out;
    for (size_t i = 0; i < s->n_in; i++) PH_TRY(open_port(m, 0, s->in, i, s->n_in, &m->port[i], err));
    for (size_t i = 0; i < s->n_out; i++)
        PH_TRY(open_port(m, 1, s->out, i, s->n_out, &m->port[s->n_in + i], err));
    return PH_OK;
}

static ph_rc open_all(ph_openvino_model *m, const ph_openvino_source *s, ph_err *err) {
    const ph_openvino_api *api = m->o->api;
    openvino_read         *read = NULL;
    int                    status = s->bytes
                                        ? api->ov_core_read_model_from_memory_buffer(m->o->core, s->bytes, s->n, NULL, &read)
                                        : api->ov_core_read_model(m->o->core, s->path, NULL, &read);
    ph_rc                  rc = ph_openvino_take(api, status, m->name, err);
    if (!rc) rc = compile(m, read, err);
    if (read) api->ov_model_free(read);
    PH_TRY(rc);
    PH_TRY(open_ports(m, s, err));
    return ph_openvino_take(api, api->ov_compiled_model_create_infer_request(m->compiled, &m->request),
                            m->name, err);
}

ph_rc ph_openvino_model_open(ph_openvino_model **out, ph_openvino *o, const ph_openvino_source *s,
                             ph_err *err) {
    ph_openvino_model *m = calloc(1, sizeof *m);
    sigset_t           all, before;
    *out = NULL;
    if (!m) return PH_FAIL(err, PH_ENOMEM, "a model of OpenVINO");
    m->o = o;
    snprintf(m->name, sizeof m->name, "%s", s->name ? s->name : s->path);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &before); /* threads that it starts do not take the program's signals */
    ph_rc rc = open_all(m, s, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        ph_openvino_model_close(m);
    else
        *out = m;
    return rc;
}

void ph_openvino_model_close(ph_openvino_model *m) {
    if (!m) return;
    const ph_openvino_api *api = m->o->api;
    if (m->result) api->ov_tensor_free(m->result);
    if (m->request) api->ov_infer_request_free(m->request);
    for (size_t i = 0; m->port && i < m->n_in + m->n_out; i++) {
        if (m->port[i].tensor) api->ov_tensor_free(m->port[i].tensor);
        if (m->port[i].port) api->ov_output_const_port_free(m->port[i].port);
    }
    if (m->compiled) api->ov_compiled_model_free(m->compiled);
    free(m->port);
    free(m);
}

/* ---- binding ---- */

ph_rc ph_openvino_bind_input(ph_openvino_model *m, size_t i, const ph_openvino_array *a, ph_err *err) {
    static char            nothing[64]; /* an array without elements still has a place */
    const ph_openvino_api *api = m->o->api;
    int64_t                dim[PH_OPENVINO_RANK_MAX + 1] = {0};
    openvino_tensor       *t = NULL;
    size_t                 bytes = 0;
    if (i >= m->n_in) return PH_FAIL(err, PH_EUSAGE, "%.100s has no input %zu", m->name, i);
    bound *b = &m->port[i];
    if (a->rank < 0 || a->rank > PH_OPENVINO_RANK_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%.100s: rank %d", b->name, a->rank);
    memcpy(dim, a->dim, (size_t)a->rank * sizeof *dim);
    openvino_shape shape = {a->rank, dim};
    PH_TRY(ph_openvino_take(
        api, api->ov_tensor_create_from_host_ptr(b->type, shape, a->data ? a->data : nothing, &t), b->name,
        err));
    ph_rc rc = ph_openvino_take(api, api->ov_tensor_get_byte_size(t, &bytes), b->name, err);
    if (!rc && bytes != a->bytes)
        rc = PH_FAIL(err, PH_EMISMATCH, "%.100s: OpenVINO takes %zu bytes, %zu are given", b->name, bytes,
                     a->bytes);
    if (!rc)
        rc = ph_openvino_take(api, api->ov_infer_request_set_tensor_by_const_port(m->request, b->port, t),
                              b->name, err);
    if (rc) {
        api->ov_tensor_free(t);
        return rc;
    }
    if (b->tensor) api->ov_tensor_free(b->tensor); /* the request holds what it knows by itself */
    b->tensor = t;
    return PH_OK;
}

/* ---- running ---- */

/* Wait, and tell it once when the flag is set. */
static int wait_watching(ph_openvino_model *m, const atomic_int *cancel) {
    const ph_openvino_api *api = m->o->api;
    int                    status, was_told = 0;
    while ((status = api->ov_infer_request_wait_for(m->request, 1)) == PH_OPENVINO_NOT_READY)
        if (!was_told && atomic_load(cancel)) {
            was_told = 1;
            (void)api->ov_infer_request_cancel(m->request); /* what comes of it, the waiting says */
        }
    return status;
}

ph_rc ph_openvino_run(ph_openvino_model *m, const atomic_int *cancel, ph_err *err) {
    const ph_openvino_api *api = m->o->api;
    sigset_t               all, before;
    if (cancel && atomic_load(cancel)) return PH_FAIL(err, PH_ECANCEL, "cancelled");
    for (size_t i = 0; i < m->n_in; i++)
        if (!m->port[i].tensor)
            return PH_FAIL(err, PH_EUSAGE, "%.100s: input %.90s is not bound", m->name, m->port[i].name);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = api->ov_infer_request_start_async(m->request);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    PH_TRY(ph_openvino_take(api, status, m->name, err));
    status = cancel ? wait_watching(m, cancel) : api->ov_infer_request_wait(m->request);
    if (status == PH_OPENVINO_CANCELLED) return PH_FAIL(err, PH_ECANCEL, "cancelled");
    return ph_openvino_take(api, status, m->name, err);
}

/* shape is given back. */
static ph_rc take_shape(ph_openvino_model *m, openvino_shape *shape, const char *name, ph_openvino_array *out,
                        ph_err *err) {
    int64_t rank = shape->rank;
    if (rank >= 0 && rank <= PH_OPENVINO_RANK_MAX) out->rank = (int)rank;
    for (int k = 0; k < out->rank; k++) out->dim[k] = shape->dim[k];
    (void)m->o->api->ov_shape_free(shape);
    return rank == out->rank ? PH_OK : PH_FAIL(err, PH_ELIMIT, "%.100s: rank %lld", name, (long long)rank);
}

ph_rc ph_openvino_result(ph_openvino_model *m, size_t i, ph_openvino_array *out, ph_err *err) {
    const ph_openvino_api *api = m->o->api;
    openvino_shape         shape = {0};
    *out = (ph_openvino_array){0};
    if (i >= m->n_out) return PH_FAIL(err, PH_EUSAGE, "%.100s has no output %zu", m->name, i);
    const bound *b = &m->port[m->n_in + i];
    if (m->result) api->ov_tensor_free(m->result);
    m->result = NULL;
    PH_TRY(ph_openvino_take(
        api, api->ov_infer_request_get_tensor_by_const_port(m->request, b->port, &m->result), b->name, err));
    int status = api->ov_tensor_get_shape(m->result, &shape);
    if (status != PH_OPENVINO_BAD_CALL) { /* which it says of a scalar: nothing to list */
        PH_TRY(ph_openvino_take(api, status, b->name, err));
        PH_TRY(take_shape(m, &shape, b->name, out, err));
    }
    PH_TRY(ph_openvino_take(api, api->ov_tensor_get_byte_size(m->result, &out->bytes), b->name, err));
    return ph_openvino_take(api, api->ov_tensor_data(m->result, &out->data), b->name, err);
}

ph_rc ph_openvino_property(const ph_openvino_model *m, const char *key, char *out, size_t size, ph_err *err) {
    const ph_openvino_api *api = m->o->api;
    char                  *text = NULL;
    PH_TRY(ph_openvino_take(api, api->ov_compiled_model_get_property(m->compiled, key, &text), key, err));
    snprintf(out, size, "%s", text ? text : "");
    api->ov_free(text);
    return PH_OK;
}
