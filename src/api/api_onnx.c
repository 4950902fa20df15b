/* api_onnx.c - plug-ins, and ONNX models by themselves on the native engine.
 *
 * A model is imported once, with symbols for its dynamic axes.  Shapes that symbols cannot hold are told at
 * the first run, and the model is imported with those numbers.  The program is laid out for the sizes of a
 * run, and again when others come.
 */
#include "api/api.h"

#include "engine/bare.h"
#include "engine/plugin.h"
#include "graph/onnx/onnx_in.h"
#include "graph/onnx/onnx_out.h"
#include "graph/pass.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IO_MAX = 256, THREADS_MAX = 256 };

struct pinhole_plugins {
    ph_plugins opened;
    atomic_int n_users; /* its owner, and models */
};

struct pinhole_onnx {
    pinhole_plugins *plugins; /* or NULL */
    ph_onnx          file;
    ph_kernels       kernels;
    unsigned         features;
    int              threads;
    ph_onnx_graph    g;           /* graph NULL: it wants shapes, and `given` has none yet */
    int              wants_given; /* symbols cannot hold its shapes */
    ph_onnx_given    given[IO_MAX];
    size_t           n_given; /* of the last run */
    ph_bare          bare;    /* program NULL: not laid out */
};

/* ---- plug-ins ---- */

static ph_rc open_plugins(pinhole_plugins **out, const char *const *paths, size_t n, ph_err *err) {
    pinhole_plugins *p = calloc(1, sizeof *p);
    if (!p) return PH_FAIL(err, PH_ENOMEM, "the handle of %zu plug-ins", n);
    ph_rc rc = ph_plugins_open(&p->opened, paths, n, err);
    if (rc) {
        free(p);
        return rc;
    }
    atomic_init(&p->n_users, 1);
    *out = p;
    return PH_OK;
}

static ph_rc check_paths(pinhole_plugins **plugins, const char *const *paths, size_t n, ph_err *err) {
    PH_API_WANT(plugins);
    *plugins = NULL;
    PH_API_WANT(paths);
    for (size_t i = 0; i < n; i++)
        if (!paths[i]) return PH_FAIL(err, PH_EUSAGE, "pinhole_plugins_open: path %zu of %zu is NULL", i, n);
    return n ? PH_OK : PH_FAIL(err, PH_EUSAGE, "pinhole_plugins_open: no paths");
}

int pinhole_plugins_open(pinhole_plugins **plugins, const char *const *paths, size_t n_paths,
                         pinhole_error *error) {
    ph_err err = {0};
    ph_rc  rc = check_paths(plugins, paths, n_paths, &err);
    if (!rc) rc = open_plugins(plugins, paths, n_paths, &err);
    return ph_api_end(rc, &err, error);
}

void pinhole_plugins_close(pinhole_plugins *p) {
    if (!p || atomic_fetch_sub(&p->n_users, 1) != 1) return;
    ph_plugins_close(&p->opened);
    free(p);
}

static ph_rc describe(const pinhole_plugins *plugins, size_t i, pinhole_operator *out, int *is_there,
                      ph_err *err) {
    PH_API_WANT(plugins);
    PH_API_WANT(out);
    const ph_user         *o = ph_user_op_at(plugins->opened.ops, i);
    const pinhole_operator known = o ? (pinhole_operator){.domain = o->domain,
                                                          .name = o->name,
                                                          .since = o->theirs.since,
                                                          .plugin = o->lib->name,
                                                          .plugin_version = o->lib->version,
                                                          .path = o->lib->path}
                                     : (pinhole_operator){0};
    *is_there = o != NULL;
    return ph_api_give(out, &known, sizeof known, "pinhole_operator", err);
}

int pinhole_plugins_operator(const pinhole_plugins *plugins, size_t i, pinhole_operator *out,
                             pinhole_error *error) {
    ph_err err = {0};
    int    is_there = 0;
    ph_rc  rc = describe(plugins, i, out, &is_there, &err);
    ph_api_end(rc, &err, error);
    return rc ? (int)rc : is_there;
}

