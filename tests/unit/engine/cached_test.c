/* cached_test.c - CachedAttention of random sizes: the bits of a row, whatever the threads, the chunks, the
 * company and the stops.  SEED and TRIALS of the environment are for more of it. */
#include "base/clock.h"
#include "base/cpu.h"
#include "tests/unit/engine/engine_help.h"

#include <stdlib.h>
#include <string.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/engine/tests.def"
#undef PH_TEST

typedef struct form {
    int      heads, kv_heads, d, dv, window, tokens[2]; /* of two sequences */
    int      span[2][2];                                /* of each, tokens that all see each other */
    float    softcap;
    ph_dtype kv;
    unsigned features;
} form;

typedef struct bench {
    form      f;
    ph_graph *g;
    float    *in[2][3]; /* q, k, v of all tokens of each sequence */
} bench;

static ph_dim of(int n) {
    return ph_dim_of(n);
}

static ph_graph *graph_of(const form *f, int is_cross) {
    ph_graph *g;
    ph_err    err = {0};
    ph_dim    r = ph_dim_sym(PH_SYM_R);
    CHECK(!ph_graph_open(&g, "cached", &err));
    int q = ph_graph_input(g, "q", PH_F32, ph_shape_of(2, r, of(f->heads * f->d)));
    int k = is_cross ? -1 : ph_graph_input(g, "k", PH_F32, ph_shape_of(2, r, of(f->kv_heads * f->d)));
    int v = is_cross ? -1 : ph_graph_input(g, "v", PH_F32, ph_shape_of(2, r, of(f->kv_heads * f->dv)));
    int rows = ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, r, of(PH_ROW_FIELDS)));
    int kv = ph_graph_state(g, "kv");
    int y = ph_graph_node(g, "CachedAttention", PH_IN(q, k, v, rows, kv),
                          PH_ATTRS(PH_INT("layer", 0), PH_INT("num_heads", f->heads),
                                   PH_INT("kv_num_heads", f->kv_heads), PH_FLOAT("softcap", f->softcap),
                                   PH_INT("window", f->window)),
                          "y");
    ph_graph_output(g, y, "out");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    return g;
}

static void row_of(const form *f, int32_t *row, int which, int sequence, int at) {
    const int *s = f->span[which];
    memset(row, 0, PH_ROW_FIELDS * sizeof *row);
    row[PH_ROW_SEQUENCE] = sequence;
    row[PH_ROW_INDEX] = at;
    row[PH_ROW_SPAN] = at >= s[0] && at < s[1] ? s[1] : at + 1;
    row[PH_ROW_BACK] = at >= s[0] && at < s[1] ? at - s[0] : 0;
}

/* A chunk's end: never within a span. */
static int end_of(const form *f, int which, int from, int chunk) {
    const int *s = f->span[which];
    int        end = from + chunk;
    if (end > s[0] && end < s[1]) end = s[1];
    return end < f->tokens[which] ? end : f->tokens[which];
}

static void widths(const form *f, size_t w[3]) {
    w[0] = (size_t)(f->heads * f->d), w[1] = (size_t)(f->kv_heads * f->d),
    w[2] = (size_t)(f->kv_heads * f->dv);
}

static void put_rows(const bench *b, eh_run *r, int at, int which, int sequence, int from, int n) {
    const char *const name[] = {"q", "k", "v"};
    size_t            w[3];
    int32_t          *rows = r->engine->def->buffer(r->program, ph_graph_find(b->g, "rows"));
    widths(&b->f, w);
    for (int i = 0; i < n; i++) row_of(&b->f, &rows[(at + i) * PH_ROW_FIELDS], which, sequence, from + i);
    for (int k = 0; k < 3; k++) {
        float *to = r->engine->def->buffer(r->program, ph_graph_find(b->g, name[k]));
        memcpy(&to[(size_t)at * w[k]], &b->in[which][k][(size_t)from * w[k]], (size_t)n * w[k] * sizeof *to);
    }
}

static void go(eh_run *r, ph_syms syms, uint64_t ns) {
    ph_run_state state = PH_RUN_AGAIN;
    while (state == PH_RUN_AGAIN) {
        ph_err   err = {0};
        ph_until until = {.deadline_ns = ns ? ph_clock_ns() + ns : 0};
        ph_rc    rc = r->engine->def->run(r->program, &syms, ns ? &until : NULL, &state, &err);
        CHECK_SAY(!rc, "%s: %s", ph_rc_name(rc), err.msg);
        if (rc) return;
    }
}

