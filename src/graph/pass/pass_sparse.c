/* pass_sparse.c - attention whose constant mask hides whole squares, mostly: SparseAttention leaves them out.
 *
 *     q, kt ─ MatMul ─ (Mul | Div by a number)? ─ (Add mask | Where mask) ─ Softmax ─ MatMul ◄─ v
 *
 * The mask is a constant [T, S] (ones in front of it do not matter): numbers that are 0 or -1e9 and below, or
 * bools with such a number to put in.  Squares are those of the operator's default.  At least half of them
 * are hidden, else dense products of many rows are faster.  The last bits change: sums go by squares.
 */
#include "graph/modal.h"
#include "graph/pass.h"
#include "graph/sparse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Added to any score it leaves nothing of its weight: e^-1e9 is 0 beside scores that are no wider apart. */
#define HIDING (-1e9F)

typedef struct found {
    int    q, kt, v;
    int    node[4], n; /* that go: scores, scale, mask, softmax */
    double scale;
    int    mask, is_where, keeps; /* value; keeps: what a true bool does with the score */
    float  fill;                  /* of Where */
} found;

static int is_here(const ph_graph *g, int at, const char *op) {
    return at >= 0 && !ph_pass_is_dropped(&g->node[at]) && !strcmp(g->node[at].op->name, op);
}

/* The maker of a value that goes: nobody else reads it, nobody asked for it, and it is of the same modality.
 */
static int own_maker(const ph_graph *g, const ph_pass_env *env, int value, const ph_node *last) {
    int at = value < 0 ? -1 : g->value[value].producer;
    if (at < 0 || ph_pass_is_dropped(&g->node[at]) || g->node[at].modality != last->modality ||
        ph_pass_must_survive(g, env, value) || ph_modal_readers(g, value) != 1 ||
        g->value[value].shape.rank != 4)
        return -1;
    return at;
}

static int is_dense(const ph_value *v, ph_dtype t) {
    return v->cls == PH_VALUE_CONSTANT && v->dtype == t && v->storage.dtype == t && !v->storage.form &&
           v->storage.plane[0].bytes;
}

static int one_number(const ph_graph *g, int value, double *out) {
    int64_t count;
    float   x;
    if (value < 0 || !is_dense(&g->value[value], PH_F32) ||
        ph_shape_count(&g->value[value].shape, NULL, &count, NULL) || count != 1)
        return 0;
    memcpy(&x, g->value[value].storage.plane[0].bytes, sizeof x);
    *out = (double)x;
    return 1;
}

/* Is it [T, S], with nothing but ones in front? */
static int is_mask(const ph_graph *g, int value, const ph_shape *scores, ph_dtype t) {
    if (value < 0 || !is_dense(&g->value[value], t)) return 0;
    const ph_shape *s = &g->value[value].shape;
    for (int i = 0; i < s->rank; i++)
        if (!ph_dim_same(s->dim[i], i + 2 < s->rank ? ph_dim_of(1) : scores->dim[4 - s->rank + i])) return 0;
    return s->rank >= 2 && s->rank <= 4 && ph_dim_is_fixed(scores->dim[2]) && ph_dim_is_fixed(scores->dim[3]);
}

/* The node that masks: *scores is what it masks. */
static int read_mask(const ph_graph *g, const ph_node *n, found *f, int *scores) {
    const ph_shape *s = &g->value[n->out[0]].shape;
    double          fill;
    f->is_where = !strcmp(n->op->name, "Where");
    if (!f->is_where) {
        if (strcmp(n->op->name, "Add")) return 0;
        int at = is_mask(g, n->in[1], s, PH_F32) ? 1 : 0;
        f->mask = n->in[at];
        *scores = n->in[1 - at];
        return is_mask(g, f->mask, s, PH_F32);
    }
    f->mask = n->in[0];
    f->keeps = one_number(g, n->in[2], &fill);
    if (!is_mask(g, f->mask, s, PH_BOOL) || (!f->keeps && !one_number(g, n->in[1], &fill))) return 0;
    f->fill = (float)fill;
    *scores = n->in[f->keeps ? 1 : 2];
    return f->fill <= HIDING;
}

