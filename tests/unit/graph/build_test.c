/* build_test.c - builders, inference with symbols, and what the check finds. */
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/unit.h"

#include <stdio.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

static ph_graph *begin(void) {
    ph_graph *g = NULL;
    ph_err    err;
    CHECK(!ph_graph_open(&g, "test", &err));
    return g;
}

static int ints(ph_graph *g, const char *name, int n, const int64_t *list) {
    return ph_graph_constant(g, name, PH_I64, ph_shape_of(1, GH_D(n)), list);
}

static void expect(const ph_graph *g, int v, const char *want) {
    char text[128] = "(failed)";
    if (v >= 0) ph_shape_print(&g->value[v].shape, text, sizeof text);
    CHECK_SAY(!strcmp(text, want), "%s, wanted %s: %s", text, want, g->err.msg);
}

void test_build_names_and_shapes(void) {
    ph_graph *g = begin();
    ph_err    err = {0};
    float     w[32] = {0};
    g->modality = PH_MOD_TEXT;
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, GH_S(R), GH_D(8)));
    int wv =
        ph_graph_weight(g, "w", ph_shape_of(2, GH_D(4), GH_D(8)), ph_storage_of(PH_F32, w, sizeof w, 32));
    for (int i = 0; i < 500; i++) { /* tables grow */
        int y = ph_graph_node(g, "Linear", PH_IN(x, wv), PH_NO_ATTRS, "layer.%d.y", i);
        expect(g, y, "[R, 4]");
    }
    int parts =
        ph_graph_node(g, "Split", PH_IN(x), PH_ATTRS(PH_INT("axis", 1), PH_INT("num_outputs", 2)), "part");
    CHECK(ph_graph_find(g, "layer.499.y") >= 0 && ph_graph_find(g, "layer.500.y") == -1);
    CHECK(ph_graph_output_of(g, parts, 1) == ph_graph_find(g, "part.1"));
    CHECK(ph_graph_output_of(g, parts, 2) == -1 && ph_graph_output_of(g, x, 0) == -1 &&
          ph_graph_output_of(g, -1, 0) == -1);
    ph_graph_output(g, parts, "result");
    CHECK(ph_graph_find(g, "result") == parts && g->value[parts].is_output);
    CHECK(g->value[parts].modality == PH_MOD_TEXT && g->node[0].modality == PH_MOD_TEXT);
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    ph_graph_close(g);
    ph_graph_close(NULL);
}

void test_build_sticky(void) {
    ph_graph *g = begin();
    ph_err    err = {0};
    int       a = ph_graph_input(g, "a", PH_F32, ph_shape_of(2, GH_S(R), GH_D(8)));
    int       b = ph_graph_input(g, "b", PH_F32, ph_shape_of(2, GH_S(R), GH_D(9)));
    int       c = ph_graph_node(g, "Add", PH_IN(a, b), PH_NO_ATTRS, "block.%d.sum", 3);
    CHECK(c == -1 && ph_graph_node(g, "Relu", PH_IN(c), PH_NO_ATTRS, "later") == -1);
    CHECK(ph_graph_input(g, "d", PH_F32, ph_shape_of(0)) == -1);
    ph_graph_output(g, a, "out");
    ph_graph_fail(g, PH_EUNSUP, "second failure");
    CHECK(ph_graph_finish(g, &err) == PH_EMISMATCH);
    CHECK(strstr(err.msg, "[R, 8]") && strstr(err.msg, "[R, 9]") && strstr(err.note[0], "block.3.sum"));
    ph_graph_close(g);
    g = begin();
    ph_graph_fail(g, PH_EUNSUP, "no %d", 7);
    CHECK(ph_graph_finish(g, &err) == PH_EUNSUP && strstr(err.msg, "no 7"));
    ph_graph_close(g);
}

