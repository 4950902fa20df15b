/* op_matmul.c - MatMul: numpy's matmul in f32, batches broadcast (opset 13).
 *
 * The right side is transposed once a batch, so that the product runs on the same
 * kernel as Linear and gives the same bits.
 */
#include "graph/op/op_help.h"

/* A matrix view of rank >= 2: a list on the left is one row, on the right one column. */
static ph_shape as_matrix(const ph_shape *s, int is_left) {
    if (s->rank != 1) return *s;
    return is_left ? ph_shape_of(2, ph_dim_of(1), s->dim[0]) : ph_shape_of(2, s->dim[0], ph_dim_of(1));
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    PH_TRY(ph_want(g, n, 1, PH_F32, -1, err));
    const ph_shape *sa = &ph_in(g, n, 0)->shape, *sb = &ph_in(g, n, 1)->shape;
    if (!sa->rank || !sb->rank) return ph_disagree(g, sa, sb, "MatMul takes no single number", err);
    ph_shape a = as_matrix(sa, 1), b = as_matrix(sb, 0), head_a = a, head_b = b, y;
    if (!ph_dim_same(a.dim[a.rank - 1], b.dim[b.rank - 2]))
        return ph_disagree(g, sa, sb, "MatMul wants [.., M, K] and [.., K, N]", err);
    head_a.rank -= 2;
    head_b.rank -= 2;
    PH_TRY(ph_broadcast(g, &head_a, &head_b, &y, err));
    if (sa->rank > 1) y.dim[y.rank++] = a.dim[a.rank - 2];
    if (sb->rank > 1) y.dim[y.rank++] = b.dim[b.rank - 1];
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

/* One matrix product: y[m, n] = a[m, k] b[k, n]; bt: [n, k] scratch. */
static void product(const ph_eval *e, float *y, const float *a, const float *b, float *bt, float *scratch,
                    size_t m, size_t k, size_t n) {
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < n; j++) bt[j * k + i] = b[i * n + j];
    e->kernels->linear_F32(y, n, a, k, bt, k * sizeof(float), m, n, k, scratch);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *a, *b;
    float       *bt, *scratch, *y = out->data;
    int          ra = in[0].rank, rb = in[1].rank;
    (void)g, (void)n;
    PH_TRY(ph_floats(&a, &in[0], e, err));
    PH_TRY(ph_floats(&b, &in[1], e, err));
    int64_t m = ra > 1 ? in[0].dim[ra - 2] : 1, k = in[0].dim[ra - 1], cols = rb > 1 ? in[1].dim[rb - 1] : 1;
    if (!ph_array_count(out)) return PH_OK;
    PH_TRY(ph_scratch(&bt, cols * k, e, err));
    PH_TRY(ph_scratch(&scratch, (int64_t)PH_LINEAR_SCRATCH(k), e, err));
    /* Walk over the batches only: the last two dimensions of both sides are cut off. */
    ph_array head = *out, ha = in[0], hb = in[1];
    head.rank = out->rank - (ra > 1) - (rb > 1);
    ha.rank = ra > 2 ? ra - 2 : 0;
    hb.rank = rb > 2 ? rb - 2 : 0;
    ph_walk w = ph_walk_over(&head);
    ph_walk_add(&w, &ha);
    ph_walk_add(&w, &hb);
    int64_t batches = ph_array_count(&head);
    for (int64_t i = 0; i < batches; i++, ph_walk_next(&w))
        product(e, y + i * m * cols, a + w.at[0] * m * k, b + w.at[1] * k * cols, bt, scratch, (size_t)m,
                (size_t)k, (size_t)cols);
    return PH_OK;
}

const ph_op ph_op_MatMul = {
    .name = "MatMul",
    .domain = "",
    .since = 13,
    .in_min = 2,
    .in_max = 2,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .is_product = 1,
    .macs = ph_macs_of_product,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__MatMul.html",
};
