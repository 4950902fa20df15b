/* language_test.c - a decoder as families build it: the same bits whatever the threads, the chunks, the
 * company. */
#include "base/clock.h"
#include "base/cpu.h"
#include "tests/unit/engine/engine_help.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 150, ROWS_MAX = 256, VOCAB_MAX = 300 };

/* One engine with a language program and a cache. */
typedef struct lm {
    eh_lm     m;
    ph_graph *g;
    ph_kv    *kv;
    eh_run    run;
    int       ids, rows, out_rows, logits;
} lm;

static int open_on(lm *l, const eh_lm *m, ph_graph *g, int threads, unsigned features) {
    *l = (lm){.m = *m, .g = g, .kv = eh_lm_cache(m, 6, 512)};
    l->ids = ph_graph_find(g, "ids");
    l->rows = ph_graph_find(g, "rows");
    l->out_rows = ph_graph_find(g, "out_rows");
    l->logits = ph_graph_find(g, "logits");
    return eh_open(&l->run, g, threads, features, eh_syms(ROWS_MAX, ROWS_MAX, ROWS_MAX, 0, 0), NULL, 0);
}

static void close_on(lm *l) {
    eh_close(&l->run);
    ph_kv_close(l->kv);
}

static void *at(lm *l, int value) {
    return l->run.engine->def->buffer(l->run.program, value);
}

/* Bound for r rows, all of them asked for. */
static ph_syms bind_rows(lm *l, int r) {
    ph_syms syms = eh_syms(r, r, 0, 0, 0);
    eh_bind(&l->run, syms, l->kv);
    int32_t *all = at(l, l->out_rows);
    for (int i = 0; i < r; i++) all[i] = i;
    return syms;
}

/* Tokens [from, from + n) of a sequence; logits [n, vocab] to out. */
static void feed(lm *l, int sequence, int salt, int from, int n, float *out) {
    CHECK(!ph_kv_extend(l->kv, sequence, from + n, NULL));
    ph_syms syms = bind_rows(l, n);
    eh_lm_rows(&l->m, at(l, l->ids), at(l, l->rows), sequence, salt, from, n);
    eh_go(&l->run, syms);
    CHECK(eh_guards_stand(&l->run));
    memcpy(out, at(l, l->logits), (size_t)n * (size_t)l->m.vocab * sizeof *out);
}

/* The first TOKENS tokens of a sequence in chunks. */
static void feed_all(lm *l, int salt, int chunk, float *out) {
    int sequence;
    CHECK(!ph_kv_begin(l->kv, &sequence, NULL));
    for (int from = 0; from < TOKENS; from += chunk) {
        int n = TOKENS - from < chunk ? TOKENS - from : chunk;
        feed(l, sequence, salt, from, n, &out[(size_t)from * (size_t)l->m.vocab]);
    }
    ph_kv_end(l->kv, sequence);
}

static float *logits_room(void) {
    return calloc((size_t)ROWS_MAX * VOCAB_MAX, sizeof(float));
}

/* ---- against the definition ---- */

static void define(const eh_lm *m, const ph_graph *g, ph_kv *kv, int sequence, int salt, int from, int n,
                   float *out) {
    ph_arena   arena;
    ph_kernels plain;
    ph_err     err = {0};
    ph_array   logits;
    int32_t    ids[ROWS_MAX], rows[ROWS_MAX * PH_ROW_FIELDS], all[ROWS_MAX];
    ph_kernels_init(&plain, 0);
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, NULL));
    CHECK(!ph_kv_extend(kv, sequence, from + n, NULL));
    eh_lm_rows(m, ids, rows, sequence, salt, from, n);
    for (int i = 0; i < n; i++) all[i] = i;
    ph_syms syms = eh_syms(n, n, 0, 0, 0);
    ph_feed feeds[] = {{"ids", {.data = ids, .dtype = PH_I32, .rank = 1, .dim = {n}}},
                       {"rows", {.data = rows, .dtype = PH_I32, .rank = 2, .dim = {n, PH_ROW_FIELDS}}},
                       {"out_rows", {.data = all, .dtype = PH_I32, .rank = 1, .dim = {n}}},
                       {"kv", {.kv = kv}}};
    ph_rc   rc = ph_graph_eval(g, &syms, feeds, 4, "logits", &logits, &plain, &arena, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    if (!rc) memcpy(out, logits.data, (size_t)n * (size_t)m->vocab * sizeof *out);
    ph_arena_close(&arena);
}

