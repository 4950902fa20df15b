/* modal_help.c - see modal_help.h. */
#include "tests/unit/graph/modal_help.h"

#include <math.h>
#include <stdio.h>

void mh_open(mh *m) {
    *m = (mh){.seed = 11};
    CHECK(!ph_graph_open(&m->g, "modal", NULL));
    CHECK(!ph_arena_open_growing(&m->arena, 1 << 16, NULL));
}

void mh_close(mh *m) {
    ph_graph_close(m->g);
    ph_arena_close(&m->arena);
}

void mh_rows(mh *m, int64_t rows) {
    for (int i = 0; i < PH_N_SYMS; i++) m->syms.at[i] = rows;
}

static int feed(mh *m, const char *name, ph_dtype type, int rank, const int64_t *dim, const int32_t *ints) {
    ph_array a = {.dtype = type, .rank = rank};
    ph_shape s = {.rank = rank};
    int64_t  n = 1;
    for (int i = 0; i < rank; i++) {
        s.dim[i] = dim[i] < 0 ? GH_S(R) : GH_D(dim[i]);
        a.dim[i] = dim[i] < 0 ? m->syms.at[PH_SYM_R] : dim[i];
        n *= a.dim[i];
    }
    CHECK(!ph_arena_carve(&m->arena, &a.data, (size_t)n + 1, 4, NULL));
    if (ints)
        memcpy(a.data, ints, (size_t)n * 4);
    else
        gh_fill(a.data, (size_t)n, &m->seed);
    m->feed[m->n_feeds++] = (ph_feed){name, a};
    return ph_graph_input(m->g, name, type, s);
}

int mh_floats(mh *m, const char *name, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return feed(m, name, PH_F32, rank, (const int64_t[]){a, b, c, d}, NULL);
}

int mh_ints(mh *m, const char *name, int rank, int64_t a, int64_t b, const int32_t *data) {
    return feed(m, name, PH_I32, rank, (const int64_t[]){a, b}, data);
}

int mh_weight(mh *m, const char *name, int rank, int64_t a, int64_t b) {
    void    *p = NULL;
    int64_t  n = rank == 2 ? a * b : a;
    ph_shape s = rank == 2 ? ph_shape_of(2, GH_D(a), GH_D(b)) : ph_shape_of(1, GH_D(a));
    CHECK(!ph_arena_carve(&m->arena, &p, (size_t)n + 1, sizeof(float), NULL));
    gh_fill(p, (size_t)n, &m->seed);
    return ph_graph_weight(m->g, name, s,
                           ph_storage_of(PH_F32, p, (size_t)n * 4, (size_t)(rank == 2 ? b : a) * 4));
}

int mh_finish(mh *m, int y, ph_err *err) {
    if (!m->g->rc) ph_graph_output(m->g, y, "y");
    return !ph_graph_finish(m->g, err);
}

static ph_rc eval(mh *m, const ph_graph *g, ph_array *y, ph_err *err) {
    ph_kernels kernels = gh_kernels();
    return ph_graph_eval(g, &m->syms, m->feed, m->n_feeds, "y", y, &kernels, &m->arena, err);
}

ph_rc mh_eval(mh *m, ph_array *y, ph_err *err) {
    return eval(m, m->g, y, err);
}

int mh_close_to(const float *a, const float *b, int64_t n, double bound, const char *what) {
    double worst = 0, most = 0;
    int    is_finite = 1;
    for (int64_t i = 0; a && i < n; i++) {
        is_finite &= isfinite(a[i]) && isfinite(b[i]);
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        most = fmax(most, fabs((double)b[i]));
    }
    int is_same = (a || !n) && is_finite && worst <= bound * most && (most > 0 || !n);
    CHECK_SAY(is_same, "%s: off by %g of %g", what, worst, most);
    return is_same;
}

static size_t count_op(const ph_graph *g, const char *op) {
    size_t n = 0;
    for (size_t i = 0; i < g->n_nodes; i++) n += !strcmp(g->node[i].op->name, op);
    return n;
}

/* Written and read again. */
static void trip(mh *m, const ph_onnx_export_how *how, const char *op, double bound, const char *what) {
    ph_kernels               kernels = gh_kernels();
    const ph_onnx_import_how in = {.kernels = &kernels};
    ph_onnx_exported         x = {0};
    ph_onnx_memory           bytes = {0};
    ph_onnx                  file = {0};
    ph_onnx_graph            back = {0};
    ph_err                   err = {0};
    ph_array                 y, z;
    ph_rc                    rc = ph_onnx_export(&x, m->g, how, &err);
    if (!rc) rc = ph_onnx_write_memory(&bytes, &x.writer, &x.producer, PH_ONNX_EXTERNAL_NEVER, &err);
    if (!rc) rc = ph_onnx_view(&file, bytes.model, bytes.n, "test", &err);
    if (!rc) rc = ph_onnx_import(&back, &file, &in, &err);
    if (!rc) rc = eval(m, m->g, &y, &err);
    if (!rc) rc = eval(m, back.graph, &z, &err);
    CHECK_SAY(!rc, "%s, opset %d: %s %s", what, (int)how->opset, err.msg, err.n_notes ? err.note[0] : "");
    if (!rc) {
        CHECK(ph_array_count(&y) == ph_array_count(&z));
        mh_close_to(z.data, y.data, ph_array_count(&y), bound, what);
        CHECK_SAY((count_op(back.graph, op) == count_op(m->g, op)) == how->is_ours, "%s: %s", what, op);
    }
    ph_onnx_graph_close(&back);
    ph_onnx_close(&file);
    ph_onnx_memory_close(&bytes);
    ph_onnx_exported_close(&x);
}

void mh_onnx(mh *m, const char *op, double bound, const char *what) {
    trip(m, &(ph_onnx_export_how){.opset = 17}, op, bound, what);
    trip(m, &(ph_onnx_export_how){.opset = 21}, op, bound, what);
    trip(m, &(ph_onnx_export_how){.is_ours = 1}, op, 0, what);
}
