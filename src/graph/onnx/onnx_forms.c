/* onnx_forms.c - arithmetic in the forms that opsets 7 to 23 have for it. */
#include "graph/onnx/onnx_forms.h"

#include <stdio.h>
#include <string.h>

/* ---- products ---- */

ph_rc ph_oi_matmul(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int a = ph_oi_in(o, n, 0), b = ph_oi_in(o, n, 1);
    if (o->g->rc || a < 0 || b < 0) return ph_oi_fail(o, err, PH_EMISMATCH, "MatMul wants two inputs");
    if (ph_oi_shape(o, b)->rank != 2) return ph_oi_plain(o, n, "MatMul", err);
    ph_oi_set(o, n, 0, ph_oi_product(o, a, b, 0, -1));
    return ph_oi_done(o, err);
}

static int is_one(double x) {
    return x >= 1 && x <= 1;
}

/* alpha A B + beta C, A and B turned where asked. */
ph_rc ph_oi_gemm(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int    a = ph_oi_in(o, n, 0), b = ph_oi_in(o, n, 1), c = ph_oi_in(o, n, 2);
    double alpha = ph_oi_float(o, n, "alpha", 1), beta = ph_oi_float(o, n, "beta", 1);
    int    turn_a = ph_oi_int(o, n, "transA", 0) != 0, turn_b = ph_oi_int(o, n, "transB", 0) != 0;
    if (o->g->rc || ph_oi_shape(o, a)->rank != 2 || ph_oi_shape(o, b)->rank != 2)
        return ph_oi_fail(o, err, PH_EMISMATCH, "Gemm wants two matrices");
    int64_t last = ph_oi_shape(o, b)->rank - 1 - turn_b;
    int     is_bias = c >= 0 && is_one(alpha) && is_one(beta) && ph_oi_shape(o, c)->rank == 1 &&
                  ph_dim_same(ph_oi_shape(o, c)->dim[0], ph_oi_shape(o, b)->dim[last]);
    if (turn_a) a = ph_oi_transpose(o, a, (const int64_t[]){1, 0}, 2);
    int y = ph_oi_product(o, a, b, turn_b, is_bias ? c : -1);
    if (!is_one(alpha)) y = ph_oi_make(o, "Mul", PH_IN(y, ph_oi_number(o, alpha)), PH_NO_ATTRS);
    if (c >= 0 && !is_bias) {
        if (!is_one(beta)) c = ph_oi_make(o, "Mul", PH_IN(c, ph_oi_number(o, beta)), PH_NO_ATTRS);
        y = ph_oi_make(o, "Add", PH_IN(y, c), PH_NO_ATTRS);
    }
    ph_oi_set(o, n, 0, y);
    return ph_oi_done(o, err);
}

/* Only f32 is raised; an exponent of whole numbers is one of floats. */
ph_rc ph_oi_pow(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int a = ph_oi_in(o, n, 0), b = ph_oi_in(o, n, 1);
    if (o->g->rc || a < 0 || b < 0) return ph_oi_fail(o, err, PH_EMISMATCH, "Pow wants two inputs");
    ph_dtype t = o->g->value[a].dtype;
    if (o->g->value[b].dtype != PH_F32) b = ph_oi_make(o, "Cast", PH_IN(b), PH_ATTRS(PH_INT("to", 1)));
    if (t == PH_F32) return ph_oi_emit(o, n, "Pow", PH_IN(a, b), PH_NO_ATTRS, err);
    if (t != PH_I64 && t != PH_I32) return ph_oi_fail(o, err, PH_EUNSUP, "Pow of %s", ph_dtype_name(t));
    a = ph_oi_make(o, "Cast", PH_IN(a), PH_ATTRS(PH_INT("to", 1)));
    a = ph_oi_make(o, "Pow", PH_IN(a, b), PH_NO_ATTRS);
    return ph_oi_emit(o, n, "Cast", PH_IN(a), PH_ATTRS(PH_INT("to", t == PH_I64 ? 7 : 6)), err);
}

/* ---- reductions ---- */

ph_rc ph_oi_reduce(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int                 since = strcmp(n->op, "ReduceSum") ? 18 : 13;
    const ph_onnx_attr *a = ph_oi_attr(o, n, "axes");
    int                 axes = o->opset >= since ? ph_oi_in(o, n, 1) : -1;
    if (a && (a->type != PH_ONNX_A_INTS || a->n > PH_RANK_MAX))
        return ph_oi_fail(o, err, PH_EMISMATCH, "axes is no list of at most %d numbers", PH_RANK_MAX);
    if (a) axes = ph_oi_list(o, a->ints, (int)a->n);
    return ph_oi_emit(o, n, n->op, PH_IN(ph_oi_in(o, n, 0), axes),
                      PH_ATTRS(PH_INT("keepdims", ph_oi_int(o, n, "keepdims", 1)),
                               PH_INT("noop_with_empty_axes", ph_oi_int(o, n, "noop_with_empty_axes", 0))),
                      err);
}

