/* onnx_lies_test.c - models that say what readers take in two ways, or contradict themselves: refused, with
 * the node; and names that only look as if two values had them. */
#include "graph/onnx/onnx_impl.h"
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/onnx_make.h"
#include "tests/unit/unit.h"

#include <math.h>

typedef struct read_in {
    ph_onnx       m;
    ph_onnx_graph g;
    ph_err        err;
    ph_rc         rc;
} read_in;

static read_in read_model(const om_bytes *model) {
    static ph_kernels kernels;
    read_in           i = {.rc = 0};
    ph_kernels_init(&kernels, 0);
    ph_onnx_import_how how = {.kernels = &kernels};
    i.rc = ph_onnx_view(&i.m, model->at, model->n, "test.onnx", &i.err);
    if (!i.rc) i.rc = ph_onnx_import(&i.g, &i.m, &how, &i.err);
    return i;
}

static void done(read_in *i) {
    ph_onnx_graph_close(&i->g);
    ph_onnx_close(&i->m);
}

static void refuse(const om_bytes *model, ph_rc want, const char *words) {
    read_in i = read_model(model);
    CHECK_SAY(i.rc == want && strstr(i.err.msg, words), "%s (%s), wanted %s with \"%s\"", ph_rc_name(i.rc),
              i.err.msg, ph_rc_name(want), words);
    CHECK_SAY(!i.rc || strstr(i.err.msg, "test.onnx") ||
                  (i.err.n_notes && strstr(i.err.note[0], "at node")) ||
                  (i.err.n_notes > 1 && strstr(i.err.note[1], "at node")),
              "%s: where it is, is not said", i.err.msg);
    done(&i);
}

static void take(const om_bytes *model, const char *value) {
    read_in i = read_model(model);
    CHECK_SAY(!i.rc, "%s (%s)", i.err.msg, i.err.note[0]);
    CHECK_SAY(i.rc || ph_graph_find(i.g.graph, value) >= 0, "there is no '%s'", value);
    done(&i);
}

static om_bytes model_of(const om_bytes *nodes, int n, int type, const char *dims) {
    om_bytes g = {.n = 0};
    om_value(&g, 11, "x", type, dims);
    om_value(&g, 12, "y", 0, "");
    for (int i = 0; i < n; i++) om_sub(&g, 1, &nodes[i]);
    om_bytes m = om_model(&g, 17);
    om_opset(&m, 8, "com.microsoft", 1);
    om_opset(&m, 8, "local", 1);
    return m;
}

static void refuse_node(om_bytes node, ph_rc want, const char *words) {
    om_bytes m = model_of(&node, 1, 1, "2,3");
    refuse(&m, want, words);
}

/* ---- attributes ---- */

/* Each attribute of each operator that is read has a line that says its type. */
void test_onnx_words_known(void) {
    const ph_oi_row *(*const tables[])(size_t *) = {ph_oi_rows_onnx, ph_oi_rows_microsoft,
                                                    ph_oi_rows_pinhole};
    size_t n, seen = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        const ph_oi_row *row = tables[t](&n);
        for (size_t i = 0; i < n; i++)
            for (const char *p = row[i].attrs; *p; p += strcspn(p, " "), p += *p == ' ') {
                char   name[64] = "";
                size_t length = strcspn(p, " <>");
                if (length < sizeof name) memcpy(name, p, length);
                CHECK_SAY(ph_oi_word_is_known(row[i].op, name), "%s of %s", name, row[i].op);
                seen++;
            }
    }
    CHECK(seen > 200);
}

/* An operator that takes attributes as they are would read one of another type as left out. */
void test_onnx_words_types(void) {
    om_bytes n = om_node("LeakyRelu", "", "x", "y");
    om_number(&n, "alpha", 1);
    refuse_node(n, PH_EMISMATCH, "LeakyRelu: attribute 'alpha' is a whole number, not a number");
    n = om_node("Concat", "", "x,x", "y"), om_word(&n, "axis", "1");
    refuse_node(n, PH_EMISMATCH, "Concat: attribute 'axis' is a text, not a whole number");
    n = om_node("Transpose", "", "x", "y"), om_float(&n, "perm", 1, 1);
    refuse_node(n, PH_EMISMATCH, "'perm' is numbers, not whole numbers");
    n = om_node("BitShift", "", "x,x", "y"), om_number(&n, "direction", 1);
    refuse_node(n, PH_EMISMATCH, "'direction' is a whole number, not a text");
    n = om_node("LeakyRelu", "", "x", "y"), om_float(&n, "alpha", 1, 0);
    om_bytes m = model_of(&n, 1, 1, "2,3");
    take(&m, "y");
}

