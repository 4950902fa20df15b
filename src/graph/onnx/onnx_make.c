/* onnx_make.c - what handlers of single operators stand on: a node's inputs and attributes, and nodes of
 * ours. */
#include "graph/onnx/onnx_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256, NAME_KEPT = 180, ATTRS_MAX = 32, FOLD_INTS_MAX = 1 << 12 };

const ph_oi_row *ph_oi_row_of(const char *domain, const char *op) {
    static const ph_oi_row *(*const tables[])(size_t *) = {ph_oi_rows_onnx, ph_oi_rows_microsoft,
                                                           ph_oi_rows_pinhole};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        size_t           n = 0;
        const ph_oi_row *row = tables[t](&n);
        for (size_t i = 0; i < n; i++)
            if (!strcmp(row[i].op, op) && !strcmp(row[i].domain, domain)) return &row[i];
    }
    return NULL;
}

int ph_onnx_op_since(const char *domain, const char *op) {
    const ph_oi_row *row = ph_oi_row_of(domain, op);
    return row ? row->since : 0;
}

ph_rc ph_oi_done(ph_oi *o, ph_err *err) {
    if (o->g->rc && err) *err = o->g->err;
    return o->g->rc;
}

ph_rc ph_oi_fail(ph_oi *o, ph_err *err, ph_rc rc, const char *fmt, ...) {
    char    text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (o->g->rc) return ph_oi_done(o, err); /* what came first says more */
    return PH_FAIL(err, rc, "%s", text);
}

/* ---- reading ---- */

int ph_oi_has(ph_oi *o, const ph_onnx_node *n, size_t i) {
    if (i >= n->n_in || !*n->in[i]) return 0;
    const ph_oi_item *item = ph_oi_item_of(o, n->in[i]);
    return item && (item->id >= 0 || item->sizes);
}

int ph_oi_has_out(const ph_onnx_node *n, size_t k) {
    return k < n->n_out && *n->out[k];
}

int ph_oi_in(ph_oi *o, const ph_onnx_node *n, size_t i) {
    if (i >= n->n_in || !*n->in[i]) return -1;
    ph_oi_item *item = ph_oi_item_of(o, n->in[i]);
    if (!item || !item->is_set) {
        ph_graph_fail(o->g, PH_EMISMATCH, "'%.100s' is read before it is made", n->in[i]);
        return -1;
    }
    if (item->id < 0 && item->sizes) item->id = ph_oi_sizes_value(o, item->sizes);
    return item->id;
}

static const ph_onnx_attr *own_attr(const ph_onnx_attr *attr, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(attr[i].name, name)) return &attr[i];
    return NULL;
}

const ph_onnx_attr *ph_oi_attr(ph_oi *o, const ph_onnx_node *n, const char *name) {
    const ph_oi_scope  *s = &o->scope[o->depth];
    const ph_onnx_attr *a = own_attr(n->attr, n->n_attrs, name);
    return a && *a->ref ? own_attr(s->attr, s->n_attrs, a->ref) : a;
}

/* The attribute, which must have this type. */
static const ph_onnx_attr *typed(ph_oi *o, const ph_onnx_node *n, const char *name, ph_onnx_attr_type type) {
    const ph_onnx_attr *a = ph_oi_attr(o, n, name);
    if (!a || a->type == type) return a;
    ph_graph_fail(o->g, PH_EMISMATCH, "attribute '%.60s' has type %d, not %d", name, (int)a->type, (int)type);
    return NULL;
}

int64_t ph_oi_int(ph_oi *o, const ph_onnx_node *n, const char *name, int64_t otherwise) {
    const ph_onnx_attr *a = typed(o, n, name, PH_ONNX_A_INT);
    return a ? a->i : otherwise;
}

double ph_oi_float(ph_oi *o, const ph_onnx_node *n, const char *name, double otherwise) {
    const ph_onnx_attr *a = typed(o, n, name, PH_ONNX_A_FLOAT);
    return a ? a->f : otherwise;
}

