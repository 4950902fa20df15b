/* adapters.c - see adapters.h. */
#include "graph/adapters.h"

#include <inttypes.h>
#include <math.h>

static int is_matrix(const ph_value *v) {
    return v && v->cls != PH_VALUE_STATE && v->dtype == PH_F32 && v->shape.rank == 2 &&
           ph_dim_is_fixed(v->shape.dim[0]) && ph_dim_is_fixed(v->shape.dim[1]);
}

/* Pair i: A [r, K], B [N, r]. */
static ph_rc take_pair(const ph_graph *g, const ph_node *n, ph_adapters *out, int i, ph_err *err) {
    const ph_value *a = ph_in(g, n, PH_ADAPTER_A + 2 * i), *b = ph_in(g, n, PH_ADAPTER_A + 2 * i + 1);
    const ph_value *x = ph_in(g, n, PH_ADAPTER_X), *base = ph_in(g, n, PH_ADAPTER_BASE);
    if (!is_matrix(a) || !is_matrix(b) || a->shape.dim[0].mul != b->shape.dim[1].mul ||
        a->shape.dim[0].mul < 1 || !ph_dim_same(a->shape.dim[1], x->shape.dim[1]) ||
        !ph_dim_same(b->shape.dim[0], base->shape.dim[1])) {
        char one[100] = "none", two[100] = "none";
        if (a) ph_graph_shape_print(g, &a->shape, one, sizeof one);
        if (b) ph_graph_shape_print(g, &b->shape, two, sizeof two);
        return PH_FAIL(err, PH_EMISMATCH,
                       "AdapterDispatch: adapter %d is %s and %s; A[r, K] and B[N, r] are wanted", i, one,
                       two);
    }
    if (a->shape.dim[0].mul > out->rank_max) out->rank_max = a->shape.dim[0].mul;
    return PH_OK;
}

static ph_rc check_ranges(const ph_adapters *a, ph_err *err) {
    for (int i = 0; i < a->n; i++) {
        if (a->first[i] > a->last[i])
            return PH_FAIL(err, PH_EMISMATCH,
                           "AdapterDispatch: adapter %d is for tokens %" PRId64 " to %" PRId64, i,
                           a->first[i], a->last[i]);
        for (int j = 0; j < i; j++)
            if (a->first[i] <= a->last[j] && a->first[j] <= a->last[i])
                return PH_FAIL(err, PH_EMISMATCH,
                               "AdapterDispatch: token %" PRId64
                               " has adapter %d and adapter %d; it may have one",
                               a->first[i] > a->first[j] ? a->first[i] : a->first[j], j, i);
    }
    return PH_OK;
}

static ph_rc take_words(const ph_node *n, ph_adapters *a, ph_err *err) {
    size_t         n_first, n_last, n_scale, count = (size_t)a->n;
    const int64_t *first = ph_node_ints(n, "first", &n_first), *last = ph_node_ints(n, "last", &n_last);
    const double  *scale = ph_node_floats(n, "scale", &n_scale);
    if ((n_first != count && (n_first || count > 1)) || (n_last && (n_last != count || !n_first)) ||
        (n_scale && n_scale != count))
        return PH_FAIL(err, PH_EMISMATCH,
                       "AdapterDispatch: %d adapters, but %zu first tokens, %zu last tokens, %zu scales",
                       a->n, n_first, n_last, n_scale);
    for (int i = 0; i < a->n; i++) {
        a->first[i] = n_first ? first[i] : PH_ADAPTER_TOKEN;
        a->last[i] = n_last ? last[i] : a->first[i];
        a->scale[i] = n_scale ? (float)scale[i] : 1;
        if (!isfinite(a->scale[i]))
            return PH_FAIL(err, PH_EMISMATCH, "AdapterDispatch: the scale of adapter %d is %g", i,
                           n_scale ? scale[i] : 1);
    }
    return check_ranges(a, err);
}

ph_rc ph_adapters_of(const ph_graph *g, const ph_node *n, ph_adapters *a, ph_err *err) {
    int matrices = n->n_in - PH_ADAPTER_A;
    *a = (ph_adapters){.n = matrices / 2};
    if (matrices < 2 || matrices % 2 || a->n > PH_ADAPTERS_MAX)
        return PH_FAIL(err, PH_EMISMATCH,
                       "AdapterDispatch: %d matrices; A and B of each of 1 to %d adapters are wanted",
                       matrices, PH_ADAPTERS_MAX);
    for (int i = 0; i < a->n; i++) PH_TRY(take_pair(g, n, a, i, err));
    return take_words(n, a, err);
}

int ph_adapter_for(const ph_adapters *a, int64_t token) {
    for (int i = 0; i < a->n; i++)
        if (token >= a->first[i] && token <= a->last[i]) return i;
    return -1;
}

/* y[rows, m->rows] = x m^T. */
static void product(const ph_kernels *k, const ph_adapter_side *m, float *y, const float *x, size_t rows,
                    float *scratch) {
    const ph_storage *s = m->storage;
    if (m->data) {
        ph_linear_run(k, ph_linear_of(k, PH_F32), y, m->rows, x, m->cols, m->data, m->cols * sizeof(float),
                      rows, m->rows, m->cols, scratch);
    } else if (s->form) {
        ph_linear_run_stored(k, s, 0, y, m->rows, x, m->cols, rows, m->rows, m->cols, scratch);
    } else {
        const ph_plane *p = &s->plane[PH_PLANE_DATA];
        ph_linear       by = ph_linear_of(k, s->dtype);
        size_t          item = ph_dtype_bytes(s->dtype);
        /* Plain numbers at odd bytes: only the generic product may read them. */
        if (ph_dtype_block(s->dtype) == 1 && ((uintptr_t)p->bytes % item || p->row_stride % item))
            by.fn = NULL;
        ph_linear_run(k, by, y, m->rows, x, m->cols, p->bytes, p->row_stride, rows, m->rows, m->cols,
                      scratch);
    }
}

size_t ph_adapter_floats(size_t rows, size_t k, size_t rank, size_t n) {
    return ph_whole_lines(rows * rank) + ph_whole_lines(rows * n) + PH_LINEAR_SCRATCH(k > rank ? k : rank);
}

void ph_adapter_add(const ph_kernels *k, const ph_adapter_side *a, const ph_adapter_side *b, float scale,
                    float *y, const float *base, const float *x, size_t rows, float *memory) {
    float *low = memory, *more = low + ph_whole_lines(rows * a->rows),
          *scratch = more + ph_whole_lines(rows * b->rows);
    product(k, a, low, x, rows, scratch);
    product(k, b, more, low, rows, scratch);
    k->scale(more, more, scale, rows * b->rows);
    k->add(y, base, more, rows * b->rows);
}
