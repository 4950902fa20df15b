/* memory_test.c - what need() says is what a run touches; lending; weights in pages; taps. */
#include "base/cpu.h"
#include "base/mem.h"
#include "tests/unit/engine/engine_help.h"

#include <stdlib.h>
#include <string.h>

static void fill_inputs(eh_run *r, const ph_graph *g, const eh_lm *m, int sequence, int from, int n) {
    const ph_engine_def *def = r->engine->def;
    eh_lm_rows(m, def->buffer(r->program, ph_graph_find(g, "ids")),
               def->buffer(r->program, ph_graph_find(g, "rows")), sequence, 1, from, n);
    ((int32_t *)def->buffer(r->program, ph_graph_find(g, "out_rows")))[0] = n - 1;
}

/* The highest byte that is no longer what memset left: the whole need is used, and nothing beyond it. */
static size_t touched(const eh_run *r) {
    size_t n = r->bytes;
    while (n && r->memory[n - 1] == 0xa5) n--;
    return n;
}

/* Words that are no longer what memset left. */
static size_t words_touched(const eh_run *r) {
    size_t n = 0;
    for (size_t i = 0; i + 4 <= r->bytes; i += 4)
        n += r->memory[i] != 0xa5 || r->memory[i + 1] != 0xa5 || r->memory[i + 2] != 0xa5 ||
             r->memory[i + 3] != 0xa5;
    return n;
}

void test_memory_exact(void) {
    eh_store s;
    eh_lm    m = eh_lm_small;
    eh_run   r;
    size_t   bytes[3];
    int      sizes[3] = {1, 37, 200}, a;
    m.weights = PH_F16, m.d = 96, m.ff = 200;
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    ph_kv    *kv = eh_lm_cache(&m, 2, 512);
    CHECK(!ph_kv_begin(kv, &a, NULL) && !ph_kv_extend(kv, a, 200, NULL));
    if (eh_open(&r, g, 1, ph_cpu_features(), eh_syms(200, 200, 0, 0, 0), NULL, 0)) {
        for (int i = 0; i < 3; i++) {
            ph_need need;
            ph_syms syms = eh_syms(sizes[i], 1, 0, 0, 0);
            size_t  scratch;
            CHECK(!r.engine->def->need(r.program, &syms, &need, &scratch, NULL));
            eh_bind(&r, syms, kv);
            bytes[i] = r.bytes;
            CHECK(scratch == r.bytes && need.input + need.activations < scratch);
            CHECK(need.engine >
                  scratch - need.input - need.activations); /* tables and widened norms beside it */
            fill_inputs(&r, g, &m, a, 0, sizes[i]);
            eh_go(&r, syms);
            CHECK(eh_guards_stand(&r));
            /* Activations: the four wide ones of a layer must find room, few others may. */
            CHECK_SAY(i < 2 || need.activations <= (size_t)(200 * (2 * m.d + m.ff + m.heads * m.head) * 4 +
                                                            200 * m.head * 4 + 4096),
                      "%zu bytes", need.activations);
            size_t used = words_touched(&r) * 4;
            /* One row leaves the kernels' own scratch alone. */
            CHECK_SAY(!i || used > scratch / 100 * 95, "%d rows: %zu of %zu bytes used", sizes[i], used,
                      scratch);
            /* One worker: its scratch is at the end, and the largest step reaches into its last part. */
            CHECK_SAY(touched(&r) > need.input + need.activations, "%zu of %zu", touched(&r), r.bytes);
        }
        CHECK(bytes[0] < bytes[1] && bytes[1] < bytes[2]);
        ph_syms more = eh_syms(201, 1, 0, 0, 0), fine = eh_syms(37, 1, 0, 0, 0);
        ph_need need;
        size_t  scratch;
        ph_err  err = {0};
        CHECK(r.engine->def->need(r.program, &more, &need, &scratch, &err) == PH_ELIMIT &&
              strstr(err.msg, "R = 201"));
        ph_bind small = {.memory = r.memory, .bytes = bytes[1] - 1, .kv = kv},
                no_kv = {.memory = r.memory, .bytes = bytes[1]};
        CHECK(r.engine->def->bind(r.program, &fine, &small, &err) == PH_ELIMIT);
        CHECK(r.engine->def->bind(r.program, &fine, &no_kv, &err) == PH_EUSAGE);
        ph_run_state state;
        CHECK(r.engine->def->run(r.program, &fine, NULL, &state, &err) == PH_EUSAGE); /* not bound any more */
    }
    eh_close(&r);
    ph_kv_close(kv);
    ph_graph_close(g);
    eh_store_close(&s);
}