/* ---- models ---- */

static const ph_user_ops *user_of(const pinhole_onnx *m) {
    return m->plugins ? m->plugins->opened.ops : NULL;
}

static ph_rc import(pinhole_onnx *m, const ph_onnx_given *given, size_t n, ph_err *err) {
    const ph_onnx_import_how how = {.kernels = &m->kernels, .given = given, .n_given = n, .user = user_of(m)};
    ph_pass_env              env = {.kernels = &m->kernels};
    PH_TRY(ph_onnx_import(&m->g, &m->file, &how, err));
    return ph_passes_run(m->g.graph, &env, NULL, err);
}

/* With symbols; where they do not do, any sizes tell whether numbers will. */
static ph_rc try_import(pinhole_onnx *m, ph_err *err) {
    ph_rc rc = import(m, NULL, 0, err);
    if (rc != PH_EUNSUP && rc != PH_ELIMIT && rc != PH_EMISMATCH) return rc;
    size_t n = ph_onnx_given_of(&m->file, "", m->given, IO_MAX);
    ph_onnx_graph_close(&m->g);
    m->wants_given = !import(m, m->given, n, NULL);
    ph_onnx_graph_close(&m->g);
    return m->wants_given ? PH_OK : rc;
}

static ph_rc open_onnx(pinhole_onnx *m, const char *path, const pinhole_onnx_options *o, ph_err *err) {
    if (o->threads < 0 || o->threads > THREADS_MAX)
        return PH_FAIL(err, PH_EUSAGE, "pinhole_onnx_options: threads is %d; 0 to %d", o->threads,
                       THREADS_MAX);
    m->threads = o->threads ? o->threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
    PH_TRY(ph_kernels_features(o->isa, &m->features, err));
    ph_kernels_init(&m->kernels, m->features);
    PH_TRY(ph_onnx_open(&m->file, path, err));
    if (m->file.n_inputs > IO_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%.160s has %zu inputs; at most %d are taken", path, m->file.n_inputs,
                       IO_MAX);
    return try_import(m, err);
}

static ph_rc take_onnx(pinhole_onnx **out, const char *path, const pinhole_onnx_options *options,
                       ph_err *err) {
    pinhole_onnx_options o;
    PH_API_WANT(out);
    *out = NULL;
    PH_API_WANT(path);
    PH_TRY(ph_api_take(&o, sizeof o, options, "pinhole_onnx_options", err));
    pinhole_onnx *m = calloc(1, sizeof *m);
    if (!m) return PH_FAIL(err, PH_ENOMEM, "a model's handle");
    m->plugins = o.plugins;
    if (m->plugins) atomic_fetch_add(&m->plugins->n_users, 1);
    ph_rc rc = open_onnx(m, path, &o, err);
    if (rc)
        pinhole_onnx_close(m);
    else
        *out = m;
    return rc;
}

int pinhole_onnx_open(pinhole_onnx **model, const char *path, const pinhole_onnx_options *options,
                      pinhole_error *error) {
    ph_err err = {0};
    return ph_api_end(take_onnx(model, path, options, &err), &err, error);
}

void pinhole_onnx_close(pinhole_onnx *m) {
    if (!m) return;
    ph_bare_close(&m->bare);
    ph_onnx_graph_close(&m->g);
    ph_onnx_close(&m->file);
    pinhole_plugins_close(m->plugins);
    free(m);
}

static int is_default(const ph_onnx *m, const char *name) {
    for (size_t i = 0; i < m->n_initializers; i++)
        if (!strcmp(m->initializer[i].name, name)) return 1;
    return 0;
}

/* Input i of those that a caller gives; NULL: past the last. */
static const ph_onnx_value *input_at(const ph_onnx *m, size_t i) {
    for (size_t k = 0; k < m->n_inputs; k++)
        if (!is_default(m, m->input[k].name) && !i--) return &m->input[k];
    return NULL;
}

