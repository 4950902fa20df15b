/* onnx_fold.c - what depends on constants only is computed while importing, so that the operators behind it
 * find their shapes and axes.  Large results stay nodes: a weight that is widened or turned costs memory that
 * the map does not.  So do all that come once PH_FOLDED_MAX bytes were made. */
#include "graph/onnx/onnx_impl.h"

#include <string.h>

enum { FOLD_BYTES_MAX = 256 << 10 };

static int is_small(const ph_value *v) {
    int64_t n;
    for (int i = 0; i < v->shape.rank; i++)
        if (!ph_dim_is_fixed(v->shape.dim[i])) return 0;
    return !ph_shape_count(&v->shape, NULL, &n, NULL) && n <= FOLD_BYTES_MAX / 8;
}

/* Operators that do more than a fixed number of steps an element: a small file could ask for hours of them.
 */
static int is_heavy(const char *op) {
    static const char *const names[] = {
        "Attention",     "AveragePool", "Conv", "ConvInteger", "ConvTranspose", "Einsum",
        "GRU",           "LRN",         "LSTM", "Linear",      "LpPool",        "MatMul",
        "MatMulInteger", "MaxPool",     "RNN",  "Resize",      "TopK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], op)) return 1;
    return 0;
}

/* Bytes of the outputs, each of which is small. */
static size_t bytes_made(const ph_graph *g, const ph_node *n) {
    size_t  sum = 0;
    int64_t count;
    for (int k = 0; k < n->n_out; k++) {
        const ph_value *v = &g->value[n->out[k]];
        if (!ph_shape_count(&v->shape, NULL, &count, NULL))
            sum += ((size_t)count + 1) * ph_dtype_bytes(v->dtype);
    }
    return sum;
}

static int can_fold(const ph_graph *g, const ph_node *n) {
    if (n->op->has_effect || n->op->is_unfolded || is_heavy(n->op->name) ||
        (!n->n_in && strcmp(n->op->name, "Sizes")))
        return 0;
    if (!strcmp(n->op->name, "DequantizeLinear") && g->value[n->out[0]].shape.rank > 1)
        return 0; /* stays small */
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        const ph_value *v = &g->value[n->in[i]];
        if (v->cls != PH_VALUE_CONSTANT || !is_small(v)) return 0;
    }
    for (int k = 0; k < n->n_out; k++)
        if (!is_small(&g->value[n->out[k]])) return 0;
    return bytes_made(g, n) <= PH_FOLDED_MAX - g->folded;
}

static ph_rc array_of(const ph_value *v, ph_array *a, ph_err *err) {
    *a = (ph_array){.dtype = v->dtype, .rank = v->shape.rank};
    for (int i = 0; i < a->rank; i++) PH_TRY(ph_dim_eval(v->shape.dim[i], NULL, &a->dim[i], err));
    return PH_OK;
}

/* Outputs in the graph's arena: they become constants. */
static ph_rc compute(ph_oi *o, const ph_node *n, ph_array *in, ph_array *out, ph_err *err) {
    ph_eval e = {.kernels = o->how->kernels, .scratch = &o->scratch};
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        PH_TRY(array_of(&o->g->value[n->in[i]], &in[i], err));
        in[i].storage = &o->g->value[n->in[i]].storage;
    }
    for (int k = 0; k < n->n_out; k++) {
        PH_TRY(array_of(&o->g->value[n->out[k]], &out[k], err));
        PH_TRY(ph_arena_zero(&o->g->arena, &out[k].data, (size_t)ph_array_count(&out[k]) + 1,
                             ph_dtype_bytes(out[k].dtype), err));
    }
    return n->op->eval(o->g, n, in, out, &e, err);
}

static ph_rc settle(ph_value *v, const ph_array *a, ph_err *err) {
    size_t row;
    PH_TRY(ph_dtype_row_bytes(a->dtype, a->rank ? a->dim[a->rank - 1] : 1, &row, err));
    v->cls = PH_VALUE_CONSTANT;
    v->producer = -1;
    v->storage = ph_storage_of(a->dtype, a->data, (size_t)ph_array_count(a) * ph_dtype_bytes(a->dtype), row);
    return PH_OK;
}

void ph_oi_fold_last(ph_oi *o) {
    ph_graph      *g = o->g;
    const ph_node *n = &g->node[g->n_nodes - 1];
    ph_err         err = {0};
    void          *in, *made;
    if (g->rc || !can_fold(g, n)) return;
    ph_arena_reset(&o->scratch);
    if (ph_arena_zero(&o->scratch, &in, (size_t)n->n_in + 1, sizeof(ph_array), &err) ||
        ph_arena_zero(&o->scratch, &made, (size_t)n->n_out + 1, sizeof(ph_array), &err))
        return;
    g->folded += bytes_made(g, n); /* spent even where it fails */
    /* An index past the end, say: the run will say so, if it ever comes to this node. */
    if (compute(o, n, in, made, &err)) return;
    for (int k = 0; k < n->n_out; k++)
        if (settle(&g->value[n->out[k]], (ph_array *)made + k, &err)) return;
    g->n_nodes--;
}