static void weights_of(int is_tied, ph_need *need, size_t *embed_bytes) {
    eh_store  s;
    ph_graph *g;
    eh_run    r;
    ph_err    err = {0};
    size_t    scratch;
    ph_syms   syms = eh_syms(4, 0, 0, 0, 0);
    eh_store_open(&s);
    CHECK(!ph_graph_open(&g, "weights", NULL));
    ph_shape shape = ph_shape_of(2, ph_dim_of(4000), ph_dim_of(64));
    int      ids = ph_graph_input(g, "ids", PH_I32, ph_shape_of(1, ph_dim_sym(PH_SYM_R)));
    int      embed = eh_weight(g, &s, "embed", shape, PH_F32, 0, 1, 0);
    int      head = is_tied ? embed : eh_weight(g, &s, "head", shape, PH_F16, 0, 1, 0);
    int      x = ph_graph_node(g, "Gather", PH_IN(embed, ids), PH_NO_ATTRS, "x");
    ph_graph_output(g, ph_graph_node(g, "Linear", PH_IN(x, head), PH_NO_ATTRS, "y"), "out");
    CHECK(!ph_graph_finish(g, &err));
    *embed_bytes = 4000 * 64 * 4;
    if (eh_open(&r, g, 1, 0, syms, NULL, 0))
        CHECK(!r.engine->def->need(r.program, &syms, need, &scratch, NULL));
    if (r.engine)
        CHECK(r.engine->def->estimate_us(r.engine, g, &syms) > 0 && r.engine->def->supports(g, 0) &&
              !r.engine->def->supports(g, 99));
    eh_close(&r);
    ph_graph_close(g);
    eh_store_close(&s);
}

/* A table that only Gather reads stands apart, since a run touches only its rows; tied with the head it does
 * not. */
void test_memory_weights(void) {
    ph_need need = {0};
    size_t  bytes;
    weights_of(0, &need, &bytes);
    CHECK(need.table >= bytes && need.table <= bytes + 8192 && need.table_row >= 256 &&
          need.table_row <= 8192);
    CHECK(need.weights >= bytes / 2 && need.weights <= bytes / 2 + 8192);
    weights_of(1, &need, &bytes);
    CHECK(!need.table && !need.table_row && need.weights >= bytes && need.weights <= bytes + 8192);
}

enum { LEND_ROWS = 20, LEND_VISUAL = 7 };

/* Compiled for an input that is always lent: it costs nothing, and a run without it is refused. */
static void program_that_borrows(eh_run *r, const ph_graph *g, const eh_lm *m, int sequence, int value,
                                 float *visual, const float *want, ph_kv *kv) {
    const ph_engine_def *def = r->engine->def;
    ph_syms              syms = eh_syms(LEND_ROWS, 1, LEND_VISUAL, 0, 0);
    ph_compile           how = {.max = syms, .lent = &value, .n_lent = 1};
    ph_need              own, lent;
    size_t               scratch;
    ph_run_state         state;
    eh_run               b = *r;
    CHECK(!def->compile(r->engine, g, &how, &b.program, NULL));
    CHECK(!def->need(r->program, &syms, &own, &scratch, NULL) &&
          !def->need(b.program, &syms, &lent, &scratch, NULL));
    CHECK(own.input - lent.input == (LEND_VISUAL * 48 * sizeof *visual + 63) / 64 * 64);
    b.block = NULL;
    if (eh_bind(&b, syms, kv)) {
        int32_t *at = def->buffer(b.program, ph_graph_find(g, "visual_rows"));
        for (int i = 0; i < LEND_VISUAL; i++) at[i] = 3 + 2 * i;
        fill_inputs(&b, g, m, sequence, 0, LEND_ROWS);
        CHECK(def->run(b.program, &syms, NULL, &state, NULL) == PH_EUSAGE && !def->buffer(b.program, value));
        CHECK(!def->lend(b.program, value, visual, NULL));
        eh_go(&b, syms);
        eh_same(def->buffer(b.program, ph_graph_find(g, "logits")), want, (size_t)m->vocab, "always lent");
        CHECK(eh_guards_stand(&b));
    }
    def->close_program(b.program);
    free(b.block);
    how.lent = &(const int){ph_graph_find(g, "logits")};
    CHECK(def->compile(r->engine, g, &how, &b.program, NULL) == PH_EUSAGE);
}