ph_rc ph_oi_global_pool(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int     x = ph_oi_in(o, n, 0), rank = ph_oi_shape(o, x)->rank;
    int64_t axes[PH_RANK_MAX];
    if (rank < 3) return ph_oi_fail(o, err, PH_EMISMATCH, "%s wants [N, C, ..], not rank %d", n->op, rank);
    for (int i = 2; i < rank; i++) axes[i - 2] = i;
    return ph_oi_emit(o, n, strcmp(n->op, "GlobalMaxPool") ? "ReduceMean" : "ReduceMax",
                      PH_IN(x, ph_oi_list(o, axes, rank - 2)), PH_ATTRS(PH_INT("keepdims", 1)), err);
}

ph_rc ph_oi_mean(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int in[PH_OI_IN_MAX * 16];
    for (size_t i = 0; i < n->n_in; i++) in[i] = ph_oi_in(o, n, i);
    int sum = ph_oi_make(o, "Sum", in, (int)n->n_in, PH_NO_ATTRS);
    return ph_oi_emit(o, n, "Div", PH_IN(sum, ph_oi_number(o, (double)n->n_in)), PH_NO_ATTRS, err);
}

ph_rc ph_oi_lpnorm(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int     x = ph_oi_in(o, n, 0);
    int64_t axis = ph_oi_int(o, n, "axis", -1), p = ph_oi_int(o, n, "p", 2);
    if (p != 1 && p != 2) return ph_oi_fail(o, err, PH_EUNSUP, "LpNormalization with p %lld", (long long)p);
    int norm = ph_oi_make(o, p == 1 ? "ReduceL1" : "ReduceL2", PH_IN(x, ph_oi_list(o, &axis, 1)),
                          PH_ATTRS(PH_INT("keepdims", 1)));
    return ph_oi_emit(o, n, "Div", PH_IN(x, norm), PH_NO_ATTRS, err);
}

/* (x - mean) / (deviation + 1e-9) */
ph_rc ph_oi_mvn(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    static const int64_t usual[] = {0, 2, 3};
    const ph_onnx_attr  *a = ph_oi_attr(o, n, "axes");
    int                  x = ph_oi_in(o, n, 0), all = !a || a->type != PH_ONNX_A_INTS || a->n > PH_RANK_MAX;
    int                  axes = ph_oi_list(o, all ? usual : a->ints, all ? 3 : (int)a->n);
    int                  mean = ph_oi_make(o, "ReduceMean", PH_IN(x, axes), PH_ATTRS(PH_INT("keepdims", 1)));
    int                  off = ph_oi_make(o, "Sub", PH_IN(x, mean), PH_NO_ATTRS);
    int var = ph_oi_make(o, "ReduceMean", PH_IN(ph_oi_make(o, "Mul", PH_IN(off, off), PH_NO_ATTRS), axes),
                         PH_ATTRS(PH_INT("keepdims", 1)));
    int dev = ph_oi_make(o, "Sqrt", PH_IN(var), PH_NO_ATTRS);
    dev = ph_oi_make(o, "Add", PH_IN(dev, ph_oi_number(o, 1e-9)), PH_NO_ATTRS);
    return ph_oi_emit(o, n, "Div", PH_IN(off, dev), PH_NO_ATTRS, err);
}

/* ---- activations ---- */

int ph_oi_as_matrix(const ph_shape *s, int64_t axis, ph_shape *to) {
    *to = ph_shape_of(2, ph_dim_of(1), ph_dim_of(1));
    for (int i = 0; i < s->rank; i++)
        if (!ph_dim_mul(to->dim[i >= axis], s->dim[i], &to->dim[i >= axis])) return 0;
    return 1;
}

