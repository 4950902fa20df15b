/* lowering_test.c - every lowering against the operators' own definition, on odd sizes, 1, 2 and 4 threads.
 */
#include "tests/unit/engine/engine_help.h"

#include <string.h>

static ph_graph *open_graph(eh_store *s) {
    ph_graph *g;
    eh_store_open(s);
    CHECK(!ph_graph_open(&g, "part", NULL));
    return g;
}

static void finish(ph_graph *g, eh_store *s, ph_syms syms, int64_t index_below, float bound) {
    ph_err err = {0};
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    if (!err.code) eh_compare(g, syms, index_below, bound);
    ph_graph_close(g);
    eh_store_close(s);
}

static int input(ph_graph *g, const char *name, ph_dim a, int b) {
    return ph_graph_input(g, name, PH_F32, ph_shape_of(2, a, ph_dim_of(b)));
}

void test_engine_table(void) {
    CHECK(ph_engine_count() >= 1 && !ph_engine_at(ph_engine_count()));
    CHECK(ph_engine_find("native") == &ph_engine_native && !ph_engine_find("no such"));
    for (size_t i = 0; i < ph_op_count(); i++)
        CHECK(ph_op_at(i)->eval != NULL); /* native runs every operator */
}

/* ---- Linear ---- */

static const ph_dtype stored[] = {PH_F32,     PH_F16,   PH_BF16,  PH_F64,     PH_Q8_0,
                                  PH_Q4_0,    PH_Q4_1,  PH_Q4_K,  PH_Q6_K,    PH_TQ2_0,
                                  PH_F8_E4M3, PH_NVFP4, PH_IQ2_S, PH_IQ3_XXS, PH_IQ1_M};

void test_lower_linear(void) {
    for (size_t t = 0; t < sizeof stored / sizeof *stored; t++)
        for (int trial = 0; trial < 4; trial++) {
            eh_store  s;
            ph_graph *g = open_graph(&s);
            int       block = (int)ph_dtype_block(stored[t]), n = 1 + (int)eh_below(90);
            int       k = block > 1 ? block * (1 + (int)eh_below(2)) : 1 + (int)eh_below(70);
            size_t    gap = trial == 3 && block == 1 ? 1
                            : trial % 2              ? ph_dtype_bytes(stored[t])
                                                     : 0; /* 1: odd bytes */
            int       x = input(g, "x", ph_dim_sym(PH_SYM_R), k);
            int w = eh_weight(g, &s, "w", ph_shape_of(2, ph_dim_of(n), ph_dim_of(k)), stored[t], 0, 1, gap);
            int b = eh_weight(g, &s, "b", ph_shape_of(1, ph_dim_of(n)), trial > 1 ? PH_F16 : PH_F32, 0, 1, 0);
            ph_graph_output(g, ph_graph_node(g, "Linear", PH_IN(x, w, b), PH_NO_ATTRS, "y"), "out");
            finish(g, &s, eh_syms((int64_t)(trial ? 1 + eh_below(70) : 1), 0, 0, 0, 0), 1, 1e-4f);
        }
}

/* Norm, three products of different widths, gate and up, activation, residual: one graph of fusions. */
static void fused(const char *norm_op, const char *act, double alpha, int rows) {
    eh_store  s;
    ph_graph *g = open_graph(&s);
    ph_dim    r = ph_dim_sym(PH_SYM_R);
    int       d = 37, ff = 53, x = input(g, "x", r, d);
    int       scale = eh_weight(g, &s, "scale", ph_shape_of(1, ph_dim_of(d)), PH_BF16, 1, 0.3f, 0);
    int       h = ph_graph_node(g, norm_op, PH_IN(x, scale), PH_ATTRS(PH_FLOAT("epsilon", 1e-3)), "h");
    int       w[5];
    for (int i = 0; i < 5; i++) {
        char name[8] = {'w', (char)('0' + i), 0};
        w[i] = eh_weight(g, &s, name,
                         ph_shape_of(2,
                                     ph_dim_of(i < 2    ? ff
                                               : i == 2 ? d
                                                        : 11),
                                     ph_dim_of(i == 4 ? ff : d)),
                         i % 2 ? PH_F16 : PH_F32, 0, 0.3f, 0);
    }
    int gate = ph_graph_node(g, "Linear", PH_IN(h, w[0]), PH_NO_ATTRS, "gate");
    int up = ph_graph_node(g, "Linear", PH_IN(h, w[1]), PH_NO_ATTRS, "up");
    gate = ph_graph_node(g, act, PH_IN(gate), PH_ATTRS(PH_FLOAT("alpha", alpha)), "act");
    int both = ph_graph_node(g, "Mul", PH_IN(up, gate), PH_NO_ATTRS, "both");
    int res = ph_graph_node(g, "Add", PH_IN(ph_graph_node(g, "Linear", PH_IN(h, w[2]), PH_NO_ATTRS, "p"), x),
                            PH_NO_ATTRS, "res");
    int side = ph_graph_node(g, "Linear", PH_IN(h, w[3]), PH_NO_ATTRS, "side");
    int down = ph_graph_node(g, "Linear", PH_IN(both, w[4]), PH_NO_ATTRS, "down");
    int sum = ph_graph_node(g, "Add", PH_IN(side, down), PH_NO_ATTRS, "sum");
    ph_graph_output(g, res, "res.out");
    ph_graph_output(g, ph_graph_node(g, "Add", PH_IN(sum, sum), PH_NO_ATTRS, "twice"), "sum.out");
    finish(g, &s, eh_syms(rows, 0, 0, 0, 0), 1, 1e-4f);
}

void test_lower_linear_fused(void) {
    fused("RMSNormalization", "Swish", 1.0, 1);
    fused("RMSNormalization", "Swish", 1.702, 45);
    fused("RMSNormalization", "Swish", 0.7, 33); /* no kernel of its own: not fused */
    fused("LayerNormalization", "Gelu", 1.0, 64);
    fused("LayerNormalization", "Relu", 1.0, 7);
    fused("RMSNormalization", "Tanh", 1.0, 200);
    fused("RMSNormalization", "Swish", 1.0, 0); /* no rows: nothing happens, and nothing breaks */
}