/* One builder call that must fail with this code, and not crash. */
#define REFUSE(want, call)                                                                                   \
    do {                                                                                                     \
        ph_graph *g = begin();                                                                               \
        int       x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, GH_S(R), GH_D(8)));                      \
        (void)x;                                                                                             \
        call;                                                                                                \
        CHECK_SAY(ph_graph_finish(g, NULL) == (want), "%s (%s)", ph_rc_name(g->rc), g->err.msg);             \
        ph_graph_close(g);                                                                                   \
    } while (0)

void test_build_hostile(void) {
    char long_name[400];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    REFUSE(PH_EUNSUP, ph_graph_node(g, "NoSuch", PH_IN(x), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Relu", PH_IN(x, x), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Relu", NULL, 0, PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Relu", PH_IN(-1), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Relu", PH_IN(77), PH_NO_ATTRS, "y"));
    REFUSE(PH_ELIMIT, ph_graph_node(g, "Relu", PH_IN(x), PH_NO_ATTRS, "%s", long_name));
    REFUSE(PH_EFORMAT, ph_graph_node(g, "Relu", PH_IN(x), PH_NO_ATTRS, "%s", ""));
    REFUSE(PH_EFORMAT, ph_graph_node(g, "Gelu", PH_IN(x), PH_ATTRS(PH_TEXT("approximate", NULL)), "y"));
    REFUSE(PH_EFORMAT, ph_graph_node(g, "Transpose", PH_IN(x), PH_ATTRS(PH_INTS("perm", NULL, 2)), "y"));
    REFUSE(PH_EFORMAT, ph_graph_input(g, "neg", PH_F32, ph_shape_of(1, GH_D(-4))));
    REFUSE(PH_ELIMIT, ph_graph_input(g, "deep", PH_F32, ph_shape_of(9)));
    REFUSE(PH_ELIMIT, ph_graph_input(g, "big", PH_F32, ph_shape_of(2, GH_D(INT64_MAX / 4), GH_D(8))));
    REFUSE(PH_EFORMAT, ph_graph_input(g, "type", (ph_dtype)99, ph_shape_of(0)));
    REFUSE(PH_EMISMATCH, ph_graph_input(g, "x", PH_F32, ph_shape_of(0)));
    REFUSE(PH_EMISMATCH, ph_graph_output(g, 55, "y"));
}

void test_build_weights(void) {
    float f[64] = {0};
    REFUSE(PH_EMISMATCH,
           ph_graph_weight(g, "w", ph_shape_of(2, GH_D(8), GH_D(9)), ph_storage_of(PH_F32, f, 256, 36)));
    REFUSE(PH_EMISMATCH,
           ph_graph_weight(g, "w", ph_shape_of(2, GH_D(8), GH_D(8)), ph_storage_of(PH_F32, f, 256, 16)));
    REFUSE(PH_EMISMATCH,
           ph_graph_weight(g, "w", ph_shape_of(2, GH_S(R), GH_D(8)), ph_storage_of(PH_F32, f, 256, 32)));
    REFUSE(PH_EFORMAT,
           ph_graph_weight(g, "w", ph_shape_of(2, GH_D(1), GH_D(33)), ph_storage_of(PH_Q8_0, f, 256, 68)));
    REFUSE(PH_EMISMATCH, ph_graph_weight(g, "w", ph_shape_of(2, GH_D(8), GH_D(8)),
                                         ph_storage_of(PH_F32, f, 256, SIZE_MAX / 2)));
    REFUSE(PH_EUNSUP,
           ph_graph_weight(g, "w", ph_shape_of(1, GH_D(8)), (ph_storage){.dtype = PH_F32, .n_planes = 2}));
    ph_graph *g = begin();
    int w = ph_graph_weight(g, "w", ph_shape_of(2, GH_D(7), GH_D(32)), ph_storage_of(PH_Q8_0, f, 7 * 34, 34));
    int m = ph_graph_weight(g, "m", ph_shape_of(1, GH_D(4)), ph_storage_of(PH_I32, f, 16, 16));
    CHECK(w >= 0 && g->value[w].dtype == PH_F32 && g->value[w].storage.dtype == PH_Q8_0);
    CHECK(m >= 0 && g->value[m].dtype == PH_I32);
    ph_graph_close(g);
}