static void against_definition(eh_lm m, const char *what) {
    eh_store s;
    lm       l;
    float   *want = logits_room(), *got = logits_room();
    int      sequence;
    unsigned features[] = {0, ph_cpu_features()};
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    ph_kv    *kv = eh_lm_cache(&m, 1, 512);
    CHECK(!ph_kv_begin(kv, &sequence, NULL));
    define(&m, g, kv, sequence, 5, 0, 70, want);
    define(&m, g, kv, sequence, 5, 70, 1, &want[(size_t)(70 * m.vocab)]);
    for (int f = 0; f < 2; f++) {
        if (open_on(&l, &m, g, 2, features[f]) && !ph_kv_begin(l.kv, &sequence, NULL)) {
            size_t n = (size_t)(71 * m.vocab);
            feed(&l, sequence, 5, 0, 70, got);
            feed(&l, sequence, 5, 70, 1, &got[(size_t)(70 * m.vocab)]);
            if (f)
                eh_close_to(got, want, n, 1e-3f, what);
            else
                eh_same(got, want, n, what);
        }
        close_on(&l);
    }
    ph_kv_close(kv);
    ph_graph_close(g);
    eh_store_close(&s);
    free(want);
    free(got);
}

void test_language_definition(void) {
    eh_lm m = eh_lm_small;
    against_definition(m, "f32");
    m.has_bias = 1, m.is_pairs = 1, m.weights = PH_F16, m.norms = PH_BF16, m.kv = PH_F16;
    against_definition(m, "f16, biases, pairs");
    m.window = 9, m.kv_heads = 1, m.softcap = 2.5f, m.embed = PH_F16;
    against_definition(m, "window, one key head, softcap");
    m.together = 67;
    against_definition(m, "spans in both directions, longer than a page and than the window");
    m.kv = PH_Q4_1;
    against_definition(m, "the same over a cache by channel");
    m.window = 0, m.together = 0;
    against_definition(m, "a cache by channel");
    m.kv = PH_Q8_0;
    against_definition(m, "a cache of q8_0");
    m.kv = PH_BF16;
    against_definition(m, "a cache of bf16");
    m = eh_lm_small;
    m.normed = 1;
    against_definition(m, "norms of heads and of results, in one layer of two");
    m.is_pairs = 1, m.norms = PH_F16, m.kv_heads = 1, m.normed = 2;
    against_definition(m, "norms of heads and of results");
    m = eh_lm_small;
    m.d = 64, m.heads = 4, m.kv_heads = 4, m.ff = 96, m.weights = PH_Q8_0, m.embed = PH_Q4_0;
    against_definition(m, "q8_0");
    m.weights = PH_Q4_1;
    against_definition(m, "q4_1");
    m.d = 256, m.ff = 256, m.head = 64, m.weights = PH_Q4_K, m.embed = PH_Q6_K;
    against_definition(m, "q4_k");
}

/* ---- the same bits ---- */

static eh_lm odd_model(void) {
    eh_lm m = eh_lm_small;
    m.weights = PH_F16, m.kv = PH_F16, m.window = 40, m.has_bias = 1, m.normed = 1;
    m.d = 96, m.ff = 200; /* large enough that units split columns */
    return m;
}

