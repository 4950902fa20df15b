/* op_rotary.c - RotaryEmbedding (opset 23): pairs of each head rotated by given cos and sin.
 *
 *     x [R, H*D]      cos, sin [R, h]                               num_heads; what our language graphs have
 *     x [B, T, H*D]   cos, sin [B, T, h], or [P, h] with positions [B, T]     num_heads
 *     x [B, H, T, D]  the same caches
 *
 * h is half of rotary_embedding_dim (0: of D); what lies behind it in a head is copied.
 */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <inttypes.h>
#include <string.h>

typedef struct form {
    int64_t heads, d, half;
} form;

/* Heads and their size, when the last dimension is a known number. */
static ph_rc form_of(const ph_node *n, int rank, int64_t heads_dim, int64_t last, form *f, ph_err *err) {
    int64_t rotary = ph_node_int(n, "rotary_embedding_dim", 0);
    f->heads = rank == 4 ? heads_dim : ph_node_int(n, "num_heads", 0);
    if (rank != 4 && (f->heads <= 0 || last % f->heads))
        return PH_FAIL(err, PH_EMISMATCH, "RotaryEmbedding: %" PRId64 " elements in %" PRId64 " heads", last,
                       f->heads);
    f->d = rank == 4 ? last : last / f->heads;
    if (!rotary) rotary = f->d;
    if (rotary < 0 || rotary % 2 || rotary > f->d)
        return PH_FAIL(err, PH_EMISMATCH, "RotaryEmbedding: %" PRId64 " of %" PRId64 " elements rotate",
                       rotary, f->d);
    f->half = rotary / 2;
    return PH_OK;
}

/* cos and sin have the shape that x (and the positions) ask for. */
static ph_rc check_caches(const ph_graph *g, const ph_node *n, const form *f, ph_err *err) {
    const ph_shape *x = &ph_in(g, n, 0)->shape, *c = &ph_in(g, n, 1)->shape;
    ph_shape        want = {0};
    if (ph_in(g, n, 3)) {
        const ph_shape *p = &ph_in(g, n, 3)->shape;
        PH_TRY(ph_want_index(g, n, 3, err));
        want = ph_shape_of(2, x->dim[0], x->dim[x->rank == 4 ? 2 : 1]);
        if (x->rank == 2 || !ph_shape_same(p, &want))
            return ph_disagree(g, x, p, "RotaryEmbedding wants positions [B, T]", err);
        want = ph_shape_of(2, c->rank ? c->dim[0] : ph_dim_of(0), ph_dim_of(f->half));
    } else if (x->rank == 2) {
        want = ph_shape_of(2, x->dim[0], ph_dim_of(f->half));
    } else {
        want = ph_shape_of(3, x->dim[0], x->dim[x->rank == 4 ? 2 : 1], ph_dim_of(f->half));
    }
    for (int i = 1; i <= 2; i++) {
        PH_TRY(ph_want(g, n, i, PH_F32, -1, err));
        if (!ph_shape_same(&ph_in(g, n, i)->shape, &want))
            return ph_disagree(g, &ph_in(g, n, i)->shape, &want, "cos or sin of RotaryEmbedding, and wanted",
                               err);
    }
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    form f;
    PH_TRY(ph_infer_same(g, n, out, err));
    const ph_shape *x = &ph_in(g, n, 0)->shape;
    int             r = x->rank;
    if (r < 2 || r > 4 || !ph_dim_is_fixed(x->dim[r - 1]) || (r == 4 && !ph_dim_is_fixed(x->dim[1])))
        return PH_FAIL(err, PH_EMISMATCH, "RotaryEmbedding: x has rank %d, or heads of unknown size", r);
    PH_TRY(form_of(n, r, r == 4 ? x->dim[1].mul : 0, x->dim[r - 1].mul, &f, err));
    return check_caches(g, n, &f, err);
}

/* The cache row of token i (counted over batch and time). */
static ph_rc cache_row(const ph_array *positions, const ph_array *cache, int64_t i, int64_t *row,
                       ph_err *err) {
    *row = i;
    if (!positions->data) return PH_OK;
    *row = ph_int_at(positions, i);
    if (*row < 0 || *row >= cache->dim[0])
        return PH_FAIL(err, PH_EMISMATCH, "RotaryEmbedding: position %" PRId64 " of %" PRId64, *row,
                       cache->dim[0]);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *c, *s;
    ph_array     positions = {0};
    form         f;
    float       *y = out->data;
    int          rank = out->rank, is_pairs = ph_node_int(n, "interleaved", 0) != 0;
    (void)g;
    PH_TRY(form_of(n, rank, rank == 4 ? out->dim[1] : 0, out->dim[rank - 1], &f, err));
    PH_TRY(ph_eval_reshape(&in[0], out, e, err));
    PH_TRY(ph_floats(&c, &in[1], e, err));
    PH_TRY(ph_floats(&s, &in[2], e, err));
    if (n->n_in > 3 && n->in[3] >= 0) PH_TRY(ph_dense(&positions, &in[3], e, err));
    int64_t heads = rank == 4 ? f.heads : 1, times = rank == 2 ? out->dim[0] : out->dim[rank == 4 ? 2 : 1],
            batches = rank == 2 ? 1 : out->dim[0], width = rank == 4 ? f.d : f.heads * f.d, row;
    if (!ph_array_count(out)) return PH_OK;
    for (int64_t i = 0; i < batches * times; i++) {
        PH_TRY(cache_row(&positions, &in[1], i, &row, err));
        for (int64_t h = 0; h < heads; h++) /* rank 4 keeps its heads apart, else one call rotates all */
            e->kernels->rope(y + ((i / times * heads + h) * times + i % times) * width, c + row * f.half,
                             s + row * f.half, rank == 4 ? 1 : (size_t)f.heads, (size_t)f.d, (size_t)f.half,
                             is_pairs);
    }
    return PH_OK;
}

