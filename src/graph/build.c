/* build.c - the builder calls: values and nodes appended to a graph.
 *
 * The first failure sticks: g->rc and g->err keep it, later calls do nothing and
 * return -1.  Everything that a caller hands in (names, attributes, lists, small
 * constants) is copied into the arena; weight bytes are borrowed.
 */
#include "base/mem.h"
#include "graph/op.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 256, NODE_IO_MAX = 1 << 16 };

void ph_graph_fail(ph_graph *g, ph_rc rc, const char *fmt, ...) {
    char    text[sizeof g->err.msg];
    va_list ap;
    if (g->rc) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    g->rc = PH_FAIL(&g->err, rc ? rc : PH_EBUG, "graph %s: %s", g->name, text);
}

/* Keep rc as the sticky error; g->err was filled by the call that failed. */
static int stick(ph_graph *g, ph_rc rc) {
    if (rc && !g->rc) g->rc = rc;
    return -1;
}

static ph_rc carve_copy(ph_graph *g, void **out, const void *data, size_t n, size_t item) {
    PH_TRY(ph_arena_carve(&g->arena, out, n, item, &g->err));
    if (n && data) memcpy(*out, data, n * item);
    return PH_OK;
}

static ph_rc copy_name(ph_graph *g, const char **out, const char *name) {
    char *text;
    if (!name || !*name)
        return PH_FAIL(&g->err, PH_EFORMAT, "graph %s: a value or node without a name", g->name);
    PH_TRY(ph_arena_copy_text(&g->arena, &text, name, strlen(name), &g->err));
    *out = text;
    return PH_OK;
}

/* Room for one more item in a table that doubles. */
static ph_rc grow(ph_graph *g, void *table_p, size_t n, size_t *max, size_t item) {
    void **table = table_p, *bigger;
    if (n < *max) return PH_OK;
    size_t want = *max ? *max * 2 : 64;
    if (want > INT32_MAX) return PH_FAIL(&g->err, PH_ELIMIT, "graph %s: more than %zu values", g->name, n);
    PH_TRY(ph_arena_zero(&g->arena, &bigger, want, item, &g->err));
    if (n) memcpy(bigger, *table, n * item);
    *table = bigger;
    *max = want;
    return PH_OK;
}

/* For messages alone: a shape is written out when there is one, not for each value of a graph. */
static const char *shown(const ph_graph *g, const ph_shape *s, char text[128]) {
    ph_graph_shape_print(g, s, text, 128);
    return text;
}

/* A shape that operators may reckon with: dimensions in their normal form, none negative, and neither
 * elements nor bytes beyond 2^60 when every symbol is one. */
static ph_rc check_shape(ph_graph *g, const char *name, const ph_shape *s, ph_err *err) {
    int64_t n = 8;
    char    text[128];
    if (s->rank < 0 || s->rank > PH_RANK_MAX)
        return PH_FAIL(err, PH_ELIMIT, "graph %s: %s has a rank outside 0..%d", g->name, name, PH_RANK_MAX);
    for (int i = 0; i < s->rank; i++) {
        ph_dim d = s->dim[i];
        int    fixed = ph_dim_is_fixed(d);
        if (d.mul < 0 || d.div <= 0 || (fixed && (d.add || d.div != 1)))
            return PH_FAIL(err, PH_EFORMAT, "graph %s: %s has shape %s with a negative dimension", g->name,
                           name, shown(g, s, text));
        if (d.mul > 1 && __builtin_mul_overflow(n, d.mul, &n))
            return PH_FAIL(err, PH_ELIMIT, "graph %s: %s has shape %s, too many elements", g->name, name,
                           shown(g, s, text));
    }
    return PH_OK;
}

static int add_value(ph_graph *g, const char *name, ph_value v) {
    if (g->rc) return -1;
    ph_rc rc = grow(g, &g->value, g->n_values, &g->values_max, sizeof *g->value);
    if (!rc) rc = copy_name(g, &v.name, name);
    if (!rc) rc = check_shape(g, name, &v.shape, &g->err);
    if (!rc && (unsigned)v.dtype >= PH_N_DTYPES)
        rc = PH_FAIL(&g->err, PH_EFORMAT, "graph %s: %s has no element type", g->name, name);
    if (rc) return stick(g, rc);
    v.producer = -1;
    v.modality = g->modality;
    v.min_dtype = PH_F32;
    g->value[g->n_values] = v;
    return (int)g->n_values++;
}

