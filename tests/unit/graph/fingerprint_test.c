/* fingerprint_test.c - what makes two graphs the same work: not names, but operators, attributes, shapes,
 * storage. */
#include "graph/graph.h"

#include "tests/unit/unit.h"

#include <string.h>

typedef struct made {
    const char *name, *op;
    int         wide, axis, is_f16, n;
} made;

static void print(const made *m, char out[PH_FINGERPRINT]) {
    static const uint8_t bytes[4096];
    ph_graph            *g[2] = {NULL, NULL};
    ph_err               e = {0};
    const ph_dtype       t = m->is_f16 ? PH_F16 : PH_F32;
    const size_t         row = (size_t)m->wide * ph_dtype_bytes(t);
    CHECK(!ph_graph_open(&g[0], m->name, &e));
    int x = ph_graph_input(g[0], m->name, PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(m->wide)));
    int w = ph_graph_weight(g[0], "w", ph_shape_of(2, ph_dim_of(4), ph_dim_of(m->wide)),
                            ph_storage_of(t, bytes, 4 * row, row));
    int y = ph_graph_node(g[0], "Linear", PH_IN(x, w), PH_NO_ATTRS, "%s.y", m->name);
    y = !strcmp(m->op, "Softmax")
            ? ph_graph_node(g[0], "Softmax", PH_IN(y), PH_ATTRS(PH_INT("axis", m->axis)), "z")
            : ph_graph_node(g[0], m->op, PH_IN(y), PH_NO_ATTRS, "z");
    ph_graph_output(g[0], y, "out");
    CHECK_SAY(!ph_graph_finish(g[0], &e), "%s", e.msg);
    CHECK(!ph_graph_fingerprint((const ph_graph *const *)g, (size_t)m->n, out, &e));
    CHECK(strlen(out) == PH_FINGERPRINT - 1 && strspn(out, "0123456789abcdef") == PH_FINGERPRINT - 1);
    ph_graph_close(g[0]);
}

void test_fingerprint(void) {
    static const made rows[] = {{"a", "Softmax", 8, 1, 0, 1},  {"a", "Softmax", 8, -1, 0, 1},
                                {"a", "Softmax", 16, 1, 0, 1}, {"a", "Softmax", 8, 1, 1, 1},
                                {"a", "Relu", 8, 1, 0, 1},     {"a", "Softmax", 8, 1, 0, 2}};
    enum { N = sizeof rows / sizeof *rows };
    char       is[N][PH_FINGERPRINT], again[PH_FINGERPRINT];
    const made other_name = {"b", "Softmax", 8, 1, 0, 1};
    for (size_t i = 0; i < N; i++) print(&rows[i], is[i]);
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < i; k++) CHECK_SAY(strcmp(is[i], is[k]), "rows %zu and %zu are the same", k, i);
    print(&rows[0], again);
    CHECK(!strcmp(is[0], again));
    print(&other_name, again);
    CHECK(!strcmp(is[0], again));
}
