/* seeds: tests/golden/graph */
/* fuzz_graph.c - random graphs from bytes.  The law: finish fails with a message, or every shape evaluates at
 * small sizes and eval yields arrays of exactly those shapes (or refuses with a message); passes keep the
 * names and shapes of outputs, and their numbers to the bit. */
#include "graph/pass.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 12, INPUTS_MAX = 4, ELEMENTS_MAX = 1 << 14 };

typedef struct bytes {
    const uint8_t *p;
    size_t         n;
} bytes;

static int take(bytes *b) {
    return b->n ? b->n--, *b->p++ : 0;
}

static int64_t take_int(bytes *b) {
    static const int64_t odd[] = {INT64_MAX, INT64_MIN, INT32_MAX, -2, -1, 1 << 24, INT64_MAX / 2, 0};
    int                  c = take(b);
    return c < 200 ? c % 10 : odd[c & 7];
}

static ph_dim take_dim(bytes *b) {
    int    c = take(b);
    ph_dim d = c & 1 ? ph_dim_of(take_int(b)) : ph_dim_of(c / 2 % 7);
    if (c > 180) d = ph_dim_sym((ph_sym)(c % PH_N_SYMS));
    return d;
}

static ph_shape take_shape(bytes *b) {
    ph_shape s = {.rank = take(b) % 5};
    for (int i = 0; i < s.rank; i++) s.dim[i] = take_dim(b);
    return s;
}

static const char *const attr_names[] = {"axis",         "perm",      "strides",
                                         "pads",         "dilations", "group",
                                         "to",           "keepdims",  "num_outputs",
                                         "alpha",        "num_heads", "interleaved",
                                         "epsilon",      "dim",       "scaling",
                                         "factor",       "theta",     "q_num_heads",
                                         "kv_num_heads", "is_causal", "allowzero",
                                         "mrope",        "auto_pad",  "rotary_embedding_dim",
                                         "layer",        "window",    "original_context",
                                         "beta_fast",    "block",     "sparsity",
                                         "slices",       "first",     "last",
                                         "lambda",       "scale"};
enum { N_ATTR_NAMES = (int)(sizeof attr_names / sizeof *attr_names) };

static ph_attr take_attr(bytes *b, int64_t list[4]) {
    static const char *const texts[] = {"none",   "tanh",       "linear", "yarn",
                                        "llama3", "SAME_UPPER", "VALID",  "factors"};
    const char              *name = attr_names[take(b) % N_ATTR_NAMES];
    int                      kind = take(b) % 4;
    if (kind == 0) return PH_INT(name, take_int(b));
    if (kind == 1) return PH_FLOAT(name, (double)take_int(b) / 4);
    if (kind == 2) return PH_TEXT(name, texts[take(b) % 8]);
    size_t n = (size_t)take(b) % 5;
    for (size_t i = 0; i < n; i++) list[i] = take_int(b);
    return PH_INTS(name, list, n);
}

static void take_leaf(bytes *b, ph_graph *g, int i) {
    static const float    zeros[ELEMENTS_MAX];
    static const ph_dtype types[] = {PH_F32, PH_F32, PH_I64, PH_I32, PH_BOOL, PH_F32};
    char                  name[16];
    int64_t               list[4];
    int                   kind = take(b) % 6;
    snprintf(name, sizeof name, "v%d", i);
    if (kind == 0) { /* a list, as shapes and axes are given */
        int n = take(b) % 5;
        for (int k = 0; k < n; k++) list[k] = take_int(b);
        ph_graph_constant(g, name, PH_I64, ph_shape_of(1, ph_dim_of(n)), list);
    } else if (kind == 1) { /* an array of zeros */
        ph_shape s = take_shape(b);
        int64_t  n;
        for (int d = 0; d < s.rank; d++)
            if (!ph_dim_is_fixed(s.dim[d])) s.dim[d] = ph_dim_of(3);
        if (!ph_shape_count(&s, NULL, &n, NULL) && n < ELEMENTS_MAX)
            ph_graph_constant(g, name, PH_F32, s, zeros);
        else
            ph_graph_state(g, name);
    } else if (kind == 5) { /* the rows of a step */
        ph_graph_input(g, name, PH_I32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(PH_ROW_FIELDS)));
    } else {
        ph_graph_input(g, name, types[take(b) % 6], take_shape(b));
    }
}

