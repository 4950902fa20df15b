/* op_number.c - what operators of imported graphs share.  See op_number.h. */
#include "graph/op/op_number.h"
#include "graph/onnx/onnx_emit.h"

#include <math.h>
#include <string.h>

int ph_is_whole(ph_dtype t) {
    return t == PH_I8 || t == PH_I16 || t == PH_I32 || t == PH_I64 || t == PH_U8 || t == PH_U16 ||
           t == PH_U32 || t == PH_U64 || t == PH_BOOL;
}

ph_rc ph_want_number(const ph_graph *g, const ph_node *n, int i, ph_err *err) {
    const ph_value *v = ph_in(g, n, i);
    PH_TRY(ph_want(g, n, i, v ? v->dtype : PH_F32, -1, err));
    if (v->dtype == PH_F32 || ph_is_whole(v->dtype)) return PH_OK;
    return PH_FAIL(err, PH_EUNSUP, "%s: input %d (%s) is %s", n->op->name, i, v->name,
                   ph_dtype_name(v->dtype));
}

ph_rc ph_want_bits(const ph_graph *g, const ph_node *n, ph_err *err) {
    ph_dtype t = ph_in(g, n, 0)->dtype;
    if (ph_is_whole(t) && t != PH_BOOL) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "%s of %s", n->op->name, ph_dtype_name(t));
}

/* ---- element by element ---- */

ph_rc ph_infer_number(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_want_number(g, n, 0, err));
    ph_infer_set(&out[0], ph_in(g, n, 0)->dtype, &ph_in(g, n, 0)->shape);
    return PH_OK;
}

ph_rc ph_eval_number(const ph_array *in, ph_array *out, const ph_unary *f, const ph_eval *e, ph_err *err) {
    ph_array x;
    int64_t  count = ph_array_count(out);
    PH_TRY(ph_dense(&x, &in[0], e, err));
    if (out->dtype != PH_F32 && !f->whole)
        return PH_FAIL(err, PH_EUNSUP, "%s is done for f32 only", ph_dtype_name(out->dtype));
    for (int64_t i = 0; i < count; i++)
        if (out->dtype == PH_F32)
            ((float *)out->data)[i] = f->real(((const float *)x.data)[i]);
        else
            ph_int_put(out, i, f->whole(ph_int_at(&x, i)));
    return PH_OK;
}

ph_rc ph_eval_shaped(const ph_array *in, ph_array *out, ph_shaped_fn *f, double alpha, double beta,
                     const ph_eval *e, ph_err *err) {
    const float *x;
    int64_t      count = ph_array_count(out);
    PH_TRY(ph_floats(&x, &in[0], e, err));
    for (int64_t i = 0; i < count; i++) ((float *)out->data)[i] = f(x[i], (float)alpha, (float)beta);
    return PH_OK;
}

ph_rc ph_infer_compare(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_shape y;
    PH_TRY(ph_want_number(g, n, 0, err));
    PH_TRY(ph_want(g, n, 1, ph_in(g, n, 0)->dtype, -1, err));
    PH_TRY(ph_broadcast(g, &ph_in(g, n, 0)->shape, &ph_in(g, n, 1)->shape, &y, err));
    ph_infer_set(&out[0], PH_BOOL, &y);
    return PH_OK;
}

ph_rc ph_infer_logic(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_want(g, n, 0, PH_BOOL, -1, err));
    return ph_infer_compare(g, n, out, err);
}

ph_rc ph_eval_compare(const ph_array *in, ph_array *out, const ph_compare *f, const ph_eval *e, ph_err *err) {
    ph_array a, b;
    int64_t  count = ph_array_count(out);
    PH_TRY(ph_dense(&a, &in[0], e, err));
    PH_TRY(ph_dense(&b, &in[1], e, err));
    ph_walk w = ph_walk_over(out);
    ph_walk_add(&w, &a);
    ph_walk_add(&w, &b);
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w))
        ((uint8_t *)out->data)[i] =
            a.dtype == PH_F32
                ? f->real(((const float *)a.data)[w.at[0]], ((const float *)b.data)[w.at[1]]) != 0
                : f->whole(ph_int_at(&a, w.at[0]), ph_int_at(&b, w.at[1])) != 0;
    return PH_OK;
}

