/* onnx_sizes.c - chains that compute shapes, reckoned with dimensions instead of run.
 *
 *     Shape ─► Gather ─► Unsqueeze ─► Concat ─► Reshape          x[batch, 17, 48] ─► [batch, -1, 12]
 *
 * A node whose inputs are known as dimensions (symbols included) and whose result a ph_dim can hold has no
 * node in our graph.  Otherwise its inputs become values (Sizes) and it is a node as all others.  Only lists
 * and single numbers are reckoned with: more a shape is not.
 */
#include "graph/onnx/onnx_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- from and to values ---- */

static int is_size_type(ph_dtype t) {
    return t == PH_I64 || t == PH_I32 || t == PH_BOOL || t == PH_F32;
}

/* A small constant: whole numbers, or floats that are whole. */
static int of_constant(const ph_oi *o, int id, ph_oi_sizes *out) {
    const ph_value *v = &o->g->value[id];
    int64_t         n, list[PH_OI_SIZES_MAX];
    float           real[PH_OI_SIZES_MAX];
    int             count;
    if (v->cls != PH_VALUE_CONSTANT || v->shape.rank > 1 || !is_size_type(v->dtype) ||
        ph_shape_count(&v->shape, NULL, &n, NULL) || n > PH_OI_SIZES_MAX)
        return 0;
    *out = (ph_oi_sizes){.rank = v->shape.rank, .n = (int)n, .dtype = v->dtype};
    if (v->dtype != PH_F32) {
        if (!ph_oi_ints(o, id, list, PH_OI_SIZES_MAX, &count)) return 0;
        for (int i = 0; i < count; i++) out->at[i] = ph_dim_of(list[i]);
        return 1;
    }
    if (n) ph_storage_row(&v->storage, 0, (size_t)n, real);
    for (int i = 0; i < out->n; i++) {
        if (!(fabsf(real[i]) < 1e9f) || fabsf(real[i] - rintf(real[i])) > 0) return 0;
        out->at[i] = ph_dim_of((int64_t)real[i]);
    }
    return 1;
}

int ph_oi_sizes_in(ph_oi *o, const ph_onnx_node *n, size_t i, ph_oi_sizes *out) {
    if (i >= n->n_in || !*n->in[i]) return 0;
    const ph_oi_item *item = ph_oi_item_of(o, n->in[i]);
    if (!item || !item->is_set) return 0;
    if (item->sizes) {
        *out = *item->sizes;
        return 1;
    }
    return item->id >= 0 && of_constant(o, item->id, out);
}

static int all_fixed(const ph_oi_sizes *s) {
    for (int i = 0; i < s->n; i++)
        if (!ph_dim_is_fixed(s->at[i])) return 0;
    return 1;
}

static ph_shape shape_of(const ph_oi_sizes *s) {
    return s->rank ? ph_shape_of(1, ph_dim_of(s->n)) : ph_shape_of(0);
}

static int constant_of(ph_oi *o, const ph_oi_sizes *s) {
    int64_t list[PH_OI_SIZES_MAX];
    char    name[64];
    for (int i = 0; i < s->n; i++) list[i] = s->at[i].mul;
    snprintf(name, sizeof name, "sizes~%zu", o->g->n_values);
    return ph_graph_constant(o->g, name, PH_I64, shape_of(s), list);
}

/* A Sizes node: each symbol is seen on a graph input that has it as a dimension. */
static int node_of(ph_oi *o, const ph_oi_sizes *s) {
    int64_t axes[PH_N_SYMS], powers[PH_OI_SIZES_MAX * PH_N_SYMS], mul[PH_OI_SIZES_MAX], div[PH_OI_SIZES_MAX],
        add[PH_OI_SIZES_MAX];
    int    in[PH_N_SYMS], sym[PH_N_SYMS], n_in = 0;
    size_t n = (size_t)s->n;
    for (int k = 0; k < PH_N_SYMS; k++) {
        int is_used = 0;
        for (int i = 0; i < s->n; i++) is_used |= s->at[i].pow[k];
        if (!is_used) continue;
        if (o->witness[k].value < 0) {
            ph_graph_fail(o->g, PH_EBUG, "no input has the axis '%.80s'", o->out->symbol[k]);
            return -1;
        }
        sym[n_in] = k;
        axes[n_in] = o->witness[k].axis;
        in[n_in++] = o->witness[k].value;
    }
    for (size_t i = 0; i < n; i++) {
        const ph_dim *d = &s->at[i];
        mul[i] = d->mul, div[i] = d->div, add[i] = d->add;
        for (int k = 0; k < n_in; k++) powers[i * (size_t)n_in + (size_t)k] = d->pow[sym[k]];
    }
    return ph_oi_make(o, "Sizes", in, n_in,
                      PH_ATTRS(PH_INTS("axes", axes, (size_t)n_in), PH_INTS("mul", mul, n),
                               PH_INTS("div", div, n), PH_INTS("add", add, n),
                               PH_INTS("powers", powers, n * (size_t)n_in), PH_INT("rank", s->rank)));
}