/* With caches of every kind; by channel also without a window, so that settled pages are seen. */
static void each_cache(void (*test)(eh_lm m)) {
    static const ph_dtype kinds[] = {PH_F16, PH_BF16, PH_Q8_0, PH_Q4_1};
    eh_lm                 m = odd_model();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        m.kv = kinds[i];
        test(m);
    }
    m.window = 0;
    test(m);
}

static void threads_chunks(eh_lm m) {
    static const struct {
        int threads, chunk;
    } ways[] = {{1, 512}, {2, 512}, {4, 512}, {1, 16}, {2, 16}, {4, 37}, {2, 1}};
    eh_store s;
    float   *want = logits_room(), *got = logits_room();
    unsigned features[] = {0, ph_cpu_features()};
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    for (int f = 0; f < 2; f++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            lm l;
            if (open_on(&l, &m, g, ways[i].threads, features[f]))
                feed_all(&l, 3, ways[i].chunk < ROWS_MAX ? ways[i].chunk : ROWS_MAX, i ? got : want);
            if (i) eh_same(got, want, (size_t)(TOKENS * m.vocab), "threads and chunks");
            close_on(&l);
        }
    ph_graph_close(g);
    eh_store_close(&s);
    free(want);
    free(got);
}

void test_language_threads_chunks(void) {
    each_cache(threads_chunks);
}

/* All of a sequence on a new program; how many steps that took. */
static size_t steps_of_all(const eh_lm *m, ph_graph *g, float *out) {
    enum { SPANS_MAX = 1 << 10 };
    lm       l;
    size_t   n = 0;
    ph_span *span = calloc(SPANS_MAX, sizeof *span);
    CHECK(span && !ph_trace_open(&eh_trace, SPANS_MAX, NULL));
    if (open_on(&l, m, g, 2, ph_cpu_features())) {
        feed_all(&l, 3, 64, out);
        n = ph_trace_spans(eh_trace, span, SPANS_MAX);
    }
    close_on(&l);
    ph_trace_close(eh_trace);
    eh_trace = NULL;
    free(span);
    return n;
}

/* Each row of fusion.def switched off, and all of them: the same bits, and the rows that cost steps are
 * marked. */
static void unfused(eh_lm m, int is_used[PH_N_FUSIONS + 1]) {
    eh_store s;
    float   *want = logits_room(), *got = logits_room();
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    size_t    fused = steps_of_all(&m, g, want);
    for (int i = 0; i <= PH_N_FUSIONS; i++) {
        const char *name = i < PH_N_FUSIONS ? ph_fusion_name(i) : "all";
        CHECK(!ph_fusions_of(name, &eh_unfused, NULL));
        size_t n = steps_of_all(&m, g, got);
        eh_same(got, want, (size_t)(TOKENS * m.vocab), name);
        CHECK_SAY(n >= fused, "%s: %zu steps, fused %zu", name, n, fused);
        if (n > fused) is_used[i]++;
    }
    eh_unfused = 0;
    ph_graph_close(g);
    eh_store_close(&s);
    free(want);
    free(got);
}

/* Two models that have, together, something for every row: norms behind each sum, or factors and no norms. */
void test_language_unfused(void) {
    int   is_used[PH_N_FUSIONS + 1] = {0};
    eh_lm m = odd_model();
    m.normed = 2;
    unfused(m, is_used);
    m.normed = 0, m.factors = 1;
    unfused(m, is_used);
    CHECK(is_used[PH_FUSE_scale] == 1 && is_used[PH_FUSE_post] == 1);
    CHECK(is_used[PH_N_FUSIONS] == 2);
    for (int i = 0; i < PH_N_FUSIONS; i++)
        CHECK_SAY(is_used[i], "%s changes no model of this test: add one that it does", ph_fusion_name(i));
}

