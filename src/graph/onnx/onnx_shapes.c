/* onnx_shapes.c - operators that make, move and cut arrays, in the forms that opsets 7 to 23 have for them.
 */
#include "graph/onnx/onnx_forms.h"

#include <stdio.h>
#include <string.h>

/* An INTS attribute as a constant list; -1: there is none. */
static int list_attr(ph_oi *o, const ph_onnx_node *n, const char *name) {
    const ph_onnx_attr *a = ph_oi_attr(o, n, name);
    if (!a) return -1;
    if (a->type == PH_ONNX_A_INTS && a->n <= 4096) return ph_oi_list(o, a->ints, (int)a->n);
    ph_graph_fail(o->g, PH_EMISMATCH, "attribute '%s' is no list of whole numbers", name);
    return -1;
}

ph_rc ph_oi_identity(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    if (!ph_oi_has(o, n, 0)) return ph_oi_fail(o, err, PH_EMISMATCH, "it has no input");
    ph_oi_set(o, n, 0, ph_oi_in(o, n, 0));
    return ph_oi_done(o, err);
}

ph_rc ph_oi_dropout(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int64_t training = 0;
    int     count = 0, is_on = ph_oi_has(o, n, 2);
    if (is_on && (!ph_oi_ints(o, ph_oi_in(o, n, 2), &training, 1, &count) || training))
        return ph_oi_fail(o, err, PH_EUNSUP, "Dropout in training");
    if (ph_oi_has_out(n, 1)) { /* nothing is dropped */
        int shape = ph_oi_shape_list(o, ph_oi_shape(o, ph_oi_in(o, n, 0)));
        ph_oi_set(
            o, n, 1,
            ph_oi_make(o, "ConstantOfShape", PH_IN(shape), PH_ATTRS(PH_INT("to", 9), PH_INT("whole", 1))));
    }
    return ph_oi_identity(o, n, err);
}

/* ---- constants ---- */

static int floats_of(ph_oi *o, const double *x, size_t n, int rank) {
    void *p;
    char  name[64];
    if (ph_arena_carve(&o->arena, &p, n, sizeof(float), NULL)) {
        ph_graph_fail(o->g, PH_ENOMEM, "a constant of %zu numbers", n);
        return -1;
    }
    for (size_t i = 0; i < n; i++) ((float *)p)[i] = (float)x[i];
    snprintf(name, sizeof name, "constant~%zu", o->g->n_values);
    return ph_graph_constant(o->g, name, PH_F32,
                             rank ? ph_shape_of(1, ph_dim_of((int64_t)n)) : ph_shape_of(0), p);
}

static int wholes_of(ph_oi *o, const int64_t *x, size_t n, int rank) {
    char name[64];
    snprintf(name, sizeof name, "constant~%zu", o->g->n_values);
    return ph_graph_constant(o->g, name, PH_I64,
                             rank ? ph_shape_of(1, ph_dim_of((int64_t)n)) : ph_shape_of(0), x);
}

ph_rc ph_oi_constant(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    const ph_onnx_attr *a = n->n_attrs == 1 ? ph_oi_attr(o, n, n->attr[0].name) : NULL;
    const char         *as = n->n_attrs == 1 ? n->attr[0].name : "";
    int                 id = -1;
    if (!a || n->n_out != 1)
        return ph_oi_fail(o, err, PH_EMISMATCH, "Constant wants one attribute and one output");
    if (!strcmp(as, "value") && a->type == PH_ONNX_A_TENSOR)
        id = ph_oi_tensor(o, a->tensor, n->out[0]);
    else if (!strcmp(as, "value_float") && a->type == PH_ONNX_A_FLOAT)
        id = floats_of(o, &a->f, 1, 0);
    else if (!strcmp(as, "value_floats") && a->type == PH_ONNX_A_FLOATS)
        id = floats_of(o, a->floats, a->n, 1);
    else if (!strcmp(as, "value_int") && a->type == PH_ONNX_A_INT)
        id = wholes_of(o, &a->i, 1, 0);
    else if (!strcmp(as, "value_ints") && a->type == PH_ONNX_A_INTS)
        id = wholes_of(o, a->ints, a->n, 1);
    else
        return ph_oi_fail(o, err, PH_EUNSUP, "a constant by '%.40s' is not read", as);
    ph_oi_set(o, n, 0, id);
    return ph_oi_done(o, err);
}

