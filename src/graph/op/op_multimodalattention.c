/* op_multimodalattention.c - pinhole.MultiModalAttention: rows of several modalities in one attention, by one
 * weight that they share.
 *
 *     w [(Hq + 2 Hkv) D, K] with nothing behind it, or w [Hq D, K], w_k [Hkv D, K]?, w_v [Hkv Dv, K]?
 *     b?, b_k?, b_v? likewise   x_0, x_1, .. [B, T_m, K]
 *     q = the x_m that have queries, end to end, times the rows of w for q, + b;   k and v likewise
 *     y = softmax(scale q k^T) v over all of them, head by head: [B, T of q, Hq Dv]
 *
 * Spelled out each modality has three products of its own and the results are joined; here the weight
 * is read once for all rows and its slices are views.  q, k and v are outputs too (1 to 3, in rows
 * [B, T, heads D]): for taps, and for who wants to keep keys.
 *
 * Attributes: num_heads (Hq), kv_num_heads (num_heads), scale (1 / sqrt D), slices: of each modality what
 * it takes of the weight, 1 queries, 2 keys and values, 3 both (all 3).
 * Errors: PH_EMISMATCH shapes, heads, slices; PH_EUNSUP lengths of which no sum can be written (two symbols).
 */
#include "graph/couple.h"
#include "graph/modal.h"
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <math.h>
#include <string.h>

/* [B, sum of T over modalities that have this slice, width]. */
static ph_rc joined(const ph_graph *g, const ph_node *n, const ph_couple *c, int slice, int64_t width,
                    ph_shape *out, ph_err *err) {
    ph_dim sum = ph_dim_of(0);
    for (int i = 0; i < c->n_x; i++)
        if (c->slice[i] & slice && !ph_dim_add(sum, ph_in(g, n, PH_COUPLE_X + i)->shape.dim[1], &sum))
            return PH_FAIL(err, PH_EUNSUP,
                           "MultiModalAttention: the length of all modalities is no sum that can be written");
    *out = ph_shape_of(3, ph_in(g, n, PH_COUPLE_X)->shape.dim[0], sum, ph_dim_of(width));
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_couple c;
    ph_shape  s[4];
    PH_TRY(ph_want(g, n, 0, PH_F32, 2, err));
    PH_TRY(ph_couple_of(g, n, &c, err));
    for (int i = 0; i < c.n_x; i++) {
        PH_TRY(ph_want(g, n, PH_COUPLE_X + i, PH_F32, 3, err));
        const ph_shape *x = &ph_in(g, n, PH_COUPLE_X + i)->shape;
        if (!ph_dim_same(x->dim[2], ph_dim_of(c.k)) ||
            !ph_dim_same(x->dim[0], ph_in(g, n, PH_COUPLE_X)->shape.dim[0]))
            return ph_disagree(g, x, &ph_in(g, n, 0)->shape,
                               "MultiModalAttention wants x[B, T, K] and W[N, K]", err);
    }
    double scale = ph_node_float(n, "scale", 1);
    if (!isfinite(scale)) return PH_FAIL(err, PH_EMISMATCH, "MultiModalAttention: scale is %g", scale);
    PH_TRY(joined(g, n, &c, PH_SLICE_Q, c.heads * c.dv, &s[0], err));
    PH_TRY(joined(g, n, &c, PH_SLICE_Q, c.part[0].rows, &s[1], err));
    PH_TRY(joined(g, n, &c, PH_SLICE_KV, c.part[1].rows, &s[2], err));
    PH_TRY(joined(g, n, &c, PH_SLICE_KV, c.part[2].rows, &s[3], err));
    for (int k = 0; k < 4; k++) ph_infer_set(&out[k], PH_F32, &s[k]);
    return PH_OK;
}

