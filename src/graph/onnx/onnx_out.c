/* onnx_out.c - the export: inputs, nodes in their order, outputs, and what the model says of itself. */
#include "graph/onnx/onnx_emit.h"
#include "graph/onnx/onnx_in.h"
#include "graph/user.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_CHUNK = 64 << 10, DIM_TEXT = 4096, NAME_KEPT = 200 };

/* The IR that came with an opset: what readers of that time take. */
static int64_t ir_of(int64_t opset) {
    return opset >= 23 ? 11 : opset >= 21 ? 10 : opset >= 19 ? 9 : 8;
}

/* ---- dimensions ---- */

/* Its name, or its letter.  A name beyond NAME_KEPT bytes is cut and gets the symbol's letter behind, so that
 * no two become one. */
static const char *symbol_of(const ph_oo *o, int s, char text[NAME_KEPT + 4]) {
    const char *name = o->how->symbol ? o->how->symbol[s] : NULL;
    if (!name)
        snprintf(text, NAME_KEPT + 4, "%c", ph_sym_letters[s]);
    else if (strlen(name) > NAME_KEPT)
        snprintf(text, NAME_KEPT + 4, "%.*s~%c", NAME_KEPT, name, ph_sym_letters[s]);
    else
        return name;
    return text;
}

/* As ph_dim_print has it, with the symbols' own names: "1+64*batch", "N/4". */
static const char *dim_text(ph_oo *o, const ph_dim *d) {
    char   text[DIM_TEXT], name[NAME_KEPT + 4], *out = NULL;
    size_t at = 0;
    if (o->rc) return "";
    if (d->add > 0) at += (size_t)snprintf(text, sizeof text, "%" PRId64 "+", d->add);
    if (d->mul != 1) at += (size_t)snprintf(text + at, sizeof text - at, "%" PRId64 "*", d->mul);
    for (int s = 0, n = 0; s < PH_N_SYMS; s++)
        for (int p = 0; p < d->pow[s] && at < sizeof text; p++, n++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", n ? "*" : "", symbol_of(o, s, name));
    if (d->div != 1 && at < sizeof text)
        at += (size_t)snprintf(text + at, sizeof text - at, "/%" PRId64, d->div);
    if (d->add < 0 && at < sizeof text)
        at += (size_t)snprintf(text + at, sizeof text - at, "%" PRId64, d->add);
    if (at >= sizeof text)
        ph_oo_fail(o, PH_ELIMIT, "a dimension of more than %d bytes in names of axes", DIM_TEXT);
    else
        o->rc = ph_arena_copy_text(&o->x->arena, &out, text, at, &o->err);
    return o->rc ? "" : out;
}

static ph_onnx_dim dim_of(ph_oo *o, const ph_dim *d) {
    if (ph_dim_is_fixed(*d)) return (ph_onnx_dim){d->mul, ""};
    return (ph_onnx_dim){-1, dim_text(o, d)};
}

static int dims_of(ph_oo *o, const ph_shape *s, ph_onnx_dim *out) {
    for (int i = 0; i < s->rank; i++) out[i] = dim_of(o, &s->dim[i]);
    return s->rank;
}

/* ---- inputs and outputs ---- */

static void put_value(ph_oo *o, int is_output, const char *name, int type, const ph_onnx_dim *dim, int rank) {
    ph_onnx_value v = {.name = name, .type = type, .has_shape = 1, .rank = rank};
    if (o->rc) return;
    if (rank > PH_ONNX_RANK_MAX || !type) {
        ph_oo_fail(o, PH_EUNSUP, "%.100s has a rank or a type that ONNX does not have", name);
        return;
    }
    if (rank) memcpy(v.dim, dim, (size_t)rank * sizeof *dim);
    ph_onnx_put_value(&o->x->writer, is_output, &v);
}

void ph_oo_put_input(ph_oo *o, const char *name, int type, const ph_onnx_dim *dim, int rank) {
    put_value(o, 0, name, type, dim, rank);
}

void ph_oo_put_output(ph_oo *o, const char *name, int type, const ph_onnx_dim *dim, int rank) {
    put_value(o, 1, name, type, dim, rank);
}

static int is_over_rows(const ph_oo *o, const ph_shape *s) {
    return o->batch && s->rank && ph_dim_same(s->dim[0], ph_dim_sym(PH_SYM_R));
}

/* An input over rows is one over [B, T] and becomes rows at once. */
static void expand_input(ph_oo *o, int id, const ph_onnx_dim *dim, int rank) {
    const ph_value *v = &o->g->value[id];
    ph_onnx_dim     wide[PH_ONNX_RANK_MAX + 1] = {{-1, "B"}, {-1, "T"}};
    int64_t         flat[PH_ONNX_RANK_MAX] = {-1};
    for (int i = 1; i < rank; i++) {
        wide[i + 1] = dim[i];
        flat[i] = dim[i].size;
    }
    if (rank + 1 > PH_ONNX_RANK_MAX)
        ph_oo_fail(o, PH_ELIMIT, "input %.100s has too many dimensions", v->name);
    else
        ph_oo_put_input(o, v->name, ph_oo_type(v->dtype), wide, rank + 1);
    o->name[id] = ph_oo_reshape(o, v->name, flat, (size_t)rank);
    if (strcmp(v->name, "rows")) return;
    const char *shape = ph_oo_one(o, "Shape", v->name);
    o->batch = ph_oo_slice(o, shape, 0, 0, 2, 1);
    o->rows = ph_oo_cast(o, v->name, PH_OO_INT64);
}

static void put_inputs(ph_oo *o) {
    ph_onnx_dim dim[PH_RANK_MAX];
    for (size_t i = 0; i < o->g->n_values && !o->rc; i++) {
        const ph_value *v = &o->g->value[i];
        if (v->cls == PH_VALUE_STATE) o->name[i] = v->name;
        if (v->cls != PH_VALUE_INPUT) continue;
        int rank = dims_of(o, &v->shape, dim);
        o->name[i] = v->name;
        if (is_over_rows(o, &v->shape))
            expand_input(o, (int)i, dim, rank);
        else
            ph_oo_put_input(o, v->name, ph_oo_type(v->dtype), dim, rank);
    }
    if (o->batch && !o->rows) ph_oo_fail(o, PH_EUNSUP, "graph %s has a cache, and no input rows", o->g->name);
}

static int is_also(const ph_oo *o, size_t value) {
    for (size_t i = 0; i < o->how->n_also; i++)
        if ((size_t)o->how->also[i] == value) return 1;
    return 0;
}

static void put_outputs(ph_oo *o) {
    ph_onnx_dim dim[PH_RANK_MAX];
    for (size_t i = 0; i < o->g->n_values && !o->rc; i++) {
        const ph_value *v = &o->g->value[i];
        if (!v->is_output && !is_also(o, i)) continue;
        if (v->cls == PH_VALUE_CONSTANT) ph_oo_fail(o, PH_EUNSUP, "output %.100s is a constant", v->name);
        ph_oo_put_output(o, v->name, ph_oo_type(v->dtype), dim, dims_of(o, &v->shape, dim));
    }
}

/* ---- the whole ---- */

static void put_node(ph_oo *o, const ph_node *n) {
    o->node = n;
    o->n_temps = 0;
    if (o->how->is_ours && !strcmp(n->op->domain, "pinhole") && ph_onnx_op_since("pinhole", n->op->name))
        ph_oo_as_it_is(o, n, "pinhole", n->op->name);
    else if (n->op->onnx)
        n->op->onnx(o, n);
    else
        ph_oo_plain(o, n);
    o->node = NULL;
}

static void put_nodes(ph_oo *o) {
    for (size_t i = 0; i < o->g->n_nodes && !o->rc; i++) put_node(o, &o->g->node[i]);
}

static int64_t version_of(const ph_onnx_writer *w, const char *domain) {
    for (size_t i = 0; i < w->n_others; i++)
        if (!strcmp(w->others[i].domain, domain)) return w->others[i].version;
    return 0;
}

/* The first node of this domain that needs this version of it. */
static const ph_node *node_since(const ph_graph *g, const char *domain, int64_t version) {
    const ph_node *n = g->node;
    while (n < g->node + g->n_nodes && (n->op->since != version || strcmp(n->op->domain, domain))) n++;
    return n;
}

/* Parts of one model may have imported a domain in several versions (functions do), and what is written
 * imports the newest: a node of a plug-in's must be the same operator there. */
static void check_versions(ph_oo *o) {
    for (size_t i = 0; i < o->g->n_nodes && !o->rc; i++) {
        const ph_node *n = &o->g->node[i];
        const ph_user *u = n->op->user;
        if (!u) continue;
        int64_t      version = version_of(&o->x->writer, u->domain);
        const ph_op *there = ph_user_op_find(u->all, u->domain, u->name, version, NULL);
        if (there == n->op) continue;
        ph_oo_fail(o, PH_EUNSUP,
                   "node %.50s is %.100s since version %d; a model imports one version of a domain, here "
                   "%" PRId64 " for node %.50s, and there it would be the operator since version %d",
                   n->name, u->full, n->op->since, version, node_since(o->g, u->domain, version)->name,
                   there ? there->since : 0);
    }
}

static void take_names(ph_oo *o) {
    for (size_t i = 0; i < o->g->n_values && !o->rc; i++) {
        if (o->g->value[i].cls == PH_VALUE_STATE) o->batch = "";
        ph_oo_fresh(o, o->g->value[i].name);
    }
}

static ph_rc open_tables(ph_oo *o, ph_err *err) {
    size_t n = o->g->n_values;
    void  *p;
    PH_TRY(ph_arena_open_growing(&o->x->arena, ARENA_CHUNK, err));
    PH_TRY(ph_arena_zero(&o->x->arena, &p, n + 1, sizeof *o->name, err));
    o->name = p;
    PH_TRY(ph_arena_zero(&o->x->arena, &p, n + 1, sizeof *o->turned, err));
    o->turned = p;
    return PH_OK;
}

static void nothing(void *entry) {
    (void)entry; /* in the arena */
}

static ph_rc export(ph_oo *o, ph_err *err) {
    ph_onnx_exported *x = o->x;
    PH_TRY(open_tables(o, err));
    x->writer.graph_name = ph_oo_text(o, "%.200s", o->g->name);
    if (o->g->modality) ph_onnx_put_prop(&x->writer, "pinhole.modality", ph_modality_name(o->g->modality));
    take_names(o);
    put_inputs(o);
    put_outputs(o); /* before those of a cache, which nodes add */
    put_nodes(o);
    check_versions(o);
    if (o->rc) {
        if (err) *err = o->err;
        return o->rc;
    }
    x->scratch = calloc(x->scratch_max + 1, sizeof *x->scratch);
    return x->scratch ? PH_OK : PH_FAIL(err, PH_ENOMEM, "a row of %zu numbers", x->scratch_max);
}

static ph_rc begin(ph_oo *o, ph_onnx_exported *x, const ph_graph *g, const ph_onnx_export_how *how,
                   ph_err *err) {
    static const ph_onnx_export_how usual = {0};
    *x = (ph_onnx_exported){.producer = {ph_oo_make_rows, x}};
    *o = (ph_oo){.g = g, .how = how ? how : &usual, .x = x};
    o->opset = o->how->opset ? o->how->opset : PH_ONNX_OUT_OPSET;
    if (o->opset < PH_ONNX_OUT_OPSET_MIN || o->opset > PH_ONNX_OUT_OPSET_MAX)
        return PH_FAIL(err, PH_EUSAGE, "opset %" PRId64 " is not written; %d to %d are", o->opset,
                       PH_ONNX_OUT_OPSET_MIN, PH_ONNX_OUT_OPSET_MAX);
    x->writer.opset = o->opset;
    x->writer.ir_version = ir_of(o->opset);
    return PH_OK;
}

static void end(ph_oo *o, ph_rc rc) {
    tdestroy(o->taken, nothing);
    tdestroy(o->once, nothing);
    if (rc) ph_onnx_exported_close(o->x);
}

ph_rc ph_onnx_export(ph_onnx_exported *x, const ph_graph *g, const ph_onnx_export_how *how, ph_err *err) {
    ph_oo o;
    ph_rc rc = begin(&o, x, g, how, err);
    if (!rc) rc = export(&o, err);
    end(&o, rc);
    return rc;
}

/* Its inputs are taken to be there; nothing is read of weights but how they are stored. */
static ph_rc try_node(ph_oo *o, const ph_node *n, ph_err *err) {
    PH_TRY(open_tables(o, err));
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        const ph_value *v = &o->g->value[n->in[i]];
        if (v->cls == PH_VALUE_STATE)
            return PH_FAIL(err, PH_EUNSUP, "node %.100s keeps the state %.60s", n->name, v->name);
        if (v->cls != PH_VALUE_CONSTANT) o->name[n->in[i]] = v->name;
    }
    put_node(o, n);
    if (o->rc && err) *err = o->err;
    return o->rc;
}

ph_rc ph_onnx_export_try(const ph_graph *g, int node, const ph_onnx_export_how *how, ph_err *err) {
    ph_onnx_exported x;
    ph_oo            o;
    if (node < 0 || (size_t)node >= g->n_nodes)
        return PH_FAIL(err, PH_EUSAGE, "node %d of %zu", node, g->n_nodes);
    ph_rc rc = begin(&o, &x, g, how, err);
    if (!rc) rc = try_node(&o, &g->node[node], err);
    end(&o, 1);
    return rc;
}

void ph_onnx_exported_close(ph_onnx_exported *x) {
    ph_onnx_writer_close(&x->writer);
    ph_arena_close(&x->arena);
    free(x->made);
    free(x->scratch);
    *x = (ph_onnx_exported){0};
}