ph_rc ph_oi_constant_of_shape(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    const ph_onnx_attr *a = ph_oi_attr(o, n, "value");
    ph_attr             attr[3] = {PH_INT("to", 1)};
    int                 in = ph_oi_in(o, n, 0), count = 0, id = -1;
    int64_t             whole = 0;
    double              real = 0;
    if (a && (a->type != PH_ONNX_A_TENSOR || a->tensor->count != 1))
        return ph_oi_fail(o, err, PH_EMISMATCH,
                          "the value of ConstantOfShape must be a tensor of one number");
    if (a) id = ph_oi_tensor(o, a->tensor, "value");
    if (o->g->rc) return ph_oi_done(o, err);
    if (a && !ph_oi_one_float(o, id, &real)) {
        if (!ph_oi_ints(o, id, &whole, 1, &count))
            return ph_oi_fail(o, err, PH_EUNSUP, "a value of type %s", ph_onnx_type_name(a->tensor->type));
        attr[0] = PH_INT("to", a->tensor->type);
    }
    attr[1] = PH_INT("whole", whole);
    attr[2] = PH_FLOAT("real", real);
    if (a) o->g->n_values--; /* the number stands in the attributes now */
    return ph_oi_emit(o, n, "ConstantOfShape", &in, 1, attr, 3, err);
}

ph_rc ph_oi_no_shape(ph_oi *o, const ph_onnx_node *n,
                     ph_err *err) { /* onnx_sizes.c takes all that have an input */
    (void)n;
    return ph_oi_fail(o, err, PH_EMISMATCH, "its input has no shape");
}

ph_rc ph_oi_eye_like(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    const ph_shape *s = ph_oi_shape(o, ph_oi_in(o, n, 0));
    int64_t         to = ph_oi_int(o, n, "dtype", 1), k = ph_oi_int(o, n, "k", 0);
    if (s->rank != 2) return ph_oi_fail(o, err, PH_EMISMATCH, "EyeLike wants a matrix");
    int ones =
        ph_oi_make(o, "ConstantOfShape", PH_IN(ph_oi_shape_list(o, s)), PH_ATTRS(PH_FLOAT("real", 1.0)));
    int at = wholes_of(o, &k, 1, 0);
    ones = ph_oi_make(o, "Trilu", PH_IN(ones, at), PH_ATTRS(PH_INT("upper", 1)));
    ones = ph_oi_make(o, "Trilu", PH_IN(ones, at), PH_ATTRS(PH_INT("upper", 0)));
    return ph_oi_emit(o, n, "Cast", PH_IN(ones), PH_ATTRS(PH_INT("to", to)), err);
}

/* ---- types: floats of any width are f32 here ---- */

static int64_t our_type(int64_t to) {
    return to == 10 || to == 11 || to == 16 ? 1 : to;
}

static ph_rc cast_to(ph_oi *o, const ph_onnx_node *n, int x, int64_t to, ph_err *err) {
    ph_dtype t = ph_onnx_dtype((int)our_type(to));
    if (to < 1 || to > 16 || t == PH_N_DTYPES)
        return ph_oi_fail(o, err, PH_EUNSUP, "Cast to %s is not done",
                          ph_onnx_type_name(to < 100 ? (int)to : 99));
    if (x >= 0 && o->g->value[x].dtype == t) {
        ph_oi_set(o, n, 0, x);
        return ph_oi_done(o, err);
    }
    return ph_oi_emit(o, n, "Cast", PH_IN(x), PH_ATTRS(PH_INT("to", our_type(to))), err);
}

