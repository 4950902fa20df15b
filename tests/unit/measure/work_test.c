/* work_test.c - multiply-adds and bytes of small graphs, against sums written out. */
#include "measure/bench_impl.h"
#include "tests/unit/unit.h"

#include <string.h>

static ph_kernels no_dots; /* only the definition: no integer products are fast */

static ph_graph *open_graph(void) {
    ph_graph *g;
    ph_err    e = {0};
    ph_kernels_init(&no_dots, 0);
    CHECK(!ph_graph_open(&g, "test", &e));
    return g;
}

static ph_work counted(ph_graph *g, const ph_syms *syms, ph_work_how how) {
    ph_work w = {0};
    ph_err  e = {0};
    ph_rc   rc = ph_graph_finish(g, &e);
    CHECK_SAY(!rc, "%s", e.msg);
    if (!how.kernels) how.kernels = &no_dots;
    if (!rc) CHECK(!ph_work_count(g, syms, &how, &w, &e));
    ph_graph_close(g);
    return w;
}

static int weight(ph_graph *g, const char *name, ph_dtype t, int rows, int cols) {
    static const uint8_t bytes[1 << 16];
    size_t               row;
    CHECK(!ph_dtype_row_bytes(t, cols, &row, NULL));
    CHECK(row * (size_t)rows <= sizeof bytes);
    return ph_graph_weight(g, name, ph_shape_of(2, ph_dim_of(rows), ph_dim_of(cols)),
                           ph_storage_of(t, bytes, row * (size_t)rows, row));
}

static int rows_in(ph_graph *g, const char *name, int cols) {
    return ph_graph_input(g, name, PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(cols)));
}

void test_work_products(void) {
    ph_syms   syms = {{[PH_SYM_R] = 5, [PH_SYM_I] = 3}};
    ph_graph *g = open_graph();
    int       x = rows_in(g, "x", 64);
    ph_graph_output(g, ph_graph_node(g, "Linear", PH_IN(x, weight(g, "w", PH_F16, 7, 64)), PH_NO_ATTRS, "y"),
                    "y");
    ph_work w = counted(g, &syms, (ph_work_how){0});
    CHECK(w.f32_macs == 5 * 7 * 64 && w.int8_macs == 0 && w.weight_bytes == 7 * 64 * 2);

    /* A block type counts for integers where there is a product by integers, unless the run is exact. */
    for (int exact = 0; exact < 2; exact++) {
        ph_kernels best;
        ph_kernels_init(&best, ph_cpu_features());
        int has_dot = ph_dot_of(&best, PH_Q8_0) != NULL && !exact;
        g = open_graph();
        x = rows_in(g, "x", 64);
        ph_graph_output(
            g, ph_graph_node(g, "Linear", PH_IN(x, weight(g, "w", PH_Q8_0, 7, 64)), PH_NO_ATTRS, "y"), "y");
        w = counted(g, &syms, (ph_work_how){.kernels = &best, .is_exact = exact});
        CHECK(w.int8_macs == (has_dot ? 5 * 7 * 64 : 0) && w.f32_macs == (has_dot ? 0 : 5 * 7 * 64));
        CHECK(w.weight_bytes == 7 * 2 * 34);
    }

    /* 3 tiles of 2 x 8 x 8 under a 4 x 4 kernel in steps of 4: 2 x 2 places, 6 filters. */
    g = open_graph();
    int pixels = ph_graph_input(
        g, "p", PH_F32, ph_shape_of(4, ph_dim_sym(PH_SYM_I), ph_dim_of(2), ph_dim_of(8), ph_dim_of(8)));
    static const float filters[6 * 2 * 4 * 4];
    int64_t            four[2] = {4, 4};
    int                f = ph_graph_constant(
                       g, "f", PH_F32, ph_shape_of(4, ph_dim_of(6), ph_dim_of(2), ph_dim_of(4), ph_dim_of(4)), filters);
    ph_graph_output(g, ph_graph_node(g, "Conv", PH_IN(pixels, f), PH_ATTRS(PH_INTS("strides", four, 2)), "c"),
                    "c");
    w = counted(g, &syms, (ph_work_how){0});
    CHECK(w.f32_macs == 3 * 6 * 2 * 2 * 2 * 4 * 4 && w.weight_bytes == sizeof filters);

    /* Five of 100 rows are looked up. */
    g = open_graph();
    int ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_R)));
    int at = ph_graph_node(g, "Gather", PH_IN(weight(g, "t", PH_F32, 100, 16), ids),
                           PH_ATTRS(PH_INT("axis", 0)), "e");
    ph_graph_output(g, at, "e");
    w = counted(g, &syms, (ph_work_how){0});
    CHECK(w.f32_macs == 0 && w.weight_bytes == 5 * 16 * 4);
}

