/* pass_test.c - a graph means the same before and after every pass. */
#include "graph/pass.h"
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

enum { ROWS = 3, COLS = 8, OUTPUTS = 4 };

/* One value of the graph as ROWS x COLS floats. */
static int evaluate(const ph_graph *g, const char *want, float out[ROWS * COLS]) {
    ph_kernels kernels = gh_kernels();
    float      x[ROWS * COLS];
    uint64_t   state = 4;
    ph_syms    syms = {{ROWS}};
    ph_arena   arena;
    ph_array   y = {0};
    ph_err     err = {0};
    gh_fill(x, ROWS * COLS, &state);
    ph_feed feed = {"x", gh_array(PH_F32, x, 2, ROWS, COLS, 0, 0)};
    CHECK(!ph_arena_open_growing(&arena, 1 << 14, &err));
    ph_rc rc = ph_graph_eval(g, &syms, &feed, 1, want, &y, &kernels, &arena, &err);
    CHECK_SAY(!rc, "%s: %s", want, err.msg);
    int ok = !rc && ph_array_count(&y) == ROWS * COLS;
    CHECK(ok);
    if (ok) memcpy(out, y.data, sizeof(float) * ROWS * COLS);
    ph_arena_close(&arena);
    return ok;
}

static int count_op(const ph_graph *g, const char *op) {
    int n = 0;
    for (size_t i = 0; i < g->n_nodes; i++) n += !strcmp(g->node[i].op->name, op);
    return n;
}

/* x -> things to fold, to leave out, to share, and to forget -> y */
static ph_graph *redundant(void) {
    ph_graph *g;
    ph_err    err = {0};
    float     one[COLS], two[1] = {2};
    uint64_t  state = 8;
    gh_fill(one, COLS, &state);
    CHECK(!ph_graph_open(&g, "redundant", &err));
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, GH_S(R), GH_D(COLS)));
    int a = ph_graph_constant(g, "a", PH_F32, ph_shape_of(1, GH_D(COLS)), one);
    int b = ph_graph_constant(g, "b", PH_F32, ph_shape_of(0), two);
    int c = ph_graph_node(g, "Mul", PH_IN(a, b), PH_NO_ATTRS, "c"); /* folds */
    int d = ph_graph_node(g, "Tanh", PH_IN(c), PH_NO_ATTRS, "d");   /* folds then */
    int i = ph_graph_node(g, "Identity", PH_IN(x), PH_NO_ATTRS, "i");
    int s = ph_graph_constant(g, "s", PH_I64, ph_shape_of(1, GH_D(2)), (int64_t[]){-1, COLS});
    int r = ph_graph_node(g, "Reshape", PH_IN(i, s), PH_NO_ATTRS, "r"); /* the same shape */
    int e = ph_graph_node(g, "Add", PH_IN(r, d), PH_NO_ATTRS, "e");
    int f = ph_graph_node(g, "Add", PH_IN(x, d), PH_NO_ATTRS, "f"); /* equal once r is x */
    int h = ph_graph_node(g, "Gelu", PH_IN(e), PH_ATTRS(PH_TEXT("approximate", "tanh")), "h");
    int k = ph_graph_node(g, "Gelu", PH_IN(f), PH_ATTRS(PH_TEXT("approximate", "tanh")), "k");
    int l = ph_graph_node(g, "Gelu", PH_IN(f), PH_NO_ATTRS, "l"); /* another attribute: not equal */
    ph_graph_node(g, "Sqrt", PH_IN(l), PH_NO_ATTRS, "forgotten");
    int m = ph_graph_node(g, "Mul", PH_IN(h, k), PH_NO_ATTRS, "m");
    int n = ph_graph_node(g, "Add", PH_IN(m, l), PH_NO_ATTRS, "n");
    ph_graph_output(g, ph_graph_node(g, "Copy", PH_IN(n), PH_NO_ATTRS, "copied"), "y");
    return g;
}

static ph_graph *finished(void) {
    ph_graph *g = redundant();
    ph_err    err = {0};
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    return g;
}

static ph_pass_env env_of(const ph_kernels *kernels) {
    return (ph_pass_env){.kernels = kernels};
}

