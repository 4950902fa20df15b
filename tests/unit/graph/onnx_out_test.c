/* onnx_out_test.c - graphs as ONNX models, read back by our own import: the numbers that stored weights are,
 * what only our graphs say, names, and what is refused. */
#include "graph/onnx/onnx_in.h"
#include "graph/onnx/onnx_out.h"
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>

enum { K = 256, N = 6, R = 3 };

typedef struct trip { /* a graph, written and read */
    ph_kernels       kernels;
    ph_onnx_exported x;
    ph_onnx_memory   bytes;
    ph_onnx          file;
    ph_onnx_graph    back;
    ph_err           err;
} trip;

static ph_rc there_and_back(trip *t, const ph_graph *g, const ph_onnx_export_how *how) {
    *t = (trip){.kernels = gh_kernels()};
    const ph_onnx_import_how in = {.kernels = &t->kernels};
    PH_TRY(ph_onnx_export(&t->x, g, how, &t->err));
    PH_TRY(ph_onnx_write_memory(&t->bytes, &t->x.writer, &t->x.producer, PH_ONNX_EXTERNAL_NEVER, &t->err));
    PH_TRY(ph_onnx_view(&t->file, t->bytes.model, t->bytes.n, "test", &t->err));
    return ph_onnx_import(&t->back, &t->file, &in, &t->err);
}

static void done(trip *t) {
    ph_onnx_graph_close(&t->back);
    ph_onnx_close(&t->file);
    ph_onnx_memory_close(&t->bytes);
    ph_onnx_exported_close(&t->x);
}

static int same_numbers(const ph_graph *a, const ph_graph *b, const ph_feed *feed, size_t n_feeds,
                        const char *what) {
    ph_kernels kernels = gh_kernels();
    ph_arena   arena = {0};
    ph_array   y = {0}, z = {0};
    ph_err     err = {0};
    ph_syms    syms = {{0}};
    for (int i = 0; i < PH_N_SYMS; i++) syms.at[i] = R;
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, NULL));
    ph_rc rc = ph_graph_eval(a, &syms, feed, n_feeds, "y", &y, &kernels, &arena, &err);
    if (!rc) rc = ph_graph_eval(b, &syms, feed, n_feeds, "y", &z, &kernels, &arena, &err);
    CHECK_SAY(!rc, "%s: %s", what, err.msg);
    double worst = 0, most = 0;
    for (int64_t i = 0; !rc && i < ph_array_count(&y); i++) {
        worst = fmax(worst, fabs((double)((float *)y.data)[i] - (double)((float *)z.data)[i]));
        most = fmax(most, fabs((double)((float *)y.data)[i]));
    }
    int is_same = !rc && ph_array_count(&y) == ph_array_count(&z) && worst <= 1e-5 * most && most > 0;
    CHECK_SAY(is_same, "%s: off by %g of %g", what, worst, most);
    ph_arena_close(&arena);
    return is_same;
}

/* y = x W^T + b with x [R, K] or [I, 2, K] and W stored so. */
static ph_graph *linear(ph_storage w, int rank, ph_arena *arena) {
    ph_graph *g;
    uint64_t  seed = 5;
    void     *b = NULL;
    CHECK(!ph_graph_open(&g, "test", NULL));
    CHECK(!ph_arena_carve(arena, &b, N, sizeof(float), NULL));
    gh_fill(b, N, &seed);
    int x = ph_graph_input(g, "x", PH_F32,
                           rank == 2 ? ph_shape_of(2, GH_S(R), GH_D(K))
                                     : ph_shape_of(3, GH_S(I), GH_D(2), GH_D(K)));
    int wide = ph_graph_weight(g, "w", ph_shape_of(2, GH_D(N), GH_D(K)), w);
    int bias = ph_graph_weight(g, "b", ph_shape_of(1, GH_D(N)), ph_storage_of(PH_F32, b, N * 4, N * 4));
    ph_graph_output(g, ph_graph_node(g, "Linear", PH_IN(x, wide, bias), PH_NO_ATTRS, "y"), "y");
    CHECK(!ph_graph_finish(g, NULL));
    return g;
}

