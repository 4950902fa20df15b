/* modal_run.c - see modal_run.h. */
#include "tests/unit/engine/modal_run.h"

#include "tests/unit/engine/guest_help.h"

#include <stdlib.h>
#include <string.h>

static void feed_all(eh_run *r, const ph_graph *g, const ph_feed *feed, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const ph_array *a = &feed[i].array;
        size_t          bytes = (size_t)ph_array_count(a) * ph_dtype_bytes(a->dtype);
        if (bytes) memcpy(r->engine->def->buffer(r->program, ph_graph_find(g, feed[i].name)), a->data, bytes);
    }
}

ph_rc mr_run(const ph_graph *g, ph_syms syms, const ph_feed *feed, size_t n_feeds, int threads,
             unsigned features, float *out, size_t n_out, ph_err *err) {
    eh_run       r;
    ph_run_state state;
    ph_rc        rc = PH_EBUG;
    CHECK(!ph_trace_open(&eh_trace, 64, NULL));
    if (eh_open(&r, g, threads, features, syms, NULL, 0) && eh_bind(&r, syms, NULL)) {
        feed_all(&r, g, feed, n_feeds);
        rc = r.engine->def->run(r.program, &syms, NULL, &state, err);
        const void *y = r.engine->def->buffer(r.program, ph_graph_find(g, "y"));
        if (!rc && n_out) memcpy(out, y, n_out * sizeof *out);
        CHECK(eh_guards_stand(&r) && ph_trace_count(eh_trace, "eval") == 0);
    }
    eh_close(&r);
    ph_trace_close(eh_trace);
    eh_trace = NULL;
    return rc;
}

/* ONNX Runtime, where it is here, given the spelled-out form, says the same. */
static void compare_ort(const ph_graph *g, ph_syms syms, const ph_feed *feed, size_t n_feeds,
                        const ph_array *y, float bound) {
    eh_run               r = {0};
    ph_err               err = {0};
    ph_compile           how = {.max = syms};
    const ph_engine_def *ort = ph_engine_find("ort");
#ifdef HAS_TSAN
    return;
#endif
    for (size_t i = 0; i < n_feeds; i++)
        if (!ph_array_count(&feed[i].array)) return;
    ph_kernels_init(&r.kernels, 0);
    CHECK(!ph_threads_open(&r.threads, 2, NULL));
    const ph_engine_env env = {.threads = r.threads, .kernels = &r.kernels, .is_exact = 1};
    ph_rc               rc = ort->open(&r.engine, &env, &err);
    CHECK_SAY(!rc || rc == PH_EMACHINE, "%s", err.msg);
    if (!rc) {
        rc = ort->compile(r.engine, g, &how, &r.program, &err);
        CHECK_SAY(!rc, "ONNX Runtime: %s / %s", err.msg, err.n_notes ? err.note[0] : "");
        if (!rc && eh_bind(&r, syms, NULL)) {
            feed_all(&r, g, feed, n_feeds);
            eh_go(&r, syms);
            eh_close_to(ort->buffer(r.program, ph_graph_find(g, "y")), y->data, (size_t)ph_array_count(y),
                        bound, "y, ONNX Runtime");
        }
    }
    eh_close(&r);
}

size_t mr_compare(const ph_graph *g, ph_syms syms, const ph_feed *feed, size_t n_feeds, float bound) {
    static const int counts[] = {1, 2, 4};
    ph_kernels       plain;
    ph_arena         arena;
    ph_array         y = {0};
    ph_err           err = {0};
    ph_kernels_init(&plain, 0);
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, NULL));
    ph_rc rc = ph_graph_eval(g, &syms, feed, n_feeds, "y", &y, &plain, &arena, &err);
    CHECK_SAY(!rc, "definition: %s", err.msg);
    size_t n = rc ? 0 : (size_t)ph_array_count(&y);
    float *got = calloc(n + 1, sizeof *got);
    CHECK(got);
    for (size_t i = 0; got && !rc && i < sizeof counts / sizeof *counts; i++) {
        CHECK_SAY(!mr_run(g, syms, feed, n_feeds, counts[i], 0, got, n, &err), "%s", err.msg);
        eh_same(got, y.data, n, "y, plain");
        CHECK_SAY(!mr_run(g, syms, feed, n_feeds, counts[i], ph_cpu_features(), got, n, &err), "%s", err.msg);
        eh_close_to(got, y.data, n, bound, "y, fast");
    }
    if (n) compare_ort(g, syms, feed, n_feeds, &y, bound > 1e-5f ? bound : 1e-5f);
    free(got);
    ph_arena_close(&arena);
    return n;
}
