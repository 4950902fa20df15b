/* op_linear.c - pinhole.Linear: y[.., N] = x[.., K] W[N, K]^T + b[N].
 *
 * The one product with a stored weight: W may be any storage type that can be
 * unpacked, and is read where it lies.  Importers turn MatMul and Gemm into this.
 */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_shape *x, *w;
    ph_shape        y;
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    PH_TRY(ph_want(g, n, 1, PH_F32, 2, err));
    x = &ph_in(g, n, 0)->shape;
    w = &ph_in(g, n, 1)->shape;
    if (x->rank < 1 || !ph_dim_same(x->dim[x->rank - 1], w->dim[1]))
        return ph_disagree(g, x, w, "Linear wants x[.., K] and W[N, K]", err);
    if (ph_in(g, n, 2)) {
        PH_TRY(ph_want(g, n, 2, PH_F32, 1, err));
        if (!ph_dim_same(ph_in(g, n, 2)->shape.dim[0], w->dim[0]))
            return ph_disagree(g, w, &ph_in(g, n, 2)->shape, "Linear wants W[N, K] and b[N]", err);
    }
    y = *x;
    y.dim[y.rank - 1] = w->dim[0];
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x, *b;
    float       *scratch, *y = out->data;
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    size_t rows = (size_t)ph_span(out, 0, out->rank - 1), cols = (size_t)in[1].dim[0],
           k = (size_t)in[1].dim[1], stride = k * sizeof(float);
    const void       *w = in[1].data;
    ph_dtype          type = PH_F32;
    const ph_storage *s = in[1].storage;
    if (!w && s) {
        w = s->plane[PH_PLANE_DATA].bytes;
        stride = s->plane[PH_PLANE_DATA].row_stride;
        type = s->dtype;
    }
    if (!rows || !cols) return PH_OK;
    if (!w && k) return PH_FAIL(err, PH_EUNSUP, "Linear: the weight has no bytes");
    PH_TRY(ph_scratch(&scratch, (int64_t)PH_LINEAR_SCRATCH(k), e, err));
    if (s && s->form && !in[1].data)
        ph_linear_run_stored(e->kernels, s, 0, y, cols, x, k, rows, cols, k, scratch);
    else
        ph_linear_run(e->kernels, ph_linear_of(e->kernels, type), y, cols, x, k, w, stride, rows, cols, k,
                      scratch);
    if (n->n_in > 2 && n->in[2] >= 0) {
        PH_TRY(ph_floats(&b, &in[2], e, err));
        e->kernels->add_row(y, y, b, rows, cols);
    }
    return PH_OK;
}

/* Gemm around an x [.., K] that is made a matrix: the weight is read as it lies, not turned by whoever loads
 * the model. */
static void write_flat(ph_oo *o, const ph_node *n) {
    const ph_shape *s = ph_oo_shape(o, n, 0), *w = ph_oo_shape(o, n, 1);
    const int64_t   flat[2] = {-1, w->dim[1].mul}, wide[1] = {w->dim[0].mul};
    const char     *x = ph_oo_in(o, n, 0), *part[PH_RANK_MAX];
    for (int i = 0; i + 1 < s->rank; i++)
        part[i] = ph_dim_is_fixed(s->dim[i]) ? ph_oo_ints(o, &s->dim[i].mul, 1) : ph_oo_size(o, x, i);
    part[s->rank - 1] = ph_oo_ints(o, wide, 1);
    const char *to = ph_oo_make(o, "Concat", part, (size_t)s->rank, PH_OO_ATTRS(PH_OO_INT("axis", 0)));
    const char *y =
        ph_oo_make(o, "Gemm", PH_OO_IN(ph_oo_reshape(o, x, flat, 2), ph_oo_in(o, n, 1), ph_oo_in(o, n, 2)),
                   PH_OO_ATTRS(PH_OO_INT("transB", 1)));
    ph_oo_emit(o, n, "", "Reshape", PH_OO_IN(y, to), PH_OO_NO_ATTRS);
}

/* Gemm where x is a matrix, else MatMul; n-bit blocks stay what they are. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    const ph_value *w = &o->g->value[n->in[1]];
    const char     *x = ph_oo_in(o, n, 0), *plane[3] = {"", "", ""};
    if (w->cls == PH_VALUE_CONSTANT && ph_oo_nbits(o, w, plane)) {
        const ph_onnx_attr attr[] = {PH_OO_INT("K", w->shape.dim[1].mul), PH_OO_INT("N", w->shape.dim[0].mul),
                                     PH_OO_INT("bits", w->storage.bits),
                                     PH_OO_INT("block_size", (int64_t)w->storage.group)};
        const char *const  in[6] = {x, plane[0], plane[1], plane[2], "", ph_oo_in(o, n, 2)};
        ph_oo_emit(o, n, "com.microsoft", "MatMulNBits", in, 6, attr, 4);
        return;
    }
    if (ph_oo_shape(o, n, 0)->rank == 2) {
        ph_oo_emit(o, n, "", "Gemm", PH_OO_IN(x, ph_oo_in(o, n, 1), ph_oo_in(o, n, 2)),
                   PH_OO_ATTRS(PH_OO_INT("transB", 1)));
        return;
    }
    if (o->how->is_flat && ph_oo_shape(o, n, 0)->rank > 2) {
        write_flat(o, n);
        return;
    }
    if (!ph_oo_has(n, 2)) {
        ph_oo_emit(o, n, "", "MatMul", PH_OO_IN(x, ph_oo_turned(o, n, 1)), PH_OO_NO_ATTRS);
        return;
    }
    const char *y = ph_oo_two(o, "MatMul", x, ph_oo_turned(o, n, 1));
    ph_oo_emit(o, n, "", "Add", PH_OO_IN(y, ph_oo_in(o, n, 2)), PH_OO_NO_ATTRS);
}

const ph_op ph_op_Linear = {
    .name = "Linear",
    .domain = "pinhole",
    .since = 1,
    .in_min = 2,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .is_product = 1,
    .macs = ph_macs_of_product,
    .eval = eval,
    .onnx = write_onnx,
    .source = "the design: one product for every storage type",
};
