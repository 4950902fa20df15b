/* low_move.c - elements that only change their place: Transpose, Slice, Split, Expand, Concat.
 *
 * Each is a nest of loops with a source and a destination stride a loop:
 *
 *     to[d0 + sum i_k dst_k] = from[s0 + sum i_k src_k]
 *
 * Concat is one such step an input, Split one an output.  prepare works the strides out from this
 * run's sizes, drops loops of one and joins neighbours that run on without a
 * gap, so that most end up as long memcpys.  Units are stretches of the flat
 * loop index.
 */
#include "engine/native/native.h"

#include <string.h>

typedef struct loop {
    int64_t count, src, dst; /* strides in elements */
} loop;

typedef struct move {
    int         from, to; /* buffers; from: -1 when it is a constant */
    const void *constant;
    int         from_value, to_value;
    int         is_concat, is_split, axis;
    const int  *before; /* [n_before] Concat: inputs in front of this one; Split: outputs */
    int         n_before;
    int         rank;
    int         walks[PH_RANK_MAX]; /* loop k walks this source axis, or -1: stands still */
    int64_t     start[PH_RANK_MAX], step[PH_RANK_MAX]; /* Slice, by source axis; step 1 otherwise */
    size_t      item;
    /* of this run */
    int     n_loops;
    loop    at[PH_RANK_MAX];
    int64_t src0, dst0;
    size_t  total;
} move;

/* ---- sizes of this run ---- */

static void strides_of(const ph_native *p, int value, int64_t *stride) {
    int     rank = ph_native_graph(p)->value[value].shape.rank;
    int64_t n = 1;
    for (int k = rank - 1; k >= 0; k--) {
        stride[k] = n;
        n *= ph_native_dim(p, p->size, value, k);
    }
}

/* Where a slice begins on an axis of `dim`, as ONNX clamps it. */
static int64_t start_on(int64_t start, int64_t step, int64_t dim) {
    int64_t most = step > 0 ? dim : dim - 1;
    if (start < 0) start += dim;
    if (start < 0) return 0;
    return start > most ? most : start;
}

/* Elements along the axis that belong to the pieces in front of this one. */
static int64_t in_front(const ph_native *p, const move *m) {
    int64_t n = 0;
    for (int i = 0; i < m->n_before; i++) n += ph_native_dim(p, p->size, m->before[i], m->axis);
    return n;
}

/* The first index taken of a source axis; all `count` of them must be there: of a symbolic dimension that
 * shows only now. */
static ph_rc first_on(const ph_native *p, const move *m, int axis, int64_t count, int64_t *first,
                      ph_err *err) {
    int64_t dim = ph_native_dim(p, p->size, m->from_value, axis);
    *first =
        start_on(m->start[axis], m->step[axis], dim) + (m->is_split && axis == m->axis ? in_front(p, m) : 0);
    int64_t last = *first + (count - 1) * m->step[axis];
    if (*first < 0 || *first >= dim || last < 0 || last >= dim)
        return PH_FAIL(err, PH_EMISMATCH, "%lld elements from %lld on, step %lld, of a dimension of %lld",
                       (long long)count, (long long)*first, (long long)m->step[axis], (long long)dim);
    return PH_OK;
}

static void add_loop(move *m, loop l) {
    loop *last = m->n_loops ? &m->at[m->n_loops - 1] : NULL;
    if (l.count == 1) return;
    if (last && last->src == l.src * l.count && last->dst == l.dst * l.count)
        *last = (loop){last->count * l.count, l.src, l.dst};
    else
        m->at[m->n_loops++] = l;
}

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    move   *m = s->data;
    int64_t src[PH_RANK_MAX] = {0}, dst[PH_RANK_MAX] = {0};
    int     counted = m->is_concat ? m->from_value : m->to_value;
    strides_of(p, m->from_value, src);
    strides_of(p, m->to_value, dst);
    m->n_loops = 0;
    m->src0 = m->dst0 = 0;
    m->total = ph_native_items(p, p->size, counted);
    s->units = (m->total + PH_UNIT_ITEMS - 1) / PH_UNIT_ITEMS;
    if (!m->total) return PH_OK;
    if (m->is_concat) m->dst0 = in_front(p, m) * dst[m->axis];
    for (int k = 0; k < m->rank; k++) {
        int     axis = m->walks[k];
        int64_t count = ph_native_dim(p, p->size, counted, k), first = 0;
        if (axis >= 0) PH_TRY(first_on(p, m, axis, count, &first, err));
        m->src0 += axis < 0 ? 0 : first * src[axis];
        /* A slice of one may have any step, which times a stride need not fit. */
        add_loop(m, (loop){count, axis < 0 || count == 1 ? 0 : src[axis] * m->step[axis], dst[k]});
    }
    if (!m->n_loops) m->at[m->n_loops++] = (loop){1, 1, 1};
    return PH_OK;
}