/* What may stand between a product and its residual: gates, and a norm of the result. */
static void gated(int rows, int d) {
    eh_store  s;
    ph_graph *g = open_graph(&s);
    ph_dim    r = ph_dim_sym(PH_SYM_R);
    int       x = input(g, "x", r, 33), res = input(g, "res", r, d), column = input(g, "column", r, 1), p[6];
    const float half = 0.37f;
    int         gate = ph_graph_constant(g, "gate", PH_F32, ph_shape_of(1, ph_dim_of(1)), &half);
    int         scale = eh_weight(g, &s, "scale", ph_shape_of(1, ph_dim_of(d)), PH_F16, 1, 0.3f, 0);
    for (int i = 0; i < 6; i++) {
        char name[8] = {'w', (char)('0' + i), 0};
        int  w = eh_weight(g, &s, name, ph_shape_of(2, ph_dim_of(d), ph_dim_of(33)), PH_F32, 0, 0.3f, 0);
        p[i] = ph_graph_node(g, "Linear", PH_IN(x, w), PH_NO_ATTRS, "p%d", i);
    }
    int a = ph_graph_node(g, "Mul", PH_IN(p[0], column), PH_NO_ATTRS, "a.seen");
    a = ph_graph_node(g, "Mul", PH_IN(a, gate), PH_NO_ATTRS, "a.gated");
    a = ph_graph_node(g, "Add", PH_IN(res, a), PH_NO_ATTRS, "a");
    int b = ph_graph_node(g, "Mul", PH_IN(gate, p[1]), PH_NO_ATTRS, "b");
    int c = ph_graph_node(g, "RMSNormalization", PH_IN(p[2], scale), PH_NO_ATTRS, "c.norm");
    c = ph_graph_node(g, "Add", PH_IN(c, a), PH_NO_ATTRS, "c"); /* a is made by the same rows' products */
    int e = ph_graph_node(g, "RMSNormalization", PH_IN(p[3], scale), PH_NO_ATTRS, "e.norm");
    e = ph_graph_node(g, "Add", PH_IN(res, e), PH_NO_ATTRS, "e");
    int f = ph_graph_node(g, "Mul", PH_IN(p[4], p[5]), PH_NO_ATTRS, "f.both");
    f = ph_graph_node(g, "Add", PH_IN(f, res), PH_NO_ATTRS, "f"); /* gate and up without a down */
    ph_graph_output(g, b, "b.out");
    ph_graph_output(g, c, "c.out");
    ph_graph_output(g, e, "e.out");
    ph_graph_output(g, f, "f.out");
    finish(g, &s, eh_syms(rows, 0, 0, 0, 0), 1, 1e-4f);
}

void test_lower_linear_gated(void) {
    static const int rows[] = {0, 1, 2, 3, 5, 33, 200};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gated(rows[i], 19);
        gated(rows[i], 401); /* columns in several units */
    }
}

/* Large enough that units split columns, with every thread count; a product of three dimensions. */
void test_lower_linear_large(void) {
    eh_store  s;
    ph_graph *g = open_graph(&s);
    ph_dim    i = ph_dim_sym(PH_SYM_I);
    int       x = ph_graph_input(g, "x", PH_F32, ph_shape_of(3, i, ph_dim_of(41), ph_dim_of(96)));
    int       w = eh_weight(g, &s, "w", ph_shape_of(2, ph_dim_of(501), ph_dim_of(96)), PH_Q8_0, 0, 0.3f, 0);
    int       y = ph_graph_node(g, "Linear", PH_IN(x, w), PH_NO_ATTRS, "y");
    y = ph_graph_node(g, "Gelu", PH_IN(y), PH_ATTRS(PH_TEXT("approximate", "tanh")), "gelu");
    ph_graph_output(g, y, "out");
    finish(g, &s, eh_syms(0, 0, 0, 3, 0), 1, 1e-4f);
}

/* A program bound for many rows runs any fewer: what it takes is within what was planned for the many. */
static void fewer(int k, ph_dtype type, int is_normed) {
    enum { MOST = 300, COLS = 40 };
    static const float ones[1 << 14];
    eh_store           s;
    eh_run             r = {0};
    ph_err             err = {0};
    ph_graph          *g = open_graph(&s);
    int                x = input(g, "x", ph_dim_sym(PH_SYM_R), k), rows_of = x;
    int w = eh_weight(g, &s, "w", ph_shape_of(2, ph_dim_of(COLS), ph_dim_of(k)), type, 0, 0.3f, 0);
    if (is_normed) {
        int scale = ph_graph_constant(g, "scale", PH_F32, ph_shape_of(1, ph_dim_of(k)), ones);
        rows_of = ph_graph_node(g, "RMSNormalization", PH_IN(x, scale), PH_NO_ATTRS, "norm");
    }
    ph_graph_output(g, ph_graph_node(g, "Linear", PH_IN(rows_of, w), PH_NO_ATTRS, "y"), "out");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    ph_syms most = eh_syms(MOST, 0, 0, 0, 0);
    if (eh_open(&r, g, 2, ph_cpu_features(), most, NULL, 0) && eh_bind(&r, most, NULL)) {
        memset(r.memory, 0, r.bytes);
        for (int n = 1; n < MOST && eh_go(&r, eh_syms(n, 0, 0, 0, 0)); n += n < 130 ? 1 : 17) continue;
        CHECK_SAY(eh_guards_stand(&r), "%d deep: written beyond its memory", k);
    }
    eh_close(&r);
    ph_graph_close(g);
    eh_store_close(&s);
}

void test_lower_linear_fewer(void) {
    static const int k[] = {1376, 4864, 8192, 11008, 12288};
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        fewer(k[i], PH_Q8_0, 0);
        fewer(k[i], PH_Q4_0, 1);
        fewer(k[i], PH_F16, 1);
    }
}

/* Bytes with a scale a row, alone, from a row of a larger matrix on, and in one group with blocks and floats,
 * as gate and up, behind a norm. */
static void bytes(int rows, int k, float bound) {
    static const float ones[1024] = {1, 2, 3};
    eh_store           s;
    ph_graph          *g = open_graph(&s);
    size_t             n = 70, deep = (size_t)k;
    int                x = input(g, "x", ph_dim_sym(PH_SYM_R), k), b[3], y[4];
    int                scale = ph_graph_constant(g, "scale", PH_F32, ph_shape_of(1, ph_dim_of(k)), ones);
    int                bias = eh_weight(g, &s, "bias", ph_shape_of(1, ph_dim_of(70)), PH_F32, 0, 0.5f, 0);
    int                h = ph_graph_node(g, "RMSNormalization", PH_IN(x, scale), PH_NO_ATTRS, "norm");
    b[0] = eh_bytes(g, &s, "b0", 0, n, deep, PH_F32);
    b[1] = eh_bytes(g, &s, "b1", 19, n, deep, PH_F16);
    b[2] = eh_bytes(g, &s, "b2", 0, n, deep, PH_BF16);
    int q = eh_weight(g, &s, "q", ph_shape_of(2, ph_dim_of(70), ph_dim_of(k)), k % 32 ? PH_F32 : PH_Q8_0, 0,
                      0.2f, 0);
    int f = eh_weight(g, &s, "f", ph_shape_of(2, ph_dim_of(70), ph_dim_of(k)), PH_F16, 0, 0.2f, 0);
    y[0] = ph_graph_node(g, "Linear", PH_IN(h, b[0], bias), PH_NO_ATTRS, "y0");
    y[1] = ph_graph_node(g, "Linear", PH_IN(h, b[1]), PH_NO_ATTRS, "y1");
    y[2] = ph_graph_node(g, "Linear", PH_IN(h, q), PH_NO_ATTRS, "y2");
    y[3] = ph_graph_node(g, "Linear", PH_IN(h, f), PH_NO_ATTRS, "y3");
    int gate = ph_graph_node(g, "Relu", PH_IN(y[0]), PH_NO_ATTRS, "gate");
    ph_graph_output(g, ph_graph_node(g, "Mul", PH_IN(gate, y[1]), PH_NO_ATTRS, "gated"), "out");
    ph_graph_output(g, ph_graph_node(g, "Add", PH_IN(y[2], y[3]), PH_NO_ATTRS, "sum"), "out.sum");
    ph_graph_output(g, ph_graph_node(g, "Linear", PH_IN(x, b[2]), PH_NO_ATTRS, "plain"), "out.plain");
    finish(g, &s, eh_syms(rows, 0, 0, 0, 0), 1, bound);
}

