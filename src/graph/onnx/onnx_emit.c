/* onnx_emit.c - names, constants and nodes of an ONNX model in the making. */
#include "graph/onnx/onnx_emit.h"

#include "base/locale.h"
#include "graph/onnx/onnx_in.h"

#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1024, ATTRS_MAX = 32, OUT_MAX = 1024, PROPS_MAX = 8 };

void ph_oo_fail(ph_oo *o, ph_rc rc, const char *fmt, ...) {
    char    text[sizeof o->err.msg];
    va_list ap;
    if (o->rc) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    o->rc = PH_FAIL(&o->err, rc, "%s", text);
}

void ph_oo_none(ph_oo *o, const ph_node *n, const char *why) {
    ph_oo_fail(o, PH_EUNSUP, "node %.80s: %.60s has no form in opset %lld of ONNX: %.120s", n->name,
               n->op->name, (long long)o->opset, why);
}

/* ---- texts and names ---- */

static const char *copy(ph_oo *o, const char *text) {
    char *out;
    if (o->rc) return "";
    o->rc = ph_arena_copy_text(&o->x->arena, &out, text, strlen(text), &o->err);
    return o->rc ? "" : out;
}

__attribute__((format(printf, 2, 0))) static void print(char out[TEXT_MAX], const char *fmt, va_list ap) {
    int n = vsnprintf(out, TEXT_MAX, fmt, ap);
    if (n < 0) *out = 0;
}

char *ph_oo_text(ph_oo *o, const char *fmt, ...) {
    static char none[1];
    char        text[TEXT_MAX], *out = none;
    va_list     ap;
    if (o->rc) return none;
    va_start(ap, fmt);
    print(text, fmt, ap);
    va_end(ap);
    o->rc = ph_arena_copy_text(&o->x->arena, &out, text, strlen(text), &o->err);
    return o->rc ? none : out;
}

typedef struct named {
    const char *key, *name;
} named;

static int by_key(const void *a, const void *b) {
    return strcmp(((const named *)a)->key, ((const named *)b)->key);
}

static named *find(void *const *tree, const char *key) {
    const named   wanted = {.key = key};
    named *const *at = tfind(&wanted, tree, by_key);
    return at ? *at : NULL;
}

static void add(ph_oo *o, void **tree, const char *key, const char *name) {
    void *p;
    if (o->rc || (o->rc = ph_arena_carve(&o->x->arena, &p, 1, sizeof(named), &o->err))) return;
    *(named *)p = (named){copy(o, key), name};
    if (!o->rc && !tsearch(p, tree, by_key)) ph_oo_fail(o, PH_ENOMEM, "the names of a model");
}

