/* openvino_test.c - OpenVINO: its entries, how models are compiled, stopping, errors.
 *
 * Where it is not here (`make openvino`), each test says so and is over; what is said of libraries that are
 * none is tested everywhere.
 */
#include "base/cpu.h"
#include "engine/openvino/openvino_api.h"
#include "engine/openvino/openvino_model.h"
#include "tests/unit/engine/guest_help.h"
#include "tests/unit/onnx_make.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <time.h>

static ph_openvino *open_library(const char *test, int threads) {
    ph_openvino *o = NULL;
    ph_err       err = {0};
    keep_few();
#ifdef HAS_TSAN
    ph_rc rc = PH_FAIL(&err, PH_EMACHINE, "ThreadSanitizer does not know what %d of its threads do", threads);
#else
    ph_rc rc = ph_openvino_open(&o, threads, &err);
#endif
    CHECK_SAY(!rc || rc == PH_EMACHINE, "%s", err.msg);
    if (rc) printf("%s: skipped: %s\n", test, err.msg);
    return o;
}

static const char *const x_name[] = {"X"};

/* n products of X [512, 512] by itself, Y at the end. */
static om_bytes chain_model(int n) {
    om_bytes g = {.n = 0};
    om_text(&g, 2, "chain");
    for (int i = 0; i < n; i++) {
        char     in[32], out[32];
        om_bytes node = {.n = 0};
        snprintf(in, sizeof in, i ? "t%d,X" : "X,X", i);
        snprintf(out, sizeof out, i + 1 < n ? "t%d" : "Y", i + 1);
        om_names(&node, 1, in);
        om_names(&node, 2, out);
        om_text(&node, 4, "MatMul");
        om_sub(&g, 1, &node);
    }
    om_value(&g, 11, "X", 1, "512,512");
    om_value(&g, 12, "Y", 1, "512,512");
    return om_model(&g, 17);
}

static ph_rc open_bytes(ph_openvino_model **m, ph_openvino *o, const void *bytes, size_t n, const char *out,
                        ph_err *err) {
    const ph_openvino_source s = {
        .name = "test", .bytes = bytes, .n = n, .in = x_name, .n_in = 1, .out = &out, .n_out = 1};
    return ph_openvino_model_open(m, o, &s, err);
}

/* ---- libraries ---- */

