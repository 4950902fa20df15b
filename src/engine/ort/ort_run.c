/* ort_run.c - memory of the caller bound to a session, runs, results. */
#include "engine/ort/ort_session_impl.h"

#include "formats/onnx.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- binding ---- */

static ph_rc check(const ph_ort_session *s, const ph_ort_io *io, const ph_ort_array *a, ph_err *err) {
    if (!io->type || io->dtype == PH_N_DTYPES)
        return PH_FAIL(err, PH_EUNSUP, "%.100s: %.100s holds %s, which is not taken", s->name, io->name,
                       io->type ? ph_onnx_type_name(io->type) : "no tensor");
    if (a->type && a->type != io->type)
        return PH_FAIL(err, PH_EMISMATCH, "%.100s: %.60s is %s, not %s", s->name, io->name,
                       ph_onnx_type_name(io->type), ph_onnx_type_name(a->type));
    return PH_OK;
}

static ph_rc bind(ph_ort_session *s, ph_ort_bound *b, const ph_ort_array *a, ph_err *err) {
    ort_value   *value = NULL;
    ph_ort_array typed = *a;
    PH_TRY(check(s, &b->io, a, err));
    typed.type = b->io.type;
    PH_TRY(ph_ort_value_of(s->ort, &typed, b->io.name, &value, err));
    s->ort->api->ReleaseValue(b->value); /* the binding holds what it knows by itself */
    b->value = value;
    return PH_OK;
}

ph_rc ph_ort_bind_input(ph_ort_session *s, size_t i, const ph_ort_array *a, ph_err *err) {
    const ph_ort_api *api = s->ort->api;
    if (i >= s->n_in) return PH_FAIL(err, PH_EUSAGE, "%.100s has no input %zu", s->name, i);
    PH_TRY(bind(s, &s->in[i], a, err));
    s->in[i].is_set = 1;
    return ph_ort_take(api, api->BindInput(s->binding, s->in[i].io.name, s->in[i].value), s->in[i].io.name,
                       err);
}

ph_rc ph_ort_bind_output(ph_ort_session *s, size_t o, const ph_ort_array *a, ph_err *err) {
    const ph_ort_api *api = s->ort->api;
    if (o >= s->n_out) return PH_FAIL(err, PH_EUSAGE, "%.100s has no output %zu", s->name, o);
    ph_ort_bound *b = &s->out[o];
    ph_ort_drop_results(s);
    if (!b->is_set) b->order = s->n_set++;
    b->is_set = 1;
    if (a && a->data) {
        PH_TRY(bind(s, b, a, err));
        return ph_ort_take(api, api->BindOutput(s->binding, b->io.name, b->value), b->io.name, err);
    }
    api->ReleaseValue(b->value);
    b->value = NULL;
    return ph_ort_take(api, api->BindOutputToDevice(s->binding, b->io.name, s->ort->cpu), b->io.name, err);
}

/* ---- running ---- */

static ph_rc prepare(ph_ort_session *s, const atomic_int *cancel, ph_err *err) {
    if (cancel && atomic_load(cancel)) return PH_FAIL(err, PH_ECANCEL, "cancelled");
    for (size_t i = 0; i < s->n_in; i++)
        if (!s->in[i].is_set)
            return PH_FAIL(err, PH_EUSAGE, "%.100s: input %.100s is not bound", s->name, s->in[i].io.name);
    for (size_t i = 0; i < s->n_out; i++)
        if (!s->out[i].is_set) PH_TRY(ph_ort_bind_output(s, i, NULL, err));
    ph_ort_drop_results(s);
    if (cancel && !s->watch) return ph_ort_watch_open(&s->watch, s->ort->api, s->run_options, err);
    return PH_OK;
}

