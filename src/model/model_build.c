/* build.c - the small pieces of algebra that all builders share. */
#include "model/family.h"

#include <stdarg.h>
#include <stdio.h>

int ph_build_linear(ph_graph *g, const ph_names *n, int x, int n_in, int n_out, int has_bias,
                    const char *name, ...) {
    char    full[160], weight[192], bias[192];
    va_list ap;
    va_start(ap, name);
    vsnprintf(full, sizeof full, name, ap);
    va_end(ap);
    snprintf(weight, sizeof weight, "%s.weight", full);
    snprintf(bias, sizeof bias, "%s.bias", full);
    int w = ph_names_weight(n, g, ph_shape_of(2, ph_dim_of(n_out), ph_dim_of(n_in)), "%s", weight);
    int b = ph_names_weight_if(n, g, has_bias, ph_shape_of(1, ph_dim_of(n_out)), "%s", bias);
    return ph_graph_node(g, "Linear", PH_IN(x, w, b), PH_NO_ATTRS, "%s.out", full);
}

int ph_build_linear_rows(ph_graph *g, const ph_names *n, int x, int n_in, int of, int from, int n_out,
                         const char *name, ...) {
    char    full[160], weight[192];
    va_list ap;
    va_start(ap, name);
    vsnprintf(full, sizeof full, name, ap);
    va_end(ap);
    snprintf(weight, sizeof weight, "%s.weight", full);
    int w = ph_names_weight_rows(n, g, of, n_in, from, n_out, weight);
    return ph_graph_node(g, "Linear", PH_IN(x, w), PH_NO_ATTRS, "%s.out.%d", full, from);
}

int ph_build_reshape(ph_graph *g, int x, const int64_t *dims, int n, const char *name, ...) {
    char    full[160];
    va_list ap;
    va_start(ap, name);
    vsnprintf(full, sizeof full, name, ap);
    va_end(ap);
    char as[192];
    snprintf(as, sizeof as, "%s.shape", full);
    int shape = ph_graph_constant(g, as, PH_I64, ph_shape_of(1, ph_dim_of(n)), dims);
    return ph_graph_node(g, "Reshape", PH_IN(x, shape), PH_NO_ATTRS, "%s", full);
}

int ph_build_act(ph_graph *g, int x, ph_act act, const char *name) {
    switch (act) {
    case PH_ACT_SILU:
        return ph_graph_node(g, "Swish", PH_IN(x), PH_ATTRS(PH_FLOAT("alpha", 1.0)), "%s", name);
    case PH_ACT_GELU_QUICK:
        return ph_graph_node(g, "Swish", PH_IN(x), PH_ATTRS(PH_FLOAT("alpha", 1.702)), "%s", name);
    case PH_ACT_GELU_TANH:
        return ph_graph_node(g, "Gelu", PH_IN(x), PH_ATTRS(PH_TEXT("approximate", "tanh")), "%s", name);
    case PH_ACT_RELU:
        return ph_graph_node(g, "Relu", PH_IN(x), PH_NO_ATTRS, "%s", name);
    case PH_ACT_GELU:
        break;
    }
    return ph_graph_node(g, "Gelu", PH_IN(x), PH_ATTRS(PH_TEXT("approximate", "none")), "%s", name);
}

int ph_build_shuffle(ph_graph *g, int x, int64_t side, int64_t r, int64_t d) {
    static const int64_t order[6] = {0, 1, 3, 2, 4, 5};
    int64_t              cells = side / r;
    x = ph_build_reshape(g, x, (const int64_t[]){0, cells, r, cells, r, d}, 6, "shuffle.cells");
    x = ph_graph_node(g, "Transpose", PH_IN(x), PH_ATTRS(PH_INTS("perm", order, 6)), "shuffle.turned");
    return ph_build_reshape(g, x, (const int64_t[]){0, cells * cells, r * r * d}, 3, "shuffle.rows");
}

static int vector(ph_graph *g, const char *name, const char *part, const int64_t *at, int n) {
    char as[96];
    snprintf(as, sizeof as, "%s.%s", name, part);
    return ph_graph_constant(g, as, PH_I64, ph_shape_of(1, ph_dim_of(n)), at);
}