int ph_graph_input(ph_graph *g, const char *name, ph_dtype dtype, ph_shape shape) {
    return add_value(g, name, (ph_value){.cls = PH_VALUE_INPUT, .dtype = dtype, .shape = shape});
}

int ph_graph_state(ph_graph *g, const char *name) {
    return add_value(g, name, (ph_value){.cls = PH_VALUE_STATE, .dtype = PH_F32});
}

/* What operators see of numbers stored as t: floats of any kind are f32, whole numbers stay themselves. */
static ph_dtype seen_as(ph_dtype t) {
    return ph_dtype_block(t) > 1 || ph_dtype_get(t)->pack ? PH_F32 : t;
}

/* All rows of a weight lie inside its plane. */
static ph_rc check_storage(ph_graph *g, const char *name, const ph_shape *shape, const ph_storage *s) {
    char    text[128];
    int64_t cols, count, rows = 1;
    size_t  row_bytes, last, end;
    for (int i = 0; i < shape->rank; i++)
        if (!ph_dim_is_fixed(shape->dim[i]))
            return PH_FAIL(&g->err, PH_EMISMATCH, "graph %s: weight %s has symbols in its shape %s", g->name,
                           name, shown(g, shape, text));
    PH_TRY(ph_shape_count(shape, NULL, &count, &g->err));
    cols = shape->rank ? shape->dim[shape->rank - 1].mul : 1;
    if (cols) rows = count / cols;
    if (s->form) return PH_OK; /* whoever made it has checked its planes against this shape: storage.h */
    if (s->n_planes != 1)
        return PH_FAIL(&g->err, PH_EUNSUP, "graph %s: weight %s is stored in %d planes, only 1 is read",
                       g->name, name, s->n_planes);
    ph_rc rc = ph_dtype_row_bytes(s->dtype, cols, &row_bytes, &g->err);
    if (rc) return ph_note(&g->err, rc, "in weight %s of shape %s", name, shown(g, shape, text));
    if (!count) return PH_OK;
    if (ph_mul_over((size_t)(rows - 1), s->plane[0].row_stride, &last) ||
        ph_add_over(last, row_bytes, &end) || end > s->plane[0].n ||
        (rows > 1 && s->plane[0].row_stride < row_bytes))
        return PH_FAIL(&g->err, PH_EMISMATCH,
                       "weight %s: shape %s as %s needs rows of %zu bytes, %zu bytes are there", name,
                       shown(g, shape, text), ph_dtype_name(s->dtype), row_bytes, s->plane[0].n);
    return PH_OK;
}

int ph_graph_weight(ph_graph *g, const char *name, ph_shape shape, ph_storage storage) {
    if (g->rc) return -1;
    ph_rc rc = check_shape(g, name, &shape, &g->err);
    if (!rc && (unsigned)storage.dtype >= PH_N_DTYPES)
        rc = PH_FAIL(&g->err, PH_EFORMAT, "weight %s has no storage type", name);
    if (!rc) rc = check_storage(g, name, &shape, &storage);
    if (rc) return stick(g, rc);
    return add_value(g, name,
                     (ph_value){.cls = PH_VALUE_CONSTANT,
                                .dtype = storage.form ? PH_F32 : seen_as(storage.dtype),
                                .shape = shape,
                                .storage = storage});
}

int ph_graph_constant(ph_graph *g, const char *name, ph_dtype dtype, ph_shape shape, const void *data) {
    int64_t count = 0;
    size_t  row = 0;
    void   *copy = NULL;
    if (g->rc) return -1;
    ph_rc rc = check_shape(g, name, &shape, &g->err);
    if (!rc && ((unsigned)dtype >= PH_N_DTYPES || ph_dtype_block(dtype) != 1))
        rc = PH_FAIL(&g->err, PH_EFORMAT, "constant %s: block types are weights", name);
    if (!rc) rc = ph_shape_count(&shape, NULL, &count, &g->err);
    if (!rc) rc = ph_dtype_row_bytes(dtype, shape.rank ? shape.dim[shape.rank - 1].mul : 1, &row, &g->err);
    if (!rc) rc = carve_copy(g, &copy, data, (size_t)count, ph_dtype_bytes(dtype));
    if (rc) return stick(g, rc);
    return add_value(
        g, name,
        (ph_value){.cls = PH_VALUE_CONSTANT,
                   .dtype = dtype,
                   .shape = shape,
                   .storage = ph_storage_of(dtype, copy, (size_t)count * ph_dtype_bytes(dtype), row)});
}