const char *ph_oi_text(ph_oi *o, const ph_onnx_node *n, const char *name, const char *otherwise) {
    const ph_onnx_attr *a = typed(o, n, name, PH_ONNX_A_TEXT);
    return a ? a->text : otherwise;
}

const ph_shape *ph_oi_shape(const ph_oi *o, int id) {
    static const ph_shape none;
    return id >= 0 && (size_t)id < o->g->n_values ? &o->g->value[id].shape : &none;
}

int ph_oi_is_constant(const ph_oi *o, int id) {
    return id >= 0 && o->g->value[id].cls == PH_VALUE_CONSTANT;
}

static int64_t whole_at(ph_dtype t, const void *bytes, int64_t i) {
    size_t   item = ph_dtype_bytes(t);
    int      shift = 64 - 8 * (int)item;
    uint64_t raw = 0;
    memcpy(&raw, (const char *)bytes + (size_t)i * item, item); /* little-endian */
    return t == PH_I8 || t == PH_I16 || t == PH_I32 ? (int64_t)(raw << shift) >> shift : (int64_t)raw;
}

int ph_oi_ints(const ph_oi *o, int id, int64_t *out, int max, int *count) {
    int64_t n;
    if (!ph_oi_is_constant(o, id)) return 0;
    const ph_value *v = &o->g->value[id];
    if (v->storage.dtype != v->dtype || v->storage.form || ph_shape_count(&v->shape, NULL, &n, NULL) ||
        n > max ||
        (v->dtype != PH_I64 && v->dtype != PH_I32 && v->dtype != PH_BOOL && v->dtype != PH_I8 &&
         v->dtype != PH_U8))
        return 0;
    for (int64_t i = 0; i < n; i++) out[i] = whole_at(v->dtype, v->storage.plane[0].bytes, i);
    *count = (int)n;
    return 1;
}

int ph_oi_one_float(const ph_oi *o, int id, double *out) {
    int64_t n;
    float   x;
    if (!ph_oi_is_constant(o, id)) return 0;
    const ph_value *v = &o->g->value[id];
    if (v->dtype != PH_F32 || ph_shape_count(&v->shape, NULL, &n, NULL) || n != 1) return 0;
    ph_storage_row(&v->storage, 0, 1, &x);
    *out = (double)x;
    return 1;
}

/* ---- values ---- */

/* A name of the file in this scope; of what is too long, or inside a function has the name of a value
 * outside, a number makes its own. */
static void name_of(const ph_oi *o, const char *name, char out[NAME_BYTES]) {
    const ph_oi_scope *s = &o->scope[o->depth];
    size_t             before = strlen(s->prefix), n = strlen(name);
    if (before + n < NAME_KEPT) {
        memcpy(out, s->prefix, before);
        memcpy(out + before, name, n + 1);
        if (!before || !ph_oi_is_taken(o, out)) return;
    }
    snprintf(out, NAME_BYTES, "~%zu~%s", o->g->n_values, n > NAME_KEPT ? name + n - NAME_KEPT : name);
}

static void temp_name(ph_oi *o, char out[NAME_BYTES]) {
    const ph_onnx_node *n = o->node;
    char                base[NAME_BYTES];
    const char         *first = "";
    for (size_t k = 0; n && k < n->n_out && !*first; k++) first = n->out[k];
    name_of(o, first, base);
    do snprintf(out, NAME_BYTES, "%.200s#%d", base, ++o->n_temps);
    while (ph_oi_is_taken(o, out));
}

/* 4-bit numbers as bytes. */
static const void *widen_nibbles(ph_oi *o, const ph_onnx_tensor *t) {
    void *p;
    if (ph_arena_carve(&o->g->arena, &p, (size_t)t->count, 1, &o->g->err)) {
        o->g->rc = o->g->err.code;
        return NULL;
    }
    for (int64_t i = 0; i < t->count; i++) {
        int v = (t->bytes[i / 2] >> (i % 2 ? 4 : 0)) & 15;
        ((int8_t *)p)[i] = (int8_t)(t->type == PH_ONNX_INT4 && v > 7 ? v - 16 : v);
    }
    return p;
}

