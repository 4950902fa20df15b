/* op_segmentattention.c - pinhole.SegmentAttention: attention of rows that are packed without padding.
 *
 *     q [N, Hq*D]   k [N, Hkv*D]   v [N, Hkv*Dv]   segments i32 [N, 2]: begin, end
 *     y[i] = softmax over keys j in [begin[i], end[i]) of (scale q[i] . k[j]) v[j]
 *
 * Pictures of any size stand one after the other; the rows of a picture (or of a
 * window of it) name the keys that they meet.  A row's keys are absorbed 64 at a
 * time from its segment's begin, so its bits do not depend on what is packed
 * beside it.  A row whose segment is empty is zero.
 *
 * Attributes: num_heads, kv_num_heads (num_heads), scale (1 / sqrt(D)), softcap.
 */
#include "graph/modal.h"
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { BLOCK = PH_ATTEND_KEYS };

typedef struct form {
    int64_t heads, kv_heads, d, dv;
} form;

static ph_rc form_of(const ph_node *n, const int64_t width[3], form *f, ph_err *err) {
    int64_t heads = ph_node_int(n, "num_heads", 0), kv = ph_node_int(n, "kv_num_heads", heads);
    if (heads <= 0 || kv <= 0 || heads % kv || width[0] % heads || width[1] % kv || width[2] % kv ||
        width[0] / heads != width[1] / kv || !width[0])
        return PH_FAIL(err, PH_EMISMATCH,
                       "SegmentAttention: %" PRId64 ", %" PRId64 ", %" PRId64 " elements in %" PRId64
                       " query and %" PRId64 " key heads",
                       width[0], width[1], width[2], heads, kv);
    double cap = ph_node_float(n, "softcap", 0);
    if (cap < 0)
        return PH_FAIL(err, PH_EMISMATCH, "SegmentAttention: softcap is %g; it must be 0 (none) or more",
                       cap);
    *f = (form){heads, kv, width[0] / heads, width[2] / kv};
    return PH_OK;
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_shape *s[3];
    int64_t         width[3];
    form            f;
    for (int i = 0; i < 3; i++) {
        PH_TRY(ph_want(g, n, i, PH_F32, 2, err));
        s[i] = &ph_in(g, n, i)->shape;
        if (!ph_dim_is_fixed(s[i]->dim[1]) || !ph_dim_same(s[i]->dim[0], s[0]->dim[0]))
            return ph_disagree(g, s[0], s[i], "SegmentAttention wants as many rows, of plain width", err);
        width[i] = s[i]->dim[1].mul;
    }
    PH_TRY(ph_want(g, n, 3, PH_I32, 2, err));
    ph_shape wanted = ph_shape_of(2, s[0]->dim[0], ph_dim_of(2));
    if (!ph_shape_same(&ph_in(g, n, 3)->shape, &wanted))
        return ph_disagree(g, &ph_in(g, n, 3)->shape, &wanted,
                           "SegmentAttention wants begin and end of each row", err);
    PH_TRY(form_of(n, width, &f, err));
    wanted.dim[1] = ph_dim_of(f.heads * f.dv);
    ph_infer_set(&out[0], PH_F32, &wanted);
    return PH_OK;
}

/* One query: a->q is set; k and v are the head's first keys and values. */
static void meet(const ph_kernels *kernels, ph_attend *a, const float *k, const float *v, int32_t *hi,
                 int32_t begin, int32_t end, float *y) {
    *a->m = -INFINITY, *a->l = 0;
    for (size_t e = 0; e < a->dv; e++) a->acc[e] = 0;
    for (int32_t at = begin; at < end; at += BLOCK) {
        *hi = end - at < BLOCK ? end - at : BLOCK;
        a->k = k + (size_t)at * a->k_stride;
        a->v = v + (size_t)at * a->v_stride;
        kernels->attend_rows(a);
    }
    for (size_t e = 0; e < a->dv; e++) y[e] = *a->l > 0 || isnan(*a->l) ? a->acc[e] / *a->l : 0;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float  *q, *k, *v;
    float         most, sum; /* of one query */
    int32_t       lo = 0, hi = 0;
    const int64_t width[3] = {in[0].dim[1], in[1].dim[1], in[2].dim[1]};
    ph_array      segments;
    form          f;
    (void)g;
    PH_TRY(form_of(n, width, &f, err));
    PH_TRY(ph_floats(&q, &in[0], e, err));
    PH_TRY(ph_floats(&k, &in[1], e, err));
    PH_TRY(ph_floats(&v, &in[2], e, err));
    PH_TRY(ph_dense(&segments, &in[3], e, err));
    const int32_t *segment = segments.data;
    ph_attend      a = {
             .m = &most, .l = &sum, .lo = &lo, .hi = &hi, .n_q = 1, .d = (size_t)f.d, .dv = (size_t)f.dv};
    PH_TRY(ph_modal_segments(segment, in[0].dim[0], in[0].dim[0], "meets rows", err));
    PH_TRY(ph_scratch(&a.acc, f.dv, e, err));
    PH_TRY(ph_scratch(&a.scratch, BLOCK, e, err));
    PH_TRY(ph_scratch(&a.keys, f.d * BLOCK, e, err));
    a.q_stride = (size_t)width[0], a.k_stride = (size_t)width[1], a.v_stride = (size_t)width[2];
    a.scale = (float)ph_node_float(n, "scale", 1 / sqrt((double)f.d));
    a.softcap = (float)ph_node_float(n, "softcap", 0);
    for (int64_t i = 0; i < in[0].dim[0]; i++)
        for (int64_t h = 0; h < f.heads; h++) {
            int64_t kv = h / (f.heads / f.kv_heads);
            a.q = q + i * width[0] + h * f.d;
            meet(e->kernels, &a, k + kv * f.d, v + kv * f.dv, &hi, segment[2 * i], segment[2 * i + 1],
                 (float *)out->data + (i * f.heads + h) * f.dv);
        }
    return PH_OK;
}

