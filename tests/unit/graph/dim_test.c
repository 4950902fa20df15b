/* dim_test.c - dimensions and shapes with symbols. */
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/unit.h"

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

static int same(ph_dim d, const char *text) {
    char out[64];
    ph_dim_print(d, out, sizeof out);
    if (strcmp(out, text)) printf("  %s, wanted %s\n", out, text);
    return !strcmp(out, text);
}

void test_dim_algebra(void) {
    ph_dim r = GH_S(R), n = GH_S(N), i = GH_S(I), d;
    CHECK(ph_dim_is_fixed(GH_D(7)) && !ph_dim_is_fixed(r));
    CHECK(ph_dim_mul(r, GH_D(4), &d) && same(d, "4R"));
    CHECK(ph_dim_div(d, GH_D(4), &d) && ph_dim_same(d, r));
    CHECK(ph_dim_mul(r, n, &d) && same(d, "RN"));
    CHECK(ph_dim_div(d, r, &d) && ph_dim_same(d, n));
    CHECK(ph_dim_div(n, GH_D(4), &d) && same(d, "N/4"));
    CHECK(ph_dim_mul(d, GH_D(6), &d) && same(d, "3N/2"));
    CHECK(ph_dim_mul(i, GH_D(64), &d) && ph_dim_add(d, GH_D(1), &d) && same(d, "1+64I"));
    CHECK(ph_dim_mul(d, GH_D(3), &d) && same(d, "3+192I"));
    CHECK(ph_dim_div(d, GH_D(3), &d) && same(d, "1+64I"));
    CHECK(!ph_dim_div(d, GH_D(2), &d) && !ph_dim_mul(d, r, &d) && !ph_dim_div(d, r, &d));
    CHECK(ph_dim_add(d, d, &d) && same(d, "2+128I"));
    CHECK(ph_dim_add(d, GH_D(-2), &d) && same(d, "128I"));
    CHECK(!ph_dim_add(r, n, &d) && !ph_dim_div(GH_D(7), GH_D(2), &d) && !ph_dim_div(GH_D(4), r, &d));
    CHECK(!ph_dim_div(r, GH_D(0), &d));
    CHECK(ph_dim_mul(r, GH_D(0), &d) && ph_dim_same(d, GH_D(0)));
    CHECK(ph_dim_add(GH_D(3), GH_D(4), &d) && ph_dim_same(d, GH_D(7)));
    ph_syms syms = {{5, 0, 0, 3, 10}};
    int64_t out;
    CHECK(ph_dim_div(n, GH_D(4), &d) && !ph_dim_eval(d, &syms, &out, NULL) && out == 2);
    CHECK(ph_dim_mul(i, GH_D(64), &d) && ph_dim_add(d, GH_D(1), &d) && !ph_dim_eval(d, &syms, &out, NULL) &&
          out == 193);
    CHECK(ph_dim_add(r, GH_D(-6), &d) && ph_dim_eval(d, &syms, &out, NULL) == PH_ELIMIT);
}

void test_dim_overflow(void) {
    ph_dim  d, big = GH_D(INT64_MAX), deep = GH_S(R);
    int64_t out;
    ph_syms syms = {{INT64_MAX / 2}};
    CHECK(!ph_dim_mul(big, GH_D(2), &d) && !ph_dim_add(big, GH_D(1), &d));
    CHECK(ph_dim_mul(GH_S(R), GH_D(3), &d) && ph_dim_eval(d, &syms, &out, NULL) == PH_ELIMIT);
    int steps = 0;
    while (ph_dim_mul(deep, GH_S(R), &deep)) steps++;
    CHECK(steps < 300);
    CHECK(ph_dim_eval((ph_dim){.mul = 1}, &syms, &out, NULL) == PH_ELIMIT); /* div 0: not of our making */
    CHECK(ph_dim_eval(GH_S(R), NULL, &out, NULL) == PH_ELIMIT);
}

void test_dim_print(void) {
    char   out[8] = "xxxxxxx";
    ph_dim d;
    CHECK(ph_dim_mul(GH_S(R), GH_S(R), &d) && same(d, "R^2"));
    CHECK(ph_dim_add(d, GH_D(-5), &d) && same(d, "R^2-5"));
    ph_dim_print(GH_D(1234567890), out, 4);
    CHECK(!strcmp(out, "123"));
    ph_shape s = ph_shape_of(2, GH_S(R), GH_D(256));
    char     text[32];
    ph_shape_print(&s, text, sizeof text);
    CHECK(!strcmp(text, "[R, 256]"));
    s = ph_shape_of(0);
    ph_shape_print(&s, text, sizeof text);
    CHECK(!strcmp(text, "[]"));
    CHECK(ph_shape_of(9).rank == -1 && ph_shape_of(-1).rank == -1);
}

/* In messages about a file's graph: by its names, which do not stand side by side as letters do. */
void test_dim_names(void) {
    ph_graph g = {.symbol = {[PH_SYM_R] = "past", [PH_SYM_N] = "past + 1", [PH_SYM_I] = "x[0]"}}, none = {0};
    char     text[64];
    ph_dim   d = GH_D(1), e = d;
    CHECK(ph_dim_mul(GH_S(R), GH_D(4), &d) && ph_dim_mul(GH_S(N), GH_S(I), &e));
    ph_shape s = ph_shape_of(4, d, e, GH_S(A), GH_D(64));
    ph_graph_shape_print(&g, &s, text, sizeof text);
    CHECK_SAY(!strcmp(text, "[4*past, x[0]*'past + 1', A, 64]"), "%s", text);
    ph_graph_shape_print(&none, &s, text, sizeof text);
    CHECK_SAY(!strcmp(text, "[4R, IN, A, 64]"), "%s", text);
    CHECK(ph_dim_mul(GH_S(R), GH_S(R), &d) && ph_dim_add(d, GH_D(-5), &d));
    ph_graph_dim_print(&g, d, text, sizeof text);
    CHECK_SAY(!strcmp(text, "past^2-5"), "%s", text);
    CHECK(ph_dim_div(GH_S(R), GH_D(2), &d) && ph_dim_add(d, GH_D(3), &d));
    ph_graph_dim_print(&g, d, text, 6);
    CHECK_SAY(!strcmp(text, "3+pas"), "%s", text);
}

void test_shape_count(void) {
    ph_syms  syms = {{3, 0, 0, 2, 0}};
    int64_t  n;
    ph_shape s = ph_shape_of(3, GH_S(R), GH_D(4), GH_S(I)), t = s;
    CHECK(!ph_shape_count(&s, &syms, &n, NULL) && n == 24);
    CHECK(ph_shape_same(&s, &t));
    t.dim[1] = GH_D(5);
    CHECK(!ph_shape_same(&s, &t));
    s = ph_shape_of(2, GH_D(INT64_MAX), GH_D(3));
    CHECK(ph_shape_count(&s, &syms, &n, NULL) == PH_ELIMIT);
}