static ph_rc copy_texts(ph_graph *g, ph_attr *out, const ph_attr *in) {
    void *list;
    PH_TRY(ph_arena_carve(&g->arena, &list, in->n, sizeof *in->texts, &g->err));
    for (size_t i = 0; i < in->n; i++) {
        char *text;
        PH_TRY(ph_arena_copy_text(&g->arena, &text, in->texts[i], strlen(in->texts[i]), &g->err));
        ((const char **)list)[i] = text;
    }
    out->texts = list;
    return PH_OK;
}

static ph_rc copy_tensor(ph_graph *g, ph_attr *out, const ph_attr_tensor *in) {
    void *p, *bytes;
    PH_TRY(ph_arena_carve(&g->arena, &p, 1, sizeof *in, &g->err));
    PH_TRY(carve_copy(g, &bytes, in->bytes, in->n_bytes, 1));
    ph_attr_tensor *t = p;
    *t = *in;
    t->bytes = bytes;
    out->tensor = t;
    return PH_OK;
}

static int has_value(const ph_attr *a) {
    switch (a->type) {
    case PH_ATTR_TEXT:
        return a->text != NULL;
    case PH_ATTR_INTS:
        return !a->n || a->ints;
    case PH_ATTR_FLOATS:
        return !a->n || a->floats;
    case PH_ATTR_TEXTS:
        return !a->n || a->texts;
    case PH_ATTR_TENSOR:
        return a->tensor && (!a->tensor->n_bytes || a->tensor->bytes);
    case PH_ATTR_INT:
    case PH_ATTR_FLOAT:
        break;
    }
    return 1;
}

static ph_rc copy_attr(ph_graph *g, ph_attr *out, const ph_attr *in) {
    char *text;
    void *list;
    *out = *in;
    if (!has_value(in))
        return PH_FAIL(&g->err, PH_EFORMAT, "graph %s: attribute %s has no value", g->name, in->name);
    PH_TRY(copy_name(g, &out->name, in->name));
    if (in->type == PH_ATTR_TEXT) {
        PH_TRY(ph_arena_copy_text(&g->arena, &text, in->text, strlen(in->text), &g->err));
        out->text = text;
    } else if (in->type == PH_ATTR_INTS) {
        PH_TRY(carve_copy(g, &list, in->ints, in->n, sizeof *in->ints));
        out->ints = list;
    } else if (in->type == PH_ATTR_FLOATS) {
        PH_TRY(carve_copy(g, &list, in->floats, in->n, sizeof *in->floats));
        out->floats = list;
    } else if (in->type == PH_ATTR_TEXTS) {
        return copy_texts(g, out, in);
    } else if (in->type == PH_ATTR_TENSOR) {
        return copy_tensor(g, out, in->tensor);
    }
    return PH_OK;
}

/* The node with its lists copied, outputs not made yet. */
static ph_rc fill_node(ph_graph *g, ph_node *node, const int *in, int n_in, const ph_attr *attr, int n_attr,
                       const char *name) {
    const char *op = node->op->name;
    void       *list;
    if (n_in < 0 || n_in > NODE_IO_MAX || n_attr < 0 || n_attr > NODE_IO_MAX)
        return PH_FAIL(&g->err, PH_ELIMIT, "node %s (%s): %d inputs, %d attributes", name, op, n_in, n_attr);
    PH_TRY(copy_name(g, &node->name, name));
    PH_TRY(carve_copy(g, &list, in, (size_t)n_in, sizeof *in));
    node->in = list;
    node->n_in = n_in;
    PH_TRY(ph_arena_carve(&g->arena, &list, (size_t)n_attr, sizeof *attr, &g->err));
    node->attr = list;
    for (int i = 0; i < n_attr; i++) PH_TRY(copy_attr(g, &node->attr[i], &attr[i]));
    node->n_attr = n_attr;
    node->modality = g->modality;
    for (int i = 0; i < n_in; i++)
        if (in[i] < -1 || in[i] >= (int)g->n_values)
            return PH_FAIL(&g->err, PH_EMISMATCH, "node %s (%s): input %d is no value of graph %s", name, op,
                           i, g->name);
    return PH_OK;
}

