/* sparse.h - block masks of SparseAttention, and its arithmetic for one block of queries: what its
 * definition, its lowering and its pass share.
 *
 * A mask [T, S] is cut into squares of `block` by `block`, those at the edges smaller; a square is met whole
 * or not at all.  Two layouts, of which a pass takes the one with fewer bytes:
 *     map      bool [Tb, Sb], 1 where met: a byte a square
 *     lists    CSR: columns i32 [n] and offsets i32 [Tb + 1]: row r meets columns[offsets[r] .. offsets[r + 1])
 */
#ifndef PH_GRAPH_SPARSE_H
#define PH_GRAPH_SPARSE_H

#include "graph/op.h"

#define PH_SPARSE_BLOCK    8
#define PH_SPARSE_SPARSITY 0.7

typedef struct ph_blocks {
    int64_t              block, rows, cols; /* Tb, Sb */
    int64_t              n;                 /* squares met */
    int64_t              keys;              /* S */
    const unsigned char *map;               /* or NULL: lists; bytes at any address */
    const unsigned char *columns, *offsets; /* i32 each */
} ph_blocks;

/* The mask of the node, for T queries and S keys.
 * Errors: PH_EUNSUP it is no constant; PH_EMISMATCH a block outside 1 .. 64, a sparsity outside [0, 1) or
 * above what the mask has, a shape that does not cover [T, S], offsets or columns that cannot be. */
ph_rc ph_blocks_of(const ph_graph *g, const ph_node *n, int64_t t, int64_t s, ph_blocks *out, ph_err *err);
/* The next column that row meets, -1 past the last.  *at: 0 for the first. */
int64_t ph_blocks_next(const ph_blocks *b, int64_t row, int64_t *at);

/* Attention of one head's block `row` of queries: q [T, d], kt [d, S], v [S, dv], y [T, dv], dense.
 * Squares are absorbed in order, as many at a time as make 64 keys.
 * memory: ph_sparse_floats floats, private to the caller. */
typedef struct ph_sparse {
    ph_blocks blocks;
    size_t    t, d, dv;
    float     scale;
} ph_sparse;
size_t ph_sparse_floats(int64_t block, size_t d, size_t dv);
void ph_sparse_rows(const ph_kernels *k, const ph_sparse *a, const float *q, const float *kt, const float *v,
                    float *y, int64_t row, float *memory);

#endif
