/* op_poolinject.c - pinhole.PoolInject: what a picture says on the whole, put into rows of text.
 *
 *     h [.., d]   v [.., d]   scale [d]   bias [d]?   segments i32 [R, 2]?: begin, end
 *     y[r] = LayerNorm(h[r] + alpha * mean of v[begin[r] .. end[r])) * scale + bias; h[r] where begin is end
 *
 * v is read where the bridge has written it, all dimensions but the last as rows; nothing of
 * it is copied.  Without segments every row takes all of v; with them h is [R, d], so that
 * rows of several sequences stand in one step, and a row whose segment is empty (its
 * sequence has no picture) stays as it is.  So a row's result depends on its own features
 * alone, not on its neighbours or on how a prompt is cut, and a text without pictures has
 * the answer that it has without the operator.
 *
 * Attributes: alpha (0.3), epsilon (1e-5).
 * Errors: PH_EMISMATCH shapes, alpha or epsilon that is no finite number, a negative
 * epsilon; at run time a segment outside v.
 */
#include "graph/modal.h"
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <math.h>
#include <string.h>

static ph_rc check_numbers(const ph_node *n, ph_err *err) {
    double alpha = ph_node_float(n, "alpha", PH_INJECT_ALPHA);
    double epsilon = ph_node_float(n, "epsilon", PH_INJECT_EPSILON);
    if (isfinite(alpha) && isfinite(epsilon) && epsilon >= 0) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH,
                   "PoolInject: alpha %g and epsilon %g must be finite, epsilon not below 0", alpha, epsilon);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_shape *h, *v;
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    PH_TRY(ph_want(g, n, 1, PH_F32, -1, err));
    h = &ph_in(g, n, 0)->shape;
    v = &ph_in(g, n, 1)->shape;
    if (h->rank < 1 || v->rank < 2 || !ph_dim_is_fixed(h->dim[h->rank - 1]) ||
        !ph_dim_same(h->dim[h->rank - 1], v->dim[v->rank - 1]))
        return ph_disagree(g, h, v, "PoolInject wants h[.., d] and v[.., d] of one plain width", err);
    for (int i = 2; i < 4; i++) {
        if (i == 3 && !ph_in(g, n, i)) continue;
        PH_TRY(ph_want(g, n, i, PH_F32, 1, err));
        if (!ph_dim_same(ph_in(g, n, i)->shape.dim[0], h->dim[h->rank - 1]))
            return ph_disagree(g, h, &ph_in(g, n, i)->shape,
                               "PoolInject wants a scale and a bias of the last dimension", err);
    }
    if (ph_in(g, n, 4)) {
        ph_shape wanted = ph_shape_of(2, h->dim[0], ph_dim_of(2));
        PH_TRY(ph_want(g, n, 4, PH_I32, 2, err));
        if (h->rank != 2 || !ph_shape_same(&ph_in(g, n, 4)->shape, &wanted))
            return ph_disagree(g, h, &ph_in(g, n, 4)->shape,
                               "PoolInject wants begin and end of each row of h[R, d]", err);
    }
    PH_TRY(check_numbers(n, err));
    ph_infer_set(&out[0], PH_F32, h);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *h, *v, *scale, *bias = NULL;
    float       *mean, *part, *y = out->data, alpha = (float)ph_node_float(n, "alpha", PH_INJECT_ALPHA);
    int64_t      d = out->dim[out->rank - 1], rows = ph_span(out, 0, out->rank - 1);
    int32_t      whole[2] = {0, 0};
    ph_array     segments = {0};
    PH_TRY(ph_floats(&h, &in[0], e, err));
    PH_TRY(ph_floats(&v, &in[1], e, err));
    PH_TRY(ph_floats(&scale, &in[2], e, err));
    if (ph_in(g, n, 3)) PH_TRY(ph_floats(&bias, &in[3], e, err));
    int64_t n_v = ph_span(&in[1], 0, in[1].rank - 1);
    if (n_v > INT32_MAX) return PH_FAIL(err, PH_ELIMIT, "PoolInject: %lld features", (long long)n_v);
    whole[1] = (int32_t)n_v;
    if (ph_in(g, n, 4)) {
        PH_TRY(ph_dense(&segments, &in[4], e, err));
        PH_TRY(ph_modal_segments(segments.data, rows, n_v, "takes features", err));
    }
    PH_TRY(ph_scratch(&mean, d, e, err));
    PH_TRY(ph_scratch(&part, d, e, err));
    const int32_t *held = NULL;
    for (int64_t r = 0; d && r < rows; r++) {
        const int32_t *own = segments.data ? (const int32_t *)segments.data + 2 * r : whole;
        if (segments.data && own[0] == own[1]) {
            memcpy(y + r * d, h + r * d, (size_t)d * sizeof *y);
            continue;
        }
        if (!held || own[0] != held[0] || own[1] != held[1])
            ph_modal_pool(e->kernels, mean, part, v + own[0] * d, (size_t)(own[1] - own[0]), (size_t)d,
                          alpha);
        held = own;
        e->kernels->add(part, h + r * d, mean, (size_t)d);
        e->kernels->layernorm(y + r * d, part, scale, bias, 1, (size_t)d,
                              (float)ph_node_float(n, "epsilon", PH_INJECT_EPSILON));
    }
    return PH_OK;
}