void test_pass_each_keeps_the_meaning(void) {
    ph_kernels kernels = gh_kernels();
    float      before[ROWS * COLS], after[ROWS * COLS];
    for (size_t only = 0; only <= ph_pass_count(); only++) { /* each alone, then all */
        char        off[128] = "";
        ph_graph   *g = finished();
        ph_pass_env env = env_of(&kernels);
        ph_err      err = {0};
        size_t      changes = 0, nodes = g->n_nodes;
        for (size_t i = 0; i < ph_pass_count() && only < ph_pass_count(); i++)
            if (i != only) strcat(strcat(off, *off ? "," : ""), ph_pass_at(i)->name);
        env.off = off;
        evaluate(g, "y", before);
        CHECK_SAY(!ph_passes_run(g, &env, &changes, &err), "%s: %s", off, err.msg);
        evaluate(g, "y", after);
        CHECK_SAY(!memcmp(before, after, sizeof after), "without %s", off);
        CHECK_SAY((changes > 0) == (g->n_nodes < nodes), "without %s: %zu changes", off, changes);
        /* "common" finds what others leave; multimodal operators have graphs of their own (modal_test.c). */
        if (only < ph_pass_count() && !strstr("common gate couple sparse", ph_pass_at(only)->name))
            CHECK(changes > 0);
        ph_graph_close(g);
    }
    ph_graph   *g = finished();
    ph_pass_env env = env_of(&kernels);
    CHECK(!ph_passes_run(g, &env, NULL, NULL));
    CHECK_SAY(g->n_nodes == 5, "%zu nodes", g->n_nodes); /* Add, Gelu, Gelu, Mul, Add */
    CHECK(!count_op(g, "Tanh") && !count_op(g, "Identity") && !count_op(g, "Reshape") &&
          !count_op(g, "Copy") && !count_op(g, "Sqrt") && count_op(g, "Gelu") == 2 &&
          count_op(g, "Add") == 2);
    CHECK(ph_graph_find(g, "d") >= 0 && ph_graph_find(g, "a") == -1 && ph_graph_find(g, "s") == -1);
    CHECK(ph_graph_find(g, "x") == 0 && g->value[ph_graph_find(g, "y")].is_output);
    size_t again = 9;
    CHECK(!ph_passes_run(g, &env, &again, NULL) && again == 0);
    ph_graph_close(g);
}

/* Random graphs of square-shaped operators over one input and some constants. */
static ph_graph *random_graph(uint64_t seed) {
    static const char *const one[] = {"Relu", "Identity", "Copy", "Sigmoid", "Tanh", "Gelu"};
    static const char *const two[] = {"Add", "Sub", "Mul"};
    uint64_t                 state = seed;
    ph_graph                *g;
    ph_err                   err = {0};
    int                      values[64], n = 0;
    float                    row[COLS];
    CHECK(!ph_graph_open(&g, "random", &err));
    values[n++] = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, GH_S(R), GH_D(COLS)));
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        gh_fill(row, COLS, &state);
        values[n++] = ph_graph_constant(g, name, PH_F32, ph_shape_of(1, GH_D(COLS)), row);
    }
    for (int i = 0; i < 40; i++) {
        int a = values[gh_below(&state, n)], b = values[gh_below(&state, n)];
        if (gh_below(&state, 2))
            values[n++] = ph_graph_node(g, one[gh_below(&state, 6)], PH_IN(a), PH_NO_ATTRS, "n%d", i);
        else
            values[n++] = ph_graph_node(g, two[gh_below(&state, 3)], PH_IN(a, b), PH_NO_ATTRS, "n%d", i);
    }
    for (int i = 0; i < OUTPUTS; i++) { /* widened to R rows, so that every output has one shape */
        int v = ph_graph_node(g, "Add", PH_IN(values[0], values[n - 1 - gh_below(&state, 12)]), PH_NO_ATTRS,
                              "o%d", i);
        if (gh_below(&state, 2)) v = ph_graph_node(g, "Identity", PH_IN(v), PH_NO_ATTRS, "p%d", i);
        char name[16];
        snprintf(name, sizeof name, "y%d", i);
        ph_graph_output(g, v, name);
    }
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    return g;
}

void test_pass_random_graphs(void) {
    ph_kernels kernels = gh_kernels();
    size_t     total = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        float       before[OUTPUTS][ROWS * COLS], after[ROWS * COLS];
        char        name[16];
        ph_graph   *g = random_graph(seed);
        ph_pass_env env = env_of(&kernels);
        ph_err      err = {0};
        size_t      changes;
        for (int i = 0; i < OUTPUTS; i++) {
            snprintf(name, sizeof name, "y%d", i);
            evaluate(g, name, before[i]);
        }
        CHECK_SAY(!ph_passes_run(g, &env, &changes, &err), "seed %d: %s", (int)seed, err.msg);
        total += changes;
        for (int i = 0; i < OUTPUTS; i++) {
            snprintf(name, sizeof name, "y%d", i);
            evaluate(g, name, after);
            CHECK_SAY(!memcmp(before[i], after, sizeof after), "seed %d, %s", (int)seed, name);
        }
        CHECK(!count_op(g, "Copy"));
        ph_graph_close(g);
    }
    CHECK(total > 1000);
}

/* Every value in turn is tapped: it survives under its name, renumbered, with its numbers. */
void test_pass_taps_survive(void) {
    ph_kernels  kernels = gh_kernels();
    const char *names[] = {"i", "r", "e", "f", "h", "k", "l", "m", "n", "x"};
    for (size_t t = 0; t < sizeof names / sizeof *names; t++) {
        float       before[ROWS * COLS], after[ROWS * COLS];
        ph_graph   *g = finished();
        ph_err      err = {0};
        int         keep[2] = {ph_graph_find(g, names[t]), ph_graph_find(g, "y")};
        ph_pass_env env = {.kernels = &kernels, .keep = keep, .n_keep = 2};
        evaluate(g, names[t], before);
        CHECK_SAY(!ph_passes_run(g, &env, NULL, &err), "%s: %s", names[t], err.msg);
        CHECK(keep[0] >= 0 && keep[0] == ph_graph_find(g, names[t]) && keep[1] == ph_graph_find(g, "y"));
        evaluate(g, names[t], after);
        CHECK_SAY(!memcmp(before, after, sizeof after), "%s", names[t]);
        ph_graph_close(g);
    }
}

