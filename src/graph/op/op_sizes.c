/* op_sizes.c - pinhole.Sizes: a list of numbers that follow from dimensions, for Reshape, Expand and their
 * kind.
 *
 *     out[i] = mul[i] * product over k of dim(in[k], axes[k]) ^ powers[i][k] / div[i] + add[i]      i64
 *
 * It is what a chain of Shape, Gather, Mul and Concat of an ONNX file comes to.  Inference of the operators
 * that read it sees the dimensions themselves, symbols included.  rank: 1 (default) a list, 0 a single
 * number.
 */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_number.h"

enum { SIZES_MAX = 64 };

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_dim   list[SIZES_MAX];
    ph_shape y = {.rank = ph_node_int(n, "rank", 1) != 0};
    int      count = 0;
    for (int i = 0; i < n->n_in; i++) {
        const ph_value *v = ph_in(g, n, i);
        PH_TRY(ph_want(g, n, i, v ? v->dtype : PH_F32, -1, err));
    }
    PH_TRY(ph_sizes_read(g, n, list, SIZES_MAX, &count, err));
    if (!y.rank && count != 1) return PH_FAIL(err, PH_EMISMATCH, "Sizes: %d numbers as a single one", count);
    y.dim[0] = ph_dim_of(count);
    ph_infer_set(&out[0], PH_I64, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    size_t         size;
    const int64_t *axes = ph_node_ints(n, "axes", &size), *div = ph_node_ints(n, "div", &size),
                  *add = ph_node_ints(n, "add", &size), *powers = ph_node_ints(n, "powers", &size),
                  *mul = ph_node_ints(n, "mul", &size);
    (void)g, (void)e;
    for (size_t i = 0; i < size; i++) {
        int64_t v = mul[i];
        int     over = 0;
        for (int k = 0; k < n->n_in; k++)
            for (int64_t p = 0; p < powers[i * (size_t)n->n_in + (size_t)k]; p++)
                over |= __builtin_mul_overflow(v, in[k].dim[axes[k]], &v);
        int64_t q = v / div[i] - (v % div[i] < 0);
        if (over || __builtin_add_overflow(q, add[i], &q))
            return PH_FAIL(err, PH_ELIMIT, "Sizes: number %zu does not fit 63 bits", i);
        ((int64_t *)out->data)[i] = q;
    }
    return PH_OK;
}

/* Number i of the list: [1]. */
static const char *number(ph_oo *o, const ph_node *n, size_t i) {
    size_t         size;
    const int64_t *axes = ph_node_ints(n, "axes", &size), *div = ph_node_ints(n, "div", &size),
                  *add = ph_node_ints(n, "add", &size), *powers = ph_node_ints(n, "powers", &size),
                  *mul = ph_node_ints(n, "mul", &size);
    const char *x = NULL;
    for (int k = 0; k < n->n_in; k++)
        for (int64_t p = 0; p < powers[i * (size_t)n->n_in + (size_t)k]; p++) {
            const char *d = ph_oo_size(o, ph_oo_in(o, n, k), axes[k]);
            x = x ? ph_oo_two(o, "Mul", x, d) : d;
        }
    if (!x) { /* a plain number */
        int64_t fixed = mul[i] / div[i] + add[i];
        return ph_oo_ints(o, &fixed, 1);
    }
    if (mul[i] != 1) x = ph_oo_two(o, "Mul", x, ph_oo_ints(o, &mul[i], 1));
    if (div[i] != 1) x = ph_oo_two(o, "Div", x, ph_oo_ints(o, &div[i], 1));
    return add[i] ? ph_oo_two(o, "Add", x, ph_oo_ints(o, &add[i], 1)) : x;
}

/* Shape, Gather and arithmetic, as other exporters write it. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    static const int64_t none[1] = {0};
    const char          *part[SIZES_MAX];
    size_t               size;
    ph_node_ints(n, "mul", &size);
    for (size_t i = 0; i < size && i < SIZES_MAX; i++) part[i] = number(o, n, i);
    if (!ph_node_int(n, "rank", 1))
        ph_oo_emit(o, n, "", "Squeeze", PH_OO_IN(part[0], ph_oo_ints(o, none, 1)), PH_OO_NO_ATTRS);
    else if (size == 1)
        ph_oo_is(o, n, 0, part[0]);
    else
        ph_oo_emit(o, n, "", "Concat", part, size, PH_OO_ATTRS(PH_OO_INT("axis", 0)));
}

const ph_op ph_op_Sizes = {
    .name = "Sizes",
    .domain = "pinhole",
    .since = 1,
    .in_min = 0,
    .in_max = -1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "docs/adr/0167: sizes are values that inference can read",
};
