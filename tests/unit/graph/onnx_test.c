/* onnx_test.c - the import of ONNX models: names, order, functions, symbols, forms of opsets, and what is
 * refused. */
#include "graph/onnx/onnx_in.h"
#include "graph/pass.h"
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/onnx_make.h"
#include "tests/unit/unit.h"

#include <math.h>

static ph_kernels kernels;

typedef struct om_import {
    ph_onnx       m;
    ph_onnx_graph g;
    ph_err        err;
    ph_rc         rc;
} om_import;

static om_import import_given(const om_bytes *model, const ph_onnx_given *given, size_t n) {
    om_import i = {.rc = 0};
    if (!kernels.softmax) ph_kernels_init(&kernels, 0);
    ph_onnx_import_how how = {.kernels = &kernels, .given = given, .n_given = n};
    i.rc = ph_onnx_view(&i.m, model->at, model->n, "test.onnx", &i.err);
    if (!i.rc) i.rc = ph_onnx_import(&i.g, &i.m, &how, &i.err);
    return i;
}

static void done(om_import *i) {
    ph_onnx_graph_close(&i->g);
    ph_onnx_close(&i->m);
}

static void expect_shape(const om_import *i, const char *name, const char *want) {
    char text[128] = "(not imported)";
    int  v = i->rc ? -1 : ph_graph_find(i->g.graph, name);
    if (v >= 0) ph_shape_print(&i->g.graph->value[v].shape, text, sizeof text);
    CHECK_SAY(!strcmp(text, want), "%s is %s, wanted %s: %s (%s)", name, text, want, i->err.msg,
              i->err.note[0]);
}

/* Refused with this code, and the message or a note says the word. */
static void refuse(const om_bytes *model, ph_rc want, const char *word) {
    om_import i = import_given(model, NULL, 0);
    int       said = strstr(i.err.msg, word) != NULL;
    for (int k = 0; k < i.err.n_notes; k++) said |= strstr(i.err.note[k], word) != NULL;
    CHECK_SAY(i.rc == want && said, "%s (%s, %s), wanted %s with \"%s\"", ph_rc_name(i.rc), i.err.msg,
              i.err.note[0], ph_rc_name(want), word);
    done(&i);
}

/* x [batch, 4, t]: Shape, Gather, Unsqueeze, Concat and Reshape to [batch, -1]; Range over t. */
void test_onnx_symbols(void) {
    om_bytes g = {.n = 0}, n;
    om_value(&g, 11, "x", 1, "batch,4,t");
    om_value(&g, 12, "y", 1, "");
    om_value(&g, 12, "r", 7, "");
    om_list(&g, "zero", 1, (const int64_t[]){0});
    om_list(&g, "rest", 1, (const int64_t[]){-1});
    om_bytes two = om_tensor("two", 7, 0, NULL), start = om_tensor("start", 7, 0, NULL),
             step = om_tensor("step", 7, 0, NULL);
    om_data(&two, 9, (const int64_t[]){2}, 8);
    om_data(&start, 9, (const int64_t[]){0}, 8);
    om_data(&step, 9, (const int64_t[]){1}, 8);
    om_sub(&g, 5, &two), om_sub(&g, 5, &start), om_sub(&g, 5, &step);
    n = om_node("Shape", "", "x", "s"), om_sub(&g, 1, &n);
    n = om_node("Gather", "", "s,zero", "b"), om_sub(&g, 1, &n);
    n = om_node("Concat", "", "b,rest", "to"), om_number(&n, "axis", 0), om_sub(&g, 1, &n);
    n = om_node("Reshape", "", "x,to", "y"), om_sub(&g, 1, &n);
    n = om_node("Gather", "", "s,two", "t"), om_sub(&g, 1, &n);
    n = om_node("Range", "", "start,t,step", "r"), om_sub(&g, 1, &n);
    om_bytes  m = om_model(&g, 17);
    om_import i = import_given(&m, NULL, 0);
    expect_shape(&i, "y", "[A, 4B]");
    expect_shape(&i, "r", "[B]");
    if (!i.rc) {
        CHECK(!strcmp(i.g.symbol[PH_SYM_A], "batch") && !strcmp(i.g.symbol[PH_SYM_B], "t") &&
              !i.g.symbol[PH_SYM_C]);
        /* The numbers of a run, and what they come to. */
        ph_onnx_given given = {"x", 3, {2, 4, 3}};
        ph_syms       syms;
        ph_arena      arena;
        ph_array      r;
        float         x[24] = {0};
        ph_feed       feed = {"x", {.data = x, .dtype = PH_F32, .rank = 3, .dim = {2, 4, 3}}};
        CHECK(!ph_onnx_syms(&i.g, &given, 1, &syms, &i.err) && syms.at[PH_SYM_A] == 2 &&
              syms.at[PH_SYM_B] == 3);
        CHECK(!ph_arena_open_growing(&arena, 1 << 14, NULL));
        CHECK_SAY(!ph_graph_eval(i.g.graph, &syms, &feed, 1, "r", &r, &kernels, &arena, &i.err), "%s",
                  i.err.msg);
        CHECK(r.rank == 1 && r.dim[0] == 3 && ((int64_t *)r.data)[2] == 2);
        ph_arena_close(&arena);
        given.dim[1] = 5;
        CHECK(ph_onnx_syms(&i.g, &given, 1, &syms, &i.err) == PH_EMISMATCH &&
              strstr(i.err.msg, "dimension 1"));
    }
    done(&i);
    ph_onnx_given given = {"x", 3, {2, 4, 3}};
    i = import_given(&m, &given, 1);
    expect_shape(&i, "y", "[2, 12]");
    done(&i);
    given.dim[1] = 7;
    i = import_given(&m, &given, 1);
    CHECK(i.rc == PH_EMISMATCH && strstr(i.err.msg, "given 7"));
    done(&i);
}

