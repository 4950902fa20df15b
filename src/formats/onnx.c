/* onnx.c - opens a model: the outermost message, its graph and its functions.
 *
 * Every message is walked twice: once to count, once to fill tables of exactly that size.  Nothing
 * recurses on the input: model, graph, node, attribute, tensor are five fixed levels, and graphs
 * inside attributes are not entered.
 */
#include "formats/onnx.h"

#include "base/mem.h"
#include "formats/onnx_node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_CHUNK = 64 << 10, TEXT_BLOCK = 16 << 10 };
#define ITEMS_MAX ((uint64_t)1 << 26)

ph_rc ph_onnx_count(const ph_pb *m, ph_onnx_counts *c, ph_err *err) {
    ph_pb       at = *m;
    ph_pb_field f;
    int         more;
    *c = (ph_onnx_counts){{0}};
    for (;;) {
        PH_TRY(ph_pb_next(&at, &f, &more, err));
        if (!more) return PH_OK;
        if (f.number < sizeof c->of / sizeof *c->of) c->of[f.number]++;
    }
}

ph_rc ph_onnx_table(ph_onnx_reader *r, void *out_p, size_t n, size_t item, ph_err *err) {
    void *p = NULL;
    r->items += n;
    if (n > ITEMS_MAX || r->items > ITEMS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%.120s: more than %" PRIu64 " nodes, names and numbers", r->m->name,
                       ITEMS_MAX);
    if (n) PH_TRY(ph_arena_zero(&r->m->arena, &p, n, item, err));
    memcpy(out_p, &p, sizeof p);
    return PH_OK;
}

ph_rc ph_onnx_wire(const ph_pb *m, const ph_pb_field *f, unsigned wire, const char *what, ph_err *err) {
    if (f->wire == wire) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "%.120s: byte %zu: field %u should be %s, and has the wire type %u",
                   m->name, (size_t)(f->at - m->base), f->number, what, f->wire);
}

ph_rc ph_onnx_text(ph_onnx_reader *r, const ph_pb *m, const ph_pb_field *f, const char **out, ph_err *err) {
    PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, "a text", err));
    if (!f->n) {
        *out = "";
        return PH_OK;
    }
    if (memchr(f->at, 0, f->n))
        return PH_FAIL(err, PH_EFORMAT, "%.120s: byte %zu: a text with a zero byte inside", m->name,
                       (size_t)(f->at - m->base));
    size_t size = f->n + 1;
    if (size > r->text_left) {
        void  *block;
        size_t want = size > TEXT_BLOCK ? size : TEXT_BLOCK;
        PH_TRY(ph_arena_carve(&r->m->arena, &block, want, 1, err));
        r->text = block;
        r->text_left = want;
    }
    memcpy(r->text, f->at, f->n);
    r->text[f->n] = 0;
    *out = r->text;
    r->text += size;
    r->text_left -= size;
    return PH_OK;
}

/* Opsets are looked for one by one. */
static ph_rc few_opsets(const ph_onnx_reader *r, size_t n, ph_err *err) {
    enum { OPSETS_MAX = 256 };
    if (n <= OPSETS_MAX) return PH_OK;
    return PH_FAIL(err, PH_ELIMIT, "%.120s: %zu opsets are imported; at most %d are read", r->m->name, n,
                   OPSETS_MAX);
}

/* ---- functions ---- */

typedef struct function_tables {
    const char   **in, **out, **param;
    ph_onnx_attr  *defaults;
    ph_onnx_node  *node;
    ph_onnx_opset *opset;
} function_tables;

