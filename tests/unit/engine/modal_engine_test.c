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

/* ---- ModalGate, ModalitySwitch ---- */

enum { GATE_ROWS = 5000, GATES = 3 };

void test_lower_gate(void) {
    static float   x[GATE_ROWS * GATES], latency[GATES], all[GATE_ROWS], part[GATE_ROWS];
    static int64_t wide[GATE_ROWS];
    static int32_t pick[GATE_ROWS];
    eh_fill(x, GATE_ROWS * GATES);
    eh_fill(latency, GATES);
    for (int r = 0; r < GATE_ROWS; r++) wide[r] = pick[r] = (int32_t)eh_below(2 * GATES) - GATES;
    for (int kind = 0; kind < 4; kind++) {
        ph_graph *g;
        ph_err    err = {0};
        ph_dtype  t = kind & 1 ? PH_I64 : PH_I32;
        void     *index = kind & 1 ? (void *)wide : (void *)pick;
        ph_dim    r = ph_dim_sym(PH_SYM_R);
        CHECK(!ph_graph_open(&g, "part", NULL));
        int in[3] = {ph_graph_input(g, "x", PH_F32, ph_shape_of(2, r, ph_dim_of(GATES))),
                     ph_graph_input(g, "pick", t, ph_shape_of(1, r)), -1};
        if (kind > 1) in[2] = ph_graph_input(g, "latency", PH_F32, ph_shape_of(1, ph_dim_of(GATES)));
        finish(g, ph_graph_node(g, "ModalGate", in, 3, PH_ATTRS(PH_FLOAT("lambda", 0.3)), "o"));
        static const int rows[] = {0, 1, 9, GATE_ROWS};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const ph_feed feed[] = {fed("x", PH_F32, x, 2, rows[i], GATES),
                                    fed("pick", t, index, 1, rows[i], 0),
                                    fed("latency", PH_F32, latency, 1, GATES, 0)};
            mr_compare(g, eh_syms(rows[i], 0, 0, 0, 0), feed, kind > 1 ? 3 : 2, 1e-6f);
            CHECK(!mr_run(g, eh_syms(rows[i], 0, 0, 0, 0), feed, kind > 1 ? 3 : 2, 2, ph_cpu_features(), all,
                          (size_t)rows[i], &err));
        }
        for (int at = 0; at < GATE_ROWS && !(kind & 1); at += 777) { /* in chunks: the same bits */
            int           n = GATE_ROWS - at < 777 ? GATE_ROWS - at : 777;
            const ph_feed feed[] = {fed("x", PH_F32, x + at * GATES, 2, n, GATES),
                                    fed("pick", t, pick + at, 1, n, 0),
                                    fed("latency", PH_F32, latency, 1, GATES, 0)};
            CHECK(!mr_run(g, eh_syms(n, 0, 0, 0, 0), feed, kind > 1 ? 3 : 2, 1, ph_cpu_features(), part,
                          (size_t)n, &err));
            eh_same(part, all + at, (size_t)n, "a chunk");
        }
        pick[0] = GATES, wide[0] = INT64_MIN;
        const ph_feed feed[] = {fed("x", PH_F32, x, 2, 1, GATES), fed("pick", t, index, 1, 1, 0),
                                fed("latency", PH_F32, latency, 1, GATES, 0)};
        CHECK(mr_run(g, eh_syms(1, 0, 0, 0, 0), feed, kind > 1 ? 3 : 2, 1, 0, NULL, 0, &err) == PH_EMISMATCH);
        pick[0] = 0, wide[0] = 0;
        ph_graph_close(g);
    }
}