/* Before opset 13 all axes from `axis` on are one. */
ph_rc ph_oi_softmax(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int      x = ph_oi_in(o, n, 0);
    int64_t  axis = ph_oi_int(o, n, "axis", o->opset < 13 ? 1 : -1);
    ph_shape shape = *ph_oi_shape(o, x), to;
    if (o->opset >= 13 || (axis < 0 ? axis + shape.rank : axis) == shape.rank - 1)
        return ph_oi_emit(o, n, n->op, PH_IN(x), PH_ATTRS(PH_INT("axis", axis)), err);
    if (axis < 0) axis += shape.rank;
    if (axis < 0 || axis > shape.rank || !ph_oi_as_matrix(&shape, axis, &to))
        return ph_oi_fail(o, err, PH_EUNSUP, "%s over the axes from %lld on", n->op, (long long)axis);
    int y = ph_oi_make(o, n->op, PH_IN(ph_oi_reshape(o, x, &to)), PH_ATTRS(PH_INT("axis", -1)));
    ph_oi_set(o, n, 0, ph_oi_reshape(o, y, &shape));
    return ph_oi_done(o, err);
}

ph_rc ph_oi_clip(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int x = ph_oi_in(o, n, 0), low = ph_oi_in(o, n, 1), high = ph_oi_in(o, n, 2);
    if (ph_oi_attr(o, n, "min")) low = ph_oi_number(o, ph_oi_float(o, n, "min", 0));
    if (ph_oi_attr(o, n, "max")) high = ph_oi_number(o, ph_oi_float(o, n, "max", 0));
    return ph_oi_emit(o, n, "Clip", PH_IN(x, low, high), PH_NO_ATTRS, err);
}

/* ---- norms ---- */

/* With the mean and 1 / deviation as outputs: step by step. */
static ph_rc with_statistics(ph_oi *o, const ph_onnx_node *n, int64_t axis, double epsilon, ph_err *err) {
    int     x = ph_oi_in(o, n, 0), bias = ph_oi_in(o, n, 2), rank = ph_oi_shape(o, x)->rank;
    int64_t axes[PH_RANK_MAX];
    for (int i = (int)axis; i < rank; i++) axes[i - axis] = i;
    int list = ph_oi_list(o, axes, rank - (int)axis);
    int mean = ph_oi_make(o, "ReduceMean", PH_IN(x, list), PH_NO_ATTRS),
        off = ph_oi_make(o, "Sub", PH_IN(x, mean), PH_NO_ATTRS);
    int var = ph_oi_make(o, "ReduceMean", PH_IN(ph_oi_make(o, "Mul", PH_IN(off, off), PH_NO_ATTRS), list),
                         PH_NO_ATTRS);
    var = ph_oi_make(o, "Add", PH_IN(var, ph_oi_number(o, epsilon)), PH_NO_ATTRS);
    int by = ph_oi_make(o, "Reciprocal", PH_IN(ph_oi_make(o, "Sqrt", PH_IN(var), PH_NO_ATTRS)), PH_NO_ATTRS);
    int y = ph_oi_make(o, "Mul", PH_IN(ph_oi_make(o, "Mul", PH_IN(off, by), PH_NO_ATTRS), ph_oi_in(o, n, 1)),
                       PH_NO_ATTRS);
    if (bias >= 0) y = ph_oi_make(o, "Add", PH_IN(y, bias), PH_NO_ATTRS);
    ph_oi_set(o, n, 0, y);
    ph_oi_set(o, n, 1, mean);
    ph_oi_set(o, n, 2, by);
    return ph_oi_done(o, err);
}

/* Over several axes: as one, and back. */
ph_rc ph_oi_layernorm(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int      x = ph_oi_in(o, n, 0), scale = ph_oi_in(o, n, 1), bias = ph_oi_in(o, n, 2);
    int64_t  axis = ph_oi_int(o, n, "axis", -1);
    ph_attr  epsilon = PH_FLOAT("epsilon", ph_oi_float(o, n, "epsilon", 1e-5));
    ph_shape s = *ph_oi_shape(o, x), to;
    int      has_bias = bias >= 0;
    if (axis < 0) axis += s.rank;
    if (axis < 0 || axis >= s.rank)
        return ph_oi_fail(o, err, PH_EMISMATCH, "axis %lld of an array of rank %d", (long long)axis, s.rank);
    if (ph_oi_has_out(n, 1) || ph_oi_has_out(n, 2)) return with_statistics(o, n, axis, epsilon.f, err);
    if (axis == s.rank - 1) return ph_oi_emit(o, n, n->op, PH_IN(x, scale, bias), &epsilon, 1, err);
    if (!ph_oi_as_matrix(&s, axis, &to)) return ph_oi_fail(o, err, PH_EUNSUP, "%s over symbolic axes", n->op);
    ph_shape line = ph_shape_of(1, to.dim[1]);
    x = ph_oi_reshape(o, x, &to);
    scale = ph_oi_reshape(o, scale, &line);
    if (has_bias) bias = ph_oi_reshape(o, bias, &line);
    int y = ph_oi_make(o, n->op, (const int[]){x, scale, bias}, 2 + has_bias, &epsilon, 1);
    ph_oi_set(o, n, 0, ph_oi_reshape(o, y, &s));
    return ph_oi_done(o, err);
}

