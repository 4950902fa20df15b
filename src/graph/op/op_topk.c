/* op_topk.c - TopK: the k largest (or smallest) elements along one axis, and their places (opset 11).
 *
 * k is a constant number.  They come in order whether sorted asks for it or not; of equals the first comes
 * first. */
#include "graph/op/op_number.h"

#include <inttypes.h>
#include <string.h>

static ph_rc read(const ph_graph *g, const ph_node *n, int rank, int64_t *k, int *axis, ph_err *err) {
    int count;
    PH_TRY(ph_const_ints(g, n, 1, k, 1, &count, err));
    if (count != 1 || *k < 0) return PH_FAIL(err, PH_EMISMATCH, "TopK wants one k, not negative");
    return ph_axis(ph_node_int(n, "axis", -1), rank, axis, err);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int64_t k;
    int     axis;
    PH_TRY(ph_want_number(g, n, 0, err));
    const ph_value *x = ph_in(g, n, 0);
    ph_shape        y = x->shape;
    PH_TRY(read(g, n, y.rank, &k, &axis, err));
    if (ph_dim_is_fixed(y.dim[axis]) && k > y.dim[axis].mul)
        return PH_FAIL(err, PH_EMISMATCH, "TopK: %" PRId64 " of %" PRId64 " elements", k, y.dim[axis].mul);
    y.dim[axis] = ph_dim_of(k);
    ph_infer_set(&out[0], x->dtype, &y);
    ph_infer_set(&out[1], PH_I64, &y);
    return PH_OK;
}

typedef struct line {
    const ph_array *x;
    int64_t         at, step;
    int             largest;
} line;

/* Does place b come before place a? */
static int before(const line *l, int64_t b, int64_t a) {
    int64_t i = l->at + b * l->step, j = l->at + a * l->step;
    int     more, less;
    if (l->x->dtype == PH_F32) {
        float p = ((const float *)l->x->data)[i], q = ((const float *)l->x->data)[j];
        more = p > q, less = p < q;
    } else {
        more = ph_int_at(l->x, i) > ph_int_at(l->x, j), less = ph_int_at(l->x, i) < ph_int_at(l->x, j);
    }
    if (more || less) return l->largest ? more : less;
    return b < a;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x;
    line     l = {.largest = ph_node_int(n, "largest", 1) != 0};
    int64_t  k;
    int      axis;
    size_t   item = ph_dtype_bytes(in[0].dtype);
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(read(g, n, x.rank, &k, &axis, err));
    int64_t outer = ph_span(&x, 0, axis), size = x.dim[axis];
    l.x = &x;
    l.step = ph_span(&x, axis + 1, x.rank);
    if (k > size) return PH_FAIL(err, PH_EMISMATCH, "TopK: %" PRId64 " of %" PRId64 " elements", k, size);
    for (int64_t i = 0; i < outer * l.step; i++) {
        int64_t to = i / l.step * k * l.step + i % l.step, last = -1;
        l.at = i / l.step * size * l.step + i % l.step;
        for (int64_t j = 0; j < k; j++, to += l.step) { /* the best behind the last one */
            int64_t best = -1;
            for (int64_t c = 0; c < size; c++)
                if ((last < 0 || before(&l, last, c)) && c != last && (best < 0 || before(&l, c, best)))
                    best = c;
            if (best < 0) best = 0; /* only NaN are left */
            last = best;
            if (out[0].data)
                memcpy((char *)out[0].data + (size_t)to * item,
                       (const char *)x.data + (size_t)(l.at + best * l.step) * item, item);
            if (out[1].data) ((int64_t *)out[1].data)[to] = best;
        }
    }
    return PH_OK;
}

const ph_op ph_op_TopK = {
    .name = "TopK",
    .domain = "",
    .since = 11,
    .in_min = 2,
    .in_max = 2,
    .out_min = 2,
    .out_max = 2,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__TopK.html",
};