/* A function of opset 11 in a model of 17: its ReduceSum has axes as an attribute, which the call gives. */
static om_bytes with_function(const char *calls, int64_t version) {
    om_bytes f = {.n = 0}, g = {.n = 0}, n;
    om_text(&f, 1, "Total"), om_text(&f, 10, "local"), om_text(&f, 4, "a"), om_text(&f, 5, "b"),
        om_text(&f, 6, "over");
    om_opset(&f, 9, "", version), om_opset(&f, 9, "local", 1);
    n = om_node("ReduceSum", "", "a", "b"), om_ref(&n, "axes", "over", 7);
    if (*calls) n = om_node(calls, "local", "a", "b");
    om_sub(&f, 7, &n);
    om_value(&g, 11, "x", 1, "2,3"), om_value(&g, 12, "y", 1, "");
    n = om_node("Total", "local", "x", "y"), om_ints(&n, "over", 1, (const int64_t[]){1}), om_sub(&g, 1, &n);
    om_bytes m = om_model(&g, 17);
    om_opset(&m, 8, "local", 1);
    om_sub(&m, 25, &f);
    return m;
}

void test_onnx_functions(void) {
    om_bytes  m = with_function("", 11);
    om_import i = import_given(&m, NULL, 0);
    expect_shape(&i, "y", "[2, 1]");
    done(&i);
    m = with_function("", 17); /* there axes is no attribute */
    refuse(&m, PH_EMISMATCH, "axes");
    m = with_function("Total", 11);
    refuse(&m, PH_ELIMIT, "deep");
    m = with_function("Other", 11);
    refuse(&m, PH_EUNSUP, "Other");
}

/* What is looked for by each node: found among many, and none of it twice. */
void test_onnx_many(void) {
    om_bytes m = with_function("", 11), f;
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "F%d", i * 7919 % 300);
        f = (om_bytes){.n = 0}, om_text(&f, 1, name), om_text(&f, 10, "local"), om_sub(&m, 25, &f);
    }
    om_import i = import_given(&m, NULL, 0);
    expect_shape(&i, "y", "[2, 1]");
    done(&i);
    m = with_function("", 11);
    f = (om_bytes){.n = 0}, om_text(&f, 1, "Total"), om_text(&f, 10, "local"), om_sub(&m, 25, &f);
    refuse(&m, PH_EFORMAT, "Total of domain local is there twice");
    m = with_function("", 11);
    for (int k = 0; k < 300; k++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", k);
        om_opset(&m, 8, name, 1);
    }
    refuse(&m, PH_ELIMIT, "opsets are imported; at most 256");
}

/* Nodes in any order; what is left out; an initializer that is an input too; a value that is two outputs. */
void test_onnx_order_and_names(void) {
    om_bytes g = {.n = 0}, n, w = om_tensor("w", 1, 1, (const int64_t[]){2});
    om_data(&w, 9, (const float[]){3, -1}, 8);
    om_sub(&g, 5, &w);
    om_value(&g, 11, "x", 1, "2"), om_value(&g, 11, "w", 1, "2");
    om_value(&g, 12, "y", 1, "2"), om_value(&g, 12, "z", 1, "2");
    n = om_node("Clip", "", "t,,top", "y"), om_sub(&g, 1, &n);
    n = om_node("Identity", "", "y", "z"), om_sub(&g, 1, &n);
    n = om_node("Add", "", "x,w", "t"), om_sub(&g, 1, &n);
    om_bytes top = om_tensor("top", 1, 0, NULL);
    om_data(&top, 9, (const float[]){1}, 4);
    om_sub(&g, 5, &top);
    om_bytes  m = om_model(&g, 13);
    om_import i = import_given(&m, NULL, 0);
    CHECK_SAY(!i.rc, "%s (%s)", i.err.msg, i.err.note[0]);
    if (!i.rc) {
        ph_arena arena;
        ph_array z;
        ph_syms  none = {{0}};
        float    x[2] = {-4, 5};
        ph_feed  feed = {"x", {.data = x, .dtype = PH_F32, .rank = 1, .dim = {2}}};
        CHECK(ph_graph_find(i.g.graph, "w") >= 0 &&
              i.g.graph->value[ph_graph_find(i.g.graph, "w")].cls == PH_VALUE_CONSTANT);
        CHECK(!ph_arena_open_growing(&arena, 1 << 14, NULL));
        CHECK_SAY(!ph_graph_eval(i.g.graph, &none, &feed, 1, "z", &z, &kernels, &arena, &i.err), "%s",
                  i.err.msg);
        CHECK(((float *)z.data)[0] < -0.99f && ((float *)z.data)[0] > -1.01f && ((float *)z.data)[1] > 0.99f);
        ph_arena_close(&arena);
    }
    done(&i);
}

/* x [2, 3] through one node to y. */
static om_bytes one_node(om_bytes node, int64_t opset, const char *dims, int type) {
    om_bytes g = {.n = 0};
    om_value(&g, 11, "x", type, dims);
    om_value(&g, 12, "y", type, "");
    om_sub(&g, 1, &node);
    return om_model(&g, opset);
}