/* ---- a run in random chunks ---- */

typedef struct walk {
    eh_run r;
    ph_kv *kv;
    int    chunk, is_stopped;
    int    at[2], id[2]; /* of each sequence */
} walk;

/* Rows of the next step: now and then none of one sequence; the last five alone or in twos, which are shared
 * out by stretches. */
static void next_rows(const form *f, const walk *w, int n[2]) {
    for (int s = 0; s < 2; s++) {
        int left = f->tokens[s] - w->at[s], chunk = w->chunk;
        n[s] = 0;
        if (chunk && eh_below(3) == 0) continue;
        if (!chunk)
            chunk = left;
        else if (left <= 5)
            chunk = 1 + (int)eh_below(2);
        else
            chunk = 1 + (int)eh_below((size_t)(chunk < left - 5 ? chunk : left - 5));
        n[s] = end_of(f, s, w->at[s], chunk) - w->at[s];
    }
}

/* The rows of one sequence stand around those of the other. */
static void put_step(const bench *b, walk *w, int around, const int n[2], int half) {
    int within = !around;
    put_rows(b, &w->r, 0, around, w->id[around], w->at[around], half);
    put_rows(b, &w->r, half, within, w->id[within], w->at[within], n[within]);
    put_rows(b, &w->r, half + n[within], around, w->id[around], w->at[around] + half, n[around] - half);
}

/* Half done, then bound again: as if it had not begun. */
static void begin_in_vain(walk *w, ph_syms syms) {
    ph_until     until = {.deadline_ns = 1};
    ph_run_state state;
    ph_bind      again = {.memory = w->r.memory, .bytes = w->r.bytes, .kv = w->kv};
    for (size_t i = 1 + eh_below(4); i; i--)
        CHECK(!w->r.engine->def->run(w->r.program, &syms, &until, &state, NULL));
    CHECK(!w->r.engine->def->bind(w->r.program, &syms, &again, NULL));
}

/* A row's answers [heads, dv] are rows of y. */
static void step(const bench *b, walk *w, const int n[2], float *const y[2]) {
    size_t  wide = (size_t)(b->f.heads * b->f.dv), row = wide * sizeof(float);
    ph_syms syms = eh_syms(n[0] + n[1], n[0] + n[1], 0, 0, 0);
    int     around = (int)eh_below(2), within = !around, half = n[around] / 2;
    for (int s = 0; s < 2; s++) CHECK(!ph_kv_extend(w->kv, w->id[s], w->at[s] + n[s], NULL));
    if (!eh_bind(&w->r, syms, w->kv)) return;
    put_step(b, w, around, n, half);
    if (w->is_stopped && eh_below(4) == 0) {
        begin_in_vain(w, syms);
        put_step(b, w, around, n, half);
    }
    go(&w->r, syms, w->is_stopped ? 1 + eh_below(20000) : 0);
    CHECK(eh_guards_stand(&w->r));
    const float *got = w->r.engine->def->buffer(w->r.program, ph_graph_find(b->g, "out"));
    float       *to = &y[around][(size_t)w->at[around] * wide];
    memcpy(to, got, (size_t)half * row);
    memcpy(&y[within][(size_t)w->at[within] * wide], &got[(size_t)half * wide], (size_t)n[within] * row);
    memcpy(&to[(size_t)half * wide], &got[(size_t)(half + n[within]) * wide],
           (size_t)(n[around] - half) * row);
    for (int s = 0; s < 2; s++) w->at[s] += n[s];
}

/* All tokens of both sequences, in chunks of at most `chunk`, or at once; y: [tokens, heads * dv] of each. */
static void run_all(const bench *b, int threads, int chunk, int is_stopped, float *const y[2]) {
    const form *f = &b->f;
    walk        w = {.chunk = chunk, .is_stopped = is_stopped};
    int         most = f->tokens[0] + f->tokens[1];
    ph_kv_layer layer = {f->kv_heads, f->d, f->dv};
    ph_kv_spec  spec = {&layer, 1, 2, most, 2 * (size_t)most, f->kv, most};
    CHECK(!ph_kv_open(&w.kv, &spec, NULL));
    CHECK(!ph_kv_begin(w.kv, &w.id[0], NULL) && !ph_kv_begin(w.kv, &w.id[1], NULL));
    if (eh_open(&w.r, b->g, threads, f->features, eh_syms(most, most, 0, 0, 0), NULL, 0))
        for (int before = ut_failed;
             before == ut_failed && (w.at[0] < f->tokens[0] || w.at[1] < f->tokens[1]);) {
            int n[2];
            next_rows(f, &w, n);
            if (n[0] || n[1]) step(b, &w, n, y);
        }
    eh_close(&w.r);
    ph_kv_close(w.kv);
}