void test_build_attributes_are_copied(void) {
    ph_graph *g = begin();
    char      text[8] = "tanh", name[16] = "approximate";
    int64_t   perm[2] = {1, 0};
    int       x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, GH_S(R), GH_D(8)));
    int       a = ph_graph_node(g, "Gelu", PH_IN(x), PH_ATTRS(PH_TEXT(name, text)), "a");
    int       b = ph_graph_node(g, "Transpose", PH_IN(a), PH_ATTRS(PH_INTS("perm", perm, 2)), "b");
    memset(text, 'z', 4);
    memset(name, 'z', 4);
    perm[0] = 9;
    expect(g, b, "[8, R]");
    CHECK(!ph_graph_finish(g, NULL));
    const ph_node *n = &g->node[0];
    CHECK(!strcmp(ph_node_text(n, "approximate", "?"), "tanh"));
    CHECK(ph_node_int(n, "approximate", 5) == 5 && ph_node_float(n, "none", 2.0) > 1.5);
    size_t count;
    CHECK(ph_node_ints(&g->node[1], "perm", &count) && count == 2 &&
          !ph_node_floats(&g->node[1], "perm", &count) && !count);
    ph_graph_close(g);
}

/* A finished graph, spoiled in one place: the check names it. */
void test_check_finds_faults(void) {
    for (int fault = 0; fault < 8; fault++) {
        ph_graph *g = begin();
        ph_err    err = {0};
        int       x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, GH_S(R), GH_D(8)));
        int       a = ph_graph_node(g, "Relu", PH_IN(x), PH_NO_ATTRS, "a");
        int       b = ph_graph_node(g, "Relu", PH_IN(a), PH_NO_ATTRS, "b");
        CHECK(!ph_graph_finish(g, &err));
        if (fault == 0) g->value[b].name = "a";
        if (fault == 1) g->value[b].shape.dim[1] = GH_D(9);
        if (fault == 2) g->value[b].dtype = PH_I32;
        if (fault == 3) g->node[0].in[0] = b;
        if (fault == 4) g->node[1].in[0] = 40;
        if (fault == 5) g->value[b].producer = 0;
        if (fault == 6) g->node[1].n_in = 0;
        if (fault == 7) g->value[x].producer = 1;
        CHECK_SAY(ph_graph_check(g, &err) == PH_EMISMATCH && *err.msg, "fault %d", fault);
        ph_graph_close(g);
    }
}

