/* onnx_user.c - nodes of domains that are not ours: operators of plug-ins, and what is said where none has
 * them. */
#include "graph/onnx/onnx_impl.h"

#include <inttypes.h>
#include <string.h>

enum { ATTRS_MAX = 32 };

/* Is name among the words of list?  NULL: any is. */
static int is_listed(const char *list, const char *name) {
    size_t n = strlen(name);
    if (!list) return 1;
    for (const char *p = list; *p; p += strspn(p, " ")) {
        size_t word = strcspn(p, " ");
        if (word == n && !strncmp(p, name, n)) return 1;
        p += word;
    }
    return 0;
}

static ph_rc take_tensor(ph_oi *o, const ph_onnx_attr *a, ph_attr *out, ph_err *err) {
    static const uint8_t  none[1];
    const ph_onnx_tensor *t = a->tensor;
    void                 *p;
    if (t->dtype == PH_N_DTYPES || t->is_nibbles || (!t->bytes && t->count))
        return PH_FAIL(err, PH_EUNSUP, "attribute '%.60s' is a tensor of %s, which plug-ins are not given",
                       out->name, t->bytes || !t->count ? ph_onnx_type_name(t->type) : "no numbers");
    PH_TRY(ph_arena_zero(&o->arena, &p, 1, sizeof(ph_attr_tensor), err));
    ph_attr_tensor *to = p;
    *to = (ph_attr_tensor){.dtype = t->dtype, .rank = t->rank, .bytes = t->bytes ? t->bytes : none};
    to->n_bytes = (size_t)t->count * ph_dtype_bytes(t->dtype);
    memcpy(to->dim, t->dim, sizeof to->dim);
    out->type = PH_ATTR_TENSOR;
    out->tensor = to;
    return PH_OK;
}

static ph_rc take_attr(ph_oi *o, const ph_onnx_attr *a, ph_attr *out, ph_err *err) {
    switch (a->type) {
    case PH_ONNX_A_INT:
        *out = PH_INT(out->name, a->i);
        return PH_OK;
    case PH_ONNX_A_FLOAT:
        *out = PH_FLOAT(out->name, a->f);
        return PH_OK;
    case PH_ONNX_A_TEXT:
        *out = PH_TEXT(out->name, a->text);
        return PH_OK;
    case PH_ONNX_A_INTS:
        *out = PH_INTS(out->name, a->ints, a->n);
        return PH_OK;
    case PH_ONNX_A_FLOATS:
        *out = PH_FLOATS(out->name, a->floats, a->n);
        return PH_OK;
    case PH_ONNX_A_TEXTS:
        *out = (ph_attr){.name = out->name, .type = PH_ATTR_TEXTS, .texts = a->texts, .n = a->n};
        return PH_OK;
    case PH_ONNX_A_TENSOR:
        return take_tensor(o, a, out, err);
    case PH_ONNX_A_NONE:
    case PH_ONNX_A_GRAPH:
    case PH_ONNX_A_OTHER:
        break;
    }
    return PH_FAIL(err, PH_EUNSUP,
                   "attribute '%.60s' is of a kind that plug-ins are not given: a number, a text, a "
                   "list of them, or a tensor",
                   out->name);
}

static ph_rc take_attrs(ph_oi *o, const ph_onnx_node *n, const ph_op *op, ph_attr attr[ATTRS_MAX], int *count,
                        ph_err *err) {
    *count = 0;
    if (n->n_attrs > ATTRS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%zu attributes, a plug-in's operator has at most %d", n->n_attrs,
                       ATTRS_MAX);
    for (size_t i = 0; i < n->n_attrs; i++) {
        const ph_onnx_attr *a = ph_oi_attr(o, n, n->attr[i].name);
        if (!is_listed(op->user->attrs, n->attr[i].name))
            return PH_FAIL(err, PH_EMISMATCH, "%.80s has no attribute '%.60s'%s%.100s", op->name,
                           n->attr[i].name, *op->user->attrs ? "; it has " : "", op->user->attrs);
        if (!a) continue; /* of a function, and the call leaves it out */
        attr[*count] = (ph_attr){.name = n->attr[i].name};
        PH_TRY(take_attr(o, a, &attr[*count], err));
        ++*count;
    }
    return PH_OK;
}

/* The outputs up to the last that is asked for. */
static int outputs_of(const ph_onnx_node *n, const ph_op *op) {
    size_t most = n->n_out;
    while (most && !*n->out[most - 1]) most--;
    return most < (size_t)op->out_min ? op->out_min : (int)most;
}

static ph_rc emit(ph_oi *o, const ph_onnx_node *n, const ph_op *op, ph_err *err) {
    ph_attr attr[ATTRS_MAX];
    int     in[PINHOLE_OP_IO_MAX], n_attr;
    if (n->n_in > PINHOLE_OP_IO_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: %zu inputs; an operator of a plug-in has at most %d", op->name,
                       n->n_in, PINHOLE_OP_IO_MAX);
    PH_TRY(take_attrs(o, n, op, attr, &n_attr, err));
    for (size_t i = 0; i < n->n_in; i++) in[i] = ph_oi_in(o, n, i);
    return ph_oi_emit_op(o, n, op, outputs_of(n, op), in, (int)n->n_in, attr, n_attr, err);
}

ph_rc ph_oi_user(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int          oldest = 0;
    const char  *domain = *n->domain ? n->domain : "ai.onnx";
    const ph_op *op = ph_user_op_find(o->how->user, n->domain, n->op, o->opset, &oldest);
    if (op) return emit(o, n, op, err);
    if (oldest)
        return PH_FAIL(err, PH_EMISMATCH,
                       "%.60s::%.60s is there since version %d, the model imports %" PRId64, domain, n->op,
                       oldest, o->opset);
    if (!ph_user_domain(n->domain))
        return PH_FAIL(err, PH_EUNSUP, "there is no operator %.80s of domain %.80s", n->op, domain);
    return PH_FAIL(err, PH_EUNSUP,
                   "there is no operator %.60s of domain %.60s%s: a plug-in that brings it is given "
                   "with --plugin",
                   n->op, domain, o->how->user ? " here, nor in the plug-ins" : "");
}
