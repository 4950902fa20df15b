/* op_help.c - what operator files share.  See op_help.h. */
#include "graph/op/op_help.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

const ph_value *ph_in(const ph_graph *g, const ph_node *n, int i) {
    return i < n->n_in && n->in[i] >= 0 ? &g->value[n->in[i]] : NULL;
}

ph_rc ph_want(const ph_graph *g, const ph_node *n, int i, ph_dtype dtype, int rank, ph_err *err) {
    const ph_value *v = ph_in(g, n, i);
    char            text[128];
    if (!v) return PH_FAIL(err, PH_EMISMATCH, "%s needs its input %d", n->op->name, i);
    if (v->cls == PH_VALUE_STATE)
        return PH_FAIL(err, PH_EMISMATCH, "%s: input %d (%s) is a state, no array", n->op->name, i, v->name);
    if (v->dtype != dtype)
        return PH_FAIL(err, PH_EMISMATCH, "%s: input %d (%s) is %s, not %s", n->op->name, i, v->name,
                       ph_dtype_name(v->dtype), ph_dtype_name(dtype));
    ph_graph_shape_print(g, &v->shape, text, sizeof text);
    if (rank >= 0 && v->shape.rank != rank)
        return PH_FAIL(err, PH_EMISMATCH, "%s: input %d (%s) has shape %s, not rank %d", n->op->name, i,
                       v->name, text, rank);
    return PH_OK;
}

ph_rc ph_want_int(const ph_node *n, const char *name, int64_t only, ph_err *err) {
    int64_t given = ph_node_int(n, name, only);
    if (given == only) return PH_OK;
    return PH_FAIL(err, PH_EUNSUP, "%s: %s is %" PRId64 "; only %" PRId64 " is done", n->op->name, name,
                   given, only);
}

ph_rc ph_want_index(const ph_graph *g, const ph_node *n, int i, ph_err *err) {
    const ph_value *v = ph_in(g, n, i);
    return ph_want(g, n, i, v && v->dtype == PH_I32 ? PH_I32 : PH_I64, -1, err);
}

ph_rc ph_axis(int64_t axis, int rank, int *out, ph_err *err) {
    if (axis < -rank || axis >= rank)
        return PH_FAIL(err, PH_EMISMATCH, "axis %" PRId64 " of an array of rank %d", axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return PH_OK;
}

ph_rc ph_disagree(const ph_graph *g, const ph_shape *a, const ph_shape *b, const char *why, ph_err *err) {
    char one[120], two[120];
    ph_graph_shape_print(g, a, one, sizeof one);
    ph_graph_shape_print(g, b, two, sizeof two);
    return PH_FAIL(err, PH_EMISMATCH, "shapes %s and %s: %s", one, two, why);
}

ph_rc ph_broadcast(const ph_graph *g, const ph_shape *a, const ph_shape *b, ph_shape *out, ph_err *err) {
    const ph_dim one = ph_dim_of(1);
    int          rank = a->rank > b->rank ? a->rank : b->rank;
    ph_shape     r = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        int    ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        ph_dim da = ia < 0 ? one : a->dim[ia], db = ib < 0 ? one : b->dim[ib];
        if (!ph_dim_same(da, db) && !ph_dim_same(da, one) && !ph_dim_same(db, one))
            return ph_disagree(g, a, b, "they do not broadcast", err);
        r.dim[i] = ph_dim_same(da, one) ? db : da;
    }
    *out = r;
    return PH_OK;
}

static int64_t whole_at(ph_dtype t, const void *bytes, int64_t i) {
    size_t   item = ph_dtype_bytes(t);
    uint64_t raw = 0;
    int      shift = 64 - 8 * (int)item;
    memcpy(&raw, (const char *)bytes + (size_t)i * item, item); /* little-endian: the low bytes */
    if (t == PH_I8 || t == PH_I16 || t == PH_I32) return (int64_t)(raw << shift) >> shift;
    return (int64_t)raw;
}