/* A prompt chunk of one sequence, one row of two others between: each has the bits that it has alone. */
static void neighbours(eh_lm m) {
    eh_store s;
    lm       l;
    float   *alone = logits_room(), *first = logits_room();
    int      a = -1, b = -1, c = -1;
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    size_t    vocab = (size_t)m.vocab;
    if (open_on(&l, &m, g, 4, ph_cpu_features())) {
        feed_all(&l, 1, 64, alone);
        CHECK(!ph_kv_begin(l.kv, &a, NULL) && !ph_kv_begin(l.kv, &b, NULL) && !ph_kv_begin(l.kv, &c, NULL));
        feed(&l, a, 1, 0, 30, first);
        feed(&l, b, 8, 0, 77, first);
        CHECK(!ph_kv_extend(l.kv, a, 90, NULL) && !ph_kv_extend(l.kv, b, 78, NULL) &&
              !ph_kv_extend(l.kv, c, 5, NULL));
        ph_syms  syms = bind_rows(&l, 66);
        int32_t *ids = at(&l, l.ids), *rows = at(&l, l.rows);
        eh_lm_rows(&m, ids, rows, a, 1, 30, 31);
        eh_lm_rows(&m, ids + 31, rows + 31 * PH_ROW_FIELDS, b, 8, 77, 1);
        eh_lm_rows(&m, ids + 32, rows + 32 * PH_ROW_FIELDS, a, 1, 61, 29);
        eh_lm_rows(&m, ids + 61, rows + 61 * PH_ROW_FIELDS, c, 2, 0, 5);
        eh_go(&l.run, syms);
        const float *got = at(&l, l.logits);
        eh_same(got, &alone[30 * vocab], 31 * vocab, "before the neighbour");
        eh_same(&got[32 * vocab], &alone[61 * vocab], 29 * vocab, "behind the neighbour");
    }
    close_on(&l);
    ph_graph_close(g);
    eh_store_close(&s);
    free(alone);
    free(first);
}

void test_language_neighbours(void) {
    each_cache(neighbours);
}

/* A program bound for many rows runs few of them; what it makes of them is the same. */
void test_language_fewer_than_bound(void) {
    eh_store s;
    eh_lm    m = odd_model();
    lm       l;
    float   *want = logits_room();
    int      a;
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    if (open_on(&l, &m, g, 2, ph_cpu_features())) {
        feed_all(&l, 1, TOKENS, want);
        CHECK(!ph_kv_begin(l.kv, &a, NULL) && !ph_kv_extend(l.kv, a, 33, NULL));
        bind_rows(&l, TOKENS);
        for (int from = 0; from < 33; from += from ? 1 : 31) {
            int     n = from ? 1 : 31;
            ph_syms syms = eh_syms(n, n, 0, 0, 0);
            eh_lm_rows(&m, at(&l, l.ids), at(&l, l.rows), a, 1, from, n);
            eh_go(&l.run, syms);
            eh_same(at(&l, l.logits), &want[(size_t)(from * m.vocab)], (size_t)(n * m.vocab), "few rows");
        }
    }
    close_on(&l);
    ph_graph_close(g);
    eh_store_close(&s);
    free(want);
}

/* ---- stopping and going on ---- */

static int go_in_pieces(lm *l, ph_syms syms, uint64_t ns) {
    int          n = 0;
    ph_run_state state = PH_RUN_AGAIN;
    while (state == PH_RUN_AGAIN) {
        ph_until until = {.deadline_ns = ph_clock_ns() + ns};
        ph_rc    rc = l->run.engine->def->run(l->run.program, &syms, &until, &state, NULL);
        CHECK(!rc);
        if (rc) return n;
        n++;
    }
    return n;
}

/* ---- long contexts ---- */

/* What a row sees is cut into stretches at 512 and 1024 (cached_attend.c); few rows are shared out by them.
 */
enum { LONG = 1100, LONG_END = 4, LONG_CHUNK = 250 };

static void reopen_cache(lm *l) {
    ph_kv_close(l->kv);
    l->kv = eh_lm_cache(&l->m, 1, LONG);
}

