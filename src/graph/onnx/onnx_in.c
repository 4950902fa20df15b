/* onnx_in.c - the import of an ONNX model: names, order, functions, inputs and outputs.
 *
 * The names of a graph (or of one call of a function) are a sorted table: look-ups cannot be made slow by
 * chosen names, and a name that two make is found by its neighbour.  Calls of functions are a stack of scopes
 * of bounded depth: nothing recurses on the file.
 */
#include "graph/onnx/onnx_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 << 10, NODES_MAX = 1 << 18, NODE_ATTRS_MAX = 128 };

/* ---- names ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const ph_oi_name *)a)->name, ((const ph_oi_name *)b)->name);
}

static ph_oi_name *find_name(const ph_oi_scope *s, const char *name) {
    ph_oi_name key = {.name = name};
    return s->n_names ? bsearch(&key, s->name, s->n_names, sizeof *s->name, by_name) : NULL;
}

ph_oi_item *ph_oi_item_of(ph_oi *o, const char *name) {
    ph_oi_name *found = find_name(&o->scope[o->depth], name);
    if (!found) return NULL;
    if (!found->item.is_set && found->tensor) {
        found->item = (ph_oi_item){.is_set = 1, .id = ph_oi_tensor(o, found->tensor, name)};
        found->tensor = NULL;
    }
    return &found->item;
}

int ph_oi_is_taken(const ph_oi *o, const char *name) {
    return find_name(&o->scope[0], name) != NULL;
}

static void add_name(ph_oi_scope *s, const char *name, int node, const ph_onnx_tensor *tensor) {
    s->name[s->n_names++] = (ph_oi_name){.name = name, .node = node, .item = {.id = -1}, .tensor = tensor};
}

/* Is an initializer also listed as an input (IR below 4)?  Then it is the default of that input: a constant.
 */
static int is_initializer(const ph_oi_scope *s, const char *name) {
    const ph_oi_name *found = find_name(s, name);
    return found && found->node < 0;
}

static ph_rc check_names(const ph_oi *o, const ph_oi_scope *s, ph_err *err) {
    for (size_t i = 1; i < s->n_names; i++)
        if (!strcmp(s->name[i - 1].name, s->name[i].name)) {
            int twice = s->name[i - 1].tensor && s->name[i].tensor;
            return PH_FAIL(err, PH_EMISMATCH, "%.100s: %s '%.100s' %s", o->m->name,
                           twice ? "initializer" : "value", s->name[i].name,
                           twice ? "is there twice" : "is made twice: by two nodes, or a node and an input");
        }
    return PH_OK;
}

static size_t count_outputs(const ph_onnx_node *node, size_t n) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += node[i].n_out;
    return sum;
}

static void add_outputs(ph_oi_scope *s) {
    for (size_t i = 0; i < s->n_nodes; i++)
        for (size_t k = 0; k < s->node[i].n_out; k++)
            if (*s->node[i].out[k]) add_name(s, s->node[i].out[k], (int)i, NULL);
}

static ph_rc sort_names(const ph_oi *o, ph_oi_scope *s, ph_err *err) {
    if (s->n_names) qsort(s->name, s->n_names, sizeof *s->name, by_name);
    return check_names(o, s, err);
}

/* ---- order ---- */

/* The node that makes input i, -1 when none in this scope does.  Errors: PH_EMISMATCH nothing makes it. */
static ph_rc maker(const ph_oi *o, const ph_oi_scope *s, const ph_onnx_node *n, size_t i, int *out,
                   ph_err *err) {
    *out = -1;
    if (!*n->in[i]) return PH_OK;
    const ph_oi_name *found = find_name(s, n->in[i]);
    if (!found)
        return PH_FAIL(err, PH_EMISMATCH, "%.80s: node '%.80s' (%.40s) reads '%.80s', which nothing makes",
                       o->m->name, ph_onnx_node_label(n), n->op, n->in[i]);
    *out = found->node;
    return PH_OK;
}

