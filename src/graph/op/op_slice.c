/* op_slice.c - Slice (opset 13): starts, ends, axes and steps are constant lists;
 * starts and ends may be Sizes.
 *
 * Of a symbolic dimension a slice may take all, the first or last k, or all but k
 * at either end, with step 1; that the dimension is long enough is checked when
 * its size is known.
 */
#include "graph/op/op_number.h"

#include <inttypes.h>
#include <string.h>

typedef struct cuts { /* per dimension; start and end may be symbolic until the run */
    ph_dim  start[PH_RANK_MAX], end[PH_RANK_MAX];
    int64_t step[PH_RANK_MAX];
    int     is_cut[PH_RANK_MAX];
} cuts;

enum { STARTS, ENDS, AXES, STEPS, N_LISTS };

typedef struct lists {
    ph_dim at[N_LISTS][PH_RANK_MAX];
    int    n[N_LISTS], has[N_LISTS];
} lists;

static ph_rc order_cuts(const lists *l, int rank, cuts *c, ph_err *err) {
    const int *n = l->n;
    if (n[ENDS] != n[STARTS] || (l->has[AXES] && n[AXES] != n[STARTS]) ||
        (l->has[STEPS] && n[STEPS] != n[STARTS]))
        return PH_FAIL(err, PH_EMISMATCH, "Slice: %d starts, %d ends, %d axes, %d steps", n[STARTS], n[ENDS],
                       n[AXES], n[STEPS]);
    *c = (cuts){0};
    for (int i = 0; i < n[STARTS]; i++) {
        int axis;
        if ((l->has[AXES] && !ph_dim_is_fixed(l->at[AXES][i])) ||
            (l->has[STEPS] && !ph_dim_is_fixed(l->at[STEPS][i])))
            return PH_FAIL(err, PH_EUNSUP, "Slice: axes and steps must be plain numbers");
        PH_TRY(ph_axis(l->has[AXES] ? l->at[AXES][i].mul : i, rank, &axis, err));
        if (c->is_cut[axis]) return PH_FAIL(err, PH_EMISMATCH, "Slice: axis %d twice", axis);
        c->is_cut[axis] = 1;
        c->start[axis] = l->at[STARTS][i];
        c->end[axis] = l->at[ENDS][i];
        c->step[axis] = l->has[STEPS] ? l->at[STEPS][i].mul : 1;
        if (!c->step[axis] || c->step[axis] == INT64_MIN)
            return PH_FAIL(err, PH_EMISMATCH, "Slice: step %" PRId64, c->step[axis]);
    }
    return PH_OK;
}

/* As inference sees the cuts. */
static ph_rc read_cuts(const ph_graph *g, const ph_node *n, int rank, cuts *c, ph_err *err) {
    lists l = {0};
    for (int i = 0; i < N_LISTS; i++) {
        l.has[i] = ph_in(g, n, i + 1) != NULL;
        if (l.has[i]) PH_TRY(ph_const_dims(g, n, i + 1, l.at[i], PH_RANK_MAX, &l.n[i], err));
    }
    return order_cuts(&l, rank, c, err);
}