/* The units of the first of two layers' attention, in the last run. */
static size_t attend_units(void) {
    enum { SPANS_MAX = 1 << 12 };
    ph_span *span = calloc(SPANS_MAX, sizeof *span);
    size_t   units[2] = {0}, n = span ? ph_trace_spans(eh_trace, span, SPANS_MAX) : 0;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(span[i].name, "attend")) units[0] = units[1], units[1] = span[i].arg;
    free(span);
    return units[0];
}

/* Logits of the last LONG_END tokens: all rows in chunks, or the last ones alone, in pieces and in twos. */
static void feed_long(lm *l, int by_step, float *out) {
    size_t vocab = (size_t)l->m.vocab;
    float *room = logits_room();
    int    sequence, end = LONG - LONG_END;
    reopen_cache(l);
    CHECK(!ph_kv_begin(l->kv, &sequence, NULL));
    for (int from = 0; from < end; from += LONG_CHUNK)
        feed(l, sequence, 3, from, end - from < LONG_CHUNK ? end - from : LONG_CHUNK, room);
    if (!by_step) {
        feed(l, sequence, 3, end, LONG_END, out);
    } else {
        feed(l, sequence, 3, end, 1, out);
        CHECK(!ph_kv_extend(l->kv, sequence, end + 2, NULL));
        ph_syms syms = bind_rows(l, 1);
        eh_lm_rows(&l->m, at(l, l->ids), at(l, l->rows), sequence, 3, end + 1, 1);
        CHECK(go_in_pieces(l, syms, 1) > 2);
        memcpy(&out[vocab], at(l, l->logits), vocab * sizeof *out);
        feed(l, sequence, 3, end + 2, 2, &out[2 * vocab]);
    }
    free(room);
}

static void define_long(const eh_lm *m, const ph_graph *g, float *out) {
    ph_kv *kv = eh_lm_cache(m, 1, LONG);
    float *room = logits_room();
    int    sequence, end = LONG - LONG_END;
    CHECK(!ph_kv_begin(kv, &sequence, NULL));
    for (int from = 0; from < end; from += LONG_CHUNK)
        define(m, g, kv, sequence, 3, from, end - from < LONG_CHUNK ? end - from : LONG_CHUNK, room);
    define(m, g, kv, sequence, 3, end, LONG_END, out);
    ph_kv_close(kv);
    free(room);
}

static void stretches(eh_lm m) {
    eh_store s;
    lm       l;
    size_t   n = LONG_END * (size_t)m.vocab;
    float   *want = logits_room(), *got = logits_room();
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    define_long(&m, g, want);
    for (int threads = 1; threads <= 4; threads *= 2) {
        CHECK(!ph_trace_open(&eh_trace, 1 << 12, NULL));
        if (open_on(&l, &m, g, threads, ph_cpu_features())) {
            feed_long(&l, threads > 1, got);
            size_t units = attend_units();
            if (threads > 1) /* two rows, whose first layer sees three stretches */
                CHECK_SAY(units == 2 * 3 * (size_t)m.kv_heads, "%d threads: %zu units", threads, units);
        }
        close_on(&l);
        ph_trace_close(eh_trace);
        eh_trace = NULL;
        if (threads == 1) {
            eh_close_to(got, want, n, 1e-3f, "long, against the definition");
            memcpy(want, got, n * sizeof *want);
        }
        eh_same(got, want, n, "long, threads and steps");
    }
    ph_graph_close(g);
    eh_store_close(&s);
    free(want);
    free(got);
}

void test_language_stretches(void) {
    eh_lm m = eh_lm_small;
    m.window = 700;
    stretches(m);
    m.kv = PH_Q8_0, m.softcap = 2.5f;
    stretches(m);
    m.kv = PH_Q4_1, m.kv_heads = 1;
    stretches(m);
}

/* ---- what a run may do ---- */