static void expect_linear(ph_storage w, const char *what, const ph_onnx_export_how *how, ph_rc want) {
    float    x[R * 2 * K];
    uint64_t seed = 9;
    ph_arena arena = {0};
    gh_fill(x, R * 2 * K, &seed);
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL));
    for (int rank = 2; rank <= 3; rank++) {
        const ph_feed feed = {"x", rank == 2 ? gh_array(PH_F32, x, 2, R, K, 0, 0)
                                             : gh_array(PH_F32, x, 3, R, 2, K, 0)};
        ph_graph     *g = linear(w, rank, &arena);
        trip          t;
        ph_rc         rc = there_and_back(&t, g, how);
        CHECK_SAY(rc == want && (!rc || strstr(t.err.msg, "weight w") != NULL), "%s, opset %lld: %s: %s",
                  what, (long long)how->opset, ph_rc_name(rc), t.err.msg);
        if (!rc) same_numbers(g, t.back.graph, &feed, 1, what);
        int is_kept = 0; /* one product with the stored weight again */
        for (size_t i = 0; !rc && i < t.back.graph->n_nodes; i++)
            is_kept |= !strcmp(t.back.graph->node[i].op->name, "Linear");
        CHECK_SAY(rc || is_kept || (ph_dtype_block(w.dtype) > 1 && how->opset < 21), "%s: no Linear", what);
        done(&t);
        ph_graph_close(g);
    }
    ph_arena_close(&arena);
}

/* Rows of type t, some bytes apart. */
static ph_storage packed(ph_dtype t, ph_arena *arena) {
    enum { GAP = 8 };
    float    x[K];
    uint64_t seed = 3;
    size_t   row;
    void    *p;
    CHECK(!ph_dtype_row_bytes(t, K, &row, NULL) && !ph_arena_zero(arena, &p, N, row + GAP, NULL));
    for (int i = 0; i < N; i++) {
        gh_fill(x, K, &seed);
        ph_dtype_get(t)->pack((char *)p + (size_t)i * (row + GAP), x, K);
    }
    return ph_storage_of(t, p, N * (row + GAP), row + GAP);
}

/* Levels with a scale a row (n_scales N) or one for all, and zero points or none. */
static ph_storage by_channel(ph_dtype t, size_t n_scales, int has_zero, ph_arena *arena) {
    static float   scale[N] = {0.5F, 0.25F, 1, 2, 0.125F, 0.75F};
    static uint8_t zero[N] = {1, 2, 3, 4, 5, 6};
    ph_storage     s = {.dtype = t, .n_planes = 2 + has_zero, .form = &ph_storage_channels, .n_rows = N};
    void          *p;
    CHECK(!ph_arena_carve(arena, &p, N, K, NULL));
    for (int i = 0; i < N * K; i++) ((uint8_t *)p)[i] = (uint8_t)(i * 37);
    s.plane[PH_PLANE_DATA] = (ph_plane){p, N * K, K, t};
    s.plane[PH_PLANE_SCALE] = (ph_plane){scale, n_scales * 4, 0, PH_F32};
    if (has_zero) s.plane[PH_PLANE_ZERO] = (ph_plane){zero, n_scales, 0, t};
    CHECK(!s.form->check(&s, K, NULL));
    return s;
}

static ph_storage n_bits(int bits, ph_arena *arena) {
    enum { GROUP = 32 };
    static float scale[N * K / GROUP];
    ph_storage   s = {
          .dtype = PH_U8, .n_planes = 2, .form = &ph_storage_nbits, .n_rows = N, .bits = bits, .group = GROUP};
    size_t bytes = (size_t)(N * K * bits / 8);
    void  *p;
    CHECK(!ph_arena_carve(arena, &p, bytes, 1, NULL));
    for (size_t i = 0; i < bytes; i++) ((uint8_t *)p)[i] = (uint8_t)(i * 29);
    for (int i = 0; i < N * K / GROUP; i++) scale[i] = 0.01F * (float)(i % 7 + 1);
    s.plane[PH_PLANE_DATA] = (ph_plane){p, bytes, 0, PH_U8};
    s.plane[PH_PLANE_SCALE] = (ph_plane){scale, sizeof scale, 0, PH_F32};
    CHECK(!s.form->check(&s, K, NULL));
    return s;
}