ph_rc ph_oi_batchnorm(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int in[5];
    for (size_t i = 0; i < 5; i++) in[i] = ph_oi_in(o, n, i);
    if (!ph_oi_int(o, n, "spatial", 1))
        return ph_oi_fail(o, err, PH_EUNSUP, "BatchNormalization with spatial 0");
    return ph_oi_emit(o, n, "BatchNormalization", in, 5,
                      PH_ATTRS(PH_FLOAT("epsilon", ph_oi_float(o, n, "epsilon", 1e-5)),
                               PH_INT("training_mode", ph_oi_int(o, n, "training_mode", 0))),
                      err);
}

/* One a group, as opset 18 has them, to one a channel. */
static int spread(ph_oi *o, int x, int64_t groups, int64_t channels) {
    ph_shape column = ph_shape_of(2, ph_dim_of(groups), ph_dim_of(1)),
             wide = ph_shape_of(2, ph_dim_of(groups), ph_dim_of(channels / groups)),
             line = ph_shape_of(1, ph_dim_of(channels));
    x = ph_oi_reshape(o, x, &column);
    x = ph_oi_make(o, "Expand", PH_IN(x, ph_oi_shape_list(o, &wide)), PH_NO_ATTRS);
    return ph_oi_reshape(o, x, &line);
}

ph_rc ph_oi_groupnorm(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int             x = ph_oi_in(o, n, 0), scale = ph_oi_in(o, n, 1), bias = ph_oi_in(o, n, 2);
    const ph_shape *s = ph_oi_shape(o, x);
    int64_t         groups = ph_oi_int(o, n, "num_groups", 0), channels = s->rank > 1 ? s->dim[1].mul : 0;
    if (s->rank < 2 || !ph_dim_is_fixed(s->dim[1]) || groups < 1 || channels < 1 || channels % groups)
        return ph_oi_fail(o, err, PH_EMISMATCH, "%lld groups of %lld channels", (long long)groups,
                          (long long)channels);
    if (o->opset < 21) {
        scale = spread(o, scale, groups, channels);
        bias = spread(o, bias, groups, channels);
    }
    return ph_oi_emit(
        o, n, "GroupNormalization", PH_IN(x, scale, bias),
        PH_ATTRS(PH_INT("num_groups", groups), PH_FLOAT("epsilon", ph_oi_float(o, n, "epsilon", 1e-5))), err);
}

/* ---- pools and convolutions ---- */

/* Of bytes: as floats, which hold them exactly, and back. */
ph_rc ph_oi_maxpool(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int x = ph_oi_in(o, n, 0);
    if (o->g->rc || x < 0 || ph_oi_has_out(n, 1) ||
        (o->g->value[x].dtype != PH_U8 && o->g->value[x].dtype != PH_I8))
        return ph_oi_plain(o, n, "MaxPool", err);
    int64_t to = o->g->value[x].dtype == PH_U8 ? PH_ONNX_UINT8 : PH_ONNX_INT8;
    int     y = ph_oi_make(o, "Cast", PH_IN(x), PH_ATTRS(PH_INT("to", PH_ONNX_FLOAT)));
    y = ph_oi_plain_on(o, n, "MaxPool", PH_IN(y));
    return ph_oi_emit(o, n, "Cast", PH_IN(y), PH_ATTRS(PH_INT("to", to)), err);
}

/* ---- recurrent ---- */

/* Names of activations become one text, apart by commas. */
ph_rc ph_oi_recurrent(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    const ph_onnx_attr *names = ph_oi_attr(o, n, "activations");
    char                list[200] = "";
    int                 in[8];
    size_t              at = 0;
    if (ph_oi_attr(o, n, "activation_alpha") || ph_oi_attr(o, n, "activation_beta"))
        return ph_oi_fail(o, err, PH_EUNSUP, "%s with parameters of activations", n->op);
    for (size_t i = 0; names && names->type == PH_ONNX_A_TEXTS && i < names->n && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, i ? ",%s" : "%s", names->texts[i]);
    for (size_t i = 0; i < 8; i++) in[i] = ph_oi_in(o, n, i);
    return ph_oi_emit(o, n, n->op, in, 8,
                      PH_ATTRS(PH_TEXT("activations", list),
                               PH_TEXT("direction", ph_oi_text(o, n, "direction", "forward")),
                               PH_INT("hidden_size", ph_oi_int(o, n, "hidden_size", 0)),
                               PH_INT("layout", ph_oi_int(o, n, "layout", 0)),
                               PH_INT("input_forget", ph_oi_int(o, n, "input_forget", 0)),
                               PH_INT("linear_before_reset", ph_oi_int(o, n, "linear_before_reset", 0)),
                               PH_FLOAT("clip", ph_oi_float(o, n, "clip", 0))),
                      err);
}