ph_rc ph_const_ints(const ph_graph *g, const ph_node *n, int i, int64_t *out, int max, int *count,
                    ph_err *err) {
    const ph_value *v = ph_in(g, n, i);
    int64_t         have = 0;
    if (!v || v->cls != PH_VALUE_CONSTANT || v->storage.n_planes != 1 || v->storage.dtype != v->dtype ||
        (v->dtype != PH_I64 && v->dtype != PH_I32) || v->shape.rank > 1)
        return PH_FAIL(err, PH_EUNSUP, "%s: input %d must be a constant list of i64 or i32", n->op->name, i);
    PH_TRY(ph_shape_count(&v->shape, NULL, &have, err));
    if (have && !v->storage.plane[0].bytes)
        return PH_FAIL(err, PH_EUNSUP, "%s: input %d is a constant without numbers", n->op->name, i);
    if (have > max)
        return PH_FAIL(err, PH_ELIMIT, "%s: input %d has %" PRId64 " numbers, at most %d", n->op->name, i,
                       have, max);
    for (int64_t k = 0; k < have; k++) out[k] = whole_at(v->dtype, v->storage.plane[0].bytes, k);
    *count = (int)have;
    return PH_OK;
}

void ph_infer_set(ph_value *out, ph_dtype dtype, const ph_shape *shape) {
    out->dtype = dtype;
    out->shape = *shape;
}

ph_rc ph_infer_same(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    ph_infer_set(&out[0], PH_F32, &ph_in(g, n, 0)->shape);
    return PH_OK;
}

void ph_int_put(ph_array *a, int64_t i, int64_t v) {
    size_t item = ph_dtype_bytes(a->dtype); /* little-endian: the low bytes come first */
    memcpy((char *)a->data + (size_t)i * item, &v, item);
}

int64_t ph_span(const ph_array *a, int first, int last) {
    int64_t n = 1;
    for (int i = first; i < last; i++) n *= a->dim[i];
    return n;
}

ph_rc ph_scratch(float **out, int64_t n, const ph_eval *e, ph_err *err) {
    void *p;
    *out = NULL;
    if (n < 0) return PH_FAIL(err, PH_ELIMIT, "scratch of %" PRId64 " numbers", n);
    PH_TRY(ph_arena_carve(e->scratch, &p, (size_t)n, sizeof(float), err));
    *out = p;
    return PH_OK;
}

/* A read-only view in a field that eval may only read. */
static void *borrow(const void *p) {
    return (void *)(uintptr_t)p;
}

ph_rc ph_dense(ph_array *out, const ph_array *in, const ph_eval *e, ph_err *err) {
    *out = *in;
    if (in->data || !in->storage) return PH_OK;
    const ph_plane *plane = &in->storage->plane[PH_PLANE_DATA];
    int64_t         count = ph_array_count(in), cols = in->rank ? in->dim[in->rank - 1] : 1;
    size_t          item = ph_dtype_bytes(in->dtype), row_bytes;
    int             is_plain = in->storage->dtype == in->dtype && !in->storage->form;
    void           *copy;
    if (count && ((in->storage->n_planes != 1 && !in->storage->form) || !plane->bytes))
        return PH_FAIL(err, PH_EUNSUP, "a constant has no bytes that can be read as one plane");
    PH_TRY(ph_dtype_row_bytes(in->storage->dtype, cols, &row_bytes, err));
    if (is_plain && plane->row_stride == row_bytes && (uintptr_t)plane->bytes % item == 0) {
        out->data = borrow(plane->bytes);
        return PH_OK;
    }
    if (!is_plain && in->dtype != PH_F32)
        return PH_FAIL(err, PH_EUNSUP, "a constant stored as %s read as %s",
                       ph_dtype_name(in->storage->dtype), ph_dtype_name(in->dtype));
    PH_TRY(ph_arena_carve(e->scratch, &copy, (size_t)count, item, err));
    for (int64_t r = 0; cols && r < count / cols; r++) {
        if (is_plain)
            memcpy((char *)copy + (size_t)r * row_bytes,
                   (const char *)plane->bytes + (size_t)r * plane->row_stride, row_bytes);
        else
            ph_storage_row(in->storage, (size_t)r, (size_t)cols, (float *)copy + r * cols);
    }
    out->data = copy;
    return PH_OK;
}