void test_onnx_out_weights(void) {
    static const ph_dtype types[] = {PH_F32, PH_F16, PH_BF16, PH_Q8_0, PH_Q4_0};
    ph_arena              arena = {0};
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, NULL));
    for (int64_t opset = PH_ONNX_OUT_OPSET_MIN; opset <= PH_ONNX_OUT_OPSET_MAX; opset += 2) {
        const ph_onnx_export_how how = {.opset = opset};
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            expect_linear(packed(types[i], &arena), ph_dtype_name(types[i]), &how, PH_OK);
        for (int i = 0; i < 8; i++)
            expect_linear(by_channel(i & 1 ? PH_U8 : PH_I8, i & 2 ? N : 1, i >> 2, &arena), "by channel",
                          &how, PH_OK);
        expect_linear(n_bits(4, &arena), "4 bits", &how, PH_OK);
        expect_linear(n_bits(8, &arena), "8 bits", &how, PH_OK);
        const ph_onnx_export_how flat = {.opset = opset, .is_flat = 1};
        for (int i = 0; i < 3; i++) expect_linear(packed(types[i], &arena), "as matrices", &flat, PH_OK);
    }
    ph_arena_close(&arena);
}

/* Other types are refused by the weight's name, or become f16 on request, or what all matrices become. */
void test_onnx_out_widened(void) {
    ph_arena                 arena = {0};
    const ph_onnx_export_how plain = {0}, wide = {.is_widened = 1}, all = {.has_type = 1, .type = PH_F32},
                             engine = {.opset = 21, .is_float = 1, .is_flat = 1};
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, NULL));
    ph_storage q4_1 = packed(PH_Q4_1, &arena), iq4_nl = packed(PH_IQ4_NL, &arena);
    expect_linear(q4_1, "Q4_1", &plain, PH_EUNSUP);
    expect_linear(iq4_nl, "IQ4_NL", &plain, PH_EUNSUP);
    expect_linear(iq4_nl, "IQ4_NL as f32", &all, PH_OK);
    expect_linear(iq4_nl, "IQ4_NL for an engine", &engine, PH_OK);
    expect_linear(n_bits(4, &arena), "4 bits as f32", &all, PH_OK);
    float large[N * K] = {0};
    large[K + 3] = -70000;
    trip                     t;
    ph_graph                *g = linear(ph_storage_of(PH_F32, large, sizeof large, K * 4), 2, &arena);
    const ph_onnx_export_how half = {.has_type = 1, .type = PH_F16};
    CHECK_SAY(there_and_back(&t, g, &half) == PH_EUNSUP && strstr(t.err.msg, "w: element 3 of row 1"), "%s",
              t.err.msg);
    done(&t);
    ph_graph_close(g);
    g = linear(q4_1, 2, &arena);
    CHECK_SAY(!there_and_back(&t, g, &wide), "%s", t.err.msg);
    for (size_t i = 0; i < t.file.n_initializers; i++)
        CHECK(strcmp(t.file.initializer[i].name, "w") || t.file.initializer[i].dtype == PH_F16);
    done(&t);
    ph_graph_close(g);
    ph_arena_close(&arena);
}

/* modality, fusion_policy, quantization_scale, relation and min_dtype, in nodes (opset 21) and beside them.
 */