void test_lower_switch(void) {
    enum { ROWS = 700, WIDE = 61 };
    static float             x[3][ROWS * WIDE];
    static int32_t           pick[ROWS];
    static const char *const name[3] = {"a", "b", "c"};
    ph_graph                *g;
    ph_err                   err = {0};
    int                      in[4];
    ph_dim                   r = ph_dim_sym(PH_SYM_R);
    CHECK(!ph_graph_open(&g, "part", NULL));
    in[0] = ph_graph_input(g, "pick", PH_I32, ph_shape_of(2, r, ph_dim_of(1)));
    for (int i = 0; i < 3; i++) {
        eh_fill(x[i], ROWS * WIDE);
        in[i + 1] = ph_graph_input(g, name[i], PH_F32, ph_shape_of(2, r, ph_dim_of(WIDE)));
    }
    finish(g, ph_graph_node(g, "ModalitySwitch", in, 4, PH_NO_ATTRS, "o"));
    for (int i = 0; i < ROWS; i++) pick[i] = (int32_t)eh_below(6) - 3;
    static const int rows[] = {0, 1, ROWS};
    for (int i = 0; i < 3; i++) {
        const ph_feed feed[] = {
            fed("pick", PH_I32, pick, 2, rows[i], 1), fed("a", PH_F32, x[0], 2, rows[i], WIDE),
            fed("b", PH_F32, x[1], 2, rows[i], WIDE), fed("c", PH_F32, x[2], 2, rows[i], WIDE)};
        mr_compare(g, eh_syms(rows[i], 0, 0, 0, 0), feed, 4, 0);
        pick[0] = 3;
        CHECK(!rows[i] ||
              mr_run(g, eh_syms(rows[i], 0, 0, 0, 0), feed, 4, 2, 0, NULL, 0, &err) == PH_EMISMATCH);
        pick[0] = 0;
    }
    ph_graph_close(g);
}

/* ---- MultiModalAttention ---- */

/* Text and pictures of R tiles; weights of this type, in one piece or three. */
static void couple(ph_dtype t, int is_one, int64_t slice, int text, int seen, int batch) {
    enum { HEADS = 6, KV = 3, HD = 32, WIDE = 64 };
    static const char *const name[6] = {"w", "wk", "wv", "b", "bk", "bv"};
    eh_store                 s;
    ph_graph                *g;
    int                      in[8], rows[3] = {is_one ? (HEADS + 2 * KV) * HD : HEADS * HD, KV * HD, KV * HD};
    const int64_t            slices[2] = {3, slice};
    static float             x[2][8 * 300 * WIDE];
    eh_store_open(&s);
    CHECK(!ph_graph_open(&g, "part", NULL));
    for (int j = 0; j < 3; j++) {
        int is_out = j && is_one;
        in[j] = is_out ? -1
                       : eh_weight(g, &s, name[j], ph_shape_of(2, ph_dim_of(rows[j]), ph_dim_of(WIDE)), t, 0,
                                   0.3f, 0);
        in[3 + j] =
            is_out ? -1
                   : eh_weight(g, &s, name[3 + j], ph_shape_of(1, ph_dim_of(rows[j])), PH_F16, 0, 0.3f, 0);
    }
    ph_dim i = ph_dim_sym(PH_SYM_I), wide = ph_dim_of(WIDE);
    in[6] = ph_graph_input(g, "text", PH_F32, ph_shape_of(3, i, ph_dim_of(text), wide));
    in[7] = ph_graph_input(g, "vision", PH_F32, ph_shape_of(3, i, ph_dim_of(seen), wide));
    int y = ph_graph_node(
        g, "MultiModalAttention", in, 8,
        PH_ATTRS(PH_INT("num_heads", HEADS), PH_INT("kv_num_heads", KV), PH_INTS("slices", slices, 2)), "o");
    finish(g, y);
    eh_fill(x[0], (size_t)(batch * text) * WIDE);
    eh_fill(x[1], (size_t)(batch * seen) * WIDE);
    const ph_feed feed[] = {
        {"text", {.data = x[0], .dtype = PH_F32, .rank = 3, .dim = {batch, text, WIDE}}},
        {"vision", {.data = x[1], .dtype = PH_F32, .rank = 3, .dim = {batch, seen, WIDE}}}};
    /* Types met by integers differ from floats by the rounding of rows. */
    mr_compare(g, eh_syms(0, 0, 0, batch, 0), feed, 2, t == PH_F32 || t == PH_F16 ? 1e-5f : 2e-4f);
    ph_graph_close(g);
    eh_store_close(&s);
}