const char *ph_oo_kept(ph_oo *o, const char *fmt, ...) {
    char    key[TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    print(key, fmt, ap);
    va_end(ap);
    const named *e = find(&o->once, key);
    return e ? e->name : NULL;
}

const char *ph_oo_keep(ph_oo *o, const char *name, const char *fmt, ...) {
    char    key[TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    print(key, fmt, ap);
    va_end(ap);
    add(o, &o->once, key, name);
    return name;
}

const char *ph_oo_fresh(ph_oo *o, const char *like) {
    char name[TEXT_MAX];
    snprintf(name, sizeof name, "%.900s", like);
    for (int i = 1; find(&o->taken, name) && !o->rc; i++) snprintf(name, sizeof name, "%.900s~%d", like, i);
    const char *out = copy(o, name);
    add(o, &o->taken, name, out);
    return out;
}

static const char *temp(ph_oo *o, const char *op) {
    char name[TEXT_MAX];
    if (o->node)
        snprintf(name, sizeof name, "%.800s#%d", o->node->name, ++o->n_temps);
    else
        snprintf(name, sizeof name, "%.80s#%d", op, ++o->n_temps);
    return ph_oo_fresh(o, name);
}

/* ---- the node being written ---- */

int ph_oo_has(const ph_node *n, int i) {
    return i < n->n_in && n->in[i] >= 0;
}

const ph_shape *ph_oo_shape(const ph_oo *o, const ph_node *n, int i) {
    static const ph_shape none;
    return ph_oo_has(n, i) ? &o->g->value[n->in[i]].shape : &none;
}

const char *ph_oo_in(ph_oo *o, const ph_node *n, int i) {
    if (!ph_oo_has(n, i) || o->rc) return "";
    const ph_value *v = &o->g->value[n->in[i]];
    if (!o->name[n->in[i]]) {
        if (v->cls == PH_VALUE_CONSTANT)
            o->name[n->in[i]] = ph_oo_weight(o, v);
        else
            ph_oo_fail(o, PH_EBUG, "node %.100s reads %.100s before it is there", n->name, v->name);
    }
    return o->rc ? "" : o->name[n->in[i]];
}

const char *ph_oo_out(ph_oo *o, const ph_node *n, int k) {
    if (k >= n->n_out || n->out[k] < 0) return "";
    return o->name[n->out[k]] = o->g->value[n->out[k]].name;
}

const char *ph_oo_turned(ph_oo *o, const ph_node *n, int i) {
    static const int64_t swap[2] = {1, 0};
    if (!ph_oo_has(n, i) || o->rc) return "";
    const char **at = &o->turned[n->in[i]];
    if (!*at) *at = ph_oo_transpose(o, ph_oo_in(o, n, i), swap, 2);
    return *at;
}

/* ---- nodes ---- */

/* What the IR says of a node and of what it makes, as metadata; how many entries. */
static size_t props_of(const ph_oo *o, ph_onnx_prop out[PROPS_MAX], char number[32]) {
    const ph_node  *n = o->node;
    size_t          count = 0;
    const ph_value *v = n && n->n_out && n->out[0] >= 0 ? &o->g->value[n->out[0]] : NULL;
    if (!n) return 0;
    if (n->modality || o->g->modality)
        out[count++] = (ph_onnx_prop){"pinhole.modality", ph_modality_name(n->modality)};
    if (n->fusion_policy)
        out[count++] = (ph_onnx_prop){"pinhole.fusion_policy", ph_fusion_policy_name(n->fusion_policy)};
    if (n->quantization_scale < 0 || n->quantization_scale > 0) {
        ph_plain_print(number, 32, "%.9g", (double)n->quantization_scale);
        out[count++] = (ph_onnx_prop){"pinhole.quantization_scale", number};
    }
    if (v && v->relation) out[count++] = (ph_onnx_prop){"pinhole.relation", v->relation};
    if (v && v->min_dtype != PH_F32)
        out[count++] = (ph_onnx_prop){"pinhole.min_dtype", ph_dtype_name(v->min_dtype)};
    return count;
}

/* Nodes have metadata since IR 10; before, the model has it under their names.  What most nodes say alike,
 * the graph's modality, is said once. */
static void put_node(ph_oo *o, const ph_onnx_node *n) {
    ph_onnx_prop prop[PROPS_MAX];
    char         number[32];
    size_t       n_props = props_of(o, prop, number);
    int          is_inside = o->x->writer.ir_version >= 10;
    ph_onnx_put_node(&o->x->writer, n, prop, is_inside ? n_props : 0);
    if (is_inside || !o->node) return;
    for (size_t i = 0; i < n_props; i++)
        if (strcmp(prop[i].key, "pinhole.modality") || o->node->modality != o->g->modality)
            ph_onnx_put_prop(&o->x->writer, ph_oo_text(o, "pinhole.%.800s.%s", n->name, prop[i].key + 8),
                             prop[i].value);
}

const char *ph_oo_make(ph_oo *o, const char *op, const char *const *in, size_t n_in, const ph_onnx_attr *attr,
                       size_t n_attr) {
    if (o->rc) return "";
    while (n_in && !*in[n_in - 1]) n_in--; /* left out at the end */
    const char  *out = temp(o, op);
    ph_onnx_node n = {.name = out, .op = op, .domain = "", .in = in, .n_in = n_in, .out = &out, .n_out = 1};
    n.attr = attr;
    n.n_attrs = n_attr;
    if (!o->rc) put_node(o, &n);
    return out;
}

void ph_oo_emit(ph_oo *o, const ph_node *from, const char *domain, const char *op, const char *const *in,
                size_t n_in, const ph_onnx_attr *attr, size_t n_attr) {
    const char *out[OUT_MAX];
    if (o->rc) return;
    if (from->n_out > OUT_MAX) {
        ph_oo_fail(o, PH_ELIMIT, "node %.100s has %d outputs", from->name, from->n_out);
        return;
    }
    while (n_in && !*in[n_in - 1]) n_in--; /* left out at the end */
    for (int k = 0; k < from->n_out; k++) out[k] = ph_oo_out(o, from, k);
    /* Nodes of a graph may share a name; what they make never does. */
    ph_onnx_node n = {.name = from->n_out && *out[0] ? out[0] : ph_oo_fresh(o, from->name)};
    n.op = op;
    n.domain = domain;
    n.in = in;
    n.n_in = n_in;
    n.out = out;
    n.n_out = (size_t)from->n_out;
    n.attr = attr;
    n.n_attrs = n_attr;
    if (*domain) ph_onnx_put_opset(&o->x->writer, domain, *from->op->domain ? from->op->since : 1);
    put_node(o, &n);
}

void ph_oo_is(ph_oo *o, const ph_node *from, int k, const char *name) {
    const char *out = ph_oo_out(o, from, k);
    if (o->rc || !*out) return;
    ph_onnx_node n = {.name = out, .op = "Identity", .domain = "", .in = &name, .n_in = 1, .out = &out};
    n.n_out = 1;
    put_node(o, &n);
}

static int is_listed(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *p = list; *p;) {
        size_t word = strcspn(p, " ");
        if (word == n && !strncmp(p, name, n)) return 1;
        p += word + (p[word] == ' ');
    }
    return 0;
}

static ph_onnx_attr attr_of(const ph_attr *a) {
    switch (a->type) {
    case PH_ATTR_FLOAT:
        return PH_OO_FLOAT(a->name, a->f);
    case PH_ATTR_TEXT:
        return PH_OO_TEXT(a->name, a->text);
    case PH_ATTR_INTS:
        return PH_OO_INTS(a->name, a->ints, a->n);
    case PH_ATTR_FLOATS:
        return (ph_onnx_attr){.name = a->name, .type = PH_ONNX_A_FLOATS, .floats = a->floats, .n = a->n};
    case PH_ATTR_TEXTS:
        return (ph_onnx_attr){.name = a->name, .type = PH_ONNX_A_TEXTS, .texts = a->texts, .n = a->n};
    case PH_ATTR_TENSOR:
        return (ph_onnx_attr){.name = a->name, .type = PH_ONNX_A_TENSOR};
    case PH_ATTR_INT:
        break;
    }
    return PH_OO_INT(a->name, a->i);
}

static ph_onnx_tensor tensor_of(const ph_attr_tensor *t) {
    ph_onnx_tensor out = {
        .type = ph_oo_type(t->dtype), .rank = t->rank, .bytes = t->bytes, .n_bytes = t->n_bytes};
    memcpy(out.dim, t->dim, sizeof out.dim);
    return out;
}

void ph_oo_plain_with(ph_oo *o, const ph_node *n, const char *const *in, size_t n_in, const char *without) {
    ph_onnx_attr attr[ATTRS_MAX];
    size_t       count = 0;
    int          since = *n->op->domain ? 0 : ph_onnx_op_since("", n->op->name);
    char         why[160];
    if (!since || since > o->opset) {
        snprintf(why, sizeof why, since ? "it is there since opset %d" : "the operator is not ONNX's", since);
        ph_oo_none(o, n, why);
        return;
    }
    if (n->n_attr > ATTRS_MAX) ph_oo_none(o, n, "so many attributes");
    for (int i = 0; i < n->n_attr && !o->rc; i++) {
        if (is_listed(without, n->attr[i].name)) continue;
        if (!ph_onnx_op_allows(n->op->name, n->attr[i].name, o->opset)) {
            snprintf(why, sizeof why, "its attribute %.60s is not there", n->attr[i].name);
            ph_oo_none(o, n, why);
            return;
        }
        attr[count++] = attr_of(&n->attr[i]);
    }
    ph_oo_emit(o, n, "", n->op->name, in, n_in, attr, count);
}

/* Names of all inputs, in the arena; NULL: failed. */
static const char **inputs_of(ph_oo *o, const ph_node *n) {
    void *p;
    if (o->rc ||
        (o->rc = ph_arena_carve(&o->x->arena, &p, (size_t)n->n_in + 1, sizeof(const char *), &o->err)))
        return NULL;
    const char **in = p;
    for (int i = 0; i < n->n_in; i++) in[i] = ph_oo_in(o, n, i);
    return in;
}

void ph_oo_plain(ph_oo *o, const ph_node *n) {
    const char **in = inputs_of(o, n);
    if (in) ph_oo_plain_with(o, n, in, (size_t)n->n_in, "");
}

void ph_oo_as_it_is(ph_oo *o, const ph_node *n, const char *domain, const char *op) {
    ph_onnx_attr   attr[ATTRS_MAX];
    ph_onnx_tensor tensor[ATTRS_MAX];
    const char   **in = inputs_of(o, n);
    if (n->n_attr > ATTRS_MAX) ph_oo_none(o, n, "so many attributes");
    for (int i = 0; i < n->n_attr && !o->rc; i++) {
        attr[i] = attr_of(&n->attr[i]);
        if (n->attr[i].type != PH_ATTR_TENSOR) continue;
        tensor[i] = tensor_of(n->attr[i].tensor);
        attr[i].tensor = &tensor[i];
    }
    if (in && !o->rc) ph_oo_emit(o, n, domain, op, in, (size_t)n->n_in, attr, (size_t)n->n_attr);
}

/* ---- constants ---- */

/* An initializer of its own bytes under a fresh name, known by its contents from now on. */
static const char *constant(ph_oo *o, const char *like, int type, int rank, size_t n, const void *bytes,
                            size_t item) {
    void *copied;
    char  key[TEXT_MAX];
    int   is_short = n * item <= 64;
    if (o->rc) return "";
    if (is_short) {
        size_t at = (size_t)snprintf(key, sizeof key, "constant %d %d ", type, rank);
        for (size_t i = 0; i < n * item; i++)
            at += (size_t)snprintf(key + at, sizeof key - at, "%02x", ((const uint8_t *)bytes)[i]);
        const named *e = find(&o->once, key);
        if (e) return e->name;
    }
    o->rc = ph_arena_carve(&o->x->arena, &copied, n + !n, item, &o->err);
    if (o->rc) return "";
    if (n) memcpy(copied, bytes, n * item);
    ph_onnx_stored s = {.type = type, .rank = rank, .dim = {(int64_t)n}, .n_bytes = n * item};
    s.name = ph_oo_fresh(o, like);
    s.row = item;
    s.bytes = copied;
    s.is_inside = 1;
    ph_onnx_put_weight(&o->x->writer, &s);
    if (is_short) add(o, &o->once, key, s.name);
    return s.name;
}

const char *ph_oo_ints(ph_oo *o, const int64_t *list, size_t n) {
    return constant(o, "list", PH_OO_INT64, 1, n, list, sizeof *list);
}

const char *ph_oo_int(ph_oo *o, int64_t x) {
    return constant(o, "whole", PH_OO_INT64, 0, 1, &x, sizeof x);
}

const char *ph_oo_number(ph_oo *o, double x) {
    float f = (float)x;
    return constant(o, "number", PH_OO_FLOAT32, 0, 1, &f, sizeof f);
}

const char *ph_oo_floats(ph_oo *o, const float *list, size_t n) {
    return constant(o, "numbers", PH_OO_FLOAT32, 1, n, list, sizeof *list);
}

/* ---- helpers ---- */

const char *ph_oo_two(ph_oo *o, const char *op, const char *a, const char *b) {
    return ph_oo_make(o, op, PH_OO_IN(a, b), PH_OO_NO_ATTRS);
}

const char *ph_oo_one(ph_oo *o, const char *op, const char *a) {
    return ph_oo_make(o, op, PH_OO_IN(a), PH_OO_NO_ATTRS);
}

const char *ph_oo_reshape(ph_oo *o, const char *x, const int64_t *to, size_t n) {
    return ph_oo_two(o, "Reshape", x, ph_oo_ints(o, to, n));
}

const char *ph_oo_transpose(ph_oo *o, const char *x, const int64_t *perm, size_t n) {
    return ph_oo_make(o, "Transpose", PH_OO_IN(x), PH_OO_ATTRS(PH_OO_INTS("perm", perm, n)));
}

const char *ph_oo_unsqueeze(ph_oo *o, const char *x, int64_t axis) {
    return ph_oo_two(o, "Unsqueeze", x, ph_oo_ints(o, &axis, 1));
}

const char *ph_oo_slice(ph_oo *o, const char *x, int64_t axis, int64_t from, int64_t to, int64_t step) {
    const char *first = ph_oo_ints(o, &from, 1), *end = ph_oo_ints(o, &to, 1);
    const char *axes = ph_oo_ints(o, &axis, 1), *by = ph_oo_ints(o, &step, 1);
    return ph_oo_make(o, "Slice", PH_OO_IN(x, first, end, axes, by), PH_OO_NO_ATTRS);
}

const char *ph_oo_cast(ph_oo *o, const char *x, int to) {
    return ph_oo_make(o, "Cast", PH_OO_IN(x), PH_OO_ATTRS(PH_OO_INT("to", to)));
}

const char *ph_oo_size(ph_oo *o, const char *x, int64_t axis) {
    const char *known = ph_oo_kept(o, "size %d %s", (int)axis, x);
    if (known || o->rc) return known ? known : "";
    const char *shape = ph_oo_kept(o, "shape %s", x);
    if (!shape) shape = ph_oo_keep(o, ph_oo_one(o, "Shape", x), "shape %s", x);
    known =
        ph_oo_make(o, "Gather", PH_OO_IN(shape, ph_oo_ints(o, &axis, 1)), PH_OO_ATTRS(PH_OO_INT("axis", 0)));
    return ph_oo_keep(o, known, "size %d %s", (int)axis, x);
}