static ph_rc open_function(ph_onnx_reader *r, const ph_pb *m, ph_onnx_function *fn, function_tables *t,
                           ph_err *err) {
    ph_onnx_counts c;
    PH_TRY(ph_onnx_count(m, &c, err));
    PH_TRY(ph_onnx_table(r, &t->in, c.of[4], sizeof *t->in, err));
    PH_TRY(ph_onnx_table(r, &t->out, c.of[5], sizeof *t->out, err));
    PH_TRY(ph_onnx_table(r, &t->param, c.of[6], sizeof *t->param, err));
    PH_TRY(ph_onnx_table(r, &t->node, c.of[7], sizeof *t->node, err));
    PH_TRY(few_opsets(r, c.of[9], err));
    PH_TRY(ph_onnx_table(r, &t->opset, c.of[9], sizeof *t->opset, err));
    PH_TRY(ph_onnx_table(r, &t->defaults, c.of[11], sizeof *t->defaults, err));
    *fn = (ph_onnx_function){.name = "",
                             .domain = "",
                             .overload = "",
                             .in = t->in,
                             .out = t->out,
                             .param = t->param,
                             .node = t->node,
                             .opset = t->opset,
                             .defaults = t->defaults,
                             .at = (size_t)(m->at - m->base)};
    return PH_OK;
}

static ph_rc take_function(ph_onnx_reader *r, const ph_pb *m, const ph_pb_field *f, ph_onnx_function *fn,
                           function_tables *t, ph_err *err) {
    switch (f->number) {
    case 1:
        return ph_onnx_text(r, m, f, &fn->name, err);
    case 4:
        return ph_onnx_text(r, m, f, &t->in[fn->n_in++], err);
    case 5:
        return ph_onnx_text(r, m, f, &t->out[fn->n_out++], err);
    case 6:
        return ph_onnx_text(r, m, f, &t->param[fn->n_params++], err);
    case 7:
        PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, "a node", err));
        return ph_onnx_read_node(r, ph_pb_into(m, f), &t->node[fn->n_nodes++], err);
    case 9:
        PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, "an opset", err));
        return ph_onnx_read_opset(r, ph_pb_into(m, f), &t->opset[fn->n_opsets++], err);
    case 10:
        return ph_onnx_text(r, m, f, &fn->domain, err);
    case 11:
        PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, "an attribute", err));
        return ph_onnx_read_attr(r, ph_pb_into(m, f), &t->defaults[fn->n_defaults++], err);
    case 13:
        return ph_onnx_text(r, m, f, &fn->overload, err);
    default:
        return PH_OK;
    }
}

static ph_rc read_function(ph_onnx_reader *r, ph_pb m, ph_onnx_function *fn, ph_err *err) {
    function_tables t = {0};
    ph_pb_field     f;
    int             more;
    PH_TRY(open_function(r, &m, fn, &t, err));
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) break;
        PH_TRY(take_function(r, &m, &f, fn, &t, err));
    }
    if (!strcmp(fn->domain, "ai.onnx")) fn->domain = "";
    return PH_OK;
}

/* ---- the graph ---- */

typedef struct graph_tables {
    ph_onnx_node   *node;
    ph_onnx_tensor *initializer;
    ph_onnx_value  *input, *output;
} graph_tables;

static ph_rc take_graph(ph_onnx_reader *r, const ph_pb *m, const ph_pb_field *f, graph_tables *t,
                        ph_err *err) {
    ph_onnx *o = r->m;
    ph_pb    inner = {0};
    if (f->number == 1 || f->number == 5 || f->number == 11 || f->number == 12) {
        PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, "a part of the graph", err));
        inner = ph_pb_into(m, f);
    }
    switch (f->number) {
    case 1:
        return ph_onnx_read_node(r, inner, &t->node[o->n_nodes++], err);
    case 2:
        return ph_onnx_text(r, m, f, &o->graph_name, err);
    case 5:
        return ph_onnx_read_tensor(r, inner, &t->initializer[o->n_initializers++], err);
    case 11:
        return ph_onnx_read_value(r, inner, &t->input[o->n_inputs++], err);
    case 12:
        return ph_onnx_read_value(r, inner, &t->output[o->n_outputs++], err);
    case 15:
        return PH_FAIL(err, PH_EUNSUP, "%.120s: byte %zu: sparse initializers are not read", m->name,
                       (size_t)(f->at - m->base));
    default:
        return PH_OK;
    }
}

