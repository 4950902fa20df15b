/* op_slice.c - Slice (opset 13): starts, ends, axes and steps are constant lists.
 *
 * Of a symbolic dimension a slice may take all, the first or last k, or all but k
 * at either end, with step 1; that the dimension is long enough is checked when
 * its size is known.
 */
#include "graph/op/op_help.h"

#include <inttypes.h>
#include <string.h>

typedef struct cuts { /* per dimension */
    int64_t start[PH_RANK_MAX], end[PH_RANK_MAX], step[PH_RANK_MAX];
    int     is_cut[PH_RANK_MAX];
} cuts;

static ph_rc read_cuts(const ph_graph *g, const ph_node *n, int rank, cuts *c, ph_err *err) {
    int64_t list[4][PH_RANK_MAX];
    int     count[4] = {0};
    for (int i = 0; i < 4; i++)
        if (ph_in(g, n, i + 1)) PH_TRY(ph_const_ints(g, n, i + 1, list[i], PH_RANK_MAX, &count[i], err));
    if (count[1] != count[0] || (ph_in(g, n, 3) && count[2] != count[0]) ||
        (ph_in(g, n, 4) && count[3] != count[0]))
        return PH_FAIL(err, PH_EMISMATCH, "Slice: %d starts, %d ends, %d axes, %d steps", count[0], count[1],
                       count[2], count[3]);
    *c = (cuts){0};
    for (int i = 0; i < count[0]; i++) {
        int axis;
        PH_TRY(ph_axis(ph_in(g, n, 3) ? list[2][i] : i, rank, &axis, err));
        if (c->is_cut[axis]) return PH_FAIL(err, PH_EMISMATCH, "Slice: axis %d twice", axis);
        c->is_cut[axis] = 1;
        c->start[axis] = list[0][i];
        c->end[axis] = list[1][i];
        c->step[axis] = ph_in(g, n, 4) ? list[3][i] : 1;
        if (!c->step[axis] || c->step[axis] == INT64_MIN)
            return PH_FAIL(err, PH_EMISMATCH, "Slice: step %" PRId64, c->step[axis]);
    }
    return PH_OK;
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Start and length along a dimension of known size, as numpy cuts. */
static void cut_known(const cuts *c, int d, int64_t size, int64_t *start, int64_t *length) {
    int64_t s = c->start[d], e = c->end[d], step = c->step[d];
    if (s < 0) s = s < -size ? -1 : s + size; /* -1: before the first */
    if (e < 0) e = e < -size ? -1 : e + size;
    if (step > 0) {
        s = clamp(s, 0, size);
        e = clamp(e, 0, size);
        *length = e > s ? (e - s - 1) / step + 1 : 0;
    } else {
        s = clamp(s, -1, size - 1);
        e = clamp(e, -1, size - 1);
        *length = s > e ? (s - e - 1) / -step + 1 : 0;
    }
    *start = s;
}

/* The end of a cut along a symbolic dimension: k from the front, or dim - k. */
static int edge(ph_dim dim, int64_t at, ph_dim *out) {
    if (at >= INT32_MAX) {
        *out = dim;
        return 1;
    }
    if (at >= 0) {
        *out = ph_dim_of(at);
        return 1;
    }
    return at > INT32_MIN && ph_dim_add(dim, ph_dim_of(at), out);
}

static int cut_symbolic(const cuts *c, int d, ph_dim dim, ph_dim *out) {
    ph_dim start, end;
    if (c->step[d] != 1 || !edge(dim, c->start[d], &start) || !edge(dim, c->end[d], &end)) return 0;
    if (ph_dim_is_fixed(start)) {
        if (!ph_dim_add(end, ph_dim_of(-start.mul), out)) return 0;
    } else {
        if (ph_dim_is_fixed(end)) return 0;
        *out = ph_dim_of(end.add - start.add); /* both are dim plus a number */
    }
    return !ph_dim_is_fixed(*out) || out->mul >= 0;
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
        if (ph_dim_is_fixed(y.dim[d])) {
            cut_known(&c, d, y.dim[d].mul, &start, &length);
            y.dim[d] = ph_dim_of(length);
        } else if (!cut_symbolic(&c, d, y.dim[d], &y.dim[d])) {
            return PH_FAIL(err, PH_EUNSUP,
                           "Slice: %" PRId64 " to %" PRId64 " step %" PRId64 " of a symbolic dimension",
                           c.start[d], c.end[d], c.step[d]);
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
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(read_cuts(g, n, x.rank, &c, err));
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
