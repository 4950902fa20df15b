/* engine_help.c - small random graphs, and running them both ways. */
#include "tests/unit/engine/engine_help.h"

#include "base/cpu.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t eh_seed = 1;

uint32_t eh_random(void) { /* splitmix64 */
    uint64_t z = (eh_seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

size_t eh_below(size_t n) {
    return eh_random() % n;
}

float eh_float(void) {
    return (float)((double)eh_random() / 2147483648.0 - 1.0);
}

void eh_fill(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = eh_float();
}

ph_syms eh_syms(int64_t r, int64_t s, int64_t v, int64_t i, int64_t n) {
    return (ph_syms){{r, s, v, i, n}};
}

int eh_same(const float *a, const float *b, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a)) {
            CHECK_SAY(0, "%s: element %zu of %zu: %.9g, %.9g", what, i, n, (double)a[i], (double)b[i]);
            return 0;
        }
    return 1;
}

int eh_close_to(const float *got, const float *want, size_t n, float bound, const char *what) {
    float most = 1e-30f;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(want[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= bound * most)) {
            CHECK_SAY(0, "%s: element %zu of %zu: %.9g, wanted %.9g", what, i, n, (double)got[i],
                      (double)want[i]);
            return 0;
        }
    return 1;
}

/* ---- weights ---- */

void eh_store_open(eh_store *s) {
    CHECK(!ph_arena_open_growing(&s->arena, 1 << 16, NULL));
}

void eh_store_close(eh_store *s) {
    ph_arena_close(&s->arena);
}

int eh_weight(ph_graph *g, eh_store *s, const char *name, ph_shape shape, ph_dtype t, float about,
              float spread, size_t gap) {
    size_t cols = (size_t)shape.dim[shape.rank - 1].mul, rows = 1, row_bytes;
    void  *bytes, *floats;
    for (int k = 0; k + 1 < shape.rank; k++) rows *= (size_t)shape.dim[k].mul;
    CHECK(!ph_dtype_row_bytes(t, (int64_t)cols, &row_bytes, NULL));
    CHECK(!ph_arena_zero(&s->arena, &bytes, rows, row_bytes + gap, NULL));
    CHECK(!ph_arena_carve(&s->arena, &floats, cols, sizeof(float), NULL));
    /* A type that is only read: any bytes so low that none makes a scale large. */
    for (size_t i = 0; !ph_dtype_get(t)->pack && i < rows * (row_bytes + gap); i++)
        ((unsigned char *)bytes)[i] = (unsigned char)eh_below(32);
    for (size_t r = 0; ph_dtype_get(t)->pack && r < rows; r++) {
        float *x = floats;
        for (size_t i = 0; i < cols; i++) x[i] = about + spread * eh_float();
        ph_dtype_get(t)->pack((unsigned char *)bytes + r * (row_bytes + gap), x, cols);
    }
    return ph_graph_weight(g, name, shape,
                           ph_storage_of(t, bytes, rows * (row_bytes + gap), row_bytes + gap));
}

int eh_bytes(ph_graph *g, eh_store *s, const char *name, size_t first, size_t rows, size_t cols,
             ph_dtype scales) {
    void      *bytes, *scale;
    float      d;
    size_t     each = ph_dtype_bytes(scales), all = first + rows;
    ph_err     err = {0};
    ph_storage st = {.dtype = PH_I8, .n_planes = 2, .form = &ph_storage_channels, .n_rows = all};
    CHECK(!ph_arena_zero(&s->arena, &bytes, all, cols, NULL));
    CHECK(!ph_arena_zero(&s->arena, &scale, all, each, NULL));
    for (size_t i = 0; i < all * cols; i++) ((int8_t *)bytes)[i] = (int8_t)((int)eh_below(255) - 127);
    for (size_t r = 0; r < all; r++) {
        d = 0.002f + 0.001f * eh_float();
        ph_dtype_get(scales)->pack((unsigned char *)scale + r * each, &d, 1);
    }
    st.plane[PH_PLANE_DATA] = (ph_plane){bytes, all * cols, cols, PH_I8};
    st.plane[PH_PLANE_SCALE] = (ph_plane){scale, all * each, each, scales};
    CHECK_SAY(!st.form->check(&st, cols, &err), "%s", err.msg);
    st.first = first;
    return ph_graph_weight(g, name, ph_shape_of(2, ph_dim_of((int64_t)rows), ph_dim_of((int64_t)cols)), st);
}