/* As they are at the run. */
static ph_rc run_cuts(const ph_node *n, const ph_array *in, int rank, cuts *c, const ph_eval *e,
                      ph_err *err) {
    lists l = {0};
    for (int i = 0; i < N_LISTS; i++) {
        ph_array list;
        l.has[i] = i + 1 < n->n_in && n->in[i + 1] >= 0;
        if (!l.has[i]) continue;
        PH_TRY(ph_dense(&list, &in[i + 1], e, err));
        l.n[i] = (int)ph_array_count(&list); /* at most PH_RANK_MAX: inference read it */
        for (int k = 0; k < l.n[i]; k++) l.at[i][k] = ph_dim_of(ph_int_at(&list, k));
    }
    return order_cuts(&l, rank, c, err);
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Backwards, a start before the first element is the first, by the specification; numpy finds nothing there.
 */
void ph_slice_cut(int64_t start, int64_t end, int64_t step, int64_t size, int64_t *first, int64_t *length) {
    if (start < 0) start = start < -size ? -1 : start + size; /* -1: before the first */
    if (end < 0) end = end < -size ? -1 : end + size;
    if (step > 0) {
        start = clamp(start, 0, size);
        end = clamp(end, 0, size);
        *length = end > start ? (end - start - 1) / step + 1 : 0;
    } else {
        start = size ? clamp(start, 0, size - 1) : -1;
        end = clamp(end, -1, size - 1);
        *length = start > end ? (start - end - 1) / -step + 1 : 0;
    }
    *first = start;
}

static void cut_known(const cuts *c, int d, int64_t size, int64_t *start, int64_t *length) {
    ph_slice_cut(c->start[d].mul, c->end[d].mul, c->step[d], size, start, length);
}

/* The end of a cut where a symbol is: k from the front, dim - k, or a size from the front. */
static int edge(ph_dim dim, ph_dim at, ph_dim *out) {
    if (!ph_dim_is_fixed(at)) {
        *out = at;
        return 1;
    }
    if (at.mul >= INT32_MAX) {
        *out = dim;
        return 1;
    }
    if (at.mul >= 0) {
        *out = at;
        return 1;
    }
    return at.mul > INT32_MIN && ph_dim_add(dim, at, out);
}

static int cut_symbolic(const cuts *c, int d, ph_dim dim, ph_dim *out) {
    ph_dim start, end;
    if (c->step[d] != 1 || !edge(dim, c->start[d], &start) || !edge(dim, c->end[d], &end)) return 0;
    if (ph_dim_is_fixed(start)) {
        if (!ph_dim_add(end, ph_dim_of(-start.mul), out)) return 0;
    } else {
        ph_dim same = start;
        same.add = end.add;
        if (!ph_dim_same(same, end)) return 0;
        int64_t n; /* both are one size plus a number */
        if (__builtin_sub_overflow(end.add, start.add, &n)) return 0;
        *out = ph_dim_of(n);
    }
    return !ph_dim_is_fixed(*out) || out->mul >= 0;
}

static int is_known(const cuts *c, int d, ph_dim dim) {
    return ph_dim_is_fixed(dim) && ph_dim_is_fixed(c->start[d]) && ph_dim_is_fixed(c->end[d]);
}

static ph_rc refuse_cut(const ph_graph *g, const cuts *c, int d, ph_dim dim, ph_err *err) {
    char from[64], to[64], of[64];
    ph_graph_dim_print(g, c->start[d], from, sizeof from);
    ph_graph_dim_print(g, c->end[d], to, sizeof to);
    ph_graph_dim_print(g, dim, of, sizeof of);
    return PH_FAIL(err, PH_EUNSUP, "Slice: %s to %s step %" PRId64 " of a symbolic dimension %s", from, to,
                   c->step[d], of);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    ph_shape        y = x->shape;
    cuts            c;
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    PH_TRY(read_cuts(g, n, y.rank, &c, err));
    for (int d = 0; d < y.rank; d++) {
        int64_t start, length;
        if (!c.is_cut[d]) continue;
        if (is_known(&c, d, y.dim[d])) {
            cut_known(&c, d, y.dim[d].mul, &start, &length);
            y.dim[d] = ph_dim_of(length);
        } else if (!cut_symbolic(&c, d, y.dim[d], &y.dim[d])) {
            return refuse_cut(g, &c, d, y.dim[d], err);
        }
    }
    ph_infer_set(&out[0], x->dtype, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x;
    cuts     c;
    int64_t  stride = 1, offset = 0, count = ph_array_count(out);
    size_t   item = ph_dtype_bytes(out->dtype);
    (void)g;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(run_cuts(n, in, x.rank, &c, e, err));
    ph_walk w = ph_walk_over(out);
    w.n = 1;
    for (int d = x.rank - 1; d >= 0; d--) {
        int64_t start = 0, length = x.dim[d], step = 1;
        if (c.is_cut[d]) {
            cut_known(&c, d, x.dim[d], &start, &length);
            step = length > 1 ? c.step[d] : 1;
        }
        if (length != out->dim[d])
            return PH_FAIL(err, PH_EMISMATCH,
                           "Slice: dimension %d of size %" PRId64 " is too short for the cut", d, x.dim[d]);
        w.stride[0][d] = stride * step;
        offset += stride * start;
        stride *= x.dim[d];
    }
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w))
        memcpy((char *)out->data + (size_t)i * item, (const char *)x.data + (size_t)(offset + w.at[0]) * item,
               item);
    return PH_OK;
}

const ph_op ph_op_Slice = {
    .name = "Slice",
    .domain = "",
    .since = 13,
    .in_min = 3,
    .in_max = 5,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Slice.html",
};