static ph_rc read_graph(ph_onnx_reader *r, ph_pb m, ph_err *err) {
    ph_onnx       *o = r->m;
    ph_onnx_counts c;
    graph_tables   t = {0};
    ph_pb_field    f;
    int            more;
    PH_TRY(ph_onnx_count(&m, &c, err));
    PH_TRY(ph_onnx_table(r, &t.node, c.of[1], sizeof *t.node, err));
    PH_TRY(ph_onnx_table(r, &t.initializer, c.of[5], sizeof *t.initializer, err));
    PH_TRY(ph_onnx_table(r, &t.input, c.of[11], sizeof *t.input, err));
    PH_TRY(ph_onnx_table(r, &t.output, c.of[12], sizeof *t.output, err));
    o->node = t.node, o->initializer = t.initializer, o->input = t.input, o->output = t.output;
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) return PH_OK;
        PH_TRY(take_graph(r, &m, &f, &t, err));
    }
}

static int by_names(const void *a, const void *b) {
    const ph_onnx_function *x = a, *y = b;
    int                     d = strcmp(x->domain, y->domain);
    if (!d) d = strcmp(x->name, y->name);
    return d ? d : strcmp(x->overload, y->overload);
}

/* Sorted, so that a node's is found among many. */
static ph_rc sort_functions(const ph_onnx *o, ph_onnx_function *f, ph_err *err) {
    if (o->n_functions) qsort(f, o->n_functions, sizeof *f, by_names);
    for (size_t i = 1; i < o->n_functions; i++)
        if (!by_names(&f[i - 1], &f[i]))
            return PH_FAIL(err, PH_EFORMAT,
                           "%.120s: byte %zu: the function %.60s of domain %.60s is there twice", o->name,
                           f[i].at, f[i].name, *f[i].domain ? f[i].domain : "ai.onnx");
    return PH_OK;
}

const ph_onnx_function *ph_onnx_function_of(const ph_onnx *m, const ph_onnx_node *n) {
    const ph_onnx_function key = {.domain = n->domain, .name = n->op, .overload = n->overload};
    return m->n_functions ? bsearch(&key, m->function, m->n_functions, sizeof key, by_names) : NULL;
}

const char *ph_onnx_node_label(const ph_onnx_node *n) {
    return *n->name ? n->name : n->n_out && *n->out[0] ? n->out[0] : n->op;
}

/* ---- names of initializers: sorted, so that many inputs can be looked up among many ---- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ph_rc sort_initializers(ph_onnx_reader *r, ph_err *err) {
    ph_onnx     *o = r->m;
    const char **name;
    PH_TRY(ph_onnx_table(r, &name, o->n_initializers, sizeof *name, err));
    for (size_t i = 0; i < o->n_initializers; i++) name[i] = o->initializer[i].name;
    if (o->n_initializers) qsort(name, o->n_initializers, sizeof *name, by_text);
    o->initializer_name = name;
    return PH_OK;
}

int ph_onnx_is_initializer(const ph_onnx *m, const char *name) {
    return m->n_initializers &&
           bsearch(&name, m->initializer_name, m->n_initializers, sizeof *m->initializer_name, by_text);
}

/* ---- the model ---- */

typedef struct model_tables {
    ph_onnx_opset    *opset;
    ph_onnx_function *function;
    ph_onnx_prop     *prop;
} model_tables;