/* Infer, then append the node's outputs, n of them, as values "<name>", "<name>.1" ... */
static ph_rc add_outputs(ph_graph *g, ph_node *node, int n) {
    void *list, *made;
    if (n < node->op->out_min || n > node->op->out_max || n > NODE_IO_MAX)
        return PH_FAIL(&g->err, PH_EMISMATCH, "node %s: %s has %d to %d outputs, %d asked for", node->name,
                       node->op->name, node->op->out_min, node->op->out_max, n);
    PH_TRY(ph_arena_carve(&g->arena, &list, (size_t)n, sizeof *node->out, &g->err));
    PH_TRY(ph_arena_zero(&g->arena, &made, (size_t)n, sizeof(ph_value), &g->err));
    node->out = list;
    node->n_out = n;
    PH_TRY(ph_node_infer(g, node, made, &g->err));
    for (int k = 0; k < n; k++) {
        const ph_value *v = (const ph_value *)made + k;
        char            name[NAME_MAX_BYTES + 16];
        snprintf(name, sizeof name, k ? "%s.%d" : "%s", node->name, k);
        int id = add_value(g, name, (ph_value){.cls = PH_VALUE_TEMP, .dtype = v->dtype, .shape = v->shape});
        if (id < 0) return g->rc;
        g->value[id].producer = (int)g->n_nodes;
        node->out[k] = id;
    }
    return PH_OK;
}

/* n_out -1: as many as the operator says. */
static int add_node(ph_graph *g, const ph_op *op, int n_out, const int *in, int n_in, const ph_attr *attr,
                    int n_attr, const char *name) {
    ph_node node = {.op = op};
    ph_rc   rc = grow(g, &g->node, g->n_nodes, &g->nodes_max, sizeof *g->node);
    if (!rc) rc = fill_node(g, &node, in, n_in, attr, n_attr, name);
    if (!rc && n_out < 0) n_out = op->outputs ? op->outputs(g, &node) : op->out_min;
    if (!rc) rc = add_outputs(g, &node, n_out);
    if (rc) return stick(g, rc);
    g->node[g->n_nodes++] = node;
    return node.out[0];
}

static int name_is_long(ph_graph *g, size_t length) {
    if (length < NAME_MAX_BYTES) return 0;
    stick(g,
          PH_FAIL(&g->err, PH_ELIMIT, "a node's name has %zu bytes, at most %d", length, NAME_MAX_BYTES - 1));
    return 1;
}

int ph_graph_node_of(ph_graph *g, const ph_op *op, int n_out, const int *in, int n_in, const ph_attr *attr,
                     int n_attr, const char *name) {
    if (g->rc || name_is_long(g, strlen(name))) return -1;
    return add_node(g, op, n_out, in, n_in, attr, n_attr, name);
}

int ph_graph_node(ph_graph *g, const char *op, const int *in, int n_in, const ph_attr *attr, int n_attr,
                  const char *fmt, ...) {
    char         name[NAME_MAX_BYTES];
    const ph_op *found = ph_op_find(op);
    va_list      ap;
    if (g->rc) return -1;
    va_start(ap, fmt);
    int length = vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    if (name_is_long(g, length < 0 ? SIZE_MAX : (size_t)length)) return -1;
    if (!found)
        return stick(g, PH_FAIL(&g->err, PH_EUNSUP, "graph %s: node %s: no operator %s", g->name, name, op));
    return add_node(g, found, -1, in, n_in, attr, n_attr, name);
}

void ph_graph_output(ph_graph *g, int value, const char *name) {
    if (g->rc) return;
    if (value < 0 || value >= (int)g->n_values) {
        stick(g, PH_FAIL(&g->err, PH_EMISMATCH, "graph %s: output %s is no value of it", g->name, name));
        return;
    }
    ph_rc rc = copy_name(g, &g->value[value].name, name);
    if (rc)
        stick(g, rc);
    else
        g->value[value].is_output = 1;
}
