/* ort_api.c - the library and its table of entries, and what its statuses mean. */
#include "engine/ort/ort_api.h"

#include "base/printable.h"
#include "engine/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const ph_library library = {.what = "ONNX Runtime",
                                   PH_LIBRARY_MADE("ort", "PINHOLE_ORT"),
                                   .file = "libonnxruntime.so",
                                   .system = {"libonnxruntime.so.1", "libonnxruntime.so"}};

/* What OrtGetApiBase gives. */
typedef struct ort_base {
    const void *const *(*table_of)(uint32_t version); /* NULL: the library is older than that */
    const char *(*release)(void);
} ort_base;

/* ---- a library that was opened ---- */

static ph_rc check_release(ph_ort_api *api, const ort_base *base, ph_err *err) {
    const char *release = base->release ? base->release() : NULL;
    int         major = 0, minor = 0;
    ph_printable(api->release, sizeof api->release, release ? release : "?", release ? strlen(release) : 1);
    if (!release || sscanf(release, "%d.%d", &major, &minor) != 2 || major != 1 || minor < PH_ORT_API_MIN)
        return PH_FAIL(err, PH_EMACHINE,
                       "%.120s is ONNX Runtime %s, and this program takes 1.%d or a later 1.x: %s", api->path,
                       api->release, PH_ORT_API_MIN, ph_library_remedy(&library));
    api->release_minor = minor;
    api->version = minor < PH_ORT_API_MAX ? minor : PH_ORT_API_MAX;
    return PH_OK;
}

static void take_entries(ph_ort_api *api, const void *const *table) {
#define TAKE(place, since, name)                                                                             \
    if ((since) <= api->version) memcpy(&api->name, &table[place], sizeof api->name);
#define PH_ORT_CALL(place, since, name, params)      TAKE(place, since, name)
#define PH_ORT_FREE(place, name, type)               TAKE(place, 0, name)
#define PH_ORT_GET(place, since, type, name, params) TAKE(place, since, name)
#include "engine/ort/ort_api.def"
#undef PH_ORT_CALL
#undef PH_ORT_FREE
#undef PH_ORT_GET
#undef TAKE
}

static ph_rc take_table(ph_ort_api *api, void *so, ph_err *err) {
    const ort_base *(*get)(void) = NULL;
    *(void **)(void *)&get = dlsym(so, "OrtGetApiBase");
    ph_library_note_path(api->path, *(void **)(void *)&get);
    const ort_base *base = get ? get() : NULL;
    if (!base || !base->table_of)
        return PH_FAIL(err, PH_EMACHINE, "%.160s is a library, but no ONNX Runtime: %s", api->path,
                       ph_library_remedy(&library));
    PH_TRY(check_release(api, base, err));
    const void *const *table = base->table_of((uint32_t)api->version);
    if (!table)
        return PH_FAIL(err, PH_EMACHINE,
                       "%.120s calls itself ONNX Runtime %s, but has no API of version %d: %s", api->path,
                       api->release, api->version, ph_library_remedy(&library));
    take_entries(api, table);
    *(void **)(void *)&api->throw_bad_alloc = dlsym(so, "_ZSt17__throw_bad_allocv");
    return PH_OK;
}

/* ---- finding one ---- */

ph_rc ph_ort_api_load(ph_ort_api *out, const char *path, ph_err *err) {
    void *so;
    *out = (ph_ort_api){0};
    snprintf(out->path, sizeof out->path, "%s", path);
    PH_TRY(ph_library_open(&library, path, &so, err));
    ph_rc rc = take_table(out, so, err);
    if (rc) dlclose(so); /* one that is used stays: its threads and tables do not get along with unloading */
    return rc;
}

static ph_rc load(void *api, const char *path, ph_err *err) {
    return ph_ort_api_load(api, path, err);
}

ph_rc ph_ort_api_get(const ph_ort_api **out, ph_err *err) {
    static ph_library_once once = {PTHREAD_MUTEX_INITIALIZER, 0};
    static ph_ort_api      the;
    ph_rc                  rc = ph_library_get(&library, &once, load, &the, err);
    *out = rc ? NULL : &the;
    return rc;
}

ph_rc ph_ort_probe(ph_ort_library *out, ph_err *err) {
    const ph_ort_api *api;
    *out = (ph_ort_library){0};
    PH_TRY(ph_ort_api_get(&api, err));
    memcpy(out->path, api->path, sizeof out->path);
    memcpy(out->release, api->release, sizeof out->release);
    return PH_OK;
}

/* ---- statuses ---- */

/* OrtErrorCode, by its number. */
static ph_rc rc_of(int code) {
    static const ph_rc of[] = {
        [0] = PH_EBUG,       /* no error */
        [1] = PH_EUNSUP,     /* failed */
        [2] = PH_EMISMATCH,  /* invalid argument */
        [3] = PH_EPATH,      /* no such file */
        [4] = PH_EFORMAT,    /* no model */
        [5] = PH_EUNSUP,     /* engine error */
        [6] = PH_EUNSUP,     /* an exception while running */
        [7] = PH_EFORMAT,    /* invalid protobuf */
        [8] = PH_EBUG,       /* model loaded twice */
        [9] = PH_EUNSUP,     /* not implemented */
        [10] = PH_EMISMATCH, /* invalid graph */
        [11] = PH_EMACHINE,  /* execution provider failed */
        [12] = PH_ECANCEL,   /* loading cancelled */
    };
    return code >= 0 && (size_t)code < sizeof of / sizeof *of ? of[code] : PH_EUNSUP;
}

/* Its messages may name a place in its own source, "/.../file.cc:12 type function(parameters) const [with T =
 * float] ": that helps nobody here, and is left out. */
static void without_place(char *to, size_t size, const char *text) {
    const char *from = strstr(text, "/onnxruntime_src/"), *end = from ? strchr(from, ')') : NULL;
    while (end && end[1] != ' ' && end[1] != '\n') end = strchr(end + 1, ')');
    if (!end) from = end = text + strlen(text);
    if (*end) end += 2;
    if (!strncmp(end, "const ", 6)) end += 6;
    if (!strncmp(end, "[with ", 6) && strstr(end, "] ")) end = strstr(end, "] ") + 2;
    snprintf(to, size, "%.*s%s", (int)(from - text), text, end);
}

ph_rc ph_ort_take(const ph_ort_api *api, ort_status *status, const char *doing, ph_err *err) {
    char message[2048], text[220];
    if (!status) return PH_OK;
    ph_rc rc = rc_of(api->GetErrorCode(status));
    without_place(message, sizeof message, api->GetErrorMessage(status));
    size_t n = strlen(message);
    while (n && (message[n - 1] == '\n' || message[n - 1] == ' ')) n--;
    ph_printable(text, sizeof text, message, n);
    if (strstr(message, "bad_alloc") || strstr(message, "Failed to allocate memory")) rc = PH_ENOMEM;
    api->ReleaseStatus(status);
    return PH_FAIL(err, rc, "ONNX Runtime, %.80s: %s", doing, text);
}