void test_lower_linear_bytes(void) {
    static const int rows[] = {0, 1, 3, 5, 33, 130};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes(rows[i], 96, 2e-4f);
        bytes(rows[i], 704, 2e-4f);
        bytes(rows[i], 50, 1e-4f); /* rows of no whole blocks: floats */
    }
}

/* The same product by rows of 16 and of 8 bits: other bits where this processor has products by integers. */
static void rows_of_bits(ph_dtype t) {
    enum { ROWS = 5, K = 96, COLS = 70 };
    static float x[ROWS * K], got[2][ROWS * COLS];
    eh_store     s;
    ph_err       err = {0};
    ph_kernels   k;
    ph_graph    *g = open_graph(&s);
    int          in = input(g, "x", ph_dim_sym(PH_SYM_R), K);
    int          w = t == PH_I8 ? eh_bytes(g, &s, "w", 0, COLS, K, PH_F32)
                                : eh_weight(g, &s, "w", ph_shape_of(2, ph_dim_of(COLS), ph_dim_of(K)), t, 0, 0.2f, 0);
    int          y = ph_graph_node(g, "Linear", PH_IN(in, w), PH_NO_ATTRS, "y");
    ph_graph_output(g, y, "out");
    CHECK(!ph_graph_finish(g, &err));
    ph_kernels_init(&k, ph_cpu_features());
    for (size_t i = 0; i < ROWS * K; i++) x[i] = eh_float();
    for (eh_rows8 = 0; eh_rows8 < 2; eh_rows8++) {
        ph_syms syms = eh_syms(ROWS, 0, 0, 0, 0);
        eh_run  r;
        CHECK(eh_open(&r, g, 1, ph_cpu_features(), syms, NULL, 0) && eh_bind(&r, syms, NULL));
        memcpy(r.engine->def->buffer(r.program, in), x, sizeof x);
        eh_go(&r, syms);
        memcpy(got[eh_rows8], r.engine->def->buffer(r.program, y), sizeof *got);
        eh_close(&r);
    }
    eh_rows8 = 0;
    CHECK(!memcmp(got[0], got[1], sizeof *got) == !ph_dot_of(&k, t));
    ph_graph_close(g);
    eh_store_close(&s);
}

/* Rows of 8 bits are off by more than rows of 16 would be, and by no more than their own half step. */
void test_lower_linear_rows8(void) {
    rows_of_bits(PH_I8);
    rows_of_bits(PH_Q4_0);
    eh_rows8 = 1;
    for (int rows = 0; rows < 120; rows += 1 + rows / 2) {
        bytes(rows, 96, 4e-2f);
        fewer(1376 + 32 * rows, PH_Q4_0, 1);
    }
    eh_rows8 = 0;
}

/* Work in place must not eat what is read again: by the same product, by a later node, or by the caller. */
void test_lower_in_place(void) {
    enum { D = 96 };
    eh_store  s;
    ph_graph *g = open_graph(&s);
    int       x = input(g, "x", ph_dim_sym(PH_SYM_R), D), w[3];
    for (int i = 0; i < 3; i++) {
        char name[8] = {'w', (char)('0' + i), 0};
        w[i] = eh_weight(g, &s, name, ph_shape_of(2, ph_dim_of(D), ph_dim_of(D)), PH_F32, 0, 0.2f, 0);
    }
    int t = ph_graph_node(g, "Add", PH_IN(x, x), PH_NO_ATTRS, "t");
    int u = ph_graph_node(g, "Relu", PH_IN(t), PH_NO_ATTRS, "u");
    int v = ph_graph_node(g, "Mul", PH_IN(t, u), PH_NO_ATTRS, "v");
    int own =
        ph_graph_node(g, "Linear", PH_IN(v, w[0]), PH_NO_ATTRS, "own"); /* v is both rows and residual */
    int a = ph_graph_node(g, "Add", PH_IN(v, own), PH_NO_ATTRS, "a");
    int b = ph_graph_node(g, "Linear", PH_IN(t, w[1]), PH_NO_ATTRS, "b");
    int c = ph_graph_node(g, "Add", PH_IN(a, b), PH_NO_ATTRS, "c"); /* a is read again below */
    int d = ph_graph_node(g, "Linear", PH_IN(c, w[2]), PH_NO_ATTRS, "d");
    int e = ph_graph_node(g, "Add", PH_IN(d, a), PH_NO_ATTRS, "e"); /* here it may go */
    ph_graph_output(g, c, "c.out");
    ph_graph_output(g, ph_graph_node(g, "Tanh", PH_IN(e), PH_NO_ATTRS, "f"), "out");
    finish(g, &s, eh_syms(70, 0, 0, 0, 0), 1, 1e-4f);
}

/* ---- norms and elementwise ---- */

void test_lower_norm(void) {
    for (int trial = 0; trial < 6; trial++) {
        eh_store  s;
        ph_graph *g = open_graph(&s);
        int       n = 1 + (int)eh_below(trial == 5 ? 3000 : 60);
        int       x = input(g, "x", ph_dim_sym(PH_SYM_R), n);
        int       scale = eh_weight(g, &s, "scale", ph_shape_of(1, ph_dim_of(n)), PH_F16, 1, 0.5f, 0);
        int       bias = eh_weight(g, &s, "bias", ph_shape_of(1, ph_dim_of(n)), PH_BF16, 0, 0.5f, 0);
        int       a = ph_graph_node(g, "RMSNormalization", PH_IN(x, scale), PH_NO_ATTRS, "a");
        int       b = ph_graph_node(g, "LayerNormalization", PH_IN(a, scale, trial % 2 ? bias : -1),
                                    PH_ATTRS(PH_FLOAT("epsilon", 1e-2), PH_INT("axis", -1)), "b");
        ph_graph_output(g, a, "a.out");
        ph_graph_output(g, b, "b.out");
        finish(g, &s, eh_syms((int64_t)(1 + eh_below(40)), 0, 0, 0, 0), 1, 1e-4f);
    }
}

