/* seeds: tests/golden/set/onnx/ops tests/golden/set/onnx/bad tests/golden/onnx/microsoft/ops
 * tests/golden/plugin/ops tests/golden/onnx/hostile */
/* fuzz_onnx.c - whatever the bytes: an error with a text, or tensors inside the file and a graph that the
 * check accepts, runs by definition, prints, and is written as a model that can be read. */
#include "graph/onnx/onnx_in.h"
#include "graph/onnx/onnx_out.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_MAX = 1 << 10, INPUTS_MAX = 8, NODES_MAX = 200 };

static void check_tensor(const ph_onnx *m, const ph_onnx_tensor *t, const uint8_t *bytes, size_t n) {
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++) {
        assert(t->dim[i] >= 0);
        count *= t->dim[i];
    }
    assert(count == t->count && m->n_external == 0);
    if (!t->bytes) return;
    /* In the file, or decoded: then every byte can be read. */
    if (t->bytes >= bytes && t->bytes < bytes + n) assert(t->n_bytes <= (size_t)(bytes + n - t->bytes));
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < t->n_bytes; i++) sum = (uint8_t)(sum + t->bytes[i]);
}

static void ignore(void *arg, const char *text, size_t n) {
    *(size_t *)arg += n + (text == NULL);
}

/* Is everything in the graph small enough to be run at these sizes? */
static int is_small(const ph_graph *g, const ph_syms *syms) {
    if (g->n_nodes > NODES_MAX) return 0;
    for (size_t i = 0; i < g->n_values; i++) {
        int64_t count;
        if (ph_shape_count(&g->value[i].shape, syms, &count, NULL) || count > ELEMENTS_MAX) return 0;
    }
    return 1;
}

static int feed_all(const ph_graph *g, const ph_syms *syms, ph_feed *feeds, size_t *n, ph_arena *arena) {
    *n = 0;
    for (size_t i = 0; i < g->n_values; i++) {
        const ph_value *v = &g->value[i];
        int64_t         count;
        if (v->cls != PH_VALUE_INPUT) continue;
        if (*n == INPUTS_MAX) return 0;
        ph_feed *f = &feeds[(*n)++];
        *f = (ph_feed){v->name, {.dtype = v->dtype, .rank = v->shape.rank}};
        for (int d = 0; d < v->shape.rank; d++)
            if (ph_dim_eval(v->shape.dim[d], syms, &f->array.dim[d], NULL)) return 0;
        if (ph_shape_count(&v->shape, syms, &count, NULL)) return 0;
        assert(!ph_arena_zero(arena, &f->array.data, (size_t)count + 1, ph_dtype_bytes(v->dtype), NULL));
        for (int64_t k = 0; v->dtype == PH_F32 && k < count; k++)
            ((float *)f->array.data)[k] = (float)(k % 5) - 2;
    }
    return 1;
}

static void run(const ph_graph *g, const ph_kernels *kernels) {
    ph_syms  syms;
    ph_arena arena;
    ph_feed  feeds[INPUTS_MAX];
    ph_err   err = {0};
    size_t   n;
    for (int i = 0; i < PH_N_SYMS; i++) syms.at[i] = 2;
    if (!is_small(g, &syms)) return;
    assert(!ph_arena_open_growing(&arena, 1 << 16, &err));
    ph_array *all = calloc(g->n_values + 1, sizeof *all);
    if (feed_all(g, &syms, feeds, &n, &arena)) {
        ph_rc rc = ph_graph_eval(g, &syms, feeds, n, NULL, all, kernels, &arena, &err);
        assert(!rc || (*err.msg && rc != PH_EBUG));
    }
    free(all);
    ph_arena_close(&arena);
}

static void write_again(const ph_graph *g, int64_t opset) {
    const ph_onnx_export_how how = {.opset = opset};
    ph_onnx_exported         x;
    ph_onnx_memory           bytes = {0};
    ph_onnx                  m;
    ph_err                   err = {0};
    if (ph_onnx_export(&x, g, &how, &err)) {
        assert(*err.msg && err.code != PH_EBUG);
        return;
    }
    ph_rc rc = ph_onnx_write_memory(&bytes, &x.writer, &x.producer, PH_ONNX_EXTERNAL_NEVER, &err);
    assert(!rc || rc == PH_ELIMIT);
    if (!rc) {
        assert(!ph_onnx_view(&m, bytes.model, bytes.n, "again", &err));
        ph_onnx_close(&m);
    }
    ph_onnx_memory_close(&bytes);
    ph_onnx_exported_close(&x);
}

/* Dynamic axes have names, apart from each other, by which their numbers are found; with numbers the model is
 * imported or refused like any other. */
