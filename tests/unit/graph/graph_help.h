/* graph_help.h - what the tests of graph/ share. */
#ifndef PH_TESTS_GRAPH_HELP_H
#define PH_TESTS_GRAPH_HELP_H

#include "graph/op.h"

#include <string.h>

/* The reference kernels, whatever the processor. */
static inline ph_kernels gh_kernels(void) {
    ph_kernels k = {0};
    ph_kernels_init(&k, 0);
    return k;
}

static inline ph_array gh_array(ph_dtype dtype, void *data, int rank, int64_t a, int64_t b, int64_t c,
                                int64_t d) {
    return (ph_array){.data = data, .dtype = dtype, .rank = rank, .dim = {a, b, c, d}};
}

/* A small generator, the same everywhere. */
static inline uint32_t gh_next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
static inline int gh_below(uint64_t *state, int n) {
    return (int)(gh_next(state) % (uint32_t)n);
}
static inline float gh_float(uint64_t *state) {
    return (float)((double)gh_next(state) / 2147483648.0 * 2 - 1);
}
static inline void gh_fill(float *x, size_t n, uint64_t *state) {
    for (size_t i = 0; i < n; i++) x[i] = gh_float(state);
}

#define GH_D(n) ph_dim_of(n)
#define GH_S(s) ph_dim_sym(PH_SYM_##s)

#endif