int ph_oi_tensor(ph_oi *o, const ph_onnx_tensor *t, const char *name) {
    ph_shape    s = {.rank = t->rank};
    char        full[NAME_BYTES];
    size_t      row = 0;
    const void *bytes = t->bytes;
    if (t->dtype == PH_N_DTYPES) {
        ph_graph_fail(o->g, PH_EUNSUP, "tensor '%.80s' (byte %zu) has the type %s, which is not read",
                      t->name, t->at, ph_onnx_type_name(t->type));
        return -1;
    }
    for (int i = 0; i < t->rank; i++) s.dim[i] = ph_dim_of(t->dim[i]);
    if (t->is_nibbles) bytes = widen_nibbles(o, t);
    if (o->g->rc) return -1;
    if (ph_dtype_row_bytes(t->dtype, t->rank ? t->dim[t->rank - 1] : 1, &row, NULL)) row = 0;
    name_of(o, name, full);
    return ph_graph_weight(o->g, full, s,
                           ph_storage_of(t->dtype, bytes, (size_t)t->count * ph_dtype_bytes(t->dtype), row));
}

int ph_oi_list(ph_oi *o, const int64_t *list, int n) {
    char name[NAME_BYTES];
    temp_name(o, name);
    return ph_graph_constant(o->g, name, PH_I64, ph_shape_of(1, ph_dim_of(n)), list);
}

int ph_oi_number(ph_oi *o, double x) {
    char  name[NAME_BYTES];
    float f = (float)x;
    temp_name(o, name);
    return ph_graph_constant(o->g, name, PH_F32, ph_shape_of(0), &f);
}

int ph_oi_shape_list(ph_oi *o, const ph_shape *s) {
    ph_oi_sizes sizes = {.rank = 1, .n = s->rank, .dtype = PH_I64};
    for (int i = 0; i < s->rank; i++) sizes.at[i] = s->dim[i];
    return ph_oi_sizes_value(o, &sizes);
}

/* ---- nodes ---- */

void ph_oi_make_all(ph_oi *o, const char *op, const int *in, int n_in, int *out, int n_out) {
    char name[NAME_BYTES];
    temp_name(o, name);
    int id = ph_graph_node(o->g, op, in, n_in, NULL, 0, "%s", name);
    for (int k = 0; k < n_out; k++) out[k] = id < 0 ? -1 : ph_graph_output_of(o->g, id, k);
    if (id >= 0) ph_oi_fold_last(o);
}

int ph_oi_make(ph_oi *o, const char *op, const int *in, int n_in, const ph_attr *attr, int n_attr) {
    char name[NAME_BYTES];
    temp_name(o, name);
    int id = ph_graph_node(o->g, op, in, n_in, attr, n_attr, "%s", name);
    if (id >= 0) ph_oi_fold_last(o);
    return id;
}

int ph_oi_reshape(ph_oi *o, int x, const ph_shape *to) {
    return ph_oi_make(o, "Reshape", PH_IN(x, ph_oi_shape_list(o, to)), PH_ATTRS(PH_INT("allowzero", 1)));
}

int ph_oi_transpose(ph_oi *o, int x, const int64_t *perm, int n) {
    return ph_oi_make(o, "Transpose", PH_IN(x), PH_ATTRS(PH_INTS("perm", perm, (size_t)n)));
}

/* A helper value that turns out to be an output takes its name, so that people find it. */
static void take_name(ph_oi *o, int id, const char *wanted) {
    char name[NAME_BYTES], *copy;
    if (id < 0 || o->g->rc || o->g->value[id].cls != PH_VALUE_TEMP || !strchr(o->g->value[id].name, '#'))
        return;
    name_of(o, wanted, name);
    if (ph_arena_copy_text(&o->g->arena, &copy, name, strlen(name), NULL)) return;
    o->g->value[id].name = copy;
}

void ph_oi_set(ph_oi *o, const ph_onnx_node *n, size_t k, int id) {
    if (!ph_oi_has_out(n, k)) return;
    ph_oi_item *item = ph_oi_item_of(o, n->out[k]);
    *item = (ph_oi_item){.is_set = 1, .id = id};
    take_name(o, id, n->out[k]);
}