void test_onnx_refuses(void) {
    om_bytes m, n = om_node("Relu", "", "x", "y");
    m = one_node(n, 6, "2,3", 1), refuse(&m, PH_EUNSUP, "7 to 23");
    m = one_node(n, 24, "2,3", 1), refuse(&m, PH_EUNSUP, "opset 24");
    m = one_node(n, 17, "2,3", 8), refuse(&m, PH_EUNSUP, "string");
    m = one_node(n, 17, "?,?,?,?,?,?,?,?", 1);
    om_import i = import_given(&m, NULL, 0);
    CHECK_SAY(!i.rc && !strcmp(i.g.symbol[PH_SYM_A], "x[0]"), "%s", i.err.msg);
    done(&i);
    om_bytes g = {.n = 0};
    om_value(&g, 11, "x", 1, "a,b,c,d,e,f,g,h"), om_value(&g, 11, "z", 1, "i"), om_value(&g, 12, "y", 1, "");
    om_sub(&g, 1, &n);
    m = om_model(&g, 17), refuse(&m, PH_ELIMIT, "dynamic axes");
    n = om_node("Gelu", "", "x", "y"), m = one_node(n, 17, "2,3", 1),
    refuse(&m, PH_EMISMATCH, "since opset 20");
    n = om_node("Relu", "", "x,nobody", "y"), m = one_node(n, 17, "2,3", 1),
    refuse(&m, PH_EMISMATCH, "nobody");
    n = om_node("Relu", "", "y", "y"), m = one_node(n, 17, "2,3", 1), refuse(&m, PH_EMISMATCH, "circle");
    n = om_node("Relu", "", "x", "x"), m = one_node(n, 17, "2,3", 1), refuse(&m, PH_EMISMATCH, "made twice");
    n = om_node("Relu", "", "x", "other"), m = one_node(n, 17, "2,3", 1),
    refuse(&m, PH_EMISMATCH, "'y' is made by no node");
    n = om_node("Relu", "", "x", "y"), om_number(&n, "alpha", 1), m = one_node(n, 17, "2,3", 1);
    refuse(&m, PH_EMISMATCH, "no attribute 'alpha'");
    n = om_node("Softmax", "", "x", "y"), om_ints(&n, "axis", 1, (const int64_t[]){1}),
    m = one_node(n, 17, "2,3", 1);
    refuse(&m, PH_EMISMATCH, "'axis' is whole numbers, not a whole number");
    n = om_node("Relu", "elsewhere", "x", "y"), m = one_node(n, 17, "2,3", 1),
    refuse(&m, PH_EMISMATCH, "elsewhere");
    n = om_node("Softmax", "", "x", "y"), om_number(&n, "axis", 5), m = one_node(n, 17, "2,3", 1);
    refuse(&m, PH_EMISMATCH, "axis 5");
    n = om_node("Reshape", "", "x,x", "y"), m = one_node(n, 17, "2,3", 1),
    refuse(&m, PH_EUNSUP, "constant list");
}

/* ---- our own operators ---- */

/* h, v and s through one of them, with one attribute: 0 none, 1 a number, 2 a float, 3 floats, 4 a text. */
static om_bytes ours(const char *op, int64_t version, const char *attr, int kind, float v) {
    static const int64_t two = 2;
    om_bytes             g = {.n = 0}, n = om_node(op, "pinhole", "h,v,s", "y");
    om_bytes             s = om_tensor("s", 1, 1, &two);
    float                ones[2] = {1, 1};
    if (kind == 1) om_number(&n, attr, 1);
    if (kind == 2 || kind == 3) om_float(&n, attr, v, kind == 3);
    if (kind == 4) om_word(&n, attr, "much");
    om_value(&g, 11, "h", 1, "3,2"), om_value(&g, 11, "v", 1, "5,2"), om_value(&g, 12, "y", 1, "");
    om_data(&s, 9, ones, sizeof ones);
    om_sub(&g, 5, &s), om_sub(&g, 1, &n);
    om_bytes m = om_model(&g, 17);
    om_opset(&m, 8, "pinhole", version);
    return m;
}

static void refuse_word(const char *op, const char *attr, int kind, float v, const char *word) {
    om_bytes m = ours(op, 1, attr, kind, v);
    refuse(&m, PH_EMISMATCH, word);
}

void test_onnx_own_operators(void) {
    om_bytes  m = ours("PoolInject", 1, "alpha", 2, 0.5F);
    om_import i = import_given(&m, NULL, 0);
    expect_shape(&i, "y", "[3, 2]");
    done(&i);
    m = ours("PoolInject", 2, "alpha", 2, 0.5F);
    refuse(&m, PH_EMISMATCH, "opset 2 of domain pinhole; 1 is the one that is read");
    refuse_word("PoolInject", "alpha", 1, 0, "PoolInject: attribute 'alpha' is a whole number, not a number");
    refuse_word("PoolInject", "alpha", 3, 1, "'alpha' is numbers, not a number");
    refuse_word("PoolInject", "epsilon", 4, 0, "'epsilon' is a text, not a number");
    refuse_word("PoolInject", "alpha", 2, INFINITY, "PoolInject: alpha is inf, which is no finite number");
    refuse_word("PoolInject", "epsilon", 2, NAN, "epsilon is nan");
    refuse_word("ModalGate", "lambda", 1, 0, "ModalGate: attribute 'lambda' is a whole number, not a number");
    refuse_word("ModalGate", "lambda", 2, -INFINITY, "lambda is -inf");
    refuse_word("SparseAttention", "block", 2, 8,
                "SparseAttention: attribute 'block' is a number, not a whole");
    refuse_word("SparseAttention", "sparsity", 2, NAN, "sparsity is nan");
    refuse_word("SparseAttention", "scale", 3, 1, "'scale' is numbers, not a number");
    refuse_word("MultiModalAttention", "num_heads", 4, 0, "'num_heads' is a text, not a whole number");
    refuse_word("MultiModalAttention", "slices", 1, 0, "'slices' is a whole number, not whole numbers");
    refuse_word("MultiModalAttention", "scale", 2, INFINITY, "scale is inf");
    refuse_word("AdapterDispatch", "scale", 2, 1, "'scale' is a number, not numbers");
    refuse_word("AdapterDispatch", "scale", 3, NAN, "number 1 of scale is nan, which is no finite number");
    refuse_word("AdapterDispatch", "first", 1, 0, "'first' is a whole number, not whole numbers");
    refuse_word("ModalitySwitch", "alpha", 2, 1, "ModalitySwitch has no attribute 'alpha'");
    /* And the node is named. */
    m = ours("PoolInject", 1, "alpha", 1, 0);
    i = import_given(&m, NULL, 0);
    CHECK(i.rc && i.err.n_notes && strstr(i.err.note[0], "at node 'y' (PoolInject)"));
    done(&i);
}