void test_work_attention(void) {
    for (int causal = 0; causal < 2; causal++) {
        ph_syms   syms = {{[PH_SYM_I] = 2}};
        ph_graph *g = open_graph();
        ph_shape  s = ph_shape_of(3, ph_dim_sym(PH_SYM_I), ph_dim_of(9), ph_dim_of(4 * 8));
        ph_shape  kv = ph_shape_of(3, ph_dim_sym(PH_SYM_I), ph_dim_of(9), ph_dim_of(2 * 8));
        int       q = ph_graph_input(g, "q", PH_F32, s), k = ph_graph_input(g, "k", PH_F32, kv),
            v = ph_graph_input(g, "v", PH_F32, kv);
        ph_graph_output(g,
                        ph_graph_node(g, "Attention", PH_IN(q, k, v),
                                      PH_ATTRS(PH_INT("q_num_heads", 4), PH_INT("kv_num_heads", 2),
                                               PH_INT("is_causal", causal)),
                                      "y"),
                        "y");
        ph_work w = counted(g, &syms, (ph_work_how){0});
        double  pairs = 0;
        for (int i = 0; i < 9; i++) pairs += causal ? i + 1 : 9;
        CHECK_SAY(w.f32_macs == 2 * 4 * pairs * (8 + 8), "%g", w.f32_macs);
    }
}

/* Rows 0 .. n-1 after `before` tokens, written out. */
static double pairs_of(int n, int before, int window) {
    double pairs = 0;
    for (int i = 0; i < n; i++) {
        int seen = before + i + 1;
        pairs += window && seen > window ? window : seen;
    }
    return pairs;
}

void test_work_cached(void) {
    for (int n = 1; n < 12; n += 5)
        for (int before = 0; before < 20; before += 3)
            for (int window = 0; window < 24; window += 4) {
                ph_syms   syms = {{[PH_SYM_R] = n}};
                ph_graph *g = open_graph();
                int       q = rows_in(g, "q", 4 * 8), k = rows_in(g, "k", 2 * 8), v = rows_in(g, "v", 2 * 8);
                int       rows = ph_graph_input(g, "rows", PH_I32,
                                                ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(PH_ROW_FIELDS)));
                int       kv = ph_graph_state(g, PH_STATE_OWN);
                ph_graph_output(g,
                                ph_graph_node(g, "CachedAttention", PH_IN(q, k, v, rows, kv),
                                              PH_ATTRS(PH_INT("layer", 0), PH_INT("num_heads", 4),
                                                       PH_INT("kv_num_heads", 2), PH_INT("window", window)),
                                              "y"),
                                "y");
                ph_work w = counted(g, &syms, (ph_work_how){.meets.keys_before = before, .kv_item = 2});
                double  pairs = pairs_of(n, before, window);
                CHECK_SAY(w.f32_macs == pairs * 4 * 16, "n %d, before %d, window %d: %g, %g", n, before,
                          window, w.f32_macs, pairs * 4 * 16);
                CHECK(w.kv_bytes == pairs * 2 * 16 * 2);
            }
}

void test_work_segments(void) {
    ph_syms   syms = {{[PH_SYM_N] = 24}};
    ph_graph *g = open_graph();
    ph_shape  s = ph_shape_of(2, ph_dim_sym(PH_SYM_N), ph_dim_of(32)),
             pair = ph_shape_of(2, ph_dim_sym(PH_SYM_N), ph_dim_of(2));
    int q = ph_graph_input(g, "q", PH_F32, s), whole = ph_graph_input(g, "segments", PH_I32, pair),
        windows = ph_graph_input(g, "windows", PH_I32, pair);
    int y =
        ph_graph_node(g, "SegmentAttention", PH_IN(q, q, q, whole), PH_ATTRS(PH_INT("num_heads", 4)), "a");
    ph_graph_output(
        g,
        ph_graph_node(g, "SegmentAttention", PH_IN(y, q, q, windows), PH_ATTRS(PH_INT("num_heads", 4)), "b"),
        "b");
    ph_work w = counted(g, &syms, (ph_work_how){.meets.segment_keys = 24, .meets.window_keys = 6});
    CHECK(w.f32_macs == 24 * 24 * 64 + 24 * 6 * 64);
}