void test_lower_map(void) {
    static const char *const unary[] = {"Gelu", "Relu", "Sigmoid", "Tanh", "Swish"};
    eh_store                 s;
    ph_graph                *g = open_graph(&s);
    ph_dim                   i = ph_dim_sym(PH_SYM_I);
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(3, i, ph_dim_of(7), ph_dim_of(1009)));
    int z = ph_graph_input(g, "z", PH_F32, ph_shape_of(3, i, ph_dim_of(7), ph_dim_of(1009)));
    int position =
        eh_weight(g, &s, "position", ph_shape_of(2, ph_dim_of(7), ph_dim_of(1009)), PH_F16, 0, 1, 0);
    int position3 = ph_graph_node(g, "Add", PH_IN(x, position), PH_NO_ATTRS, "positioned");
    for (size_t u = 0; u < 5; u++)
        ph_graph_output(g, ph_graph_node(g, unary[u], PH_IN(x), PH_NO_ATTRS, "u%zu", u), unary[u]);
    int row =
        eh_weight(g, &s, "row", ph_shape_of(3, ph_dim_of(1), ph_dim_of(1), ph_dim_of(1009)), PH_F32, 0, 1, 0);
    int one = eh_weight(g, &s, "one", ph_shape_of(1, ph_dim_of(1)), PH_F32, 0.5f, 0.1f, 0);
    int y = ph_graph_node(g, "Mul", PH_IN(row, position3), PH_NO_ATTRS, "m1");
    y = ph_graph_node(g, "Mul", PH_IN(y, one), PH_NO_ATTRS, "m2");
    y = ph_graph_node(g, "Add", PH_IN(one, y), PH_NO_ATTRS, "m3");
    y = ph_graph_node(g, "Mul", PH_IN(y, z), PH_NO_ATTRS, "m4");
    y = ph_graph_node(g, "Add", PH_IN(y, y), PH_NO_ATTRS, "m5");
    /* A middle dimension that stretches: the operator's own eval. */
    int column =
        eh_weight(g, &s, "column", ph_shape_of(3, ph_dim_of(1), ph_dim_of(7), ph_dim_of(1)), PH_F32, 0, 1, 0);
    y = ph_graph_node(g, "Mul", PH_IN(y, column), PH_NO_ATTRS, "m6");
    ph_graph_output(g, y, "out");
    finish(g, &s, eh_syms(0, 0, 0, 5, 0), 1, 1e-5f);
}

/* ---- moves ---- */

static int list(ph_graph *g, const char *name, int n, const int64_t *v) {
    return ph_graph_constant(g, name, PH_I64, ph_shape_of(1, ph_dim_of(n)), v);
}

void test_lower_move(void) {
    static const int64_t perm[] = {0, 2, 1, 3}, back[] = {3, 1, 0, 2}, starts[] = {-3, 1},
                         ends[] = {INT64_MAX, 20}, axes[] = {1, 3}, steps[] = {1, 4}, minus[] = {-1},
                         first[] = {INT64_MAX}, low[] = {INT64_MIN}, last[] = {3}, sizes[] = {2, 9, 10},
                         to[] = {1, 5, 4, 21};
    eh_store  s;
    ph_graph *g = open_graph(&s);
    ph_dim    i = ph_dim_sym(PH_SYM_I);
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(4, i, ph_dim_of(5), ph_dim_of(4), ph_dim_of(21)));
    int y = ph_graph_node(g, "Transpose", PH_IN(x), PH_ATTRS(PH_INTS("perm", perm, 4)), "t");
    ph_graph_output(g, y, "t.out");
    ph_graph_output(g, ph_graph_node(g, "Transpose", PH_IN(y), PH_ATTRS(PH_INTS("perm", back, 4)), "t2"),
                    "t2.out");
    int cut = ph_graph_node(g, "Slice",
                            PH_IN(x, list(g, "s", 2, starts), list(g, "e", 2, ends), list(g, "a", 2, axes),
                                  list(g, "p", 2, steps)),
                            PH_NO_ATTRS, "cut");
    ph_graph_output(g, cut, "cut.out");
    int flip = ph_graph_node(g, "Slice",
                             PH_IN(x, list(g, "f", 1, first), list(g, "l", 1, low), list(g, "fa", 1, last),
                                   list(g, "fs", 1, minus)),
                             PH_NO_ATTRS, "flip");
    int wide =
        ph_graph_node(g, "Expand",
                      PH_IN(eh_weight(g, &s, "cls", ph_shape_of(3, ph_dim_of(5), ph_dim_of(1), ph_dim_of(21)),
                                      PH_F16, 0, 1, 0),
                            list(g, "to", 4, to)),
                      PH_NO_ATTRS, "wide");
    ph_graph_output(g, wide, "wide.out");
    ph_graph_output(g, ph_graph_node(g, "Concat", PH_IN(flip, x, flip), PH_ATTRS(PH_INT("axis", -2)), "cat"),
                    "cat.out");
    ph_graph_output(g, ph_graph_node(g, "Concat", PH_IN(x, flip), PH_ATTRS(PH_INT("axis", 0)), "cat0"),
                    "cat0.out");
    int split =
        ph_graph_node(g, "Split", PH_IN(x, list(g, "sizes", 3, sizes)), PH_ATTRS(PH_INT("axis", 3)), "split");
    ph_graph_output(g, ph_graph_output_of(g, split, 1), "split.out");
    ph_graph_output(g, ph_graph_output_of(g, split, 2), "split2.out");
    /* Pixel shuffle, with symbols: [I, 20, 21] -> [I, 5, 2, 2 * 21] ... */
    static const int64_t shape[] = {0, 5, 2, 42}, flat[] = {0, 10, 42};
    int v = ph_graph_node(g, "Reshape", PH_IN(x, list(g, "shape", 4, shape)), PH_NO_ATTRS, "v");
    v = ph_graph_node(g, "Transpose", PH_IN(v), PH_ATTRS(PH_INTS("perm", perm, 4)), "v2");
    ph_graph_output(g, ph_graph_node(g, "Reshape", PH_IN(v, list(g, "flat", 3, flat)), PH_NO_ATTRS, "v3"),
                    "v.out");
    finish(g, &s, eh_syms(0, 0, 0, 3, 0), 1, 0);
}