/* Each node once all that it reads is made; `left` counts what it still waits for. */
static ph_rc sort_nodes(ph_oi *o, ph_oi_scope *s, uint32_t *order, ph_err *err) {
    size_t    n = s->n_nodes, edges = 0, done = 0, ready = 0;
    uint32_t *left, *first, *next;
    void     *p;
    int       from;
    for (size_t i = 0; i < n; i++) edges += s->node[i].n_in;
    PH_TRY(ph_arena_zero(&o->arena, &p, n, sizeof *left, err));
    left = p;
    PH_TRY(ph_arena_zero(&o->arena, &p, n + 2, sizeof *first, err));
    first = p;
    PH_TRY(ph_arena_carve(&o->arena, &p, edges, sizeof *next, err));
    next = p;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < s->node[i].n_in; k++) {
            PH_TRY(maker(o, s, &s->node[i], k, &from, err));
            if (from >= 0) first[from + 2]++, left[i]++;
        }
    for (size_t i = 2; i < n + 2; i++) first[i] += first[i - 1];
    for (size_t i = 0; i < n;
         i++) /* first[from + 1] ends up at the end of from's list, so first[from] begins it */
        for (size_t k = 0; k < s->node[i].n_in; k++) {
            PH_TRY(maker(o, s, &s->node[i], k, &from, err));
            if (from >= 0) next[first[from + 1]++] = (uint32_t)i;
        }
    for (size_t i = 0; i < n; i++)
        if (!left[i]) order[ready++] = (uint32_t)i;
    for (; done < ready; done++)
        for (uint32_t e = first[order[done]]; e < first[order[done] + 1]; e++)
            if (!--left[next[e]]) order[ready++] = next[e];
    for (size_t i = 0; i < n && ready < n; i++)
        if (left[i])
            return PH_FAIL(err, PH_EMISMATCH,
                           "%.100s: node '%.80s' (%.40s) waits for itself: the nodes form a circle",
                           o->m->name, ph_onnx_node_label(&s->node[i]), s->node[i].op);
    return PH_OK;
}

static ph_rc order_nodes(ph_oi *o, ph_oi_scope *s, ph_err *err) {
    void *p;
    int   from, sorted = 1;
    PH_TRY(ph_arena_carve(&o->arena, &p, s->n_nodes, sizeof(uint32_t), err));
    uint32_t *order = p;
    for (size_t i = 0; i < s->n_nodes; i++) {
        order[i] = (uint32_t)i;
        for (size_t k = 0; k < s->node[i].n_in; k++) {
            PH_TRY(maker(o, s, &s->node[i], k, &from, err));
            sorted &= from < (int)i;
        }
    }
    s->order = order;
    return sorted ? PH_OK : sort_nodes(o, s, order, err);
}

/* ---- opsets ---- */

static int64_t opset_of(const ph_oi_scope *s, const char *domain) {
    for (size_t i = 0; i < s->n_opsets; i++)
        if (!strcmp(s->opset[i].domain, domain)) return s->opset[i].version;
    return 0;
}

static ph_rc check_opsets(const ph_oi *o, const ph_onnx_opset *set, size_t n, const char *where,
                          ph_err *err) {
    for (size_t i = 0; i < n; i++) {
        const char *domain = *set[i].domain ? set[i].domain : "ai.onnx";
        for (size_t k = 0; k < i; k++)
            if (!strcmp(set[k].domain, set[i].domain))
                return PH_FAIL(err, PH_EMISMATCH,
                               "%.80s: %s imports %.60s twice: opset %" PRId64 " and opset %" PRId64,
                               o->m->name, where, domain, set[k].version, set[i].version);
        if (*set[i].domain) continue;
        if (set[i].version > PH_ONNX_OPSET_MAX || set[i].version < PH_ONNX_OPSET_MIN)
            return PH_FAIL(err, PH_EUNSUP,
                           "%.80s: %s imports opset %" PRId64 " of ai.onnx; %d to %d are read", o->m->name,
                           where, set[i].version, PH_ONNX_OPSET_MIN, PH_ONNX_OPSET_MAX);
    }
    return PH_OK;
}

/* ---- inputs and outputs ---- */