void ph_oi_set_sizes(ph_oi *o, const ph_onnx_node *n, const ph_oi_sizes *s) {
    void *copy;
    int   is_fixed = 1;
    for (int i = 0; i < s->n; i++) is_fixed &= ph_dim_is_fixed(s->at[i]);
    if (is_fixed) {
        ph_oi_set(o, n, 0, ph_oi_sizes_value(o, s));
        return;
    }
    if (!ph_oi_has_out(n, 0)) return;
    if (ph_arena_carve(&o->arena, &copy, 1, sizeof *s, NULL)) {
        ph_graph_fail(o->g, PH_ENOMEM, "a list of sizes");
        return;
    }
    memcpy(copy, s, sizeof *s);
    *ph_oi_item_of(o, n->out[0]) = (ph_oi_item){.is_set = 1, .id = -1, .sizes = copy};
}

/* The node that was just added gives the outputs of n; id: its first, -1: it failed. */
static ph_rc give_outputs(ph_oi *o, const ph_onnx_node *n, int id, ph_err *err) {
    char name[NAME_BYTES];
    if (id < 0) return ph_oi_done(o, err);
    ph_node *made = &o->g->node[o->g->n_nodes - 1];
    if ((size_t)made->n_out < n->n_out)
        for (size_t k = (size_t)made->n_out; k < n->n_out; k++)
            if (ph_oi_has_out(n, k))
                return ph_oi_fail(o, err, PH_EUNSUP, "output %zu ('%.80s') is not done", k, n->out[k]);
    for (int k = 0; k < made->n_out; k++) {
        int value = made->out[k];
        if (k && ph_oi_has_out(n, (size_t)k)) {
            char *copy;
            name_of(o, n->out[k], name);
            PH_TRY(ph_arena_copy_text(&o->g->arena, &copy, name, strlen(name), err));
            o->g->value[value].name = copy;
        }
        ph_oi_set(o, n, (size_t)k, value);
    }
    ph_oi_fold_last(o);
    return ph_oi_done(o, err);
}

static void first_name(ph_oi *o, const ph_onnx_node *n, char name[NAME_BYTES]) {
    if (ph_oi_has_out(n, 0))
        name_of(o, n->out[0], name);
    else
        temp_name(o, name);
}

ph_rc ph_oi_emit(ph_oi *o, const ph_onnx_node *n, const char *op, const int *in, int n_in,
                 const ph_attr *attr, int n_attr, ph_err *err) {
    char name[NAME_BYTES];
    while (n_in && in[n_in - 1] < 0) n_in--; /* left out at the end */
    first_name(o, n, name);
    return give_outputs(o, n, ph_graph_node(o->g, op, in, n_in, attr, n_attr, "%s", name), err);
}

ph_rc ph_oi_emit_op(ph_oi *o, const ph_onnx_node *n, const ph_op *op, int n_out, const int *in, int n_in,
                    const ph_attr *attr, int n_attr, ph_err *err) {
    char name[NAME_BYTES];
    while (n_in && in[n_in - 1] < 0) n_in--; /* left out at the end */
    first_name(o, n, name);
    return give_outputs(o, n, ph_graph_node_of(o->g, op, n_out, in, n_in, attr, n_attr, name), err);
}

/* The attributes of n as ours; tensors and lists of texts are left to handlers. */
static int our_attrs(ph_oi *o, const ph_onnx_node *n, ph_attr out[ATTRS_MAX]) {
    int count = 0;
    for (size_t i = 0; i < n->n_attrs && count < ATTRS_MAX; i++) {
        const ph_onnx_attr *a = ph_oi_attr(o, n, n->attr[i].name);
        const char         *name = n->attr[i].name;
        if (!a) continue;
        if (a->type == PH_ONNX_A_INT) out[count++] = PH_INT(name, a->i);
        if (a->type == PH_ONNX_A_FLOAT) out[count++] = PH_FLOAT(name, a->f);
        if (a->type == PH_ONNX_A_TEXT) out[count++] = PH_TEXT(name, a->text);
        if (a->type == PH_ONNX_A_INTS) out[count++] = PH_INTS(name, a->ints, a->n);
        if (a->type == PH_ONNX_A_FLOATS) out[count++] = PH_FLOATS(name, a->floats, a->n);
    }
    return count;
}

