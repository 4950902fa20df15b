/* pass_fold.c - what is computed from small constants only is computed now.
 *
 * Large results stay unfolded: a weight that is expanded or widened would cost
 * memory that the map does not.  All results together are bounded too, with those that the import computed.
 */
#include "base/mem.h"
#include "graph/pass.h"

#include <string.h>

enum { BYTES_MAX = 64 << 10, SCRATCH_CHUNK = 1 << 16 };

/* Bytes of a constant's or a result's numbers; limit + 1 when there are more. */
static size_t bytes_of(const ph_value *v, size_t limit) {
    int64_t n;
    for (int i = 0; i < v->shape.rank; i++)
        if (!ph_dim_is_fixed(v->shape.dim[i])) return limit + 1;
    if (ph_shape_count(&v->shape, NULL, &n, NULL) || (uint64_t)n > limit) return limit + 1;
    return (size_t)n * ph_dtype_bytes(v->dtype);
}

static int can_fold(const ph_graph *g, const ph_pass_env *env, const ph_node *n) {
    size_t limit = env->fold_bytes_max ? env->fold_bytes_max : BYTES_MAX;
    if (ph_pass_is_dropped(n) || n->op->has_effect || n->op->is_unfolded) return 0;
    int    constants = 0;
    size_t made = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        if (g->value[n->in[i]].cls != PH_VALUE_CONSTANT || bytes_of(&g->value[n->in[i]], limit) > limit)
            return 0;
        constants++;
    }
    for (int k = 0; k < n->n_out; k++) {
        if (n->out[k] < 0) continue;
        size_t bytes = bytes_of(&g->value[n->out[k]], limit);
        if (ph_pass_must_survive(g, env, n->out[k]) || bytes > limit || ph_add_over(made, bytes, &made))
            return 0;
    }
    return constants > 0 && made <= PH_FOLDED_MAX - g->folded;
}

/* The output value becomes a constant under its own name. */
static ph_rc settle(ph_graph *g, int value, const ph_array *a, ph_err *err) {
    ph_value *v = &g->value[value];
    size_t    n = (size_t)ph_array_count(a) * ph_dtype_bytes(a->dtype), row;
    void     *copy;
    PH_TRY(ph_arena_carve(&g->arena, &copy, n, 1, err));
    if (n) memcpy(copy, a->data, n);
    PH_TRY(ph_dtype_row_bytes(a->dtype, a->rank ? a->dim[a->rank - 1] : 1, &row, err));
    v->cls = PH_VALUE_CONSTANT;
    v->storage = ph_storage_of(a->dtype, copy, n, row);
    v->producer = -1;
    g->folded += n;
    return PH_OK;
}

static ph_rc fold_node(ph_graph *g, const ph_pass_env *env, size_t at, ph_arena *arena, ph_err *err) {
    const ph_node *n = &g->node[at];
    const ph_syms  none = {{0}};
    for (int k = 0; k < n->n_out; k++) {
        ph_array a;
        if (n->out[k] < 0) continue;
        PH_TRY(ph_graph_eval(g, &none, NULL, 0, g->value[n->out[k]].name, &a, env->kernels, arena, err));
        PH_TRY(settle(g, n->out[k], &a, err));
    }
    ph_pass_drop(g, at);
    return PH_OK;
}

static ph_rc run(ph_graph *g, const ph_pass_env *env, size_t *changes, ph_err *err) {
    ph_arena arena;
    ph_rc    rc = ph_arena_open_growing(&arena, SCRATCH_CHUNK, err);
    for (size_t i = 0; i < g->n_nodes && !rc; i++) {
        if (!can_fold(g, env, &g->node[i])) continue;
        ph_arena_reset(&arena);
        rc = fold_node(g, env, i, &arena, err);
        if (!rc) ++*changes;
        /* An index past the end, say: the run will say so, if it ever comes to this node. */
        else if (rc != PH_ENOMEM && rc != PH_EBUG)
            rc = PH_OK;
    }
    ph_arena_close(&arena);
    return rc;
}

const ph_pass ph_pass_fold = {"fold", "compute what depends on small constants only", .run = run};