/* ---- running ---- */

int eh_open(eh_run *r, const ph_graph *g, int threads, unsigned features, ph_syms max, const ph_tap *tap,
            size_t n_taps) {
    ph_err err = {0};
    *r = (eh_run){0};
    ph_kernels_init(&r->kernels, features);
    const ph_engine_def *def = ph_engine_find("native");
    CHECK(def && def == ph_engine_at(0));
    ph_compile    how = {.max = max, .tap = tap, .n_taps = n_taps};
    ph_rc         rc = ph_threads_open(&r->threads, threads, &err);
    ph_engine_env env = {.threads = r->threads,
                         .kernels = &r->kernels,
                         .trace = eh_trace,
                         .is_rows8 = eh_rows8,
                         .unfused = eh_unfused};
    if (!rc) rc = def->probe(&err);
    if (!rc) rc = def->open(&r->engine, &env, &err);
    if (!rc) rc = def->compile(r->engine, g, &how, &r->program, &err);
    CHECK_SAY(!rc, "%s: %s / %s", ph_rc_name(rc), err.msg, err.n_notes ? err.note[0] : "");
    return !rc;
}

int eh_bind(eh_run *r, ph_syms syms, ph_kv *kv) {
    ph_err  err = {0};
    ph_need need;
    free(r->block);
    r->block = NULL;
    ph_rc rc = r->engine->def->need(r->program, &syms, &need, &r->bytes, &err);
    if (!rc) {
        r->block = aligned_alloc(64, ph_round_up(r->bytes, 64) + 2 * EH_GUARD);
        memset(r->block, 0xa5, ph_round_up(r->bytes, 64) + 2 * EH_GUARD);
        r->memory = r->block + EH_GUARD;
        ph_bind b = {.memory = r->memory, .bytes = r->bytes, .kv = kv};
        rc = r->engine->def->bind(r->program, &syms, &b, &err);
    }
    CHECK_SAY(!rc, "%s: %s", ph_rc_name(rc), err.msg);
    return !rc;
}

int eh_go(eh_run *r, ph_syms syms) {
    ph_err       err = {0};
    ph_run_state state;
    ph_rc        rc = r->engine->def->run(r->program, &syms, NULL, &state, &err);
    CHECK_SAY(!rc && state == PH_RUN_DONE, "%s: %s / %s", ph_rc_name(rc), err.msg,
              err.n_notes ? err.note[0] : "");
    return !rc;
}

int eh_guards_stand(const eh_run *r) {
    for (size_t i = 0; i < EH_GUARD; i++)
        if (r->block[i] != 0xa5 || r->memory[r->bytes + i] != 0xa5) return 0;
    return 1;
}

void eh_close(eh_run *r) {
    if (r->program) r->engine->def->close_program(r->program);
    if (r->engine) r->engine->def->close(r->engine);
    ph_threads_close(r->threads);
    free(r->block);
    *r = (eh_run){0};
}

/* ---- comparing ---- */

typedef struct feeds {
    ph_feed at[16];
    size_t  n;
} feeds;

unsigned  eh_unfused;
int       eh_rows8;
ph_trace *eh_trace;

static void make_feeds(const ph_graph *g, const ph_syms *syms, int64_t index_below, feeds *f,
                       ph_arena *arena) {
    f->n = 0;
    for (size_t v = 0; v < g->n_values; v++) {
        const ph_value *value = &g->value[v];
        if (value->cls != PH_VALUE_INPUT) continue;
        ph_array a = {.dtype = value->dtype, .rank = value->shape.rank};
        for (int k = 0; k < a.rank; k++) CHECK(!ph_dim_eval(value->shape.dim[k], syms, &a.dim[k], NULL));
        size_t n = (size_t)ph_array_count(&a);
        CHECK(!ph_arena_zero(arena, &a.data, n, 8, NULL));
        for (size_t i = 0; i < n; i++) {
            int64_t index = (int64_t)eh_below((size_t)index_below);
            if (eh_below(4) == 0 && index) index -= index_below; /* counted from the end */
            if (a.dtype == PH_F32) ((float *)a.data)[i] = eh_float();
            if (a.dtype == PH_I32) ((int32_t *)a.data)[i] = (int32_t)index;
            if (a.dtype == PH_I64) ((int64_t *)a.data)[i] = index;
        }
        f->at[f->n++] = (ph_feed){.name = value->name, .array = a};
    }
}