/* Backwards from before the first element, and a step that no stride can be multiplied by. */
void test_lower_slice_far(void) {
    static const int64_t axis[] = {1}, low[] = {INT64_MIN}, most[] = {INT64_MIN + 1}, back[] = {-2},
                         far[] = {INT64_MAX}, one[] = {1};
    const int64_t *const rows[][3] = {
        {low, low, most}, {low, low, back}, {one, low, most}, {one, far, far}, {far, low, most}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        eh_store  s;
        ph_graph *g = open_graph(&s);
        int       x =
            ph_graph_input(g, "x", PH_F32, ph_shape_of(3, ph_dim_sym(PH_SYM_I), ph_dim_of(5), ph_dim_of(4)));
        int y = ph_graph_node(g, "Slice",
                              PH_IN(x, list(g, "s", 1, rows[i][0]), list(g, "e", 1, rows[i][1]),
                                    list(g, "a", 1, axis), list(g, "p", 1, rows[i][2])),
                              PH_NO_ATTRS, "y");
        ph_graph_output(g, y, "y.out");
        CHECK(y >= 0 && g->value[y].shape.dim[1].mul == 1);
        finish(g, &s, eh_syms(0, 0, 0, 3, 0), 1, 0);
    }
}

void test_lower_gather(void) {
    for (size_t t = 0; t < sizeof stored / sizeof *stored; t++) {
        eh_store  s;
        ph_graph *g = open_graph(&s);
        int       cols = (int)ph_dtype_block(stored[t]) * 2 + (ph_dtype_block(stored[t]) == 1 ? 9 : 0);
        ph_dim    r = ph_dim_sym(PH_SYM_R);
        int       ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, r));
        int       at = ph_graph_input(g, "at", PH_I64, ph_shape_of(2, ph_dim_sym(PH_SYM_V), ph_dim_of(1)));
        int rows = ph_graph_input(g, "rows", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_V), ph_dim_of(cols)));
        int table =
            eh_weight(g, &s, "table", ph_shape_of(2, ph_dim_of(31), ph_dim_of(cols)), stored[t], 0, 1, 0);
        int x = ph_graph_node(g, "Gather", PH_IN(table, ids), PH_NO_ATTRS, "x");
        int y = ph_graph_node(g, "ScatterND", PH_IN(x, at, rows), PH_NO_ATTRS, "y"); /* in place of x */
        int z = ph_graph_node(g, "ScatterND", PH_IN(y, at, rows), PH_NO_ATTRS, "z"); /* y is wanted: a copy */
        ph_graph_output(g, y, "y.out");
        ph_graph_output(g, z, "z.out");
        ph_graph_output(g, ph_graph_node(g, "Gather", PH_IN(z, at), PH_NO_ATTRS, "p"), "p.out");
        /* 31 rows in the table and in the activations, so that one range of indices serves both. */
        finish(g, &s, eh_syms(31, 0, t == 1 ? 0 : 12, 0, 0), 31, 0);
    }
}

/* Rows of a table in separate planes: bytes with a scale a row. */
void test_lower_gather_planes(void) {
    static const float scale[31] = {1, 2, 3, 4, 5, 6, 7, 8, 9, [30] = 0.5f};
    static uint8_t     bytes[31 * 9];
    eh_store           s;
    ph_graph          *g = open_graph(&s);
    ph_storage         t = ph_storage_of(PH_I8, bytes, sizeof bytes, 9);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37);
    t.form = &ph_storage_channels;
    t.n_rows = 31;
    t.n_planes = 2;
    t.plane[PH_PLANE_SCALE] =
        (ph_plane){.bytes = scale, .n = sizeof scale, .row_stride = sizeof scale, .dtype = PH_F32};
    CHECK(!t.form->check(&t, 9, NULL));
    int ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_R)));
    int table = ph_graph_weight(g, "table", ph_shape_of(2, ph_dim_of(31), ph_dim_of(9)), t);
    ph_graph_output(g, ph_graph_node(g, "Gather", PH_IN(table, ids), PH_NO_ATTRS, "x"), "x.out");
    finish(g, &s, eh_syms(31, 0, 0, 0, 0), 31, 0);
}

/* ---- vision ---- */

static void patch(ph_dtype t, int channels, int p, int q, int side, int is_joined, int has_bias) {
    static const int64_t perm[] = {0, 2, 1};
    eh_store             s;
    ph_graph            *g = open_graph(&s);
    int                  d = 19, gh = side, gw = side + 1;
    int64_t              strides[] = {p, q}, flat[] = {0, d, -1};
    int                  x = ph_graph_input(
                         g, "x", PH_F32,
                         ph_shape_of(4, ph_dim_sym(PH_SYM_I), ph_dim_of(channels), ph_dim_of(gh * p + 1), ph_dim_of(gw * q)));
    int w =
        eh_weight(g, &s, "w", ph_shape_of(4, ph_dim_of(d), ph_dim_of(channels), ph_dim_of(p), ph_dim_of(q)),
                  t, 0, 0.3f, 0);
    int b = has_bias ? eh_weight(g, &s, "b", ph_shape_of(1, ph_dim_of(d)), PH_F16, 0, 1, 0) : -1;
    int y = ph_graph_node(g, "Conv", PH_IN(x, w, b), PH_ATTRS(PH_INTS("strides", strides, 2)), "y");
    if (is_joined) {
        y = ph_graph_node(g, "Reshape", PH_IN(y, list(g, "flat", 3, flat)), PH_NO_ATTRS, "r");
        y = ph_graph_node(g, "Transpose", PH_IN(y), PH_ATTRS(PH_INTS("perm", perm, 3)), "t");
    }
    ph_graph_output(g, y, "out");
    finish(g, &s, eh_syms(0, 0, 0, 2, 0), 1, 1e-5f);
}

void test_lower_patch(void) {
    patch(PH_F32, 3, 4, 4, 5, 1, 1);
    patch(PH_F16, 3, 14, 14, 3, 1, 0);
    patch(PH_BF16, 1, 2, 3, 9, 0, 1);
    patch(PH_F32, 2, 1, 1, 4, 0, 0);
}

