/* ort_ep.c - execution providers: which are here, and how one is asked for.
 *
 * A provider is part of the library (GetAvailableProviders), or comes as a plug-in: a library of its own, in
 * a folder or under a path of PINHOLE_ORT_PLUGINS (colons between them), or beside ORT's library.  Plug-ins
 * are loaded when a provider is asked for that ORT does not have itself.
 */
#include "engine/ort/ort_env.h"

#include "base/file.h"
#include "engine/library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef enum way { WAY_NONE, WAY_NAMED, WAY_CUDA, WAY_TENSORRT, WAY_CANN } way;

static const struct row {
    const char     *name, *ort_name;
    ph_engine_class cls;
    way             way;
    const char     *append, *plugin;
} rows[] = {
#define PH_ORT_EP(name, ort_name, cls, way, append, plugin)                                                  \
    {name, ort_name, PH_ENGINE_##cls, WAY_##way, append, plugin},
#include "engine/ort/ort_ep.def"
#undef PH_ORT_EP
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const struct row *row_of(const char *name) {
    for (size_t i = 0; i < N_ROWS; i++)
        if (!strcasecmp(rows[i].name, name) || !strcasecmp(rows[i].ort_name, name)) return &rows[i];
    return NULL;
}

ph_rc ph_ort_ep_read(ph_ort_ep *ep, char *text, ph_err *err) {
    char *rest = NULL, *piece = strtok_r(text, ",", &rest);
    *ep = (ph_ort_ep){.name = piece};
    if (!piece) return PH_FAIL(err, PH_EUSAGE, "an execution provider has a name: openvino,device=cpu");
    while ((piece = strtok_r(NULL, ",", &rest))) {
        char *equals = strchr(piece, '=');
        if (!equals || equals == piece)
            return PH_FAIL(err, PH_EUSAGE, "options of an execution provider are KEY=VALUE, not '%.60s'",
                           piece);
        if (ep->n == PH_ORT_OPTIONS_MAX)
            return PH_FAIL(err, PH_EUSAGE, "%.60s: more than %d options", ep->name, PH_ORT_OPTIONS_MAX);
        *equals = 0;
        ep->key[ep->n] = piece;
        ep->value[ep->n++] = equals + 1;
    }
    return PH_OK;
}

/* ---- what the library has itself ---- */

/* Name i of its list into out; 0: past the last. */
static int available_at(const ph_ort *o, size_t i, char out[64]) {
    char **list = NULL;
    int    n = 0, found = 0;
    if (ph_ort_take(o->api, o->api->GetAvailableProviders(&list, &n), "listing providers", NULL)) return 0;
    if (i < (size_t)n) found = snprintf(out, 64, "%s", list[i]) > 0;
    (void)ph_ort_take(o->api, o->api->ReleaseAvailableProviders(list, n), "listing providers", NULL);
    return found;
}

static int is_available(const ph_ort *o, const char *ort_name) {
    char name[64];
    for (size_t i = 0; available_at(o, i, name); i++)
        if (!strcmp(name, ort_name)) return 1;
    return 0;
}

/* ---- plug-ins ---- */

enum { PLUGINS_MAX = 16, PLACE_MAX = 1200 };

static struct plugins {
    pthread_mutex_t lock;
    int             is_done;
    size_t          n;
    struct {
        char  path[PLACE_MAX], name[64]; /* name: under which it is registered, its file's */
        ph_rc rc;
        char  why[320];
    } at[PLUGINS_MAX];
} plugins = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* From the current folder, as the user means it: ORT would look in its own library's. */
static void from_here(char out[PLACE_MAX], const char *path) {
    char here[PLACE_MAX];
    if (*path == '/' || !getcwd(here, sizeof here) ||
        snprintf(out, PLACE_MAX, "%s/%s", here, path) >= PLACE_MAX)
        snprintf(out, PLACE_MAX, "%s", path);
}

static void add_plugin(ph_ort *o, const char *path) {
    ph_err      err = {0};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < plugins.n; i++)
        if (!strncmp(plugins.at[i].name, name, sizeof plugins.at[i].name - 1)) return;
    if (plugins.n == PLUGINS_MAX) return;
    size_t i = plugins.n++;
    from_here(plugins.at[i].path, path);
    snprintf(plugins.at[i].name, sizeof plugins.at[i].name, "%s", name);
    plugins.at[i].rc = ph_library_check_whole(path, &err);
    if (!plugins.at[i].rc)
        plugins.at[i].rc = ph_ort_take(
            o->api, o->api->RegisterExecutionProviderLibrary(o->env, plugins.at[i].name, plugins.at[i].path),
            "loading a plug-in", &err);
    snprintf(plugins.at[i].why, sizeof plugins.at[i].why, "%s", err.msg);
}

static void add_folder(ph_ort *o, const char *folder) {
    char path[PLACE_MAX];
    for (size_t i = 0; i < N_ROWS; i++) {
        if (!rows[i].plugin ||
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, rows[i].plugin) >= sizeof path)
            continue;
        if (ph_path_is_file(path)) add_plugin(o, path);
    }
}