static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    (void)g, (void)n, (void)in;
    return 2 * out->dim[out->rank - 1];
}

/* Sums over each row's segment: a product with what each row takes, [R, N], of ones and zeros. */
static const char *sums_of(ph_oo *o, const ph_node *n, const char *v, const char **count) {
    const char *segments = ph_oo_cast(o, ph_oo_in(o, n, 4), PH_OO_INT64);
    const char *begin = ph_oo_slice(o, segments, 1, 0, 1, 1), *end = ph_oo_slice(o, segments, 1, 1, 2, 1);
    const char *places = ph_oo_places(o, ph_oo_size(o, v, 0));
    const char *takes =
        ph_oo_two(o, "And", ph_oo_two(o, "GreaterOrEqual", places, begin), ph_oo_two(o, "Less", places, end));
    *count = ph_oo_cast(o, ph_oo_two(o, "Sub", end, begin), PH_OO_FLOAT32);
    return ph_oo_two(o, "MatMul", ph_oo_cast(o, takes, PH_OO_FLOAT32), v);
}

/* The mean as ReduceMean has it, but of nothing it is zero; a row of an empty segment is chosen as it was. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    const ph_shape *s = ph_oo_shape(o, n, 1);
    const int64_t   flat[2] = {-1, s->dim[s->rank - 1].mul}, first = 0;
    const char     *v = ph_oo_in(o, n, 1), *h = ph_oo_in(o, n, 0), *count, *sum;
    if (s->rank > 2) v = ph_oo_reshape(o, v, flat, 2);
    if (ph_oo_has(n, 4)) {
        sum = sums_of(o, n, v, &count);
    } else {
        count = ph_oo_cast(o, ph_oo_size(o, v, 0), PH_OO_FLOAT32);
        sum = ph_oo_make(o, "ReduceSum", PH_OO_IN(v, ph_oo_ints(o, &first, 1)),
                         PH_OO_ATTRS(PH_OO_INT("keepdims", 1)));
    }
    const char *mean = ph_oo_two(o, "Div", sum, ph_oo_two(o, "Max", count, ph_oo_number(o, 1)));
    mean = ph_oo_two(o, "Mul", mean, ph_oo_number(o, ph_node_float(n, "alpha", PH_INJECT_ALPHA)));
    const char        *x = ph_oo_two(o, "Add", h, mean);
    const ph_onnx_attr attr[2] = {PH_OO_INT("axis", -1),
                                  PH_OO_FLOAT("epsilon", ph_node_float(n, "epsilon", PH_INJECT_EPSILON))};
    if (!ph_oo_has(n, 4)) {
        ph_oo_emit(o, n, "", "LayerNormalization", PH_OO_IN(x, ph_oo_in(o, n, 2), ph_oo_in(o, n, 3)), attr,
                   2);
        return;
    }
    x = ph_oo_make(o, "LayerNormalization", PH_OO_IN(x, ph_oo_in(o, n, 2), ph_oo_in(o, n, 3)), attr, 2);
    ph_oo_emit(o, n, "", "Where", PH_OO_IN(ph_oo_two(o, "Greater", count, ph_oo_number(o, 0)), x, h), NULL,
               0);
}

const ph_op ph_op_PoolInject = {
    .name = "PoolInject",
    .domain = "pinhole",
    .since = 1,
    .in_min = 3,
    .in_max = 5,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .scratch = scratch,
    .onnx = write_onnx,
    .source = "this file; LayerNorm arXiv:1607.06450",
};