/* An output that is made in the caller's memory: the same bits, and the program's own stays as it is. */
static void output_that_is_lent(eh_run *r, int logits, size_t vocab, const float *want) {
    const ph_engine_def *def = r->engine->def;
    float               *own = def->buffer(r->program, logits), *lent = calloc(vocab, sizeof *lent);
    size_t               n_same = 0;
    ph_syms              syms = eh_syms(LEND_ROWS, 1, LEND_VISUAL, 0, 0);
    memset(own, 0, vocab * sizeof *own);
    CHECK(!def->lend(r->program, logits, lent, NULL) && def->buffer(r->program, logits) == lent);
    eh_go(r, syms);
    eh_same(lent, want, vocab, "an output lent");
    CHECK(!def->lend(r->program, logits, NULL, NULL) && def->buffer(r->program, logits) == own);
    for (size_t i = 0; i < vocab; i++) n_same += own[i] == want[i];
    CHECK_SAY(n_same < vocab, "the program's own buffer was written as well");
    eh_go(r, syms);
    eh_same(own, want, vocab, "an output given back");
    free(lent);
}

/* Visual tokens from the caller's own memory, not copied, against the same through the program's buffer. */
void test_memory_lend(void) {
    enum { N = LEND_ROWS, V = LEND_VISUAL };
    eh_store s;
    eh_lm    m = eh_lm_small;
    eh_run   r;
    int      a;
    float    visual[V * 48], *kept = calloc((size_t)m.vocab, sizeof *kept);
    ph_syms  syms = eh_syms(N, 1, V, 0, 0);
    m.is_visual = 1;
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    ph_kv    *kv = eh_lm_cache(&m, 2, 512);
    eh_fill(visual, V * 48);
    CHECK(!ph_kv_begin(kv, &a, NULL) && !ph_kv_extend(kv, a, N, NULL));
    if (eh_open(&r, g, 2, ph_cpu_features(), syms, NULL, 0) && eh_bind(&r, syms, kv)) {
        const ph_engine_def *def = r.engine->def;
        int                  value = ph_graph_find(g, "visual"), logits = ph_graph_find(g, "logits");
        int32_t             *at = def->buffer(r.program, ph_graph_find(g, "visual_rows"));
        void                *own = def->buffer(r.program, value);
        for (int i = 0; i < V; i++) at[i] = 3 + 2 * i;
        fill_inputs(&r, g, &m, a, 0, N);
        memcpy(own, visual, sizeof visual);
        eh_go(&r, syms);
        memcpy(kept, def->buffer(r.program, logits), (size_t)m.vocab * sizeof *kept);
        memset(own, 0, sizeof visual);
        CHECK(!def->lend(r.program, value, visual, NULL) && def->buffer(r.program, value) == visual);
        eh_go(&r, syms);
        eh_same(def->buffer(r.program, logits), kept, (size_t)m.vocab, "lent");
        program_that_borrows(&r, g, &m, a, value, visual, kept, kv);
        CHECK(!def->lend(r.program, value, NULL, NULL) && def->buffer(r.program, value) == own);
        CHECK(def->lend(r.program, ph_graph_find(g, "hidden.0"), visual, NULL) == PH_EUSAGE &&
              def->lend(r.program, -1, visual, NULL) == PH_EUSAGE);
        memcpy(own, visual, sizeof visual);
        output_that_is_lent(&r, logits, (size_t)m.vocab, kept);
    }
    eh_close(&r);
    ph_kv_close(kv);
    ph_graph_close(g);
    eh_store_close(&s);
    free(kept);
}

/* The last step may work in the place of the one before: the output moves with it. */
void test_memory_lend_in_place(void) {
    enum { N = 5, W = 48 };
    const ph_syms syms = eh_syms(0, 0, 0, 0, N);
    float         x[N * W], lent[N * W], want[N * W];
    ph_graph     *g;
    eh_store      s;
    eh_run        r;
    eh_store_open(&s);
    CHECK(!ph_graph_open(&g, "bridge", NULL));
    int in = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_N), ph_dim_of(W)));
    int w = eh_weight(g, &s, "w", ph_shape_of(2, ph_dim_of(W), ph_dim_of(W)), PH_F32, 0, 0.3f, 0);
    int y = ph_graph_node(g, "Linear", PH_IN(in, w), PH_NO_ATTRS, "product");
    y = ph_graph_node(g, "Softmax", PH_IN(y), PH_ATTRS(PH_INT("axis", -1)), "soft");
    ph_graph_output(g, ph_graph_node(g, "Relu", PH_IN(y), PH_NO_ATTRS, "bent"), "y");
    CHECK(!ph_graph_finish(g, NULL));
    eh_fill(x, N * W);
    if (eh_open(&r, g, 2, ph_cpu_features(), syms, NULL, 0) && eh_bind(&r, syms, NULL)) {
        const ph_engine_def *def = r.engine->def;
        int                  out = ph_graph_find(g, "y");
        memcpy(def->buffer(r.program, in), x, sizeof x);
        eh_go(&r, syms);
        float *own = def->buffer(r.program, out);
        memcpy(want, own, sizeof want);
        memset(own, 0, sizeof want);
        CHECK(!def->lend(r.program, out, lent, NULL) && def->buffer(r.program, out) == lent);
        memcpy(def->buffer(r.program, in), x, sizeof x);
        eh_go(&r, syms);
        eh_same(lent, want, N * W, "lent");
        CHECK(own[0] == 0 && own[N * W - 1] == 0 && eh_guards_stand(&r));
    }
    eh_close(&r);
    ph_graph_close(g);
    eh_store_close(&s);
}