static int new_symbol(ph_oi *o, const char *name, ph_dim *out) {
    static const ph_sym order[PH_N_SYMS] = {PH_SYM_A, PH_SYM_B, PH_SYM_C, PH_SYM_I,
                                            PH_SYM_N, PH_SYM_S, PH_SYM_V, PH_SYM_R};
    for (int i = 0; i < o->n_syms; i++)
        if (!strcmp(o->out->symbol[order[i]], name)) {
            *out = ph_dim_sym(order[i]);
            return 1;
        }
    if (o->n_syms == PH_N_SYMS) return 0;
    char *copy;
    if (ph_arena_copy_text(&o->g->arena, &copy, name, strlen(name), NULL)) return 0;
    o->out->symbol[order[o->n_syms]] = o->g->symbol[order[o->n_syms]] = copy;
    *out = ph_dim_sym(order[o->n_syms++]);
    return 1;
}

static const ph_onnx_given *given_of(const ph_oi *o, const char *name) {
    for (size_t i = 0; i < o->how->n_given; i++)
        if (!strcmp(o->how->given[i].name, name)) return &o->how->given[i];
    return NULL;
}

/* A name for axis i, whole: two that begin alike are two.  Errors: PH_ENOMEM. */
static ph_rc axis_name(ph_oi *o, const ph_onnx_value *v, int i, const char **out, ph_err *err) {
    size_t size = strlen(v->name) + 16;
    void  *text;
    *out = v->dim[i].param;
    if (*v->dim[i].param) return PH_OK;
    PH_TRY(ph_arena_carve(&o->arena, &text, size, 1, err));
    snprintf(text, size, "%s[%d]", v->name, i);
    *out = text;
    return PH_OK;
}

static ph_rc input_shape(ph_oi *o, const ph_onnx_value *v, ph_shape *s, ph_err *err) {
    const ph_onnx_given *given = given_of(o, v->name);
    const char          *name;
    s->rank = v->has_shape || !given ? v->rank : given->rank;
    if (!v->has_shape && !given)
        return PH_FAIL(err, PH_EUNSUP, "%.80s: input '%.100s' has no shape; give one", o->m->name, v->name);
    if (given && given->rank != s->rank)
        return PH_FAIL(err, PH_EMISMATCH, "%.80s: input '%.100s' has rank %d, given %d", o->m->name, v->name,
                       s->rank, given->rank);
    for (int i = 0; i < s->rank; i++) {
        int64_t size = v->has_shape ? v->dim[i].size : -1;
        if (given && size >= 0 && given->dim[i] != size)
            return PH_FAIL(err, PH_EMISMATCH,
                           "%.80s: input '%.100s' has %" PRId64 " as dimension %d, given %" PRId64,
                           o->m->name, v->name, size, i, given->dim[i]);
        s->dim[i] = ph_dim_of(given ? given->dim[i] : size);
        if (given || size >= 0) continue;
        PH_TRY(axis_name(o, v, i, &name, err));
        if (!new_symbol(o, name, &s->dim[i]))
            return PH_FAIL(
                err, PH_ELIMIT,
                "%.80s: more than %d dynamic axes ('%.60s' of input '%.60s' is one more): give shapes",
                o->m->name, (int)PH_N_SYMS, name, v->name);
    }
    return PH_OK;
}

static int is_float(ph_dtype t) {
    return t == PH_F16 || t == PH_BF16 || t == PH_F64;
}

static int onnx_type(ph_dtype t) {
    return t == PH_F16 ? 10 : t == PH_BF16 ? 16 : t == PH_F64 ? 11 : 1;
}

/* Where a symbol's number can be seen. */
static void note_witness(ph_oi *o, int id, const ph_shape *s) {
    for (int i = 0; i < s->rank; i++)
        for (int k = 0; k < PH_N_SYMS; k++)
            if (o->witness[k].value < 0 && ph_dim_same(s->dim[i], ph_dim_sym((ph_sym)k)))
                o->witness[k].value = id, o->witness[k].axis = i;
}

enum { BESIDE_BYTES = 200, BESIDE_KEPT = 150 };

/* name#mark for a helper value, with a number behind where the file has that name itself. */
static void name_beside(const ph_oi *o, const char *name, const char *mark, char out[BESIDE_BYTES]) {
    int n = strlen(name) > BESIDE_KEPT
                ? snprintf(out, BESIDE_BYTES, "~%zu~%.100s#%s", o->g->n_values, name, mark)
                : snprintf(out, BESIDE_BYTES, "%s#%s", name, mark);
    for (unsigned i = 2; ph_oi_is_taken(o, out); i++) snprintf(out + n, (size_t)(BESIDE_BYTES - n), "%u", i);
}