ph_rc ph_ort_run(ph_ort_session *s, const atomic_int *cancel, ph_err *err) {
    const ph_ort_api *api = s->ort->api;
    int               was_told = 0;
    PH_TRY(prepare(s, cancel, err));
    PH_TRY(ph_ort_take(api, api->RunOptionsUnsetTerminate(s->run_options), s->name, err));
    uint64_t refused = ph_ort_memory_read().refused;
    if (cancel) ph_ort_watch_begin(s->watch, cancel);
    ort_status *status = api->RunWithBinding(s->session, s->run_options, s->binding);
    if (cancel) was_told = ph_ort_watch_end(s->watch);
    ph_rc rc = ph_ort_take(api, status, s->name, err);
    if (rc && was_told) return PH_FAIL(err, PH_ECANCEL, "cancelled");
    if (rc && ph_ort_memory_read().refused != refused)
        return PH_FAIL(err, PH_ENOMEM, "running %.100s", s->name);
    s->has_run = !rc;
    return rc;
}

/* ---- results ---- */

void ph_ort_drop_results(ph_ort_session *s) {
    for (size_t i = 0; s->result && i < s->n_results; i++) s->ort->api->ReleaseValue(s->result[i]);
    if (s->result)
        (void)ph_ort_take(s->ort->api, s->ort->api->AllocatorFree(s->result_allocator, s->result), s->name,
                          NULL);
    s->result = NULL;
    s->n_results = 0;
    s->has_run = 0;
}

static ph_rc take_results(ph_ort_session *s, ph_err *err) {
    const ph_ort_api *api = s->ort->api;
    if (s->result) return PH_OK;
    PH_TRY(ph_ort_take(api, api->GetAllocatorWithDefaultOptions(&s->result_allocator), s->name, err));
    return ph_ort_take(api,
                       api->GetBoundOutputValues(s->binding, s->result_allocator, &s->result, &s->n_results),
                       s->name, err);
}

static ph_rc read_value(ph_ort_session *s, const ph_ort_io *io, ort_value *value, ph_ort_array *out,
                        ph_err *err) {
    const ph_ort_api *api = s->ort->api;
    ort_shape        *shape = NULL;
    size_t            rank = 0;
    int               is_tensor = 0;
    PH_TRY(ph_ort_take(api, api->IsTensor(value, &is_tensor), io->name, err));
    PH_TRY(check(s, io, out, err));
    if (!is_tensor) return PH_FAIL(err, PH_EUNSUP, "%.100s: output %.100s is no tensor", s->name, io->name);
    PH_TRY(ph_ort_take(api, api->GetTensorTypeAndShape(value, &shape), io->name, err));
    ph_rc rc = ph_ort_take(api, api->GetTensorElementType(shape, &out->type), io->name, err);
    if (!rc) rc = ph_ort_take(api, api->GetDimensionsCount(shape, &rank), io->name, err);
    if (!rc && rank > PH_ORT_RANK_MAX) rc = PH_FAIL(err, PH_ELIMIT, "%.100s: rank %zu", io->name, rank);
    if (!rc && rank) rc = ph_ort_take(api, api->GetDimensions(shape, out->dim, rank), io->name, err);
    api->ReleaseTensorTypeAndShapeInfo(shape);
    if (!rc) rc = ph_ort_take(api, api->GetTensorMutableData(value, &out->data), io->name, err);
    out->rank = (int)rank;
    out->bytes = ph_ort_bytes_of(out->type, out->rank, out->dim);
    return rc;
}

/* The binding's outputs stand in the order in which they were bound first. */
ph_rc ph_ort_result(ph_ort_session *s, size_t o, ph_ort_array *out, ph_err *err) {
    *out = (ph_ort_array){0};
    if (o >= s->n_out) return PH_FAIL(err, PH_EUSAGE, "%.100s has no output %zu", s->name, o);
    if (!s->has_run)
        return PH_FAIL(err, PH_EUSAGE, "%.100s: output %.100s before a run", s->name, s->out[o].io.name);
    if (s->out[o].value) return read_value(s, &s->out[o].io, s->out[o].value, out, err);
    PH_TRY(take_results(s, err));
    if (s->out[o].order >= s->n_results)
        return PH_FAIL(err, PH_EBUG, "%.100s: no output %.100s", s->name, s->out[o].io.name);
    return read_value(s, &s->out[o].io, s->result[s->out[o].order], out, err);
}
