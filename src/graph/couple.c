/* couple.c - the form of a MultiModalAttention node.  See couple.h. */
#include "graph/couple.h"

#include <inttypes.h>

/* A fixed dimension of an array of this rank; 0: it is none. */
static int64_t fixed(const ph_value *v, int rank, int dim) {
    if (!v || v->cls == PH_VALUE_STATE || v->dtype != PH_F32 || v->shape.rank != rank ||
        !ph_dim_is_fixed(v->shape.dim[dim]))
        return 0;
    return v->shape.dim[dim].mul;
}

static ph_rc take_slices(const ph_node *n, ph_couple *c, ph_err *err) {
    size_t         count;
    const int64_t *slices = ph_node_ints(n, "slices", &count);
    int            seen = 0;
    c->n_x = n->n_in - PH_COUPLE_X;
    if (c->n_x < 1 || c->n_x > PH_COUPLE_MAX)
        return PH_FAIL(
            err, PH_EMISMATCH,
            "MultiModalAttention: %d inputs; 3 weights, 3 biases (those left out have empty names) "
            "and 1 to %d modalities are wanted",
            n->n_in, PH_COUPLE_MAX);
    if (count && count != (size_t)c->n_x)
        return PH_FAIL(err, PH_EMISMATCH,
                       "MultiModalAttention: %zu slices for %d modalities; one for each is wanted", count,
                       c->n_x);
    for (int i = 0; i < c->n_x; i++) {
        int64_t s = count ? slices[i] : PH_SLICE_BOTH;
        if (s < PH_SLICE_Q || s > PH_SLICE_BOTH)
            return PH_FAIL(err, PH_EMISMATCH,
                           "MultiModalAttention: slice %d is %" PRId64
                           "; 1 takes queries, 2 keys and values, 3 both",
                           i, s);
        c->slice[i] = (int)s;
        seen |= c->slice[i];
    }
    if (seen == PH_SLICE_BOTH) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "MultiModalAttention: no modality has %s",
                   seen & PH_SLICE_Q ? "keys and values" : "queries");
}

/* Rows of q, k and v: of one weight, or three. */
static ph_rc take_parts(const ph_graph *g, const ph_node *n, ph_couple *c, ph_err *err) {
    int     is_one = !ph_in(g, n, 1) && !ph_in(g, n, 2);
    int64_t all = c->heads + 2 * c->kv_heads, whole = fixed(ph_in(g, n, PH_COUPLE_W), 2, 0);
    int64_t rows[3] = {whole / all * c->heads, whole / all * c->kv_heads, whole / all * c->kv_heads},
            from = 0;
    c->k = fixed(ph_in(g, n, PH_COUPLE_W), 2, 1);
    if (!whole || !c->k || (is_one && whole % all))
        return PH_FAIL(err, PH_EMISMATCH,
                       "MultiModalAttention: a weight of %" PRId64 " rows of %" PRId64 ", for %" PRId64
                       " + 2 x %" PRId64 " heads",
                       whole, c->k, c->heads, c->kv_heads);
    for (int j = 0; j < 3; j++) {
        const ph_value *w = ph_in(g, n, is_one ? PH_COUPLE_W : j);
        if (!is_one) rows[j] = fixed(w, 2, 0);
        if (rows[j] < 1 || fixed(w, 2, 1) != c->k)
            return PH_FAIL(err, PH_EMISMATCH,
                           "MultiModalAttention: weight %d must have rows of %" PRId64 " as weight 0", j,
                           c->k);
        c->part[j].w = is_one ? PH_COUPLE_W : j;
        c->part[j].first = is_one ? from : 0;
        c->part[j].rows = rows[j];
        from += rows[j];
        int b = PH_COUPLE_B + (is_one ? 0 : j);
        c->part[j].b = ph_in(g, n, b) ? b : -1;
        if (c->part[j].b >= 0 && fixed(ph_in(g, n, b), 1, 0) != (is_one ? whole : rows[j]))
            return PH_FAIL(err, PH_EMISMATCH,
                           "MultiModalAttention: input %d must be a bias of as many as weight %d", b,
                           c->part[j].w);
    }
    return PH_OK;
}

ph_rc ph_couple_of(const ph_graph *g, const ph_node *n, ph_couple *c, ph_err *err) {
    *c = (ph_couple){.heads = ph_node_int(n, "num_heads", 0)};
    c->kv_heads = ph_node_int(n, "kv_num_heads", c->heads);
    if (c->heads < 1 || c->kv_heads < 1 || c->heads > INT32_MAX || c->heads % c->kv_heads)
        return PH_FAIL(err, PH_EMISMATCH,
                       "MultiModalAttention: num_heads %" PRId64 ", kv_num_heads %" PRId64
                       "; both must be at least 1, and num_heads a multiple of kv_num_heads",
                       c->heads, c->kv_heads);
    PH_TRY(take_slices(n, c, err));
    PH_TRY(take_parts(g, n, c, err));
    c->d = c->part[0].rows / c->heads;
    c->dv = c->part[2].rows / c->kv_heads;
    if (c->part[0].rows % c->heads || c->part[1].rows != c->d * c->kv_heads ||
        c->part[2].rows % c->kv_heads || !c->d)
        return PH_FAIL(err, PH_EMISMATCH,
                       "MultiModalAttention: %" PRId64 ", %" PRId64 ", %" PRId64
                       " rows of q, k, v for %" PRId64 " and %" PRId64 " heads",
                       c->part[0].rows, c->part[1].rows, c->part[2].rows, c->heads, c->kv_heads);
    return PH_OK;
}