/* id: of q, k, v and the answer.  has_blocks: beside a product by integers, where the set has those. */
static ph_graph *attention_graph(eh_store *s, int has_blocks, int id[4], int n_q, int n_k, int heads,
                                 int kv_heads, int d, int dv, double softcap, int causal) {
    ph_graph *g = open_graph(s);
    ph_dim    i = ph_dim_sym(PH_SYM_I);
    if (has_blocks) {
        int w = eh_weight(g, s, "w", ph_shape_of(2, ph_dim_of(32), ph_dim_of(64)), PH_Q8_0, 0, 0.2f, 0);
        int x = input(g, "x", ph_dim_sym(PH_SYM_R), 64);
        ph_graph_output(g, ph_graph_node(g, "Linear", PH_IN(x, w), PH_NO_ATTRS, "side"), "side.out");
    }
    id[0] = ph_graph_input(g, "q", PH_F32, ph_shape_of(3, i, ph_dim_of(n_q), ph_dim_of(heads * d)));
    id[1] = ph_graph_input(g, "k", PH_F32, ph_shape_of(3, i, ph_dim_of(n_k), ph_dim_of(kv_heads * d)));
    id[2] = ph_graph_input(g, "v", PH_F32, ph_shape_of(3, i, ph_dim_of(n_k), ph_dim_of(kv_heads * dv)));
    id[3] = ph_graph_node(g, "Attention", PH_IN(id[0], id[1], id[2]),
                          PH_ATTRS(PH_INT("q_num_heads", heads), PH_INT("kv_num_heads", kv_heads),
                                   PH_FLOAT("softcap", softcap), PH_INT("is_causal", causal)),
                          "y");
    ph_graph_output(g, id[3], "out");
    return g;
}

/* With rows of 8 bits numbers are rounded to bfloat16, where the set has products of them. */
static void attention(int tiles, int n_q, int n_k, int heads, int kv_heads, int d, int dv, double softcap,
                      int causal) {
    for (eh_rows8 = 0; eh_rows8 < 2; eh_rows8++) {
        eh_store  s;
        int       id[4];
        ph_graph *g = attention_graph(&s, eh_rows8, id, n_q, n_k, heads, kv_heads, d, dv, softcap, causal);
        finish(g, &s, eh_syms(1, 0, 0, tiles, 0), 1, eh_rows8 ? 3e-2f : 1e-4f);
    }
    eh_rows8 = 0;
}

/* Attention of made numbers, with rows of 8 bits or not. */
static void attention_of(float *got, int is_rows8, int has_blocks, int n_q, int n_k, int width) {
    eh_store  s;
    ph_err    err = {0};
    int       id[4];
    eh_run    r;
    ph_syms   syms = eh_syms(1, 0, 0, 1, 0);
    ph_graph *g = attention_graph(&s, has_blocks, id, n_q, n_k, 2, 2, width / 2, width / 2, 0, 0);
    CHECK(!ph_graph_finish(g, &err));
    eh_rows8 = is_rows8;
    CHECK(eh_open(&r, g, 1, ph_cpu_features(), syms, NULL, 0) && eh_bind(&r, syms, NULL));
    for (int v = 0; v < 3; v++) {
        float *x = r.engine->def->buffer(r.program, id[v]);
        for (int i = 0; i < (v ? n_k : n_q) * width; i++) x[i] = (float)((i * 37 + v * 11) % 101) / 50 - 1;
    }
    eh_go(&r, syms);
    memcpy(got, r.engine->def->buffer(r.program, id[3]), (size_t)(n_q * width) * sizeof *got);
    eh_close(&r);
    eh_rows8 = 0;
    ph_graph_close(g);
    eh_store_close(&s);
}

/* Numbers are rounded behind products by rows of 8 bits, and nowhere else. */
static void attention_rounds(void) {
    enum { N_Q = 20, N_K = 90, WIDTH = 64, ALL = N_Q * WIDTH };
    static float got[4][ALL];
    ph_kernels   k;
    ph_kernels_init(&k, ph_cpu_features());
    for (int i = 0; i < 4; i++) attention_of(got[i], i & 1, i >> 1, N_Q, N_K, WIDTH);
    CHECK(!memcmp(got[1], got[0], sizeof *got) && !memcmp(got[2], got[0], sizeof *got));
    CHECK(!memcmp(got[3], got[0], sizeof *got) == !ph_attend_rounded_of(&k));
    eh_close_to(got[3], got[0], ALL, 3e-2f, "rounded");
}

/* Each query sees about half of the keys, in runs; some see none. */
static void attention_masked(int tiles, int n_q, int n_k, int heads, int kv_heads, int d) {
    enum { ONNX_BOOL = 9 };
    eh_store  s;
    ph_graph *g = open_graph(&s);
    ph_dim    i = ph_dim_sym(PH_SYM_I);
    int       q = ph_graph_input(g, "q", PH_F32, ph_shape_of(3, i, ph_dim_of(n_q), ph_dim_of(heads * d)));
    int       k = ph_graph_input(g, "k", PH_F32, ph_shape_of(3, i, ph_dim_of(n_k), ph_dim_of(kv_heads * d)));
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(4, i, ph_dim_of(1), ph_dim_of(n_q), ph_dim_of(n_k)));
    int m = ph_graph_node(g, "Relu", PH_IN(x), PH_NO_ATTRS, "some");
    m = ph_graph_node(g, "Cast", PH_IN(m), PH_ATTRS(PH_INT("to", ONNX_BOOL)), "mask");
    int y = ph_graph_node(g, "Attention", PH_IN(q, k, k, m),
                          PH_ATTRS(PH_INT("q_num_heads", heads), PH_INT("kv_num_heads", kv_heads)), "y");
    ph_graph_output(g, y, "out");
    finish(g, &s, eh_syms(0, 0, 0, tiles, 0), 1, 1e-4f);
}

void test_lower_attention(void) {
    attention_masked(2, 50, 50, 3, 3, 8);
    attention_masked(1, 7, 200, 4, 2, 5);
    attention_masked(3, 40, 1, 2, 1, 4);
    attention_rounds();
    attention(2, 50, 50, 3, 3, 8, 8, 0, 0);
    attention(1, 70, 200, 2, 1, 72, 40, 0, 0);
    attention(1, 5, 9, 1, 1, 300, 3, 0, 0); /* more than attend_rounded takes */
    attention(1, 65, 129, 4, 2, 5, 7, 0, 0);
    attention(3, 1, 64, 6, 1, 16, 16, 3.5, 0);
    attention(1, 33, 33, 2, 2, 4, 4, 0, 1); /* causal: the operator's eval */
}

/* ---- the rest ---- */

void test_lower_rope(void) {
    for (int pairs = 0; pairs < 2; pairs++) {
        eh_store  s;
        ph_graph *g = open_graph(&s);
        ph_dim    r = ph_dim_sym(PH_SYM_R);
        int       x = input(g, "x", r, 3 * 10);
        int       rows = ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, r, ph_dim_of(PH_ROW_FIELDS)));
        int       c = ph_graph_node(g, "RopeAngles", PH_IN(rows),
                                    PH_ATTRS(PH_INT("dim", 6), PH_FLOAT("theta", 500)), "c");
        int       y = ph_graph_node(
                  g, "RotaryEmbedding", PH_IN(x, c, ph_graph_output_of(g, c, 1)),
                  PH_ATTRS(PH_INT("num_heads", 3), PH_INT("rotary_embedding_dim", 6), PH_INT("interleaved", pairs)),
                  "y");
        int z = ph_graph_node(g, "Relu", PH_IN(y), PH_NO_ATTRS, "z");
        ph_graph_output(g, z, "z.out");
        ph_graph_output(g, c, "c.out");
        finish(g, &s, eh_syms(77, 0, 0, 0, 0), 300, 1e-5f);
    }
}

