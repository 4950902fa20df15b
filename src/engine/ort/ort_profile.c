/* ort_profile.c - ORT's profile of a session as spans of our trace.
 *
 * ORT writes Chrome trace events into a file: {"cat": "Node", "name": "..._kernel_time", "ts": us, "dur": us,
 * "args": {"op_name": ...}}, times from the start of its profile, which it tells by the calendar's clock.
 */
#include "engine/ort/ort_session_impl.h"

#include "base/clock.h"
#include "base/file.h"
#include "formats/json.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PROFILE_MAX = 256 << 20 };

ph_rc ph_ort_profile_begin(ph_ort_session *s, ort_options *options, ph_err *err) {
    static const char own[] = "/ph-ort-XXXXXX";
    char              folder[sizeof s->profile], prefix[sizeof folder + 8];
    const char       *tmp = getenv("TMPDIR");
    if (!tmp || !*tmp) tmp = "/tmp";
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", tmp, own) >= sizeof folder)
        return PH_FAIL(err, PH_EIO,
                       "TMPDIR has %zu bytes, and at most %zu can name the folder of ONNX Runtime's profile: "
                       "set a shorter one",
                       strlen(tmp), sizeof folder - sizeof own);
    if (!mkdtemp(folder))
        return PH_FAIL(
            err, PH_EIO,
            "no folder for ONNX Runtime's profile under %.160s: %s: set TMPDIR to one that can be written to",
            tmp, strerror(errno));
    memcpy(s->profile, folder, sizeof folder);
    snprintf(prefix, sizeof prefix, "%s/run", folder);
    return ph_ort_take(s->ort->api, s->ort->api->EnableProfiling(options, prefix), "profiling", err);
}

/* ---- names ---- */

/* A trace's names live for ever, and it sums up few: those of operators are kept here, once each. */
static const char *name_of(const char *op) {
    enum { NAMES_MAX = 48, LENGTH_MAX = 48 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char            names[NAMES_MAX][LENGTH_MAX];
    char                   name[LENGTH_MAX];
    int                    i = 0;
    snprintf(name, sizeof name, "ort.%s", op);
    pthread_mutex_lock(&lock);
    while (i < NAMES_MAX && names[i][0] && strcmp(names[i], name)) i++;
    if (i < NAMES_MAX && !names[i][0]) memcpy(names[i], name, sizeof name);
    pthread_mutex_unlock(&lock);
    return i < NAMES_MAX ? names[i] : "ort.other";
}

/* ---- the file ---- */

/* One event; those that are no node's run are passed over. */
static ph_rc put_event(ph_trace *t, const ph_json *event, uint64_t start_ns, uint64_t *n, ph_err *err) {
    static const char tail[] = "_kernel_time";
    const char       *cat, *name, *op;
    double            ts, dur;
    PH_TRY(ph_json_text_or(event, "cat", "", &cat, err));
    PH_TRY(ph_json_text_or(event, "name", "", &name, err));
    if (strcmp(cat, "Node") || !ph_name_ends_with(name, tail)) return PH_OK;
    PH_TRY(ph_json_real(event, "ts", &ts, err));
    PH_TRY(ph_json_real(event, "dur", &dur, err));
    ph_json args = ph_json_get(event, "args");
    PH_TRY(ph_json_text_or(&args, "op_name", "other", &op, err));
    if (!(ts >= 0 && ts < 1e15 && dur >= 0 && dur < 1e15))
        return PH_FAIL(err, PH_EFORMAT, "ONNX Runtime's profile: a time of %g us", ts);
    uint64_t begin = start_ns + (uint64_t)(ts * 1e3);
    ph_trace_put(t, name_of(op), begin, begin + (uint64_t)(dur * 1e3), (*n)++);
    return PH_OK;
}

static ph_rc read_events(ph_ort_session *s, const char *path, uint64_t start_ns, ph_err *err) {
    ph_file     f;
    ph_json_doc doc = {0};
    uint64_t    n = 0;
    PH_TRY(ph_file_open_text(&f, path, PROFILE_MAX, err));
    ph_rc   rc = ph_json_parse(&doc, f.bytes, f.n, "ONNX Runtime's profile", err);
    ph_json events = ph_json_root(&doc);
    for (size_t i = 0; !rc && i < ph_json_count(&events); i++) {
        ph_json event = ph_json_at(&events, i);
        rc = put_event(s->trace, &event, start_ns, &n, err);
    }
    ph_json_close(&doc);
    ph_file_close(&f);
    return rc;
}

/* By our clock: its start, told by the calendar's, less what lies between the two now. */
static uint64_t start_of(ph_ort_session *s) {
    struct timespec now;
    uint64_t        start = 0;
    if (ph_ort_take(s->ort->api, s->ort->api->SessionGetProfilingStartTimeNs(s->session, &start), s->name,
                    NULL))
        return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t calendar = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    return ph_clock_ns() - (calendar - start);
}

/* What a session that did not open began to write goes too. */
static void drop_folder(const char *folder) {
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0); /* not "." and "..": folders */
    if (d) closedir(d);
    rmdir(folder);
}

ph_rc ph_ort_profile(ph_ort_session *s, ph_err *err) {
    const ph_ort_api *api = s->ort->api;
    ort_allocator    *allocator = NULL;
    char             *path = NULL;
    ph_rc             rc = PH_OK;
    if (!*s->profile) return PH_OK;
    if (s->session) {
        uint64_t start_ns = start_of(s);
        rc = ph_ort_take(api, api->GetAllocatorWithDefaultOptions(&allocator), s->name, err);
        if (!rc) rc = ph_ort_take(api, api->SessionEndProfiling(s->session, allocator, &path), s->name, err);
        if (!rc) rc = read_events(s, path, start_ns, err);
    }
    if (path) (void)ph_ort_take(api, api->AllocatorFree(allocator, path), s->name, NULL);
    drop_folder(s->profile);
    *s->profile = 0;
    return rc;
}