void test_infer_symbols(void) {
    ph_graph *g = begin();
    float     w[3 * 16] = {0};
    int       tiles = ph_graph_input(g, "tiles", PH_F32, ph_shape_of(4, GH_S(I), GH_D(3), GH_D(8), GH_D(8)));
    int       wv = ph_graph_weight(g, "w", ph_shape_of(4, GH_D(4), GH_D(3), GH_D(2), GH_D(2)),
                                   ph_storage_of(PH_F32, w, sizeof w, 8));
    int c = ph_graph_node(g, "Conv", PH_IN(tiles, wv), PH_ATTRS(PH_INTS("strides", ((int64_t[]){2, 2}), 2)),
                          "conv");
    expect(g, c, "[I, 4, 4, 4]");
    int s = ints(g, "s0", 3, (int64_t[]){0, 0, -1});
    int flat = ph_graph_node(g, "Reshape", PH_IN(c, s), PH_NO_ATTRS, "flat");
    expect(g, flat, "[I, 4, 16]");
    int t =
        ph_graph_node(g, "Transpose", PH_IN(flat), PH_ATTRS(PH_INTS("perm", ((int64_t[]){0, 2, 1}), 3)), "t");
    expect(g, t, "[I, 16, 4]");
    s = ints(g, "s1", 2, (int64_t[]){-1, 4});
    int rows = ph_graph_node(g, "Reshape", PH_IN(t, s), PH_NO_ATTRS, "rows");
    expect(g, rows, "[16I, 4]");
    float zero[4] = {0};
    int   cls = ph_graph_constant(g, "cls", PH_F32, ph_shape_of(2, GH_D(1), GH_D(4)), zero);
    int   cat = ph_graph_node(g, "Concat", PH_IN(cls, rows), PH_ATTRS(PH_INT("axis", 0)), "cat");
    expect(g, cat, "[1+16I, 4]");
    int one = ints(g, "one", 1, (int64_t[]){1}), last = ints(g, "last", 1, (int64_t[]){INT64_MAX}),
        nil = ints(g, "nil", 1, (int64_t[]){0}), minus = ints(g, "minus", 1, (int64_t[]){-3});
    expect(g, ph_graph_node(g, "Slice", PH_IN(cat, one, last, nil), PH_NO_ATTRS, "tail"), "[16I, 4]");
    expect(g, ph_graph_node(g, "Slice", PH_IN(cat, minus, last, nil), PH_NO_ATTRS, "three"), "[3, 4]");
    expect(g, ph_graph_node(g, "Slice", PH_IN(cat, nil, minus, nil), PH_NO_ATTRS, "head"), "[16I-2, 4]");
    expect(
        g,
        ph_graph_node(g, "Reshape", PH_IN(cat, ints(g, "s2", 3, (int64_t[]){0, 2, 2})), PH_NO_ATTRS, "split"),
        "[1+16I, 2, 2]");
    int r = ph_graph_input(g, "r", PH_F32, ph_shape_of(2, GH_S(N), GH_D(8)));
    expect(g,
           ph_graph_node(g, "Reshape", PH_IN(r, ints(g, "s3", 2, (int64_t[]){-1, 32})), PH_NO_ATTRS, "merge"),
           "[N/4, 32]");
    int q = ph_graph_input(g, "q", PH_F32, ph_shape_of(3, GH_S(I), GH_D(16), GH_D(8)));
    expect(g,
           ph_graph_node(g, "MatMul",
                         PH_IN(q, ph_graph_node(g, "Transpose", PH_IN(q),
                                                PH_ATTRS(PH_INTS("perm", ((int64_t[]){0, 2, 1}), 3)), "qt")),
                         PH_NO_ATTRS, "qq"),
           "[I, 16, 16]");
    ph_err err = {0};
    CHECK_SAY(!ph_graph_finish(g, &err), "%s %s", err.msg, err.note[0]);
    ph_graph_close(g);
}

#define LIST(...) ints(g, "list", (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})

