/* modal_test.c - injection, gates, switches and adapters against sums written out, their two ONNX forms, and
 * what is refused. */
#include "graph/inject.h"
#include "graph/pass.h"
#include "tests/unit/graph/modal_help.h"

#include <math.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

/* ---- PoolInject ---- */

static const int32_t takes[ROWS][2] = {{0, 70}, {0, 70}, {3, 40}, {9, 9}, {69, 70}};

/* Features as rows, or tiles of them; rows that all take everything, or their own. */
static void inject(int features, int is_tiled, int has_segments, int has_bias) {
    mh       m;
    ph_array y = {0};
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
            for (int i = from; i < to; i++) sum += (double)mh_fed(&m, "v")[i * D + e];
            x[e] = (double)mh_fed(&m, "h")[r * D + e] + (to > from ? 0.3 * sum / (to - from) : 0);
            mean += x[e] / D;
        }
        for (int e = 0; e < D; e++) var += (x[e] - mean) * (x[e] - mean) / D;
        for (int e = 0; e < D; e++)
            want[r * D + e] = (float)((x[e] - mean) / sqrt(var + 1e-5) * (double)mh_numbers(&m, "scale")[e] +
                                      (has_bias ? (double)mh_numbers(&m, "bias")[e] : 0));
        for (int e = 0; e < D && has_segments && from == to; e++) { /* a row without features is as it was */
            want[r * D + e] = mh_fed(&m, "h")[r * D + e];
            CHECK(((const float *)y.data)[r * D + e] == want[r * D + e]);
        }
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