static ph_rc add_input(ph_oi *o, const ph_onnx_value *v, ph_err *err) {
    ph_shape s = {0};
    ph_dtype t = ph_onnx_dtype(v->type);
    if (t == PH_N_DTYPES || v->type == PH_ONNX_INT4 || v->type == PH_ONNX_UINT4)
        return PH_FAIL(err, PH_EUNSUP, "%.80s: input '%.100s' is %s, which is not read", o->m->name, v->name,
                       v->type ? ph_onnx_type_name(v->type) : "no tensor");
    PH_TRY(input_shape(o, v, &s, err));
    int id = ph_graph_input(o->g, v->name, t, s);
    if (o->g->rc) return ph_oi_done(o, err);
    note_witness(o, id, &s);
    if (is_float(t)) {
        char name[BESIDE_BYTES];
        name_beside(o, v->name, "f32", name);
        id = ph_graph_node(o->g, "Cast", PH_IN(id), PH_ATTRS(PH_INT("to", 1)), "%s", name);
    }
    find_name(&o->scope[0], v->name)->item = (ph_oi_item){.is_set = 1, .id = id};
    return ph_oi_done(o, err);
}

/* The value lets go of its name, which an output needs. */
static void give_way(ph_oi *o, int id, const char *name) {
    char other[BESIDE_BYTES];
    int  was_output = o->g->value[id].is_output;
    if (strcmp(o->g->value[id].name, name)) return;
    name_beside(o, name, "made", other);
    ph_graph_output(o->g, id, other);
    o->g->value[id].is_output = was_output;
}

/* What an output is said to be; callers, and `check` of the seam behind it, go by that.  f32 becomes any
 * real. */
static ph_rc check_type(ph_oi *o, const ph_onnx_value *v, const ph_value *made, ph_err *err) {
    ph_dtype t = ph_onnx_dtype(v->type);
    if (!v->type || t == made->dtype || (is_float(t) && made->dtype == PH_F32)) return PH_OK;
    return ph_oi_fail(o, err, PH_EMISMATCH, "%.80s: output '%.100s' is said to be %s, and is made as %s",
                      o->m->name, v->name, ph_onnx_type_name(v->type), ph_dtype_name(made->dtype));
}

static ph_rc add_output(ph_oi *o, const ph_onnx_value *v, ph_err *err) {
    ph_dtype    t = ph_onnx_dtype(v->type);
    ph_oi_item *item = ph_oi_item_of(o, v->name);
    if (!item)
        return PH_FAIL(err, PH_EMISMATCH, "%.80s: output '%.100s' is made by no node", o->m->name, v->name);
    if (item->id < 0 && item->sizes) item->id = ph_oi_sizes_value(o, item->sizes);
    if (item->id < 0) return ph_oi_fail(o, err, PH_EMISMATCH, "output '%.100s' has no value", v->name);
    ph_value *value = &o->g->value[item->id];
    int       id = item->id, is_same = !strcmp(value->name, v->name);
    PH_TRY(check_type(o, v, value, err));
    if (is_same && value->is_output)
        return PH_FAIL(err, PH_EMISMATCH, "%.80s: output '%.100s' is listed twice", o->m->name, v->name);
    if (is_float(t) && value->dtype == PH_F32) {
        give_way(o, id, v->name);
        id = ph_graph_node(o->g, "Cast", PH_IN(id), PH_ATTRS(PH_INT("to", onnx_type(t))), "%.250s", v->name);
    } else if ((value->cls != PH_VALUE_TEMP || value->is_output) &&
               !(is_same && value->cls == PH_VALUE_INPUT)) {
        give_way(o, id, v->name);
        id = ph_graph_node(o->g, "Identity", PH_IN(id), PH_NO_ATTRS, "%.250s", v->name);
    }
    if (id >= 0) ph_graph_output(o->g, id, v->name);
    return ph_oi_done(o, err);
}

/* ---- scopes ---- */