/* A factor on the scores, if there is one: *scores moves before it. */
static void read_scale(const ph_graph *g, const ph_pass_env *env, const ph_node *last, found *f,
                       int *scores) {
    int    at = own_maker(g, env, *scores, last);
    double by;
    f->scale = 1;
    if (!is_here(g, at, "Mul") && !is_here(g, at, "Div")) return;
    int is_div = is_here(g, at, "Div"), side = !is_div && one_number(g, g->node[at].in[0], &by) ? 0 : 1;
    if (!one_number(g, g->node[at].in[side], &by) || !isfinite(by) || (is_div && !(by < 0 || by > 0))) return;
    f->scale = is_div ? 1 / by : by;
    *scores = g->node[at].in[1 - side];
    f->node[f->n++] = at;
}

static int read_all(const ph_graph *g, const ph_pass_env *env, const ph_node *last, found *f) {
    int scores = -1;
    *f = (found){.v = -1};
    if (ph_pass_is_dropped(last) || strcmp(last->op->name, "MatMul") ||
        g->value[last->out[0]].shape.rank != 4)
        return 0;
    int soft = own_maker(g, env, last->in[0], last);
    if (!is_here(g, soft, "Softmax")) return 0;
    int64_t axis = ph_node_int(&g->node[soft], "axis", -1);
    int     mask = own_maker(g, env, g->node[soft].in[0], last);
    if ((axis != -1 && axis != 3) || mask < 0 || !read_mask(g, &g->node[mask], f, &scores)) return 0;
    read_scale(g, env, last, f, &scores);
    int product = own_maker(g, env, scores, last);
    if (!is_here(g, product, "MatMul")) return 0;
    f->q = g->node[product].in[0], f->kt = g->node[product].in[1], f->v = last->in[1];
    /* One row or column of scores may be repeated by the mask, which the operator does not do. */
    if (!ph_shape_same(&g->value[g->node[product].out[0]].shape, &g->value[g->node[mask].out[0]].shape))
        return 0;
    f->node[f->n++] = soft, f->node[f->n++] = mask, f->node[f->n++] = product;
    const int in[3] = {f->q, f->kt, f->v};
    for (int i = 0; i < 3; i++) {
        const ph_shape *s = &g->value[in[i]].shape, *q = &g->value[f->q].shape;
        if (s->rank != 4 || !ph_dim_same(s->dim[0], q->dim[0]) || !ph_dim_same(s->dim[1], q->dim[1]) ||
            !ph_dim_is_fixed(s->dim[2]) || !ph_dim_is_fixed(s->dim[3]))
            return 0;
    }
    return g->value[f->q].shape.dim[3].mul > 0;
}

/* What the mask does with score i: 1 keeps it, 0 hides it, -1 neither; *is_sure: even where all are hidden.
 */
static int is_met(const ph_graph *g, const found *f, int64_t i, int *is_sure) {
    const char *bytes = g->value[f->mask].storage.plane[0].bytes;
    float       x = f->fill;
    if (f->is_where) {
        int keeps = (bytes[i] != 0) == f->keeps;
        if (keeps) return 1;
    } else {
        memcpy(&x, bytes + (size_t)i * sizeof x, sizeof x);
        if (!(x < 0 || x > 0) && !isnan(x)) return 1;
    }
    if (!(x <= HIDING)) return -1;
    *is_sure &= isinf(x) != 0;
    return 0;
}

/* Squares of the mask into map [rows * cols]; how many are met, or -1: it is no block mask. */
static int64_t squares_of(const ph_graph *g, const found *f, int64_t t, int64_t s, unsigned char *map) {
    int64_t rows = (t + PH_SPARSE_BLOCK - 1) / PH_SPARSE_BLOCK,
            cols = (s + PH_SPARSE_BLOCK - 1) / PH_SPARSE_BLOCK;
    int64_t n = 0;
    int     is_sure = 1, is_empty = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t before = n;
        for (int64_t c = 0; c < cols; c++) {
            int is = is_met(g, f, r * PH_SPARSE_BLOCK * s + c * PH_SPARSE_BLOCK, &is_sure);
            for (int64_t y = r * PH_SPARSE_BLOCK; y < t && y < (r + 1) * PH_SPARSE_BLOCK; y++)
                for (int64_t x = c * PH_SPARSE_BLOCK; x < s && x < (c + 1) * PH_SPARSE_BLOCK; x++)
                    if (is < 0 || is_met(g, f, y * s + x, &is_sure) != is) return -1;
            map[r * cols + c] = (unsigned char)is;
            n += is;
        }
        is_empty |= n == before;
    }
    return is_empty && !is_sure ? -1 : n; /* of nothing but large numbers softmax makes weights again */
}