/* One query: its answer, its scores, a block of keys by channel. */
static int64_t scratch(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out) {
    (void)g, (void)n, (void)out;
    return in[2].dim[1] + BLOCK + in[1].dim[1] * BLOCK;
}

/* What each row meets: bool [N, N], once for all layers. */
static const char *seen_of(ph_oo *o, const ph_node *n) {
    const char *segments = ph_oo_in(o, n, 3), *known = ph_oo_kept(o, "segments %s", segments);
    if (known || o->rc) return known ? known : "";
    const char *wide = ph_oo_cast(o, segments, PH_OO_INT64),
               *keys = ph_oo_places(o, ph_oo_size(o, segments, 0));
    const char *from = ph_oo_two(o, "GreaterOrEqual", keys, ph_oo_slice(o, wide, 1, 0, 1, 1));
    const char *to = ph_oo_two(o, "Less", keys, ph_oo_slice(o, wide, 1, 1, 2, 1));
    return ph_oo_keep(o, ph_oo_two(o, "And", from, to), "segments %s", segments);
}

/* Rows [N, heads * d] as [1, heads, N, d], or with is_turned [1, heads, d, N]. */
static const char *heads_of(ph_oo *o, const ph_node *n, int i, int64_t heads, int64_t d, int is_turned) {
    static const int64_t apart[2][4] = {{0, 2, 1, 3}, {0, 2, 3, 1}};
    const int64_t        split[4] = {1, -1, heads, d};
    return ph_oo_transpose(o, ph_oo_reshape(o, ph_oo_in(o, n, i), split, 4), apart[is_turned], 4);
}

/* Dense: every row's scores with all rows, those outside its segment hidden. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    int64_t width[3];
    form    f;
    for (int i = 0; i < 3; i++) width[i] = ph_oo_shape(o, n, i)->dim[1].mul;
    if (form_of(n, width, &f, NULL)) {
        ph_oo_none(o, n, "its heads");
        return;
    }
    ph_oo_attend a = {.heads = f.heads, .kv_heads = f.kv_heads, .d = f.d, .dv = f.dv};
    a.scale = ph_node_float(n, "scale", 1 / sqrt((double)f.d));
    a.softcap = ph_node_float(n, "softcap", 0);
    a.q = heads_of(o, n, 0, f.heads, f.d, 0);
    a.kt = heads_of(o, n, 1, f.kv_heads, f.d, 1);
    a.v = heads_of(o, n, 2, f.kv_heads, f.dv, 0);
    a.seen = seen_of(o, n);
    const int64_t flat[2] = {-1, f.heads * f.dv};
    ph_oo_attend_node(o, n, &a, flat, 2);
}

static ph_rc macs(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how, double *out,
                  ph_err *err) {
    double q, y, keys = strcmp(ph_in(g, n, 3)->name, "windows") ? how->segment_keys : how->window_keys;
    PH_TRY(ph_value_count(ph_in(g, n, 0), syms, &q, err));
    PH_TRY(ph_value_count(&g->value[n->out[0]], syms, &y, err));
    if (keys <= 0) PH_TRY(ph_value_size(ph_in(g, n, 1), 0, syms, &keys, err));
    *out = (q + y) * keys;
    return PH_OK;
}

const ph_op ph_op_SegmentAttention = {
    .name = "SegmentAttention",
    .domain = "pinhole",
    .since = 1,
    .in_min = 4,
    .in_max = 4,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .is_product = 1,
    .macs = macs,
    .scratch = scratch,
    .eval = eval,
    .onnx = write_onnx,
    .source = "arXiv:2307.06304 §3.1 (Patch n' Pack); this file",
};
