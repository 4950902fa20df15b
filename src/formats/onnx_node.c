/* onnx_node.c - nodes, their attributes, and the descriptions of a graph's inputs and outputs. */
#include "formats/onnx_node.h"

#include <string.h>

/* ---- attributes ---- */

static double real_at(const uint8_t *p) {
    float x;
    memcpy(&x, p, sizeof x);
    return (double)x;
}

typedef struct lists {
    int64_t     *ints;
    double      *floats;
    const char **texts;
    size_t       n_ints, n_floats, n_texts; /* filled so far */
} lists;

static ph_rc take_ints(const ph_pb *m, const ph_pb_field *f, lists *l, ph_err *err) {
    if (f->wire == PH_PB_VARINT) {
        l->ints[l->n_ints++] = (int64_t)f->value;
        return PH_OK;
    }
    for (ph_pb packed = ph_pb_into(m, f); packed.at != packed.end;) {
        uint64_t value;
        PH_TRY(ph_pb_varint(&packed, &value, err));
        l->ints[l->n_ints++] = (int64_t)value;
    }
    return PH_OK;
}

static void take_floats(const ph_pb_field *f, lists *l) {
    for (size_t i = 0; i < f->n; i += 4) l->floats[l->n_floats++] = real_at(f->at + i);
}

/* Sizes of the lists, then room for them. */
static ph_rc open_lists(ph_onnx_reader *r, ph_pb m, lists *l, ph_err *err) {
    size_t      ints = 0, floats = 0, texts = 0;
    ph_pb_field f;
    int         more;
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) break;
        if (f.number == 7) PH_TRY(ph_onnx_count_numbers(&m, &f, 4, "an attribute's list", &floats, err));
        if (f.number == 8) PH_TRY(ph_onnx_count_numbers(&m, &f, 0, "an attribute's list", &ints, err));
        texts += f.number == 9;
    }
    PH_TRY(ph_onnx_table(r, &l->ints, ints, sizeof *l->ints, err));
    PH_TRY(ph_onnx_table(r, &l->floats, floats, sizeof *l->floats, err));
    return ph_onnx_table(r, &l->texts, texts, sizeof *l->texts, err);
}

/* AttributeProto.type, or what the fields say where an old exporter left it out. */
static ph_onnx_attr_type type_of(uint64_t given, const ph_onnx_attr *a, const lists *l, int has_text,
                                 int has_graph) {
    static const ph_onnx_attr_type by_number[] = {PH_ONNX_A_NONE,   PH_ONNX_A_FLOAT,  PH_ONNX_A_INT,
                                                  PH_ONNX_A_TEXT,   PH_ONNX_A_TENSOR, PH_ONNX_A_GRAPH,
                                                  PH_ONNX_A_FLOATS, PH_ONNX_A_INTS,   PH_ONNX_A_TEXTS};
    if (given && given < sizeof by_number / sizeof *by_number) return by_number[given];
    if (given) return PH_ONNX_A_OTHER;
    if (a->tensor) return PH_ONNX_A_TENSOR;
    if (has_graph) return PH_ONNX_A_GRAPH;
    if (l->n_ints) return PH_ONNX_A_INTS;
    if (l->n_floats) return PH_ONNX_A_FLOATS;
    if (l->n_texts) return PH_ONNX_A_TEXTS;
    return has_text ? PH_ONNX_A_TEXT : PH_ONNX_A_NONE;
}

static ph_rc read_tensor(ph_onnx_reader *r, const ph_pb *m, const ph_pb_field *f, ph_onnx_attr *a,
                         ph_err *err) {
    ph_onnx_tensor *t;
    PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, "an attribute's tensor", err));
    PH_TRY(ph_onnx_table(r, &t, 1, sizeof *t, err));
    PH_TRY(ph_onnx_read_tensor(r, ph_pb_into(m, f), t, err));
    a->tensor = t;
    return PH_OK;
}

/* The fields that are one value. */
static ph_rc take_single(ph_onnx_reader *r, const ph_pb *m, const ph_pb_field *f, ph_onnx_attr *a,
                         uint64_t *given, ph_err *err) {
    switch (f->number) {
    case 1:
        return ph_onnx_text(r, m, f, &a->name, err);
    case 2:
        PH_TRY(ph_onnx_wire(m, f, PH_PB_FIXED32, "a float", err));
        a->f = real_at(f->at);
        return PH_OK;
    case 3:
        PH_TRY(ph_onnx_wire(m, f, PH_PB_VARINT, "a number", err));
        a->i = (int64_t)f->value;
        return PH_OK;
    case 4:
        return ph_onnx_text(r, m, f, &a->text, err);
    case 5:
        return read_tensor(r, m, f, a, err);
    case 20:
        PH_TRY(ph_onnx_wire(m, f, PH_PB_VARINT, "an attribute's type", err));
        *given = f->value;
        return PH_OK;
    case 21:
        return ph_onnx_text(r, m, f, &a->ref, err);
    default:
        return PH_OK;
    }
}