/* 2 is yes to one reader and no to another. */
void test_onnx_words_flags(void) {
    om_bytes n = om_node("ReduceSum", "", "x", "y");
    om_number(&n, "keepdims", 2);
    refuse_node(n, PH_EMISMATCH, "ReduceSum: attribute 'keepdims' is 2, neither 0 nor 1");
    n = om_node("MultiHeadAttention", "com.microsoft", "x,x,x", "y"), om_number(&n, "num_heads", 1);
    om_number(&n, "unidirectional", -1);
    om_bytes m = model_of(&n, 1, 1, "1,2,4");
    refuse(&m, PH_EMISMATCH, "'unidirectional' is -1, neither 0 nor 1");
    n = om_node("ReduceSum", "", "x", "y"), om_number(&n, "keepdims", 1);
    m = model_of(&n, 1, 1, "2,3");
    take(&m, "y");
}

void test_onnx_words_finite(void) {
    om_bytes n = om_node("FusedMatMul", "com.microsoft", "x,x", "y");
    om_float(&n, "alpha", NAN, 0);
    om_bytes m = model_of(&n, 1, 1, "2,2");
    refuse(&m, PH_EMISMATCH, "FusedMatMul: alpha is nan, which is no finite number");
    n = om_node("MultiHeadAttention", "com.microsoft", "x,x,x", "y"), om_number(&n, "num_heads", 1);
    om_float(&n, "scale", INFINITY, 0);
    m = model_of(&n, 1, 1, "1,2,4");
    refuse(&m, PH_EMISMATCH, "scale is inf");
}

/* An attribute that a caller gives, in a function and where there is no caller. */
void test_onnx_words_of_callers(void) {
    om_bytes n = om_node("LeakyRelu", "", "x", "y"), f = {.n = 0}, inner = om_node("LeakyRelu", "", "a", "b");
    om_ref(&n, "alpha", "slope", 1);
    refuse_node(n, PH_EMISMATCH, "'alpha' stands for the caller's 'slope', and the node is in no function");
    om_ref(&inner, "alpha", "slope", 1);
    om_text(&f, 1, "Lean"), om_text(&f, 10, "local"), om_text(&f, 4, "a"), om_text(&f, 5, "b"),
        om_text(&f, 6, "slope"), om_opset(&f, 9, "", 17), om_sub(&f, 7, &inner);
    n = om_node("Lean", "local", "x", "y"), om_number(&n, "slope", 1);
    om_bytes m = model_of(&n, 1, 1, "2,3");
    om_sub(&m, 25, &f);
    refuse(&m, PH_EMISMATCH, "'alpha' is a whole number, not a number");
    n = om_node("Lean", "local", "x", "y");
    m = model_of(&n, 1, 1, "2,3");
    om_sub(&m, 25, &f);
    take(&m, "y"); /* left out: the operator's own */
}

/* ---- contradictions ---- */

void test_onnx_outputs_not_made(void) {
    om_bytes n[2] = {om_node("MultiHeadAttention", "com.microsoft", "x,x,x", "t,,,more"),
                     om_node("Add", "", "t,more", "y")};
    om_number(&n[0], "num_heads", 1);
    om_bytes m = model_of(n, 2, 1, "1,2,4");
    refuse(&m, PH_EUNSUP, "output 3 ('more') is not done");
}

static om_bytes with_default(int type, const char *dims) {
    om_bytes g = {.n = 0}, n = om_node("Add", "", "x,w", "y"), w = om_tensor("w", 1, 1, (const int64_t[]){3});
    om_data(&w, 9, (const float[]){1, 2, 3}, 12);
    om_sub(&g, 5, &w), om_sub(&g, 1, &n);
    om_value(&g, 11, "x", 1, "2,3"), om_value(&g, 11, "w", type, dims), om_value(&g, 12, "y", 1, "");
    return om_model(&g, 17);
}