/* Operators without a lowering, and those whose form has none. */
void test_lower_eval(void) {
    static const int64_t pads[] = {1, 1, 1, 1}, axes[] = {-1};
    eh_store             s;
    ph_graph            *g = open_graph(&s);
    ph_dim               i = ph_dim_sym(PH_SYM_I);
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(4, i, ph_dim_of(3), ph_dim_of(9), ph_dim_of(5)));
    int w = eh_weight(g, &s, "w", ph_shape_of(4, ph_dim_of(4), ph_dim_of(3), ph_dim_of(3), ph_dim_of(3)),
                      PH_F16, 0, 0.4f, 0);
    int y = ph_graph_node(g, "Conv", PH_IN(x, w), PH_ATTRS(PH_INTS("pads", pads, 4)), "conv");
    y = ph_graph_node(g, "Softmax", PH_IN(y), PH_ATTRS(PH_INT("axis", 2)), "softmax");
    int m = eh_weight(g, &s, "m", ph_shape_of(2, ph_dim_of(5), ph_dim_of(6)), PH_BF16, 0, 1, 0);
    y = ph_graph_node(g, "MatMul", PH_IN(y, m), PH_NO_ATTRS, "matmul");
    int mean = ph_graph_node(g, "ReduceMean", PH_IN(y, list(g, "axes", 1, axes)), PH_NO_ATTRS, "mean");
    y = ph_graph_node(g, "Sub", PH_IN(y, mean), PH_NO_ATTRS, "sub");
    y = ph_graph_node(g, "Erf", PH_IN(y), PH_NO_ATTRS, "erf");
    int column = ph_graph_input(g, "column", PH_I64, ph_shape_of(1, ph_dim_of(2)));
    ph_graph_output(g, ph_graph_node(g, "Gather", PH_IN(y, column), PH_ATTRS(PH_INT("axis", 3)), "g"), "out");
    finish(g, &s, eh_syms(0, 0, 0, 2, 0), 6, 1e-4f);
}

/* What evals carve grows with the shapes: a weight to widen and to turn, scores of many tokens, a long
 * unfolded line. */
void test_lower_eval_scratch(void) {
    static const int64_t pads[] = {1, 1, 1, 1};
    for (int which = 0; which < 4; which++) { /* a graph each: the largest would hide the others */
        eh_store  s;
        ph_graph *g = open_graph(&s);
        ph_dim    i = ph_dim_sym(PH_SYM_I);
        int       y;
        if (which == 0) {
            int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(3, i, ph_dim_of(4), ph_dim_of(64)));
            int m = eh_weight(g, &s, "m", ph_shape_of(2, ph_dim_of(64), ph_dim_of(300)), PH_BF16, 0, 1, 0);
            y = ph_graph_node(g, "MatMul", PH_IN(x, m), PH_NO_ATTRS, "y");
        } else if (which == 3) {
            int p =
                ph_graph_input(g, "p", PH_F32, ph_shape_of(4, i, ph_dim_of(8), ph_dim_of(2), ph_dim_of(300)));
            int w =
                eh_weight(g, &s, "w", ph_shape_of(4, ph_dim_of(3), ph_dim_of(8), ph_dim_of(3), ph_dim_of(3)),
                          PH_F32, 0, 1, 0);
            y = ph_graph_node(g, "Conv", PH_IN(p, w), PH_ATTRS(PH_INTS("pads", pads, 4)), "y");
        } else {
            int q =
                ph_graph_input(g, "q", PH_F32, ph_shape_of(4, i, ph_dim_of(2), ph_dim_of(300), ph_dim_of(3)));
            int mask = -1;
            if (which == 2)
                mask =
                    eh_weight(g, &s, "mask", ph_shape_of(2, ph_dim_of(300), ph_dim_of(300)), PH_F16, 0, 1, 0);
            y = ph_graph_node(g, "Attention", PH_IN(q, q, q, mask), PH_NO_ATTRS, "y");
        }
        ph_graph_output(g, y, "out");
        finish(g, &s, eh_syms(0, 0, 0, 1, 0), 1, 1e-4f);
    }
}

/* Wrong indices are an error that names the node, and nothing is written out of place. */
void test_lower_bad_data(void) {
    eh_store  s;
    ph_graph *g = open_graph(&s);
    ph_err    err = {0};
    eh_run    r;
    int       ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_R)));
    int       at = ph_graph_input(g, "at", PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_V), ph_dim_of(1)));
    int       rows = ph_graph_input(g, "rows", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_V), ph_dim_of(4)));
    int       table = eh_weight(g, &s, "table", ph_shape_of(2, ph_dim_of(9), ph_dim_of(4)), PH_F32, 0, 1, 0);
    int       x = ph_graph_node(g, "Gather", PH_IN(table, ids), PH_NO_ATTRS, "picked");
    ph_graph_output(g, ph_graph_node(g, "ScatterND", PH_IN(x, at, rows), PH_NO_ATTRS, "spliced"), "out");
    CHECK(!ph_graph_finish(g, &err));
    ph_syms syms = eh_syms(3, 0, 1, 0, 0);
    if (eh_open(&r, g, 2, 0, syms, NULL, 0) && eh_bind(&r, syms, NULL)) {
        static const int32_t bad[][4] = {{0, 9, 0, 0},   {-10, 0, 0, 0},       {0, 8, -9, 3},
                                         {0, 8, -9, -4}, {INT32_MIN, 0, 0, 0}, {1, 2, 3, 0}};
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            ph_run_state state;
            memcpy(r.engine->def->buffer(r.program, ids), bad[i], 12);
            memcpy(r.engine->def->buffer(r.program, at), &bad[i][3], 4);
            memset(r.engine->def->buffer(r.program, rows), 0, 16);
            err = (ph_err){0};
            ph_rc rc = r.engine->def->run(r.program, &syms, NULL, &state, &err);
            CHECK_SAY(rc == (i == 5 ? PH_OK : PH_EMISMATCH), "case %zu: %s", i, ph_rc_name(rc));
            CHECK(i == 5 || strstr(err.note[0], i < 2 || i == 4 ? "picked" : "spliced"));
        }
        ph_syms      more = eh_syms(4, 0, 1, 0, 0);
        ph_run_state state;
        CHECK(r.engine->def->run(r.program, &more, NULL, &state, &err) == PH_ELIMIT);
        CHECK(eh_guards_stand(&r));
    }
    eh_close(&r);
    ph_graph_close(g);
    eh_store_close(&s);
}