ph_rc ph_infer_bits(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_want_bits(g, n, err));
    return ph_infer_binary(g, n, out, err);
}

ph_rc ph_infer_many(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_shape y = {0};
    for (int i = 0; i < n->n_in; i++) {
        PH_TRY(ph_want_number(g, n, i, err));
        PH_TRY(ph_want(g, n, i, ph_in(g, n, 0)->dtype, -1, err));
        PH_TRY(ph_broadcast(g, &y, &ph_in(g, n, i)->shape, &y, err));
    }
    ph_infer_set(&out[0], ph_in(g, n, 0)->dtype, &y);
    return PH_OK;
}

/* out = f(out, x), x broadcast; the first input is copied. */
static ph_rc join(ph_array *out, const ph_array *x, int is_first, const ph_binary *f, ph_err *err) {
    int64_t count = ph_array_count(out);
    ph_walk w = ph_walk_over(out);
    ph_walk_add(&w, x);
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w)) {
        if (out->dtype == PH_F32) {
            float b = ((const float *)x->data)[w.at[0]], *y = (float *)out->data + i;
            *y = is_first ? b : f->real(*y, b);
        } else {
            int64_t b = ph_int_at(x, w.at[0]), y = b;
            if (!is_first && !f->whole(ph_int_at(out, i), b, &y))
                return PH_FAIL(err, PH_EFORMAT, "whole numbers without a result");
            ph_int_put(out, i, y);
        }
    }
    return PH_OK;
}

ph_rc ph_eval_many(const ph_node *n, const ph_array *in, ph_array *out, const ph_binary *f, const ph_eval *e,
                   ph_err *err) {
    for (int i = 0; i < n->n_in; i++) {
        ph_array x;
        PH_TRY(ph_dense(&x, &in[i], e, err));
        PH_TRY(join(out, &x, !i, f, err));
    }
    return PH_OK;
}

/* ---- reductions ---- */

static ph_rc axes_of(const ph_graph *g, const ph_node *n, int rank, int is_reduced[PH_RANK_MAX],
                     ph_err *err) {
    int64_t list[PH_RANK_MAX];
    int     count = 0, axis, all = !ph_node_int(n, "noop_with_empty_axes", 0);
    if (ph_in(g, n, 1)) PH_TRY(ph_const_ints(g, n, 1, list, PH_RANK_MAX, &count, err));
    for (int i = 0; i < rank; i++) is_reduced[i] = !count && all;
    for (int i = 0; i < count; i++) {
        PH_TRY(ph_axis(list[i], rank, &axis, err));
        is_reduced[axis] = 1;
    }
    return PH_OK;
}

ph_rc ph_infer_reduce(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int      is_reduced[PH_RANK_MAX], keep = ph_node_int(n, "keepdims", 1) != 0;
    ph_shape y = {0};
    PH_TRY(ph_want_number(g, n, 0, err));
    const ph_shape *x = &ph_in(g, n, 0)->shape;
    PH_TRY(axes_of(g, n, x->rank, is_reduced, err));
    for (int i = 0; i < x->rank; i++) {
        if (!is_reduced[i])
            y.dim[y.rank++] = x->dim[i];
        else if (keep)
            y.dim[y.rank++] = ph_dim_of(1);
    }
    ph_infer_set(&out[0], ph_in(g, n, 0)->dtype, &y);
    return PH_OK;
}

/* One result: the elements at first + those of the walk over `inner`. */
static double reduce_real(const float *x, ph_walk w, int64_t count, const ph_reduction *r) {
    double  sum = r->start, top = -(double)INFINITY;
    ph_walk again = w;
    for (int64_t k = 0; r->is_shifted && k < count; k++, ph_walk_next(&again))
        if ((double)x[again.at[0]] > top) top = (double)x[again.at[0]];
    if (!r->is_shifted || !isfinite(top)) top = 0;
    for (int64_t k = 0; k < count; k++, ph_walk_next(&w)) sum = r->real(sum, (double)x[w.at[0]] - top);
    return (r->end ? r->end(sum, count) : sum) + top;
}