static void load_plugins(ph_ort *o) {
    const char *list = getenv("PINHOLE_ORT_PLUGINS");
    char        place[1024];
    plugins.is_done = 1;
    for (const char *p = list ? list : ""; *p; p += *p == ':') {
        size_t n = strcspn(p, ":");
        if (n && n < sizeof place) {
            snprintf(place, sizeof place, "%.*s", (int)n, p);
            if (ph_path_is_dir(place))
                add_folder(o, place);
            else
                add_plugin(o, place);
        }
        p += n;
    }
    snprintf(place, sizeof place, "%s", o->api->path);
    char *slash = strrchr(place, '/');
    if (slash) *slash = 0, add_folder(o, place);
}

static int can_plug(const ph_ort *o) {
    return o->api->version >= 22;
}

static void need_plugins(ph_ort *o) {
    pthread_mutex_lock(&plugins.lock);
    if (!plugins.is_done && can_plug(o)) load_plugins(o);
    pthread_mutex_unlock(&plugins.lock);
}

void ph_ort_ep_forget(const ph_ort_api *api, ort_env *env) {
    pthread_mutex_lock(&plugins.lock);
    for (size_t i = 0; i < plugins.n; i++)
        if (!plugins.at[i].rc)
            (void)ph_ort_take(api, api->UnregisterExecutionProviderLibrary(env, plugins.at[i].name),
                              "unloading a plug-in", NULL);
    plugins.n = 0;
    plugins.is_done = 0;
    pthread_mutex_unlock(&plugins.lock);
}

enum { DEVICES_MAX = 16 };

/* Devices of a provider that plug-ins brought; kind: 0 CPU, 1 GPU, 2 NPU, -1 any. */
static size_t devices_of(ph_ort *o, const char *ort_name, int kind, const ort_device *out[DEVICES_MAX]) {
    const ort_device *const *all = NULL;
    size_t                   n = 0, found = 0;
    need_plugins(o);
    if (!can_plug(o) || ph_ort_take(o->api, o->api->GetEpDevices(o->env, &all, &n), "listing devices", NULL))
        return 0;
    for (size_t i = 0; i < n && found < DEVICES_MAX; i++)
        if (!strcmp(o->api->EpDevice_EpName(all[i]), ort_name) &&
            (kind < 0 || o->api->HardwareDevice_Type(o->api->EpDevice_Device(all[i])) == kind))
            out[found++] = all[i];
    return found;
}

/* ---- asking for one ---- */

typedef ort_status *create_options(ort_provider **out);
typedef ort_status *update_options(ort_provider *p, const char *const *key, const char *const *value,
                                   size_t n);
typedef ort_status *append_options(ort_options *options, const ort_provider *p);

static ph_rc append_own(const ph_ort_api *api, ort_options *options, const ph_ort_ep *ep,
                        create_options *create, update_options *update, append_options *append,
                        void (*release)(ort_provider *), ph_err *err) {
    ort_provider *p = NULL;
    PH_TRY(ph_ort_take(api, create(&p), ep->name, err));
    ph_rc rc = ep->n ? ph_ort_take(api, update(p, ep->key, ep->value, ep->n), ep->name, err) : PH_OK;
    if (!rc) rc = ph_ort_take(api, append(options, p), ep->name, err);
    release(p);
    return rc;
}