static void take_node(bytes *b, ph_graph *g, int i) {
    int          in[8], n_in = take(b) % 9, n_attr = take(b) % 4;
    int64_t      lists[4][4];
    ph_attr      attr[4];
    const ph_op *op = ph_op_at((size_t)take(b) % ph_op_count());
    for (int k = 0; k < n_in; k++) {
        int c = take(b);
        in[k] = c == 255 ? -1 : g->n_values ? (int)((size_t)c % g->n_values) : -1;
    }
    for (int k = 0; k < n_attr; k++) attr[k] = take_attr(b, lists[k]);
    size_t before = g->n_nodes, values = g->n_values;
    ph_graph_node(g, op->name, in, n_in, attr, n_attr, "n%d", i);
    if (!g->rc) return;
    /* Most guesses do not fit: forget this one, so that the graph can grow. */
    assert(*g->err.msg);
    g->rc = PH_OK;
    g->n_nodes = before;
    g->n_values = values;
}

/* Arrays for the inputs; 0: too large, or a state. */
static int feed_all(const ph_graph *g, const ph_syms *syms, ph_feed *feeds, size_t *n, ph_kv *kv,
                    ph_arena *arena) {
    *n = 0;
    for (size_t i = 0; i < g->n_values; i++) {
        const ph_value *v = &g->value[i];
        int64_t         count;
        if (ph_shape_count(&v->shape, syms, &count, NULL) || count > ELEMENTS_MAX) return 0;
        if (v->cls != PH_VALUE_INPUT && v->cls != PH_VALUE_STATE) continue;
        ph_feed *f = &feeds[(*n)++];
        *f = (ph_feed){v->name, {.dtype = v->dtype, .rank = v->shape.rank}};
        for (int d = 0; d < v->shape.rank; d++)
            assert(!ph_dim_eval(v->shape.dim[d], syms, &f->array.dim[d], NULL));
        assert(!ph_arena_zero(arena, &f->array.data, (size_t)count, ph_dtype_bytes(v->dtype), NULL));
        if (v->cls == PH_VALUE_STATE) f->array.kv = kv;
        for (int64_t k = 0; k < count; k++) {
            if (v->dtype == PH_F32) ((float *)f->array.data)[k] = (float)(k % 7) - 3;
            /* Rows: token 70 of sequence 0, which has 80. */
            if (v->dtype == PH_I32) ((int32_t *)f->array.data)[k] = k % PH_ROW_FIELDS ? 70 : 0;
        }
    }
    return 1;
}

static void check_shapes(const ph_graph *g, const ph_syms *syms, const ph_array *all) {
    for (size_t i = 0; i < g->n_values; i++) {
        const ph_value *v = &g->value[i];
        if (v->cls != PH_VALUE_TEMP) continue;
        assert(all[i].rank == v->shape.rank && all[i].dtype == v->dtype);
        for (int d = 0; d < v->shape.rank; d++) {
            int64_t n;
            assert(!ph_dim_eval(v->shape.dim[d], syms, &n, NULL) && n == all[i].dim[d]);
        }
    }
}

static void ignore(void *arg, const char *text, size_t n) {
    *(size_t *)arg += n + (text == NULL);
}