ph_rc ph_floats(const float **out, const ph_array *in, const ph_eval *e, ph_err *err) {
    ph_array dense;
    *out = NULL;
    PH_TRY(ph_dense(&dense, in, e, err));
    *out = dense.data;
    return PH_OK;
}

int64_t ph_int_at(const ph_array *dense, int64_t i) {
    return whole_at(dense->dtype, dense->data, i);
}

ph_walk ph_walk_over(const ph_array *out) {
    ph_walk w = {.rank = out->rank};
    memcpy(w.dim, out->dim, sizeof w.dim);
    return w;
}

void ph_walk_add(ph_walk *w, const ph_array *a) {
    int64_t step = 1;
    for (int i = a->rank - 1, o = w->rank - 1; i >= 0; i--, o--) {
        w->stride[w->n][o] = a->dim[i] == 1 ? 0 : step;
        step *= a->dim[i];
    }
    w->n++;
}

void ph_walk_next(ph_walk *w) {
    for (int d = w->rank - 1; d >= 0; d--) {
        w->index[d]++;
        for (int k = 0; k < w->n; k++) w->at[k] += w->stride[k][d];
        if (w->index[d] < w->dim[d]) return;
        for (int k = 0; k < w->n; k++) w->at[k] -= w->stride[k][d] * w->dim[d];
        w->index[d] = 0;
    }
}

ph_rc ph_infer_binary(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *a = ph_in(g, n, 0), *b = ph_in(g, n, 1);
    ph_shape        shape;
    ph_dtype        t = ph_dtype_get(a->dtype)->pack || a->dtype == PH_BOOL ? PH_F32 : a->dtype;
    PH_TRY(ph_want(g, n, 0, t, -1, err));
    PH_TRY(ph_want(g, n, 1, t, -1, err));
    PH_TRY(ph_broadcast(g, &a->shape, &b->shape, &shape, err));
    ph_infer_set(&out[0], t, &shape);
    return PH_OK;
}

static ph_rc whole_binary(const ph_array *a, const ph_array *b, ph_array *out, const ph_binary *f, ph_walk *w,
                          ph_err *err) {
    int64_t count = ph_array_count(out);
    for (int64_t i = 0; i < count; i++, ph_walk_next(w)) {
        int64_t r;
        if (!f->whole(ph_int_at(a, w->at[0]), ph_int_at(b, w->at[1]), &r))
            return PH_FAIL(err, PH_EFORMAT,
                           "element %" PRId64 " of %" PRId64 ": a whole number divided by zero", i, count);
        ph_int_put(out, i, r);
    }
    return PH_OK;
}

ph_rc ph_eval_binary(const ph_array *in, ph_array *out, const ph_binary *f, const ph_eval *e, ph_err *err) {
    ph_array a, b;
    int64_t  count = ph_array_count(out);
    PH_TRY(ph_dense(&a, &in[0], e, err));
    PH_TRY(ph_dense(&b, &in[1], e, err));
    ph_walk w = ph_walk_over(out);
    ph_walk_add(&w, &a);
    ph_walk_add(&w, &b);
    if (out->dtype != PH_F32) return whole_binary(&a, &b, out, f, &w, err);
    const float *x = a.data, *y = b.data;
    for (int64_t i = 0; i < count; i++, ph_walk_next(&w))
        ((float *)out->data)[i] = f->real(x[w.at[0]], y[w.at[1]]);
    return PH_OK;
}

ph_rc ph_eval_unary(const ph_array *in, ph_array *out, ph_unary_fn *f, const ph_eval *e, ph_err *err) {
    const float *x;
    PH_TRY(ph_floats(&x, in, e, err));
    f(out->data, x, (size_t)ph_array_count(out));
    return PH_OK;
}

ph_rc ph_eval_reshape(const ph_array *in, ph_array *out, const ph_eval *e, ph_err *err) {
    ph_array dense;
    int64_t  have = ph_array_count(in), want = ph_array_count(out);
    PH_TRY(ph_dense(&dense, in, e, err));
    if (have != want)
        return PH_FAIL(err, PH_EMISMATCH, "%" PRId64 " numbers cannot take a shape of %" PRId64, have, want);
    if (have) memcpy(out->data, dense.data, (size_t)have * ph_dtype_bytes(out->dtype));
    return PH_OK;
}