/* One of two would be taken, and another reader may take the other. */
void test_onnx_attributes_twice(void) {
    om_bytes n = om_node("LeakyRelu", "", "x", "y"), m;
    om_float(&n, "alpha", 0.5F, 0), om_float(&n, "alpha", 0.9F, 0);
    m = one_node(n, 17, "2,3", 1);
    refuse(&m, PH_EFORMAT, "attribute 'alpha' is there twice");
    om_import i = import_given(&m, NULL, 0);
    CHECK(i.rc && i.err.n_notes && strstr(i.err.note[0], "at node 'y' (LeakyRelu)"));
    done(&i);
    n = om_node("LeakyRelu", "", "x", "y");
    for (int k = 0; k < 129; k++)
        om_number(&n, (char[]){'a', (char)('A' + k / 26), (char)('A' + k % 26), 0}, k);
    m = one_node(n, 17, "2,3", 1);
    refuse(&m, PH_ELIMIT, "129 attributes; at most 128");
}

/* Before opset 13 Softmax takes all axes from the given one on; Squeeze has its axes as an attribute. */
void test_onnx_old_forms(void) {
    om_bytes n = om_node("Softmax", "", "x", "y"), m;
    om_number(&n, "axis", 1);
    m = one_node(n, 11, "2,3,4", 1);
    om_import i = import_given(&m, NULL, 0);
    expect_shape(&i, "y", "[2, 3, 4]");
    CHECK(!i.rc && i.g.graph->n_nodes == 3); /* to a matrix and back */
    done(&i);
    n = om_node("Squeeze", "", "x", "y"), om_ints(&n, "axes", 1, (const int64_t[]){-1});
    m = one_node(n, 11, "batch,3,1", 1);
    i = import_given(&m, NULL, 0);
    expect_shape(&i, "y", "[A, 3]");
    done(&i);
    n = om_node("ReduceMean", "", "x", "y"), om_ints(&n, "axes", 2, (const int64_t[]){0, 2}),
    om_number(&n, "keepdims", 0);
    m = one_node(n, 13, "2,batch,4", 1);
    i = import_given(&m, NULL, 0);
    expect_shape(&i, "y", "[A]");
    done(&i);
}

/* Whether an axis is 1 only a run knows: the answer has its rank from numbers, not from a guess. */
void test_onnx_squeeze_of_a_symbol(void) {
    om_bytes m = one_node(om_node("Squeeze", "", "x", "y"), 13, "batch,3,1", 1);
    refuse(&m, PH_EUNSUP, "Squeeze without axes: whether dimension 0 (batch) goes");
    m = one_node(om_node("Squeeze", "", "x", "y"), 13, "2,3,1", 1);
    om_import i = import_given(&m, NULL, 0);
    expect_shape(&i, "y", "[2, 3]");
    done(&i);
    for (int64_t batch = 1; batch <= 2; batch++) {
        ph_onnx_given given = {.name = "x", .rank = 3, .dim = {batch, 3, 1}};
        m = one_node(om_node("Squeeze", "", "x", "y"), 13, "batch,3,1", 1);
        i = import_given(&m, &given, 1);
        expect_shape(&i, "y", batch == 1 ? "[3]" : "[2, 3]");
        done(&i);
    }
}

