/* op_ropeangles.c - pinhole.RopeAngles: positions of the rows to cos, sin [R, dim/2].  See rope.h for the
 * attributes.
 */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"
#include "graph/rope.h"

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_rope  rope;
    ph_shape y;
    PH_TRY(ph_want(g, n, 0, PH_I32, 2, err));
    y = ph_in(g, n, 0)->shape;
    if (!ph_dim_is_fixed(y.dim[1]) || y.dim[1].mul <= PH_ROW_POS_W)
        return PH_FAIL(err, PH_EMISMATCH, "RopeAngles wants rows of more than %d fields", PH_ROW_POS_W);
    PH_TRY(ph_rope_of_node(&rope, n, err));
    y.dim[1] = ph_dim_of(rope.dim / 2);
    ph_infer_set(&out[0], PH_F32, &y);
    ph_infer_set(&out[1], PH_F32, &y);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    ph_rope  rope;
    ph_array rows;
    float   *inv_freq, factor;
    (void)g;
    PH_TRY(ph_rope_of_node(&rope, n, err));
    PH_TRY(ph_dense(&rows, &in[0], e, err));
    PH_TRY(ph_scratch(&inv_freq, rope.dim / 2, e, err));
    factor = ph_rope_frequencies(&rope, inv_freq);
    for (int64_t r = 0; r < rows.dim[0]; r++)
        ph_rope_row(&rope, inv_freq, factor, (const int32_t *)rows.data + r * rows.dim[1],
                    (float *)out[0].data + r * (rope.dim / 2), (float *)out[1].data + r * (rope.dim / 2));
    return PH_OK;
}

/* Each frequency takes one of the three positions and multiplies it: a Gather and a row of constants. */
static void write_onnx(ph_oo *o, const ph_node *n) {
    ph_rope rope;
    void   *p;
    if (o->rc) return;
    o->rc = ph_rope_of_node(&rope, n, &o->err);
    if (!o->rc) o->rc = ph_arena_carve(&o->x->arena, &p, (size_t)rope.dim, sizeof(int64_t), &o->err);
    if (o->rc) return;
    int64_t *field = p;
    float   *inv = (float *)(field + rope.dim / 2);
    int end_t = rope.section[0], end_h = end_t + rope.section[1], is_sections = end_h + rope.section[2] > 0;
    double factor = (double)ph_rope_frequencies(&rope, inv);
    for (int i = 0; i < rope.dim / 2; i++)
        field[i] = !is_sections || i < end_t ? PH_ROW_POS_T : i < end_h ? PH_ROW_POS_H : PH_ROW_POS_W;
    const char *at =
        ph_oo_make(o, "Gather", PH_OO_IN(ph_oo_in(o, n, 0), ph_oo_ints(o, field, (size_t)rope.dim / 2)),
                   PH_OO_ATTRS(PH_OO_INT("axis", 1)));
    const char *angle =
        ph_oo_two(o, "Mul", ph_oo_cast(o, at, PH_OO_FLOAT32), ph_oo_floats(o, inv, (size_t)rope.dim / 2));
    const char *c = ph_oo_one(o, "Cos", angle), *s = ph_oo_one(o, "Sin", angle);
    if (factor < 1 || factor > 1) {
        c = ph_oo_two(o, "Mul", c, ph_oo_number(o, factor));
        s = ph_oo_two(o, "Mul", s, ph_oo_number(o, factor));
    }
    ph_oo_is(o, n, 0, c);
    ph_oo_is(o, n, 1, s);
}

const ph_op ph_op_RopeAngles = {
    .name = "RopeAngles",
    .domain = "pinhole",
    .since = 1,
    .in_min = 1,
    .in_max = 1,
    .out_min = 2,
    .out_max = 2,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "rope.h",
};