/* An initializer is the default of the input of its name, and as that is declared. */
static ph_rc check_default(const ph_oi *o, const ph_onnx_value *v, const ph_onnx_tensor *t, ph_err *err) {
    if (v->type && v->type != t->type)
        return PH_FAIL(err, PH_EMISMATCH, "%.80s: input '%.100s' is %s, its initializer %s", o->m->name,
                       v->name, ph_onnx_type_name(v->type), ph_onnx_type_name(t->type));
    if (!v->has_shape) return PH_OK;
    if (v->rank != t->rank)
        return PH_FAIL(err, PH_EMISMATCH, "%.80s: input '%.100s' has rank %d, its initializer %d", o->m->name,
                       v->name, v->rank, t->rank);
    for (int i = 0; i < v->rank; i++)
        if (v->dim[i].size >= 0 && v->dim[i].size != t->dim[i])
            return PH_FAIL(err, PH_EMISMATCH,
                           "%.80s: dimension %d of input '%.100s' is %" PRId64
                           ", of its initializer %" PRId64,
                           o->m->name, i, v->name, v->dim[i].size, t->dim[i]);
    return PH_OK;
}

static ph_rc open_graph(ph_oi *o, ph_err *err) {
    const ph_onnx *m = o->m;
    ph_oi_scope   *s = &o->scope[0];
    void          *p;
    *s = (ph_oi_scope){
        .node = m->node, .n_nodes = m->n_nodes, .opset = m->opset, .n_opsets = m->n_opsets, .prefix = ""};
    PH_TRY(check_opsets(o, m->opset, m->n_opsets, "the model", err));
    if (!opset_of(s, ""))
        return PH_FAIL(err, PH_EMISMATCH, "%.100s: the model imports no opset of ai.onnx", m->name);
    PH_TRY(ph_arena_zero(&o->arena, &p,
                         m->n_inputs + m->n_initializers + count_outputs(m->node, m->n_nodes) + 1,
                         sizeof *s->name, err));
    s->name = p;
    for (size_t i = 0; i < m->n_initializers; i++) {
        if (!*m->initializer[i].name)
            return PH_FAIL(err, PH_EFORMAT, "%.100s: byte %zu: an initializer without a name", m->name,
                           m->initializer[i].at);
        add_name(s, m->initializer[i].name, -1, &m->initializer[i]);
    }
    PH_TRY(sort_names(o, s, err));
    size_t n_initializers = s->n_names;
    for (size_t i = 0; i < m->n_inputs; i++) {
        ph_oi_scope before = *s;
        before.n_names = n_initializers;
        if (!is_initializer(&before, m->input[i].name)) add_name(s, m->input[i].name, -1, NULL);
    }
    add_outputs(s);
    PH_TRY(sort_names(o, s, err));
    for (size_t i = 0; i < m->n_inputs; i++) {
        const ph_onnx_tensor *t = find_name(s, m->input[i].name)->tensor;
        PH_TRY(t ? check_default(o, &m->input[i], t, err) : add_input(o, &m->input[i], err));
    }
    return order_nodes(o, s, err);
}

/* The attributes of a call: its own, references resolved, then the function's defaults. */
static ph_rc call_attrs(ph_oi *o, ph_oi_scope *s, const ph_onnx_function *f, const ph_onnx_node *n,
                        ph_err *err) {
    void *p;
    PH_TRY(ph_arena_zero(&o->arena, &p, n->n_attrs + f->n_defaults, sizeof(ph_onnx_attr), err));
    ph_onnx_attr *attr = p;
    for (size_t i = 0; i < n->n_attrs; i++) {
        const ph_onnx_attr *a = ph_oi_attr(o, n, n->attr[i].name);
        if (!a) continue;
        attr[s->n_attrs] = *a;
        attr[s->n_attrs++].name = n->attr[i].name;
    }
    for (size_t i = 0; i < f->n_defaults; i++)
        attr[s->n_attrs++] = f->defaults[i]; /* looked up behind the call's own */
    s->attr = attr;
    return PH_OK;
}

/* What stands before the names inside a call: no other call's, so the first value that it makes. */
static ph_rc call_prefix(ph_oi *o, const ph_onnx_node *n, const char *outer, const char **out, ph_err *err) {
    enum { KEPT = 160 };
    char        prefix[KEPT + 32];
    char       *copy;
    const char *made = "";
    for (size_t k = 0; k < n->n_out && !*made; k++) made = n->out[k];
    if (*made && strlen(outer) < KEPT / 2 && strlen(made) < KEPT / 2)
        snprintf(prefix, sizeof prefix, "%.80s%.80s/", outer, made);
    else
        snprintf(prefix, sizeof prefix, "~%zu/", o->n_imported);
    PH_TRY(ph_arena_copy_text(&o->arena, &copy, prefix, strlen(prefix), err));
    *out = copy;
    return PH_OK;
}