void test_infer_refuses(void) {
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Reshape", PH_IN(x, LIST(-1, -1)), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Reshape", PH_IN(x, LIST(5, 8)), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Reshape", PH_IN(x, LIST(0, 0, 0)), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Reshape", PH_IN(x, LIST(0, -7)), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH,
           ph_graph_node(g, "Reshape", PH_IN(x, LIST(INT64_MAX, INT64_MAX, -1)), PH_NO_ATTRS, "y"));
    REFUSE(PH_ELIMIT,
           ph_graph_node(g, "Reshape", PH_IN(x, LIST(1, 1, 1, 1, 1, 1, 1, 1, -1)), PH_NO_ATTRS, "y"));
    REFUSE(PH_EUNSUP, ph_graph_node(g, "Reshape", PH_IN(x, x), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Softmax", PH_IN(x), PH_ATTRS(PH_INT("axis", 2)), "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Softmax", PH_IN(x), PH_ATTRS(PH_INT("axis", INT64_MIN)), "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Concat", PH_IN(x), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH,
           ph_graph_node(g, "Transpose", PH_IN(x), PH_ATTRS(PH_INTS("perm", ((int64_t[]){0, 0}), 2)), "y"));
    REFUSE(PH_EUNSUP, ph_graph_node(g, "Slice",
                                    PH_IN(x, LIST(0), ints(g, "e", 1, (int64_t[]){9}),
                                          ints(g, "a", 1, (int64_t[]){0}), ints(g, "s", 1, (int64_t[]){2})),
                                    PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Slice", PH_IN(x, LIST(0, 1), ints(g, "e", 1, (int64_t[]){9})),
                                       PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Split", PH_IN(x), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Split", PH_IN(x, LIST(3, 4)), PH_ATTRS(PH_INT("axis", 1)), "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Gather", PH_IN(x, x), PH_NO_ATTRS, "y"));
    REFUSE(PH_EUNSUP, ph_graph_node(g, "Cast", PH_IN(x), PH_ATTRS(PH_INT("to", 8)), "y"));
    REFUSE(PH_EUNSUP, ph_graph_node(g, "Gelu", PH_IN(x), PH_ATTRS(PH_TEXT("approximate", "erf")), "y"));
    REFUSE(PH_EUNSUP, ph_graph_node(g, "LayerNormalization", PH_IN(x, x), PH_ATTRS(PH_INT("axis", 0)), "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Unsqueeze", PH_IN(x, LIST(0, 0)), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Squeeze", PH_IN(x, LIST(1)), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "MatMul", PH_IN(x, x), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "Add", PH_IN(x, ph_graph_state(g, "kv")), PH_NO_ATTRS, "y"));
    REFUSE(PH_EMISMATCH, ph_graph_node(g, "RopeAngles", PH_IN(x), PH_ATTRS(PH_INT("dim", 8)), "y"));
    int64_t wide[2] = {INT64_MAX, 1};
    (void)wide;
    REFUSE(PH_ELIMIT,
           ph_graph_node(
               g, "Conv",
               PH_IN(ph_graph_input(g, "t", PH_F32, ph_shape_of(4, GH_S(I), GH_D(1), GH_D(8), GH_D(8))),
                     ph_graph_input(g, "k", PH_F32, ph_shape_of(4, GH_D(1), GH_D(1), GH_D(2), GH_D(2)))),
               PH_ATTRS(PH_INTS("strides", wide, 2)), "y"));
    REFUSE(PH_EMISMATCH,
           ph_graph_node(
               g, "Conv",
               PH_IN(ph_graph_input(g, "t", PH_F32, ph_shape_of(4, GH_S(I), GH_D(1), GH_D(8), GH_D(8))),
                     ph_graph_input(g, "k", PH_F32, ph_shape_of(4, GH_D(1), GH_D(1), GH_D(9), GH_D(2)))),
               PH_NO_ATTRS, "y"));
    for (int kind = 0; kind < 4; kind++) {
        ph_graph     *g = begin();
        int           rows = ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, GH_S(R), GH_D(PH_ROW_FIELDS)));
        const ph_attr sets[4][3] = {
            {PH_INT("dim", 7), PH_FLOAT("theta", 1e4), PH_TEXT("scaling", "none")},
            {PH_INT("dim", 8), PH_FLOAT("theta", 1e4), PH_TEXT("scaling", "dynamic")},
            {PH_INT("dim", 8), PH_FLOAT("theta", 1e4), PH_TEXT("scaling", "llama3")},
            {PH_INT("dim", 8), PH_FLOAT("theta", -1), PH_TEXT("scaling", "none")},
        };
        ph_graph_node(g, "RopeAngles", PH_IN(rows), sets[kind], 3, "angles");
        CHECK_SAY(g->rc == (kind == 1 ? PH_EUNSUP : PH_EMISMATCH), "%d: %s", kind, g->err.msg);
        ph_graph_close(g);
    }
}
