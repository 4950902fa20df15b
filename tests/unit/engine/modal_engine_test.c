/* modal_engine_test.c - the lowerings of multimodal operators: threads, sizes, and rows that do not see their
 * neighbours. */
#include "tests/unit/engine/modal_run.h"

#include <stdlib.h>
#include <string.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/engine/tests.def"
#undef PH_TEST

static void finish(ph_graph *g, int y) {
    ph_err err = {0};
    ph_graph_output(g, y, "y");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
}

static ph_feed fed(const char *name, ph_dtype t, void *data, int rank, int64_t a, int64_t b) {
    return (ph_feed){name, {.data = data, .dtype = t, .rank = rank, .dim = {a, b}}};
}

/* ---- PoolInject ---- */

enum { INJECT_D = 77, INJECT_ROWS = 600, INJECT_FEATURES = 150 };

static ph_graph *inject_graph(eh_store *s, int has_segments) {
    ph_graph *g;
    eh_store_open(s);
    CHECK(!ph_graph_open(&g, "language", NULL));
    ph_dim r = ph_dim_sym(PH_SYM_R), n = ph_dim_sym(PH_SYM_N), d = ph_dim_of(INJECT_D);
    int    h = ph_graph_input(g, "h", PH_F32, ph_shape_of(2, r, d));
    int    v = ph_graph_input(g, "v", PH_F32, ph_shape_of(2, n, d)), t = -1;
    if (has_segments) t = ph_graph_input(g, "takes", PH_I32, ph_shape_of(2, r, ph_dim_of(2)));
    int scale = eh_weight(g, s, "scale", ph_shape_of(1, d), PH_BF16, 1, 0.3f, 0);
    int bias = eh_weight(g, s, "bias", ph_shape_of(1, d), PH_F32, 0, 0.3f, 0);
    finish(g, ph_graph_node(g, "PoolInject", PH_IN(h, v, scale, bias, t), PH_ATTRS(PH_FLOAT("alpha", 0.7)),
                            "o"));
    return g;
}

static void run_rows(const ph_graph *g, float *h, float *v, int32_t (*takes)[2], int at, int n, int threads,
                     float *y) {
    ph_err        err = {0};
    const ph_feed feed[] = {fed("h", PH_F32, h + at * INJECT_D, 2, n, INJECT_D),
                            fed("v", PH_F32, v, 2, INJECT_FEATURES, INJECT_D),
                            fed("takes", PH_I32, takes[at], 2, n, 2)};
    ph_rc         rc = mr_run(g, eh_syms(n, 0, 0, 0, INJECT_FEATURES), feed, 3, threads, ph_cpu_features(), y,
                              (size_t)n * INJECT_D, &err);
    CHECK_SAY(!rc, "%s", err.msg);
}

/* However a prompt is cut: the same bits. */
static void in_chunks(const ph_graph *g, float *h, float *v, int32_t (*takes)[2]) {
    static float all[INJECT_ROWS * INJECT_D], part[INJECT_ROWS * INJECT_D];
    run_rows(g, h, v, takes, 0, INJECT_ROWS, 2, all);
    for (int at = 0; at < INJECT_ROWS; at += 113) {
        int n = INJECT_ROWS - at < 113 ? INJECT_ROWS - at : 113;
        run_rows(g, h, v, takes, at, n, 1, part);
        eh_same(part, all + at * INJECT_D, (size_t)n * INJECT_D, "a chunk");
    }
}

void test_lower_inject(void) {
    static float     h[INJECT_ROWS * INJECT_D], v[INJECT_FEATURES * INJECT_D];
    static int32_t   takes[INJECT_ROWS][2];
    static const int rows[] = {0, 1, 3, INJECT_ROWS};
    eh_fill(h, INJECT_ROWS * INJECT_D);
    eh_fill(v, INJECT_FEATURES * INJECT_D);
    for (int r = 0; r < INJECT_ROWS; r++) {
        takes[r][0] = (int32_t)(r / 7 % 5 * 20);
        takes[r][1] = takes[r][0] + (int32_t)(r / 7 % 3 * 25);
    }
    for (int has = 0; has < 2; has++) {
        eh_store  s;
        ph_graph *g = inject_graph(&s, has);
        ph_err    err = {0};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int n = 0; n <= INJECT_FEATURES; n += INJECT_FEATURES) {
                if (!n && has) continue;
                const ph_feed feed[] = {fed("h", PH_F32, h, 2, rows[i], INJECT_D),
                                        fed("v", PH_F32, v, 2, n, INJECT_D),
                                        fed("takes", PH_I32, takes, 2, rows[i], 2)};
                mr_compare(g, eh_syms(rows[i], 0, 0, 0, n), feed, has ? 3 : 2, 1e-5f);
            }
        if (has) in_chunks(g, h, v, takes);
        if (has) { /* data that cannot be */
            int32_t       bad[2] = {0, INJECT_FEATURES + 1};
            const ph_feed feed[] = {fed("h", PH_F32, h, 2, 1, INJECT_D),
                                    fed("v", PH_F32, v, 2, INJECT_FEATURES, INJECT_D),
                                    fed("takes", PH_I32, bad, 2, 1, 2)};
            CHECK(mr_run(g, eh_syms(1, 0, 0, 0, INJECT_FEATURES), feed, 3, 1, 0, NULL, 0, &err) ==
                  PH_EMISMATCH);
        }
        ph_graph_close(g);
        eh_store_close(&s);
    }
}
