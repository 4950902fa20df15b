/* openvino_api.c - the library and its entries, and what its statuses mean.
 *
 * libopenvino_c is one of several files: the runtime, the plug-in of a device and the reader of ONNX lie in
 * its folder, and it finds them there by itself.  One of them that is missing or cut short is told before.
 */
#include "engine/openvino/openvino_api.h"

#include "base/printable.h"
#include "engine/library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const ph_library library = {.what = "OpenVINO",
                                   PH_LIBRARY_MADE("openvino", "PINHOLE_OPENVINO"),
                                   .file = "libopenvino_c.so",
                                   .system = {"libopenvino_c.so"}};

/* ---- a library that was opened ---- */

static ph_rc take_entries(ph_openvino_api *api, void *so, ph_err *err) {
    const char *missing = NULL;
#define TAKE(name)                                                                                           \
    *(void **)(void *)&api->name = dlsym(so, #name);                                                         \
    if (!api->name && !missing) missing = #name;
#define PH_OPENVINO_CALL(name, params)      TAKE(name)
#define PH_OPENVINO_FREE(name, type)        TAKE(name)
#define PH_OPENVINO_GET(type, name, params) TAKE(name)
#include "engine/openvino/openvino_api.def"
#undef PH_OPENVINO_CALL
#undef PH_OPENVINO_FREE
#undef PH_OPENVINO_GET
#undef TAKE
    if (!api->ov_get_openvino_version || !api->ov_version_free)
        return PH_FAIL(err, PH_EMACHINE, "%.160s is a library, but no OpenVINO: %s", api->path,
                       ph_library_remedy(&library));
    ph_library_note_path(api->path, *(void **)(void *)&api->ov_get_openvino_version);
    if (!missing) return PH_OK;
    return PH_FAIL(err, PH_EMACHINE, "%.120s calls itself OpenVINO, but has no entry %s: %s", api->path,
                   missing, ph_library_remedy(&library));
}

static ph_rc check_release(ph_openvino_api *api, ph_err *err) {
    openvino_version v = {0};
    int              failed = api->ov_get_openvino_version(&v) || !v.build;
    const char      *build = failed ? "?" : v.build;
    int              is_read = sscanf(build, "%d.%d", &api->year, &api->minor) == 2;
    ph_printable(api->release, sizeof api->release, build, strcspn(build, "-"));
    if (!failed) api->ov_version_free(&v);
    if (is_read && (api->year > PH_OPENVINO_YEAR_MIN ||
                    (api->year == PH_OPENVINO_YEAR_MIN && api->minor >= PH_OPENVINO_MINOR_MIN)))
        return PH_OK;
    return PH_FAIL(err, PH_EMACHINE, "%.120s is OpenVINO %s, and this program takes %d.%d or a later one: %s",
                   api->path, api->release, PH_OPENVINO_YEAR_MIN, PH_OPENVINO_MINOR_MIN,
                   ph_library_remedy(&library));
}

/* Its own files beside it: what is cut short would end the process when it is loaded later. */
static ph_rc check_beside(const char *path, ph_err *err) {
    char        folder[PH_LIBRARY_PATH], file[PH_LIBRARY_PATH + 256];
    const char *slash = strrchr(path, '/');
    ph_rc       rc = PH_OK;
    if (!slash) return PH_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    DIR *d = opendir(*folder ? folder : "/");
    for (struct dirent *e; d && !rc && (e = readdir(d));) {
        if (strncmp(e->d_name, "libopenvino", 11) && strncmp(e->d_name, "libtbb", 6)) continue;
        snprintf(file, sizeof file, "%s/%s", folder, e->d_name);
        rc = ph_library_check_whole(file, err);
    }
    if (d) closedir(d);
    return rc;
}

ph_rc ph_openvino_api_load(ph_openvino_api *out, const char *path, ph_err *err) {
    void *so;
    *out = (ph_openvino_api){0};
    snprintf(out->path, sizeof out->path, "%s", path);
    PH_TRY(check_beside(path, err));
    PH_TRY(ph_library_open(&library, path, &so, err));
    ph_rc rc = take_entries(out, so, err);
    if (!rc) rc = check_release(out, err);
    if (rc) dlclose(so); /* one that is used stays: its threads and tables do not get along with unloading */
    return rc;
}

static ph_rc load(void *api, const char *path, ph_err *err) {
    return ph_openvino_api_load(api, path, err);
}

ph_rc ph_openvino_api_get(const ph_openvino_api **out, ph_err *err) {
    static ph_library_once once = {PTHREAD_MUTEX_INITIALIZER, 0};
    static ph_openvino_api the;
    ph_rc                  rc = ph_library_get(&library, &once, load, &the, err);
    *out = rc ? NULL : &the;
    return rc;
}

ph_rc ph_openvino_probe(ph_openvino_library *out, ph_err *err) {
    const ph_openvino_api *api;
    *out = (ph_openvino_library){{0}, {0}};
    PH_TRY(ph_openvino_api_get(&api, err));
    memcpy(out->path, api->path, sizeof out->path);
    memcpy(out->release, api->release, sizeof out->release);
    return PH_OK;
}

/* ---- statuses ---- */

/* ov_status_e, by its number. */
static ph_rc rc_of(int status) {
    static const ph_rc of[] = {
        [0] = PH_OK,        [1] = PH_EUNSUP,  /* general */
        [2] = PH_EUNSUP,                      /* not implemented */
        [3] = PH_EBUG,                        /* network not loaded */
        [4] = PH_EMISMATCH,                   /* parameter mismatch */
        [5] = PH_EUNSUP,                      /* not found */
        [6] = PH_EMISMATCH,                   /* out of bounds */
        [7] = PH_EUNSUP,                      /* an exception of another kind */
        [8] = PH_EBUG,                        /* request busy */
        [9] = PH_EBUG,                        /* result not ready */
        [10] = PH_ENOMEM,                     /* not allocated */
        [11] = PH_EBUG,     [12] = PH_EBUG,   /* not started, not read */
        [13] = PH_ECANCEL,  [14] = PH_EBUG,   /* cancelled, bad parameter of a call */
        [15] = PH_EUNSUP,   [16] = PH_EUNSUP, /* of the C layer */
    };
    return status <= 0 && (size_t)-status < sizeof of / sizeof *of ? of[-status] : PH_EUNSUP;
}

/* Its messages begin with lines that name places in its own source: those help nobody here.  What is left
 * becomes one line. */
static void tell(char *to, size_t size, const char *text) {
    size_t n = 0;
    while (*text) {
        size_t line = strcspn(text, "\n");
        if (line && strncmp(text, "Exception from ", 15) && strncmp(text, "Check '", 7) && n + 2 < size)
            n += (size_t)snprintf(to + n, size - n, "%s%.*s", n ? " " : "", (int)line, text);
        text += line + (text[line] == '\n');
    }
    if (!n) snprintf(to, size, "no reason was given");
}

ph_rc ph_openvino_take(const ph_openvino_api *api, int status, const char *doing, ph_err *err) {
    char message[2048] = "", text[220];
    if (!status) return PH_OK;
    ph_rc rc = rc_of(status);
    /* A copy; of a call with parameters that it does not take it says nothing, and the last text is
     * another's. */
    const char *last = status == PH_OPENVINO_BAD_CALL ? NULL : api->ov_get_last_err_msg();
    tell(message, sizeof message, last ? last : "");
    if (last) api->ov_free(last);
    if (strstr(message, "bad_alloc")) rc = PH_ENOMEM;
    message[sizeof message - 1] = 0;
    ph_printable(text, sizeof text, message, strlen(message));
    return PH_FAIL(err, rc, "OpenVINO, %.80s: %s", doing, text);
}