/* ---- a whole vision tower and bridge ---- */

typedef struct tower {
    ph_graph *g;
    eh_store *s;
    int       d, n;
} tower;

static int tensor(tower *t, const char *what, int layer, int n, int k, float about) {
    char name[48];
    snprintf(name, sizeof name, "v.%d.%s", layer, what);
    ph_shape shape = k ? ph_shape_of(2, ph_dim_of(n), ph_dim_of(k)) : ph_shape_of(1, ph_dim_of(n));
    return eh_weight(t->g, t->s, name, shape, PH_F16, about, k ? 0.25f : 0.1f, 0);
}

static int tower_linear(tower *t, int x, const char *what, int layer, int n, int k) {
    char bias[32];
    snprintf(bias, sizeof bias, "%s.b", what);
    return ph_graph_node(t->g, "Linear",
                         PH_IN(x, tensor(t, what, layer, n, k, 0), tensor(t, bias, layer, n, 0, 0)),
                         PH_NO_ATTRS, "v.%d.%s.y", layer, what);
}

static int tower_norm(tower *t, int x, const char *what, int layer) {
    char bias[32];
    snprintf(bias, sizeof bias, "%s.b", what);
    return ph_graph_node(t->g, "LayerNormalization",
                         PH_IN(x, tensor(t, what, layer, t->d, 0, 1), tensor(t, bias, layer, t->d, 0, 0)),
                         PH_ATTRS(PH_FLOAT("epsilon", 1e-5)), "v.%d.%s.y", layer, what);
}

static int tower_layer(tower *t, int x, int i) {
    int h = tower_norm(t, x, "norm1", i), d = t->d;
    int q = tower_linear(t, h, "q", i, d, d), k = tower_linear(t, h, "k", i, d, d),
        v = tower_linear(t, h, "val", i, d, d);
    int a = ph_graph_node(t->g, "Attention", PH_IN(q, k, v),
                          PH_ATTRS(PH_INT("q_num_heads", 4), PH_INT("kv_num_heads", 4)), "v.%d.a", i);
    x = ph_graph_node(t->g, "Add", PH_IN(x, tower_linear(t, a, "o", i, d, d)), PH_NO_ATTRS, "v.%d.x1", i);
    h = tower_linear(t, tower_norm(t, x, "norm2", i), "fc1", i, 3 * d, d);
    h = ph_graph_node(t->g, "Swish", PH_IN(h), PH_ATTRS(PH_FLOAT("alpha", 1.702)), "v.%d.act", i);
    return ph_graph_node(t->g, "Add", PH_IN(tower_linear(t, h, "fc2", i, d, 3 * d), x), PH_NO_ATTRS,
                         "v.%d.x2", i);
}

void test_vision_tower(void) {
    static const int64_t strides[] = {4, 4}, flat[] = {0, 24, -1}, perm[] = {0, 2, 1}, one[] = {1},
                         all[] = {INT64_MAX}, axis[] = {1}, shuffle[] = {0, 3, 2, 3, 2, 24},
                         shuffled[] = {0, 1, 3, 2, 4, 5}, joined[] = {0, 9, 96};
    eh_store  s;
    ph_graph *g = open_graph(&s);
    tower     t = {g, &s, 24, 36};
    int       x = ph_graph_input(g, "pixels", PH_F32,
                                 ph_shape_of(4, ph_dim_sym(PH_SYM_I), ph_dim_of(3), ph_dim_of(24), ph_dim_of(24)));
    int w = eh_weight(g, &s, "patch", ph_shape_of(4, ph_dim_of(24), ph_dim_of(3), ph_dim_of(4), ph_dim_of(4)),
                      PH_F16, 0, 0.2f, 0);
    x = ph_graph_node(g, "Conv", PH_IN(x, w), PH_ATTRS(PH_INTS("strides", strides, 2)), "conv");
    x = ph_graph_node(g, "Reshape", PH_IN(x, list(g, "flat", 3, flat)), PH_NO_ATTRS, "flattened");
    x = ph_graph_node(g, "Transpose", PH_IN(x), PH_ATTRS(PH_INTS("perm", perm, 3)), "patches");
    int cls =
        eh_weight(g, &s, "cls", ph_shape_of(3, ph_dim_of(1), ph_dim_of(1), ph_dim_of(24)), PH_F16, 0, 1, 0);
    int first = ph_graph_node(
        g, "Slice",
        PH_IN(x, list(g, "zero", 1, (const int64_t[]){0}), list(g, "one", 1, one), list(g, "ax", 1, axis)),
        PH_NO_ATTRS, "first");
    int zero = ph_graph_node(
        g, "Mul",
        PH_IN(first, ph_graph_constant(g, "none", PH_F32, ph_shape_of(1, ph_dim_of(1)), &(const float){0})),
        PH_NO_ATTRS, "nil");
    cls = ph_graph_node(g, "Add", PH_IN(zero, cls), PH_NO_ATTRS, "tiled"); /* [I, 1, d] */
    x = ph_graph_node(g, "Concat", PH_IN(cls, x), PH_ATTRS(PH_INT("axis", 1)), "tokens");
    x = ph_graph_node(
        g, "Add",
        PH_IN(x, eh_weight(g, &s, "position", ph_shape_of(2, ph_dim_of(37), ph_dim_of(24)), PH_F16, 0, 1, 0)),
        PH_NO_ATTRS, "placed");
    x = tower_norm(&t, x, "pre", 9);
    for (int i = 0; i < 2; i++) x = tower_layer(&t, x, i);
    x = ph_graph_node(g, "Slice",
                      PH_IN(x, list(g, "from", 1, one), list(g, "upto", 1, all), list(g, "ax2", 1, axis)),
                      PH_NO_ATTRS, "no cls");
    x = ph_graph_node(g, "Reshape", PH_IN(x, list(g, "shuffle", 6, shuffle)), PH_NO_ATTRS, "blocks");
    x = ph_graph_node(g, "Transpose", PH_IN(x), PH_ATTRS(PH_INTS("perm", shuffled, 6)), "shuffled");
    x = ph_graph_node(g, "Reshape", PH_IN(x, list(g, "joined", 3, joined)), PH_NO_ATTRS, "merged");
    x = tower_linear(&t, x, "bridge1", 10, 40, 96);
    x = ph_graph_node(g, "Gelu", PH_IN(x), PH_NO_ATTRS, "bridge.act");
    ph_graph_output(g, tower_linear(&t, x, "bridge2", 10, 32, 40), "visual");
    finish(g, &s, eh_syms(0, 0, 0, 3, 0), 1, 2e-4f);
}
