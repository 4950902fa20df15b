/* op_reshape.c - Reshape (opset 14): the shape is a constant list of i64, or Sizes; 0 copies a dimension, -1
 * infers one.
 *
 * With symbols a constant can say only what is a plain number, so symbolic
 * dimensions are copied (0) or inferred (-1): [R, H*D] -> {0, H, D},
 * [I, N, d] -> {-1, d}.  Copied dimensions cancel on both sides before anything is
 * multiplied, so that sums such as 1+64I can pass through.
 */
#include "graph/op/op_number.h"

#include <inttypes.h>

typedef struct target {
    ph_dim list[PH_RANK_MAX];
    int    n, open; /* open: the place of -1, or -1 */
    int    is_zero_literal;
} target;

static ph_rc read_target(const ph_graph *g, const ph_node *n, target *t, ph_err *err) {
    PH_TRY(ph_const_dims(g, n, 1, t->list, PH_RANK_MAX, &t->n, err));
    t->is_zero_literal = ph_node_int(n, "allowzero", 0) != 0;
    t->open = -1;
    for (int i = 0; i < t->n; i++) {
        if (!ph_dim_is_fixed(t->list[i])) continue;
        if (t->list[i].mul < -1 || (t->list[i].mul == -1 && t->open >= 0))
            return PH_FAIL(err, PH_EMISMATCH, "Reshape: %" PRId64 " at place %d of the shape", t->list[i].mul,
                           i);
        if (t->list[i].mul == -1) t->open = i;
    }
    return PH_OK;
}

static int is_copied(const target *t, int i) {
    return i < t->n && ph_dim_is_fixed(t->list[i]) && t->list[i].mul == 0 && !t->is_zero_literal;
}

/* A dimension of x that the target names again, not taken yet: both cancel before anything is multiplied. */
static int cancels(const ph_shape *x, ph_dim d, int *is_taken) {
    for (int i = 0; i < x->rank; i++)
        if (!is_taken[i] && ph_dim_same(x->dim[i], d)) return is_taken[i] = 1;
    return 0;
}

/* What is left on both sides when equal dimensions have cancelled. */
static int products(const target *t, const ph_shape *x, ph_dim *have, ph_dim *want) {
    int is_taken[PH_RANK_MAX] = {0};
    *have = *want = ph_dim_of(1);
    for (int i = 0; i < t->n; i++) is_taken[i] = is_copied(t, i);
    for (int i = 0; i < t->n; i++)
        if (i != t->open && !is_copied(t, i) && !ph_dim_is_fixed(t->list[i]) &&
            !cancels(x, t->list[i], is_taken) && !ph_dim_mul(*want, t->list[i], want))
            return 0;
    for (int i = 0; i < t->n; i++)
        if (i != t->open && !is_copied(t, i) && ph_dim_is_fixed(t->list[i]) &&
            !ph_dim_mul(*want, t->list[i], want))
            return 0;
    for (int i = 0; i < x->rank; i++)
        if (!is_taken[i] && !ph_dim_mul(*have, x->dim[i], have)) return 0;
    return 1;
}

/* The copied places, and the others as they are given; -1 as 1. */
static ph_rc start_shape(const target *t, const ph_shape *x, ph_shape *y, ph_err *err) {
    y->rank = t->n;
    for (int i = 0; i < t->n; i++) {
        if (is_copied(t, i) && i >= x->rank)
            return PH_FAIL(err, PH_EMISMATCH, "Reshape: place %d copies a dimension that is not there", i);
        y->dim[i] = is_copied(t, i) ? x->dim[i] : i == t->open ? ph_dim_of(1) : t->list[i];
    }
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    target          t = {0};
    ph_shape        y = {0};
    ph_dim          have, want;
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    PH_TRY(read_target(g, n, &t, err));
    PH_TRY(start_shape(&t, &x->shape, &y, err));
    if (!products(&t, &x->shape, &have, &want))
        return ph_disagree(g, &x->shape, &y, "Reshape cannot reckon their sizes; copy dimensions with 0",
                           err);
    if (t.open < 0 && !ph_dim_same(have, want))
        return ph_disagree(g, &x->shape, &y, "Reshape keeps the count", err);
    if (t.open >= 0 && !ph_dim_div(have, want, &y.dim[t.open]))
        return ph_disagree(g, &x->shape, &y, "Reshape cannot infer its -1", err);
    ph_infer_set(&out[0], x->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_reshape(in, out, e, err);
}

const ph_op ph_op_Reshape = {
    .name = "Reshape",
    .domain = "",
    .since = 14,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Reshape.html",
};