static ph_rc tell_io(const pinhole_onnx *model, int is_output, size_t i, pinhole_named_array *out,
                     int *is_there, ph_err *err) {
    PH_API_WANT(model);
    PH_API_WANT(out);
    const ph_onnx       *f = &model->file;
    const ph_onnx_value *v = !is_output ? input_at(f, i) : i < f->n_outputs ? &f->output[i] : NULL;
    *out = (pinhole_named_array){0};
    *is_there = v != NULL;
    if (!v) return PH_OK;
    out->name = v->name;
    out->array.type = ph_onnx_dtype(v->type) == PH_N_DTYPES ? PINHOLE_NONE : v->type;
    out->array.rank = v->rank;
    for (int d = 0; d < v->rank; d++) out->array.dim[d] = v->dim[d].size < 0 ? -1 : v->dim[d].size;
    return PH_OK;
}

int pinhole_onnx_io(const pinhole_onnx *model, int is_output, size_t i, pinhole_named_array *out,
                    pinhole_error *error) {
    ph_err err = {0};
    int    is_there = 0;
    ph_rc  rc = tell_io(model, is_output, i, out, &is_there, &err);
    ph_api_end(rc, &err, error);
    return rc ? (int)rc : is_there;
}

/* ---- a run ---- */

static ph_rc check_array(const pinhole_named_array *a, size_t i, ph_err *err) {
    int64_t n = 8;
    if (!a->name) return PH_FAIL(err, PH_EUSAGE, "pinhole_onnx_run: input %zu has no name", i);
    if (a->array.rank < 0 || a->array.rank > PH_RANK_MAX)
        return PH_FAIL(err, PH_EMISMATCH, "input '%.100s' has rank %d; 0 to %d", a->name, a->array.rank,
                       PH_RANK_MAX);
    for (int d = 0; d < a->array.rank; d++)
        if (a->array.dim[d] < 0 || __builtin_mul_overflow(n, a->array.dim[d], &n))
            return PH_FAIL(err, PH_EMISMATCH, "input '%.100s': dimension %d is %" PRId64, a->name, d,
                           a->array.dim[d]);
    if (n && !a->array.data) return PH_FAIL(err, PH_EUSAGE, "input '%.100s' has no data", a->name);
    return PH_OK;
}

/* Each input of the model is given, once. */
static ph_rc check_given(const pinhole_onnx *m, const pinhole_named_array *in, size_t n, ph_err *err) {
    const ph_onnx_value *v;
    for (size_t i = 0; (v = input_at(&m->file, i)); i++) {
        size_t times = 0;
        for (size_t k = 0; k < n; k++) times += !strcmp(in[k].name, v->name);
        if (times != 1)
            return PH_FAIL(err, PH_EMISMATCH, "input '%.100s' is given %zu times, not once", v->name, times);
    }
    size_t known = 0;
    while (input_at(&m->file, known)) known++;
    return n == known ? PH_OK
                      : PH_FAIL(err, PH_EMISMATCH, "%zu inputs are given, the model has %zu", n, known);
}

static int is_same(const ph_onnx_given *a, const pinhole_named_array *b) {
    return !strcmp(a->name, b->name) && a->rank == b->array.rank &&
           !memcmp(a->dim, b->array.dim, (size_t)a->rank * sizeof *a->dim);
}

static int is_laid_out(const pinhole_onnx *m, const pinhole_named_array *in, size_t n) {
    if (!m->bare.program || m->n_given != n) return 0;
    for (size_t i = 0; i < n; i++)
        if (!is_same(&m->given[i], &in[i])) return 0;
    return 1;
}

/* The name as the model has it, which lives as long as the model. */
static const char *own_name(const pinhole_onnx *m, const char *name) {
    for (size_t i = 0; i < m->file.n_inputs; i++)
        if (!strcmp(m->file.input[i].name, name)) return m->file.input[i].name;
    return "";
}