/* ---- work ---- */

static void copy_run(unsigned char *to, const unsigned char *from, const loop *l, size_t n, size_t item) {
    if (l->src == 1 && l->dst == 1) {
        memcpy(to, from, n * item);
        return;
    }
    ptrdiff_t src = (ptrdiff_t)l->src * (ptrdiff_t)item, dst = (ptrdiff_t)l->dst * (ptrdiff_t)item;
    for (size_t i = 0; i < n; i++, to += dst, from += src) {
        if (item == 4)
            memcpy(to, from, 4);
        else
            memcpy(to, from, item);
    }
}

static void work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const move          *m = s->data;
    const loop          *inner = &m->at[m->n_loops - 1];
    const unsigned char *from = m->from < 0 ? m->constant : ph_native_at(p, m->from);
    unsigned char       *to = ph_native_at(p, m->to);
    size_t at = begin * PH_UNIT_ITEMS, stop = end * PH_UNIT_ITEMS < m->total ? end * PH_UNIT_ITEMS : m->total;
    (void)hand;
    while (at < stop) {
        int64_t src = m->src0, dst = m->dst0;
        size_t  rest = at, first = 0, n;
        for (int k = m->n_loops - 1; k >= 0; k--) {
            size_t i = rest % (size_t)m->at[k].count;
            if (k == m->n_loops - 1) first = i;
            src += (int64_t)i * m->at[k].src;
            dst += (int64_t)i * m->at[k].dst;
            rest /= (size_t)m->at[k].count;
        }
        n = (size_t)inner->count - first;
        if (n > stop - at) n = stop - at;
        copy_run(to + dst * (int64_t)m->item, from + src * (int64_t)m->item, inner, n, m->item);
        at += n;
    }
}

static const ph_step_kind kind = {.name = "move", .prepare = prepare, .work = work};

/* ---- which loops ---- */

/* The numbers of a small constant; -1: it is none, or holds too many. */
static int ints_of(const ph_graph *g, const ph_node *n, int i, int64_t *out) {
    if (i >= n->n_in || n->in[i] < 0) return 0;
    const ph_value      *v = &g->value[n->in[i]];
    const unsigned char *bytes = v->storage.plane[PH_PLANE_DATA].bytes;
    if (v->cls != PH_VALUE_CONSTANT || (v->dtype != PH_I64 && v->dtype != PH_I32) || v->shape.rank > 1 ||
        !bytes)
        return -1;
    int64_t count = v->shape.rank ? v->shape.dim[0].mul : 1;
    if (count < 0 || count > PH_RANK_MAX) return -1;
    for (int64_t k = 0; k < count; k++) {
        int32_t narrow;
        if (v->dtype == PH_I64) {
            memcpy(&out[k], bytes + k * 8, 8);
        } else {
            memcpy(&narrow, bytes + k * 4, 4);
            out[k] = narrow;
        }
    }
    return (int)count;
}

static int lay_transpose(const ph_graph *g, const ph_node *n, move *m) {
    size_t         count;
    const int64_t *perm = ph_node_ints(n, "perm", &count);
    int            rank = g->value[n->in[0]].shape.rank;
    if (perm && count != (size_t)rank) return 0;
    for (int k = 0; k < rank; k++) {
        int64_t axis = perm ? perm[k] : rank - 1 - k;
        if (axis < 0 || axis >= rank) return 0;
        m->walks[k] = (int)axis;
    }
    return 1;
}