void test_onnx_out_props(void) {
    for (int64_t opset = 17; opset <= 21; opset += 4) {
        const ph_onnx_export_how how = {.opset = opset};
        ph_graph                *g;
        trip                     t;
        CHECK(!ph_graph_open(&g, "test", NULL));
        g->modality = PH_MOD_VISION;
        int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(1, GH_S(R)));
        int a = ph_graph_node(g, "Abs", PH_IN(x), PH_NO_ATTRS, "a");
        int s = ph_graph_node(g, "Swish", PH_IN(a), PH_NO_ATTRS, "s");
        int n = ph_graph_node(g, "Neg", PH_IN(s), PH_NO_ATTRS, "n");
        ph_graph_output(g, n, "y");
        CHECK(!ph_graph_finish(g, NULL));
        g->node[1].modality = PH_MOD_FUSED;
        g->node[1].fusion_policy = PH_FUSION_GATED;
        g->node[1].quantization_scale = 0.03125F;
        g->value[s].relation = "text->image";
        g->value[s].min_dtype = PH_F16;
        g->node[2].modality = PH_MOD_NONE;
        CHECK_SAY(!there_and_back(&t, g, &how), "%s", t.err.msg);
        CHECK(memmem(t.bytes.model, t.bytes.n, "0.03125", 7)); /* whatever the locale */
        const ph_graph *b = t.back.graph;
        CHECK(b && b->n_nodes == 4 && b->modality == PH_MOD_VISION);
        if (b && b->n_nodes == 4) { /* Abs, Sigmoid and Mul, Neg */
            int at = ph_graph_find(b, "s");
            CHECK(b->node[0].modality == PH_MOD_VISION && !b->node[0].fusion_policy);
            for (int i = 1; i < 3; i++)
                CHECK(b->node[i].modality == PH_MOD_FUSED && b->node[i].fusion_policy == PH_FUSION_GATED &&
                      b->node[i].quantization_scale >= 0.03125F && b->node[i].quantization_scale <= 0.03125F);
            CHECK(b->node[3].modality == PH_MOD_NONE);
            CHECK(at >= 0 && b->value[at].min_dtype == PH_F16 && b->value[at].relation &&
                  !strcmp(b->value[at].relation, "text->image"));
        }
        CHECK(t.file.n_nodes && !t.file.node[0].n_props == (opset < 21));
        done(&t);
        ph_graph_close(g);
    }
}

/* Helpers never take a name that is there; nodes that share a name get their own; symbols are dim_params. */
void test_onnx_out_names(void) {
    static const char *const symbol[PH_N_SYMS] = {[PH_SYM_R] = "batch size"};
    const ph_onnx_export_how how = {.symbol = symbol};
    ph_graph                *g;
    trip                     t;
    float                    x[R * 4] = {1, -2, 3, -4, 5, 6, 7, 8, 9, 1, 2, 3};
    CHECK(!ph_graph_open(&g, "test", NULL));
    int in = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, GH_S(R), GH_D(4)));
    int a = ph_graph_node(g, "Abs", PH_IN(in), PH_NO_ATTRS, "s#1");
    int s = ph_graph_node(g, "Swish", PH_IN(a), PH_NO_ATTRS, "s");
    ph_graph_output(g, s, "list"); /* what constants are called */
    int n = ph_graph_node(g, "Neg", PH_IN(s), PH_NO_ATTRS, "s");
    ph_graph_output(g, ph_graph_node(g, "Gelu", PH_IN(n), PH_NO_ATTRS, "number"), "y");
    CHECK(!ph_graph_finish(g, NULL));
    CHECK_SAY(!there_and_back(&t, g, &how), "%s", t.err.msg);
    const ph_feed feed = {"x", gh_array(PH_F32, x, 2, R, 4, 0, 0)};
    if (t.back.graph) same_numbers(g, t.back.graph, &feed, 1, "names");
    for (size_t i = 0; i < t.file.n_nodes; i++)
        for (size_t k = 0; k < i; k++) CHECK(strcmp(t.file.node[i].name, t.file.node[k].name));
    CHECK(t.file.n_inputs == 1 && !strcmp(t.file.input[0].dim[0].param, "batch size"));
    done(&t);
    ph_graph_close(g);
}