void test_pass_fold_limits(void) {
    ph_kernels  kernels = gh_kernels();
    ph_graph   *g = finished();
    ph_pass_env env = env_of(&kernels);
    env.fold_bytes_max = COLS * sizeof(float) - 1;
    CHECK(!ph_passes_run(g, &env, NULL, NULL) && count_op(g, "Tanh") == 1);
    env.fold_bytes_max = COLS * sizeof(float);
    CHECK(!ph_passes_run(g, &env, NULL, NULL) && count_op(g, "Tanh") == 0);
    ph_graph_close(g);
}

void test_pass_switches(void) {
    ph_kernels  kernels = gh_kernels();
    ph_graph   *g = finished();
    ph_pass_env env = env_of(&kernels);
    ph_err      err = {0};
    size_t      changes;
    env.off = "fold,identity,common,dead";
    CHECK(!ph_passes_run(g, &env, &changes, &err) && changes == 0);
    env.off = "identity,dread";
    CHECK(ph_passes_run(g, &env, &changes, &err) == PH_EUSAGE && strstr(err.msg, "dread") &&
          strstr(err.msg, "fold"));
    int nowhere = 9999;
    env = (ph_pass_env){.kernels = &kernels, .keep = &nowhere, .n_keep = 1};
    CHECK(ph_passes_run(g, &env, &changes, &err) == PH_EBUG);
    ph_graph_close(g);
}

/* A node that writes a state stays though nobody reads it, and two of them are never one. */
void test_pass_effects_stay(void) {
    ph_kernels  kernels = gh_kernels();
    ph_graph   *g;
    ph_err      err = {0};
    ph_pass_env env = env_of(&kernels);
    CHECK(!ph_graph_open(&g, "effects", &err));
    int q = ph_graph_input(g, "q", PH_F32, ph_shape_of(2, GH_S(R), GH_D(8)));
    int rows = ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, GH_S(R), GH_D(PH_ROW_FIELDS)));
    int kv = ph_graph_state(g, "kv");
    for (int i = 0; i < 2; i++)
        ph_graph_node(g, "CachedAttention", PH_IN(q, q, q, rows, kv),
                      PH_ATTRS(PH_INT("layer", 0), PH_INT("num_heads", 2), PH_INT("kv_num_heads", 2)), "a%d",
                      i);
    ph_graph_output(g, ph_graph_node(g, "Relu", PH_IN(q), PH_NO_ATTRS, "r"), "y");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    CHECK(!ph_passes_run(g, &env, NULL, &err) && count_op(g, "CachedAttention") == 2);
    ph_graph_close(g);
}

/* Chains of copies: to an output, which the maker then writes itself, beside readers of every link, before
 * and behind it; and equal nodes whose inputs become equal by that. */
void test_pass_chains(void) {
    ph_kernels kernels = gh_kernels();
    float      before[ROWS * COLS], after[ROWS * COLS];
    ph_graph  *g;
    ph_err     err = {0};
    CHECK(!ph_graph_open(&g, "chains", &err));
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, GH_S(R), GH_D(COLS)));
    int a = ph_graph_node(g, "Tanh", PH_IN(x), PH_NO_ATTRS, "a");
    int early = ph_graph_node(g, "Neg", PH_IN(a), PH_NO_ATTRS, "early");
    int b = ph_graph_node(g, "Identity", PH_IN(a), PH_NO_ATTRS, "b");
    int c = ph_graph_node(g, "Copy", PH_IN(b), PH_NO_ATTRS, "c");
    int out = ph_graph_node(g, "Identity", PH_IN(c), PH_NO_ATTRS, "out"); /* an output */
    int d = ph_graph_node(g, "Identity", PH_IN(out), PH_NO_ATTRS, "d");
    int late = ph_graph_node(g, "Neg", PH_IN(d), PH_NO_ATTRS, "late"); /* as early */
    int sum = ph_graph_node(g, "Add", PH_IN(early, late), PH_NO_ATTRS, "sum");
    sum = ph_graph_node(g, "Add", PH_IN(sum, b), PH_NO_ATTRS, "sum.b");
    sum = ph_graph_node(g, "Add", PH_IN(sum, c), PH_NO_ATTRS, "sum.c");
    ph_graph_output(g, out, "out");
    ph_graph_output(g, sum, "y");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    evaluate(g, "y", before);
    ph_pass_env env = env_of(&kernels);
    CHECK_SAY(!ph_passes_run(g, &env, NULL, &err), "%s", err.msg);
    CHECK_SAY(g->n_nodes == 5 && !count_op(g, "Identity") && !count_op(g, "Copy") && count_op(g, "Neg") == 1,
              "%zu nodes", g->n_nodes);
    evaluate(g, "y", after);
    CHECK(!memcmp(before, after, sizeof after));
    evaluate(g, "out", after);
    ph_graph_close(g);
}