/* The definition of masked attention writes out rows of scores; the engine takes the keys in blocks, and
 * rounds otherwise. */
static int has_mask(const ph_graph *g) {
    for (size_t i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->node[i].op->name, "Attention") && g->node[i].n_in > 3 && g->node[i].in[3] >= 0)
            return 1;
    return 0;
}

static void run_and_compare(const ph_graph *g, const ph_syms *syms, const feeds *f, const ph_array *want,
                            int threads, unsigned features, float bound) {
    eh_run r;
    if (eh_open(&r, g, threads, features, *syms, NULL, 0) && eh_bind(&r, *syms, NULL)) {
        for (size_t i = 0; i < f->n; i++) {
            const ph_array *a = &f->at[i].array;
            size_t          bytes = (size_t)ph_array_count(a) * ph_dtype_bytes(a->dtype);
            if (bytes)
                memcpy(r.engine->def->buffer(r.program, ph_graph_find(g, f->at[i].name)), a->data, bytes);
        }
        eh_go(&r, *syms);
        CHECK(eh_guards_stand(&r));
        for (size_t v = 0; v < g->n_values; v++) {
            if (!g->value[v].is_output) continue;
            const void *got = r.engine->def->buffer(r.program, (int)v);
            size_t      n = (size_t)ph_array_count(&want[v]);
            if (g->value[v].dtype != PH_F32)
                CHECK(!n || !memcmp(got, want[v].data, n * ph_dtype_bytes(g->value[v].dtype)));
            else if (features || has_mask(g))
                eh_close_to(got, want[v].data, n, bound, g->value[v].name);
            else
                eh_same(got, want[v].data, n, g->value[v].name);
        }
    }
    eh_close(&r);
}

void eh_compare(const ph_graph *g, ph_syms syms, int64_t index_below, float bound) {
    static const int counts[] = {1, 2, 4};
    ph_arena         arena;
    ph_kernels       plain;
    ph_err           err = {0};
    feeds            f;
    void            *want;
    ph_kernels_init(&plain, 0);
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, NULL));
    make_feeds(g, &syms, index_below, &f, &arena);
    CHECK(!ph_arena_zero(&arena, &want, g->n_values, sizeof(ph_array), NULL));
    ph_rc rc = ph_graph_eval(g, &syms, f.at, f.n, NULL, want, &plain, &arena, &err);
    CHECK_SAY(!rc, "definition: %s", err.msg);
    for (size_t i = 0; !rc && i < sizeof counts / sizeof *counts; i++) {
        run_and_compare(g, &syms, &f, want, counts[i], 0, bound);
        run_and_compare(g, &syms, &f, want, counts[i], ph_cpu_features(), bound);
    }
    ph_arena_close(&arena);
}

/* ---- a language model, as families build it ---- */

const eh_lm eh_lm_small = {.layers = 2,
                           .d = 48,
                           .heads = 6,
                           .kv_heads = 2,
                           .head = 16,
                           .ff = 80,
                           .vocab = 67,
                           .weights = PH_F32,
                           .norms = PH_F32,
                           .embed = PH_F32,
                           .kv = PH_F32};

static int w(ph_graph *g, eh_store *s, int n, int k, ph_dtype t, const char *fmt, int layer) {
    char name[64];
    snprintf(name, sizeof name, "layer.%d.%s", layer, fmt);
    return eh_weight(g, s, name, ph_shape_of(2, ph_dim_of(n), ph_dim_of(k)), t, 0, 1.7f / sqrtf((float)k), 0);
}

static int vec(ph_graph *g, eh_store *s, int n, ph_dtype t, float about, const char *fmt, int layer) {
    char name[64];
    snprintf(name, sizeof name, "layer.%d.%s", layer, fmt);
    return eh_weight(g, s, name, ph_shape_of(1, ph_dim_of(n)), t, about, 0.2f, 0);
}