void test_onnx_defaults_as_declared(void) {
    om_bytes m = with_default(1, "3");
    take(&m, "y");
    m = with_default(1, "n");
    take(&m, "y");
    m = with_default(1, "7");
    refuse(&m, PH_EMISMATCH, "dimension 0 of input 'w' is 7, of its initializer 3");
    m = with_default(1, "1,3");
    refuse(&m, PH_EMISMATCH, "input 'w' has rank 2, its initializer 1");
    m = with_default(7, "3");
    refuse(&m, PH_EMISMATCH, "input 'w' is int64, its initializer float");
}

static om_bytes nbits(int64_t bits, int64_t packed) {
    om_bytes g = {.n = 0}, b = om_tensor("b", 2, 3, (const int64_t[]){2, 1, 16}),
             s = om_tensor("s", 1, 1, (const int64_t[]){2}),
             n = om_node("MatMulNBits", "com.microsoft", "x,b,s", "y");
    uint8_t nines[32] = {0};
    om_data(&b, 9, nines, sizeof nines), om_data(&s, 9, (const float[]){1, 1}, 8);
    om_number(&n, "N", 2), om_number(&n, "K", 32), om_number(&n, "block_size", 32),
        om_number(&n, "bits", bits);
    om_number(&n, "weight_prepacked", packed);
    om_sub(&g, 5, &b), om_sub(&g, 5, &s), om_sub(&g, 1, &n);
    om_value(&g, 11, "x", 1, "1,32"), om_value(&g, 12, "y", 1, "");
    om_bytes m = om_model(&g, 17);
    om_opset(&m, 8, "com.microsoft", 1);
    return m;
}

/* Numbers that other numbers of the same node, or of its arrays, contradict. */
void test_onnx_microsoft_contradictions(void) {
    om_bytes m = nbits(4, 0);
    take(&m, "y");
    m = nbits(((int64_t)1 << 32) + 4, 0);
    refuse(&m, PH_EMISMATCH, "bits 4294967300");
    m = nbits(4, 1);
    refuse(&m, PH_EUNSUP, "packed for one device");
    om_bytes g = {.n = 0}, n = om_node("MultiHeadAttention", "com.microsoft", "x,x,x,b", "y"),
             b = om_tensor("b", 1, 1, (const int64_t[]){13});
    om_number(&n, "num_heads", 1);
    om_data(&b, 9, (const float[13]){0}, 52), om_sub(&g, 5, &b), om_sub(&g, 1, &n);
    om_value(&g, 11, "x", 1, "1,2,4"), om_value(&g, 12, "y", 1, "");
    m = om_model(&g, 17), om_opset(&m, 8, "com.microsoft", 1);
    refuse(&m, PH_EMISMATCH, "a bias of 13, and query, key and value have 12 columns together");
    g = (om_bytes){.n = 0}, n = om_node("GroupQueryAttention", "com.microsoft", "x,k,k", "y");
    om_number(&n, "num_heads", 1), om_number(&n, "kv_num_heads", 1), om_sub(&g, 1, &n);
    om_value(&g, 11, "x", 1, "1,2,4"), om_value(&g, 11, "k", 1, "1,3,4"), om_value(&g, 12, "y", 1, "");
    m = om_model(&g, 17), om_opset(&m, 8, "com.microsoft", 1);
    refuse(&m, PH_EMISMATCH, "2 rows of query, 3 of key");
}