int ph_build_rows(ph_graph *g, int x, int64_t from, int64_t to, const char *name) {
    static const int64_t axis[1] = {1};
    int                  a = vector(g, name, "from", &from, 1), b = vector(g, name, "to", &to, 1);
    return ph_graph_node(g, "Slice", PH_IN(x, a, b, vector(g, name, "axis", axis, 1)), PH_NO_ATTRS, "%s",
                         name);
}

/* One number of each tile, times zero, brings the tile dimension: Expand's target would have to be a symbol.
 */
int ph_build_repeat(ph_graph *g, int like, int w, const char *name) {
    static const int64_t zeros[2] = {0, 0}, ones[2] = {1, 1}, axes[2] = {1, 2};
    static const float   none = 0;
    char                 as[96];
    int                  from = vector(g, name, "from", zeros, 2), to = vector(g, name, "to", ones, 2);
    int one = ph_graph_node(g, "Slice", PH_IN(like, from, to, vector(g, name, "axes", axes, 2)), PH_NO_ATTRS,
                            "%s.one", name);
    snprintf(as, sizeof as, "%s.zero", name);
    int zero = ph_graph_constant(g, as, PH_F32, ph_shape_of(1, ph_dim_of(1)), &none);
    one = ph_graph_node(g, "Mul", PH_IN(one, zero), PH_NO_ATTRS, "%s.blank", name);
    return ph_graph_node(g, "Add", PH_IN(one, w), PH_NO_ATTRS, "%s", name);
}

int ph_build_norm(ph_graph *g, const ph_names *names, int x, int n, double eps, const char *name,
                  const char *as) {
    int w = ph_names_weight(names, g, ph_shape_of(1, ph_dim_of(n)), "%s.weight", name);
    int b = ph_names_weight(names, g, ph_shape_of(1, ph_dim_of(n)), "%s.bias", name);
    return ph_graph_node(g, "LayerNormalization", PH_IN(x, w, b),
                         PH_ATTRS(PH_INT("axis", -1), PH_FLOAT("epsilon", eps)), "%s", as);
}

ph_rc ph_pieces_text(ph_pieces *p, ph_err *err, const char *fmt, ...) {
    va_list ap;
    if (p->n >= p->max) return PH_FAIL(err, PH_ELIMIT, "a picture takes more than %zu prompt pieces", p->max);
    ph_piece *piece = &p->at[p->n++];
    piece->n_visual = 0;
    va_start(ap, fmt);
    int n = vsnprintf(piece->text, sizeof piece->text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof piece->text) return PH_FAIL(err, PH_EBUG, "prompt piece of %d bytes", n);
    return PH_OK;
}

ph_rc ph_pieces_run(ph_pieces *p, int n_visual, ph_err *err) {
    if (p->n >= p->max) return PH_FAIL(err, PH_ELIMIT, "a picture takes more than %zu prompt pieces", p->max);
    p->at[p->n++] = (ph_piece){.n_visual = n_visual};
    return PH_OK;
}

int ph_build_bridge_input(ph_graph *g, const ph_source *s, ph_names *names, int64_t n, int64_t d) {
    ph_err err = {0};
    if (ph_names_bridge(s, names, &err)) {
        ph_graph_fail(g, err.code, "%s", err.msg);
        return -1;
    }
    return ph_graph_input(g, "features", PH_F32,
                          ph_shape_of(3, ph_dim_sym(PH_SYM_I), ph_dim_of(n), ph_dim_of(d)));
}

const ph_name_row ph_projector_names[PH_N_PROJECTOR_NAMES] = {
    {PH_NAMES_BRIDGE, PH_NAME_WEIGHT | PH_NAME_BIAS, "linear_1", NULL},
    {PH_NAMES_BRIDGE, PH_NAME_WEIGHT | PH_NAME_BIAS, "linear_2", NULL},
    {PH_NAMES_LOOSE, PH_NAME_BARE, "image_newline", NULL},
};

int ph_build_projector(ph_graph *g, const ph_bridge_spec *b, const ph_names *names, int x) {
    x = ph_build_linear(g, names, x, b->d_in, b->d_hidden, b->has_bias, "linear_1");
    x = ph_build_act(g, x, b->act, "bridge.act");
    return ph_build_linear(g, names, x, b->d_hidden, b->d_out, b->has_bias, "linear_2");
}
