/* onnx_run.c - runs a model of a case and compares its outputs. */
#include "measure/onnx_run.h"

#include "engine/bare.h"
#include "graph/pass.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct way { /* one import of the model, and its arrays */
    ph_report          *r;
    const ph_onnx_case *c;
    ph_onnx_graph       g;
    ph_syms             syms;
    ph_feed             feed[PH_ONNX_IO_MAX];
    ph_arena            arena;
    ph_kernels          kernels;
    unsigned            features;
    const char         *what;
} way;

static double number_at(ph_dtype t, const void *data, int64_t i) {
    ph_weight w = {.dtype = t, .bytes = data};
    return ph_ref_at(&w, (size_t)i);
}

void ph_onnx_put(ph_dtype t, void *data, int64_t i, double x) {
    float   f = (float)x;
    int64_t whole = (int64_t)x;
    size_t  item = ph_dtype_bytes(t);
    char   *to = (char *)data + (size_t)i * item;
    if (t == PH_F64)
        memcpy(to, &x, item);
    else if (ph_dtype_get(t)->pack)
        ph_dtype_get(t)->pack(to, &f, 1);
    else
        memcpy(to, &whole, item); /* little-endian: the low bytes */
}

int64_t ph_onnx_io_count(const ph_onnx_io *io) {
    int64_t n = 1;
    for (int i = 0; i < io->rank; i++) n *= io->dim[i];
    return n;
}

double ph_onnx_given_at(const ph_onnx_io *io, int64_t i) {
    return io->floats ? (double)io->floats[i] : ph_ref_at(io->ref, (size_t)i);
}

static ph_rc make_feeds(way *w, ph_err *err) {
    for (size_t i = 0; i < w->c->n_in; i++) {
        const ph_onnx_io *io = &w->c->in[i];
        int               v = ph_graph_find(w->g.graph, io->name);
        if (v < 0) return PH_FAIL(err, PH_EMISMATCH, "the model has no input %s", io->name);
        ph_feed *f = &w->feed[i];
        *f = (ph_feed){io->name, {.dtype = w->g.graph->value[v].dtype, .rank = io->rank}};
        memcpy(f->array.dim, io->dim, sizeof io->dim);
        int64_t n = ph_onnx_io_count(io);
        PH_TRY(ph_arena_zero(&w->arena, &f->array.data, (size_t)n + 1, ph_dtype_bytes(f->array.dtype), err));
        for (int64_t k = 0; k < n; k++)
            ph_onnx_put(f->array.dtype, f->array.data, k, ph_onnx_given_at(io, k));
    }
    return PH_OK;
}

/* ---- comparing ---- */

static int has_shape(const ph_onnx_io *io, int rank, const int64_t *dim) {
    int same = io->rank == rank;
    for (int i = 0; i < rank && same; i++) same = io->dim[i] == dim[i];
    return same;
}

/* Equal infinities and two NaNs differ by 0, one NaN by infinity. */
static double gap_of(double ours, double ref) {
    if (isnan(ours) && isnan(ref)) return 0;
    if (isinf(ours) && isinf(ref) && (ours > 0) == (ref > 0)) return 0;
    double gap = fabs(ours - ref);
    return isnan(gap) ? (double)INFINITY : gap;
}

void ph_onnx_compare(ph_report *r, const ph_onnx_case *c, const ph_onnx_io *io, const ph_onnx_made *made,
                     const char *by, const char *what) {
    double  diff = 0, scale = 0;
    int64_t n = ph_onnx_io_count(io);
    int     is_real = ph_dtype_get(made->dtype)->pack != NULL;
    if (!has_shape(io, made->rank, made->dim)) {
        ph_case_fail(r, "%s (%s%s): another shape than the reference's, of rank %d", io->name, by, what,
                     made->rank);
        ph_figure(r, 1, 0, "%s: shapes", io->name);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double ours = number_at(made->dtype, made->data, i), ref = ph_onnx_given_at(io, i),
               gap = gap_of(ours, ref);
        if (gap > diff) diff = gap;
        if (isfinite(ref) && fabs(ref) > scale) scale = fabs(ref);
    }
    double tolerance = io->tolerance > 0 ? io->tolerance : c->tolerance;
    ph_figure(r, diff, is_real ? tolerance * (scale > 0 ? scale : 1) * ph_verify_looseness(r->how) : 0,
              "%s, %s%s", io->name, by, what);
}

static void compare(way *w, const ph_onnx_io *io, ph_dtype t, int rank, const int64_t *dim, const void *data,
                    const char *by) {
    const ph_onnx_made made = {t, rank, dim, data};
    ph_onnx_compare(w->r, w->c, io, &made, by, w->what);
}

static ph_rc by_definition(way *w, ph_err *err) {
    const ph_graph *g = w->g.graph;
    void           *all;
    PH_TRY(ph_arena_zero(&w->arena, &all, g->n_values, sizeof(ph_array), err));
    PH_TRY(ph_graph_eval(g, &w->syms, w->feed, w->c->n_in, NULL, all, &w->kernels, &w->arena, err));
    for (size_t i = 0; i < w->c->n_out; i++) {
        int v = ph_graph_find(g, w->c->out[i].name);
        if (v < 0) return PH_FAIL(err, PH_EMISMATCH, "the model has no output %s", w->c->out[i].name);
        const ph_array *a = (ph_array *)all + v;
        compare(w, &w->c->out[i], a->dtype, a->rank, a->dim, a->data, "by definition");
    }
    return PH_OK;
}