/* What is computed beforehand is asked for all its outputs. */
void test_onnx_constant_of_three_outputs(void) {
    om_bytes g = {.n = 0}, n = om_node("DynamicQuantizeMatMul", "com.microsoft", "a,b,s", "y"),
             a = om_tensor("a", 1, 2, (const int64_t[]){1, 2}),
             b = om_tensor("b", 3, 2, (const int64_t[]){2, 1}), s = om_tensor("s", 1, 0, NULL);
    om_data(&a, 9, (const float[]){1, -1}, 8), om_data(&b, 9, (const int8_t[]){3, 4}, 2);
    om_data(&s, 9, (const float[]){1}, 4);
    om_sub(&g, 5, &a), om_sub(&g, 5, &b), om_sub(&g, 5, &s), om_sub(&g, 1, &n);
    om_value(&g, 12, "y", 1, "");
    om_bytes m = om_model(&g, 17);
    om_opset(&m, 8, "com.microsoft", 1);
    take(&m, "y");
}

/* ---- names ---- */

static om_bytes half_of(const char *name, const char *other) {
    om_bytes g = {.n = 0}, a = om_node("Neg", "", name, other), b = om_node("Neg", "", other, "y");
    om_value(&g, 11, name, 10, "2,3"), om_value(&g, 12, "y", 10, "");
    om_sub(&g, 1, &a), om_sub(&g, 1, &b);
    return om_model(&g, 17);
}

/* Helper values beside inputs and outputs of 16 bits have names that the file has, or that begin alike. */
void test_onnx_names_beside(void) {
    char     long_a[256], long_b[256];
    om_bytes m = half_of("x", "x#f32"), g = {.n = 0}, n;
    take(&m, "x#f32");
    m = half_of("x", "y#made");
    take(&m, "y#made");
    memset(long_a, 'x', sizeof long_a), memset(long_b, 'x', sizeof long_b);
    strcpy(long_a + 250, "a"), strcpy(long_b + 250, "b");
    om_value(&g, 11, long_a, 10, "2,3"), om_value(&g, 11, long_b, 10, "2,3"), om_value(&g, 12, "y", 10, "");
    n = (om_bytes){.n = 0}, om_text(&n, 1, long_a), om_text(&n, 1, long_b), om_text(&n, 2, "y"),
    om_text(&n, 4, "Add");
    om_sub(&g, 1, &n);
    m = om_model(&g, 17);
    take(&m, "y");
}

/* Values inside two calls, where a node is called as the other's output; and as a value of the file is. */
void test_onnx_names_of_calls(void) {
    om_bytes f = {.n = 0}, one = om_node("Relu", "", "a", "c"), two = om_node("Neg", "", "c", "b"), n[3];
    om_text(&f, 1, "Twice"), om_text(&f, 10, "local"), om_text(&f, 4, "a"), om_text(&f, 5, "b"),
        om_opset(&f, 9, "", 17), om_sub(&f, 7, &one), om_sub(&f, 7, &two);
    n[0] = om_node("Twice", "local", "x", "t");
    n[1] = om_node("Twice", "local", "t", "y"), om_text(&n[1], 3, "t");
    om_bytes m = model_of(n, 2, 1, "2,3");
    om_sub(&m, 25, &f);
    take(&m, "y/c");
    n[1] = om_node("Relu", "", "x", "t/c"), n[2] = om_node("Add", "", "t,t/c", "y");
    m = model_of(n, 3, 1, "2,3");
    om_sub(&m, 25, &f);
    take(&m, "t/c");
}

/* An input that is an output, and that no node reads, is given back. */
void test_onnx_output_is_input(void) {
    om_bytes g = {.n = 0};
    om_value(&g, 11, "x", 1, "2"), om_value(&g, 12, "x", 1, "2");
    om_bytes m = om_model(&g, 17);
    read_in  i = read_model(&m);
    ph_arena arena;
    ph_array all[4];
    ph_syms  none = {{0}};
    float    x[] = {1, 2};
    ph_feed  feed = {"x", {.data = x, .dtype = PH_F32, .rank = 1, .dim = {2}}};
    CHECK(!i.rc && i.g.graph->n_values <= 4 && !ph_arena_open_growing(&arena, 1 << 14, NULL));
    CHECK_SAY(!ph_graph_eval(i.g.graph, &none, &feed, 1, NULL, all, NULL, &arena, &i.err), "%s", i.err.msg);
    const ph_array *made = &all[ph_graph_find(i.g.graph, "x")];
    CHECK(made->data == x && made->rank == 1 && made->dim[0] == 2);
    ph_arena_close(&arena);
    done(&i);
}
