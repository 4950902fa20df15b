/* modal.c - the parts of multimodal operators that definition and lowering do alike.  See modal.h. */
#include "graph/modal.h"
#include "graph/pass.h"

#include <inttypes.h>
#include <string.h>

enum { POOL_ROWS = 32 };

void ph_modal_pool(const ph_kernels *k, float *mean, float *part, const float *v, size_t rows, size_t n,
                   float alpha) {
    for (size_t e = 0; e < n; e++) mean[e] = 0;
    for (size_t r = 0; r < rows; r += POOL_ROWS) {
        size_t last = rows - r < POOL_ROWS ? rows : r + POOL_ROWS;
        memcpy(part, v + r * n, n * sizeof *part);
        for (size_t i = r + 1; i < last; i++) k->add(part, part, v + i * n, n);
        k->add(mean, mean, part, n);
    }
    if (rows) k->scale(mean, mean, alpha / (float)rows, n);
}

ph_rc ph_modal_segments(const int32_t *segment, int64_t rows, int64_t n, const char *what, ph_err *err) {
    for (int64_t i = 0; i < rows; i++)
        if (segment[2 * i] < 0 || segment[2 * i] > segment[2 * i + 1] || segment[2 * i + 1] > n)
            return PH_FAIL(err, PH_EMISMATCH, "row %" PRId64 " %s [%" PRId32 ", %" PRId32 ") of %" PRId64, i,
                           what, segment[2 * i], segment[2 * i + 1], n);
    return PH_OK;
}

ph_rc ph_modal_indices(int32_t *out, const void *index, int is_wide, int64_t n, int64_t m, ph_err *err) {
    for (int64_t i = 0; i < n; i++) {
        int64_t own = is_wide ? ((const int64_t *)index)[i] : ((const int32_t *)index)[i];
        if (own < -m || own >= m)
            return PH_FAIL(err, PH_EMISMATCH,
                           "row %" PRId64 " is of modality %" PRId64 "; there are %" PRId64, i, own, m);
        if (out) out[i] = (int32_t)(own < 0 ? own + m : own);
    }
    return PH_OK;
}

size_t ph_modal_readers(const ph_graph *g, int value) {
    size_t n = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; !ph_pass_is_dropped(&g->node[i]) && k < g->node[i].n_in; k++)
            n += g->node[i].in[k] == value;
    return n;
}