ph_rc ph_onnx_read_attr(ph_onnx_reader *r, ph_pb m, ph_onnx_attr *a, ph_err *err) {
    ph_pb_field f;
    lists       l = {0};
    uint64_t    given = 0;
    int         more, has_text = 0, has_graph = 0;
    *a = (ph_onnx_attr){.name = "", .ref = "", .text = "", .at = (size_t)(m.at - m.base)};
    PH_TRY(open_lists(r, m, &l, err));
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) break;
        PH_TRY(take_single(r, &m, &f, a, &given, err));
        has_text |= f.number == 4;
        has_graph |= f.number == 6;
        if (f.number == 7) take_floats(&f, &l);
        if (f.number == 8) PH_TRY(take_ints(&m, &f, &l, err));
        if (f.number == 9) PH_TRY(ph_onnx_text(r, &m, &f, &l.texts[l.n_texts++], err));
    }
    a->type = type_of(given, a, &l, has_text, has_graph);
    a->ints = l.ints, a->floats = l.floats, a->texts = l.texts;
    a->n = a->type == PH_ONNX_A_INTS     ? l.n_ints
           : a->type == PH_ONNX_A_FLOATS ? l.n_floats
           : a->type == PH_ONNX_A_TEXTS  ? l.n_texts
                                         : 0;
    if (a->type == PH_ONNX_A_TENSOR && !a->tensor && !*a->ref)
        return PH_FAIL(err, PH_EFORMAT, "%.120s: byte %zu: attribute '%.60s' is a tensor that is not there",
                       m.name, a->at, a->name);
    return PH_OK;
}

/* ---- nodes ---- */

static ph_rc read_into(ph_onnx_reader *r, const ph_pb *m, const ph_pb_field *f, ph_onnx_attr *a,
                       ph_err *err) {
    PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, "an attribute", err));
    return ph_onnx_read_attr(r, ph_pb_into(m, f), a, err);
}

static int is_text(const ph_pb_field *f) {
    return f->wire == PH_PB_BYTES && !memchr(f->at, 0, f->n);
}

ph_rc ph_onnx_read_prop(ph_onnx_reader *r, const ph_pb *outer, const ph_pb_field *at, ph_onnx_prop *p,
                        ph_err *err) {
    static const char ours[] = "pinhole.";
    ph_pb_field       f, key = {0}, value = {0};
    int               more = at->wire == PH_PB_BYTES;
    *p = (ph_onnx_prop){"", ""};
    for (ph_pb m = ph_pb_into(outer, at); more;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (more && f.number == 1) key = f;
        if (more && f.number == 2) value = f;
    }
    if (key.n < sizeof ours || memcmp(key.at, ours, sizeof ours - 1) || !is_text(&key) || !is_text(&value))
        return PH_OK;
    PH_TRY(ph_onnx_text(r, outer, &key, &p->key, err));
    return ph_onnx_text(r, outer, &value, &p->value, err);
}

ph_rc ph_onnx_read_node(ph_onnx_reader *r, ph_pb m, ph_onnx_node *n, ph_err *err) {
    ph_onnx_counts c;
    ph_pb_field    f;
    const char   **in, **out;
    ph_onnx_attr  *attr;
    ph_onnx_prop  *prop;
    int            more;
    *n = (ph_onnx_node){.name = "", .op = "", .domain = "", .overload = "", .at = (size_t)(m.at - m.base)};
    PH_TRY(ph_onnx_count(&m, &c, err));
    PH_TRY(ph_onnx_table(r, &in, c.of[1], sizeof *in, err));
    PH_TRY(ph_onnx_table(r, &out, c.of[2], sizeof *out, err));
    PH_TRY(ph_onnx_table(r, &attr, c.of[5], sizeof *attr, err));
    PH_TRY(ph_onnx_table(r, &prop, c.of[9], sizeof *prop, err));
    n->in = in, n->out = out, n->attr = attr, n->prop = prop;
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) break;
        if (f.number == 1) PH_TRY(ph_onnx_text(r, &m, &f, &in[n->n_in++], err));
        if (f.number == 2) PH_TRY(ph_onnx_text(r, &m, &f, &out[n->n_out++], err));
        if (f.number == 3) PH_TRY(ph_onnx_text(r, &m, &f, &n->name, err));
        if (f.number == 4) PH_TRY(ph_onnx_text(r, &m, &f, &n->op, err));
        if (f.number == 5) PH_TRY(read_into(r, &m, &f, &attr[n->n_attrs++], err));
        if (f.number == 7) PH_TRY(ph_onnx_text(r, &m, &f, &n->domain, err));
        if (f.number == 8) PH_TRY(ph_onnx_text(r, &m, &f, &n->overload, err));
        if (f.number == 9) PH_TRY(ph_onnx_read_prop(r, &m, &f, &prop[n->n_props++], err));
    }
    if (!strcmp(n->domain, "ai.onnx")) n->domain = "";
    if (!*n->op)
        return PH_FAIL(err, PH_EFORMAT, "%.120s: byte %zu: node '%.60s' has no operator", m.name, n->at,
                       n->name);
    return PH_OK;
}