/* x [.., H, D] (rank 3, or 4 with time and heads either way round) turned by c and s [.., 1, h]. */
static const char *turned(ph_oo *o, const ph_node *n, const char *x, int rank, const form *f, const char *c,
                          const char *s) {
    int64_t     h = f->half, last = rank - 1, is_pairs = ph_node_int(n, "interleaved", 0) != 0;
    const char *a = is_pairs ? ph_oo_slice(o, x, last, 0, 2 * h, 2) : ph_oo_slice(o, x, last, 0, h, 1);
    const char *b = is_pairs ? ph_oo_slice(o, x, last, 1, 2 * h, 2) : ph_oo_slice(o, x, last, h, 2 * h, 1);
    const char *u = ph_oo_two(o, "Sub", ph_oo_two(o, "Mul", a, c), ph_oo_two(o, "Mul", b, s));
    const char *v = ph_oo_two(o, "Add", ph_oo_two(o, "Mul", b, c), ph_oo_two(o, "Mul", a, s));
    if (is_pairs) { /* u and v element by element */
        int64_t flat[4] = {0, 0, 0, 0};
        u = ph_oo_make(o, "Concat", PH_OO_IN(ph_oo_unsqueeze(o, u, rank), ph_oo_unsqueeze(o, v, rank)),
                       PH_OO_ATTRS(PH_OO_INT("axis", rank)));
        flat[last] = 2 * h;
        u = ph_oo_reshape(o, u, flat, (size_t)rank);
    } else {
        u = ph_oo_make(o, "Concat", PH_OO_IN(u, v), PH_OO_ATTRS(PH_OO_INT("axis", last)));
    }
    if (2 * h == f->d) return u;
    const char *rest = ph_oo_slice(o, x, last, 2 * h, f->d, 1);
    return ph_oo_make(o, "Concat", PH_OO_IN(u, rest), PH_OO_ATTRS(PH_OO_INT("axis", last)));
}

/* A cache with an axis for heads, once for all that read it: [R, 1, h]; [B, T, 1, h] or [B, 1, T, h]. */
static const char *cache_of(ph_oo *o, const ph_node *n, int i, int axis) {
    const char *c = ph_oo_in(o, n, i), *at = ph_oo_has(n, 3) ? ph_oo_in(o, n, 3) : "";
    const char *known = ph_oo_kept(o, "rotation %d %s %s", axis, c, at);
    if (known || o->rc) return known ? known : "";
    const char *rows = *at ? ph_oo_make(o, "Gather", PH_OO_IN(c, at), PH_OO_ATTRS(PH_OO_INT("axis", 0))) : c;
    return ph_oo_keep(o, ph_oo_unsqueeze(o, rows, axis), "rotation %d %s %s", axis, c, at);
}

/* Rows, which ONNX does not have, and all before opset 23, in parts. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    const ph_shape *s = ph_oo_shape(o, n, 0);
    const char     *x = ph_oo_in(o, n, 0);
    int             rank = s->rank, axis = rank == 2 ? 1 : rank == 3 ? 2 : 1;
    form            f;
    if (o->opset >= 23 && rank > 2) {
        ph_oo_plain(o, n);
        return;
    }
    if (form_of(n, rank, rank == 4 ? s->dim[1].mul : 0, s->dim[rank - 1].mul, &f, NULL)) {
        ph_oo_none(o, n, "its heads");
        return;
    }
    const int64_t apart[4] = {0, rank == 2 ? f.heads : 0, rank == 2 ? f.d : f.heads, f.d};
    int64_t       flat[3] = {0, 0, 0};
    if (rank < 4) x = ph_oo_reshape(o, x, apart, (size_t)rank + 1);
    const char *c = cache_of(o, n, 1, axis), *si = cache_of(o, n, 2, axis);
    x = turned(o, n, x, rank < 4 ? rank + 1 : 4, &f, c, si);
    flat[rank < 4 ? rank - 1 : 2] = f.heads * f.d;
    if (rank == 4)
        ph_oo_is(o, n, 0, x);
    else
        ph_oo_emit(o, n, "", "Reshape", PH_OO_IN(x, ph_oo_ints(o, flat, (size_t)rank)), PH_OO_NO_ATTRS);
}

const ph_op ph_op_RotaryEmbedding = {
    .name = "RotaryEmbedding",
    .domain = "",
    .since = 23,
    .in_min = 3,
    .in_max = 4,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__RotaryEmbedding.html",
};
