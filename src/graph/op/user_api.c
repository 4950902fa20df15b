/* user_api.c - what a plug-in may ask of us: pinhole_op_api.
 *
 * Dimensions come back from a plug-in as bytes: they are read as ours only after they were found to be in our
 * normal form.
 */
#include "graph/op/op_user.h"

#include "graph/op/op_help.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- types ---- */

static const struct {
    int      type;
    ph_dtype dtype;
} types[] = {{PINHOLE_F32, PH_F32},  {PINHOLE_U8, PH_U8},   {PINHOLE_I8, PH_I8},   {PINHOLE_U16, PH_U16},
             {PINHOLE_I16, PH_I16},  {PINHOLE_I32, PH_I32}, {PINHOLE_I64, PH_I64}, {PINHOLE_BOOL, PH_BOOL},
             {PINHOLE_F16, PH_F16},  {PINHOLE_F64, PH_F64}, {PINHOLE_U32, PH_U32}, {PINHOLE_U64, PH_U64},
             {PINHOLE_BF16, PH_BF16}};

ph_dtype ph_user_dtype(int type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) return types[i].dtype;
    return PH_N_DTYPES;
}

int ph_user_type(ph_dtype t) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == t) return types[i].type;
    return PINHOLE_NONE;
}

/* ---- dimensions ---- */

_Static_assert(sizeof(ph_dim) <= sizeof(pinhole_dim), "a plug-in's dimension holds one of ours");

pinhole_dim ph_user_dim_of(const ph_dim *d) {
    pinhole_dim out = {{0}};
    memcpy(&out, d, sizeof *d);
    return out;
}

int ph_user_dim(const pinhole_dim *d, ph_dim *out) {
    static const unsigned char none[sizeof(pinhole_dim)];
    int                        powers = 0;
    memcpy(out, d, sizeof *out);
    if (memcmp((const unsigned char *)d + sizeof *out, none, sizeof *d - sizeof *out)) return 0;
    for (int s = 0; s < PH_N_SYMS; s++) powers += out->pow[s];
    if (powers > 64) return 0;
    return powers ? out->div > 0 && out->mul > 0 : out->div == 1 && !out->add;
}

static pinhole_dim dim(int64_t n) {
    ph_dim d = ph_dim_of(n);
    return ph_user_dim_of(&d);
}

static int dim_number(pinhole_dim d, int64_t *out) {
    ph_dim ours;
    if (!ph_user_dim(&d, &ours) || !ph_dim_is_fixed(ours)) return 0;
    *out = ours.mul;
    return 1;
}

static int dim_same(pinhole_dim a, pinhole_dim b) {
    ph_dim x, y;
    return ph_user_dim(&a, &x) && ph_user_dim(&b, &y) && ph_dim_same(x, y);
}

static int both(pinhole_dim a, pinhole_dim b, pinhole_dim *out,
                int (*make)(ph_dim a, ph_dim b, ph_dim *out)) {
    ph_dim x, y, r;
    if (!ph_user_dim(&a, &x) || !ph_user_dim(&b, &y) || !make(x, y, &r)) return 0;
    *out = ph_user_dim_of(&r);
    return 1;
}

static int dim_add(pinhole_dim a, pinhole_dim b, pinhole_dim *out) {
    return both(a, b, out, ph_dim_add);
}

static int dim_mul(pinhole_dim a, pinhole_dim b, pinhole_dim *out) {
    return both(a, b, out, ph_dim_mul);
}

static int dim_div(pinhole_dim a, pinhole_dim b, pinhole_dim *out) {
    return both(a, b, out, ph_dim_div);
}

static void dim_print(pinhole_dim d, char *out, size_t size) {
    ph_dim ours;
    if (ph_user_dim(&d, &ours))
        ph_dim_print(ours, out, size);
    else
        snprintf(out, size, "?");
}

/* ---- the node ---- */

static const ph_user_call *call_of(const pinhole_op_node *n) {
    return (const ph_user_call *)n;
}

__attribute__((format(printf, 3, 0))) static ph_rc fail_with(const ph_user_call *c, ph_rc rc, const char *fmt,
                                                             va_list ap) {
    char text[200];
    if (*c->rc) return *c->rc;
    vsnprintf(text, sizeof text, fmt, ap);
    *c->rc =
        PH_FAIL(c->err, rc, "%.80s (plug-in %.40s): %s", c->n->op->name, c->n->op->user->lib->name, text);
    return *c->rc;
}

ph_rc ph_user_fail(const ph_user_call *c, ph_rc rc, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    rc = fail_with(c, rc, fmt, ap);
    va_end(ap);
    return rc;
}