/* The last value survives the passes with the same bits, and those that round with its shape. */
static void check_passes(ph_graph *g, const ph_syms *syms, const ph_feed *feeds, size_t n_feeds,
                         const ph_kernels *kernels, ph_arena *arena) {
    ph_err      err = {0};
    ph_array    before, after;
    char        off[128] = "";
    ph_pass_env env = {.kernels = kernels, .off = off};
    for (size_t i = 0; i < ph_pass_count(); i++)
        if (ph_pass_at(i)->is_rounding) strcat(strcat(off, *off ? "," : ""), ph_pass_at(i)->name);
    ph_graph_output(g, g->node[g->n_nodes - 1].out[0], "answer");
    if (ph_graph_eval(g, syms, feeds, n_feeds, "answer", &before, kernels, arena, &err)) return;
    assert(!ph_passes_run(g, &env, NULL, &err));
    assert(!ph_graph_eval(g, syms, feeds, n_feeds, "answer", &after, kernels, arena, &err));
    assert(ph_array_count(&before) == ph_array_count(&after) && before.dtype == after.dtype);
    size_t n = (size_t)ph_array_count(&before) * ph_dtype_bytes(before.dtype);
    if (before.data && after.data && n) assert(!memcmp(before.data, after.data, n));
    env.off = NULL;
    assert(!ph_passes_run(g, &env, NULL, &err));
    assert(!ph_graph_eval(g, syms, feeds, n_feeds, "answer", &after, kernels, arena, &err));
    assert(ph_array_count(&before) == ph_array_count(&after) && before.dtype == after.dtype);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* A cache with layers of several forms, and one sequence of 80 tokens. */
static ph_kv *cache_of(void) {
    ph_kv_layer layer[] = {{1, 2, 2}, {2, 1, 1}, {1, 4, 4}, {1, 8, 8}};
    ph_kv_spec  spec = {layer, 4, 1, 100, 100, PH_F16, 0};
    ph_kv      *kv = NULL;
    int         sequence;
    assert(!ph_kv_open(&kv, &spec, NULL) && !ph_kv_begin(kv, &sequence, NULL) &&
           !ph_kv_extend(kv, sequence, 80, NULL));
    for (int l = 0; l < 4; l++)
        for (int at = 0; at < 80; at += PH_KV_PAGE)
            memset(ph_kv_at(kv, l, sequence, at)->k, 0x11, ph_kv_page_bytes(&spec, l));
    return kv;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ph_kernels kernels;
    bytes             b = {data, size};
    ph_err            err = {0};
    ph_graph         *g;
    ph_arena          arena;
    ph_feed           feeds[INPUTS_MAX + 1];
    size_t            n_feeds, written = 0;
    ph_syms           syms = {{3, 1, 2, 2, 4}};
    if (!kernels.softmax) ph_kernels_init(&kernels, 0);
    if (ph_graph_open(&g, "fuzz", &err)) return 0;
    ph_kv *kv = cache_of();
    int    leaves = 1 + take(&b) % INPUTS_MAX;
    for (int i = 0; i < leaves; i++) take_leaf(&b, g, i);
    for (int i = 0; i < NODES_MAX && b.n; i++) take_node(&b, g, i);
    assert(!ph_arena_open_growing(&arena, 1 << 16, &err));
    if (ph_graph_finish(g, &err)) {
        assert(*err.msg);
    } else {
        ph_array *all = calloc(g->n_values + 1, sizeof *all);
        ph_graph_dot(g, ignore, &written);
        assert(written);
        if (feed_all(g, &syms, feeds, &n_feeds, kv, &arena)) {
            ph_rc rc = ph_graph_eval(g, &syms, feeds, n_feeds, NULL, all, &kernels, &arena, &err);
            if (rc)
                assert(*err.msg && rc != PH_EBUG);
            else
                check_shapes(g, &syms, all);
            if (g->n_nodes) check_passes(g, &syms, feeds, n_feeds, &kernels, &arena);
        }
        free(all);
    }
    ph_arena_close(&arena);
    ph_graph_close(g);
    ph_kv_close(kv);
    return 0;
}