/* ---- random forms ---- */

static int pick(const int *some, size_t n) {
    return some[eh_below(n)];
}
#define PICK(...) pick((const int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

static int any_size(void) {
    return PICK(1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 40, 64);
}

/* What a trial brings that others have not: many heads of one key head, wide heads, stretches of 1024. */
static form random_form(int trial) {
    static const ph_dtype kinds[] = {PH_F32, PH_F16, PH_BF16, PH_Q8_0, PH_Q4_1};
    form f = {.kv = kinds[eh_below(5)], .kv_heads = 1 + (int)eh_below(4), .d = any_size(), .dv = any_size()};
    f.heads = f.kv_heads * PICK(1, 2, 3, 4, 5, 7, 8, 11, 13);
    if (trial % 8 == 1) f.kv_heads = 1, f.heads = 90 + (int)eh_below(120), f.d = PICK(1, 5, 16);
    if (trial % 8 == 2) f.d = PICK(129, 200, 256), f.heads = f.kv_heads;
    if (trial % 8 == 4) f.dv = PICK(129, 200, 256), f.heads = f.kv_heads;
    for (int s = 0; s < 2; s++) f.tokens[s] = 1 + (int)eh_below(trial % 2 ? 700 : 1700);
    if (trial % 8 == 3) {
        f.tokens[0] = 7500 + (int)eh_below(1200);
        f.heads = f.kv_heads = PICK(1, 2), f.d = f.dv = PICK(3, 8, 16);
    }
    for (int s = 0; s < 2; s++) {
        f.span[s][0] = f.span[s][1] = (int)eh_below((size_t)f.tokens[s]);
        if (eh_below(2)) f.span[s][1] += (int)eh_below((size_t)(f.tokens[s] - f.span[s][0]) + 1);
    }
    f.window = eh_below(2) ? 0 : 1 + (int)eh_below(eh_below(2) ? 100 : 2000);
    f.softcap = eh_below(3) ? 0 : 2.5f;
    return f;
}

static void say_form(const form *f, char *out, size_t size, const char *what) {
    snprintf(out, size, "%s, %d/%d heads of %d, %d; %s; %d + %d tokens, window %d, spans %d-%d %d-%d", what,
             f->heads, f->kv_heads, f->d, f->dv, ph_dtype_name(f->kv), f->tokens[0], f->tokens[1], f->window,
             f->span[0][0], f->span[0][1], f->span[1][0], f->span[1][1]);
}

static void open_bench(bench *b, const form *f) {
    size_t w[3];
    *b = (bench){.f = *f, .g = graph_of(f, 0)};
    widths(f, w);
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < 3; k++) {
            size_t n = (size_t)f->tokens[s] * w[k];
            b->in[s][k] = calloc(n + 1, sizeof(float));
            eh_fill(b->in[s][k], n);
            for (size_t i = 0; k == 0 && i < n; i++) b->in[s][k][i] *= 3; /* so that weights differ */
        }
}

static void close_bench(bench *b) {
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < 3; k++) free(b->in[s][k]);
    ph_graph_close(b->g);
}

static size_t answers(const form *f, int s) {
    return (size_t)f->tokens[s] * (size_t)(f->heads * f->dv);
}

static void compare(const form *f, float *const got[2], float *const want[2], float bound, const char *what) {
    char text[256];
    say_form(f, text, sizeof text, what);
    for (int s = 0; s < 2; s++)
        if (bound > 0)
            eh_close_to(got[s], want[s], answers(f, s), bound, text);
        else
            eh_same(got[s], want[s], answers(f, s), text);
}

static void one_form(const form *f) {
    static const struct {
        int         threads, chunk, is_stopped;
        const char *what;
    } ways[] = {{2, 0, 0, "threads"}, {3, 150, 0, "chunks"}, {4, 40, 1, "stops"}, {1, 97, 0, "one thread"}};
    bench  b;
    float *want[2], *got[2];
    open_bench(&b, f);
    for (int s = 0; s < 2; s++) {
        want[s] = calloc(answers(f, s), sizeof(float));
        got[s] = calloc(answers(f, s), sizeof(float));
    }
    run_all(&b, 1, 0, 0, want);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        run_all(&b, ways[i].threads, ways[i].chunk, ways[i].is_stopped, got);
        compare(f, got, want, 0, ways[i].what);
    }
    b.f.features = 0;
    if (f->tokens[0] + f->tokens[1] < 1000) run_all(&b, 2, 0, 0, got), compare(f, got, want, 1e-3f, "plain");
    for (int s = 0; s < 2; s++) free(want[s]), free(got[s]);
    close_bench(&b);
}

