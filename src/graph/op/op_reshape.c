/* op_reshape.c - Reshape (opset 14): the shape is a constant list of i64; 0 copies a dimension, -1 infers
 * one.
 *
 * With symbols the list can say only what is a plain number, so symbolic
 * dimensions are copied (0) or inferred (-1): [R, H*D] -> {0, H, D},
 * [I, N, d] -> {-1, d}.  Copied dimensions cancel on both sides before anything is
 * multiplied, so that sums such as 1+64I can pass through.
 */
#include "graph/op/op_help.h"

#include <inttypes.h>

typedef struct target {
    int64_t list[PH_RANK_MAX];
    int     n, open; /* open: the place of -1, or -1 */
    int     is_zero_literal;
} target;

static ph_rc read_target(const ph_graph *g, const ph_node *n, target *t, ph_err *err) {
    PH_TRY(ph_const_ints(g, n, 1, t->list, PH_RANK_MAX, &t->n, err));
    t->is_zero_literal = ph_node_int(n, "allowzero", 0) != 0;
    t->open = -1;
    for (int i = 0; i < t->n; i++) {
        if (t->list[i] < -1 || (t->list[i] == -1 && t->open >= 0))
            return PH_FAIL(err, PH_EMISMATCH, "Reshape: %" PRId64 " at place %d of the shape", t->list[i], i);
        if (t->list[i] == -1) t->open = i;
    }
    return PH_OK;
}

static int is_copied(const target *t, int i) {
    return i < t->n && t->list[i] == 0 && !t->is_zero_literal;
}

/* What is left on both sides when copied dimensions have cancelled. */
static int products(const target *t, const ph_shape *x, ph_dim *have, ph_dim *want) {
    *have = *want = ph_dim_of(1);
    for (int i = 0; i < x->rank; i++)
        if (!is_copied(t, i) && !ph_dim_mul(*have, x->dim[i], have)) return 0;
    for (int i = 0; i < t->n; i++)
        if (t->list[i] > 0 || (!t->list[i] && t->is_zero_literal))
            if (!ph_dim_mul(*want, ph_dim_of(t->list[i]), want)) return 0;
    return 1;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    target          t = {0};
    ph_shape        y = {0};
    ph_dim          have, want;
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    PH_TRY(read_target(g, n, &t, err));
    y.rank = t.n;
    for (int i = 0; i < t.n; i++) {
        if (is_copied(&t, i) && i >= x->shape.rank)
            return PH_FAIL(err, PH_EMISMATCH, "Reshape: place %d copies a dimension that is not there", i);
        y.dim[i] = is_copied(&t, i) ? x->shape.dim[i] : ph_dim_of(t.list[i] < 0 ? 1 : t.list[i]);
    }
    if (!products(&t, &x->shape, &have, &want))
        return ph_disagree(&x->shape, &y, "Reshape cannot reckon their sizes; copy dimensions with 0", err);
    if (t.open < 0 && !ph_dim_same(have, want))
        return ph_disagree(&x->shape, &y, "Reshape keeps the count", err);
    if (t.open >= 0 && !ph_dim_div(have, want, &y.dim[t.open]))
        return ph_disagree(&x->shape, &y, "Reshape cannot infer its -1", err);
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