void test_modal_inject_refuses(void) {
    MH_REFUSED(PH_EMISMATCH, "one plain width", "PoolInject", PH_IN(h, s, s), PH_NO_ATTRS);
    MH_REFUSED(PH_EMISMATCH, "scale and a bias", "PoolInject", PH_IN(h, v, mh_weight(&m, "t", 1, D + 1, 0)),
               PH_NO_ATTRS);
    MH_REFUSED(PH_EMISMATCH, "begin and end", "PoolInject",
               PH_IN(h, v, s, s, mh_ints(&m, "t", 2, FEATURES, 2, (int32_t[2 * FEATURES]){0})), PH_NO_ATTRS);
    MH_REFUSED(PH_EMISMATCH, "finite", "PoolInject", PH_IN(h, v, s), PH_ATTRS(PH_FLOAT("alpha", INFINITY)));
    MH_REFUSED(PH_EMISMATCH, "finite", "PoolInject", PH_IN(h, v, s), PH_ATTRS(PH_FLOAT("epsilon", -1)));
    static const int32_t bad[4][2] = {{-1, 3}, {4, 3}, {0, FEATURES + 1}, {INT32_MAX, INT32_MAX}};
    for (int i = 0; i < 4; i++) {
        mh       m;
        ph_err   err = {0};
        ph_array y = {0};
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

/* ---- ModalGate ---- */

enum { GATES = 5 };
static const int32_t modality[ROWS] = {0, 4, -1, 2, -5};

static void gate(int is_column, int has_latency) {
    mh       m;
    ph_array y = {0};
    ph_err   err = {0};
    float    want[ROWS];
    mh_open(&m);
    mh_rows(&m, ROWS);
    int in[3] = {mh_floats(&m, "x", 2, -1, GATES, 0, 0), mh_ints(&m, "pick", 1 + is_column, -1, 1, modality),
                 has_latency ? mh_floats(&m, "latency", 1, GATES, 0, 0, 0) : -1};
    int node = ph_graph_node(m.g, "ModalGate", in, 3, PH_ATTRS(PH_FLOAT("lambda", 2.5)), "y");
    CHECK_SAY(mh_finish(&m, node, &err), "%s", err.msg);
    CHECK_SAY(!mh_eval(&m, &y, &err) && y.rank == 1 + is_column, "%s", err.msg);
    for (int r = 0; r < ROWS; r++) {
        double e[GATES], sum = 0;
        for (int i = 0; i < GATES; i++) {
            double lost = has_latency ? 2.5 * (double)mh_fed(&m, "latency")[i] : 0;
            sum += e[i] = exp((double)mh_fed(&m, "x")[r * GATES + i] - lost);
        }
        want[r] = (float)(e[(modality[r] + GATES) % GATES] / sum);
    }
    mh_close_to(y.data, want, ROWS, 1e-6, "ModalGate");
    mh_onnx(&m, "ModalGate", 1e-6, "ModalGate");
    mh_close(&m);
}

void test_modal_gate(void) {
    for (int i = 0; i < 4; i++) gate(i & 1, i >> 1);
}

/* ---- ModalitySwitch ---- */

static void branches(int n, int is_column) {
    static const char *const name[4] = {"a", "b", "c", "d"};
    mh                       m;
    ph_array                 y = {0};
    ph_err                   err = {0};
    int                      in[5];
    int32_t                  pick[ROWS];
    for (int r = 0; r < ROWS; r++) pick[r] = r * 3 % (2 * n) - n;
    mh_open(&m);
    mh_rows(&m, ROWS);
    in[0] = mh_ints(&m, "pick", 1 + is_column, -1, 1, pick);
    for (int i = 0; i < n; i++) in[i + 1] = mh_floats(&m, name[i], 2, -1, D, 0, 0);
    CHECK_SAY(mh_finish(&m, ph_graph_node(m.g, "ModalitySwitch", in, n + 1, PH_NO_ATTRS, "y"), &err), "%s",
              err.msg);
    CHECK_SAY(!mh_eval(&m, &y, &err), "%s", err.msg);
    for (int r = 0; r < ROWS; r++)
        CHECK(
            !memcmp((float *)y.data + r * D, mh_fed(&m, name[(pick[r] + n) % n]) + r * D, D * sizeof(float)));
    mh_onnx(&m, "ModalitySwitch", 0, "ModalitySwitch");
    mh_close(&m);
}

void test_modal_switch(void) {
    for (int n = 1; n <= 4; n++) branches(n, n & 1);
}

/* An index outside -n .. n-1 in the data of the node `op`, whose index is input `at`. */
static void expect_bad_index(const char *op, int at, int32_t index) {
    mh       m;
    ph_err   err = {0};
    ph_array y = {0};
    mh_open(&m);
    int x = mh_floats(&m, "x", 2, 1, 2, 0, 0), z = mh_floats(&m, "z", 2, 1, 2, 0, 0);
    int pick = mh_ints(&m, "pick", 1, 1, 0, &index);
    int y_id = at ? ph_graph_node(m.g, op, PH_IN(x, pick), PH_NO_ATTRS, "y")
                  : ph_graph_node(m.g, op, PH_IN(pick, x, z), PH_NO_ATTRS, "y");
    CHECK_SAY(mh_finish(&m, y_id, &err), "%s", err.msg);
    CHECK_SAY(mh_eval(&m, &y, &err) == PH_EMISMATCH && strstr(err.msg, "there are 2"), "%s", err.msg);
    mh_close(&m);
}

void test_modal_gate_refuses(void) {
    static const int32_t bad[] = {2, -3, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        expect_bad_index("ModalGate", 1, bad[i]);
        expect_bad_index("ModalitySwitch", 0, bad[i]);
    }
#define PICK(rank, a, b) mh_ints(&m, "pick", rank, a, b, (int32_t[FEATURES * 2]){0})
    MH_REFUSED(PH_EMISMATCH, "one of them a token", "ModalGate", PH_IN(h, PICK(1, FEATURES, 0)), PH_NO_ATTRS);
    MH_REFUSED(PH_EMISMATCH, "one of them a token", "ModalGate", PH_IN(h, PICK(2, -1, 2)), PH_NO_ATTRS);
    MH_REFUSED(PH_EMISMATCH, "latency of each", "ModalGate",
               PH_IN(h, PICK(1, -1, 0), mh_weight(&m, "t", 1, D + 1, 0)), PH_NO_ATTRS);
    MH_REFUSED(PH_EMISMATCH, "lambda", "ModalGate", PH_IN(h, PICK(1, -1, 0)),
               PH_ATTRS(PH_FLOAT("lambda", -1)));
    MH_REFUSED(PH_EMISMATCH, "lambda", "ModalGate", PH_IN(h, PICK(1, -1, 0)),
               PH_ATTRS(PH_FLOAT("lambda", NAN)));
    MH_REFUSED(PH_EMISMATCH, "each row of its branches", "ModalitySwitch", PH_IN(PICK(1, FEATURES, 0), h),
               PH_NO_ATTRS);
    MH_REFUSED(PH_EMISMATCH, "each row of its branches", "ModalitySwitch", PH_IN(PICK(2, -1, 2), h),
               PH_NO_ATTRS);
    MH_REFUSED(PH_EMISMATCH, "ModalitySwitch takes at least 2 inputs, 1 given", "ModalitySwitch",
               PH_IN(PICK(1, -1, 0)), PH_NO_ATTRS);
    MH_REFUSED(PH_EMISMATCH, "one shape", "ModalitySwitch", PH_IN(PICK(1, -1, 0), h, v), PH_NO_ATTRS);
}

/* ---- the pass ---- */

/* Softmax and GatherElements over the last axis; kept: the softmax is tapped. */
static void expect_gate(int64_t axis, int index_cols, int is_kept, int is_found) {
    mh                   m;
    ph_err               err = {0};
    ph_array             y, z;
    ph_kernels           kernels = gh_kernels();
    static const int32_t pick[ROWS * 2] = {0, 1, 2, -1, 1};
    mh_open(&m);
    mh_rows(&m, ROWS);
    int x = mh_floats(&m, "x", 2, -1, GATES, 0, 0), at = mh_ints(&m, "pick", 2, -1, index_cols, pick);
    int soft = ph_graph_node(m.g, "Softmax", PH_IN(x), PH_ATTRS(PH_INT("axis", axis)), "soft");
    int own = ph_graph_node(m.g, "GatherElements", PH_IN(soft, at), PH_ATTRS(PH_INT("axis", 1)), "own");
    CHECK_SAY(mh_finish(&m, own, &err), "%s", err.msg);
    CHECK(!mh_eval(&m, &y, &err));
    size_t      changes;
    ph_pass_env env = {.kernels = &kernels, .keep = &soft, .n_keep = (size_t)is_kept};
    CHECK_SAY(!ph_passes_run(m.g, &env, &changes, &err), "%s", err.msg);
    CHECK_SAY((strcmp(m.g->node[m.g->n_nodes - 1].op->name, "ModalGate") == 0) == is_found, "%s",
              m.g->node[m.g->n_nodes - 1].op->name);
    CHECK(!mh_eval(&m, &z, &err));
    mh_close_to(z.data, y.data, (int64_t)ROWS * index_cols, 1e-6, "pass gate");
    mh_close(&m);
}

void test_modal_pass_gate(void) {
    expect_gate(-1, 1, 0, 1);
    expect_gate(1, 1, 0, 1);
    expect_gate(0, 1, 0, 0);
    expect_gate(1, 2, 0, 0);
    expect_gate(1, 1, 1, 0);
}

/* ---- AdapterDispatch ---- */

enum { AK = 9, AN = 7, TOKENS = 7 };
static const int32_t tokens[TOKENS] = {5, 32000, 32000, 10, 12, 13, -1};

static void adapter_inputs(mh *m, int in[7]) {
    mh_rows(m, TOKENS);
    in[0] = mh_floats(m, "base", 2, -1, AN, 0, 0);
    in[1] = mh_floats(m, "x", 2, -1, AK, 0, 0);
    in[2] = mh_ints(m, "ids", 1, -1, 0, tokens);
    in[3] = mh_weight(m, "a0", 2, 2, AK);
    in[4] = mh_weight(m, "b0", 2, AN, 2);
    in[5] = mh_weight(m, "a1", 2, 3, AK);
    in[6] = mh_weight(m, "b1", 2, AN, 3);
}

static void adapters(int n) {
    static const int64_t first[2] = {32000, 10}, last[2] = {32000, 12};
    static const double  scale[2] = {0.5, -2};
    static const int     rank[2] = {2, 3};
    mh                   m;
    ph_array             y = {0};
    ph_err               err = {0};
    int                  in[7];
    float                want[TOKENS * AN];
    mh_open(&m);
    adapter_inputs(&m, in);
    int node = n == 1
                   ? ph_graph_node(m.g, "AdapterDispatch", in, 5, PH_ATTRS(PH_FLOATS("scale", scale, 1)), "o")
                   : ph_graph_node(m.g, "AdapterDispatch", in, 7,
                                   PH_ATTRS(PH_INTS("first", first, 2), PH_INTS("last", last, 2),
                                            PH_FLOATS("scale", scale, 2)),
                                   "o");
    CHECK_SAY(mh_finish(&m, node, &err), "%s", err.msg);
    CHECK_SAY(!mh_eval(&m, &y, &err), "%s", err.msg);
    for (int r = 0; r < TOKENS; r++)
        for (int e = 0; e < AN; e++) {
            int    is = tokens[r] == 32000 ? 0 : n > 1 && tokens[r] >= 10 && tokens[r] <= 12 ? 1 : -1;
            double sum = 0;
            for (int i = 0; is >= 0 && i < rank[is]; i++) {
                double low = 0;
                for (int k = 0; k < AK; k++)
                    low += (double)mh_fed(&m, "x")[r * AK + k] *
                           (double)mh_numbers(&m, is ? "a1" : "a0")[i * AK + k];
                sum += low * (double)mh_numbers(&m, is ? "b1" : "b0")[e * rank[is] + i];
            }
            want[r * AN + e] =
                (float)((double)mh_fed(&m, "base")[r * AN + e] + (is < 0 ? 0 : scale[is] * sum));
        }
    mh_close_to(y.data, want, TOKENS * AN, 2e-6, "AdapterDispatch");
    mh_onnx(&m, "AdapterDispatch", 2e-6, "AdapterDispatch");
    mh_close(&m);
}

void test_modal_adapters(void) {
    adapters(1);
    adapters(2);
}

static void expect_adapters(const char *word, int n_in, int spoil, const ph_attr *attr, int n_attr) {
    mh     m;
    ph_err err = {0};
    int    in[7];
    mh_open(&m);
    adapter_inputs(&m, in);
    if (spoil == 1) in[4] = mh_weight(&m, "t", 2, AN, 3);
    if (spoil == 2) in[3] = mh_weight(&m, "t", 2, 2, AK + 1);
    if (spoil == 3) in[1] = mh_floats(&m, "t", 2, TOKENS, AK, 0, 0);
    if (spoil == 4) in[2] = mh_ints(&m, "t", 2, -1, 1, tokens);
    if (spoil == 5) in[6] = -1;
    int done = mh_finish(&m, ph_graph_node(m.g, "AdapterDispatch", in, n_in, attr, n_attr, "o"), &err);
    CHECK_SAY(!done && err.code == PH_EMISMATCH && strstr(err.msg, word), "%s: %s %s", word,
              ph_rc_name(err.code), err.msg);
    mh_close(&m);
}

void test_modal_adapters_refuse(void) {
    static const int64_t one[2] = {1, 5}, over[2] = {5, 7}, turned[2] = {0, 9}, all[2] = {INT64_MIN, 3},
                         top[2] = {INT64_MAX, 4};
    static const double bad[1] = {INFINITY};
    const ph_attr       both[2] = {PH_INTS("first", one, 2), PH_INTS("last", over, 2)};
    expect_adapters("adapter 0 is", 5, 1, PH_NO_ATTRS);
    expect_adapters("adapter 0 is", 5, 2, PH_NO_ATTRS);
    expect_adapters("as many rows", 5, 3, PH_NO_ATTRS);
    expect_adapters("the token of each row", 5, 4, PH_NO_ATTRS);
    expect_adapters("and none", 7, 5, both, 2);
    expect_adapters("3 matrices", 6, 0, PH_NO_ATTRS);
    expect_adapters("2 adapters, but 0 first", 7, 0, PH_NO_ATTRS);
    expect_adapters("1 adapters, but 2 first", 5, 0, both, 1);
    expect_adapters("token 5 has adapter 0 and adapter 1", 7, 0, both, 2);
    expect_adapters("tokens 1 to 0", 7, 0, PH_ATTRS(PH_INTS("first", one, 2), PH_INTS("last", turned, 2)));
    expect_adapters("token 3 has", 7, 0, PH_ATTRS(PH_INTS("first", all, 2), PH_INTS("last", top, 2)));
    expect_adapters("scale", 5, 0, PH_ATTRS(PH_FLOATS("scale", bad, 1)));
}

/* ---- into a graph that stands ---- */

/* x ─ Relu ─ a ─ Sigmoid ─ b, y = a + b: both readers of a read what is injected. */
void test_modal_graph_inject(void) {
    mh       m;
    ph_err   err = {0};
    ph_array y = {0};
    float    want[ROWS * D];
    mh_open(&m);
    mh_rows(&m, ROWS);
    int x = mh_floats(&m, "x", 2, -1, D, 0, 0);
    int a = ph_graph_node(m.g, "Relu", PH_IN(x), PH_NO_ATTRS, "a");
    int b = ph_graph_node(m.g, "Sigmoid", PH_IN(a), PH_NO_ATTRS, "b");
    CHECK_SAY(mh_finish(&m, ph_graph_node(m.g, "Add", PH_IN(a, b), PH_NO_ATTRS, "sum"), &err), "%s", err.msg);
    CHECK(ph_graph_inject(m.g, "nowhere", 0.3, &err) == PH_EUSAGE && strstr(err.msg, "'nowhere'"));
    CHECK(ph_graph_inject(m.g, "x", 0.3, &err) == PH_EUSAGE && strstr(err.msg, "that a node makes"));
    CHECK(ph_graph_inject(m.g, "a", NAN, &err) == PH_EUSAGE && strstr(err.msg, "alpha"));
    CHECK_SAY(!ph_graph_inject(m.g, "a", 0.3, &err), "%s", err.msg);
    CHECK(ph_graph_inject(m.g, "a", 0.3, &err) == PH_EUSAGE && strstr(err.msg, "already"));
    CHECK(m.g->n_nodes == 4 && !strcmp(m.g->node[1].op->name, "PoolInject"));
    CHECK(m.g->node[1].modality == PH_MOD_FUSED && m.g->node[1].fusion_policy == PH_FUSION_INJECT);
    float    v[ROWS * D];
    int32_t  own[ROWS][2] = {{0, 5}, {0, 0}, {1, 4}, {4, 5}, {2, 2}};
    uint64_t state = 5;
    gh_fill(v, ROWS * D, &state);
    m.feed[m.n_feeds++] = (ph_feed){PH_INJECT_FEATURES, gh_array(PH_F32, v, 2, ROWS, D, 0, 0)};
    m.feed[m.n_feeds++] = (ph_feed){PH_INJECT_ROWS, gh_array(PH_I32, own, 2, ROWS, 2, 0, 0)};
    CHECK_SAY(!mh_eval(&m, &y, &err), "%s", err.msg);
    for (int r = 0; r < ROWS; r++) {
        double h[D], mean = 0, var = 0;
        for (int e = 0; e < D; e++) {
            double sum = 0;
            for (int i = own[r][0]; i < own[r][1]; i++) sum += (double)v[i * D + e] / (own[r][1] - own[r][0]);
            mean += (h[e] = fmax(0, (double)mh_fed(&m, "x")[r * D + e]) + 0.3 * sum) / D;
        }
        for (int e = 0; e < D; e++) var += (h[e] - mean) * (h[e] - mean) / D;
        for (int e = 0; e < D; e++) {
            double n = own[r][0] == own[r][1] ? h[e] : (h[e] - mean) / sqrt(var + 1e-5);
            want[r * D + e] = (float)(n + 1 / (1 + exp(-n)));
        }
    }
    mh_close_to(y.data, want, (int64_t)ROWS * D, 3e-6, "injected");
    mh_close(&m);
}