static void refuse(const char *op, const ph_attr *attr, int n_attr, ph_dtype dtype, int64_t opset, ph_rc want,
                   const char *word) {
    const ph_onnx_export_how how = {.opset = opset};
    ph_graph                *g;
    ph_onnx_exported         x = {0};
    ph_err                   err = {0};
    CHECK(!ph_graph_open(&g, "test", NULL));
    int a = ph_graph_input(g, "a", dtype, ph_shape_of(4, GH_D(1), GH_D(2), GH_D(6), GH_D(6)));
    int in[2] = {a, a};
    ph_graph_output(g, ph_graph_node(g, op, in, op[0] == 'B' ? 2 : 1, attr, n_attr, "the.node"), "y");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    ph_rc rc = ph_onnx_export(&x, g, &how, &err);
    CHECK_SAY(rc == want && (!rc || strstr(err.msg, word) != NULL), "%s in opset %lld: %s: %s", op,
              (long long)opset, ph_rc_name(rc), err.msg);
    ph_onnx_exported_close(&x);
    ph_graph_close(g);
}

/* Whole numbers of a type, from QuantizeLinear (`to`) or into DequantizeLinear, with one scale. */
static void refuse_scaled(int is_back, ph_dtype t, int64_t to, int64_t opset, ph_rc want) {
    const ph_onnx_export_how how = {.opset = opset};
    const float              half = 0.5F;
    const ph_attr            attr = PH_INT("to", to);
    ph_graph                *g;
    ph_onnx_exported         x = {0};
    ph_err                   err = {0};
    CHECK(!ph_graph_open(&g, "test", NULL));
    int a = ph_graph_input(g, "a", is_back ? t : PH_F32, ph_shape_of(1, GH_D(3)));
    int scale = ph_graph_constant(g, "scale", PH_F32, ph_shape_of(0), &half);
    ph_graph_output(g,
                    ph_graph_node(g, is_back ? "DequantizeLinear" : "QuantizeLinear", PH_IN(a, scale), &attr,
                                  !is_back, "the.node"),
                    "y");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    ph_rc rc = ph_onnx_export(&x, g, &how, &err);
    CHECK_SAY(rc == want && (!rc || strstr(err.msg, "16 bits are not there")), "%s in opset %lld: %s: %s",
              ph_dtype_name(t), (long long)opset, ph_rc_name(rc), err.msg);
    ph_onnx_exported_close(&x);
    ph_graph_close(g);
}

void test_onnx_out_refuses(void) {
    static const int64_t two[2] = {2, 2};
    const ph_attr        pool[2] = {PH_INTS("kernel_shape", two, 2), PH_INTS("dilations", two, 2)};
    refuse("Abs", NULL, 0, PH_F32, 16, PH_EUSAGE, "17 to 23");
    refuse("Abs", NULL, 0, PH_F32, 24, PH_EUSAGE, "17 to 23");
    refuse("BitwiseAnd", NULL, 0, PH_I32, 17, PH_EUNSUP, "node the.node: BitwiseAnd");
    refuse("BitwiseAnd", NULL, 0, PH_I32, 18, PH_OK, "");
    refuse("LpPool", pool, 2, PH_F32, 17, PH_EUNSUP, "dilations");
    refuse("LpPool", pool, 2, PH_F32, 18, PH_OK, "");
    refuse("ReduceMax", NULL, 0, PH_BOOL, 18, PH_EUNSUP, "the.node");
    for (int back = 0; back < 2; back++) {
        refuse_scaled(back, PH_I16, 5, 20, PH_EUNSUP), refuse_scaled(back, PH_U16, 4, 17, PH_EUNSUP);
        refuse_scaled(back, PH_I16, 5, 21, PH_OK), refuse_scaled(back, PH_I8, 3, 17, PH_OK);
    }
    refuse_scaled(1, PH_I32, 0, 17, PH_OK);
}