int ph_oi_sizes_value(ph_oi *o, const ph_oi_sizes *s) {
    int id = all_fixed(s) ? constant_of(o, s) : node_of(o, s);
    int to = s->dtype == PH_F32 ? 1 : s->dtype == PH_I32 ? 6 : s->dtype == PH_BOOL ? 9 : 7;
    return to == 7 ? id : ph_oi_make(o, "Cast", PH_IN(id), PH_ATTRS(PH_INT("to", to)));
}

/* ---- one element ---- */

/* A dimension with a rest is floor(mul * symbols / div) + add, and no sum, difference or product with such a
 * floor is one again: 2 * floor(N/2) is not N.  dim.c takes products as exact, which a family may promise; a
 * file promises nothing.  So what would need it is refused, and the chain stays nodes. */

/* a - b where a ph_dim can hold it. */
static int subtract(ph_dim a, ph_dim b, ph_dim *out) {
    if (ph_dim_is_fixed(b)) {
        if (b.mul == INT64_MIN) return 0;
        if (!ph_dim_is_fixed(a)) return ph_dim_add(a, ph_dim_of(-b.mul), out);
        int64_t n;
        if (__builtin_sub_overflow(a.mul, b.mul, &n)) return 0;
        *out = ph_dim_of(n);
        return 1;
    }
    if (ph_dim_is_fixed(a) || memcmp(a.pow, b.pow, sizeof a.pow) || a.div != b.div || a.mul < b.mul) return 0;
    if (__builtin_sub_overflow(a.add, b.add, &a.add)) return 0;
    a.mul -= b.mul;
    if (!a.mul) { /* equal floors */
        *out = ph_dim_of(a.add);
        return 1;
    }
    *out = a;
    return !ph_dim_has_rest(a);
}

static int times(ph_dim a, ph_dim b, ph_dim *out) {
    const ph_dim one = ph_dim_of(1);
    if (ph_dim_is_fixed(a) && ph_dim_is_fixed(b)) {
        int64_t n;
        if (__builtin_mul_overflow(a.mul, b.mul, &n)) return 0;
        *out = ph_dim_of(n);
        return 1;
    }
    if ((ph_dim_is_fixed(a) && a.mul < 0) || (ph_dim_is_fixed(b) && b.mul < 0)) return 0;
    if ((ph_dim_has_rest(a) && !ph_dim_same(b, one)) || (ph_dim_has_rest(b) && !ph_dim_same(a, one)))
        return 0;
    return ph_dim_mul(a, b, out);
}

/* Whole numbers: rounded to zero, and a floor over a number is a floor again, but not where what is divided
 * may be below zero.  Floats: exact or not at all. */
static int quotient(ph_dim a, ph_dim b, int is_real, ph_dim *out) {
    if (ph_dim_is_fixed(b) && !b.mul) return 0;
    if (ph_dim_is_fixed(a) && ph_dim_is_fixed(b)) {
        if (a.mul == INT64_MIN && b.mul == -1) return 0;
        if (is_real && a.mul % b.mul) return 0;
        *out = ph_dim_of(a.mul / b.mul);
        return 1;
    }
    if (ph_dim_has_rest(b) || b.mul < 1 || (a.add < 0 && !ph_dim_same(b, ph_dim_of(1)))) return 0;
    if (is_real && (ph_dim_has_rest(a) || a.mul % b.mul)) return 0;
    return ph_dim_div(a, b, out);
}

