/* dot.c - a graph as Graphviz DOT.
 *
 * Nodes are boxes in a cluster for each modality; the shapes of arrays stand on the
 * edges.  Weights are not drawn: each is a line in its node's label, with shape
 * and storage type.  Inputs are ovals, states cylinders, outputs double ovals.
 * Text goes out in pieces through the callback; nothing is allocated.
 */
#include "graph/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct sink {
    ph_write_fn *write;
    void        *arg;
} sink;

enum { N_MODALITIES = PH_MOD_FUSED + 1 };

static void put(const sink *s, const char *text) {
    s->write(s->arg, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static void say(const sink *s, const char *fmt, ...) {
    char    text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put(s, text);
}

/* A name inside a quoted string: names come from files. */
static void put_name(const sink *s, const char *name) {
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        if (c == '"' || c == '\\') s->write(s->arg, "\\", 1);
        s->write(s->arg, c < ' ' || c == 127 ? "?" : name, 1);
    }
}

static void put_shape(const sink *s, const ph_shape *shape) {
    char text[160];
    ph_shape_print(shape, text, sizeof text);
    put(s, text);
}

static void draw_node(const sink *s, const ph_graph *g, size_t i) {
    const ph_node *n = &g->node[i];
    say(s, "    n%zu [label=\"", i);
    put_name(s, n->op->name); /* a plug-in's may hold anything that is printable */
    put(s, "\\n");
    put_name(s, n->name);
    for (int k = 0; k < n->n_in; k++) {
        if (n->in[k] < 0 || g->value[n->in[k]].cls != PH_VALUE_CONSTANT) continue;
        const ph_value *w = &g->value[n->in[k]];
        put(s, "\\n");
        put_name(s, w->name);
        put(s, " ");
        put_shape(s, &w->shape);
        say(s, " %s", ph_dtype_name(w->storage.dtype));
    }
    put(s, "\"];\n");
}

static void draw_cluster(const sink *s, const ph_graph *g, int modality) {
    int drawn = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        if ((int)g->node[i].modality != modality) continue;
        if (!drawn++ && modality)
            say(s, "  subgraph cluster_%s {\n    label=\"%s\";\n", ph_modality_name((ph_modality)modality),
                ph_modality_name((ph_modality)modality));
        draw_node(s, g, i);
    }
    if (drawn && modality) put(s, "  }\n");
}

/* Inputs and states; constants that no node holds in its label are left out. */
static void draw_sources(const sink *s, const ph_graph *g) {
    for (size_t i = 0; i < g->n_values; i++) {
        const ph_value *v = &g->value[i];
        if (v->cls != PH_VALUE_INPUT && v->cls != PH_VALUE_STATE) continue;
        say(s, "  v%zu [shape=%s label=\"", i, v->cls == PH_VALUE_STATE ? "cylinder" : "oval");
        put_name(s, v->name);
        if (v->cls == PH_VALUE_INPUT) {
            say(s, "\\n%s ", ph_dtype_name(v->dtype));
            put_shape(s, &v->shape);
        }
        put(s, "\"];\n");
    }
}

static void draw_edge(const sink *s, const ph_graph *g, int v, const char *to) {
    const ph_value *value = &g->value[v];
    if (value->producer >= 0)
        say(s, "  n%d -> %s [label=\"", value->producer, to);
    else
        say(s, "  v%d -> %s [label=\"", v, to);
    if (value->cls != PH_VALUE_STATE) put_shape(s, &value->shape);
    put(s, "\"];\n");
}

static void draw_edges(const sink *s, const ph_graph *g) {
    char to[32];
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i].n_in; k++) {
            int v = g->node[i].in[k];
            snprintf(to, sizeof to, "n%zu", i);
            if (v >= 0 && g->value[v].cls != PH_VALUE_CONSTANT) draw_edge(s, g, v, to);
        }
    for (size_t i = 0; i < g->n_values; i++) {
        if (!g->value[i].is_output) continue;
        snprintf(to, sizeof to, "o%zu", i);
        say(s, "  %s [shape=oval peripheries=2 label=\"", to);
        put_name(s, g->value[i].name);
        put(s, "\"];\n");
        if (g->value[i].cls != PH_VALUE_CONSTANT) draw_edge(s, g, (int)i, to);
    }
}

void ph_graph_dot(const ph_graph *g, ph_write_fn *write, void *arg) {
    sink s = {write, arg};
    put(&s, "digraph \"");
    put_name(&s, g->name);
    put(&s, "\" {\n  node [shape=box fontname=\"sans-serif\" fontsize=10];\n  edge [fontname=\"sans-serif\" "
            "fontsize=9];\n");
    draw_sources(&s, g);
    for (int m = 0; m < N_MODALITIES; m++) draw_cluster(&s, g, m);
    draw_edges(&s, g);
    put(&s, "}\n");
}
