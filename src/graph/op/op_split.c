/* op_split.c - Split (opset 18): pieces along an axis, by a constant list of sizes or a number of equal ones.
 *
 * A symbolic axis can be cut only into equal pieces that divide it whatever the symbols are: of N in 2 pieces
 * the first is the larger one where N is odd, which no dimension says.
 */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <inttypes.h>
#include <string.h>

enum { PIECES_MAX = 1024 };

static int outputs(const ph_graph *g, const ph_node *n) {
    const ph_value *sizes = ph_in(g, n, 1);
    int64_t         k = ph_node_int(n, "num_outputs", 0);
    if (sizes)
        k = sizes->shape.rank == 1 && ph_dim_is_fixed(sizes->shape.dim[0]) ? sizes->shape.dim[0].mul : 0;
    return k < 1 || k > PIECES_MAX ? 0 : (int)k;
}

static ph_rc piece_sizes(const ph_graph *g, const ph_node *n, ph_dim whole, ph_dim *piece, ph_err *err) {
    int64_t list[PIECES_MAX], sum = 0;
    int     count = n->n_out;
    if (ph_in(g, n, 1)) {
        PH_TRY(ph_const_ints(g, n, 1, list, PIECES_MAX, &count, err));
        for (int i = 0; i < count; i++) {
            if (list[i] < 0 || __builtin_add_overflow(sum, list[i], &sum))
                return PH_FAIL(err, PH_EMISMATCH, "Split: piece %d has size %" PRId64, i, list[i]);
            if (i < n->n_out) piece[i] = ph_dim_of(list[i]);
        }
        if (count != n->n_out || !ph_dim_same(whole, ph_dim_of(sum)))
            return PH_FAIL(err, PH_EMISMATCH, "Split: %d sizes that sum to %" PRId64 " for %d outputs", count,
                           sum, n->n_out);
        return PH_OK;
    }
    if (ph_dim_is_fixed(whole)) { /* the last piece may be smaller */
        int64_t each = (whole.mul + count - 1) / count, left = whole.mul;
        for (int i = 0; i < count; i++, left -= each)
            piece[i] = ph_dim_of(left < 0 ? 0 : left < each ? left : each);
        return PH_OK;
    }
    for (int i = 0; i < count; i++)
        if (!ph_dim_div(whole, ph_dim_of(count), &piece[i]) || (count > 1 && ph_dim_has_rest(piece[i])))
            return PH_FAIL(err, PH_EUNSUP,
                           "Split: a symbolic dimension into %d pieces, which need not divide it", count);
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    ph_dim          piece[PIECES_MAX];
    int             axis;
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), x->shape.rank, &axis, err));
    PH_TRY(piece_sizes(g, n, x->shape.dim[axis], piece, err));
    for (int k = 0; k < n->n_out; k++) {
        ph_infer_set(&out[k], x->dtype, &x->shape);
        out[k].shape.dim[axis] = piece[k];
    }
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_array x;
    int      axis;
    int64_t  start = 0;
    size_t   item = ph_dtype_bytes(in[0].dtype);
    (void)g;
    PH_TRY(ph_dense(&x, &in[0], e, err));
    PH_TRY(ph_axis(ph_node_int(n, "axis", 0), x.rank, &axis, err));
    int64_t outer = ph_span(&x, 0, axis), inner = ph_span(&x, axis + 1, x.rank), row = x.dim[axis] * inner;
    for (int k = 0; k < n->n_out; k++) {
        int64_t size = out[k].dim[axis];
        size_t  piece = (size_t)(size * inner) * item;
        if (size > x.dim[axis] - start)
            return PH_FAIL(err, PH_EMISMATCH, "Split: the pieces are longer than the axis");
        for (int64_t o = 0; o < outer && piece; o++)
            memcpy((char *)out[k].data + (size_t)o * piece,
                   (const char *)x.data + (size_t)(o * row + start * inner) * item, piece);
        start += size;
    }
    if (start != x.dim[axis])
        return PH_FAIL(err, PH_EMISMATCH, "Split: the pieces are shorter than the axis");
    return PH_OK;
}

/* Sizes, or a number of equal pieces: opset 18 takes one of them, 17 sizes only where the pieces differ. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    const ph_shape *s = ph_oo_shape(o, n, 0);
    int64_t         list[PIECES_MAX];
    ph_dim          piece[PIECES_MAX];
    int             axis;
    if (ph_oo_has(n, 1)) {
        ph_oo_plain_with(o, n, PH_OO_IN(ph_oo_in(o, n, 0), ph_oo_in(o, n, 1)), "num_outputs");
        return;
    }
    if (o->opset >= 18) {
        ph_oo_plain(o, n);
        return;
    }
    if (ph_axis(ph_node_int(n, "axis", 0), s->rank, &axis, NULL) || !ph_dim_is_fixed(s->dim[axis]) ||
        piece_sizes(o->g, n, s->dim[axis], piece, NULL)) {
        ph_oo_plain_with(o, n, PH_OO_IN(ph_oo_in(o, n, 0)), "num_outputs");
        return;
    }
    for (int i = 0; i < n->n_out; i++) list[i] = piece[i].mul;
    ph_oo_plain_with(o, n, PH_OO_IN(ph_oo_in(o, n, 0), ph_oo_ints(o, list, (size_t)n->n_out)), "num_outputs");
}

const ph_op ph_op_Split = {
    .name = "Split",
    .domain = "",
    .since = 18,
    .in_min = 1,
    .in_max = 2,
    .out_min = 1,
    .out_max = PIECES_MAX,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .outputs = outputs,
    .source = "onnx.ai/onnx/operators/onnx__Split.html",
};