/* Rows of x times the part's rows of its weight, + its bias: y [rows, part rows]. */
static ph_rc product(const ph_couple *c, int j, const ph_array *in, float *y, const float *x, size_t rows,
                     const float *bias, float *scratch, const ph_eval *e, ph_err *err) {
    const ph_array   *w = &in[c->part[j].w];
    const ph_storage *s = w->storage;
    size_t            cols = (size_t)c->part[j].rows, k = (size_t)c->k, first = (size_t)c->part[j].first;
    const char       *at = w->data;
    size_t            stride = k * sizeof(float);
    ph_dtype          type = PH_F32;
    if (!at && s) {
        at = s->plane[PH_PLANE_DATA].bytes;
        stride = s->plane[PH_PLANE_DATA].row_stride;
        type = s->dtype;
    }
    if (!rows) return PH_OK;
    if (!at) return PH_FAIL(err, PH_EUNSUP, "MultiModalAttention: the weight has no bytes");
    if (s && s->form && !w->data)
        ph_linear_run_stored(e->kernels, s, first, y, cols, x, k, rows, cols, k, scratch);
    else
        ph_linear_run(e->kernels, ph_linear_of(e->kernels, type), y, cols, x, k, at + first * stride, stride,
                      rows, cols, k, scratch);
    if (bias) e->kernels->add_row(y, y, bias, rows, cols);
    return PH_OK;
}

/* q, k or v: of each batch the modalities' rows, end to end. */
static ph_rc project(const ph_couple *c, int j, const ph_array *in, ph_array *out, const ph_eval *e,
                     ph_err *err) {
    const float *x[PH_COUPLE_MAX], *bias = NULL;
    float       *scratch, *y = out->data;
    PH_TRY(ph_scratch(&scratch, (int64_t)PH_LINEAR_SCRATCH(c->k), e, err));
    if (c->part[j].b >= 0) {
        PH_TRY(ph_floats(&bias, &in[c->part[j].b], e, err));
        bias += c->part[j].first;
    }
    for (int i = 0; i < c->n_x; i++) PH_TRY(ph_floats(&x[i], &in[PH_COUPLE_X + i], e, err));
    for (int64_t b = 0; b < out->dim[0]; b++)
        for (int i = 0; i < c->n_x; i++) {
            int64_t rows = in[PH_COUPLE_X + i].dim[1];
            if (!(c->slice[i] & (j ? PH_SLICE_KV : PH_SLICE_Q))) continue;
            PH_TRY(product(c, j, in, y, x[i] + b * rows * c->k, (size_t)rows, bias, scratch, e, err));
            y += rows * c->part[j].rows;
        }
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_couple c;
    PH_TRY(ph_couple_of(g, n, &c, err));
    for (int j = 0; j < 3; j++) PH_TRY(project(&c, j, in, &out[1 + j], e, err));
    int     qkv[3] = {0, 0, 0};
    ph_attr attr[] = {PH_INT("q_num_heads", c.heads), PH_INT("kv_num_heads", c.kv_heads),
                      PH_FLOAT("scale", ph_node_float(n, "scale", 1 / sqrt((double)c.d)))};
    ph_node whole = {
        .name = n->name, .op = &ph_op_Attention, .in = qkv, .n_in = 3, .attr = attr, .n_attr = 3};
    return ph_op_Attention.eval(g, &whole, &out[1], out, e, err);
}

static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    ph_node whole = {.name = n->name, .op = &ph_op_Attention};
    return ph_op_Attention.scratch(g, &whole, &out[1], out) +
           3 * (int64_t)PH_LINEAR_SCRATCH(in[PH_COUPLE_X].dim[2]) + 256;
}

/* ---- ONNX ---- */

/* q, k or v as rows [B, T, width]. */
static const char *rows_of(ph_oo *o, const ph_node *n, const ph_couple *c, int j) {
    const char *x[PH_COUPLE_MAX];
    size_t      count = 0;
    for (int i = 0; i < c->n_x; i++)
        if (c->slice[i] & (j ? PH_SLICE_KV : PH_SLICE_Q)) x[count++] = ph_oo_in(o, n, PH_COUPLE_X + i);
    const char *all = count == 1 ? x[0] : ph_oo_kept(o, "%s rows %d", n->name, j > 0);
    if (!all)
        all = ph_oo_keep(o, ph_oo_make(o, "Concat", x, count, PH_OO_ATTRS(PH_OO_INT("axis", 1))),
                         "%s rows %d", n->name, j > 0);
    int64_t     first = c->part[j].first, last = first + c->part[j].rows;
    const char *w = ph_oo_turned(o, n, c->part[j].w);
    int         is_view = !ph_oo_has(n, 1);
    if (is_view) w = ph_oo_slice(o, w, 1, first, last, 1);
    const char *y = ph_oo_two(o, "MatMul", all, w);
    if (c->part[j].b < 0) return y;
    const char *bias = ph_oo_in(o, n, c->part[j].b);
    return ph_oo_two(o, "Add", y, is_view ? ph_oo_slice(o, bias, 0, first, last, 1) : bias);
}