/* Theirs to give: what is wrong with a model or a machine.  Not: that pinhole has a fault. */
static ph_rc code_of(int code) {
    switch (code) {
    case PINHOLE_OP_EFORMAT:
        return PH_EFORMAT;
    case PINHOLE_OP_ELIMIT:
        return PH_ELIMIT;
    case PINHOLE_OP_EUNSUP:
        return PH_EUNSUP;
    case PINHOLE_OP_ENOMEM:
        return PH_ENOMEM;
    default:
        return PH_EMISMATCH;
    }
}

__attribute__((format(printf, 3, 4))) static int fail(const pinhole_op_node *n, int code, const char *fmt,
                                                      ...) {
    va_list ap;
    va_start(ap, fmt);
    fail_with(call_of(n), code_of(code), fmt, ap);
    va_end(ap);
    return code ? code : PINHOLE_OP_EMISMATCH;
}

static const char *name(const pinhole_op_node *n) {
    return call_of(n)->n->name;
}

/* ---- attributes ---- */

/* 1: it is there and of this type. */
static int find(const pinhole_op_node *n, const char *what, ph_attr_type type, const ph_attr **out) {
    static const char *const kinds[] = {"an int", "a float", "a string", "ints",
                                        "floats", "strings", "a tensor"};
    *out = what ? ph_node_attr(call_of(n)->n, what) : NULL;
    if (!*out) return 0;
    if ((*out)->type == type) return 1;
    ph_user_fail(call_of(n), PH_EMISMATCH, "attribute '%.60s' is %s in the model, not %s", what,
                 kinds[(*out)->type], kinds[type]);
    return -1;
}

static int attr_int(const pinhole_op_node *n, const char *what, int64_t *out) {
    const ph_attr *a;
    int            is = find(n, what, PH_ATTR_INT, &a);
    if (is > 0) *out = a->i;
    return is;
}

static int attr_float(const pinhole_op_node *n, const char *what, double *out) {
    const ph_attr *a;
    int            is = find(n, what, PH_ATTR_FLOAT, &a);
    if (is > 0) *out = a->f;
    return is;
}

static int attr_text(const pinhole_op_node *n, const char *what, const char **out) {
    const ph_attr *a;
    int            is = find(n, what, PH_ATTR_TEXT, &a);
    if (is > 0) *out = a->text;
    return is;
}

static int attr_ints(const pinhole_op_node *n, const char *what, const int64_t **out, size_t *count) {
    const ph_attr *a;
    int            is = find(n, what, PH_ATTR_INTS, &a);
    if (is > 0) *out = a->ints, *count = a->n;
    return is;
}

static int attr_floats(const pinhole_op_node *n, const char *what, const double **out, size_t *count) {
    const ph_attr *a;
    int            is = find(n, what, PH_ATTR_FLOATS, &a);
    if (is > 0) *out = a->floats, *count = a->n;
    return is;
}

static int attr_texts(const pinhole_op_node *n, const char *what, const char *const **out, size_t *count) {
    const ph_attr *a;
    int            is = find(n, what, PH_ATTR_TEXTS, &a);
    if (is > 0) *out = a->texts, *count = a->n;
    return is;
}

static int attr_tensor(const pinhole_op_node *n, const char *what, pinhole_array *out) {
    const ph_attr *a;
    int            is = find(n, what, PH_ATTR_TENSOR, &a);
    if (is <= 0) return is;
    *out = (pinhole_array){.data = (void *)(uintptr_t)a->tensor->bytes, /* read only, as the header says */
                           .type = ph_user_type(a->tensor->dtype),
                           .rank = a->tensor->rank};
    memcpy(out->dim, a->tensor->dim, sizeof out->dim);
    return 1;
}

static int input_ints(const pinhole_op_node *n, int i, int64_t *out, int max) {
    enum { LIST_MAX = 1 << 12 };
    int64_t numbers[LIST_MAX];
    int     count = 0;
    if (i < 0 || ph_const_ints(call_of(n)->g, call_of(n)->n, i, numbers, LIST_MAX, &count, NULL)) return -1;
    for (int k = 0; k < count && k < max; k++) out[k] = numbers[k];
    return count;
}

const pinhole_op_api *ph_user_api(void) {
    static const pinhole_op_api api = {.size = sizeof api,
                                       .pinhole = PH_VERSION,
                                       .fail = fail,
                                       .name = name,
                                       .attr_int = attr_int,
                                       .attr_float = attr_float,
                                       .attr_text = attr_text,
                                       .attr_ints = attr_ints,
                                       .attr_floats = attr_floats,
                                       .attr_texts = attr_texts,
                                       .attr_tensor = attr_tensor,
                                       .input_ints = input_ints,
                                       .dim = dim,
                                       .dim_number = dim_number,
                                       .dim_same = dim_same,
                                       .dim_add = dim_add,
                                       .dim_mul = dim_mul,
                                       .dim_div = dim_div,
                                       .dim_print = dim_print};
    return &api;
}