static ph_rc append_built_in(const ph_ort *o, ort_options *options, const struct row *row,
                             const char *ort_name, const ph_ort_ep *ep, ph_err *err) {
    const ph_ort_api *api = o->api;
    char              name[64];
    switch (row ? row->way : WAY_NAMED) {
    case WAY_CUDA:
        return append_own(api, options, ep, api->CreateCUDAProviderOptions, api->UpdateCUDAProviderOptions,
                          api->SessionOptionsAppendExecutionProvider_CUDA_V2, api->ReleaseCUDAProviderOptions,
                          err);
    case WAY_TENSORRT:
        return append_own(
            api, options, ep, api->CreateTensorRTProviderOptions, api->UpdateTensorRTProviderOptions,
            api->SessionOptionsAppendExecutionProvider_TensorRT_V2, api->ReleaseTensorRTProviderOptions, err);
    case WAY_CANN:
        return append_own(api, options, ep, api->CreateCANNProviderOptions, api->UpdateCANNProviderOptions,
                          api->SessionOptionsAppendExecutionProvider_CANN, api->ReleaseCANNProviderOptions,
                          err);
    default:
        break;
    }
    snprintf(name, sizeof name, "%s", row && row->append ? row->append : ort_name);
    return ph_ort_take(api,
                       api->SessionOptionsAppendExecutionProvider(options, name, ep->key, ep->value, ep->n),
                       ep->name, err);
}

static const char *const kinds[] = {"cpu", "gpu",
                                    "npu"}; /* as ORT numbers them, and as ph_engine_class does */

static int kind_of(const char *name) {
    for (int k = 0; k < 3; k++)
        if (!strcasecmp(name, kinds[k])) return k;
    return -1;
}

ph_engine_class ph_ort_ep_class(const ph_ort_ep *ep) {
    const struct row *row = row_of(ep->name);
    for (size_t i = 0; i < ep->n; i++)
        if (!strcmp(ep->key[i], "device") && kind_of(ep->value[i]) >= 0)
            return (ph_engine_class)kind_of(ep->value[i]);
    return row ? row->cls : PH_ENGINE_CPU;
}

/* "device=gpu" picks among a plug-in's devices and is not the plug-in's own option. */
static ph_rc take_device(ph_ort_ep *ep, int *kind, ph_err *err) {
    *kind = -1;
    for (size_t i = 0; i < ep->n; i++) {
        if (strcmp(ep->key[i], "device")) continue;
        *kind = kind_of(ep->value[i]);
        if (*kind < 0)
            return PH_FAIL(err, PH_EUSAGE, "%s: device is cpu, gpu or npu, not '%.40s'", ep->name,
                           ep->value[i]);
        ep->n--;
        memmove(&ep->key[i], &ep->key[i + 1], (ep->n - i) * sizeof *ep->key);
        memmove(&ep->value[i], &ep->value[i + 1], (ep->n - i) * sizeof *ep->value);
        break;
    }
    return PH_OK;
}

