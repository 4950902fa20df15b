/* op_quantize.c - QuantizeLinear: x / scale, rounded to the nearest (halves to even), plus a zero point, held
 * to the type's range (opset 21).
 *
 * The scale is one number, a list along axis, or an array of blocks of block_size along it.  The result has
 * the zero point's type; without one that of the attribute to (an ONNX type: 2 u8, 3 i8, 4 u16, 5 i16). */
#include "graph/op/op_quantize.h"
#include "graph/onnx/onnx_emit.h"

#include <math.h>

ph_rc ph_scales_check(const ph_graph *g, const ph_node *n, ph_dtype zero_type, ph_err *err) {
    const ph_shape *x = &ph_in(g, n, 0)->shape;
    int64_t         block = ph_node_int(n, "block_size", 0), one;
    int             axis;
    PH_TRY(ph_want(g, n, 1, PH_F32, -1, err));
    const ph_shape *s = &ph_in(g, n, 1)->shape;
    if (ph_in(g, n, 2)) {
        PH_TRY(ph_want(g, n, 2, zero_type, -1, err));
        int64_t a, b;
        int     both_one = !ph_shape_count(s, NULL, &a, NULL) && a == 1 &&
                       !ph_shape_count(&ph_in(g, n, 2)->shape, NULL, &b, NULL) && b == 1;
        if (!both_one && !ph_shape_same(&ph_in(g, n, 2)->shape, s))
            return ph_disagree(g, s, &ph_in(g, n, 2)->shape, "a scale and a zero point must have one shape",
                               err);
    }
    if (!ph_shape_count(s, NULL, &one, NULL) && one == 1 && s->rank < 2) return PH_OK;
    PH_TRY(ph_axis(ph_node_int(n, "axis", 1), x->rank, &axis, err));
    if (!block) {
        if (s->rank != 1 || !ph_dim_same(s->dim[0], x->dim[axis]))
            return ph_disagree(g, x, s, "a scale is one number, or one along the axis", err);
        return PH_OK;
    }
    int fits = s->rank == x->rank && block > 0;
    for (int i = 0; fits && i < x->rank; i++)
        fits = i == axis ? ph_dim_is_fixed(x->dim[i]) && ph_dim_is_fixed(s->dim[i]) &&
                               s->dim[i].mul == x->dim[i].mul / block + (x->dim[i].mul % block != 0)
                         : ph_dim_same(s->dim[i], x->dim[i]);
    return fits ? PH_OK : ph_disagree(g, x, s, "scales of blocks must cover x along the axis", err);
}

ph_rc ph_scales_open(ph_scales *s, const ph_node *n, const ph_array *in, const ph_eval *e, ph_err *err) {
    int axis;
    *s = (ph_scales){.block = ph_node_int(n, "block_size", 0)};
    PH_TRY(ph_floats(&s->scale, &in[1], e, err));
    if (n->n_in > 2 && n->in[2] >= 0) PH_TRY(ph_dense(&s->zero, &in[2], e, err));
    if (ph_array_count(&in[1]) == 1 && in[1].rank < 2) return PH_OK;
    PH_TRY(ph_axis(ph_node_int(n, "axis", 1), in[0].rank, &axis, err));
    s->outer = ph_span(&in[0], 0, axis);
    s->size = in[0].dim[axis];
    s->inner = ph_span(&in[0], axis + 1, in[0].rank);
    return PH_OK;
}

static const struct {
    int      onnx;
    ph_dtype dtype;
    float    low, high;
} types[] = {{2, PH_U8, 0, 255}, {3, PH_I8, -128, 127}, {4, PH_U16, 0, 65535}, {5, PH_I16, -32768, 32767}};
enum { N_TYPES = (int)(sizeof types / sizeof *types) };

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    int64_t to = ph_node_int(n, "to", 2);
    PH_TRY(ph_want(g, n, 0, PH_F32, -1, err));
    for (int i = 0; i < N_TYPES; i++)
        if (ph_in(g, n, 2) ? types[i].dtype == ph_in(g, n, 2)->dtype : types[i].onnx == to) {
            PH_TRY(ph_scales_check(g, n, types[i].dtype, err));
            ph_infer_set(&out[0], types[i].dtype, &ph_in(g, n, 0)->shape);
            return PH_OK;
        }
    return PH_FAIL(err, PH_EUNSUP, "QuantizeLinear to this type is not done");
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x;
    ph_scales    s;
    int          row = 0;
    int64_t      count = ph_array_count(out);
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    PH_TRY(ph_scales_open(&s, n, in, e, err));
    while (row < N_TYPES - 1 && types[row].dtype != out->dtype) row++;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = ph_scales_at(&s, i);
        float   y = rintf(x[i] / s.scale[at]) + (s.zero.data ? (float)ph_int_at(&s.zero, at) : 0);
        ph_int_put(out, i, isnan(y) ? 0 : (int64_t)fmaxf(types[row].low, fminf(types[row].high, y)));
    }
    return PH_OK;
}

/* The result's type is the zero point's: one of zeros says what the attribute does. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    const ph_dtype made = o->g->value[n->out[0]].dtype;
    if (o->opset < 21 && made != PH_U8 && made != PH_I8) {
        ph_oo_none(o, n, "numbers of 16 bits are not there");
        return;
    }
    int64_t     to = ph_node_int(n, "to", 2);
    const char *x = ph_oo_in(o, n, 0), *scale = ph_oo_in(o, n, 1), *zero = ph_oo_in(o, n, 2);
    if (!*zero && to != 2) zero = ph_oo_cast(o, ph_oo_two(o, "Mul", scale, ph_oo_number(o, 0)), (int)to);
    ph_oo_plain_with(o, n, PH_OO_IN(x, scale, zero),
                     ph_node_int(n, "block_size", 0) ? "to" : "to block_size");
}

const ph_op ph_op_QuantizeLinear = {
    .name = "QuantizeLinear",
    .domain = "",
    .since = 21,
    .in_min = 2,
    .in_max = 3,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "onnx.ai/onnx/operators/onnx__QuantizeLinear.html",
};