/* [B, T, heads d] as [B, heads, T, d], or turned [B, heads, d, T]. */
static const char *heads_of(ph_oo *o, const char *x, int64_t heads, int64_t d, int is_turned) {
    static const int64_t apart[2][4] = {{0, 2, 1, 3}, {0, 2, 3, 1}};
    const int64_t        split[4] = {0, 0, heads, d};
    return ph_oo_transpose(o, ph_oo_reshape(o, x, split, 4), apart[is_turned], 4);
}

static int is_read(const ph_oo *o, int value) {
    return value >= 0 && (o->g->value[value].is_output || ph_modal_readers(o->g, value));
}

static void write_onnx(ph_oo *o, const ph_node *n) {
    static const int64_t back[4] = {0, 2, 1, 3};
    const char          *x[3];
    ph_couple            c;
    ph_err               err = {0};
    if (ph_couple_of(o->g, n, &c, &err)) {
        ph_oo_none(o, n, err.msg);
        return;
    }
    for (int j = 0; j < 3; j++) x[j] = rows_of(o, n, &c, j);
    ph_oo_attend a = {.heads = c.heads, .kv_heads = c.kv_heads, .d = c.d, .dv = c.dv};
    a.scale = ph_node_float(n, "scale", 1 / sqrt((double)c.d));
    a.q = heads_of(o, x[0], c.heads, c.d, 0);
    a.kt = heads_of(o, x[1], c.kv_heads, c.d, 1);
    a.v = heads_of(o, x[2], c.kv_heads, c.dv, 0);
    const int64_t flat[3] = {0, 0, c.heads * c.dv};
    ph_oo_is(o, n, 0, ph_oo_reshape(o, ph_oo_transpose(o, ph_oo_attention(o, &a), back, 4), flat, 3));
    for (int j = 0; j < 3; j++)
        if (j + 1 < n->n_out && is_read(o, n->out[j + 1])) ph_oo_is(o, n, j + 1, x[j]);
}

/* Three products, and every query with every key. */
static ph_rc macs(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how, double *out,
                  ph_err *err) {
    ph_couple c;
    double    q, k, v, y, keys;
    ph_value  made[4] = {{0}};
    (void)how;
    PH_TRY(ph_couple_of(g, n, &c, err));
    PH_TRY(infer(g, n, made, err)); /* outputs that nobody asked for have shapes too */
    PH_TRY(ph_value_count(&made[0], syms, &y, err));
    PH_TRY(ph_value_count(&made[1], syms, &q, err));
    PH_TRY(ph_value_count(&made[2], syms, &k, err));
    PH_TRY(ph_value_count(&made[3], syms, &v, err));
    PH_TRY(ph_value_size(&made[2], 1, syms, &keys, err));
    *out = (q + k + v) * (double)c.k + (q + y) * keys;
    return PH_OK;
}

const ph_op ph_op_MultiModalAttention = {
    .name = "MultiModalAttention",
    .domain = "pinhole",
    .since = 1,
    .in_min = 1,
    .in_max = PH_COUPLE_X + PH_COUPLE_MAX,
    .out_min = 4,
    .out_max = 4,
    .infer = infer,
    .eval = eval,
    .scratch = scratch,
    .onnx = write_onnx,
    .is_product = 1,
    .macs = macs,
    .source = "arXiv:1706.03762 §3.2; one stream of modalities: arXiv:2102.03334 (ViLT); this file",
};