/* Pieces of an axis that need not divide it are as long as a run says, not as a floor does. */
void test_onnx_split_of_a_symbol(void) {
    static const struct {
        const char *dims;
        int64_t     rows;
        const char *first, *last;
    } rows[] = {
        {"n,4", 3, "[2, 4]", "[1, 4]"}, {"n,4", 1, "[1, 4]", "[0, 4]"}, {"n,4", 6, "[3, 4]", "[3, 4]"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        om_bytes n = om_node("Split", "", "x", "y,z");
        om_number(&n, "num_outputs", 2);
        om_bytes m = one_node(n, 18, rows[k].dims, 1);
        refuse(&m, PH_EUNSUP, "Split: a symbolic dimension into 2 pieces, which need not divide it");
        n = om_node("Split", "", "x", "y,z"), om_number(&n, "num_outputs", 2);
        m = one_node(n, 18, rows[k].dims, 1);
        ph_onnx_given given = {.name = "x", .rank = 2, .dim = {rows[k].rows, 4}};
        om_import     i = import_given(&m, &given, 1);
        expect_shape(&i, "y", rows[k].first);
        expect_shape(&i, "z", rows[k].last);
        done(&i);
    }
}

/* An output is what it is said to be, or the model is refused: callers read by the word. */
void test_onnx_output_types(void) {
    static const struct {
        const char *op;
        int         in, said;
        const char *word;
    } rows[] = {{"Relu", 1, 7, "output 'y' is said to be int64, and is made as F32"},
                {"Shape", 1, 1, "output 'y' is said to be float, and is made as I64"},
                {"Abs", 6, 7, "output 'y' is said to be int64, and is made as I32"},
                {"Relu", 1, 10, NULL},
                {"Relu", 1, 1, NULL},
                {"Abs", 6, 6, NULL},
                {"Shape", 1, 7, NULL}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        om_bytes g = {.n = 0}, n = om_node(rows[k].op, "", "x", "y");
        om_value(&g, 11, "x", rows[k].in, "batch,3"), om_value(&g, 12, "y", rows[k].said, ""),
            om_sub(&g, 1, &n);
        om_bytes m = om_model(&g, 17);
        if (rows[k].word) {
            refuse(&m, PH_EMISMATCH, rows[k].word);
            continue;
        }
        om_import i = import_given(&m, NULL, 0);
        CHECK_SAY(!i.rc, "%s: %s", rows[k].op, i.err.msg);
        done(&i);
    }
}

/* Past and new keys: a sum of two axes has no symbol, but numbers. */
void test_onnx_given(void) {
    om_bytes g = {.n = 0}, n = om_node("Concat", "", "past,new", "all");
    om_value(&g, 11, "past", 1, "batch,past_length,4"), om_value(&g, 11, "new", 1, "batch,length,4");
    om_value(&g, 11, "mask", 1, "batch,past_length + length,1"), om_value(&g, 12, "y", 1, "");
    om_number(&n, "axis", 1), om_sub(&g, 1, &n);
    n = om_node("Add", "", "all,mask", "y"), om_sub(&g, 1, &n);
    om_bytes m = om_model(&g, 17);
    refuse(&m, PH_EMISMATCH,
           "shapes [batch, past_length, 4] and [batch, length, 4]: Concat cannot add these dimensions");
    static const struct {
        const char *list, *want;
    } rows[] = {{NULL, "[1, 1, 4]"},
                {"", "[1, 1, 4]"},
                {"past_length=7", "[1, 8, 4]"},
                {"length=2,batch=3,past_length=5", "[3, 7, 4]"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_onnx       file;
        ph_onnx_given given[4];
        CHECK(!ph_onnx_view(&file, m.at, m.n, "test.onnx", NULL));
        size_t count = ph_onnx_given_of(&file, rows[i].list, given, 4);
        CHECK(count == 3 && given[2].rank == 3);
        om_import k = import_given(&m, given, count);
        expect_shape(&k, "y", rows[i].want);
        done(&k);
        ph_onnx_close(&file);
    }
}

/* A slice of a shape is reckoned, and cut as Slice itself cuts. */
void test_onnx_sizes_sliced(void) {
    static const struct {
        int64_t     start, end, step;
        const char *want;
    } rows[] = {{-9, -9, -1, "[2]"},           {INT64_MIN, INT64_MIN, INT64_MIN + 1, "[2]"},
                {-1, INT64_MIN, -2, "[4, 2]"}, {9, -9, -1, "[4, A, 2]"},
                {-9, 9, 2, "[2, 4]"},          {0, 9, INT64_MAX, "[2]"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        om_bytes g = {.n = 0}, n = om_node("Shape", "", "x", "s");
        int64_t  zero = 0;
        om_value(&g, 11, "x", 1, "2,batch,4"), om_value(&g, 12, "y", 1, "?");
        om_list(&g, "from", 1, &rows[i].start), om_list(&g, "to", 1, &rows[i].end),
            om_list(&g, "axis", 1, &zero);
        om_list(&g, "step", 1, &rows[i].step), om_sub(&g, 1, &n);
        n = om_node("Slice", "", "s,from,to,axis,step", "e"), om_sub(&g, 1, &n);
        n = om_node("ConstantOfShape", "", "e", "y"), om_sub(&g, 1, &n);
        om_bytes  m = om_model(&g, 17);
        om_import k = import_given(&m, NULL, 0);
        expect_shape(&k, "y", rows[i].want);
        done(&k);
    }
}

/* The names of its axes, apart by " | "; where the import stopped. */
static void expect_axes(const om_import *i, const char *stopped, const char *want) {
    ph_onnx_axis axis[PH_ONNX_AXES_MAX];
    char         name[PH_ONNX_AXIS_NAME], text[400] = "";
    size_t       n = ph_onnx_axes_of(&i->m, &i->g, axis, PH_ONNX_AXES_MAX), at = 0;
    for (size_t k = 0; k < n; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, k ? " | %.80s" : "%.80s",
                               ph_onnx_axis_name(&axis[k], name));
    CHECK_SAY(!strcmp(text, want), "axes %s, wanted %s", text, want);
    const char *label = i->g.stopped ? ph_onnx_node_label(i->g.stopped) : "";
    CHECK_SAY(!strcmp(label, stopped), "stopped at '%s', wanted '%s'", label, stopped);
}

/* Axes are the inputs' own, imported or not; of a sum that no symbol was made for, its terms. */
void test_onnx_axes(void) {
    om_bytes g = {.n = 0}, n = om_node("Concat", "", "past,new", "all");
    om_value(&g, 11, "past", 1, "batch,past_length,4"), om_value(&g, 11, "new", 1, "batch,?,4");
    om_value(&g, 11, "mask", 1, "batch,2 + past_length+length,1"), om_value(&g, 12, "all", 1, "");
    om_number(&n, "axis", 1), om_sub(&g, 1, &n);
    om_bytes  m = om_model(&g, 17);
    om_import i = import_given(&m, NULL, 0);
    CHECK(i.rc == PH_EMISMATCH && !i.g.graph);
    expect_axes(&i, "all", "batch | past_length | new[1] | length");
    ph_onnx_given given[3];
    const char   *list = "new[1]=3,length=2,batch=5";
    CHECK(ph_onnx_given_of(&i.m, list, given, 3) == 3 && given[0].dim[0] == 5 && given[0].dim[1] == 0);
    CHECK(given[1].dim[1] == 3 && given[2].dim[1] == 4);
    om_import k = import_given(&m, given, 3);
    CHECK(!k.rc);
    expect_axes(&k, "", "batch | past_length | new[1] | length");
    done(&k), done(&i);
    ph_onnx_axis axis = {"past_length = 7", 11, -1};
    int64_t      size = -1;
    CHECK(ph_onnx_axis_size(&axis, "past=7") == 0 && ph_onnx_axis_size(&axis, "past_length=7") == 7);
    CHECK(ph_onnx_axis_size(&axis, NULL) == 0 && !ph_onnx_axis_listed(&axis, "past=7", &size) && size == -1);
    CHECK(ph_onnx_axes_of(&i.m, &i.g, NULL, 0) == 0);
    m = one_node(om_node("Neg", "", "x", "y"), 17, "past + 1,?,3", 1);
    i = import_given(&m, NULL, 0);
    expect_axes(&i, "", "past + 1 | x[1]");
    done(&i);
}

/* x [n]: Shape, then "op a b out;..", whose last out is `e`, then ConstantOfShape(e) to y. */
static om_bytes with_chain(const char *chain) {
    static const struct {
        const char *name;
        int64_t     x;
    } numbers[] = {{"1", 1}, {"2", 2}, {"3", 3}, {"big", (INT64_C(1) << 62) + 5}, {"-1", -1}};
    om_bytes g = {.n = 0}, n;
    om_value(&g, 11, "x", 1, "n"), om_value(&g, 12, "y", 1, "?");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        om_list(&g, numbers[i].name, 1, &numbers[i].x);
    n = om_node("Shape", "", "x", "s"), om_sub(&g, 1, &n);
    for (const char *p = chain; *p;) {
        char op[16], a[16], b[16], out[16], in[40];
        int  at = 0;
        if (sscanf(p, "%15[^ ] %15[^ ] %15[^ ] %15[^;];%n", op, a, b, out, &at) != 4 || !at) abort();
        snprintf(in, sizeof in, "%s,%s", a, b);
        n = om_node(op, "", in, out), om_sub(&g, 1, &n);
        p += at;
    }
    n = om_node("ConstantOfShape", "", "e", "y"), om_sub(&g, 1, &n);
    return om_model(&g, 17);
}

/* What is reckoned with sizes that leave a rest is what a run would find, or it is not reckoned. */
void test_onnx_sizes_with_a_rest(void) {
    static const struct {
        const char *chain, *want, *of_5; /* want NULL: refused without given shapes */
    } rows[] = {{"Div s 2 h;Mul h 2 e;", NULL, "[4]"},
                {"Div s 3 h;Mul h 2 e;", NULL, "[2]"},
                {"Div s 2 h;Mul h h e;", NULL, "[4]"},
                {"Div s 2 h;Add h h e;", NULL, "[4]"},
                {"Mul s 2 d;Div d 3 a;Div s 3 b;Sub a b e;", NULL, "[2]"},
                {"Mul s 2 d;Div d 3 a;Div s 3 b;Add a b e;", NULL, "[4]"},
                {"Div s 2 h;Div s h e;", NULL, "[2]"},
                {"Sub s 3 d;Div d 2 e;", NULL, "[1]"},
                {"Div s 2 h;Mul h 1 e;", "[A/2]", "[2]"},
                {"Div s 2 h;Add h 1 e;", "[1+A/2]", "[3]"},
                {"Div s 2 h;Sub h 1 e;", "[A/2-1]", "[1]"},
                {"Div s 2 h;Sub h h e;", "[0]", "[0]"},
                {"Div s 2 h;Div h 3 e;", "[A/6]", "[0]"},
                {"Mul s 3 d;Div d 3 e;", "[A]", "[5]"},
                {"Mul s 3 d;Sub d s e;", "[2A]", "[10]"},
                {"Mul s 3 d;Div d s e;", "[3]", "[3]"},
                /* sums past 63 bits, and a quotient that does not fit */
                {"Add s big p;Sub s big q;Sub p q e;", NULL, NULL},
                {"Sub -1 s m;Div m -1 e;", NULL, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        om_bytes      m = with_chain(rows[i].chain);
        om_import     k = import_given(&m, NULL, 0);
        ph_onnx_given five = {"x", 1, {5}};
        CHECK_SAY(rows[i].want || k.rc, "%s is reckoned", rows[i].chain);
        if (rows[i].want) expect_shape(&k, "y", rows[i].want);
        done(&k);
        k = import_given(&m, &five, 1);
        if (rows[i].of_5) expect_shape(&k, "y", rows[i].of_5);
        done(&k);
    }
}

/* A matrix W[2, 2] behind scales of two: each product has its own.  And the file's own "w#T" is another. */
void test_onnx_weights_apart(void) {
    static const int64_t square[] = {2, 2}, two[] = {2};
    om_bytes             g = {.n = 0}, n, w = om_tensor("w", 3, 2, square), s = om_tensor("s", 1, 1, two),
             t = om_tensor("t", 1, 1, two), u = om_tensor("u", 1, 2, square),
             own = om_tensor("u#T", 1, 2, square);
    om_data(&w, 9, (const int8_t[]){1, 2, 3, 4}, 4), om_sub(&g, 5, &w);
    om_data(&s, 9, (const float[]){1, 1}, 8), om_sub(&g, 5, &s);
    om_data(&t, 9, (const float[]){10, 10}, 8), om_sub(&g, 5, &t);
    om_data(&u, 9, (const float[]){1, 2, 3, 4}, 16), om_sub(&g, 5, &u);
    om_data(&own, 9, (const float[]){0, 0, 0, 0}, 16), om_sub(&g, 5, &own);
    om_value(&g, 11, "x", 1, "1,2");
    static const char *const outs[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; i++) om_value(&g, 12, outs[i], 1, "1,2");
    n = om_node("DequantizeLinear", "", "w,s", "ws"), om_sub(&g, 1, &n);
    n = om_node("DequantizeLinear", "", "w,t", "wt"), om_sub(&g, 1, &n);
    n = om_node("MatMul", "", "x,ws", "a"), om_sub(&g, 1, &n);
    n = om_node("MatMul", "", "x,wt", "b"), om_sub(&g, 1, &n);
    n = om_node("MatMul", "", "x,u#T", "c"), om_sub(&g, 1, &n);
    n = om_node("MatMul", "", "x,u", "d"), om_sub(&g, 1, &n);
    n = om_node("MatMul", "", "x,u", "e"), om_sub(&g, 1, &n);
    static const float want[5] = {4, 40, 0, 4, 4};
    om_bytes           m = om_model(&g, 17);
    om_import          k = import_given(&m, NULL, 0);
    CHECK_SAY(!k.rc, "%s (%s)", k.err.msg, k.err.note[0]);
    for (int i = 0; i < 5 && !k.rc; i++) {
        ph_arena arena;
        ph_array y;
        ph_syms  none = {{0}};
        float    x[2] = {1, 1};
        ph_feed  feed = {"x", {.data = x, .dtype = PH_F32, .rank = 2, .dim = {1, 2}}};
        CHECK(!ph_arena_open_growing(&arena, 1 << 14, NULL));
        CHECK_SAY(!ph_graph_eval(k.g.graph, &none, &feed, 1, outs[i], &y, &kernels, &arena, &k.err), "%s",
                  k.err.msg);
        CHECK_SAY(fabsf(((float *)y.data)[0] - want[i]) < 1e-4f, "%s is %g, not %g", outs[i],
                  (double)((float *)y.data)[0], (double)want[i]);
        ph_arena_close(&arena);
    }
    /* d and e read one turned matrix. */
    if (!k.rc) {
        const ph_graph *r = k.g.graph;
        CHECK(r->node[r->n_nodes - 1].in[1] == r->node[r->n_nodes - 2].in[1]);
    }
    done(&k);
}

/* A B of 4 bits read as 2 rows of 32 and as 1 of 64: the second is refused or its own, not the first. */
void test_onnx_nbits_apart(void) {
    static const int64_t b_dims[] = {2, 1, 16}, two[] = {2};
    om_bytes             g = {.n = 0}, b = om_tensor("b", 2, 3, b_dims), s = om_tensor("s", 1, 1, two),
             t = om_tensor("t", 1, 1, two);
    uint8_t nines[32];
    memset(nines, 0x99, sizeof nines);
    om_data(&b, 9, nines, sizeof nines), om_sub(&g, 5, &b);
    om_data(&s, 9, (const float[]){1, 1}, 8), om_sub(&g, 5, &s);
    om_data(&t, 9, (const float[]){3, 3}, 8), om_sub(&g, 5, &t);
    om_value(&g, 11, "x", 1, "1,32"), om_value(&g, 11, "z", 1, "1,64");
    static const struct {
        const char *in, *out;
        int64_t     n, k;
        float       want;
    } rows[] = {{"x,b,s", "a", 2, 32, 32}, {"x,b,t", "c", 2, 32, 96}, {"z,b,t", "d", 1, 64, 192}};
    for (int i = 0; i < 3; i++) {
        om_bytes node = om_node("MatMulNBits", "com.microsoft", rows[i].in, rows[i].out);
        om_number(&node, "N", rows[i].n), om_number(&node, "K", rows[i].k), om_number(&node, "bits", 4),
            om_number(&node, "block_size", 32), om_sub(&g, 1, &node);
        om_value(&g, 12, rows[i].out, 1, "?,?");
    }
    om_bytes m = om_model(&g, 17);
    om_opset(&m, 8, "com.microsoft", 1);
    om_import k = import_given(&m, NULL, 0);
    CHECK_SAY(!k.rc, "%s (%s)", k.err.msg, k.err.note[0]);
    for (int i = 0; i < 3 && !k.rc; i++) {
        ph_arena arena;
        ph_array y = {.dtype = PH_F32};
        ph_syms  none = {{0}};
        float    x[64];
        for (int j = 0; j < 64; j++) x[j] = 1;
        ph_feed feed = {i < 2 ? "x" : "z",
                        {.data = x, .dtype = PH_F32, .rank = 2, .dim = {1, i < 2 ? 32 : 64}}};
        CHECK(!ph_arena_open_growing(&arena, 1 << 14, NULL));
        ph_rc rc = ph_graph_eval(k.g.graph, &none, &feed, 1, rows[i].out, &y, &kernels, &arena, &k.err);
        CHECK_SAY(!rc && y.dim[1] == rows[i].n && fabsf(((float *)y.data)[0] - rows[i].want) < 1e-3f,
                  "%s: %s, %g", rows[i].out, k.err.msg, rc ? 0 : (double)((float *)y.data)[0]);
        ph_arena_close(&arena);
    }
    done(&k);
}

/* A chain of results of 256 KiB that depend on constants only: together they stop at the bound, and the nodes
 * behind it stay nodes, to passes as well. */
void test_onnx_folds_within_bounds(void) {
    enum { LINKS = 300 };
    om_bytes      g = {.n = 0}, n = om_node("Expand", "", "one,many", "v0");
    const int64_t one = 1, many = 32768;
    char          in[16] = "v0", out[16];
    om_list(&g, "one", 1, &one), om_list(&g, "many", 1, &many);
    om_value(&g, 11, "x", 7, "t"), om_value(&g, 12, "y", 7, "t");
    om_sub(&g, 1, &n);
    for (int i = 1; i <= LINKS; i++) {
        snprintf(out, sizeof out, "v%d", i);
        n = om_node("Neg", "", in, out), om_sub(&g, 1, &n);
        memcpy(in, out, sizeof in);
    }
    n = om_node("Gather", "", "v300,x", "y"), om_sub(&g, 1, &n);
    om_bytes  m = om_model(&g, 17);
    om_import k = import_given(&m, NULL, 0);
    CHECK_SAY(!k.rc, "%s (%s)", k.err.msg, k.err.note[0]);
    if (!k.rc) {
        ph_pass_env env = {.kernels = &kernels, .fold_bytes_max = 1 << 20};
        size_t      left = k.g.graph->n_nodes;
        CHECK_SAY(left > LINKS - PH_FOLDED_MAX / (256 << 10) && left < LINKS, "%zu nodes", left);
        CHECK(!ph_passes_run(k.g.graph, &env, NULL, NULL));
        CHECK_SAY(k.g.graph->n_nodes == left && k.g.graph->folded <= PH_FOLDED_MAX, "%zu nodes, %zu bytes",
                  k.g.graph->n_nodes, k.g.graph->folded);
    }
    done(&k);
}

/* Attention of com.microsoft over x[1, 2, 2] and w[2, 3]: widths of q, k and v are a file's numbers. */
void test_onnx_attention_widths(void) {
    static const struct {
        int64_t     sizes[3];
        const char *word; /* NULL: sound */
    } rows[] = {{{1, 1, 1}, NULL},
                {{INT64_C(1) << 62, INT64_C(1) << 62, INT64_C(1) << 62}, "of a weight with 3 columns"},
                {{INT64_MAX, 1, 1}, "of a weight with 3 columns"},
                {{1, INT64_MAX, INT64_MAX}, "of a weight with 3 columns"},
                {{1, 1, 2}, "1, 1, 2 of a weight with 3 columns"},
                {{-1, 3, 1}, "of a weight with 3 columns"},
                {{0, 0, 3}, "of a weight with 3 columns"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        om_bytes g = {.n = 0}, n = om_node("Attention", "com.microsoft", "x,w,b", "y"),
                 w = om_tensor("w", 1, 2, (const int64_t[]){2, 3}),
                 b = om_tensor("b", 1, 1, (const int64_t[]){3});
        om_data(&w, 9, (const float[6]){0}, 24), om_sub(&g, 5, &w);
        om_data(&b, 9, (const float[3]){0}, 12), om_sub(&g, 5, &b);
        om_value(&g, 11, "x", 1, "1,2,2"), om_value(&g, 12, "y", 1, "1,2,1");
        om_number(&n, "num_heads", 1), om_ints(&n, "qkv_hidden_sizes", 3, rows[i].sizes), om_sub(&g, 1, &n);
        om_bytes m = om_model(&g, 17);
        om_opset(&m, 8, "com.microsoft", 1);
        if (rows[i].word) {
            refuse(&m, PH_EMISMATCH, rows[i].word);
            continue;
        }
        om_import k = import_given(&m, NULL, 0);
        expect_shape(&k, "y", "[1, 2, 1]");
        done(&k);
    }
    /* MultiHeadAttention whose bias is too short for query, key and value. */
    om_bytes g = {.n = 0}, n = om_node("MultiHeadAttention", "com.microsoft", "x,x,x,b", "y"),
             b = om_tensor("b", 1, 1, (const int64_t[]){5});
    om_data(&b, 9, (const float[5]){0}, 20), om_sub(&g, 5, &b);
    om_value(&g, 11, "x", 1, "1,2,2"), om_value(&g, 12, "y", 1, "1,2,2");
    om_number(&n, "num_heads", 1), om_sub(&g, 1, &n);
    om_bytes m = om_model(&g, 17);
    om_opset(&m, 8, "com.microsoft", 1);
    refuse(&m, PH_EMISMATCH, "a bias of 5, and query, key and value have 6 columns");
}

/* m is x[n] up to n/2: what would take two of it for n is not imported without given shapes. */
static om_bytes of_half(void) {
    om_bytes g = {.n = 0}, n = om_node("Shape", "", "x", "s");
    om_value(&g, 11, "x", 1, "n"), om_value(&g, 12, "y", 1, "?");
    om_list(&g, "0", 1, (const int64_t[]){0}), om_list(&g, "2", 1, (const int64_t[]){2});
    om_sub(&g, 1, &n);
    n = om_node("Div", "", "s,2", "h"), om_sub(&g, 1, &n);
    n = om_node("Slice", "", "x,0,h,0", "m"), om_sub(&g, 1, &n);
    return g;
}

static void expect_half(om_bytes g, const om_bytes *node, const char *want, const char *what) {
    om_sub(&g, 1, node);
    om_bytes  m = om_model(&g, 17);
    om_import k = import_given(&m, NULL, 0);
    CHECK_SAY(want || k.rc, "%s is reckoned", what);
    if (want) expect_shape(&k, "y", want);
    done(&k);
}

void test_onnx_floors_stay_floors(void) {
    const int64_t zero = 0, one = 1;
    om_bytes      g = of_half(), n = om_node("Concat", "", "m,m", "y");
    om_number(&n, "axis", 0), expect_half(g, &n, NULL, "Concat");
    n = om_node("Concat", "", "m,2f", "y"), om_number(&n, "axis", 0);
    om_bytes two = om_tensor("2f", 1, 1, (const int64_t[]){2}), with = g;
    om_data(&two, 9, (const float[]){0, 0}, 8), om_sub(&with, 5, &two),
        expect_half(with, &n, "[2+A/2]", "Concat");
    n = om_node("Tile", "", "m,2", "y"), expect_half(g, &n, NULL, "Tile");
    with = g, om_list(&with, "1", 1, &one);
    n = om_node("Tile", "", "m,1", "y"), expect_half(with, &n, "[A/2]", "Tile");
    n = om_node("Relu", "", "m", "y"), expect_half(g, &n, "[A/2]", "Relu");
    /* x [1, 4, 1, n] of which the last half goes to depth. */
    g = (om_bytes){.n = 0};
    om_value(&g, 11, "x", 1, "1,4,1,n"), om_value(&g, 12, "y", 1, "?,?,?,?");
    om_list(&g, "0", 1, &zero), om_list(&g, "2", 1, (const int64_t[]){2}),
        om_list(&g, "3", 1, (const int64_t[]){3});
    n = om_node("Shape", "", "x", "s"), om_sub(&g, 1, &n);
    n = om_node("Gather", "", "s,3", "w"), om_sub(&g, 1, &n);
    n = om_node("Div", "", "w,2", "h"), om_sub(&g, 1, &n);
    n = om_node("Slice", "", "x,0,h,3", "m"), om_sub(&g, 1, &n);
    n = om_node("DepthToSpace", "", "m", "y"), om_number(&n, "blocksize", 2),
    expect_half(g, &n, NULL, "DepthToSpace");
    n = om_node("DepthToSpace", "", "m", "y"), om_number(&n, "blocksize", 1),
    expect_half(g, &n, "[1, 4, 1, A/2]", "DepthToSpace");
}