/* An output that is an input under another name stays where that is. */
void test_memory_lend_alias(void) {
    enum { N = 3, W = 8 };
    const ph_syms syms = eh_syms(0, 0, 0, 0, N);
    float         x[N * W], lent[N * W] = {0};
    ph_graph     *g;
    eh_run        r;
    CHECK(!ph_graph_open(&g, "bridge", NULL));
    int in = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_N), ph_dim_of(W)));
    ph_graph_output(g, ph_graph_node(g, "Identity", PH_IN(in), PH_NO_ATTRS, "as.is"), "y");
    CHECK(!ph_graph_finish(g, NULL));
    eh_fill(x, N * W);
    if (eh_open(&r, g, 1, ph_cpu_features(), syms, NULL, 0) && eh_bind(&r, syms, NULL)) {
        const ph_engine_def *def = r.engine->def;
        int                  out = ph_graph_find(g, "y");
        CHECK(!def->lend(r.program, in, x, NULL));
        CHECK(def->lend(r.program, out, lent, NULL) == PH_EUSAGE);
        CHECK(def->lend(r.program, out, NULL, NULL) == PH_EUSAGE && def->buffer(r.program, in) == x);
        eh_go(&r, syms);
        eh_same(def->buffer(r.program, out), x, N * W, "as it is");
    }
    eh_close(&r);
    ph_graph_close(g);
}

/* ---- taps ---- */

typedef struct seen {
    int    calls;
    float *kept;
    size_t n;
} seen;

static void see(void *arg, int value, const float *data, const ph_shape *shape, const ph_syms *syms) {
    seen   *s = arg;
    int64_t n;
    (void)value;
    CHECK(!ph_shape_count(shape, syms, &n, NULL));
    s->calls++;
    s->n = (size_t)n;
    s->kept = realloc(s->kept, s->n * sizeof *s->kept);
    memcpy(s->kept, data, s->n * sizeof *s->kept);
}

static const char *const tapped[] = {"layer.0.norm1.y.y", "layer.0.q.y", "layer.0.kr",
                                     "layer.1.gate.y",    "layer.1.act", "layer.1.down.y",
                                     "layer.0.x2",        "embedded",    "layer.1.gated"};
enum { N_TAPPED = sizeof tapped / sizeof *tapped, TAP_ROWS = 33 };