static ph_rc say_unknown(const ph_ort *o, const char *name, ph_err *err) {
    char   known[200] = "";
    size_t at = 0;
    for (size_t i = 0; i < N_ROWS && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", rows[i].name);
    return PH_FAIL(err, PH_EMACHINE,
                   "ONNX Runtime %s has no execution provider '%.40s', nor has a plug-in of "
                   "PINHOLE_ORT_PLUGINS; known are %s",
                   o->api->release, name, known);
}

/* What was said of the first place of the user's that did not load; NULL: none. */
static const char *not_loaded(void) {
    for (size_t i = 0; i < plugins.n; i++)
        if (plugins.at[i].rc) return plugins.at[i].why;
    return NULL;
}

/* Why a provider is neither in the library nor in a plug-in. */
static ph_rc say_absent(const ph_ort *o, const struct row *row, const char *name, ph_err *err) {
    const char *plugin = row ? row->plugin : NULL;
    if (!row) return say_unknown(o, name, err);
    for (size_t i = 0; plugin && i < plugins.n; i++) {
        if (strcmp(plugins.at[i].name, plugin)) continue;
        if (plugins.at[i].rc) return PH_FAIL(err, PH_EMACHINE, "%.300s", plugins.at[i].why);
        return PH_FAIL(err, PH_EMACHINE, "the plug-in %.200s is loaded, and finds no device of %s here",
                       plugins.at[i].path, row->name);
    }
    if (!can_plug(o))
        return PH_FAIL(
            err, PH_EMACHINE,
            "ONNX Runtime %s was built without %s, and takes no plug-ins (1.22 and later do): name "
            "another in PINHOLE_ORT",
            o->api->release, row->name);
    if (plugin && not_loaded())
        return PH_FAIL(err, PH_EMACHINE,
                       "ONNX Runtime %s was built without %s, and of PINHOLE_ORT_PLUGINS not all was loaded: "
                       "%.220s",
                       o->api->release, row->name, not_loaded());
    return PH_FAIL(
        err, PH_EMACHINE,
        "ONNX Runtime %s was built without %s: name another in PINHOLE_ORT, or a plug-in's file%s%s%s "
        "in PINHOLE_ORT_PLUGINS",
        o->api->release, row->name, plugin ? " (" : "", plugin ? plugin : "", plugin ? ")" : "");
}

ph_rc ph_ort_ep_append(ph_ort *o, ort_options *options, const ph_ort_ep *wanted, ph_err *err) {
    const struct row *row = row_of(wanted->name);
    const char       *ort_name = row ? row->ort_name : wanted->name;
    const ort_device *device[DEVICES_MAX];
    ph_ort_ep         ep = *wanted;
    int               kind;
    if (row && row->way == WAY_NONE)
        return ep.n ? PH_FAIL(err, PH_EUSAGE, "%s takes no options", ep.name) : PH_OK;
    if (is_available(o, ort_name)) return append_built_in(o, options, row, ort_name, &ep, err);
    PH_TRY(take_device(&ep, &kind, err));
    size_t n = devices_of(o, ort_name, kind, device);
    if (!n && kind >= 0 && devices_of(o, ort_name, -1, device))
        return PH_FAIL(err, PH_EMACHINE, "%s has no such device here", ep.name);
    if (!n) return say_absent(o, row, ep.name, err);
    return ph_ort_take(
        o->api,
        o->api->SessionOptionsAppendExecutionProvider_V2(options, o->env, device, n, ep.key, ep.value, ep.n),
        ep.name, err);
}

/* ---- listing ---- */

/* The names that no row has: of the library, then of plug-ins. */
static int other_at(ph_ort *o, size_t i, char out[64]) {
    const ort_device *const *all = NULL;
    size_t                   n = 0, seen = 0;
    for (size_t k = 0; available_at(o, k, out); k++)
        if (!row_of(out) && seen++ == i) return 1;
    need_plugins(o);
    if (!can_plug(o) || ph_ort_take(o->api, o->api->GetEpDevices(o->env, &all, &n), "listing devices", NULL))
        return 0;
    for (size_t k = 0; k < n; k++) {
        int is_new = !row_of(o->api->EpDevice_EpName(all[k]));
        for (size_t m = 0; m < k && is_new; m++)
            is_new = strcmp(o->api->EpDevice_EpName(all[k]), o->api->EpDevice_EpName(all[m])) != 0;
        if (!is_new || seen++ != i) continue;
        snprintf(out, 64, "%s", o->api->EpDevice_EpName(all[k]));
        return 1;
    }
    return 0;
}

ph_rc ph_ort_ep_check(ph_ort *o, const ph_ort_ep *ep, ph_err *err) {
    ort_options *options = NULL;
    ph_rc        rc = ph_ort_take(o->api, o->api->CreateSessionOptions(&options), ep->name, err);
    if (!rc) rc = ph_ort_ep_append(o, options, ep, err);
    if (options) o->api->ReleaseSessionOptions(options);
    return rc;
}

int ph_ort_ep_at(ph_ort *o, size_t i, ph_ort_ep_state *out) {
    ph_err err = {0};
    *out = (ph_ort_ep_state){0};
    if (i < N_ROWS) {
        snprintf(out->name, sizeof out->name, "%s", rows[i].name);
        snprintf(out->ort_name, sizeof out->ort_name, "%s", rows[i].ort_name);
    } else if (o && other_at(o, i - N_ROWS, out->ort_name)) {
        memcpy(out->name, out->ort_name, sizeof out->name);
    } else {
        return 0;
    }
    const ph_ort_ep ep = {.name = out->name};
    out->cls = ph_ort_ep_class(&ep);
    out->is_here =
        !(o ? ph_ort_ep_check(o, &ep, &err) : PH_FAIL(&err, PH_EMACHINE, "ONNX Runtime is not here"));
    snprintf(out->reason, sizeof out->reason, "%s", err.msg);
    const ort_device *device[DEVICES_MAX];
    for (int k = 0; k < 3 && out->is_here && !is_available(o, out->ort_name); k++)
        if (devices_of(o, out->ort_name, k, device)) out->kinds |= 1u << k;
    return 1;
}