/* ---- inputs and outputs ---- */

static ph_rc read_dim(ph_onnx_reader *r, ph_pb m, ph_onnx_dim *d, ph_err *err) {
    ph_pb_field f;
    int         more;
    *d = (ph_onnx_dim){-1, ""};
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) return PH_OK;
        if (f.number == 1) {
            PH_TRY(ph_onnx_wire(&m, &f, PH_PB_VARINT, "a dimension", err));
            d->size = (int64_t)f.value < 0 ? -1 : (int64_t)f.value; /* -1 is how some exporters say unknown */
        }
        if (f.number == 2) PH_TRY(ph_onnx_text(r, &m, &f, &d->param, err));
    }
}

static ph_rc read_shape(ph_onnx_reader *r, ph_pb m, ph_onnx_value *v, ph_err *err) {
    ph_pb_field f;
    int         more;
    v->has_shape = 1;
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) return PH_OK;
        if (f.number != 1) continue;
        PH_TRY(ph_onnx_wire(&m, &f, PH_PB_BYTES, "a dimension", err));
        if (v->rank == PH_ONNX_RANK_MAX)
            return PH_FAIL(err, PH_ELIMIT, "%.120s: '%.80s' has more than %d dimensions", m.name, v->name,
                           PH_ONNX_RANK_MAX);
        PH_TRY(read_dim(r, ph_pb_into(&m, &f), &v->dim[v->rank++], err));
    }
}

static ph_rc read_tensor_type(ph_onnx_reader *r, ph_pb m, ph_onnx_value *v, ph_err *err) {
    ph_pb_field f;
    int         more;
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) return PH_OK;
        if (f.number == 1) {
            PH_TRY(ph_onnx_wire(&m, &f, PH_PB_VARINT, "an element type", err));
            v->type = f.value < 1000 ? (int)f.value : 999;
        }
        if (f.number == 2) {
            PH_TRY(ph_onnx_wire(&m, &f, PH_PB_BYTES, "a shape", err));
            PH_TRY(read_shape(r, ph_pb_into(&m, &f), v, err));
        }
    }
}

static ph_rc read_type(ph_onnx_reader *r, ph_pb m, ph_onnx_value *v, ph_err *err) {
    ph_pb_field f;
    int         more;
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) return PH_OK;
        if (f.number != 1) continue;
        PH_TRY(ph_onnx_wire(&m, &f, PH_PB_BYTES, "a tensor's type", err));
        PH_TRY(read_tensor_type(r, ph_pb_into(&m, &f), v, err));
    }
}

ph_rc ph_onnx_read_value(ph_onnx_reader *r, ph_pb m, ph_onnx_value *v, ph_err *err) {
    ph_pb       again = m;
    ph_pb_field f;
    int         more;
    *v = (ph_onnx_value){.name = "", .at = (size_t)(m.at - m.base)};
    for (;;) { /* the name first, for messages */
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) break;
        if (f.number == 1) PH_TRY(ph_onnx_text(r, &m, &f, &v->name, err));
    }
    for (;;) {
        PH_TRY(ph_pb_next(&again, &f, &more, err));
        if (!more) break;
        if (f.number != 2) continue;
        PH_TRY(ph_onnx_wire(&again, &f, PH_PB_BYTES, "a type", err));
        PH_TRY(read_type(r, ph_pb_into(&again, &f), v, err));
    }
    if (!*v->name)
        return PH_FAIL(err, PH_EFORMAT, "%.120s: byte %zu: an input or output without a name", again.name,
                       v->at);
    return PH_OK;
}

ph_rc ph_onnx_read_opset(ph_onnx_reader *r, ph_pb m, ph_onnx_opset *o, ph_err *err) {
    ph_pb_field f;
    int         more;
    *o = (ph_onnx_opset){"", 0};
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) break;
        if (f.number == 1) PH_TRY(ph_onnx_text(r, &m, &f, &o->domain, err));
        if (f.number == 2) {
            PH_TRY(ph_onnx_wire(&m, &f, PH_PB_VARINT, "an opset's version", err));
            o->version = (int64_t)f.value;
        }
    }
    if (!strcmp(o->domain, "ai.onnx")) o->domain = "";
    return PH_OK;
}