static int64_t reduce_whole(const ph_array *x, ph_walk w, int64_t count, const ph_reduction *r) {
    int64_t sum = r->whole_start;
    for (int64_t k = 0; k < count; k++, ph_walk_next(&w)) {
        int64_t v = ph_int_at(x, w.at[0]);
        sum = k || !r->is_shifted ? r->whole(sum, v) : v;
    }
    return sum;
}

/* What a reduction of nothing gives: its start, and of the largest or smallest whole number, the type's own.
 */
static int64_t of_none(ph_dtype t, const ph_reduction *r) {
    int bits = 8 * (int)ph_dtype_bytes(t);
    if (r->whole_start != INT64_MIN && r->whole_start != INT64_MAX) return r->whole_start;
    int is_low = r->whole_start == INT64_MIN;
    if (t == PH_BOOL) return !is_low;
    if (t == PH_U8 || t == PH_U16 || t == PH_U32 || t == PH_U64)
        return is_low ? 0 : (int64_t)(UINT64_MAX >> (64 - bits));
    return r->whole_start >> (64 - bits);
}

static ph_walk walk_of(const ph_array *over, const int64_t *stride, int64_t first) {
    ph_walk w = ph_walk_over(over);
    w.n = 1;
    w.at[0] = first;
    for (int i = 0; i < over->rank; i++) w.stride[0][i] = stride[i];
    return w;
}

ph_rc ph_eval_reduce(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out,
                     const ph_reduction *r, const ph_eval *e, ph_err *err) {
    ph_array x, inner = in[0], outer = in[0];
    int      is_reduced[PH_RANK_MAX];
    int64_t  stride[PH_RANK_MAX], step = 1;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(axes_of(g, n, x.rank, is_reduced, err));
    if (x.dtype != PH_F32 && !r->whole)
        return PH_FAIL(err, PH_EUNSUP, "%s: %s is not done", n->op->name, ph_dtype_name(x.dtype));
    for (int i = x.rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x.dim[i];
        *(is_reduced[i] ? &outer.dim[i] : &inner.dim[i]) = 1;
    }
    int64_t rows = ph_array_count(&outer), count = ph_array_count(&inner);
    ph_walk w = walk_of(&outer, stride, 0);
    for (int64_t i = 0; i < rows; i++, ph_walk_next(&w)) {
        ph_walk from = walk_of(&inner, stride, w.at[0]);
        if (x.dtype == PH_F32)
            ((float *)out->data)[i] = (float)reduce_real(x.data, from, count, r);
        else
            ph_int_put(out, i, count ? reduce_whole(&x, from, count, r) : of_none(x.dtype, r));
    }
    return PH_OK;
}

/* Axes were an attribute before opset 18 (of ReduceSum, 13), and an empty list did not mean none. */
void ph_write_reduce(ph_oo *o, const ph_node *n) {
    int64_t axes[PH_RANK_MAX];
    int     count = 0;
    if (o->opset < 20 && o->g->value[n->in[0]].dtype == PH_BOOL) {
        ph_oo_none(o, n, "booleans");
        return;
    }
    if (o->opset >= 18 || !strcmp(n->op->name, "ReduceSum")) {
        ph_oo_plain(o, n);
        return;
    }
    if (ph_oo_has(n, 1) && ph_const_ints(o->g, n, 1, axes, PH_RANK_MAX, &count, NULL)) {
        ph_oo_none(o, n, "axes that are no constant");
        return;
    }
    ph_onnx_attr own[2] = {PH_OO_INT("keepdims", ph_node_int(n, "keepdims", 1)),
                           PH_OO_INTS("axes", axes, (size_t)count)};
    if (!count && ph_node_int(n, "noop_with_empty_axes", 0))
        ph_oo_none(o, n, "a reduction over no axis");
    else
        ph_oo_emit(o, n, "", n->op->name, PH_OO_IN(ph_oo_in(o, n, 0)), own, count ? 2 : 1);
}

/* ---- scattering ---- */

int ph_scatter_kind(const ph_node *n) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    for (int i = 0; i < 5; i++)
        if (!strcmp(ph_node_text(n, "reduction", "none"), names[i])) return i;
    return -1;
}

