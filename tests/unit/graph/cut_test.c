/* cut_test.c - a graph in two: what the halves hold, and what cannot be cut. */
#include "graph/cut.h"
#include "graph/op.h"
#include "tests/unit/unit.h"

#include <string.h>

enum { WORDS = 7, WIDE = 4 };

/* ids -> table rows, doubled -> plus their own exponent -> y; also an input that only the rest reads. */
static ph_graph *open_graph(float table[WORDS * WIDE]) {
    static const float two[1] = {2};
    ph_graph          *g;
    ph_dim             wide = ph_dim_of(WIDE), rows = ph_dim_sym(PH_SYM_R);
    for (int i = 0; i < WORDS * WIDE; i++) table[i] = (float)i;
    CHECK(!ph_graph_open(&g, "language", NULL));
    int more = ph_graph_input(g, "more", PH_F32, ph_shape_of(2, rows, wide));
    int ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, rows));
    int t = ph_graph_constant(g, "table", PH_F32, ph_shape_of(2, ph_dim_of(WORDS), wide), table);
    int by = ph_graph_constant(g, "by", PH_F32, ph_shape_of(1, ph_dim_of(1)), two);
    int x = ph_graph_node(g, "Gather", PH_IN(t, ids), PH_ATTRS(PH_INT("axis", 0)), "picked");
    x = ph_graph_node(g, "Mul", PH_IN(x, by), PH_NO_ATTRS, "embedded");
    int y = ph_graph_node(g, "Add", PH_IN(x, more), PH_NO_ATTRS, "sum");
    y = ph_graph_node(g, "Mul", PH_IN(y, by), PH_NO_ATTRS, "doubled");
    ph_graph_output(g, ph_graph_node(g, "Add", PH_IN(y, x), PH_NO_ATTRS, "all"), "y");
    CHECK(!ph_graph_finish(g, NULL));
    return g;
}

static ph_value_class class_of(const ph_graph *g, const char *name) {
    int v = ph_graph_find(g, name);
    CHECK_SAY(v >= 0, "no value %s", name);
    return v < 0 ? PH_VALUE_STATE : g->value[v].cls;
}

void test_cut(void) {
    float     table[WORDS * WIDE];
    ph_graph *g = open_graph(table), *before, *after;
    ph_err    err = {0};
    CHECK_SAY(!ph_graph_cut(g, "embedded", "embed", &before, &after, &err), "%s", err.msg);
    if (before) {
        CHECK(!strcmp(before->name, "embed") && before->n_nodes == 2 && before->n_values == 5);
        CHECK(class_of(before, "ids") == PH_VALUE_INPUT && class_of(before, "table") == PH_VALUE_CONSTANT);
        const ph_value *seam = &before->value[ph_graph_find(before, "embedded")];
        CHECK(seam->is_output && seam->cls == PH_VALUE_TEMP && seam->producer == 1);
        CHECK(ph_graph_find(before, "more") < 0 && ph_graph_find(before, "y") < 0);
    }
    if (after) {
        CHECK(!strcmp(after->name, "language") && after->n_nodes == 3);
        const ph_value *seam = &after->value[ph_graph_find(after, "embedded")];
        CHECK(seam->cls == PH_VALUE_INPUT && !seam->is_output && seam->producer < 0);
        CHECK(class_of(after, "more") == PH_VALUE_INPUT && class_of(after, "by") == PH_VALUE_CONSTANT);
        CHECK(ph_graph_find(after, "ids") < 0 && ph_graph_find(after, "table") < 0);
        CHECK(after->value[ph_graph_find(after, "y")].is_output);
    }
    CHECK(g->n_nodes == 5 && class_of(g, "embedded") == PH_VALUE_TEMP); /* the whole is left alone */
    ph_graph_close(before);
    ph_graph_close(after);
    ph_graph_close(g);
}

void test_cut_refuses(void) {
    static const struct {
        const char *at, *part;
    } rows[] = {{"none", "makes no value 'none'"},
                {"ids", "makes no value 'ids'"},
                {"y", "makes no value 'y'"},
                {"doubled", "the rest reads 'embedded' too"}};
    float     table[WORDS * WIDE];
    ph_graph *g = open_graph(table), *before, *after;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_err err = {0};
        CHECK(ph_graph_cut(g, rows[i].at, "embed", &before, &after, &err) == PH_EUNSUP && !before && !after);
        CHECK_SAY(strstr(err.msg, rows[i].part), "%s", err.msg);
    }
    ph_graph_close(g);
}
