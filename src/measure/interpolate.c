/* interpolate.c - cases of float planes brought to another size, as position tables are: through the graph's
 * Resize.
 *
 * The case's text says what the reference was asked for: interpolate(mode=..., align_corners, antialias).
 */
#include "measure/case.h"

#include "graph/op.h"

#include <string.h>

/* torch's cubic weighs with -0.75; its antialiased one, as Pillow's, with -0.5. */
static int build(ph_graph *g, const ph_weight *in, const char *op, int64_t height, int64_t width) {
    int is_smooth = strstr(op, "'antialias': True") != NULL, is_cubic = strstr(op, "mode=bicubic") != NULL;
    const int64_t size[3] = {in->dim[0], height, width};
    const char   *where = strstr(op, "'align_corners': True") ? "align_corners" : "half_pixel";
    int           x = ph_graph_input(
                  g, "x", PH_F32, ph_shape_of(3, ph_dim_of(in->dim[0]), ph_dim_of(in->dim[1]), ph_dim_of(in->dim[2])));
    int s = ph_graph_constant(g, "size", PH_I64, ph_shape_of(1, ph_dim_of(3)), size);
    int y = ph_graph_node(g, "Resize", PH_IN(x, -1, -1, s),
                          PH_ATTRS(PH_TEXT("mode", is_cubic ? "cubic" : "linear"),
                                   PH_INT("antialias", is_smooth), PH_INT("exclude_outside", is_smooth),
                                   PH_TEXT("coordinate_transformation_mode", where),
                                   PH_FLOAT("cubic_coeff_a", is_smooth ? -0.5 : -0.75)),
                          "y");
    ph_graph_output(g, y, "y");
    return y;
}

static ph_rc run(const ph_graph *g, const ph_weight *in, ph_array *out, ph_arena *arena, ph_err *err) {
    ph_kernels kernels;
    ph_syms    syms = {{0}};
    void      *x;
    PH_TRY(ph_arena_carve(arena, &x, in->n_bytes, 1, err));
    memcpy(x, in->bytes, in->n_bytes);
    ph_feed feed = {
        .name = "x",
        .array = {.data = x, .dtype = PH_F32, .rank = 3, .dim = {in->dim[0], in->dim[1], in->dim[2]}}};
    ph_kernels_init(&kernels, 0);
    return ph_graph_eval(g, &syms, &feed, 1, "y", out, &kernels, arena, err);
}

ph_rc ph_case_interpolate(ph_report *r, const ph_tensors *t, const ph_json *item, const char *op,
                          ph_arena *arena, ph_err *err) {
    const ph_weight *in, *ref;
    const char      *from, *to;
    ph_graph        *g = NULL;
    ph_array         out;
    int              w, h;
    PH_TRY(ph_json_text(item, "input_tensor", &from, err));
    PH_TRY(ph_json_text(item, "tensor", &to, err));
    PH_TRY(ph_json_size(item, "out_w", 1, 1 << 14, &w, err));
    PH_TRY(ph_json_size(item, "out_h", 1, 1 << 14, &h, err));
    PH_TRY(ph_tensors_get(t, &in, from, err));
    PH_TRY(ph_tensors_get(t, &ref, to, err));
    if (in->dtype != PH_F32 || in->rank != 3)
        return PH_FAIL(err, PH_EFORMAT, "%s is no stack of float planes", from);
    PH_TRY(ph_graph_open(&g, "resize", err));
    build(g, in, op, h, w);
    ph_rc rc = ph_graph_finish(g, err);
    if (!rc) rc = run(g, in, &out, arena, err);
    if (!rc) rc = ph_same_count((size_t)ph_array_count(&out), ref, err);
    if (!rc) ph_figure(r, ph_gap_floats(out.data, ph_ref_count(ref), ref, 0).diff, 1e-5, "planes");
    ph_graph_close(g);
    return rc;
}