static int lay_slice(const ph_graph *g, const ph_node *n, move *m) {
    int64_t start[PH_RANK_MAX], axes[PH_RANK_MAX], step[PH_RANK_MAX];
    int     rank = g->value[n->in[0]].shape.rank;
    int n_start = ints_of(g, n, 1, start), n_axes = ints_of(g, n, 3, axes), n_step = ints_of(g, n, 4, step);
    if (n_start < 0 || n_axes < 0 || n_step < 0 || (n_axes && n_axes != n_start) ||
        (n_step && n_step != n_start) || n_start > rank)
        return 0;
    for (int i = 0; i < n_start; i++) {
        int64_t axis = n_axes ? axes[i] : i;
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank || (n_step && !step[i])) return 0;
        m->start[axis] = start[i];
        m->step[axis] = n_step ? step[i] : 1;
    }
    return 1;
}

static int lay_expand(const ph_graph *g, const ph_node *n, move *m) {
    const ph_shape *x = &g->value[n->in[0]].shape, *y = &g->value[n->out[0]].shape;
    for (int k = 0; k < y->rank; k++) {
        int axis = k - (y->rank - x->rank);
        m->walks[k] = axis < 0 || ph_dim_same(x->dim[axis], ph_dim_of(1)) ? -1 : axis;
    }
    return 1;
}

static int is_source(const ph_graph *g, int value) {
    const ph_value *v = &g->value[value];
    if (v->cls == PH_VALUE_STATE) return 0;
    if (v->cls != PH_VALUE_CONSTANT) return 1;
    return ph_build_is_floats(g, value) ||
           ((v->dtype == PH_I64 || v->dtype == PH_I32) && v->storage.n_planes == 1);
}

/* The loops of piece i; 0: not for us. */
static int lay(const ph_graph *g, int node, int i, move *m) {
    const ph_node *n = &g->node[node];
    const char    *op = n->op->name;
    int            is_split = !strcmp(op, "Split"), in = is_split ? 0 : i, out = is_split ? i : 0;
    if (in >= n->n_in || n->in[in] < 0 || n->out[out] < 0 || !is_source(g, n->in[in])) return 0;
    *m = (move){.from = -1, .from_value = n->in[in], .to_value = n->out[out], .is_split = is_split};
    m->rank = g->value[m->to_value].shape.rank;
    m->item = ph_dtype_bytes(g->value[m->to_value].dtype);
    for (int k = 0; k < PH_RANK_MAX; k++) {
        m->walks[k] = k;
        m->step[k] = 1;
    }
    if (!strcmp(op, "Transpose")) return lay_transpose(g, n, m);
    if (!strcmp(op, "Slice")) return lay_slice(g, n, m);
    if (!strcmp(op, "Expand")) return lay_expand(g, n, m);
    m->is_concat = !strcmp(op, "Concat");
    if (!m->is_concat && !is_split) return 0;
    int64_t axis = ph_node_int(n, "axis", 0);
    if (axis < 0) axis += m->rank;
    if (axis < 0 || axis >= m->rank) return 0;
    m->axis = (int)axis;
    m->n_before = i;
    m->before = is_split ? n->out : n->in;
    return 1;
}

static int n_moves(const ph_node *n) {
    if (!strcmp(n->op->name, "Split")) return n->n_out;
    return strcmp(n->op->name, "Concat") ? 1 : n->n_in;
}

static int can(const ph_graph *g, int node) {
    move m;
    for (int i = 0; i < n_moves(&g->node[node]); i++)
        if (!lay(g, node, i, &m)) return 0;
    return 1;
}

static ph_rc add_move(ph_builder *b, int node, int i, ph_err *err) {
    void *place;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(move), err));
    move *m = place;
    lay(b->g, node, i, m);
    const ph_value *from = &b->g->value[m->from_value];
    if (from->cls != PH_VALUE_CONSTANT) {
        PH_TRY(ph_build_buffer(b, m->from_value, &m->from, err));
    } else if (from->dtype == PH_F32) {
        const float *floats;
        PH_TRY(ph_build_floats(b, m->from_value, &floats, err));
        m->constant = floats;
    } else {
        m->constant = from->storage.plane[PH_PLANE_DATA].bytes;
    }
    PH_TRY(ph_build_buffer(b, m->to_value, &m->to, err));
    return ph_build_step(b, &kind, node, m, &m->from, m->from >= 0, &m->to, 1, -1, err);
}

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    if (!can(b->g, node)) return PH_OK;
    *took = 1;
    for (int i = 0; i < n_moves(&b->g->node[node]); i++) PH_TRY(add_move(b, node, i, err));
    return PH_OK;
}

const ph_lowering ph_lowering_move = {.name = "move", .lower = lower, .can = can};
