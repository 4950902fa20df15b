/* adapters.h - AdapterDispatch: which low-rank adapter a token has, and what it adds to a row. */
#ifndef PH_GRAPH_ADAPTERS_H
#define PH_GRAPH_ADAPTERS_H

#include "graph/op.h"

enum {
    PH_ADAPTER_BASE, /* inputs: base, x, ids, then A and B of each adapter */
    PH_ADAPTER_X,
    PH_ADAPTER_IDS,
    PH_ADAPTER_A,
    PH_ADAPTERS_MAX = 64,
    PH_ADAPTER_TOKEN = 32000 /* [IMG], where one adapter names no tokens */
};

typedef struct ph_adapters {
    int     n;
    int64_t first[PH_ADAPTERS_MAX], last[PH_ADAPTERS_MAX]; /* tokens, both included */
    float   scale[PH_ADAPTERS_MAX];
    int64_t rank_max;
} ph_adapters;

/* Errors: PH_EMISMATCH pairs, shapes, ranges that overlap or are turned round, scales that are not finite. */
ph_rc ph_adapters_of(const ph_graph *g, const ph_node *n, ph_adapters *out, ph_err *err);
int   ph_adapter_for(const ph_adapters *a, int64_t token); /* -1: none */

/* A matrix as it is given: dense floats, or a storage. */
typedef struct ph_adapter_side {
    const float      *data; /* or NULL */
    const ph_storage *storage;
    size_t            rows, cols;
} ph_adapter_side;
/* y[rows, N] = base + scale * (x A^T) B^T.  memory: ph_adapter_floats(rows, K, rank, N) floats, private. */
size_t ph_adapter_floats(size_t rows, size_t k, size_t rank, size_t n);
void   ph_adapter_add(const ph_kernels *k, const ph_adapter_side *a, const ph_adapter_side *b, float scale,
                      float *y, const float *base, const float *x, size_t rows, float *memory);

#endif