/* Values inside every fusion are seen as the definition makes them, and the answer keeps its bits. */
void test_taps(void) {
    eh_store   s;
    eh_lm      m = eh_lm_small;
    eh_run     r;
    ph_arena   arena;
    ph_kernels plain;
    seen       got[N_TAPPED] = {{0}};
    ph_tap     taps[N_TAPPED];
    ph_err     err = {0};
    int        a;
    ph_syms    syms = eh_syms(TAP_ROWS, 1, 0, 0, 0);
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    ph_kv    *kv = eh_lm_cache(&m, 2, 512), *kv2 = eh_lm_cache(&m, 2, 512);
    ph_kernels_init(&plain, 0);
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, NULL));
    int n_taps = 0;
    for (int i = 0; i < N_TAPPED; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", tapped[i]);
        int value = ph_graph_find(g, name);
        if (value < 0 && i == 0) value = ph_graph_find(g, "layer.0.norm1.y");
        CHECK_SAY(value >= 0, "%s", name);
        taps[n_taps++] = (ph_tap){.value = value, .see = see, .arg = &got[i]};
    }
    CHECK(!ph_kv_begin(kv, &a, NULL) && !ph_kv_extend(kv, a, TAP_ROWS, NULL) && !ph_kv_begin(kv2, &a, NULL) &&
          !ph_kv_extend(kv2, a, TAP_ROWS, NULL));
    if (eh_open(&r, g, 2, 0, syms, taps, (size_t)n_taps) && eh_bind(&r, syms, kv)) {
        int32_t ids[TAP_ROWS], rows[TAP_ROWS * PH_ROW_FIELDS], last = TAP_ROWS - 1;
        fill_inputs(&r, g, &m, a, 0, TAP_ROWS);
        eh_go(&r, syms);
        eh_lm_rows(&m, ids, rows, a, 1, 0, TAP_ROWS);
        ph_feed feeds[] = {
            {"ids", {.data = ids, .dtype = PH_I32, .rank = 1, .dim = {TAP_ROWS}}},
            {"rows", {.data = rows, .dtype = PH_I32, .rank = 2, .dim = {TAP_ROWS, PH_ROW_FIELDS}}},
            {"out_rows", {.data = &last, .dtype = PH_I32, .rank = 1, .dim = {1}}},
            {"kv", {.kv = kv2}}};
        void *want_p;
        CHECK(!ph_arena_zero(&arena, &want_p, g->n_values, sizeof(ph_array), NULL));
        const ph_array *want = want_p;
        CHECK_SAY(!ph_graph_eval(g, &syms, feeds, 4, NULL, want_p, &plain, &arena, &err), "%s", err.msg);
        for (int i = 0; i < n_taps; i++) {
            CHECK_SAY(got[i].calls == 1, "%s: %d calls", tapped[i], got[i].calls);
            if (got[i].calls) eh_same(got[i].kept, want[taps[i].value].data, got[i].n, tapped[i]);
        }
        int logits = ph_graph_find(g, "logits");
        eh_same(r.engine->def->buffer(r.program, logits), want[logits].data, (size_t)m.vocab,
                "logits beside taps");
    }
    eh_close(&r);
    for (int i = 0; i < N_TAPPED; i++) free(got[i].kept);
    ph_tap      bad = {.value = ph_graph_find(g, "ids"), .see = see};
    ph_compile  how = {.max = syms, .tap = &bad, .n_taps = 1};
    ph_threads *threads;
    ph_engine  *e;
    ph_program *p;
    CHECK(!ph_threads_open(&threads, 1, NULL));
    ph_engine_env env = {.threads = threads, .kernels = &plain};
    CHECK(!ph_engine_native.open(&e, &env, NULL));
    CHECK(ph_engine_native.compile(e, g, &how, &p, &err) == PH_EUSAGE && !p);
    ph_engine_native.close(e);
    ph_threads_close(threads);
    ph_arena_close(&arena);
    ph_kv_close(kv);
    ph_kv_close(kv2);
    ph_graph_close(g);
    eh_store_close(&s);
}

/* Spans by step kind when a trace is given. */
void test_trace(void) {
    eh_store  s;
    eh_run    r = {0};
    ph_trace *trace;
    ph_syms   syms = eh_syms(9, 1, 0, 0, 0);
    int       a;
    eh_store_open(&s);
    ph_graph  *g = eh_lm_graph(&eh_lm_small, &s);
    ph_kv     *kv = eh_lm_cache(&eh_lm_small, 1, 64);
    ph_compile how = {.max = syms};
    ph_kernels_init(&r.kernels, 0);
    CHECK(!ph_trace_open(&trace, 256, NULL) && !ph_threads_open(&r.threads, 2, NULL));
    CHECK(!ph_kv_begin(kv, &a, NULL) && !ph_kv_extend(kv, a, 9, NULL));
    ph_engine_env env = {.threads = r.threads, .kernels = &r.kernels, .trace = trace};
    CHECK(!ph_engine_native.open(&r.engine, &env, NULL));
    CHECK(!ph_engine_native.compile(r.engine, g, &how, &r.program, NULL));
    if (eh_bind(&r, syms, kv)) {
        fill_inputs(&r, g, &eh_lm_small, a, 0, 9);
        eh_go(&r, syms);
        CHECK(ph_trace_count(trace, "linear") == 4 * 2 + 1 && ph_trace_count(trace, "append") == 2);
        CHECK(ph_trace_count(trace, "attend") == 2 && ph_trace_count(trace, "eval") == 0);
    }
    eh_close(&r);
    ph_trace_close(trace);
    ph_kv_close(kv);
    ph_graph_close(g);
    eh_store_close(&s);
}