/* ---- quantised ---- */

ph_rc ph_oi_quantize(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int     x = ph_oi_in(o, n, 0), scale = ph_oi_in(o, n, 1), zero = ph_oi_in(o, n, 2);
    int64_t to = ph_oi_int(o, n, "output_dtype", 0);
    int     is_out = !strcmp(n->op, "QuantizeLinear");
    if (o->g->rc || x < 0 || scale < 0)
        return ph_oi_fail(o, err, PH_EMISMATCH, "%s wants x and a scale", n->op);
    if (is_out && (to == PH_ONNX_UINT4 || to == PH_ONNX_INT4 || to > 16))
        return ph_oi_fail(o, err, PH_EUNSUP, "QuantizeLinear to %s",
                          ph_onnx_type_name(to < 99 ? (int)to : 99));
    if (!to && is_out) to = PH_ONNX_UINT8;
    return ph_oi_emit(o, n, n->op, PH_IN(x, scale, zero),
                      PH_ATTRS(PH_INT("axis", ph_oi_int(o, n, "axis", 1)),
                               PH_INT("block_size", ph_oi_int(o, n, "block_size", 0)), PH_INT("to", to)),
                      err);
}

/* acc (i32) * (scale a * scale b / scale y), rounded, plus the zero point of y. */
static ph_rc requantize(ph_oi *o, const ph_onnx_node *n, int acc, int sa, int sb, int sy, int zero,
                        ph_err *err) {
    int by = ph_oi_make(o, "Div", PH_IN(ph_oi_make(o, "Mul", PH_IN(sa, sb), PH_NO_ATTRS), sy), PH_NO_ATTRS);
    int y = ph_oi_make(o, "Cast", PH_IN(acc), PH_ATTRS(PH_INT("to", 1)));
    y = ph_oi_make(o, "Mul", PH_IN(y, by), PH_NO_ATTRS);
    return ph_oi_emit(o, n, "QuantizeLinear", PH_IN(y, ph_oi_number(o, 1), zero),
                      PH_ATTRS(PH_INT("to", PH_ONNX_UINT8)), err);
}

ph_rc ph_oi_qlinear_matmul(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int in[8];
    for (size_t i = 0; i < 8; i++) in[i] = ph_oi_in(o, n, i);
    if (n->n_in != 8) return ph_oi_fail(o, err, PH_EMISMATCH, "QLinearMatMul wants eight inputs");
    int acc = ph_oi_make(o, "MatMulInteger", PH_IN(in[0], in[3], in[2], in[5]), PH_NO_ATTRS);
    return requantize(o, n, acc, in[1], in[4], in[6], in[7], err);
}

ph_rc ph_oi_qlinear_conv(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int      in[9];
    ph_shape column = {0};
    for (size_t i = 0; i < 9; i++) in[i] = ph_oi_in(o, n, i);
    if (o->g->rc || n->n_in < 8 || ph_oi_shape(o, in[3])->rank < 3)
        return ph_oi_fail(o, err, PH_EMISMATCH, "QLinearConv wants eight inputs, and filters [O, C, ..]");
    column.rank = ph_oi_shape(o, in[3])->rank - 1;
    for (int i = 0; i < column.rank; i++) column.dim[i] = ph_dim_of(1);
    column.dim[0] = ph_oi_shape(o, in[3])->dim[0];
    int acc = ph_oi_plain_on(o, n, "ConvInteger", PH_IN(in[0], in[3], in[2], in[5]));
    if (in[8] >= 0) acc = ph_oi_make(o, "Add", PH_IN(acc, ph_oi_reshape(o, in[8], &column)), PH_NO_ATTRS);
    const ph_shape *s = ph_oi_shape(o, in[4]);
    if (s->rank == 1 && ph_dim_same(s->dim[0], column.dim[0])) in[4] = ph_oi_reshape(o, in[4], &column);
    return requantize(o, n, acc, in[1], in[4], in[6], in[7], err);
}