ph_rc ph_oi_plain(ph_oi *o, const ph_onnx_node *n, const char *op, ph_err *err) {
    ph_attr attr[ATTRS_MAX];
    int     in[PH_OI_IN_MAX * 16];
    for (size_t i = 0; i < n->n_in; i++) in[i] = ph_oi_in(o, n, i);
    return ph_oi_emit(o, n, op, in, (int)n->n_in, attr, our_attrs(o, n, attr), err);
}

int ph_oi_plain_on(ph_oi *o, const ph_onnx_node *n, const char *op, const int *in, int n_in) {
    ph_attr attr[ATTRS_MAX];
    return ph_oi_make(o, op, in, n_in, attr, our_attrs(o, n, attr));
}

/* ---- products ---- */

/* W[K, N] as a stored weight [N, K], turned once; the same weight is turned once only. */
static int turned(ph_oi *o, int w) {
    const ph_value *v = &o->g->value[w];
    const int64_t   key[PH_OI_KEY] = {PH_OI_TURNED, w};
    size_t          k = (size_t)v->shape.dim[0].mul, n = (size_t)v->shape.dim[1].mul;
    size_t          item = ph_dtype_bytes(v->storage.dtype);
    void           *p;
    int             known = ph_oi_kept_find(o, key);
    if (known >= 0) return known;
    if (ph_arena_carve(&o->g->arena, &p, n * k, item, &o->g->err)) {
        o->g->rc = o->g->err.code;
        return -1;
    }
    const char *from = v->storage.plane[0].bytes;
    size_t      stride = v->storage.plane[0].row_stride;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < n; j++)
            memcpy((char *)p + (j * k + i) * item, from + i * stride + j * item, item);
    return ph_oi_keep(o, key, w, "T", (int64_t)n, (int64_t)k,
                      ph_storage_of(v->storage.dtype, p, n * k * item, k * item));
}

static int is_matrix(const ph_oi *o, int id) {
    return ph_oi_is_constant(o, id) && o->g->value[id].dtype == PH_F32 && o->g->value[id].shape.rank == 2 &&
           !o->g->value[id].storage.form && ph_dtype_block(o->g->value[id].storage.dtype) == 1;
}

/* The scale or zero point of a DequantizeLinear: one number, or n along the axis of N. */
static int is_scale(const ph_oi *o, int id, int64_t n, int axis_fits) {
    int64_t count;
    if (!ph_oi_is_constant(o, id) || o->g->value[id].storage.form || !o->g->value[id].storage.plane[0].bytes)
        return 0;
    if (ph_shape_count(&o->g->value[id].shape, NULL, &count, NULL)) return 0;
    return count == 1 || (axis_fits && count == n && o->g->value[id].shape.rank == 1);
}

/* Scales or zero points of blocks along the rows of [n, k]. */
static int are_of_blocks(const ph_oi *o, int id, int64_t n, int64_t k, int64_t block) {
    const ph_shape want = ph_shape_of(2, ph_dim_of(n), ph_dim_of(k / block));
    return block > 0 && k % block == 0 && ph_oi_is_constant(o, id) && !o->g->value[id].storage.form &&
           o->g->value[id].storage.plane[0].bytes && ph_shape_same(&o->g->value[id].shape, &want);
}

