/* low_sparse.c - SparseAttention: blocks of queries meet the squares of keys that their row of the mask
 * lists.
 *
 * A unit is one head and some blocks of queries.  A block's squares are packed 64 keys at a time into the
 * worker's memory, unless they stand side by side already; a query's bits do not depend on the unit.
 */
#include "engine/native/native.h"
#include "graph/sparse.h"

#include <math.h>
#include <string.h>

enum { PIECE_MACS = 6 * PH_UNIT_MACS }; /* of a unit */

typedef struct sparse {
    int       q, kt, v, y, value; /* buffers; the value of q */
    ph_sparse a;
    size_t    heads, piece, pieces; /* of this run: heads of all batches; blocks of queries of a unit */
} sparse;

static int can(const ph_graph *g, int node) {
    const ph_node *n = &g->node[node];
    if (strcmp(n->op->name, "SparseAttention")) return 0;
    for (int i = 0; i < 3; i++)
        if (g->value[n->in[i]].cls != PH_VALUE_TEMP && g->value[n->in[i]].cls != PH_VALUE_INPUT) return 0;
    return 1;
}

static ph_rc scratch(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out, ph_err *err) {
    const sparse *x = s->data;
    (void)p, (void)size, (void)err;
    *out = ph_sparse_floats(x->a.blocks.block, x->a.d, x->a.dv) * sizeof(float);
    return PH_OK;
}

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    sparse *x = s->data;
    (void)err;
    size_t rows = (size_t)x->a.blocks.rows, block = (size_t)x->a.blocks.block;
    size_t mean = rows ? (size_t)x->a.blocks.n / rows + 1 : 1; /* squares of a row */
    size_t cost = mean * block * block * (x->a.d + x->a.dv);
    x->heads = ph_native_count(p, p->size, x->value, 0, 2);
    x->piece = cost < PIECE_MACS ? PIECE_MACS / cost : 1;
    x->pieces = (rows + x->piece - 1) / x->piece;
    s->units = x->heads * x->pieces;
    return PH_OK;
}

static void work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const sparse *x = s->data;
    size_t        t = x->a.t, keys = (size_t)x->a.blocks.keys, rows = (size_t)x->a.blocks.rows;
    for (size_t u = begin; u < end; u++) {
        size_t head = u / x->pieces, r = u % x->pieces * x->piece;
        size_t last = r + x->piece < rows ? r + x->piece : rows;
        for (; r < last; r++)
            ph_sparse_rows(ph_native_kernels(p), &x->a,
                           (const float *)ph_native_at(p, x->q) + head * t * x->a.d,
                           (const float *)ph_native_at(p, x->kt) + head * x->a.d * keys,
                           (const float *)ph_native_at(p, x->v) + head * keys * x->a.dv,
                           (float *)ph_native_at(p, x->y) + head * t * x->a.dv, (int64_t)r,
                           (float *)(void *)hand->memory);
    }
}

static const ph_step_kind kind = {.name = "sparse", .scratch = scratch, .prepare = prepare, .work = work};

static ph_rc lower(ph_builder *b, int node, int *took, ph_err *err) {
    const ph_node  *n = &b->g->node[node];
    const ph_shape *q, *v;
    void           *place;
    if (!can(b->g, node)) return PH_OK;
    *took = 1;
    q = &b->g->value[n->in[0]].shape;
    v = &b->g->value[n->in[2]].shape;
    PH_TRY(ph_build_carve(b, &place, 1, sizeof(sparse), err));
    sparse *x = place;
    x->value = n->in[0];
    x->a = (ph_sparse){.t = (size_t)q->dim[2].mul, .d = (size_t)q->dim[3].mul, .dv = (size_t)v->dim[3].mul};
    x->a.scale = (float)ph_node_float(n, "scale", 1 / sqrt((double)x->a.d));
    PH_TRY(ph_blocks_of(b->g, n, q->dim[2].mul, v->dim[2].mul, &x->a.blocks, err));
    PH_TRY(ph_build_buffer(b, n->in[0], &x->q, err));
    PH_TRY(ph_build_buffer(b, n->in[1], &x->kt, err));
    PH_TRY(ph_build_buffer(b, n->in[2], &x->v, err));
    PH_TRY(ph_build_buffer(b, n->out[0], &x->y, err));
    const int reads[3] = {x->q, x->kt, x->v};
    return ph_build_step(b, &kind, node, x, reads, 3, &x->y, 1, -1, err);
}

const ph_lowering ph_lowering_sparse = {.name = "sparse", .lower = lower, .can = can};