static void again(eh_lm m) {
    static const uint64_t pauses[] = {0, 1, 2000, 40000};
    eh_store              s;
    float                *want = logits_room();
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    for (int threads = 1; threads <= 4; threads *= 2) {
        lm  l;
        int a;
        if (open_on(&l, &m, g, threads, ph_cpu_features())) {
            if (threads == 1) feed_all(&l, 1, TOKENS, want);
            for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
                CHECK(!ph_kv_begin(l.kv, &a, NULL) && !ph_kv_extend(l.kv, a, TOKENS, NULL));
                ph_syms syms = bind_rows(&l, TOKENS);
                eh_lm_rows(&m, at(&l, l.ids), at(&l, l.rows), a, 1, 0, TOKENS);
                int n = go_in_pieces(&l, syms, pauses[i]);
                CHECK_SAY(i > 1 || n > 20, "%d pieces", n); /* it did stop between units */
                eh_same(at(&l, l.logits), want, (size_t)(TOKENS * m.vocab), "in pieces");
                CHECK(eh_guards_stand(&l.run));
                ph_kv_end(l.kv, a);
            }
        }
        close_on(&l);
    }
    ph_graph_close(g);
    eh_store_close(&s);
    free(want);
}

void test_language_again(void) {
    each_cache(again);
}

/* A cancelled run stops, is forgotten by reset, and the next one is as if it had never been. */
static void cancel(eh_lm m) {
    eh_store s;
    float   *want = logits_room();
    lm       l;
    int      a;
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    if (open_on(&l, &m, g, 2, ph_cpu_features())) {
        feed_all(&l, 1, TOKENS, want);
        CHECK(!ph_kv_begin(l.kv, &a, NULL) && !ph_kv_extend(l.kv, a, TOKENS, NULL));
        ph_syms      syms = bind_rows(&l, TOKENS);
        atomic_int   cancel = 1;
        ph_until     until = {.cancel = &cancel};
        ph_run_state state;
        for (int stops = 1; stops < 40; stops += 13) {
            eh_lm_rows(&m, at(&l, l.ids), at(&l, l.rows), a, 1, 0, TOKENS);
            for (int i = 0; i < stops; i++) {
                CHECK(!l.run.engine->def->run(l.run.program, &syms, &until, &state, NULL));
                CHECK(state == PH_RUN_AGAIN);
            }
            l.run.engine->def->reset(l.run.program);
        }
        eh_go(&l.run, syms);
        eh_same(at(&l, l.logits), want, (size_t)(TOKENS * m.vocab), "after cancelled runs");
    }
    close_on(&l);
    ph_graph_close(g);
    eh_store_close(&s);
    free(want);
}

void test_language_cancel(void) {
    each_cache(cancel);
}

/* ---- barriers, allocations ---- */

static uint64_t barriers(lm *l, int sequence, int from, int n, float *out) {
    uint64_t before = ph_threads_barriers(l->run.threads);
    feed(l, sequence, 1, from, n, out);
    return ph_threads_barriers(l->run.threads) - before;
}

static void count_barriers(int normed) {
    eh_lm    m = eh_lm_small;
    uint64_t prefill[2], step[2];
    float   *out = logits_room();
    m.d = 256, m.heads = 8, m.kv_heads = 4, m.head = 32, m.ff = 512, m.window = 64, m.normed = normed;
    for (int i = 0; i < 2; i++) { /* the difference of two depths is what a layer costs */
        eh_store s;
        lm       l;
        int      a;
        m.layers = 2 + 3 * i;
        eh_store_open(&s);
        ph_graph *g = eh_lm_graph(&m, &s);
        if (open_on(&l, &m, g, 2, 0) && !ph_kv_begin(l.kv, &a, NULL)) {
            prefill[i] = barriers(&l, a, 0, 100, out);
            step[i] = barriers(&l, a, 100, 1, out);
        }
        close_on(&l);
        ph_graph_close(g);
        eh_store_close(&s);
    }
    CHECK_SAY((prefill[1] - prefill[0]) <= 6 * 3 && prefill[1] > prefill[0],
              "%d barriers in 3 layers of prefill", (int)(prefill[1] - prefill[0]));
    CHECK_SAY((step[1] - step[0]) <= 6 * 3 && step[1] > step[0], "%d barriers in 3 layers of a step",
              (int)(step[1] - step[0]));
    free(out);
}