/* Lists where they take fewer bytes than a map. */
static int put_lists(ph_graph *g, const char *name, const unsigned char *map, int64_t rows, int64_t cols,
                     int64_t n, int in[5]) {
    char     as[300];
    int32_t *list = malloc(((size_t)(n + rows) + 1) * sizeof *list), *offsets = list + n;
    if (!list) return 0;
    int32_t at = 0;
    for (int64_t r = 0; r < rows; r++) {
        offsets[r] = at;
        for (int64_t c = 0; c < cols; c++)
            if (map[r * cols + c]) list[at++] = (int32_t)c;
    }
    offsets[rows] = at;
    snprintf(as, sizeof as, "%.250s.columns", name);
    in[3] = ph_graph_constant(g, as, PH_I32, ph_shape_of(1, ph_dim_of(n)), list);
    snprintf(as, sizeof as, "%.250s.offsets", name);
    in[4] = ph_graph_constant(g, as, PH_I32, ph_shape_of(1, ph_dim_of(rows + 1)), offsets);
    free(list);
    return 1;
}

static ph_rc rewrite(ph_graph *g, size_t at, const found *f, const unsigned char *map, int64_t rows,
                     int64_t cols, int64_t n, ph_err *err) {
    const char *name = g->value[g->node[at].out[0]].name;
    char        as[300];
    void       *in, *attr;
    int         ins[5] = {f->q, f->kt, f->v, -1, -1};
    if ((size_t)(n + rows + 1) * sizeof(int32_t) < (size_t)(rows * cols)) {
        if (!put_lists(g, name, map, rows, cols, n, ins))
            return PH_FAIL(err, PH_ENOMEM, "%lld squares", (long long)n);
    } else {
        snprintf(as, sizeof as, "%.250s.squares", name);
        ins[3] = ph_graph_constant(g, as, PH_BOOL, ph_shape_of(2, ph_dim_of(rows), ph_dim_of(cols)), map);
    }
    if (g->rc) {
        if (err) *err = g->err;
        return g->rc;
    }
    PH_TRY(ph_arena_carve(&g->arena, &in, 5, sizeof(int), err));
    PH_TRY(ph_arena_carve(&g->arena, &attr, 3, sizeof(ph_attr), err));
    const ph_attr all[3] = {PH_INT("block", PH_SPARSE_BLOCK), PH_FLOAT("scale", f->scale),
                            PH_FLOAT("sparsity", 1 - (double)n / (double)(rows * cols))};
    memcpy(in, ins, sizeof ins);
    memcpy(attr, all, sizeof all);
    ph_node *last = &g->node[at];
    last->op = &ph_op_SparseAttention;
    last->in = in, last->n_in = ins[4] < 0 ? 4 : 5;
    last->attr = attr, last->n_attr = 3;
    for (int i = 0; i < f->n; i++) ph_pass_drop(g, (size_t)f->node[i]);
    return PH_OK;
}

static ph_rc try_node(ph_graph *g, size_t at, const found *f, size_t *changes, ph_err *err) {
    int64_t t = g->value[f->q].shape.dim[2].mul, s = g->value[f->kt].shape.dim[3].mul;
    int64_t rows = (t + PH_SPARSE_BLOCK - 1) / PH_SPARSE_BLOCK,
            cols = (s + PH_SPARSE_BLOCK - 1) / PH_SPARSE_BLOCK;
    if (t < 1 || s < 1) return PH_OK;
    unsigned char *map = calloc((size_t)rows, (size_t)cols);
    if (!map) return PH_FAIL(err, PH_ENOMEM, "%lld squares of a mask", (long long)(rows * cols));
    int64_t n = squares_of(g, f, t, s, map);
    ph_rc   rc = PH_OK;
    if (n > 0 && 2 * n <= rows * cols) {
        rc = rewrite(g, at, f, map, rows, cols, n, err);
        ++*changes;
    }
    free(map);
    return rc;
}

static ph_rc run(ph_graph *g, const ph_pass_env *env, size_t *changes, ph_err *err) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        found f;
        if (read_all(g, env, &g->node[i], &f)) PH_TRY(try_node(g, i, &f, changes, err));
    }
    return PH_OK;
}

const ph_pass ph_pass_sparse = {"sparse", "attention of which a mask hides whole squares: SparseAttention",
                                .run = run, .is_rounding = 1, .is_of_meaning = 1};