static const ph_onnx_stored *stored(const trip *t, const char *name) {
    for (size_t i = 0; i < t->x.writer.n_weights; i++)
        if (!strcmp(t->x.writer.weight[i].name, name)) return &t->x.writer.weight[i];
    return NULL;
}

/* For an engine halves become floats, values that are watched outputs; a node is tried by itself. */
void test_onnx_out_engine(void) {
    ph_onnx_export_how how = {.opset = 21, .is_flat = 1};
    ph_arena           arena = {0};
    trip               t;
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL));
    for (how.is_float = 0; how.is_float < 2; how.is_float++) {
        ph_graph *g;
        CHECK(!ph_graph_open(&g, "test", NULL));
        int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, GH_S(R), GH_D(K)));
        int w = ph_graph_weight(g, "w", ph_shape_of(2, GH_D(N), GH_D(K)), packed(PH_F16, &arena));
        int y = ph_graph_node(g, "Linear", PH_IN(x, w), PH_NO_ATTRS, "inside");
        ph_graph_output(g, ph_graph_node(g, "Relu", PH_IN(y), PH_NO_ATTRS, "z"), "z");
        CHECK(!ph_graph_finish(g, NULL));
        for (int i = 0; i < (int)g->n_nodes; i++) CHECK(!ph_onnx_export_try(g, i, &how, NULL));
        CHECK(ph_onnx_export_try(g, -1, &how, NULL) == PH_EUSAGE);
        CHECK(ph_onnx_export_try(g, (int)g->n_nodes, &how, NULL) == PH_EUSAGE);
        how.also = &y;
        how.n_also = 1;
        CHECK_SAY(!there_and_back(&t, g, &how), "%s", t.err.msg);
        int seen = ph_graph_find(t.back.graph, "inside");
        CHECK(seen >= 0 && t.back.graph->value[seen].is_output);
        const ph_onnx_stored *s = stored(&t, "w");
        CHECK(s && ph_onnx_dtype(s->type) == (how.is_float ? PH_F32 : PH_F16));
        done(&t);
        ph_graph_close(g);
    }
    ph_arena_close(&arena);
}

/* Axes whose names begin alike, in a few bytes or in many, stay two: in the file, and read back. */
void test_onnx_out_axes(void) {
    static const size_t lengths[] = {41, 151, 199, 900};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char        a[1000], b[1000];
        const char *symbol[PH_N_SYMS] = {[PH_SYM_A] = a, [PH_SYM_B] = b};
        ph_graph   *g;
        trip        t;
        memset(a, 'n', lengths[i]), memset(b, 'n', lengths[i]);
        strcpy(a + lengths[i], "1"), strcpy(b + lengths[i], "2");
        const ph_onnx_export_how how = {.symbol = symbol};
        CHECK(!ph_graph_open(&g, "test", NULL));
        int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(1, GH_S(A))),
            z = ph_graph_input(g, "z", PH_F32, ph_shape_of(1, GH_S(B)));
        ph_graph_output(g, ph_graph_node(g, "Relu", PH_IN(x), PH_NO_ATTRS, "y"), "y");
        ph_graph_output(g, ph_graph_node(g, "Relu", PH_IN(z), PH_NO_ATTRS, "u"), "u");
        CHECK(!ph_graph_finish(g, NULL));
        CHECK_SAY(!there_and_back(&t, g, &how), "%s", t.err.msg);
        CHECK(t.file.n_inputs == 2 && strcmp(t.file.input[0].dim[0].param, t.file.input[1].dim[0].param));
        const ph_graph *r = t.back.graph;
        if (r)
            CHECK_SAY(!ph_dim_same(r->value[ph_graph_find(r, "y")].shape.dim[0],
                                   r->value[ph_graph_find(r, "u")].shape.dim[0]),
                      "names of %zu bytes are one", lengths[i] + 1);
        done(&t);
        ph_graph_close(g);
    }
}
