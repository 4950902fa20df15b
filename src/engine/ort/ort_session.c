/* ort_session.c - opening a model: options, initializers, what it takes and gives. */
#include "engine/ort/ort_session_impl.h"

#include "formats/onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

static ph_rc entry(ph_ort *o, ort_options *options, const char *key, const char *value, ph_err *err) {
    return ph_ort_take(o->api, o->api->AddSessionConfigEntry(options, key, value), key, err);
}

/* One budget of threads: the environment's pool, or as many of the session's own; none spins. */
static ph_rc set_threads(ph_ort *o, ort_options *options, ph_err *err) {
    static const char doing[] = "setting up threads";
    if (o->has_pool) return ph_ort_take(o->api, o->api->DisablePerSessionThreads(options), doing, err);
    PH_TRY(ph_ort_take(o->api, o->api->SetIntraOpNumThreads(options, o->threads), doing, err));
    PH_TRY(ph_ort_take(o->api, o->api->SetInterOpNumThreads(options, 1), doing, err));
    return entry(o, options, "session.intra_op.allow_spinning", "0", err);
}

/* Memory is ours: no arena that keeps what it once had, no pattern kept a shape. */
static ph_rc set_memory(ph_ort *o, ort_options *options, const ph_ort_how *how, ph_err *err) {
    PH_TRY(ph_ort_take(o->api, o->api->DisableCpuMemArena(options), "setting up memory", err));
    PH_TRY(ph_ort_take(o->api, o->api->DisableMemPattern(options), "setting up memory", err));
    PH_TRY(entry(o, options, "session.use_env_allocators", "1", err));
    PH_TRY(entry(o, options, "session.use_device_allocator_for_initializers", "1", err));
    return how->is_lean ? entry(o, options, "session.disable_prepacking", "1", err) : PH_OK;
}

static ph_rc set_options(ph_ort *o, ort_options *options, const ph_ort_how *how, ph_err *err) {
    PH_TRY(set_threads(o, options, err));
    PH_TRY(set_memory(o, options, how, err));
    if (how->is_exact) PH_TRY(entry(o, options, "session.qdq_matmulnbits_accuracy_level", "1", err));
    if (how->is_plain)
        PH_TRY(ph_ort_take(o->api, o->api->SetSessionGraphOptimizationLevel(options, 0), "setting options",
                           err));
    for (size_t i = 0; i < how->n_entries; i++) PH_TRY(entry(o, options, how->key[i], how->value[i], err));
    for (size_t i = 0; i < how->n_eps; i++) PH_TRY(ph_ort_ep_append(o, options, &how->ep[i], err));
    return PH_OK;
}

/* ---- initializers ---- */

size_t ph_ort_bytes_of(int type, int rank, const int64_t *dim) {
    ph_dtype t = ph_onnx_dtype(type);
    size_t   n = t == PH_N_DTYPES ? 0 : ph_dtype_bytes(t);
    int      is_nibbles = type == PH_ONNX_INT4 || type == PH_ONNX_UINT4;
    for (int i = 0; i < rank; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(n, (size_t)dim[i], &n)) return SIZE_MAX;
    return is_nibbles ? n / 2 + n % 2 : n;
}

