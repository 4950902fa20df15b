/* op_ropeangles.c - pinhole.RopeAngles: positions of the rows to cos, sin [R, dim/2].  See rope.h for the
 * attributes.
 */
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
    .source = "rope.h",
};
