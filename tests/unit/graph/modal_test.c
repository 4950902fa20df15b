/* modal_test.c - multimodal operators against sums written out, their two ONNX forms, and what is refused. */
#include "tests/unit/graph/modal_help.h"

#include <math.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

enum { ROWS = 5, D = 12, FEATURES = 70 };

static const float *fed(const mh *m, const char *name) {
    for (size_t i = 0; i < m->n_feeds; i++)
        if (!strcmp(m->feed[i].name, name)) return m->feed[i].array.data;
    return NULL;
}

static const float *weight_of(const mh *m, const char *name) {
    return m->g->value[ph_graph_find(m->g, name)].storage.plane[0].bytes;
}

/* ---- PoolInject ---- */

static const int32_t takes[ROWS][2] = {{0, 70}, {0, 70}, {3, 40}, {9, 9}, {69, 70}};

/* Features as rows, or tiles of them; rows that all take everything, or their own. */
static void inject(int features, int is_tiled, int has_segments, int has_bias) {
    mh       m;
    ph_array y;
    ph_err   err = {0};
    mh_open(&m);
    mh_rows(&m, ROWS);
    int in[5] = {mh_floats(&m, "h", 2, -1, D, 0, 0),
                 is_tiled ? mh_floats(&m, "v", 3, 2, features / 2, D, 0)
                          : mh_floats(&m, "v", 2, features, D, 0, 0),
                 mh_weight(&m, "scale", 1, D, 0), has_bias ? mh_weight(&m, "bias", 1, D, 0) : -1,
                 has_segments ? mh_ints(&m, "takes", 2, -1, 2, takes[0]) : -1};
    CHECK_SAY(mh_finish(&m, ph_graph_node(m.g, "PoolInject", in, 5, PH_NO_ATTRS, "y"), &err), "%s", err.msg);
    CHECK_SAY(!mh_eval(&m, &y, &err), "%s", err.msg);
    float want[ROWS * D];
    for (int r = 0; r < ROWS; r++) {
        int    from = has_segments ? takes[r][0] : 0, to = has_segments ? takes[r][1] : features;
        double x[D], mean = 0, var = 0;
        for (int e = 0; e < D; e++) {
            double sum = 0;
            for (int i = from; i < to; i++) sum += (double)fed(&m, "v")[i * D + e];
            x[e] = (double)fed(&m, "h")[r * D + e] + (to > from ? 0.3 * sum / (to - from) : 0);
            mean += x[e] / D;
        }
        for (int e = 0; e < D; e++) var += (x[e] - mean) * (x[e] - mean) / D;
        for (int e = 0; e < D; e++)
            want[r * D + e] = (float)((x[e] - mean) / sqrt(var + 1e-5) * (double)weight_of(&m, "scale")[e] +
                                      (has_bias ? (double)weight_of(&m, "bias")[e] : 0));
    }
    mh_close_to(y.data, want, (int64_t)ROWS * D, 3e-6, "PoolInject");
    mh_onnx(&m, "PoolInject", 3e-6, "PoolInject");
    mh_close(&m);
}

void test_modal_inject(void) {
    inject(FEATURES, 0, 0, 1);
    inject(FEATURES, 1, 0, 0);
    inject(FEATURES, 1, 1, 1);
    inject(FEATURES, 0, 1, 0);
    inject(0, 0, 0, 1); /* no picture: rows are only normalised */
}

/* One line for each sentence; `build` makes the node from h [R, D], v [FEATURES, D] and s [D]. */
#define REFUSED(want_rc, word, op, ...)                                                                      \
    do {                                                                                                     \
        mh     m;                                                                                            \
        ph_err err = {0};                                                                                    \
        mh_open(&m);                                                                                         \
        mh_rows(&m, ROWS);                                                                                   \
        int h = mh_floats(&m, "h", 2, -1, D, 0, 0), v = mh_floats(&m, "v", 2, FEATURES, D, 0, 0);            \
        int s = mh_weight(&m, "s", 1, D, 0);                                                                 \
        (void)h, (void)v, (void)s;                                                                           \
        int is_done = mh_finish(&m, ph_graph_node(m.g, op, __VA_ARGS__, "y"), &err);                         \
        CHECK_SAY(!is_done && err.code == (want_rc) && strstr(err.msg, word), "line %d: %s %s", __LINE__,    \
                  ph_rc_name(err.code), err.msg);                                                            \
        mh_close(&m);                                                                                        \
    } while (0)

void test_modal_inject_refuses(void) {
    REFUSED(PH_EMISMATCH, "one plain width", "PoolInject", PH_IN(h, s, s), PH_NO_ATTRS);
    REFUSED(PH_EMISMATCH, "scale and a bias", "PoolInject", PH_IN(h, v, mh_weight(&m, "t", 1, D + 1, 0)),
            PH_NO_ATTRS);
    REFUSED(PH_EMISMATCH, "begin and end", "PoolInject",
            PH_IN(h, v, s, s, mh_ints(&m, "t", 2, FEATURES, 2, (int32_t[2 * FEATURES]){0})), PH_NO_ATTRS);
    REFUSED(PH_EMISMATCH, "finite", "PoolInject", PH_IN(h, v, s), PH_ATTRS(PH_FLOAT("alpha", INFINITY)));
    REFUSED(PH_EMISMATCH, "finite", "PoolInject", PH_IN(h, v, s), PH_ATTRS(PH_FLOAT("epsilon", -1)));
    static const int32_t bad[4][2] = {{-1, 3}, {4, 3}, {0, FEATURES + 1}, {INT32_MAX, INT32_MAX}};
    for (int i = 0; i < 4; i++) {
        mh       m;
        ph_err   err = {0};
        ph_array y;
        mh_open(&m);
        int h = mh_floats(&m, "h", 2, 1, D, 0, 0), v = mh_floats(&m, "v", 2, FEATURES, D, 0, 0);
        int t = mh_ints(&m, "t", 2, 1, 2, bad[i]);
        CHECK(mh_finish(&m,
                        ph_graph_node(m.g, "PoolInject", PH_IN(h, v, mh_weight(&m, "s", 1, D, 0), -1, t),
                                      PH_NO_ATTRS, "y"),
                        &err));
        CHECK_SAY(mh_eval(&m, &y, &err) == PH_EMISMATCH && strstr(err.msg, "row 0 takes"), "%s", err.msg);
        mh_close(&m);
    }
}