static int linear(ph_graph *g, eh_store *s, const eh_lm *m, int x, int n, int k, const char *name, int layer,
                  int bias) {
    char b[64];
    int  in[3] = {x, w(g, s, n, k, m->weights, name, layer), -1};
    snprintf(b, sizeof b, "%s.b", name);
    if (bias) in[2] = vec(g, s, n, m->norms, 0, b, layer);
    return ph_graph_node(g, "Linear", in, bias ? 3 : 2, PH_NO_ATTRS, "layer.%d.%s.y", layer, name);
}

static int halved(ph_graph *g, int x, const char *name, int layer) {
    static const float half = 0.5f;
    char               as[64];
    snprintf(as, sizeof as, "layer.%d.%s.half", layer, name);
    int factor = ph_graph_constant(g, as, PH_F32, ph_shape_of(1, ph_dim_of(1)), &half);
    return ph_graph_node(g, "Mul", PH_IN(x, factor), PH_NO_ATTRS, "layer.%d.%s.halved", layer, name);
}

static int norm(ph_graph *g, eh_store *s, const eh_lm *m, int x, const char *name, int layer) {
    int in[2] = {x, vec(g, s, m->d, m->norms, 1, name, layer)};
    return ph_graph_node(g, "RMSNormalization", in, 2, PH_ATTRS(PH_FLOAT("epsilon", 1e-4)), "layer.%d.%s.y",
                         layer, name);
}

static int reshape(ph_graph *g, int x, const int64_t *dims, int n, const char *name, int layer) {
    char as[64];
    snprintf(as, sizeof as, "layer.%d.%s.dims", layer, name);
    int at = ph_graph_constant(g, as, PH_I64, ph_shape_of(1, ph_dim_of(n)), dims);
    return ph_graph_node(g, "Reshape", PH_IN(x, at), PH_NO_ATTRS, "layer.%d.%s", layer, name);
}

/* names: of the heads, of their norm, and of the row that they become again */
static int head_norm(ph_graph *g, eh_store *s, const eh_lm *m, int x, int heads, const char *const names[3],
                     int layer) {
    const int64_t split[3] = {0, heads, m->head}, flat[2] = {0, (int64_t)heads * m->head};
    int in[2] = {reshape(g, x, split, 3, names[0], layer), vec(g, s, m->head, m->norms, 1, names[1], layer)};
    x = ph_graph_node(g, "RMSNormalization", in, 2, PH_ATTRS(PH_FLOAT("epsilon", 1e-4)), "layer.%d.%s.y",
                      layer, names[1]);
    return reshape(g, x, flat, 2, names[2], layer);
}

static int layer(ph_graph *g, eh_store *s, const eh_lm *m, int x, int c, int sn, int rows, int kv, int i) {
    int h = norm(g, s, m, x, "norm1", i);
    int q = linear(g, s, m, h, m->heads * m->head, m->d, "q", i, m->has_bias);
    int k = linear(g, s, m, h, m->kv_heads * m->head, m->d, "k", i, m->has_bias);
    int v = linear(g, s, m, h, m->kv_heads * m->head, m->d, "v", i, m->has_bias);
    int is_normed = m->normed > 1 - i % 2;
    if (is_normed) {
        q = head_norm(g, s, m, q, m->heads, (const char *const[]){"q.heads", "qn", "q.row"}, i);
        k = head_norm(g, s, m, k, m->kv_heads, (const char *const[]){"k.heads", "kn", "k.row"}, i);
    }
    q = ph_graph_node(g, "RotaryEmbedding", PH_IN(q, c, sn),
                      PH_ATTRS(PH_INT("num_heads", m->heads), PH_INT("interleaved", m->is_pairs)),
                      "layer.%d.qr", i);
    k = ph_graph_node(g, "RotaryEmbedding", PH_IN(k, c, sn),
                      PH_ATTRS(PH_INT("num_heads", m->kv_heads), PH_INT("interleaved", m->is_pairs)),
                      "layer.%d.kr", i);
    int a = ph_graph_node(
        g, "CachedAttention", PH_IN(q, k, v, rows, kv),
        PH_ATTRS(PH_INT("layer", i), PH_INT("num_heads", m->heads), PH_INT("kv_num_heads", m->kv_heads),
                 PH_INT("window", i % 2 ? m->window : 0), PH_FLOAT("softcap", (double)m->softcap)),
        "layer.%d.a", i);
    a = linear(g, s, m, a, m->d, m->heads * m->head, "o", i, 0);
    if (m->factors) a = halved(g, a, "o", i);
    if (is_normed) a = norm(g, s, m, a, "post1", i);
    x = ph_graph_node(g, "Add", PH_IN(x, a), PH_NO_ATTRS, "layer.%d.x1", i);
    h = norm(g, s, m, x, "norm2", i);
    int gate = linear(g, s, m, h, m->ff, m->d, "gate", i, 0),
        up = linear(g, s, m, h, m->ff, m->d, "up", i, 0);
    gate = ph_graph_node(g, "Swish", PH_IN(gate), PH_NO_ATTRS, "layer.%d.act", i);
    h = ph_graph_node(g, "Mul", PH_IN(gate, up), PH_NO_ATTRS, "layer.%d.gated", i);
    h = linear(g, s, m, h, m->d, m->ff, "down", i, 0);
    if (m->factors) h = halved(g, h, "down", i);
    if (is_normed) h = norm(g, s, m, h, "post2", i);
    return ph_graph_node(g, "Add", PH_IN(x, h), PH_NO_ATTRS, "layer.%d.x2", i);
}