static ph_rc take_model(ph_onnx_reader *r, const ph_pb *m, const ph_pb_field *f, model_tables *t,
                        ph_err *err) {
    ph_onnx *o = r->m;
    switch (f->number) {
    case 1:
        PH_TRY(ph_onnx_wire(m, f, PH_PB_VARINT, "ir_version", err));
        o->ir_version = (int64_t)f->value;
        return PH_OK;
    case 2:
        return ph_onnx_text(r, m, f, &o->producer, err);
    case 3:
        return ph_onnx_text(r, m, f, &o->producer_version, err);
    case 7:
        PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, "the graph", err));
        return read_graph(r, ph_pb_into(m, f), err);
    case 8:
        PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, "an opset", err));
        return ph_onnx_read_opset(r, ph_pb_into(m, f), &t->opset[o->n_opsets++], err);
    case 14:
        return ph_onnx_read_prop(r, m, f, &t->prop[o->n_props++], err);
    case 25:
        PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, "a function", err));
        return read_function(r, ph_pb_into(m, f), &t->function[o->n_functions++], err);
    default:
        return PH_OK;
    }
}

static ph_rc read_model(ph_onnx_reader *r, ph_pb m, ph_err *err) {
    ph_onnx       *o = r->m;
    ph_onnx_counts c;
    model_tables   t = {0};
    ph_pb_field    f;
    int            more;
    o->producer = o->producer_version = o->graph_name = "";
    PH_TRY(ph_onnx_count(&m, &c, err));
    if (c.of[7] != 1)
        return PH_FAIL(err, PH_EFORMAT, "%.120s: no ONNX model: it has %zu graphs, not one", o->name,
                       c.of[7]);
    PH_TRY(few_opsets(r, c.of[8], err));
    PH_TRY(ph_onnx_table(r, &t.opset, c.of[8], sizeof *t.opset, err));
    PH_TRY(ph_onnx_table(r, &t.function, c.of[25], sizeof *t.function, err));
    PH_TRY(ph_onnx_table(r, &t.prop, c.of[14], sizeof *t.prop, err));
    o->opset = t.opset, o->function = t.function, o->prop = t.prop;
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) break;
        PH_TRY(take_model(r, &m, &f, &t, err));
    }
    PH_TRY(sort_functions(o, t.function, err));
    PH_TRY(sort_initializers(r, err));
    if (o->ir_version < 1)
        return PH_FAIL(err, PH_EFORMAT, "%.120s: no ONNX model: ir_version is %" PRId64, o->name,
                       o->ir_version);
    return PH_OK;
}

static ph_rc view(ph_onnx *m, const uint8_t *bytes, size_t n, const char *dir, ph_err *err) {
    ph_onnx_reader r = {.m = m, .dir = dir};
    if (!n) return PH_FAIL(err, PH_EFORMAT, "%.200s: the file is empty", m->name);
    PH_TRY(ph_arena_open_growing(&m->arena, ARENA_CHUNK, err));
    ph_rc rc = read_model(&r, ph_pb_of(bytes, n, m->name), err);
    m->external_name = r.location;
    return rc;
}

ph_rc ph_onnx_view(ph_onnx *m, const uint8_t *bytes, size_t n, const char *name, ph_err *err) {
    *m = (ph_onnx){0};
    snprintf(m->name, sizeof m->name, "%s", name);
    ph_rc rc = view(m, bytes, n, NULL, err);
    if (rc) ph_onnx_close(m);
    return rc;
}

ph_rc ph_onnx_open(ph_onnx *m, const char *path, ph_err *err) {
    const char *slash = strrchr(path, '/');
    *m = (ph_onnx){0};
    snprintf(m->name, sizeof m->name, "%s", slash ? slash + 1 : path);
    char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (!dir) return PH_FAIL(err, PH_ENOMEM, "a folder's name");
    ph_rc rc = ph_file_open(&m->file, path, err);
    if (!rc) rc = view(m, m->file.bytes, m->file.n, dir, err);
    free(dir);
    if (rc) ph_onnx_close(m);
    return rc;
}

void ph_onnx_close(ph_onnx *m) {
    for (size_t i = 0; i < m->n_external; i++) ph_file_close(&m->external[i]);
    free(m->external);
    free(m->external_name);
    ph_file_close(&m->file);
    ph_arena_close(&m->arena);
    *m = (ph_onnx){0};
}