void test_lower_couple(void) {
    static const ph_dtype type[] = {PH_F32, PH_F16, PH_Q8_0, PH_Q4_0};
    for (size_t t = 0; t < sizeof type / sizeof *type; t++)
        for (int k = 0; k < 6; k++)
            couple(type[t], k & 1, 1 + k / 2, k == 3 ? 1 : 7, k == 4 ? 300 : 33, 1 + k % 3);
    couple(PH_F32, 1, 3, 7, 33, 0);
}

/* ---- SparseAttention ---- */

/* Heads of R batches; a mask of which about a share is met. */
static void sparse(int t, int s, int d, int block, double met, int has_lists, int batch) {
    enum { HEADS = 2, SQUARES_MAX = 4096, FLOATS_MAX = 1 << 18 };
    static float         x[3][FLOATS_MAX];
    static unsigned char map[SQUARES_MAX];
    static int32_t       columns[SQUARES_MAX], offsets[SQUARES_MAX + 1];
    ph_graph            *g;
    int                  rows = (t + block - 1) / block, cols = (s + block - 1) / block, n = 0, in[5];
    ph_dim               b = ph_dim_sym(PH_SYM_R), h = ph_dim_of(HEADS);
    for (int r = 0; r < rows; r++) {
        offsets[r] = n;
        for (int c = 0; c < cols; c++) {
            map[r * cols + c] = eh_below(1000) < (size_t)(met * 1000);
            if (map[r * cols + c]) columns[n++] = c;
        }
    }
    offsets[rows] = n;
    CHECK(!ph_graph_open(&g, "part", NULL));
    in[0] = ph_graph_input(g, "q", PH_F32, ph_shape_of(4, b, h, ph_dim_of(t), ph_dim_of(d)));
    in[1] = ph_graph_input(g, "kt", PH_F32, ph_shape_of(4, b, h, ph_dim_of(d), ph_dim_of(s)));
    in[2] = ph_graph_input(g, "v", PH_F32, ph_shape_of(4, b, h, ph_dim_of(s), ph_dim_of(d + 1)));
    in[3] = has_lists
                ? ph_graph_constant(g, "columns", PH_I32, ph_shape_of(1, ph_dim_of(n)), columns)
                : ph_graph_constant(g, "map", PH_BOOL, ph_shape_of(2, ph_dim_of(rows), ph_dim_of(cols)), map);
    in[4] = has_lists ? ph_graph_constant(g, "offsets", PH_I32, ph_shape_of(1, ph_dim_of(rows + 1)), offsets)
                      : -1;
    finish(g, ph_graph_node(g, "SparseAttention", in, 5,
                            PH_ATTRS(PH_INT("block", block), PH_FLOAT("sparsity", 0)), "o"));
    for (int i = 0; i < 3; i++) eh_fill(x[i], FLOATS_MAX);
    const ph_feed feed[] = {
        {"q", {.data = x[0], .dtype = PH_F32, .rank = 4, .dim = {batch, HEADS, t, d}}},
        {"kt", {.data = x[1], .dtype = PH_F32, .rank = 4, .dim = {batch, HEADS, d, s}}},
        {"v", {.data = x[2], .dtype = PH_F32, .rank = 4, .dim = {batch, HEADS, s, d + 1}}}};
    mr_compare(g, eh_syms(batch, 0, 0, 0, 0), feed, 3, 1e-5f);
    ph_graph_close(g);
}