/* The 8-bit weight behind DequantizeLinear, with its scales, as one stored matrix [N, K]; -1: it is none. */
static int quantised(ph_oi *o, const ph_node *made, int is_transposed) {
    int        x = made->in[0], scale = made->in[1], zero = made->n_in > 2 ? made->in[2] : -1;
    ph_storage s = {.n_planes = 2, .form = &ph_storage_channels};
    int64_t    block = ph_node_int(made, "block_size", 0);
    if (!ph_oi_is_constant(o, x) || (block && !is_transposed)) return -1;
    const ph_value *v = &o->g->value[x];
    if ((v->dtype != PH_I8 && v->dtype != PH_U8) || v->shape.rank != 2 || !v->storage.plane[0].bytes)
        return -1;
    int64_t axis = ph_node_int(made, "axis", 1), n = v->shape.dim[is_transposed ? 0 : 1].mul,
            k = v->shape.dim[is_transposed ? 1 : 0].mul;
    int axis_fits = (axis < 0 ? axis + 2 : axis) == !is_transposed;
    if (n < 1 || k < 1) return -1;
    for (int i = 0; i < 2; i++) {
        int id = i ? zero : scale;
        if (i && id < 0) continue;
        if (block ? axis_fits || !are_of_blocks(o, id, n, k, block) : !is_scale(o, id, n, axis_fits))
            return -1;
    }
    const int64_t key[PH_OI_KEY] = {PH_OI_SCALED, x, scale, zero, block, is_transposed};
    int           known = ph_oi_kept_find(o, key);
    if (known >= 0) return known;
    s.dtype = v->dtype;
    s.n_rows = (size_t)n;
    s.plane[PH_PLANE_DATA] = v->storage.plane[0];
    s.plane[PH_PLANE_DATA].dtype = v->dtype;
    const ph_plane scales = o->g->value[scale].storage.plane[0];
    s.plane[PH_PLANE_SCALE] = scales;
    s.plane[PH_PLANE_SCALE].dtype = o->g->value[scale].storage.dtype;
    if (zero >= 0) {
        s.plane[PH_PLANE_ZERO] = o->g->value[zero].storage.plane[0];
        s.plane[PH_PLANE_ZERO].dtype = o->g->value[zero].dtype;
        s.n_planes = 3;
    }
    if (!is_transposed) {
        int t = turned(o, x);
        if (t < 0) return -1;
        s.plane[PH_PLANE_DATA].bytes = o->g->value[t].storage.plane[0].bytes;
    }
    s.plane[PH_PLANE_DATA].row_stride = (size_t)k;
    if (s.form->check(&s, (size_t)k, NULL)) return -1;
    return ph_oi_keep(o, key, x, is_transposed ? "q1" : "q0", n, k, s);
}

/* The stored weight [N, K] behind w, or -1. */
static int stored(ph_oi *o, int w, int is_transposed) {
    if (is_matrix(o, w)) return is_transposed ? w : turned(o, w);
    if (w < 0 || o->g->value[w].producer < 0) return -1;
    const ph_node *made = &o->g->node[o->g->value[w].producer];
    if (!strcmp(made->op->name, "DequantizeLinear")) return quantised(o, made, is_transposed);
    if (is_transposed || strcmp(made->op->name, "Transpose")) return -1;
    size_t         n;
    const int64_t *perm = ph_node_ints(made, "perm", &n);
    int            from = o->g->value[made->in[0]].producer;
    if (perm && perm[0] == 0) return -1;
    if (from >= 0 && !strcmp(o->g->node[from].op->name, "DequantizeLinear"))
        return quantised(o, &o->g->node[from], 1);
    return is_matrix(o, made->in[0]) ? made->in[0] : -1;
}

int ph_oi_product(ph_oi *o, int x, int w, int is_transposed, int bias) {
    int weight = o->g->rc || ph_oi_shape(o, x)->rank < 1 ? -1 : stored(o, w, is_transposed);
    if (weight >= 0) return ph_oi_make(o, "Linear", PH_IN(x, weight, bias), PH_NO_ATTRS);
    if (is_transposed) w = ph_oi_transpose(o, w, (const int64_t[]){1, 0}, 2);
    int y = ph_oi_make(o, "MatMul", PH_IN(x, w), PH_NO_ATTRS);
    return bias < 0 ? y : ph_oi_make(o, "Add", PH_IN(y, bias), PH_NO_ATTRS);
}