static ph_rc copy_in(way *w, const ph_bare *b, ph_err *err) {
    for (size_t i = 0; i < w->c->n_in; i++) {
        const ph_array *a = &w->feed[i].array;
        void           *to = ph_bare_buffer(b, w->feed[i].name);
        size_t          n = (size_t)ph_array_count(a) * ph_dtype_bytes(a->dtype);
        if (!to && n) return PH_FAIL(err, PH_EBUG, "input %s has no buffer", w->feed[i].name);
        if (n) memcpy(to, a->data, n);
    }
    return PH_OK;
}

static ph_rc compare_native(way *w, const ph_bare *b, ph_err *err) {
    for (size_t i = 0; i < w->c->n_out; i++) {
        const ph_graph *g = w->g.graph;
        int             v = ph_graph_find(g, w->c->out[i].name);
        int64_t         dim[PH_RANK_MAX];
        if (v < 0) return PH_FAIL(err, PH_EMISMATCH, "the model has no output %s", w->c->out[i].name);
        for (int d = 0; d < g->value[v].shape.rank; d++)
            PH_TRY(ph_dim_eval(g->value[v].shape.dim[d], &w->syms, &dim[d], err));
        compare(w, &w->c->out[i], g->value[v].dtype, g->value[v].shape.rank, dim,
                ph_bare_buffer(b, w->c->out[i].name), w->c->by ? w->c->by : "native");
    }
    return PH_OK;
}

static ph_rc by_engine(way *w, ph_err *err) {
    ph_pass_env env = {.kernels = &w->kernels};
    ph_bare     b;
    PH_TRY(ph_passes_run(w->g.graph, &env, NULL, err));
    PH_TRY(ph_bare_open(&b, w->g.graph, &w->syms, w->r->how->threads > 0 ? w->r->how->threads : 1,
                        w->features, err));
    ph_rc rc = copy_in(w, &b, err);
    if (!rc) rc = ph_bare_run(&b, err);
    if (!rc) rc = compare_native(w, &b, err);
    ph_bare_close(&b);
    return rc;
}

static void given_of(const ph_onnx_case *c, ph_onnx_given *given) {
    for (size_t i = 0; i < c->n_in; i++) {
        given[i] = (ph_onnx_given){.name = c->in[i].name, .rank = c->in[i].rank};
        memcpy(given[i].dim, c->in[i].dim, sizeof given[i].dim);
    }
}

static ph_rc run_way(way *w, const ph_onnx *m, int is_given, ph_err *err) {
    ph_onnx_given      given[PH_ONNX_IO_MAX];
    ph_onnx_import_how how = {.kernels = &w->kernels,
                              .given = given,
                              .n_given = is_given ? w->c->n_in : 0,
                              .user = w->r->how->user};
    given_of(w->c, given);
    PH_TRY(ph_onnx_import(&w->g, m, &how, err));
    PH_TRY(ph_onnx_syms(&w->g, given, w->c->n_in, &w->syms, err));
    PH_TRY(make_feeds(w, err));
    if (!w->c->is_engine_only) PH_TRY(by_definition(w, err));
    return by_engine(w, err);
}

static ph_rc one_way(ph_report *r, const ph_onnx_case *c, const ph_onnx *m, int is_given, int *had_symbols,
                     ph_err *err) {
    way   w = {.r = r, .c = c, .what = is_given ? ", shapes given" : ""};
    ph_rc rc = ph_kernels_features(r->how->isa, &w.features, err);
    if (!rc) rc = ph_arena_open_growing(&w.arena, 64 << 10, err);
    if (!rc) {
        ph_kernels_init(&w.kernels, w.features);
        rc = run_way(&w, m, is_given, err);
    }
    for (int i = 0; i < PH_N_SYMS; i++) *had_symbols |= w.g.symbol[i] != NULL;
    ph_onnx_graph_close(&w.g);
    ph_arena_close(&w.arena);
    return rc;
}

ph_rc ph_onnx_run_case(ph_report *r, const ph_onnx_case *c, ph_err *err) {
    ph_onnx m;
    int     had_symbols = 0;
    PH_TRY(ph_onnx_open(&m, c->path, err));
    ph_rc rc = one_way(r, c, &m, 0, &had_symbols, err);
    if (!rc && had_symbols) {
        rc = one_way(r, c, &m, 1, &had_symbols, err);
    } else if (rc && rc != PH_ENOMEM && rc != PH_EBUG) { /* what symbols cannot hold must go with numbers */
        ph_err with_numbers = {0};
        if (!one_way(r, c, &m, 1, &had_symbols, &with_numbers)) {
            ph_case_note(r, "only with shapes given: %.200s", err ? err->msg : "");
            rc = PH_OK;
        }
    }
    ph_onnx_close(&m);
    return rc;
}