static void number_axes(const ph_onnx *m, const ph_onnx_graph *symbols, const ph_kernels *kernels) {
    ph_onnx_axis  axis[PH_ONNX_AXES_MAX];
    ph_onnx_given given[INPUTS_MAX];
    ph_onnx_graph g;
    ph_err        err = {0};
    char          name[PH_ONNX_AXIS_NAME], list[PH_ONNX_AXIS_NAME + 8] = "";
    size_t        n = ph_onnx_axes_of(m, symbols, axis, PH_ONNX_AXES_MAX);
    for (size_t i = 0; i < n; i++) {
        int64_t size;
        assert(axis[i].n && *ph_onnx_axis_name(&axis[i], name) && ph_onnx_axis_size(&axis[i], NULL) >= 0);
        if (strlen(name) > 900 || strpbrk(name, ",=")) continue;
        snprintf(list, sizeof list, "%s=3", name);
        assert(ph_onnx_axis_listed(&axis[i], list, &size) && size == 3);
    }
    ph_onnx_import_how how = {.kernels = kernels, .given = given};
    how.n_given = ph_onnx_given_of(m, list, given, INPUTS_MAX);
    ph_rc rc = ph_onnx_import(&g, m, &how, &err);
    assert(!rc || (*err.msg && rc != PH_EBUG && !g.graph));
    ph_onnx_graph_close(&g);
}

/* ---- an operator of a plug-in, which reads all that a node may bring ---- */

static int infer(const pinhole_op_node *n, const pinhole_op_value *in, int n_in, pinhole_op_value *out,
                 int n_out) {
    pinhole_array tensor = {0};
    const char   *text = NULL;
    int64_t       list[4];
    for (int i = 0; i < n_in; i++) n->api->input_ints(n, i, list, 4);
    for (int k = 0; k < n_out; k++) out[k] = in[k < n_in ? k : 0];
    if (n->api->attr_tensor(n, "tensor", &tensor) > 0) out[0].type = tensor.type;
    if (n->api->attr_text(n, "text", &text) > 0) out[0].rank = (int)strlen(text);
    return 0;
}

static size_t bytes_of(const pinhole_array *a) {
    size_t n = ph_dtype_bytes(ph_user_dtype(a->type));
    for (int d = 0; d < a->rank; d++) n *= (size_t)a->dim[d];
    return n;
}

/* What infer says may be larger than what it was given. */
static int eval(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                int n_out, void *scratch, size_t bytes) {
    const int64_t *ints;
    size_t         count = 0;
    (void)scratch, (void)bytes;
    for (int k = 0; k < n_out; k++) {
        const pinhole_array *from = &in[k < n_in ? k : 0];
        size_t               wide = bytes_of(&out[k]), have = from->type ? bytes_of(from) : 0;
        if (wide) memset(out[k].data, 0, wide);
        if (have && wide) memcpy(out[k].data, from->data, have < wide ? have : wide);
    }
    return n->api->attr_ints(n, "ints", &ints, &count) < 0 ? PINHOLE_OP_EUNSUP : 0;
}

static ph_user_ops *registry(void) {
    static const pinhole_op       op = {.domain = "com.acme",
                                        .name = "AdapterDispatch",
                                        .since = 1,
                                        .flags = PINHOLE_OP_PURE | PINHOLE_OP_FOLD,
                                        .in_min = 1,
                                        .in_max = -1,
                                        .out_min = 1,
                                        .out_max = 3,
                                        .infer = infer,
                                        .eval = eval};
    static const pinhole_op_table table = {PINHOLE_OP_ABI, sizeof op, sizeof table, "acme", "1", &op, 1};
    static pthread_mutex_t        lock = PTHREAD_MUTEX_INITIALIZER;
    ph_user_ops                  *u;
    assert(!ph_user_ops_open(&u, NULL) && !ph_user_ops_add(u, &table, "fuzz.so", &lock, NULL));
    return u;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ph_kernels kernels;
    ph_onnx           m;
    ph_onnx_graph     g;
    ph_err            err = {0};
    size_t            written = 0;
    if (!kernels.softmax) ph_kernels_init(&kernels, 0);
    static ph_user_ops *user;
    if (!user) user = registry(); /* stays: it is one of the program */
    ph_onnx_import_how how = {.kernels = &kernels, .user = user};
    if (ph_onnx_view(&m, data, size, "fuzz", &err)) {
        assert(*err.msg && err.code != PH_EBUG);
        return 0;
    }
    for (size_t i = 0; i < m.n_initializers; i++) check_tensor(&m, &m.initializer[i], data, size);
    ph_rc rc = ph_onnx_import(&g, &m, &how, &err);
    number_axes(&m, &g, &kernels);
    if (rc) {
        assert(*err.msg && rc != PH_EBUG);
    } else {
        assert(!ph_graph_check(g.graph, &err));
        ph_graph_dot(g.graph, ignore, &written);
        assert(written);
        run(g.graph, &kernels);
        write_again(g.graph, PH_ONNX_OUT_OPSET_MIN + (int64_t)(size % 7));
    }
    ph_onnx_graph_close(&g);
    ph_onnx_close(&m);
    return 0;
}