void test_lower_sparse(void) {
    for (int has_lists = 0; has_lists < 2; has_lists++) {
        sparse(160, 203, 33, 8, 0.3, has_lists, 2);
        sparse(45, 130, 16, 8, 0.9, has_lists, 1);
        sparse(45, 130, 16, 8, 1, has_lists, 3);
        sparse(45, 130, 16, 8, 0, has_lists, 1);
        sparse(70, 64, 5, 3, 0.4, has_lists, 1); /* 21 squares a panel, 63 keys */
        sparse(70, 300, 8, 64, 0.5, has_lists, 1);
        sparse(7, 5, 8, 8, 1, has_lists, 1);
        sparse(9, 300, 8, 1, 0.3, has_lists, 0);
    }
}

/* ---- AdapterDispatch ---- */

void test_lower_adapters(void) {
    enum { ROWS = 300, AK = 64, AN = 90 };
    static float          base[ROWS * AN], x[ROWS * AK], all[ROWS * AN], part[ROWS * AN];
    static int32_t        ids[ROWS];
    static const ph_dtype type[] = {PH_F32, PH_F16, PH_Q8_0};
    static const int64_t  first[2] = {32000, 5}, last[2] = {32000, 9};
    static const int      rows[] = {0, 1, ROWS};
    eh_fill(base, ROWS * AN);
    eh_fill(x, ROWS * AK);
    for (int r = 0; r < ROWS; r++) ids[r] = r / 40 % 3 == 1 ? 32000 : (int32_t)eh_below(14);
    for (size_t t = 0; t < sizeof type / sizeof *type; t++) {
        eh_store  s;
        ph_graph *g;
        ph_err    err = {0};
        ph_dim    r = ph_dim_sym(PH_SYM_R), k = ph_dim_of(AK), n = ph_dim_of(AN);
        eh_store_open(&s);
        CHECK(!ph_graph_open(&g, "part", NULL));
        int in[7] = {ph_graph_input(g, "base", PH_F32, ph_shape_of(2, r, n)),
                     ph_graph_input(g, "x", PH_F32, ph_shape_of(2, r, k)),
                     ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, r)),
                     eh_weight(g, &s, "a0", ph_shape_of(2, ph_dim_of(4), k), type[t], 0, 0.3f, 0),
                     eh_weight(g, &s, "b0", ph_shape_of(2, n, ph_dim_of(4)), PH_F32, 0, 0.3f, 0),
                     eh_weight(g, &s, "a1", ph_shape_of(2, ph_dim_of(32), k), PH_F16, 0, 0.3f, 2),
                     eh_weight(g, &s, "b1", ph_shape_of(2, n, ph_dim_of(32)), type[t], 0, 0.3f, 0)};
        finish(g, ph_graph_node(g, "AdapterDispatch", in, 7,
                                PH_ATTRS(PH_INTS("first", first, 2), PH_INTS("last", last, 2)), "o"));
        for (int i = 0; i < 3; i++) {
            const ph_feed feed[] = {fed("base", PH_F32, base, 2, rows[i], AN),
                                    fed("x", PH_F32, x, 2, rows[i], AK),
                                    fed("ids", PH_I32, ids, 1, rows[i], 0)};
            mr_compare(g, eh_syms(rows[i], 0, 0, 0, 0), feed, 3, 1e-5f);
            CHECK(!mr_run(g, eh_syms(rows[i], 0, 0, 0, 0), feed, 3, 2, ph_cpu_features(), all,
                          (size_t)rows[i] * AN, &err));
        }
        for (int at = 0; at < ROWS; at += 71) { /* in chunks: the same bits */
            int           some = ROWS - at < 71 ? ROWS - at : 71;
            const ph_feed feed[] = {fed("base", PH_F32, base + at * AN, 2, some, AN),
                                    fed("x", PH_F32, x + at * AK, 2, some, AK),
                                    fed("ids", PH_I32, ids + at, 1, some, 0)};
            CHECK(!mr_run(g, eh_syms(some, 0, 0, 0, 0), feed, 3, 1, ph_cpu_features(), part,
                          (size_t)some * AN, &err));
            eh_same(part, all + at * AN, (size_t)some * AN, "a chunk");
        }
        ph_graph_close(g);
        eh_store_close(&s);
    }
}