static ph_rc push(ph_oi *o, const ph_onnx_function *f, const ph_onnx_node *n, ph_err *err) {
    void *p;
    if (o->depth + 1 == PH_OI_DEPTH_MAX)
        return PH_FAIL(err, PH_ELIMIT, "functions call each other more than %d deep", PH_OI_DEPTH_MAX - 1);
    ph_oi_scope *outer = &o->scope[o->depth], *s = outer + 1;
    *s = (ph_oi_scope){.node = f->node,
                       .n_nodes = f->n_nodes,
                       .opset = f->opset,
                       .n_opsets = f->n_opsets,
                       .function = f,
                       .call = n};
    PH_TRY(check_opsets(o, f->opset, f->n_opsets, "a function", err));
    if (n->n_in > f->n_in || n->n_out > f->n_out)
        return PH_FAIL(err, PH_EMISMATCH,
                       "function %.60s takes %zu inputs and has %zu outputs, not %zu and %zu", f->name,
                       f->n_in, f->n_out, n->n_in, n->n_out);
    PH_TRY(call_prefix(o, n, outer->prefix, &s->prefix, err));
    PH_TRY(call_attrs(o, s, f, n, err));
    PH_TRY(
        ph_arena_zero(&o->arena, &p, f->n_in + count_outputs(f->node, f->n_nodes) + 1, sizeof *s->name, err));
    s->name = p;
    for (size_t i = 0; i < f->n_in; i++) add_name(s, f->in[i], -1, NULL);
    add_outputs(s);
    PH_TRY(sort_names(o, s, err));
    for (size_t i = 0; i < f->n_in; i++) {
        ph_oi_item *from = i < n->n_in && *n->in[i] ? ph_oi_item_of(o, n->in[i]) : NULL;
        find_name(s, f->in[i])->item = from ? *from : (ph_oi_item){.is_set = 1, .id = -1};
    }
    PH_TRY(order_nodes(o, s, err));
    o->depth++;
    return PH_OK;
}

static ph_rc pop(ph_oi *o, ph_err *err) {
    ph_oi_scope            *s = &o->scope[o->depth];
    const ph_onnx_function *f = s->function;
    for (size_t k = 0; k < s->call->n_out; k++) {
        ph_oi_name *from = find_name(s, f->out[k]);
        ph_oi_item *item = from ? &from->item : NULL;
        if (!*s->call->out[k]) continue;
        if (!item || !item->is_set)
            return PH_FAIL(err, PH_EMISMATCH, "%.80s: function %.60s makes no '%.80s'", o->m->name, f->name,
                           f->out[k]);
        find_name(s - 1, s->call->out[k])->item = *item;
    }
    o->depth--;
    return PH_OK;
}

/* ---- nodes ---- */

/* "axes<13" allows axes before opset 13, "axis>=18" from 18 on; "axis" always. */
static int allows(const char *attrs, const char *name, int64_t opset) {
    size_t n = strlen(name);
    for (const char *p = attrs; p && *p;) {
        size_t word = strcspn(p, " ");
        if (word >= n && !strncmp(p, name, n) && (p[n] == ' ' || !p[n] || p[n] == '<' || p[n] == '>')) {
            if (p[n] == '<') return opset < strtol(p + n + 1, NULL, 10);
            return p[n] == '>' ? opset >= strtol(p + n + 2, NULL, 10) : 1;
        }
        p += word + (p[word] == ' ');
    }
    return 0;
}

int ph_onnx_op_allows(const char *op, const char *attr, int64_t opset) {
    const ph_oi_row *row = ph_oi_row_of("", op);
    return row && allows(row->attrs, attr, opset);
}