ph_rc ph_oi_cast(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int     x = ph_oi_in(o, n, 0);
    int64_t to = ph_oi_int(o, n, "to", 0);
    return o->g->rc ? ph_oi_done(o, err) : cast_to(o, n, x, to, err);
}

ph_rc ph_oi_cast_like(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int like = ph_oi_in(o, n, 1), x = ph_oi_in(o, n, 0);
    if (o->g->rc || like < 0) return ph_oi_fail(o, err, PH_EMISMATCH, "CastLike wants two inputs");
    for (int to = 1; to <= 16; to++)
        if (ph_onnx_dtype(to) == o->g->value[like].dtype) return cast_to(o, n, x, to, err);
    return ph_oi_fail(o, err, PH_EUNSUP, "CastLike to this type");
}

/* ScatterElements under its first name. */
ph_rc ph_oi_scatter(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    return ph_oi_plain(o, n, "ScatterElements", err);
}

/* depth may be a number of any type. */
ph_rc ph_oi_onehot(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int depth = ph_oi_in(o, n, 1);
    if (o->g->rc || depth < 0) return ph_oi_fail(o, err, PH_EMISMATCH, "OneHot wants a depth");
    if (o->g->value[depth].dtype != PH_I64)
        depth = ph_oi_make(o, "Cast", PH_IN(depth), PH_ATTRS(PH_INT("to", 7)));
    ph_shape line = ph_shape_of(1, ph_dim_of(1));
    if (ph_oi_shape(o, depth)->rank > 1) depth = ph_oi_reshape(o, depth, &line);
    return ph_oi_emit(o, n, "OneHot", PH_IN(ph_oi_in(o, n, 0), depth, ph_oi_in(o, n, 2)),
                      PH_ATTRS(PH_INT("axis", ph_oi_int(o, n, "axis", -1))), err);
}

/* ---- other shapes ---- */

ph_rc ph_oi_flatten(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int             x = ph_oi_in(o, n, 0);
    const ph_shape *s = ph_oi_shape(o, x);
    int64_t         axis = ph_oi_int(o, n, "axis", 1);
    ph_shape        to;
    if (axis < 0) axis += s->rank;
    if (axis < 0 || axis > s->rank)
        return ph_oi_fail(o, err, PH_EMISMATCH, "Flatten at axis %lld", (long long)axis);
    if (!ph_oi_as_matrix(s, axis, &to))
        return ph_oi_fail(o, err, PH_EUNSUP, "Flatten of these symbolic dimensions");
    return ph_oi_emit(o, n, "Reshape", PH_IN(x, ph_oi_shape_list(o, &to)), PH_ATTRS(PH_INT("allowzero", 1)),
                      err);
}

ph_rc ph_oi_axes(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int axes = o->opset < 13 ? list_attr(o, n, "axes") : ph_oi_in(o, n, 1);
    return ph_oi_emit(o, n, n->op, PH_IN(ph_oi_in(o, n, 0), axes), PH_NO_ATTRS, err);
}

ph_rc ph_oi_slice(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    if (o->opset >= 10) return ph_oi_plain(o, n, "Slice", err);
    int starts = list_attr(o, n, "starts"), ends = list_attr(o, n, "ends"), axes = list_attr(o, n, "axes");
    return ph_oi_emit(o, n, "Slice", PH_IN(ph_oi_in(o, n, 0), starts, ends, axes), PH_NO_ATTRS, err);
}

ph_rc ph_oi_split(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int     sizes = o->opset < 13 ? list_attr(o, n, "split") : ph_oi_in(o, n, 1), x = ph_oi_in(o, n, 0);
    int64_t axis = ph_oi_int(o, n, "axis", 0), k = (int64_t)n->n_out;
    if (k < 1 || ph_oi_int(o, n, "num_outputs", k) != k)
        return ph_oi_fail(o, err, PH_EMISMATCH, "Split: num_outputs is not the number of outputs, %lld",
                          (long long)k);
    return ph_oi_emit(o, n, "Split", PH_IN(x, sizes),
                      PH_ATTRS(PH_INT("axis", axis), PH_INT("num_outputs", k)), err);
}