ph_graph *eh_lm_graph(const eh_lm *m, eh_store *s) {
    ph_graph *g;
    ph_err    err = {0};
    ph_dim    r = ph_dim_sym(PH_SYM_R), v = ph_dim_sym(PH_SYM_V), d = ph_dim_of(m->d);
    CHECK(!ph_graph_open(&g, "language", &err));
    int ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, r));
    int rows = ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, r, ph_dim_of(PH_ROW_FIELDS)));
    int out_rows = ph_graph_input(g, "out_rows", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_S)));
    int kv = ph_graph_state(g, "kv");
    int embed = eh_weight(g, s, "embed", ph_shape_of(2, ph_dim_of(m->vocab), d), m->embed, 0, 1, 0);
    int x = ph_graph_node(g, "Gather", PH_IN(embed, ids), PH_NO_ATTRS, "embedded");
    if (m->is_visual) {
        int at = ph_graph_input(g, "visual_rows", PH_I32, ph_shape_of(2, v, ph_dim_of(1)));
        int visual = ph_graph_input(g, "visual", PH_F32, ph_shape_of(2, v, d));
        x = ph_graph_node(g, "ScatterND", PH_IN(x, at, visual), PH_NO_ATTRS, "spliced");
    }
    int c = ph_graph_node(g, "RopeAngles", PH_IN(rows),
                          PH_ATTRS(PH_INT("dim", m->head), PH_FLOAT("theta", 10000)), "angles");
    int sn = ph_graph_output_of(g, c, 1);
    for (int i = 0; i < m->layers; i++) x = layer(g, s, m, x, c, sn, rows, kv, i);
    int y = ph_graph_node(g, "Gather", PH_IN(x, out_rows), PH_NO_ATTRS, "picked");
    y = norm(g, s, m, y, "norm", m->layers);
    y = linear(g, s, m, y, m->vocab, m->d, "head", m->layers, 0);
    ph_graph_output(g, y, "logits");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    return g;
}

ph_kv *eh_lm_cache(const eh_lm *m, int sequences, int context) {
    ph_kv_layer layers[8];
    ph_kv      *kv = NULL;
    ph_err      err = {0};
    for (int i = 0; i < m->layers; i++) layers[i] = (ph_kv_layer){m->kv_heads, m->head, m->head};
    ph_kv_spec spec = {layers, m->layers, sequences, context, (size_t)sequences * (size_t)context, m->kv, 0};
    CHECK_SAY(!ph_kv_open(&kv, &spec, &err), "%s", err.msg);
    return kv;
}

void eh_lm_rows(const eh_lm *m, int32_t *ids, int32_t *rows, int sequence, int salt, int from, int n) {
    for (int i = 0; i < n; i++) {
        int32_t *row = &rows[i * PH_ROW_FIELDS], at = from + i;
        ids[i] = (int32_t)((unsigned)(at * 7919 + salt * 104729 + at * at) % (unsigned)m->vocab);
        memset(row, 0, PH_ROW_FIELDS * sizeof *row);
        row[PH_ROW_SEQUENCE] = sequence;
        row[PH_ROW_INDEX] = row[PH_ROW_POS_T] = row[PH_ROW_POS_H] = row[PH_ROW_POS_W] = at;
        row[PH_ROW_SPAN] = at < m->together ? m->together : at + 1;
    }
}