void ph_scatter_put(ph_array *out, int64_t to, const ph_array *updates, int64_t i, int kind) {
    if (out->dtype == PH_F32) {
        float *y = (float *)out->data + to, x = ((const float *)updates->data)[i];
        *y = kind == 1   ? *y + x
             : kind == 2 ? *y * x
             : kind == 3 ? (x > *y ? x : *y)
             : kind == 4 ? (x < *y ? x : *y)
                         : x;
        return;
    }
    uint64_t y = (uint64_t)ph_int_at(out, to), x = (uint64_t)ph_int_at(updates, i);
    int      more = (int64_t)x > (int64_t)y;
    ph_int_put(out, to,
               (int64_t)(kind == 1   ? y + x
                         : kind == 2 ? y * x
                         : kind == 3 ? (more ? x : y)
                         : kind == 4 ? (more ? y : x)
                                     : x));
}

/* ---- lists of sizes ---- */

/* mul * product of the witnesses' dimensions to their powers / div + add. */
static int size_of(const ph_graph *g, const ph_node *n, const int64_t *axes, const int64_t *powers,
                   int64_t mul, int64_t div, int64_t add, ph_dim *out) {
    ph_dim d = ph_dim_of(mul);
    for (int k = 0; k < n->n_in; k++) {
        const ph_value *v = ph_in(g, n, k);
        if (!v || axes[k] < 0 || axes[k] >= v->shape.rank || powers[k] < 0 || powers[k] > 8) return 0;
        for (int64_t p = 0; p < powers[k]; p++)
            if (!ph_dim_mul(d, v->shape.dim[axes[k]], &d)) return 0;
    }
    if (div != 1) {
        if (div < 1 || d.add || __builtin_mul_overflow(d.div, div, &d.div)) return 0;
        if (!ph_dim_mul(d, ph_dim_of(1), &d)) return 0; /* to the normal form */
    }
    if (!ph_dim_is_fixed(d)) return ph_dim_add(d, ph_dim_of(add), out);
    if (__builtin_add_overflow(d.mul, add, &add)) return 0;
    *out = ph_dim_of(add);
    return 1;
}

ph_rc ph_sizes_read(const ph_graph *g, const ph_node *n, ph_dim *out, int max, int *count, ph_err *err) {
    size_t         axes_n, mul_n, div_n, add_n, powers_n, k = (size_t)n->n_in;
    const int64_t *axes = ph_node_ints(n, "axes", &axes_n), *mul = ph_node_ints(n, "mul", &mul_n),
                  *div = ph_node_ints(n, "div", &div_n), *add = ph_node_ints(n, "add", &add_n),
                  *powers = ph_node_ints(n, "powers", &powers_n);
    if (axes_n != k || mul_n != div_n || mul_n != add_n || powers_n != mul_n * k || mul_n > (size_t)max)
        return PH_FAIL(err, PH_EMISMATCH,
                       "Sizes: %zu witnesses, %zu axes, %zu numbers, %zu powers; at most %d", k, axes_n,
                       mul_n, powers_n, max);
    for (size_t i = 0; i < mul_n; i++)
        if (!size_of(g, n, axes, powers + i * k, mul[i], div[i], add[i], &out[i]))
            return PH_FAIL(err, PH_EMISMATCH, "Sizes: number %zu is no size", i);
    *count = (int)mul_n;
    return PH_OK;
}

ph_rc ph_const_dims(const ph_graph *g, const ph_node *n, int i, ph_dim *out, int max, int *count,
                    ph_err *err) {
    const ph_value *v = ph_in(g, n, i);
    int64_t         list[PH_RANK_MAX * 4];
    if (max > (int)(sizeof list / sizeof *list)) max = (int)(sizeof list / sizeof *list);
    if (v && v->producer >= 0 && (size_t)v->producer < g->n_nodes &&
        !strcmp(g->node[v->producer].op->name, "Sizes"))
        return ph_sizes_read(g, &g->node[v->producer], out, max, count, err);
    PH_TRY(ph_const_ints(g, n, i, list, max, count, err));
    for (int k = 0; k < *count; k++) out[k] = ph_dim_of(list[k]);
    return PH_OK;
}