static int add(ph_dim a, ph_dim b, ph_dim *out) {
    if (ph_dim_is_fixed(a) && ph_dim_is_fixed(b)) {
        int64_t n;
        if (__builtin_add_overflow(a.mul, b.mul, &n)) return 0;
        *out = ph_dim_of(n);
        return 1;
    }
    return ph_dim_add(a, b, out);
}

/* -1, 0, 1 for a < b, a = b, a > b; 2: it depends.  Sizes are not negative. */
static int order(ph_dim a, ph_dim b) {
    if (ph_dim_same(a, b)) return 0;
    if (ph_dim_is_fixed(a) && ph_dim_is_fixed(b)) return a.mul < b.mul ? -1 : 1;
    if (ph_dim_is_fixed(b) && b.mul < 0 && b.mul < a.add) return 1;
    if (ph_dim_is_fixed(a) && a.mul < 0 && a.mul < b.add) return -1;
    if (!memcmp(a.pow, b.pow, sizeof a.pow) && a.div == b.div && a.mul == b.mul)
        return a.add < b.add ? -1 : 1;
    return 2;
}

typedef int binary_fn(ph_dim a, ph_dim b, int is_real, ph_dim *out);

static int do_add(ph_dim a, ph_dim b, int is_real, ph_dim *out) {
    return (void)is_real, add(a, b, out);
}

static int do_sub(ph_dim a, ph_dim b, int is_real, ph_dim *out) {
    return (void)is_real, subtract(a, b, out);
}

static int do_mul(ph_dim a, ph_dim b, int is_real, ph_dim *out) {
    return (void)is_real, times(a, b, out);
}

static int do_max(ph_dim a, ph_dim b, int is_real, ph_dim *out) {
    int r = order(a, b);
    (void)is_real;
    *out = r > 0 ? a : b;
    return r != 2;
}

static int do_min(ph_dim a, ph_dim b, int is_real, ph_dim *out) {
    int r = order(a, b);
    (void)is_real;
    *out = r < 0 ? a : b;
    return r != 2;
}

static int do_equal(ph_dim a, ph_dim b, int is_real, ph_dim *out) {
    int r = order(a, b);
    (void)is_real;
    *out = ph_dim_of(!r);
    return r != 2;
}

static int do_less(ph_dim a, ph_dim b, int is_real, ph_dim *out) {
    int r = order(a, b);
    (void)is_real;
    *out = ph_dim_of(r < 0);
    return r != 2;
}

static int do_greater(ph_dim a, ph_dim b, int is_real, ph_dim *out) {
    int r = order(a, b);
    (void)is_real;
    *out = ph_dim_of(r == 1);
    return r != 2;
}

static const struct {
    const char *op;
    binary_fn  *f;
    int         is_bool;
} binaries[] = {
    {"Add", do_add, 0},     {"Sub", do_sub, 0},   {"Mul", do_mul, 0},
    {"Div", quotient, 0},   {"Max", do_max, 0},   {"Min", do_min, 0},
    {"Equal", do_equal, 1}, {"Less", do_less, 1}, {"Greater", do_greater, 1},
};

/* ---- one node: 1 when r holds the result ---- */

static int binary(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r) {
    ph_oi_sizes a, b;
    for (size_t k = 0; k < sizeof binaries / sizeof *binaries; k++) {
        if (strcmp(binaries[k].op, n->op)) continue;
        if (n->n_in != 2 || !ph_oi_sizes_in(o, n, 0, &a) || !ph_oi_sizes_in(o, n, 1, &b) ||
            a.dtype != b.dtype || (a.n != b.n && a.n != 1 && b.n != 1) || (a.n > 1 && !a.rank) ||
            (b.n > 1 && !b.rank))
            return 0;
        *r = (ph_oi_sizes){.rank = a.rank | b.rank,
                           .n = a.n == 1 ? b.n : a.n,
                           .dtype = binaries[k].is_bool ? PH_BOOL : a.dtype};
        for (int i = 0; i < r->n; i++)
            if (!binaries[k].f(a.at[a.n == 1 ? 0 : i], b.at[b.n == 1 ? 0 : i], a.dtype == PH_F32, &r->at[i]))
                return 0;
        return 1;
    }
    return 0;
}

