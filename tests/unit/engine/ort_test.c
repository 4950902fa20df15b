/* ort_test.c - ONNX Runtime: entries at their places, memory, threads, stopping, errors.
 *
 * Where it is not here (`make ort`), each test says so and is over; what is said of libraries that are none
 * is tested everywhere.
 */
#include "base/clock.h"
#include "engine/ort/ort_api.h"
#include "engine/ort/ort_session.h"
#include "formats/onnx.h"
#include "tests/unit/engine/guest_help.h"
#include "tests/unit/onnx_make.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static ph_ort *open_ort(const char *test, int threads) {
    ph_ort *ort = NULL;
    ph_err  err = {0};
#ifdef HAS_TSAN
    ph_rc rc = PH_FAIL(&err, PH_EMACHINE, "ThreadSanitizer does not know what %d of its threads do", threads);
#else
    ph_rc rc = ph_ort_open(&ort, threads, &err);
#endif
    CHECK_SAY(!rc || rc == PH_EMACHINE, "%s", err.msg);
    if (rc) printf("%s: skipped: %s\n", test, err.msg);
    return ort;
}

/* Y[rows, 4] = X[rows, 4] + B[4]. */
static om_bytes add_model(const float b[4]) {
    om_bytes g = {.n = 0}, node = om_node("Add", "", "X,B", "Y"), t = om_tensor("B", 1, 1, (int64_t[]){4});
    om_sub(&g, 1, &node);
    om_data(&t, 9, b, 16);
    om_sub(&g, 5, &t);
    om_text(&g, 2, "add");
    om_value(&g, 11, "X", 1, "rows,4");
    om_value(&g, 12, "Y", 1, "rows,4");
    return om_model(&g, 17);
}

/* Y = op(X, W), W of these axes: of its numbers only a name is there. */
static om_bytes weight_model(const char *op, int rank, const int64_t *dim, const char *axes) {
    om_bytes g = {.n = 0}, node = om_node(op, "", "X,W", "Y"), t = om_tensor("W", 1, rank, dim), e = {.n = 0};
    om_text(&e, 1, "location");
    om_text(&e, 2, "elsewhere");
    om_sub(&t, 13, &e);
    om_int(&t, 14, 1);
    om_text(&g, 2, "g");
    om_sub(&g, 1, &node);
    om_sub(&g, 5, &t);
    om_value(&g, 11, "X", 1, axes);
    om_value(&g, 12, "Y", 1, axes);
    return om_model(&g, 17);
}

static const float four[4] = {1, 2, 3, 4};

static ph_ort_session *open_bytes(ph_ort *ort, const om_bytes *m, const ph_ort_how *how) {
    ph_err             err = {0};
    ph_ort_session    *s = NULL;
    const ph_ort_model model = {.name = "test", .bytes = m->at, .n = m->n};
    CHECK_SAY(!ph_ort_session_open(&s, ort, &model, how, &err), "%s", err.msg);
    return s;
}

static ph_ort_array rows_of(float *data, int64_t n) {
    return (ph_ort_array){.rank = 2, .dim = {n, 4}, .data = data, .bytes = (size_t)n * 16};
}

/* ---- libraries ---- */

