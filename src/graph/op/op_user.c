/* op_user.c - an operator of a plug-in as one of ours: its functions called, what they give held to account.
 *
 * What infer says is a stranger's word: types, ranks and dimensions are checked before the graph has them.
 * What eval writes lies in arrays of sizes that follow from those.  Arrays for a call stand on the stack, so
 * that a run allocates nothing.
 */
#include "graph/op/op_user.h"

#include "base/mem.h"
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const ph_user *user_of(const ph_node *n) {
    return n->op->user;
}

/* ---- a call ---- */

static ph_user_call begin(const ph_graph *g, const ph_node *n, ph_rc *rc, ph_err *err) {
    *rc = PH_OK;
    if (!(user_of(n)->theirs.flags & PINHOLE_OP_THREADS)) pthread_mutex_lock(user_of(n)->lib->lock);
    return (ph_user_call){.node = {ph_user_api()}, .g = g, .n = n, .err = err, .rc = rc};
}

static void end(const ph_user_call *c) {
    if (!(user_of(c->n)->theirs.flags & PINHOLE_OP_THREADS)) pthread_mutex_unlock(user_of(c->n)->lib->lock);
}

/* What the function returned, and what fail() was told in it. */
static ph_rc judge(const ph_user_call *c, int returned, const char *function) {
    if (*c->rc || !returned) return *c->rc;
    return ph_user_fail(c, PH_EMISMATCH, "%s gave %d and did not say why", function, returned);
}

/* ---- inference ---- */

static void tell(const ph_value *v, pinhole_op_value *out) {
    *out = (pinhole_op_value){0};
    if (!v) return;
    out->type = ph_user_type(v->dtype);
    out->rank = v->shape.rank;
    for (int i = 0; i < v->shape.rank; i++) out->dim[i] = ph_user_dim_of(&v->shape.dim[i]);
}

/* Only f32 among floats: that is what graphs compute in. */
static int is_computed(ph_dtype t) {
    return t == PH_F32 || (t < PH_N_DTYPES && ph_dtype_block(t) == 1 && !ph_dtype_get(t)->pack);
}

static ph_rc take_shape(const ph_user_call *c, int k, const pinhole_op_value *from, ph_shape *out) {
    int64_t n = 8;
    char    text[64];
    if (from->rank < 0 || from->rank > PH_RANK_MAX)
        return ph_user_fail(c, PH_ELIMIT, "infer gives output %d the rank %d: 0 to %d are there", k,
                            from->rank, PH_RANK_MAX);
    *out = (ph_shape){.rank = from->rank};
    for (int i = 0; i < from->rank; i++) {
        ph_dim *d = &out->dim[i];
        if (!ph_user_dim(&from->dim[i], d))
            return ph_user_fail(
                c, PH_EFORMAT, "infer gives output %d a dimension %d that no function of the api made", k, i);
        ph_dim_print(*d, text, sizeof text);
        if (d->mul < 0)
            return ph_user_fail(c, PH_EMISMATCH,
                                "infer gives output %d the dimension %s as its %d. one: none is "
                                "negative",
                                k, text, i + 1);
        if (d->mul > 1 && __builtin_mul_overflow(n, d->mul, &n))
            return ph_user_fail(c, PH_ELIMIT,
                                "infer gives output %d a shape of 2^60 elements or more (dimension %d "
                                "is %s)",
                                k, i, text);
    }
    return PH_OK;
}

static ph_rc take(const ph_user_call *c, int k, const pinhole_op_value *from, ph_value *out) {
    ph_dtype t = ph_user_dtype(from->type);
    if (t >= PH_N_DTYPES || !is_computed(t))
        return ph_user_fail(c, PH_EUNSUP, "infer gives output %d the type %d%s%s", k, from->type,
                            t < PH_N_DTYPES ? ": floats are PINHOLE_F32 here, not " : ", which is none",
                            t < PH_N_DTYPES ? ph_dtype_name(t) : "");
    out->dtype = t;
    return take_shape(c, k, from, &out->shape);
}

typedef struct both { /* of one inference: too large for a stack */
    pinhole_op_value in[PINHOLE_OP_IO_MAX], out[PINHOLE_OP_IO_MAX];
} both;

static ph_rc infer_in(const ph_graph *g, const ph_node *n, both *b, ph_value *out, ph_err *err) {
    ph_rc        rc;
    ph_user_call c = begin(g, n, &rc, err);
    for (int i = 0; i < n->n_in && !rc; i++) {
        const ph_value *v = ph_in(g, n, i);
        tell(v, &b->in[i]);
        if (v && (v->cls == PH_VALUE_STATE || b->in[i].type == PINHOLE_NONE))
            ph_user_fail(&c, PH_EUNSUP, "input %d (%.60s) is no array that a plug-in is given", i, v->name);
    }
    if (!rc) rc = judge(&c, user_of(n)->theirs.infer(&c.node, b->in, n->n_in, b->out, n->n_out), "infer");
    for (int k = 0; k < n->n_out && !rc; k++) rc = take(&c, k, &b->out[k], &out[k]);
    end(&c);
    return rc;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    if (n->n_in > PINHOLE_OP_IO_MAX || n->n_out > PINHOLE_OP_IO_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: %d inputs, %d outputs; at most %d", n->op->name, n->n_in,
                       n->n_out, PINHOLE_OP_IO_MAX);
    both *b = calloc(1, sizeof *b);
    if (!b) return PH_FAIL(err, PH_ENOMEM, "the types of %d values", n->n_in + n->n_out);
    ph_rc rc = infer_in(g, n, b, out, err);
    free(b);
    return rc;
}