void test_cached_random(void) {
    const char *trials = getenv("TRIALS"), *seed = getenv("SEED");
    unsigned    features;
    CHECK(!ph_kernels_features(getenv("PINHOLE_ISA"), &features, NULL));
    for (int i = 0; i < (trials ? atoi(trials) : 5); i++) {
        eh_seed = (seed ? strtoull(seed, NULL, 0) : 77) + (uint64_t)i * 1000003;
        form f = random_form(i);
        f.features = features;
        one_form(&f);
    }
}

/* ---- over a cache that others filled ---- */

/* What a row says of its place in its own sequence is nothing to keys of another cache. */
static void cross_row(int32_t *row, int sequence, int begin, int end, int is_hostile) {
    memset(row, 0, PH_ROW_FIELDS * sizeof *row);
    row[PH_ROW_SEQUENCE] = sequence;
    row[PH_ROW_CROSS_BEGIN] = begin, row[PH_ROW_CROSS_END] = end;
    if (is_hostile) row[PH_ROW_INDEX] = INT32_MAX, row[PH_ROW_BACK] = INT32_MIN;
}

static void cross_run(const bench *b, const ph_graph *g, ph_kv *kv, int threads, float *y) {
    enum { ROWS = 3 };
    static const int ends[ROWS][2] = {{0, 1300}, {517, 517}, {30, 1100}};
    eh_run           r;
    ph_syms          syms = eh_syms(ROWS, ROWS, 0, 0, 0);
    size_t           wide = (size_t)(b->f.heads * b->f.d);
    if (eh_open(&r, g, threads, b->f.features, syms, NULL, 0) && eh_bind(&r, syms, kv)) {
        int32_t *rows = r.engine->def->buffer(r.program, ph_graph_find(g, "rows"));
        float   *q = r.engine->def->buffer(r.program, ph_graph_find(g, "q"));
        for (int i = 0; i < ROWS; i++)
            cross_row(&rows[i * PH_ROW_FIELDS], 0, ends[i][0], ends[i][1], threads > 1);
        memcpy(q, b->in[0][0], ROWS * wide * sizeof *q);
        eh_go(&r, syms);
        memcpy(y, r.engine->def->buffer(r.program, ph_graph_find(g, "out")), ROWS * wide * sizeof *y);
    }
    eh_close(&r);
}

void test_cached_cross(void) {
    enum { WIDE = 8 * 24 };
    form        f = {.heads = 8, .kv_heads = 2, .d = 24, .dv = 24, .window = 5, .tokens = {1300, 1}};
    bench       b;
    eh_run      r;
    ph_kv      *kv;
    int         id = 0;
    float       want[3 * WIDE], got[3 * WIDE];
    ph_kv_layer layer = {2, 24, 24};
    ph_kv_spec  spec = {&layer, 1, 1, 1300, 1300, PH_F32, 1300};
    ph_syms     syms = eh_syms(1300, 1300, 0, 0, 0);
    f.features = ph_cpu_features();
    open_bench(&b, &f);
    ph_graph *g = graph_of(&f, 1);
    CHECK(!ph_kv_open(&kv, &spec, NULL) && !ph_kv_begin(kv, &id, NULL) && !id);
    CHECK(!ph_kv_extend(kv, id, 1300, NULL));
    if (eh_open(&r, b.g, 2, f.features, syms, NULL, 0) && eh_bind(&r, syms, kv)) {
        put_rows(&b, &r, 0, 0, id, 0, 1300);
        eh_go(&r, syms);
        cross_run(&b, g, kv, 1, want);
        cross_run(&b, g, kv, 2, got);
        eh_same(got, want, 3 * WIDE, "stretches, and rows of any index");
        for (size_t i = 0; i < WIDE; i++)
            CHECK(want[i] != 0 && want[WIDE + i] == 0 && want[2 * WIDE + i] != 0);
    }
    eh_close(&r);
    ph_kv_close(kv);
    ph_graph_close(g);
    close_bench(&b);
}