void test_ort_no_library(void) {
    static const struct {
        const char *path, *part;
    } rows[] = {{"tests/unit/main.c", "cannot be loaded"},
                {"libc.so.6", "no ONNX Runtime"},
                {"tests/none.so", "cannot be loaded"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_ort_api api;
        ph_err     err = {0};
        ph_rc      rc = ph_ort_api_load(&api, rows[i].path, &err);
        CHECK_SAY(rc == PH_EMACHINE, "row %zu: %s", i, ph_rc_name(rc));
        CHECK_SAY(strstr(err.msg, rows[i].part) && strstr(err.msg, rows[i].path), "row %zu: %s", i, err.msg);
        CHECK_SAY(strstr(err.msg, "make ort"), "row %zu: %s", i, err.msg);
    }
}

void test_ort_library(void) {
    ph_ort           *ort = open_ort("ort_library", 1);
    const ph_ort_api *api = NULL;
    ph_ort_library    lib;
    if (!ort) return;
    CHECK(!ph_ort_api_get(&api, NULL));
    CHECK(!ph_ort_probe(&lib, NULL));
    CHECK(!strcmp(lib.release, api->release) && !strncmp(lib.release, "1.", 2));
    CHECK(api->version >= PH_ORT_API_MIN && api->version <= PH_ORT_API_MAX);
    CHECK_SAY(strstr(api->GetBuildInfoString(), "ORT Build Info"), "%s", api->GetBuildInfoString());
    CHECK((api->GetEpDevices != NULL) == (api->release_minor >= 22));
    ph_ort_close(ort);
}

/* ---- what a model takes and gives ---- */

void test_ort_describes(void) {
    ph_ort  *ort = open_ort("ort_describes", 1);
    om_bytes g = {.n = 0}, node = om_node("Gather", "", "table,ids", "rows");
    if (!ort) return;
    om_text(&g, 2, "g");
    om_sub(&g, 1, &node);
    om_value(&g, 11, "table", 10, "7,?");
    om_value(&g, 11, "ids", 7, "batch,length");
    om_value(&g, 12, "rows", 10, "batch,length,?");
    om_bytes        m = om_model(&g, 17);
    ph_ort_session *s = open_bytes(ort, &m, NULL);
    if (s) {
        const ph_ort_io *ids = ph_ort_input(s, 1), *rows = ph_ort_output(s, 0);
        CHECK(ph_ort_n_inputs(s) == 2 && ph_ort_n_outputs(s) == 1);
        CHECK(ph_ort_find_input(s, "ids") == 1 && ph_ort_find_input(s, "rows") == -1);
        CHECK(ph_ort_find_output(s, "rows") == 0);
        CHECK(!strcmp(ids->name, "ids") && ids->type == PH_ONNX_INT64 && ids->dtype == PH_I64);
        CHECK(ids->rank == 2 && ids->dim[0] == -1 && !strcmp(ids->axis[1], "length"));
        CHECK(rows->rank == 3 && rows->dtype == PH_F16 && !strcmp(rows->axis[0], "batch"));
        CHECK(ph_ort_input(s, 0)->dim[0] == 7 && !*ph_ort_input(s, 0)->axis[0]);
        CHECK(!ph_ort_input(s, 2) && !ph_ort_output(s, 1));
    }
    ph_ort_session_close(s);
    ph_ort_close(ort);
}

/* ---- memory ---- */

void test_ort_in_place(void) {
    static const int64_t sizes[] = {1, 300, 7, 300, 64, 1};
    static float         x[300 * 4], y[300 * 4];
    ph_ort              *ort = open_ort("ort_in_place", 2);
    om_bytes             m = add_model(four);
    size_t               held = 0;
    if (!ort) return;
    ph_ort_session *s = open_bytes(ort, &m, NULL);
    for (int i = 0; i < 300 * 4; i++) x[i] = (float)i;
    for (size_t i = 0; s && i < sizeof sizes / sizeof *sizes; i++) {
        ph_ort_array in = rows_of(x, sizes[i]), out = rows_of(y, sizes[i]), got;
        ph_err       err = {0};
        memset(y, 0, sizeof y);
        CHECK(!ph_ort_bind_input(s, 0, &in, &err) && !ph_ort_bind_output(s, 0, &out, &err));
        CHECK_SAY(!ph_ort_run(s, NULL, &err), "%s", err.msg);
        CHECK(!ph_ort_result(s, 0, &got, &err) && got.data == y && got.rank == 2 && got.dim[0] == sizes[i]);
        CHECK(y[0] == 1 && y[4 * sizes[i] - 1] == x[4 * sizes[i] - 1] + 4);
        CHECK(sizes[i] == 300 || y[4 * sizes[i]] == 0);
        if (!i) held = ph_ort_memory_read().now;
        CHECK_SAY(ph_ort_memory_read().now == held, "size %zu: %zu bytes", i, ph_ort_memory_read().now);
    }
    ph_ort_session_close(s);
    CHECK(ph_ort_memory_read().now == 0);
    ph_ort_close(ort);
}

/* An output left to ORT lies in counted memory, of whatever shape the run gave it. */
void test_ort_unbound_output(void) {
    float    x[8] = {0};
    ph_ort  *ort = open_ort("ort_unbound_output", 1);
    om_bytes m = add_model(four);
    if (!ort) return;
    ph_ort_session *s = open_bytes(ort, &m, NULL);
    size_t          before = ph_ort_memory_read().now;
    for (int64_t n = 1; s && n <= 2; n++) {
        ph_ort_array in = rows_of(x, n), got;
        ph_err       err = {0};
        CHECK(ph_ort_result(s, 0, &got, &err) == PH_EUSAGE);
        CHECK(!ph_ort_bind_input(s, 0, &in, &err) && !ph_ort_run(s, NULL, &err));
        CHECK(!ph_ort_result(s, 0, &got, &err) && got.dim[0] == n && got.bytes == (size_t)n * 16);
        CHECK(got.type == PH_ONNX_FLOAT && ((float *)got.data)[4 * n - 1] == 4);
        CHECK(ph_ort_memory_read().now > before);
        CHECK(!ph_ort_bind_output(s, 0, NULL, &err));
    }
    ph_ort_session_close(s);
    ph_ort_close(ort);
}

enum { WIDE = 256 };

/* An initializer by its place: what stands there later is what a run sees, so nobody copied it. */
void test_ort_shared_weights(void) {
    static float w[WIDE], x[WIDE], y[WIDE];
    ph_ort      *ort = open_ort("ort_shared_weights", 1);
    om_bytes     m = weight_model("Add", 1, (int64_t[]){WIDE}, "rows,256");
    if (!ort) return;
    ph_err              err = {0};
    ph_ort_session     *s = NULL;
    const ph_ort_weight good = {
        "W", {.type = PH_ONNX_FLOAT, .rank = 1, .dim = {WIDE}, .data = w, .bytes = sizeof w}};
    ph_ort_weight bad = good;
    ph_ort_model  model = {.name = "test", .bytes = m.at, .n = m.n, .weight = &good, .n_weights = 1};
    CHECK_SAY(!ph_ort_session_open(&s, ort, &model, NULL, &err), "%s", err.msg);
    const ph_ort_array in = {.rank = 2, .dim = {1, WIDE}, .data = x, .bytes = sizeof x};
    const ph_ort_array out = {.rank = 2, .dim = {1, WIDE}, .data = y, .bytes = sizeof y};
    w[3] = 4;
    if (s) {
        CHECK(!ph_ort_bind_input(s, 0, &in, &err) && !ph_ort_bind_output(s, 0, &out, &err));
        CHECK(!ph_ort_run(s, NULL, &err) && y[3] == 4);
        w[3] = 40;
        CHECK(!ph_ort_run(s, NULL, &err) && y[3] == 40);
    }
    ph_ort_session_close(s);
    model.weight = &bad;
    bad.name = "V";
    CHECK(ph_ort_session_open(&s, ort, &model, NULL, &err) && !s); /* the model has no such initializer */
    bad = good;
    bad.array.bytes--;
    CHECK(ph_ort_session_open(&s, ort, &model, NULL, &err) == PH_EMISMATCH && !s);
    model.n_weights = 0;
    CHECK(ph_ort_session_open(&s, ort, &model, NULL, &err) && !s); /* nobody gives its numbers */
    ph_ort_close(ort);
}

/* External data in a file: read from there, or, given by its place too, from there, and never copied. */
void test_ort_weights_in_files(void) {
    static float w[WIDE], x[WIDE], y[WIDE];
    char         folder[] = "/tmp/ph-weights-XXXXXX", path[64];
    ph_ort      *ort = open_ort("ort_weights_in_files", 1);
    om_bytes     m = weight_model("Add", 1, (int64_t[]){WIDE}, "rows,256");
    if (!ort) return;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/elsewhere", folder);
    FILE *f = fopen(path, "w");
    w[3] = 4;
    CHECK(f && fwrite(w, sizeof w, 1, f) == 1 && !fclose(f));
    w[3] = 40;
    const ph_ort_weight weight = {
        "W", {.type = PH_ONNX_FLOAT, .rank = 1, .dim = {WIDE}, .data = w, .bytes = sizeof w}};
    const ph_ort_array in = {.rank = 2, .dim = {1, WIDE}, .data = x, .bytes = sizeof x};
    const ph_ort_array out = {.rank = 2, .dim = {1, WIDE}, .data = y, .bytes = sizeof y};
    const ph_ort_api  *api = NULL;
    CHECK(!ph_ort_api_get(&api, NULL));
    for (size_t given = api->release_minor < 22; given < 2;
         given++) { /* before, it looked in the working folder */
        ph_err             err = {0};
        ph_ort_session    *s = NULL;
        const ph_ort_model model = {
            .name = "test", .bytes = m.at, .n = m.n, .folder = folder, .weight = &weight, .n_weights = given};
        CHECK_SAY(!ph_ort_session_open(&s, ort, &model, NULL, &err), "%s", err.msg);
        CHECK(s && !ph_ort_bind_input(s, 0, &in, &err) && !ph_ort_bind_output(s, 0, &out, &err));
        CHECK_SAY(s && !ph_ort_run(s, NULL, &err) && y[3] == (given ? 40 : 4), "given %zu: %g", given,
                  (double)y[3]);
        w[3] = 50;
        CHECK_SAY(s && !ph_ort_run(s, NULL, &err) && y[3] == (given ? 50 : 4), "given %zu: %g", given,
                  (double)y[3]);
        w[3] = 40;
        ph_ort_session_close(s);
    }
    CHECK(!unlink(path) && !rmdir(folder));
    ph_ort_close(ort);
}

/* Weights that are packed for speed are held once more by ORT; lean, they are not. */
void test_ort_lean(void) {
    static float        w[WIDE * WIDE];
    ph_ort             *ort = open_ort("ort_lean", 1);
    om_bytes            m = weight_model("MatMul", 2, (int64_t[]){WIDE, WIDE}, "rows,256");
    size_t              held[2] = {0};
    const ph_ort_weight weight = {
        "W", {.type = PH_ONNX_FLOAT, .rank = 2, .dim = {WIDE, WIDE}, .data = w, .bytes = sizeof w}};
    if (!ort) return;
    for (int lean = 0; lean < 2; lean++) {
        ph_err             err = {0};
        ph_ort_session    *s = NULL;
        const ph_ort_how   how = {.is_lean = lean};
        const ph_ort_model model = {.bytes = m.at, .n = m.n, .weight = &weight, .n_weights = 1};
        CHECK_SAY(!ph_ort_session_open(&s, ort, &model, &how, &err), "%s", err.msg);
        held[lean] = ph_ort_memory_read().now;
        ph_ort_session_close(s);
    }
    CHECK_SAY(held[0] >= sizeof w && held[0] < 2 * sizeof w, "packed: %zu", held[0]);
    CHECK_SAY(held[1] < sizeof w / 16, "lean: %zu", held[1]);
    ph_ort_close(ort);
}

/* A limit that a run meets is an error, and the session goes on when there is room. */
void test_ort_limit(void) {
    static float x[300 * 4];
    ph_ort      *ort = open_ort("ort_limit", 1);
    om_bytes     m = add_model(four);
    if (!ort) return;
    ph_ort_session *s = open_bytes(ort, &m, NULL);
    ph_ort_array    in = rows_of(x, 300), got;
    ph_err          err = {0};
    if (s) {
        CHECK(!ph_ort_bind_input(s, 0, &in, &err));
        ph_ort_memory_mark();
        ph_ort_memory_limit(ph_ort_memory_read().now + 1000);
        uint64_t refused = ph_ort_memory_read().refused;
        CHECK(ph_ort_run(s, NULL, &err) == PH_ENOMEM);
        CHECK(ph_ort_memory_read().refused == refused + 1);
        ph_ort_memory_limit(0);
        CHECK(!ph_ort_run(s, NULL, &err) && !ph_ort_result(s, 0, &got, &err));
        CHECK(ph_ort_memory_read().peak >= ph_ort_memory_read().now);
    }
    ph_ort_session_close(s);
    ph_ort_close(ort);
}

/* ---- threads, stopping ---- */

void test_ort_pool(void) {
    om_bytes m = add_model(four);
    for (int n = 1; n <= 3; n += 2) {
        ph_ort *ort = open_ort("ort_pool", n), *other = NULL;
        float   x[4] = {0};
        if (!ort) return;
        CHECK(ph_ort_threads() == n - 1);
        CHECK(!ph_ort_open(&other, n + 1, NULL) &&
              ph_ort_threads() == n - 1); /* its sessions have their own */
        for (int i = 0; i < 2; i++) {
            ph_ort_session *s = open_bytes(i ? other : ort, &m, NULL);
            ph_ort_array    in = rows_of(x, 1);
            CHECK(s && !ph_ort_bind_input(s, 0, &in, NULL) && !ph_ort_run(s, NULL, NULL));
            ph_ort_session_close(s);
        }
        ph_ort_close(other);
        CHECK(ph_ort_threads() == n - 1);
        ph_ort_close(ort);
        CHECK(ph_ort_threads() == 0);
    }
}

enum { CHAIN = 240, CHAIN_WIDE = 512 };

/* X W W ... W: seconds of work. */
static om_bytes chain_model(void) {
    om_bytes g = {.n = 0};
    om_text(&g, 2, "chain");
    for (int i = 0; i < CHAIN; i++) {
        char     in[32], out[32];
        om_bytes n = {.n = 0};
        snprintf(in, sizeof in, i ? "t%d,W" : "X,W", i);
        snprintf(out, sizeof out, i + 1 < CHAIN ? "t%d" : "Y", i + 1);
        om_names(&n, 1, in);
        om_names(&n, 2, out);
        om_text(&n, 4, "MatMul");
        om_sub(&g, 1, &n);
    }
    om_value(&g, 11, "X", 1, "512,512");
    om_value(&g, 11, "W", 1, "512,512");
    om_value(&g, 12, "Y", 1, "512,512");
    return om_model(&g, 17);
}

static void *stop_soon(void *flag) {
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    atomic_store((atomic_int *)flag, 1);
    return NULL;
}

void test_ort_stops(void) {
    static float x[CHAIN_WIDE * CHAIN_WIDE];
    ph_ort      *ort = open_ort("ort_stops", 2);
    om_bytes     m = chain_model();
    if (!ort) return;
    ph_ort_session *s = open_bytes(ort, &m, NULL);
    ph_ort_array    a = {.rank = 2, .dim = {CHAIN_WIDE, CHAIN_WIDE}, .data = x, .bytes = sizeof x};
    ph_err          err = {0};
    for (int i = 0; s && i < 2; i++) {
        atomic_int flag = 0;
        pthread_t  thread;
        CHECK(!ph_ort_bind_input(s, 0, &a, &err) && !ph_ort_bind_input(s, 1, &a, &err));
        CHECK(!pthread_create(&thread, NULL, stop_soon, &flag));
        ph_rc rc = ph_ort_run(s, &flag, &err);
        CHECK_SAY(rc == PH_ECANCEL, "%s %s", ph_rc_name(rc), err.msg);
        pthread_join(thread, NULL);
        CHECK(ph_ort_run(s, &flag, &err) == PH_ECANCEL); /* set before */
    }
    ph_ort_session_close(s);
    om_bytes     small = add_model(four);
    ph_ort_array in = rows_of(x, 1);
    atomic_int   never = 0;
    s = open_bytes(ort, &small, NULL);
    CHECK(s && !ph_ort_bind_input(s, 0, &in, &err) && !ph_ort_run(s, &never, &err) &&
          !ph_ort_run(s, NULL, &err));
    ph_ort_session_close(s);
    ph_ort_close(ort);
}

/* Nodes of runs are spans by our clock, and nothing is left behind. */
void test_ort_trace(void) {
    float     x[4] = {0};
    ph_ort   *ort = open_ort("ort_trace", 1);
    om_bytes  m = add_model(four);
    ph_trace *t = NULL;
    ph_span   span[8];
    char      folder[] = "/tmp/ph-trace-XXXXXX";
    if (!ort) return;
    CHECK(mkdtemp(folder) && !setenv("TMPDIR", folder, 1) && !ph_trace_open(&t, 8, NULL));
    const ph_ort_how how = {.trace = t};
    ph_ort_session  *s = open_bytes(ort, &m, &how);
    ph_ort_array     in = rows_of(x, 1);
    uint64_t         before = ph_clock_ns();
    ph_err           err = {0};
    CHECK(s && !ph_ort_bind_input(s, 0, &in, &err) && !ph_ort_run(s, NULL, &err) &&
          !ph_ort_run(s, NULL, &err));
    uint64_t after = ph_clock_ns();
    CHECK_SAY(s && !ph_ort_profile(s, &err), "%s", err.msg);
    CHECK(s && !ph_ort_run(s, NULL, &err) && !ph_ort_profile(s, &err));
    size_t n = ph_trace_spans(t, span, 8);
    CHECK_SAY(n == 2 && ph_trace_count(t, "ort.Add") == 2, "%zu spans", n);
    enum { SLACK = 500 * 1000 * 1000 }; /* two clocks are read one after the other */
    for (size_t i = 0; i < n; i++) {
        CHECK(!strcmp(span[i].name, "ort.Add") && span[i].arg == i && span[i].end_ns >= span[i].begin_ns);
        CHECK(span[i].begin_ns + SLACK > before && span[i].end_ns < after + SLACK);
    }
    ph_ort_session_close(s);
    s = open_bytes(ort, &m, &how); /* closed without a run */
    ph_ort_session_close(s);
    const ph_ort_model none = {.bytes = "no model", .n = 8};
    CHECK(ph_ort_session_open(&s, ort, &none, &how, &err) == PH_EFORMAT);
    CHECK(!unsetenv("TMPDIR") && !rmdir(folder));
    ph_trace_close(t);
    ph_ort_close(ort);
}

static size_t entries_of(const char *folder) {
    size_t n = 0;
    DIR   *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

/* The profile lies under TMPDIR however long that is, and what cannot be is said. */
void test_ort_trace_folders(void) {
    static char deep[5000];
    char        folder[] = "/tmp/ph-trace-XXXXXX", longer[128];
    ph_ort     *ort = open_ort("ort_trace_folders", 1);
    om_bytes    m = add_model(four);
    ph_trace   *t = NULL;
    ph_err      err = {0};
    if (!ort) return;
    CHECK(mkdtemp(folder) && !ph_trace_open(&t, 8, NULL));
    snprintf(longer, sizeof longer, "%s/a_long_temporary_directory_name_of_more_than_forty", folder);
    CHECK(!mkdir(longer, 0700) && !setenv("TMPDIR", longer, 1));
    const ph_ort_how   how = {.trace = t};
    const ph_ort_model model = {.name = "test", .bytes = m.at, .n = m.n};
    ph_ort_session    *s = open_bytes(ort, &m, &how);
    CHECK_SAY(entries_of(longer) == 1, "%zu folders", entries_of(longer));
    ph_ort_session_close(s);
    CHECK(entries_of(longer) == 0 && !rmdir(longer));
    CHECK(ph_ort_session_open(&s, ort, &model, &how, &err) == PH_EIO);
    CHECK_SAY(strstr(err.msg, "No such file") && strstr(err.msg, "TMPDIR") && strstr(err.msg, folder), "%s",
              err.msg);
    memset(deep, 'a', sizeof deep - 1);
    CHECK(!setenv("TMPDIR", deep, 1) && ph_ort_session_open(&s, ort, &model, &how, &err) == PH_EIO);
    CHECK_SAY(strstr(err.msg, "TMPDIR has 4999 bytes"), "%s", err.msg);
    CHECK(!unsetenv("TMPDIR") && !rmdir(folder));
    ph_trace_close(t);
    ph_ort_close(ort);
}

/* ---- errors ---- */

void test_ort_bad_models(void) {
    ph_ort  *ort = open_ort("ort_bad_models", 1);
    om_bytes g = {.n = 0}, node = om_node("Add", "", "X,B", "Y"),
             odd = om_node("FancyGelu", "com.example", "X", "Y");
    if (!ort) return;
    om_text(&g, 2, "g");
    om_value(&g, 11, "X", 1, "rows,4");
    om_value(&g, 12, "Y", 1, "rows,4");
    om_bytes no_b = g, no_op = g;
    om_sub(&no_b, 1, &node);
    om_sub(&no_op, 1, &odd);
    om_bytes dangling = om_model(&no_b, 17), unknown = om_model(&no_op, 17);
    om_opset(&unknown, 8, "com.example", 1);
    const struct {
        ph_ort_model model;
        ph_rc        rc;
        const char  *part;
    } rows[] = {
        {{.bytes = "no model", .n = 8}, PH_EFORMAT, "in memory"},
        {{.path = "tests/none.onnx"}, PH_EPATH, "tests/none.onnx"},
        {{.name = "dangling", .bytes = dangling.at, .n = dangling.n}, PH_EMISMATCH, "B"},
        {{.name = "unknown", .bytes = unknown.at, .n = unknown.n}, PH_EUNSUP, "FancyGelu"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_err          err = {0};
        ph_ort_session *s = NULL;
        ph_rc           rc = ph_ort_session_open(&s, ort, &rows[i].model, NULL, &err);
        CHECK_SAY(rc == rows[i].rc && !s, "row %zu: %s %s", i, ph_rc_name(rc), err.msg);
        CHECK_SAY(strstr(err.msg, rows[i].part), "row %zu: %s", i, err.msg);
    }
    CHECK(ph_ort_memory_read().now == 0);
    ph_ort_close(ort);
}

void test_ort_bad_arrays(void) {
    float    x[8] = {0}, y[8];
    ph_ort  *ort = open_ort("ort_bad_arrays", 1);
    om_bytes m = add_model(four);
    if (!ort) return;
    ph_ort_session *s = open_bytes(ort, &m, NULL);
    ph_err          err = {0};
    ph_ort_array    in = rows_of(x, 2), bad = in, out = rows_of(y, 1);
    if (s) {
        CHECK(ph_ort_run(s, NULL, &err) == PH_EUSAGE && strstr(err.msg, "input X is not bound"));
        bad.type = PH_ONNX_INT64;
        CHECK(ph_ort_bind_input(s, 0, &bad, &err) == PH_EMISMATCH && strstr(err.msg, "float, not int64"));
        bad = in;
        bad.bytes--;
        CHECK(ph_ort_bind_input(s, 0, &bad, &err) == PH_EMISMATCH);
        bad = in;
        bad.dim[0] = -1;
        CHECK(ph_ort_bind_input(s, 0, &bad, &err) == PH_EMISMATCH);
        CHECK(ph_ort_bind_input(s, 1, &in, &err) == PH_EUSAGE &&
              ph_ort_bind_output(s, 1, &out, &err) == PH_EUSAGE);
        bad = (ph_ort_array){.rank = 2, .dim = {1, 3}, .data = x, .bytes = 12};
        CHECK(!ph_ort_bind_input(s, 0, &bad, &err) && ph_ort_run(s, NULL, &err));
        CHECK(!ph_ort_bind_input(s, 0, &in, &err) && !ph_ort_bind_output(s, 0, &out, &err));
        CHECK(ph_ort_run(s, NULL, &err)); /* two rows do not go where one has room */
        out = rows_of(y, 2);
        CHECK(!ph_ort_bind_output(s, 0, &out, &err) && !ph_ort_run(s, NULL, &err) && y[7] == 4);
    }
    ph_ort_session_close(s);
    ph_ort_close(ort);
}

/* ---- options ---- */

void test_ort_options(void) {
    static const char *const key[] = {"session.load_model_format"}, *const value[] = {"ORT"};
    ph_ort  *ort = open_ort("ort_options", 1);
    om_bytes m = add_model(four);
    if (!ort) return;
    ph_ort_session    *s = NULL;
    const ph_ort_model model = {.bytes = m.at, .n = m.n};
    ph_ort_how         how = {.key = key, .value = value, .n_entries = 1};
    CHECK(ph_ort_session_open(&s, ort, &model, &how,
                              NULL)); /* the entry arrived: these bytes are of another format */
    how = (ph_ort_how){.is_plain = 1, .is_exact = 1};
    CHECK(!ph_ort_session_open(&s, ort, &model, &how, NULL));
    ph_ort_session_close(s);
    ph_ort_close(ort);
}

void test_ort_providers(void) {
    ph_ort         *ort = open_ort("ort_providers", 1);
    ph_ort_ep       ep;
    ph_ort_ep_state state;
    ph_err          err = {0};
    char            text[] = "openvino,device=gpu,cache_dir=a=b", none[] = "", odd[] = "cuda,fast";
    CHECK(!ph_ort_ep_read(&ep, text, &err) && !strcmp(ep.name, "openvino") && ep.n == 2);
    CHECK(!strcmp(ep.key[1], "cache_dir") && !strcmp(ep.value[1], "a=b"));
    CHECK(ph_ort_ep_read(&ep, none, &err) == PH_EUSAGE && ph_ort_ep_read(&ep, odd, &err) == PH_EUSAGE);
    CHECK(ph_ort_ep_at(NULL, 0, &state) && !state.is_here &&
          !strcmp(state.reason, "ONNX Runtime is not here"));
    if (!ort) return;
    CHECK(ph_ort_ep_at(ort, 0, &state) && !strcmp(state.name, "cpu") && state.is_here && !*state.reason);
    const ph_ort_ep rows[] = {{.name = "CPUExecutionProvider"},
                              {.name = "cpu", .key = {"a"}, .value = {"b"}, .n = 1},
                              {.name = "nowhere"}};
    CHECK(!ph_ort_ep_check(ort, &rows[0], &err));
    CHECK(ph_ort_ep_check(ort, &rows[1], &err) == PH_EUSAGE);
    CHECK(ph_ort_ep_check(ort, &rows[2], &err) == PH_EMACHINE && strstr(err.msg, "PINHOLE_ORT"));
    CHECK_SAY(strstr(err.msg, "'nowhere'") && strstr(err.msg, "known are cpu, openvino, ") &&
                  strstr(err.msg, ", azure"),
              "%s", err.msg);
    ph_ort_close(ort);
}