ph_rc ph_oi_pad(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    const char *mode = ph_oi_text(o, n, "mode", "constant");
    int x = ph_oi_in(o, n, 0), pads = ph_oi_in(o, n, 1), value = ph_oi_in(o, n, 2), axes = ph_oi_in(o, n, 3);
    if (o->opset < 11) {
        pads = list_attr(o, n, "pads");
        value = ph_oi_number(o, ph_oi_float(o, n, "value", 0));
    }
    return ph_oi_emit(o, n, "Pad", PH_IN(x, pads, value, axes), PH_ATTRS(PH_TEXT("mode", mode)), err);
}

ph_rc ph_oi_topk(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int64_t k = ph_oi_int(o, n, "k", 0);
    int     x = ph_oi_in(o, n, 0), at = o->opset < 10 ? ph_oi_list(o, &k, 1) : ph_oi_in(o, n, 1);
    return ph_oi_emit(o, n, "TopK", PH_IN(x, at),
                      PH_ATTRS(PH_INT("axis", ph_oi_int(o, n, "axis", -1)),
                               PH_INT("largest", ph_oi_int(o, n, "largest", 1))),
                      err);
}

/* Upsample and Resize: x, (roi,) scales, sizes. */
ph_rc ph_oi_resize(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    const ph_onnx_attr *scales = ph_oi_attr(o, n, "scales");
    int                 in[4] = {ph_oi_in(o, n, 0), -1, -1, -1};
    const char         *mode = ph_oi_text(o, n, "mode", "nearest");
    if (!strcmp(n->op, "Resize") && o->opset > 10) {
        for (size_t i = 2; i < 4; i++) { /* an empty list says: left out */
            in[i] = ph_oi_in(o, n, i);
            const ph_shape *s = ph_oi_shape(o, in[i]);
            if (in[i] >= 0 && s->rank == 1 && ph_dim_same(s->dim[0], ph_dim_of(0))) in[i] = -1;
        }
        const char *where = ph_oi_text(o, n, "coordinate_transformation_mode", "half_pixel");
        if (!strcmp(where, "tf_crop_and_resize")) in[1] = ph_oi_in(o, n, 1);
        ph_attr attr[] = {
            PH_TEXT("mode", mode),
            PH_TEXT("coordinate_transformation_mode", where),
            PH_TEXT("nearest_mode", ph_oi_text(o, n, "nearest_mode", "round_prefer_floor")),
            PH_FLOAT("cubic_coeff_a", ph_oi_float(o, n, "cubic_coeff_a", -0.75)),
            PH_INT("exclude_outside", ph_oi_int(o, n, "exclude_outside", 0)),
            PH_INT("antialias", ph_oi_int(o, n, "antialias", 0)),
            PH_FLOAT("extrapolation_value", ph_oi_float(o, n, "extrapolation_value", 0)),
            PH_TEXT("keep_aspect_ratio_policy", ph_oi_text(o, n, "keep_aspect_ratio_policy", "stretch")),
            PH_INTS("axes", NULL, 0),
        };
        const ph_onnx_attr *axes = ph_oi_attr(o, n, "axes");
        int                 count = (int)(sizeof attr / sizeof *attr) - !axes;
        if (axes) attr[count - 1] = PH_INTS("axes", axes->ints, axes->type == PH_ONNX_A_INTS ? axes->n : 0);
        return ph_oi_emit(o, n, "Resize", in, 4, attr, count, err);
    }
    if (scales) /* Upsample 7 */
        in[2] = scales->type == PH_ONNX_A_FLOATS ? floats_of(o, scales->floats, scales->n, 1) : -1;
    else
        in[2] = ph_oi_in(o, n, 1);
    return ph_oi_emit(o, n, "Resize", in, 4,
                      PH_ATTRS(PH_TEXT("mode", strcmp(mode, "bilinear") ? mode : "linear"),
                               PH_TEXT("coordinate_transformation_mode", "asymmetric"),
                               PH_TEXT("nearest_mode", "floor")),
                      err);
}
