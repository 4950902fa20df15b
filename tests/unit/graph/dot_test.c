/* dot_test.c - the DOT text against a small parser of the part of the language it uses. */
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/unit.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

typedef struct text {
    char   bytes[1 << 14];
    size_t n;
} text;

static void append(void *arg, const char *bytes, size_t n) {
    text *t = arg;
    CHECK(t->n + n < sizeof t->bytes);
    if (t->n + n >= sizeof t->bytes) return;
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
}

typedef struct parser {
    const char *p;
    int         depth, edges, clusters, bad;
    char        declared[64][8], used[128][8];
    int         n_declared, n_used;
} parser;

static void space(parser *s) {
    while (isspace((unsigned char)*s->p) || *s->p == ';') s->p++;
}

static void quoted(parser *s) {
    if (*s->p++ != '"') s->bad++;
    while (*s->p && *s->p != '"') {
        if ((unsigned char)*s->p < ' ') s->bad++;
        if (*s->p++ == '\\' && *s->p) s->p++;
    }
    if (*s->p)
        s->p++;
    else
        s->bad++;
}

static void word(parser *s, char out[8]) {
    size_t n = 0;
    space(s);
    while (isalnum((unsigned char)*s->p) || *s->p == '_') {
        if (n < 7) out[n++] = *s->p;
        s->p++;
    }
    out[n] = 0;
    if (!n) s->bad++;
}

/* [key=value key=value] */
static void attributes(parser *s) {
    char key[8];
    if (*s->p != '[') return;
    s->p++;
    for (space(s); *s->p && *s->p != ']'; space(s)) {
        word(s, key);
        if (*s->p++ != '=') s->bad++;
        if (*s->p == '"')
            quoted(s);
        else
            word(s, key);
        if (s->bad) return;
    }
    if (*s->p) s->p++;
}

static void statement(parser *s) {
    char a[8];
    word(s, a);
    space(s);
    if (!strcmp(a, "subgrap")) {
        char id[8];
        word(s, id);
        space(s);
        s->clusters++;
        s->depth += *s->p++ == '{';
    } else if (*s->p == '=') {
        s->p++;
        quoted(s);
    } else if (s->p[0] == '-' && s->p[1] == '>') {
        s->p += 2;
        memcpy(s->used[s->n_used++], a, 8);
        word(s, s->used[s->n_used++]);
        s->edges++;
        space(s);
        attributes(s);
    } else {
        if (strcmp(a, "node") && strcmp(a, "edge")) memcpy(s->declared[s->n_declared++], a, 8);
        attributes(s);
    }
}

static parser parse(const char *p) {
    parser s = {.p = p};
    if (strncmp(p, "digraph ", 8)) s.bad++;
    s.p += 8;
    quoted(&s);
    space(&s);
    s.depth += *s.p++ == '{';
    for (space(&s); *s.p && !s.bad && s.depth; space(&s)) {
        if (*s.p == '}')
            s.p++, s.depth--;
        else
            statement(&s);
    }
    space(&s);
    if (*s.p || s.depth) s.bad++;
    return s;
}

void test_dot_parses(void) {
    static text t;
    ph_graph   *g;
    ph_err      err = {0};
    float       w[32] = {0};
    CHECK(!ph_graph_open(&g, "two \"eyes\"", &err));
    g->modality = PH_MOD_VISION;
    int x = ph_graph_input(g, "x\nwith a line", PH_F32, ph_shape_of(2, GH_S(R), GH_D(8)));
    int wv =
        ph_graph_weight(g, "w\\1", ph_shape_of(2, GH_D(4), GH_D(8)), ph_storage_of(PH_F32, w, sizeof w, 32));
    int a = ph_graph_node(g, "Linear", PH_IN(x, wv), PH_NO_ATTRS, "say \"%s\"", "hello");
    g->modality = PH_MOD_TEXT;
    int b = ph_graph_node(g, "Relu", PH_IN(a), PH_NO_ATTRS, "b");
    g->modality = PH_MOD_NONE;
    ph_graph_state(g, "kv");
    int c = ph_graph_node(g, "Add", PH_IN(a, b), PH_NO_ATTRS, "c");
    ph_graph_output(g, c, "logits");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    ph_graph_dot(g, append, &t);
    t.bytes[t.n] = 0;
    parser s = parse(t.bytes);
    CHECK_SAY(!s.bad, "at \"%.40s\"", s.p);
    CHECK(s.clusters == 2 && s.edges == 5 && s.n_declared == 6); /* x, kv, three nodes, the output */
    for (int i = 0; i < s.n_used; i++) {
        int found = 0;
        for (int k = 0; k < s.n_declared; k++) found |= !strcmp(s.used[i], s.declared[k]);
        CHECK_SAY(found, "edge end %s is not declared", s.used[i]);
    }
    CHECK(strstr(t.bytes, "[4, 8] F32") && strstr(t.bytes, "[R, 4]") && strstr(t.bytes, "\\\"hello\\\""));
    ph_graph_close(g);
}