/* ---- evaluation ---- */

static pinhole_array array_of(const ph_array *a) {
    pinhole_array out = {.data = a->data, .type = ph_user_type(a->dtype), .rank = a->rank};
    memcpy(out.dim, a->dim, sizeof out.dim);
    return out;
}

typedef struct arrays {
    pinhole_array in[PINHOLE_OP_IO_MAX], out[PINHOLE_OP_IO_MAX];
} arrays;

static void list(const ph_node *n, const ph_array *in, const ph_array *out, arrays *a) {
    for (int i = 0; i < n->n_in; i++) a->in[i] = n->in[i] < 0 ? (pinhole_array){0} : array_of(&in[i]);
    for (int k = 0; k < n->n_out; k++) a->out[k] = array_of(&out[k]);
}

static size_t ask_scratch(const ph_user_call *c, const arrays *a) {
    const pinhole_op *t = &user_of(c->n)->theirs;
    return t->scratch ? t->scratch(&c->node, a->in, c->n->n_in, a->out, c->n->n_out) : 0;
}

static ph_rc carve_scratch(const ph_user_call *c, size_t bytes, const ph_eval *e, void **out) {
    *out = NULL;
    if (!bytes) return PH_OK;
    if (!ph_arena_carve(e->scratch, out, bytes, 1, NULL)) return PH_OK;
    return ph_user_fail(
        c, PH_ELIMIT,
        "it asks for %zu bytes of scratch, more than was planned for: scratch may not be less for "
        "larger arrays",
        bytes);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    arrays a;
    void  *scratch = NULL;
    ph_rc  rc;
    list(n, in, out, &a);
    for (int i = 0; i < n->n_in; i++) {
        ph_array dense;
        if (n->in[i] < 0) continue;
        PH_TRY(ph_dense(&dense, &in[i], e, err));
        a.in[i].data = dense.data;
    }
    ph_user_call c = begin(g, n, &rc, err);
    size_t       bytes = ask_scratch(&c, &a);
    if (!rc) rc = carve_scratch(&c, bytes, e, &scratch);
    if (!rc)
        rc = judge(&c, user_of(n)->theirs.eval(&c.node, a.in, n->n_in, a.out, n->n_out, scratch, bytes),
                   "eval");
    end(&c);
    return rc;
}

/* ---- what the plan and the router ask ---- */

static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    arrays a;
    ph_rc  rc;
    ph_err err = {0};
    if (!user_of(n)->theirs.scratch) return 0;
    list(n, in, out, &a);
    ph_user_call c = begin(g, n, &rc, &err);
    size_t       bytes = ask_scratch(&c, &a);
    end(&c);
    /* Fails as a scratch that cannot be. */
    return rc || bytes > (size_t)INT64_MAX / 2 ? -1 : (int64_t)(ph_round_up(bytes, PH_ALIGN) + PH_ALIGN) / 4;
}

/* Without data, at the sizes of a run. */
static ph_rc sizes_of(const ph_graph *g, const ph_node *n, const ph_syms *syms, ph_array *in, ph_array *out,
                      ph_err *err) {
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        int             id = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        ph_array       *a = i < n->n_in ? &in[i] : &out[i - n->n_in];
        const ph_value *v = id < 0 ? NULL : &g->value[id];
        *a = (ph_array){.dtype = v ? v->dtype : PH_F32, .rank = v ? v->shape.rank : 0};
        for (int d = 0; d < a->rank; d++) PH_TRY(ph_dim_eval(v->shape.dim[d], syms, &a->dim[d], err));
    }
    return PH_OK;
}

static ph_rc macs(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how, double *out,
                  ph_err *err) {
    ph_array in[PINHOLE_OP_IO_MAX], made[PINHOLE_OP_IO_MAX];
    arrays   a;
    ph_rc    rc;
    (void)how;
    *out = 0;
    if (!user_of(n)->theirs.cost) return PH_OK;
    PH_TRY(sizes_of(g, n, syms, in, made, err));
    list(n, in, made, &a);
    ph_user_call c = begin(g, n, &rc, err);
    double       said = user_of(n)->theirs.cost(&c.node, a.in, n->n_in, a.out, n->n_out);
    end(&c);
    *out = said > 0 && said < 1e18 ? said : 0;
    return PH_OK;
}

static void write_onnx(ph_oo *o, const ph_node *n) {
    ph_oo_as_it_is(o, n, n->op->domain, user_of(n)->name);
}

void ph_user_op_fill(ph_op *op) {
    op->infer = infer;
    op->eval = eval;
    op->scratch = scratch;
    op->macs = macs;
    op->onnx = write_onnx;
}