void test_openvino_no_library(void) {
    static const struct {
        const char *path, *part;
    } rows[] = {{"tests/unit/main.c", "cannot be loaded"},
                {"libc.so.6", "no OpenVINO"},
                {"tests/none.so", "cannot be loaded"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_openvino_api api;
        ph_err          err = {0};
        ph_rc           rc = ph_openvino_api_load(&api, rows[i].path, &err);
        CHECK_SAY(rc == PH_EMACHINE, "row %zu: %s", i, ph_rc_name(rc));
        CHECK_SAY(strstr(err.msg, rows[i].part) && strstr(err.msg, rows[i].path), "row %zu: %s", i, err.msg);
        CHECK_SAY(strstr(err.msg, "make openvino"), "row %zu: %s", i, err.msg);
    }
}

void test_openvino_library(void) {
    ph_openvino           *o = open_library("openvino_library", 1);
    const ph_openvino_api *api = NULL;
    ph_openvino_library    lib;
    if (!o) return;
    CHECK(!ph_openvino_api_get(&api, NULL) && !ph_openvino_probe(&lib, NULL));
    CHECK(!strcmp(lib.release, api->release) && !strncmp(lib.release, "20", 2));
    CHECK(api->year >= PH_OPENVINO_YEAR_MIN && strchr(lib.path, '/'));
    ph_openvino_close(o);
}

/* ---- models ---- */

static int is_set(const ph_openvino_model *m, const char *key, const char *value) {
    char   text[64] = "";
    ph_err err = {0};
    CHECK_SAY(!ph_openvino_property(m, key, text, sizeof text, &err), "%s", err.msg);
    int same = !strcmp(text, value);
    CHECK_SAY(same, "%s is %s, not %s", key, text, value);
    return same;
}

/* Floats are floats, and the threads are as many as were asked for and there are processors, wherever they
 * run. */
void test_openvino_how(void) {
    for (int threads = 1; threads <= 3; threads++) {
        ph_openvino       *o = open_library("openvino_how", threads);
        om_bytes           bytes = chain_model(1);
        ph_openvino_model *m = NULL;
        char               number[8], text[8];
        ph_err             err = {0};
        if (!o) return;
        snprintf(number, sizeof number, "%d", threads < ph_cpu_count() ? threads : ph_cpu_count());
        CHECK_SAY(!open_bytes(&m, o, bytes.at, bytes.n, "Y", &err), "%s", err.msg);
        if (m)
            CHECK(is_set(m, "INFERENCE_NUM_THREADS", number) &&
                  is_set(m, "INFERENCE_PRECISION_HINT", "f32") && is_set(m, "NUM_STREAMS", "1") &&
                  is_set(m, "ENABLE_CPU_PINNING", "NO"));
        if (m) CHECK(ph_openvino_property(m, "NO_SUCH_THING", text, sizeof text, &err) < 0);
        ph_openvino_model_close(m);
        ph_openvino_close(o);
    }
}

void test_openvino_bad_models(void) {
    ph_openvino       *o = open_library("openvino_bad_models", 1);
    om_bytes           good = chain_model(1), g = {.n = 0}, node = om_node("NoSuchThing", "", "X", "Y");
    ph_openvino_model *m = NULL;
    ph_err             err = {0};
    if (!o) return;
    CHECK(open_bytes(&m, o, "no model", 8, "Y", &err) == PH_EUNSUP && !m &&
          strstr(err.msg, "OpenVINO, test"));
    CHECK(open_bytes(&m, o, good.at, good.n / 2, "Y", &err) && !m);
    om_text(&g, 2, "g");
    om_sub(&g, 1, &node);
    om_value(&g, 11, "X", 1, "2");
    om_value(&g, 12, "Y", 1, "2");
    om_bytes unknown = om_model(&g, 17);
    CHECK(open_bytes(&m, o, unknown.at, unknown.n, "Y", &err) == PH_EUNSUP && !m);
    CHECK_SAY(strstr(err.msg, "NoSuchThing") && !strstr(err.msg, "Exception from"), "%s", err.msg);
    ph_openvino_close(o);
}

void test_openvino_bad_arrays(void) {
    static float       x[512 * 512], few[4];
    ph_openvino       *o = open_library("openvino_bad_arrays", 1);
    om_bytes           bytes = chain_model(1);
    ph_openvino_model *m = NULL;
    ph_openvino_array  a = {.rank = 2, .dim = {512, 512}, .data = x, .bytes = sizeof x}, out;
    ph_err             err = {0};
    if (!o) return;
    CHECK_SAY(!open_bytes(&m, o, bytes.at, bytes.n, "Y", &err), "%s", err.msg);
    if (m) {
        CHECK(ph_openvino_run(m, NULL, &err) == PH_EUSAGE && strstr(err.msg, "X is not bound"));
        CHECK(ph_openvino_bind_input(m, 1, &a, &err) == PH_EUSAGE);
        a.bytes--;
        CHECK(ph_openvino_bind_input(m, 0, &a, &err) == PH_EMISMATCH && strstr(err.msg, "1048576 bytes"));
        a.rank = PH_OPENVINO_RANK_MAX + 1;
        CHECK(ph_openvino_bind_input(m, 0, &a, &err) == PH_ELIMIT);
        ph_openvino_array other = {.rank = 1, .dim = {4}, .data = few, .bytes = sizeof few};
        CHECK(ph_openvino_bind_input(m, 0, &other, &err) ||
              ph_openvino_run(m, NULL, &err)); /* another rank */
        a.rank = 2;
        a.bytes++;
        CHECK(!ph_openvino_bind_input(m, 0, &a, &err) && !ph_openvino_run(m, NULL, &err));
        CHECK(!ph_openvino_result(m, 0, &out, &err) && out.rank == 2 && out.bytes == sizeof x);
        CHECK(ph_openvino_result(m, 1, &out, &err) == PH_EUSAGE);
    }
    ph_openvino_model_close(m);
    ph_openvino_close(o);
}

/* ---- stopping ---- */

static void *stop_soon(void *flag) {
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    atomic_store((atomic_int *)flag, 1);
    return NULL;
}

void test_openvino_stops(void) {
    static float       x[512 * 512];
    ph_openvino       *o = open_library("openvino_stops", 2);
    om_bytes           bytes = chain_model(240);
    ph_openvino_model *m = NULL;
    ph_openvino_array  a = {.rank = 2, .dim = {512, 512}, .data = x, .bytes = sizeof x};
    ph_err             err = {0};
    atomic_int         never = 0;
    if (!o) return;
    CHECK_SAY(!open_bytes(&m, o, bytes.at, bytes.n, "Y", &err), "%s", err.msg);
    CHECK(m && !ph_openvino_bind_input(m, 0, &a, &err));
    for (int i = 0; m && i < 2; i++) {
        atomic_int flag = 0;
        pthread_t  thread;
        CHECK(!pthread_create(&thread, NULL, stop_soon, &flag));
        ph_rc rc = ph_openvino_run(m, &flag, &err);
        CHECK_SAY(rc == PH_ECANCEL, "%s %s", ph_rc_name(rc), err.msg);
        pthread_join(thread, NULL);
        CHECK(ph_openvino_run(m, &flag, &err) == PH_ECANCEL); /* set before */
    }
    CHECK(m && !ph_openvino_run(m, &never, &err) && !ph_openvino_run(m, NULL, &err));
    ph_openvino_model_close(m);
    ph_openvino_close(o);
}