static int where(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r) {
    ph_oi_sizes c, a, b;
    if (!ph_oi_sizes_in(o, n, 0, &c) || !ph_oi_sizes_in(o, n, 1, &a) || !ph_oi_sizes_in(o, n, 2, &b) ||
        !all_fixed(&c) || a.dtype != b.dtype)
        return 0;
    int most = c.n > a.n ? c.n : a.n;
    if (b.n > most) most = b.n;
    if ((c.n != most && c.n != 1) || (a.n != most && a.n != 1) || (b.n != most && b.n != 1)) return 0;
    *r = (ph_oi_sizes){.rank = c.rank | a.rank | b.rank, .n = most, .dtype = a.dtype};
    for (int i = 0; i < most; i++)
        r->at[i] = c.at[c.n == 1 ? 0 : i].mul ? a.at[a.n == 1 ? 0 : i] : b.at[b.n == 1 ? 0 : i];
    return 1;
}

static int concat(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r) {
    ph_oi_sizes a;
    *r = (ph_oi_sizes){.rank = 1};
    for (size_t i = 0; i < n->n_in; i++) {
        if (!ph_oi_sizes_in(o, n, i, &a) || a.rank != 1 || r->n + a.n > PH_OI_SIZES_MAX ||
            (i && a.dtype != r->dtype))
            return 0;
        r->dtype = a.dtype;
        memcpy(&r->at[r->n], a.at, (size_t)a.n * sizeof *a.at);
        r->n += a.n;
    }
    return 1;
}

static int gather(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r) {
    ph_oi_sizes a, at;
    int64_t     axis = ph_oi_int(o, n, "axis", 0);
    if (!ph_oi_sizes_in(o, n, 0, &a) || !ph_oi_sizes_in(o, n, 1, &at) || a.rank != 1 || !all_fixed(&at) ||
        (axis && axis != -1))
        return 0;
    *r = (ph_oi_sizes){.rank = at.rank, .n = at.n, .dtype = a.dtype};
    for (int i = 0; i < at.n; i++) {
        int64_t k = at.at[i].mul;
        if (k < -a.n || k >= a.n) return 0;
        r->at[i] = a.at[k < 0 ? k + a.n : k];
    }
    return 1;
}