void test_language_barriers(void) {
    count_barriers(0);
    count_barriers(2);
}

static void no_malloc(eh_lm m) {
    eh_store     s;
    lm           l;
    int          a;
    ph_run_state state;
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    if (open_on(&l, &m, g, 4, ph_cpu_features()) && !ph_kv_begin(l.kv, &a, NULL)) {
        ph_syms syms = eh_syms(50, 50, 0, 0, 0);
        eh_bind(&l.run, syms, l.kv);
        ph_bind b = {.memory = l.run.memory, .bytes = l.run.bytes, .kv = l.kv};
        ut_hold_malloc(1); /* from here on an allocation aborts */
        for (int from = 0; from < 100; from += from < 50 ? 50 : 1) {
            int n = from < 50 ? 50 : 1;
            syms = eh_syms(n, 1, 0, 0, 0);
            if (ph_kv_extend(l.kv, a, from + n, NULL) ||
                l.run.engine->def->bind(l.run.program, &syms, &b, NULL))
                break;
            eh_lm_rows(&m, at(&l, l.ids), at(&l, l.rows), a, 1, from, n);
            ((int32_t *)at(&l, l.out_rows))[0] = n - 1;
            if (l.run.engine->def->run(l.run.program, &syms, NULL, &state, NULL)) break;
        }
        ut_hold_malloc(0);
        CHECK(ph_kv_length(l.kv, a) == 100 && state == PH_RUN_DONE);
    }
    close_on(&l);
    ph_graph_close(g);
    eh_store_close(&s);
}

void test_language_no_malloc(void) {
    each_cache(no_malloc);
}

/* Rows that point nowhere are refused before a byte of the cache is touched. */
void test_language_bad_rows(void) {
    static const struct {
        int field, value;
    } bad[] = {{PH_ROW_SEQUENCE, -1}, {PH_ROW_SEQUENCE, 5},    {PH_ROW_SEQUENCE, INT32_MAX},
               {PH_ROW_INDEX, -1},    {PH_ROW_INDEX, 10},      {PH_ROW_SPAN, -1},
               {PH_ROW_SPAN, 11},     {PH_ROW_SPAN, INT32_MIN}};
    eh_store s;
    lm       l;
    int      a;
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&eh_lm_small, &s);
    if (open_on(&l, &eh_lm_small, g, 2, 0) && !ph_kv_begin(l.kv, &a, NULL) &&
        !ph_kv_extend(l.kv, a, 10, NULL)) {
        ph_syms syms = bind_rows(&l, 10);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            ph_run_state state;
            ph_err       err = {0};
            eh_lm_rows(&l.m, at(&l, l.ids), at(&l, l.rows), a, 1, 0, 10);
            ((int32_t *)at(&l, l.rows))[7 * PH_ROW_FIELDS + bad[i].field] = bad[i].value;
            ph_rc rc = l.run.engine->def->run(l.run.program, &syms, NULL, &state, &err);
            CHECK_SAY(rc == PH_EMISMATCH && strstr(err.msg, "row 7"), "case %zu: %s %s", i, ph_rc_name(rc),
                      err.msg);
        }
        eh_lm_rows(&l.m, at(&l, l.ids), at(&l, l.rows), a, 1, 0, 10);
        eh_go(&l.run, syms);
    }
    close_on(&l);
    ph_graph_close(g);
    eh_store_close(&s);
}