ph_rc ph_ort_value_of(const ph_ort *o, const ph_ort_array *a, const char *name, ort_value **out,
                      ph_err *err) {
    static char nothing[64]; /* an array without elements still has a place */
    if (a->rank < 0 || a->rank > PH_ORT_RANK_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%.100s: rank %d", name, a->rank);
    size_t n = ph_ort_bytes_of(a->type, a->rank, a->dim);
    if (n > a->bytes)
        return PH_FAIL(err, PH_EMISMATCH, "%.100s: its shape takes more than its %zu bytes", name, a->bytes);
    return ph_ort_take(o->api,
                       o->api->CreateTensorWithDataAsOrtValue(o->cpu, a->data ? a->data : nothing, n, a->dim,
                                                              (size_t)a->rank, a->type, out),
                       name, err);
}

/* From here on, runs read this initializer where it lies.  The value stands as long as the session: it keeps
 * its place. */
static ph_rc share_weight(ph_ort_session *s, ort_options *options, const ph_ort_weight *w, ph_err *err) {
    ort_value *value = NULL;
    PH_TRY(ph_ort_value_of(s->ort, &w->array, w->name, &value, err));
    s->weight[s->n_weights++] = value;
    return ph_ort_take(s->ort->api, s->ort->api->AddInitializer(options, w->name, value), w->name, err);
}

/* While it optimises, ORT wants the numbers of external data to be somewhere: in the files of a folder, or
 * handed over, which copies them for as long as it takes. */
static ph_rc complete_graph(ph_ort_session *s, ort_options *options, const ph_ort_model *m, ph_err *err) {
    if (m->folder)
        return entry(s->ort, options, "session.model_external_initializers_file_folder_path", m->folder, err);
    if (!m->n_weights || !m->bytes) return PH_OK;
    const char **name = calloc(m->n_weights, sizeof *name);
    if (!name) return PH_FAIL(err, PH_ENOMEM, "%zu initializers", m->n_weights);
    for (size_t i = 0; i < m->n_weights; i++) name[i] = m->weight[i].name;
    ph_rc rc = ph_ort_take(s->ort->api,
                           s->ort->api->AddExternalInitializers(
                               options, name, (const ort_value *const *)s->weight, m->n_weights),
                           "handing over initializers", err);
    free(name);
    return rc;
}

static ph_rc set_weights(ph_ort_session *s, ort_options *options, const ph_ort_model *m, ph_err *err) {
    s->weight = calloc(m->n_weights + 1, sizeof(ort_value *));
    if (!s->weight) return PH_FAIL(err, PH_ENOMEM, "%zu initializers", m->n_weights);
    for (size_t i = 0; i < m->n_weights; i++) PH_TRY(share_weight(s, options, &m->weight[i], err));
    return complete_graph(s, options, m, err);
}

/* ---- what it takes and gives ---- */

static ph_rc read_axes(const ph_ort_api *api, const ort_shape *shape, ph_ort_io *io, ph_err *err) {
    const char *axis[PH_ORT_RANK_MAX] = {0};
    size_t      rank = 0;
    PH_TRY(ph_ort_take(api, api->GetTensorElementType(shape, &io->type), io->name, err));
    PH_TRY(ph_ort_take(api, api->GetDimensionsCount(shape, &rank), io->name, err));
    if (rank > PH_ORT_RANK_MAX) return PH_FAIL(err, PH_ELIMIT, "%.100s: rank %zu", io->name, rank);
    io->rank = (int)rank;
    io->dtype = ph_onnx_dtype(io->type);
    if (!rank) return PH_OK;
    PH_TRY(ph_ort_take(api, api->GetDimensions(shape, io->dim, rank), io->name, err));
    PH_TRY(ph_ort_take(api, api->GetSymbolicDimensions(shape, axis, rank), io->name, err));
    for (size_t i = 0; i < rank; i++) snprintf(io->axis[i], sizeof io->axis[i], "%s", axis[i] ? axis[i] : "");
    return PH_OK;
}

static ph_rc read_io(ph_ort_session *s, int is_output, size_t i, ph_ort_io *io, ph_err *err) {
    const ph_ort_api *api = s->ort->api;
    const ort_shape  *shape = NULL;
    ort_allocator    *allocator;
    ort_type         *type = NULL;
    char             *name = NULL;
    *io = (ph_ort_io){.dtype = PH_N_DTYPES};
    PH_TRY(ph_ort_take(api, api->GetAllocatorWithDefaultOptions(&allocator), s->name, err));
    PH_TRY(ph_ort_take(api,
                       is_output ? api->SessionGetOutputName(s->session, i, allocator, &name)
                                 : api->SessionGetInputName(s->session, i, allocator, &name),
                       s->name, err));
    size_t n = strlen(name);
    if (n < sizeof io->name) memcpy(io->name, name, n + 1);
    (void)ph_ort_take(api, api->AllocatorFree(allocator, name), s->name, NULL);
    if (n >= sizeof io->name) return PH_FAIL(err, PH_ELIMIT, "%.100s: a name of %zu bytes", s->name, n);
    PH_TRY(ph_ort_take(api,
                       is_output ? api->SessionGetOutputTypeInfo(s->session, i, &type)
                                 : api->SessionGetInputTypeInfo(s->session, i, &type),
                       s->name, err));
    ph_rc rc = ph_ort_take(api, api->CastTypeInfoToTensorInfo(type, &shape), s->name, err);
    if (!rc && shape) rc = read_axes(api, shape, io, err); /* shape NULL: a sequence, a map */
    api->ReleaseTypeInfo(type);
    return rc;
}

static ph_rc read_ios(ph_ort_session *s, ph_err *err) {
    const ph_ort_api *api = s->ort->api;
    PH_TRY(ph_ort_take(api, api->SessionGetInputCount(s->session, &s->n_in), s->name, err));
    PH_TRY(ph_ort_take(api, api->SessionGetOutputCount(s->session, &s->n_out), s->name, err));
    s->in = calloc(s->n_in + 1, sizeof *s->in);
    s->out = calloc(s->n_out + 1, sizeof *s->out);
    if (!s->in || !s->out) return PH_FAIL(err, PH_ENOMEM, "%zu inputs and outputs", s->n_in + s->n_out);
    for (size_t i = 0; i < s->n_in; i++) PH_TRY(read_io(s, 0, i, &s->in[i].io, err));
    for (size_t i = 0; i < s->n_out; i++) PH_TRY(read_io(s, 1, i, &s->out[i].io, err));
    return PH_OK;
}

/* ---- all of it ---- */

static ph_rc create(ph_ort_session *s, ort_options *options, const ph_ort_model *m, ph_err *err) {
    const ph_ort_api *api = s->ort->api;
    uint64_t          refused = ph_ort_memory_read().refused;
    ort_status       *status = m->bytes
                                   ? api->CreateSessionFromArray(s->ort->env, m->bytes, m->n, options, &s->session)
                                   : api->CreateSession(s->ort->env, m->path, options, &s->session);
    ph_rc             rc = ph_ort_take(api, status, s->name, err);
    if (rc && ph_ort_memory_read().refused != refused)
        return PH_FAIL(err, PH_ENOMEM, "opening %.100s", s->name);
    return rc;
}

static ph_rc open_all(ph_ort_session *s, const ph_ort_model *m, const ph_ort_how *how, ph_err *err) {
    const ph_ort_api *api = s->ort->api;
    ort_options      *options = NULL;
    PH_TRY(ph_ort_take(api, api->CreateSessionOptions(&options), s->name, err));
    ph_rc rc = set_options(s->ort, options, how, err);
    if (!rc && how->trace) {
        s->trace = how->trace;
        rc = ph_ort_profile_begin(s, options, err);
    }
    if (!rc) rc = set_weights(s, options, m, err);
    if (!rc) rc = create(s, options, m, err);
    api->ReleaseSessionOptions(options);
    if (!rc) rc = read_ios(s, err);
    if (!rc) rc = ph_ort_take(api, api->CreateIoBinding(s->session, &s->binding), s->name, err);
    if (!rc) rc = ph_ort_take(api, api->CreateRunOptions(&s->run_options), s->name, err);
    return rc;
}

ph_rc ph_ort_session_open(ph_ort_session **out, ph_ort *ort, const ph_ort_model *model, const ph_ort_how *how,
                          ph_err *err) {
    static const ph_ort_how defaults = {0};
    ph_ort_session         *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return PH_FAIL(err, PH_ENOMEM, "a session of ONNX Runtime");
    const char *name = model->name ? model->name : model->path ? model->path : "a model in memory";
    s->ort = ort;
    snprintf(s->name, sizeof s->name, "%s", name);
    ph_rc rc = open_all(s, model, how ? how : &defaults, err);
    if (rc)
        ph_ort_session_close(s);
    else
        *out = s;
    return rc;
}

static void close_ios(const ph_ort_api *api, ph_ort_bound *io, size_t n) {
    for (size_t i = 0; io && i < n; i++) api->ReleaseValue(io[i].value);
    free(io);
}

void ph_ort_session_close(ph_ort_session *s) {
    if (!s) return;
    const ph_ort_api *api = s->ort->api;
    ph_ort_watch_close(s->watch);
    (void)ph_ort_profile(s, NULL);
    ph_ort_drop_results(s);
    if (s->binding) api->ReleaseIoBinding(s->binding);
    if (s->run_options) api->ReleaseRunOptions(s->run_options);
    close_ios(api, s->in, s->n_in);
    close_ios(api, s->out, s->n_out);
    if (s->session) api->ReleaseSession(s->session);
    for (size_t i = 0; i < s->n_weights; i++) api->ReleaseValue(s->weight[i]);
    free(s->weight);
    free(s);
}

size_t ph_ort_n_inputs(const ph_ort_session *s) {
    return s->n_in;
}

size_t ph_ort_n_outputs(const ph_ort_session *s) {
    return s->n_out;
}

const ph_ort_io *ph_ort_input(const ph_ort_session *s, size_t i) {
    return i < s->n_in ? &s->in[i].io : NULL;
}

const ph_ort_io *ph_ort_output(const ph_ort_session *s, size_t i) {
    return i < s->n_out ? &s->out[i].io : NULL;
}

static int find(const ph_ort_bound *io, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(io[i].io.name, name)) return (int)i;
    return -1;
}

int ph_ort_find_input(const ph_ort_session *s, const char *name) {
    return find(s->in, s->n_in, name);
}

int ph_ort_find_output(const ph_ort_session *s, const char *name) {
    return find(s->out, s->n_out, name);
}