static ph_rc check_attrs(ph_oi *o, const ph_oi_row *row, const ph_onnx_node *n, ph_err *err) {
    for (size_t i = 0; i < n->n_attrs; i++) {
        const char         *name = n->attr[i].name;
        const ph_onnx_attr *a = ph_oi_attr(o, n, name);
        if (!allows(row->attrs, name, o->opset))
            return PH_FAIL(err, PH_EMISMATCH, "%.60s has no attribute '%.60s' in opset %" PRId64, n->op, name,
                           o->opset);
        if (a) PH_TRY(ph_oi_word_check(n->op, name, a, err)); /* NULL: the call left it out */
    }
    return PH_OK;
}

/* Attributes of a caller, where nobody calls. */
static ph_rc check_refs(const ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    for (size_t i = 0; !o->depth && i < n->n_attrs; i++)
        if (*n->attr[i].ref)
            return PH_FAIL(
                err, PH_EMISMATCH,
                "attribute '%.60s' stands for the caller's '%.60s', and the node is in no function",
                n->attr[i].name, n->attr[i].ref);
    return PH_OK;
}

/* Which of two a reader takes is not said anywhere: neither is. */
static ph_rc check_once(const ph_onnx_node *n, ph_err *err) {
    if (n->n_attrs > NODE_ATTRS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%zu attributes; at most %d", n->n_attrs, NODE_ATTRS_MAX);
    for (size_t i = 1; i < n->n_attrs; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(n->attr[i].name, n->attr[k].name))
                return PH_FAIL(err, PH_EFORMAT, "attribute '%.60s' is there twice", n->attr[i].name);
    return PH_OK;
}

/* Handlers give the outputs that they know. */
static ph_rc check_made(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    for (size_t k = 0; k < n->n_out; k++)
        if (*n->out[k] && !ph_oi_item_of(o, n->out[k])->is_set)
            return PH_FAIL(err, PH_EUNSUP, "output %zu ('%.80s') is not done", k, n->out[k]);
    return PH_OK;
}

static ph_rc import_node(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    const ph_onnx_function *f = ph_onnx_function_of(o->m, n);
    const ph_oi_row        *row = ph_oi_row_of(n->domain, n->op);
    int                     took = 0;
    o->node = n;
    o->n_temps = 0;
    if (++o->n_imported > NODES_MAX)
        return PH_FAIL(err, PH_ELIMIT, "more than %d nodes, those of functions included", NODES_MAX);
    if (n->n_in > PH_OI_IN_MAX * 16 || n->n_out > PH_OI_IN_MAX * 16)
        return PH_FAIL(err, PH_ELIMIT, "%zu inputs, %zu outputs", n->n_in, n->n_out);
    PH_TRY(check_once(n, err));
    PH_TRY(check_refs(o, n, err));
    o->opset = opset_of(&o->scope[o->depth], n->domain);
    if (!o->opset)
        return PH_FAIL(err, PH_EMISMATCH,
                       "the operator is of the domain '%.80s', of which no opset is imported",
                       *n->domain ? n->domain : "ai.onnx");
    if (f) return push(o, f, n, err);
    for (size_t i = 0; i < n->n_attrs; i++)
        if (n->attr[i].type == PH_ONNX_A_GRAPH)
            return PH_FAIL(err, PH_EUNSUP,
                           "attribute '%.60s' is a graph: control flow (If, Loop, Scan) is not run",
                           n->attr[i].name);
    if (!row) return ph_oi_user(o, n, err);
    if (o->opset < row->since)
        return PH_FAIL(err, PH_EMISMATCH, "%.60s is there since opset %d, the model imports %" PRId64, n->op,
                       row->since, o->opset);
    PH_TRY(check_attrs(o, row, n, err));
    PH_TRY(ph_oi_sizes_try(o, n, &took, err));
    if (!took) PH_TRY(row->take ? row->take(o, n, err) : ph_oi_plain(o, n, n->op, err));
    PH_TRY(ph_oi_done(o, err));
    return check_made(o, n, err);
}

static ph_rc import_all(ph_oi *o, ph_err *err) {
    for (;;) {
        ph_oi_scope *s = &o->scope[o->depth];
        if (s->next == s->n_nodes) {
            if (!o->depth) return PH_OK;
            PH_TRY(pop(o, err));
            continue;
        }
        const ph_onnx_node *n = &s->node[s->order[s->next++]];
        size_t              before = o->g->n_nodes;
        ph_rc               rc = import_node(o, n, err);
        if (!rc) ph_oi_props_apply(o, n, before);
        if (rc) o->stopped = n;
        if (rc)
            return ph_note(err, rc, "at node '%.60s' (%.40s), byte %zu of %.40s", ph_onnx_node_label(n),
                           n->op, n->at, o->m->name);
    }
}

static ph_rc import(ph_oi *o, ph_err *err) {
    PH_TRY(ph_arena_open_growing(&o->arena, CHUNK, err));
    PH_TRY(ph_arena_open_growing(&o->scratch, CHUNK, err));
    PH_TRY(ph_graph_open(&o->g, "onnx", err));
    o->out->graph = o->g;
    PH_TRY(ph_oi_props_open(o, err));
    PH_TRY(open_graph(o, err));
    PH_TRY(import_all(o, err));
    if (!o->m->n_outputs) return PH_FAIL(err, PH_EMISMATCH, "%.100s: the graph has no outputs", o->m->name);
    for (size_t i = 0; i < o->m->n_outputs; i++) PH_TRY(add_output(o, &o->m->output[i], err));
    return ph_graph_finish(o->g, err);
}

ph_rc ph_onnx_import(ph_onnx_graph *out, const ph_onnx *m, const ph_onnx_import_how *how, ph_err *err) {
    ph_oi *o = calloc(1, sizeof *o);
    *out = (ph_onnx_graph){0};
    if (!o) return PH_FAIL(err, PH_ENOMEM, "the import's tables");
    *o = (ph_oi){.m = m, .how = how, .out = out};
    for (int i = 0; i < PH_N_SYMS; i++) o->witness[i].value = -1;
    ph_rc               rc = import(o, err);
    const ph_onnx_node *stopped = o->stopped;
    out->n_nodes = o->n_imported;
    out->opset = opset_of(&o->scope[0], "");
    ph_arena_close(&o->arena);
    ph_arena_close(&o->scratch);
    free(o);
    if (rc) ph_onnx_graph_close(out);
    out->stopped = stopped;
    return rc;
}

void ph_onnx_graph_close(ph_onnx_graph *g) {
    ph_graph_close(g->graph);
    *g = (ph_onnx_graph){0};
}

/* ---- sizes of a run ---- */

static ph_rc take_size(const ph_onnx_graph *g, ph_dim d, int64_t size, const char *name, int i, ph_syms *out,
                       int *is_known, ph_err *err) {
    for (int k = 0; k < PH_N_SYMS; k++) {
        if (!ph_dim_same(d, ph_dim_sym((ph_sym)k))) continue;
        if (is_known[k] && out->at[k] != size)
            return PH_FAIL(err, PH_EMISMATCH,
                           "axis '%.80s' is %" PRId64 ", and %" PRId64 " as dimension %d of '%.80s'",
                           g->symbol[k] ? g->symbol[k] : "?", out->at[k], size, i, name);
        out->at[k] = size;
        is_known[k] = 1;
        return PH_OK;
    }
    if (ph_dim_is_fixed(d) && d.mul == size) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "dimension %d of '%.80s' is %" PRId64 ", not %" PRId64, i, name, size,
                   d.mul);
}

ph_rc ph_onnx_syms(const ph_onnx_graph *g, const ph_onnx_given *given, size_t n, ph_syms *out, ph_err *err) {
    int is_known[PH_N_SYMS] = {0};
    for (int k = 0; k < PH_N_SYMS; k++) out->at[k] = 1;
    for (size_t i = 0; i < n; i++) {
        int id = ph_graph_find(g->graph, given[i].name);
        if (id < 0 || g->graph->value[id].cls != PH_VALUE_INPUT)
            return PH_FAIL(err, PH_EMISMATCH, "the model has no input '%.100s'", given[i].name);
        const ph_shape *s = &g->graph->value[id].shape;
        if (s->rank != given[i].rank)
            return PH_FAIL(err, PH_EMISMATCH, "input '%.100s' has rank %d, given %d", given[i].name, s->rank,
                           given[i].rank);
        for (int d = 0; d < s->rank; d++)
            PH_TRY(take_size(g, s->dim[d], given[i].dim[d], given[i].name, d, out, is_known, err));
    }
    return PH_OK;
}