static int64_t bounded(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

static int slice(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r) {
    ph_oi_sizes a, s[4];
    int64_t     step = 1;
    if (o->opset < 10 || !ph_oi_sizes_in(o, n, 0, &a) || a.rank != 1) return 0;
    for (size_t i = 1; i < 5; i++) {
        if (i > 2 && !ph_oi_has(o, n, i)) continue;
        if (!ph_oi_sizes_in(o, n, i, &s[i - 1]) || s[i - 1].n != 1 || !all_fixed(&s[i - 1])) return 0;
        if (i == 3 && s[2].at[0].mul != 0 && s[2].at[0].mul != -1) return 0;
        if (i == 4) step = s[3].at[0].mul;
    }
    if (!step || step == INT64_MIN) return 0;
    int64_t first, length;
    ph_slice_cut(s[0].at[0].mul, s[1].at[0].mul, step, a.n, &first, &length);
    *r = (ph_oi_sizes){.rank = 1, .dtype = a.dtype};
    for (int64_t i = 0; i < length; i++) r->at[r->n++] = a.at[first + i * step];
    return 1;
}

/* Unsqueeze, Squeeze, Reshape: a list or a single number stays one or becomes the other. */
static int reshape(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r) {
    ph_oi_sizes to;
    if (!ph_oi_sizes_in(o, n, 0, r)) return 0;
    if (!strcmp(n->op, "Unsqueeze")) {
        if (r->rank) return 0;
        r->rank = 1;
        return 1;
    }
    if (!strcmp(n->op, "Squeeze")) {
        if (r->rank != 1 || r->n != 1) return 0;
        r->rank = 0;
        return 1;
    }
    if (!ph_oi_sizes_in(o, n, 1, &to) || to.n > 1 || !all_fixed(&to)) return 0;
    if (to.n && to.at[0].mul != -1 && to.at[0].mul != r->n) return 0;
    if (!to.n && r->n != 1) return 0;
    r->rank = to.n;
    return 1;
}

static int cast(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r) {
    int64_t to = ph_oi_int(o, n, "to", 0);
    if (!ph_oi_sizes_in(o, n, 0, r)) return 0;
    if (to != 1 && to != 6 && to != 7 && to != 10 && to != 11 && to != 16) return 0;
    r->dtype = to == 7 ? PH_I64 : to == 6 ? PH_I32 : PH_F32;
    return 1;
}

static int same(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r) {
    return ph_oi_sizes_in(o, n, 0, r);
}

static int product(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r) {
    ph_oi_sizes a;
    ph_dim      all = ph_dim_of(1);
    if (n->n_in > 1 || ph_oi_attr(o, n, "axes") || !ph_oi_sizes_in(o, n, 0, &a)) return 0;
    for (int i = 0; i < a.n; i++)
        if (!times(all, a.at[i], &all)) return 0;
    *r = (ph_oi_sizes){
        .rank = a.rank && ph_oi_int(o, n, "keepdims", 1), .n = 1, .dtype = a.dtype, .at = {all}};
    return 1;
}

/* The shape of input 0: of a value, or of a list of sizes. */
static int shape_in(ph_oi *o, const ph_onnx_node *n, ph_shape *s) {
    const ph_oi_item *item = n->n_in && *n->in[0] ? ph_oi_item_of(o, n->in[0]) : NULL;
    if (!item || !item->is_set || (item->id < 0 && !item->sizes)) return 0;
    *s = item->id < 0 ? shape_of(item->sizes) : *ph_oi_shape(o, item->id);
    return 1;
}

static int shape(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r) {
    ph_shape s;
    if (!shape_in(o, n, &s)) return 0;
    int64_t start = ph_oi_int(o, n, "start", 0), end = ph_oi_int(o, n, "end", s.rank);
    start = bounded(start < 0 ? start + s.rank : start, 0, s.rank);
    end = bounded(end < 0 ? end + s.rank : end, start, s.rank);
    *r = (ph_oi_sizes){.rank = 1, .dtype = PH_I64};
    for (int64_t i = start; i < end; i++) r->at[r->n++] = s.dim[i];
    return 1;
}

static int size(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r) {
    ph_shape s;
    ph_dim   all = ph_dim_of(1);
    if (!shape_in(o, n, &s)) return 0;
    for (int i = 0; i < s.rank; i++)
        if (!times(all, s.dim[i], &all)) return 0;
    *r = (ph_oi_sizes){.n = 1, .dtype = PH_I64, .at = {all}};
    return 1;
}

static const struct {
    const char *op;
    int (*f)(ph_oi *o, const ph_onnx_node *n, ph_oi_sizes *r);
} rules[] = {
    {"Shape", shape},   {"Size", size},         {"Gather", gather},   {"Slice", slice},
    {"Concat", concat}, {"Unsqueeze", reshape}, {"Squeeze", reshape}, {"Reshape", reshape},
    {"Cast", cast},     {"Where", where},       {"Identity", same},   {"ReduceProd", product},
    {"Floor", same},    {"Ceil", same},         {"Round", same},
};

/* Does any input hold sizes that are no value?  Only then is there something to keep. */
static int has_sizes(ph_oi *o, const ph_onnx_node *n) {
    for (size_t i = 0; i < n->n_in; i++) {
        const ph_oi_item *item = *n->in[i] ? ph_oi_item_of(o, n->in[i]) : NULL;
        if (item && item->sizes) return 1;
    }
    return 0;
}

ph_rc ph_oi_sizes_try(ph_oi *o, const ph_onnx_node *n, int *took, ph_err *err) {
    ph_oi_sizes r = {0};
    int         is_shape = !strcmp(n->op, "Shape") || !strcmp(n->op, "Size"), found = 0;
    *took = 0;
    if (*n->domain || (!is_shape && !has_sizes(o, n))) return ph_oi_done(o, err);
    found = binary(o, n, &r);
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !found; i++)
        if (!strcmp(rules[i].op, n->op)) found = rules[i].f(o, n, &r);
    if (found) ph_oi_set_sizes(o, n, &r);
    *took = found;
    return ph_oi_done(o, err);
}