static ph_rc lay_out(pinhole_onnx *m, const pinhole_named_array *in, size_t n, ph_err *err) {
    ph_syms syms;
    ph_bare_close(&m->bare);
    m->n_given = n;
    for (size_t i = 0; i < n; i++) {
        m->given[i] = (ph_onnx_given){.name = own_name(m, in[i].name), .rank = in[i].array.rank};
        memcpy(m->given[i].dim, in[i].array.dim, sizeof m->given[i].dim);
    }
    if (m->wants_given) {
        ph_onnx_graph_close(&m->g);
        ph_rc rc = import(m, m->given, n, err);
        if (rc) ph_onnx_graph_close(&m->g);
        PH_TRY(rc);
    }
    PH_TRY(ph_onnx_syms(&m->g, m->given, n, &syms, err));
    return ph_bare_open(&m->bare, m->g.graph, &syms, m->threads, m->features, err);
}

static ph_rc copy_in(const pinhole_onnx *m, const pinhole_named_array *in, ph_err *err) {
    const ph_value *v = &m->g.graph->value[ph_graph_find(m->g.graph, in->name)];
    void           *to = ph_bare_buffer(&m->bare, in->name);
    size_t          n = ph_dtype_bytes(v->dtype);
    if (ph_user_type(v->dtype) != in->array.type)
        return PH_FAIL(err, PH_EMISMATCH, "input '%.100s' is %s in the model, given as %s", in->name,
                       ph_onnx_type_name(ph_user_type(v->dtype)), ph_onnx_type_name(in->array.type));
    for (int d = 0; d < in->array.rank; d++) n *= (size_t)in->array.dim[d];
    if (n && to) memcpy(to, in->array.data, n);
    return PH_OK;
}

static ph_rc give_out(const pinhole_onnx *m, pinhole_named_array *out, size_t i, ph_err *err) {
    if (!out->name) return PH_FAIL(err, PH_EUSAGE, "pinhole_onnx_run: output %zu has no name", i);
    int id = ph_graph_find(m->g.graph, out->name);
    if (id < 0 || !m->g.graph->value[id].is_output)
        return PH_FAIL(err, PH_EUSAGE, "the model has no output '%.100s'", out->name);
    const ph_value *v = &m->g.graph->value[id];
    out->array = (pinhole_array){.data = ph_bare_buffer(&m->bare, out->name), .type = ph_user_type(v->dtype)};
    out->array.rank = v->shape.rank;
    for (int d = 0; d < v->shape.rank; d++)
        PH_TRY(ph_dim_eval(v->shape.dim[d], &m->bare.syms, &out->array.dim[d], err));
    return PH_OK;
}

static ph_rc run(pinhole_onnx *model, const pinhole_named_array *in, size_t n_in, pinhole_named_array *out,
                 size_t n_out, ph_err *err) {
    PH_API_WANT(model);
    if (n_in) PH_API_WANT(in);
    if (n_out) PH_API_WANT(out);
    for (size_t i = 0; i < n_in; i++) PH_TRY(check_array(&in[i], i, err));
    PH_TRY(check_given(model, in, n_in, err));
    if (!is_laid_out(model, in, n_in)) PH_TRY(lay_out(model, in, n_in, err));
    for (size_t i = 0; i < n_in; i++) PH_TRY(copy_in(model, &in[i], err));
    for (size_t i = 0; i < n_out; i++) PH_TRY(give_out(model, &out[i], i, err));
    return ph_bare_run(&model->bare, err);
}

int pinhole_onnx_run(pinhole_onnx *model, const pinhole_named_array *in, size_t n_in,
                     pinhole_named_array *out, size_t n_out, pinhole_error *error) {
    ph_err err = {0};
    return ph_api_end(run(model, in, n_in, out, n_out, &err), &err, error);
}