void test_segments_of_windows(void) {
    ph_spec        spec = {.packed = {.merge = 2, .window = 4}};
    ph_tile_layout l = {.grid_t = 1, .grid_h = 20, .grid_w = 12, .merge = 2};
    double         whole, window, sum = 0;
    ph_bench_segments(&spec, &l, &whole, &window);
    CHECK(whole == 240);
    /* 10 x 6 squares in windows of 4 x 4: each square's window, written out. */
    for (int y = 0; y < 10; y++)
        for (int x = 0; x < 6; x++) sum += (y < 8 ? 4 : 2) * (x < 4 ? 4 : 2) * 4;
    CHECK_SAY(window == sum / 60, "%g, %g", window, sum / 60);
    spec.packed.window = 0;
    ph_bench_segments(&spec, &l, &whole, &window);
    CHECK(window == 240);
}

static int floats_in(ph_graph *g, const char *name, int rank, int a, int b, int c, int d) {
    return ph_graph_input(g, name, PH_F32,
                          ph_shape_of(rank, ph_dim_of(a), ph_dim_of(b), ph_dim_of(c), ph_dim_of(d)));
}

/* Multimodal operators count what they are spelled out, and the engines' estimate reads the same count. */
void test_work_multimodal(void) {
    ph_syms   syms = {{[PH_SYM_R] = 5}};
    ph_graph *g = open_graph();
    int       w = weight(g, "w", PH_F32, 24, 8), x = floats_in(g, "x", 3, 1, 3, 8, 0),
        z = floats_in(g, "z", 3, 1, 5, 8, 0);
    ph_graph_output(g,
                    ph_graph_node(g, "MultiModalAttention", PH_IN(w, -1, -1, -1, -1, -1, x, z),
                                  PH_ATTRS(PH_INT("num_heads", 2)), "y"),
                    "y");
    CHECK(counted(g, &syms, (ph_work_how){0}).f32_macs == 3 * 64 * 8 + (64 + 64) * 8);

    g = open_graph();
    const unsigned char map[4] = {1, 0, 0, 0};
    int met = ph_graph_constant(g, "map", PH_BOOL, ph_shape_of(2, ph_dim_of(2), ph_dim_of(2)), map);
    ph_graph_output(g,
                    ph_graph_node(g, "SparseAttention",
                                  PH_IN(floats_in(g, "q", 4, 1, 1, 16, 4), floats_in(g, "k", 4, 1, 1, 4, 16),
                                        floats_in(g, "v", 4, 1, 1, 16, 4), met),
                                  PH_NO_ATTRS, "y"),
                    "y");
    CHECK(counted(g, &syms, (ph_work_how){0}).f32_macs == (64 + 64) * 16 / 4);

    g = open_graph();
    int ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_R)));
    ph_graph_output(g,
                    ph_graph_node(g, "AdapterDispatch",
                                  PH_IN(rows_in(g, "base", 7), rows_in(g, "x", 64), ids,
                                        weight(g, "a", PH_F32, 4, 64), weight(g, "b", PH_F32, 7, 4)),
                                  PH_NO_ATTRS, "y"),
                    "y");
    CHECK(counted(g, &syms, (ph_work_how){0}).f32_macs == (5 * 64 + 5 * 7) * 4);

    for (size_t i = 0; i < ph_op_count(); i++) {
        const ph_op *op = ph_op_at(i);
        CHECK_SAY(!op->is_product || op->macs || !strcmp(op->name, "Einsum"), "%s counts nothing", op->name);
    }
}

void test_work_is_estimated(void) {
    double us[2];
    for (int i = 0; i < 2; i++) { /* the same bytes; 4096 queries meet themselves, or segments of it */
        const ph_syms syms = {{[PH_SYM_N] = 4096}};
        ph_graph     *g = open_graph();
        ph_shape      s = ph_shape_of(2, ph_dim_sym(PH_SYM_N), ph_dim_of(32));
        int           q = ph_graph_input(g, "q", PH_F32, s),
            rows = ph_graph_input(g, "segments", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_N), ph_dim_of(2)));
        int y = i ? ph_graph_node(g, "SegmentAttention", PH_IN(q, q, q, rows),
                                  PH_ATTRS(PH_INT("num_heads", 4)), "y")
                  : ph_graph_node(g, "Add", PH_IN(q, q), PH_NO_ATTRS, "y");
        ph_graph_output(g, y, "y");
        CHECK(!ph_graph_finish(g, NULL));
        us[i] = ph_engine_estimate_us(g, &syms, 1);
        ph_graph_close(g);
    }
    CHECK_SAY(us[1] > 10 * us[0], "%g and %g us", us[1], us[0]);
}
