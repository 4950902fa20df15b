/* guest_test.c - the rows "ort" and "openvino" of the table: parts of our graphs on libraries of others, over
 * the plan's memory.
 *
 * Where a library is not here, tests that run something on it say so and are over.
 */
#include "base/asan.h"
#include "base/mem.h"
#include "engine/bare.h"
#include "engine/openvino/openvino_engine.h"
#include "engine/ort/ort_engine.h"
#include "tests/unit/engine/engine_help.h"
#include "tests/unit/engine/guest_help.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WIDE = 256, OUT = 96, ROWS = 20 };

static ph_rc open_engine(eh_run *r, const ph_engine_def *def, int threads, ph_err *err) {
    *r = (eh_run){0};
    keep_few();
    ph_kernels_init(&r->kernels, 0);
    CHECK(!ph_threads_open(&r->threads, threads, NULL));
    const ph_engine_env env = {
        .threads = r->threads, .kernels = &r->kernels, .is_exact = 1, .trace = eh_trace};
#ifdef HAS_TSAN
    (void)env, (void)def;
    return PH_FAIL(err, PH_EMACHINE, "ThreadSanitizer does not know what their threads do");
#else
    return def->open(&r->engine, &env, err);
#endif
}

/* 0: it is not here, which is said. */
static int open_guest(const char *test, eh_run *r, const ph_engine_def *def, int threads) {
    ph_err err = {0};
    ph_rc  rc = open_engine(r, def, threads, &err);
    CHECK_SAY(!rc || rc == PH_EMACHINE, "%s", err.msg);
    if (!rc) return 1;
    printf("%s, %s: skipped: %s\n", test, def->name, err.msg);
    eh_close(r);
    return 0;
}

static int compile(eh_run *r, const ph_graph *g, const ph_compile *how) {
    ph_err err = {0};
    ph_rc  rc = r->engine->def->compile(r->engine, g, how, &r->program, &err);
    CHECK_SAY(!rc, "%s: %s / %s", ph_rc_name(rc), err.msg, err.n_notes ? err.note[0] : "");
    return !rc;
}

static ph_syms rows_of(int64_t n) {
    return eh_syms(0, 0, 0, 0, n);
}

/* y = Gelu(LayerNorm(x) w^T + b), of N rows; w stored as t. */
static ph_graph *graph_of(eh_store *s, ph_dtype t) {
    ph_graph *g;
    ph_err    err = {0};
    ph_dim    n = ph_dim_sym(PH_SYM_N), wide = ph_dim_of(WIDE), out = ph_dim_of(OUT);
    CHECK(!ph_graph_open(&g, "vision", NULL));
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, n, wide));
    int gain = eh_weight(g, s, "gain", ph_shape_of(1, wide), PH_F32, 1, 0.2f, 0);
    int w = t == PH_I8 ? eh_bytes(g, s, "w", 0, OUT, WIDE, PH_F32)
                       : eh_weight(g, s, "w", ph_shape_of(2, out, wide), t, 0, 0.3f, 0);
    int b = eh_weight(g, s, "b", ph_shape_of(1, out), PH_F32, 0, 0.3f, 0);
    int y = ph_graph_node(g, "LayerNormalization", PH_IN(x, gain), PH_ATTRS(PH_INT("axis", -1)), "normed");
    y = ph_graph_node(g, "Linear", PH_IN(y, w, b), PH_NO_ATTRS, "product");
    ph_graph_output(g, ph_graph_node(g, "Gelu", PH_IN(y), PH_NO_ATTRS, "bent"), "y");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    return g;
}

/* One node from the input to the output. */
static ph_graph *short_graph(void) {
    ph_graph *g;
    CHECK(!ph_graph_open(&g, "vision", NULL));
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_N), ph_dim_of(WIDE)));
    ph_graph_output(g, ph_graph_node(g, "Relu", PH_IN(x), PH_NO_ATTRS, "bent"), "y");
    CHECK(!ph_graph_finish(g, NULL));
    return g;
}

static float *at(const eh_run *r, const char *name) {
    return r->engine->def->buffer(r->program, ph_graph_find(r->program->graph, name));
}

/* What the native engine makes of x, by floats. */
static void native(const ph_graph *g, const float *x, int64_t n, const char *name, float *out, size_t n_out) {
    ph_bare b;
    ph_err  err = {0};
    ph_syms syms = rows_of(n);
    CHECK_SAY(!ph_bare_open(&b, g, &syms, 1, 0, &err), "%s", err.msg);
    memcpy(ph_bare_buffer(&b, "x"), x, (size_t)n * WIDE * sizeof *x);
    CHECK(!ph_bare_run(&b, NULL));
    memcpy(out, ph_bare_buffer(&b, name), n_out * sizeof *out);
    ph_bare_close(&b);
}

/* ---- which nodes ---- */

static void row(const ph_engine_def *def) {
    eh_store  s;
    eh_lm     m = eh_lm_small;
    ph_graph *g;
    int       n_without = 0;
    CHECK(ph_engine_find(def->name) == def);
    eh_store_open(&s);
    g = graph_of(&s, PH_Q4_K);
    for (int i = 0; i < (int)g->n_nodes; i++) CHECK_SAY(def->supports(g, i), "node %d", i);
    CHECK(!def->supports(g, -1) && !def->supports(g, (int)g->n_nodes));
    ph_graph_close(g);
    g = eh_lm_graph(&m, &s);
    for (int i = 0; i < (int)g->n_nodes; i++) {
        int is_cached = !strcmp(g->node[i].op->name, "CachedAttention");
        n_without += is_cached;
        if (is_cached) CHECK(!def->supports(g, i));
        if (!strcmp(g->node[i].op->name, "Linear")) CHECK(def->supports(g, i));
    }
    CHECK(n_without == m.layers);
    ph_graph_close(g);
    eh_store_close(&s);
}

/* A cache stays from run to run: such a graph is refused, and the state is named. */
static void state(const ph_engine_def *def) {
    eh_run     r;
    eh_store   s;
    eh_lm      m = eh_lm_small;
    ph_err     err = {0};
    ph_compile how = {.max = eh_syms(8, 8, 0, 0, 0)};
    if (!open_guest("state", &r, def, 1)) return;
    eh_store_open(&s);
    ph_graph *g = eh_lm_graph(&m, &s);
    CHECK(def->compile(r.engine, g, &how, &r.program, &err) == PH_EUNSUP && !r.program);
    CHECK_SAY(strstr(err.msg, "'kv'") && strstr(err.msg, def->name), "%s", err.msg);
    ph_graph_close(g);
    eh_close(&r);
    eh_store_close(&s);
}

/* ---- weights ---- */

/* Of every way of storing: the native engine's numbers, and what is held for it. */
static void stored_as(eh_run *r, ph_dtype t, int is_shared) {
    eh_store   s;
    float      x[ROWS * WIDE], want[ROWS * OUT];
    ph_compile how = {.max = rows_of(ROWS)};
    ph_need    need;
    size_t     scratch;
    eh_store_open(&s);
    ph_graph *g = graph_of(&s, t);
    eh_fill(x, ROWS * WIDE);
    native(g, x, ROWS, "y", want, ROWS * OUT);
    if (compile(r, g, &how) && eh_bind(r, how.max, NULL)) {
        memcpy(at(r, "x"), x, sizeof x);
        eh_go(r, how.max);
        eh_close_to(at(r, "y"), want, ROWS * OUT, 1e-5f, ph_dtype_name(t));
        CHECK(eh_guards_stand(r));
        if (r->engine->def == &ph_engine_ort) { /* the other copies them all */
            size_t n_made = ((const ph_ort_program *)r->program)->n_made;
            CHECK_SAY((n_made == 0) == is_shared, "%s: %zu weights were made", ph_dtype_name(t), n_made);
        }
        CHECK(!r->engine->def->need(r->program, &how.max, &need, &scratch, NULL));
        CHECK(need.weights >= ph_dtype_bytes(t) && need.standing && need.engine >= need.standing);
    }
    if (r->program) r->engine->def->close_program(r->program);
    r->program = NULL;
    ph_graph_close(g);
    eh_store_close(&s);
}

static void weights(const ph_engine_def *def) {
    static const struct {
        ph_dtype t;
        int      is_shared;
    } rows[] = {{PH_F32, 1}, {PH_I8, 1}, {PH_F16, 0}, {PH_BF16, 0}, {PH_Q8_0, 0}, {PH_Q4_0, 0}, {PH_Q4_K, 0}};
    eh_run r;
    if (!open_guest("weights", &r, def, 2)) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) stored_as(&r, rows[i].t, rows[i].is_shared);
    eh_close(&r);
}

/* A weight in f32 is read where it lies: what stands there later is what a run sees. */
void test_ort_weight_in_place(void) {
    const ph_engine_def *def = &ph_engine_ort;
    eh_run               r;
    eh_store             s;
    ph_compile           how = {.max = rows_of(1)};
    if (!open_guest("weight_in_place", &r, def, 1)) return;
    eh_store_open(&s);
    ph_graph       *g = graph_of(&s, PH_F32);
    const ph_plane *w = &g->value[ph_graph_find(g, "w")].storage.plane[PH_PLANE_DATA];
    float          *bytes, before;
    memcpy(&bytes, &w->bytes, sizeof bytes);
    if (compile(&r, g, &how) && eh_bind(&r, how.max, NULL)) {
        eh_fill(at(&r, "x"), WIDE);
        eh_go(&r, how.max);
        before = at(&r, "y")[0];
        for (int i = 0; i < WIDE; i++) bytes[i] = -bytes[i];
        eh_go(&r, how.max);
        CHECK(at(&r, "y")[0] < before || at(&r, "y")[0] > before);
    }
    eh_close(&r);
    ph_graph_close(g);
    eh_store_close(&s);
}

/* ---- the border ---- */

/* Bytes of inputs and outputs that a run copied: outputs that do not lie where the plan has them, and all
 * that it took memory for. */
static size_t copied(const eh_run *r, ph_syms syms) {
    const ph_ort_program *p = (const ph_ort_program *)r->program;
    size_t                n = 0;
    ph_ort_memory_mark();
    size_t before = ph_ort_memory_read().now;
    eh_go((eh_run *)(uintptr_t)r, syms);
    n += ph_ort_memory_read().peak - before;
    for (size_t i = 0; i < p->guest.n_ports; i++) {
        ph_ort_array a;
        if (p->guest.port[i].is_input) continue;
        CHECK(!ph_ort_result(p->session, p->guest.port[i].at, &a, NULL));
        if (a.data != r->engine->def->buffer(r->program, p->guest.port[i].value)) n += a.bytes;
    }
    return n;
}

void test_ort_border(void) {
    const ph_engine_def *def = &ph_engine_ort;
    static const int64_t sizes[] = {ROWS, 3, 0, 7, ROWS};
    _Alignas(64) float   lent[ROWS * WIDE];
    eh_run               r;
    ph_compile           how = {.max = rows_of(ROWS)};
    if (!open_guest("border", &r, def, 2)) return;
    ph_graph *g = short_graph();
    int       x = ph_graph_find(g, "x");
    if (compile(&r, g, &how) && eh_bind(&r, how.max, NULL)) {
        eh_fill(lent, ROWS * WIDE);
        lent[0] = 2;
        memcpy(at(&r, "x"), lent, sizeof lent);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            CHECK_SAY(copied(&r, rows_of(sizes[i])) == 0, "%d rows", (int)sizes[i]);
        CHECK(at(&r, "y")[0] == 2 && eh_guards_stand(&r));
        memset(at(&r, "x"), 0, sizeof lent);
        CHECK(!def->lend(r.program, x, lent, NULL) && at(&r, "x") == lent);
        lent[0] = 3;
        CHECK(copied(&r, how.max) == 0 && at(&r, "y")[0] == 3);
        CHECK(!def->lend(r.program, x, NULL, NULL));
        CHECK(copied(&r, how.max) == 0 && at(&r, "y")[0] == 0);
        CHECK(def->lend(r.program, x, (char *)lent + 1, NULL) == PH_EUSAGE);
        int y = ph_graph_find(g, "y");
        CHECK(!def->lend(r.program, y, lent, NULL) && at(&r, "y") == lent);
        at(&r, "x")[0] = 5;
        CHECK(copied(&r, how.max) == 0 && lent[0] == 5);
        CHECK(!def->lend(r.program, y, NULL, NULL) && at(&r, "y") != lent);
        CHECK(def->lend(r.program, -1, lent, NULL) == PH_EUSAGE);
    }
    eh_close(&r);
    ph_graph_close(g);
}

static void always_lent(const ph_engine_def *def) {
    float        lent[ROWS * WIDE];
    eh_run       r;
    ph_run_state state;
    ph_err       err = {0};
    if (!open_guest("always_lent", &r, def, 1)) return;
    ph_graph  *g = short_graph();
    int        x = ph_graph_find(g, "x"), y = ph_graph_find(g, "y");
    ph_compile how = {.max = rows_of(ROWS), .lent = &x, .n_lent = 1};
    eh_fill(lent, ROWS * WIDE);
    if (compile(&r, g, &how) && eh_bind(&r, how.max, NULL)) {
        /* The output's alone, where it is the plan's. */
        CHECK(r.bytes == (def == &ph_engine_ort ? ROWS * WIDE * sizeof(float) : 0));
        CHECK(def->run(r.program, &how.max, NULL, &state, &err) == PH_EUSAGE && !at(&r, "x"));
        CHECK_SAY(strstr(err.msg, "lent"), "%s", err.msg);
        CHECK(!def->lend(r.program, x, lent, NULL));
        eh_go(&r, how.max);
        CHECK(at(&r, "x") == lent);
        for (int i = 0; i < ROWS * WIDE; i++) CHECK(at(&r, "y")[i] == (lent[i] > 0 ? lent[i] : 0));
    }
    if (r.program) def->close_program(r.program);
    r.program = NULL;
    how.lent = &y;
    CHECK(def->compile(r.engine, g, &how, &r.program, NULL) == PH_EUSAGE);
    eh_close(&r);
    ph_graph_close(g);
}

/* ---- what a run holds ---- */

static void need(const ph_engine_def *def) {
    eh_run     r;
    eh_store   s;
    ph_need    before = {0}, after = {0}, planned = {0};
    size_t     scratch, held;
    ph_err     err = {0};
    ph_compile how = {.max = rows_of(ROWS), .is_plan_only = 1};
    ph_syms    more = rows_of(ROWS + 1), less = rows_of(ROWS - 1);
    ph_bind    none = {0};
    if (!open_guest("need", &r, def, 1)) return;
    eh_store_open(&s);
    ph_graph *g = graph_of(&s, PH_F16);
    if (compile(&r, g, &how)) {
        CHECK(!def->need(r.program, &how.max, &planned, &scratch, NULL) && planned.is_estimate);
        CHECK(def->bind(r.program, &how.max, &none, NULL) == PH_EUSAGE);
        def->close_program(r.program);
        r.program = NULL;
    }
    how.is_plan_only = 0;
    if (compile(&r, g, &how) && eh_bind(&r, how.max, NULL)) {
        held = ph_ort_memory_read().now;
        CHECK(!def->need(r.program, &how.max, &before, &scratch, NULL) && before.is_estimate);
        CHECK(before.input == planned.input && before.activations == planned.activations &&
              scratch == before.input + before.activations && before.weights == planned.weights);
        eh_fill(at(&r, "x"), ROWS * WIDE);
        eh_go(&r, how.max);
        CHECK(!def->need(r.program, &how.max, &after, &scratch, NULL) && !after.is_estimate);
        /* The product stands between two nodes, unless ORT joins them. */
        CHECK(after.engine >= after.standing &&
              after.engine - after.standing <
                  (def == &ph_engine_ort ? 4 * ROWS * OUT * sizeof(float) : 1 << 20));
        CHECK(!def->need(r.program, &less, &after, &scratch, NULL) && after.is_estimate);
        for (int i = 1; i <= ROWS; i++) eh_go(&r, rows_of(i));
        if (def == &ph_engine_ort)
            CHECK_SAY(ph_ort_memory_read().now == held, "%zu bytes stay", ph_ort_memory_read().now - held);
        CHECK(def->need(r.program, &more, &after, &scratch, &err) == PH_ELIMIT && strstr(err.msg, "N = 21"));
        ph_bind small = {.memory = r.memory, .bytes = r.bytes - 1};
        CHECK(def->bind(r.program, &how.max, &small, &err) == PH_ELIMIT);
        ph_run_state state;
        CHECK(def->run(r.program, &how.max, NULL, &state, &err) == PH_EUSAGE); /* not bound any more */
    }
    eh_close(&r);
    ph_graph_close(g);
    eh_store_close(&s);
}

/* What another part of the process touches meanwhile, mapped or without a file, as weights, scratch and cache
 * are. */
enum { TOUCHED = 48 << 20, PAGE = 4096 };
typedef struct toucher {
    pthread_t  thread;
    atomic_int must_end, n_rounds;
} toucher;

static void touch(char *at) {
    for (size_t i = 0; i < TOUCHED; i += PAGE) ((volatile char *)at)[i] = 1;
    madvise(at, TOUCHED, MADV_DONTNEED);
}

static void *touch_all(void *arg) {
    toucher *t = arg;
    FILE    *f = tmpfile();
    int      is_sized = f && !ftruncate(fileno(f), TOUCHED);
    void    *anon = mmap(NULL, TOUCHED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void    *file =
        is_sized ? mmap(NULL, TOUCHED, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0) : MAP_FAILED;
    CHECK(anon != MAP_FAILED && file != MAP_FAILED);
    while (anon != MAP_FAILED && file != MAP_FAILED && !atomic_load(&t->must_end)) {
        touch(anon);
        touch(file);
        atomic_fetch_add(&t->n_rounds, 1);
    }
    if (anon != MAP_FAILED) munmap(anon, TOUCHED);
    if (file != MAP_FAILED) munmap(file, TOUCHED);
    if (f) fclose(f);
    return NULL;
}

/* Figures are of the part itself, whoever is at work beside it. */
static void beside(const ph_engine_def *def) {
    toucher    t = {.must_end = 0};
    eh_run     r;
    eh_store   s;
    ph_need    need = {0};
    size_t     scratch;
    ph_compile how = {.max = rows_of(ROWS)};
    if (!open_guest("beside", &r, def, 1)) return;
    if (!ph_mem_heap().system) {
        printf("beside, %s: skipped: malloc does not say what it holds\n", def->name);
        eh_close(&r);
        return;
    }
    eh_store_open(&s);
    ph_graph *g = graph_of(&s, PH_F16);
    CHECK(!pthread_create(&t.thread, NULL, touch_all, &t));
    if (compile(&r, g, &how) && eh_bind(&r, how.max, NULL)) {
        eh_fill(at(&r, "x"), ROWS * WIDE);
        for (int again = 0; again < 20 || (atomic_load(&t.n_rounds) < 3 && again < 100000); again++)
            for (int i = 1; i <= ROWS; i++) eh_go(&r, rows_of(i));
        CHECK(!def->need(r.program, &how.max, &need, &scratch, NULL));
        CHECK_SAY(need.engine < 16 << 20, "%zu bytes", need.engine);
    }
    atomic_store(&t.must_end, 1);
    pthread_join(t.thread, NULL);
    eh_close(&r);
    ph_graph_close(g);
    eh_store_close(&s);
}

/* Several sessions of a process, each in a thread: what one's run holds is as large as alone. */
typedef struct session {
    const ph_engine_def *def;
    ph_graph            *g;
    pthread_t            thread;
    size_t               least, most; /* of what runs of all rows held beyond what stands */
} session;

static void open_and_need(session *s) {
    eh_run     r;
    ph_need    need = {0};
    size_t     scratch;
    ph_compile how = {.max = rows_of(ROWS)};
    if (!open_guest("sessions", &r, s->def, 1)) return;
    if (compile(&r, s->g, &how) && eh_bind(&r, how.max, NULL)) {
        eh_fill(at(&r, "x"), ROWS * WIDE);
        eh_go(&r, how.max);
        CHECK(!s->def->need(r.program, &how.max, &need, &scratch, NULL) && !need.is_estimate);
        size_t run = need.engine - need.standing;
        if (run < s->least) s->least = run;
        if (run > s->most) s->most = run;
    }
    eh_close(&r);
}

static void *open_often(void *arg) {
    for (int i = 0; i < 40; i++) open_and_need(arg);
    return NULL;
}

void test_ort_sessions(void) {
    enum { N = 3 };
    session  alone = {.def = &ph_engine_ort, .least = SIZE_MAX}, one[N];
    eh_store s;
    eh_store_open(&s);
    alone.g = graph_of(&s, PH_F32);
    open_and_need(&alone);
    if (alone.least < SIZE_MAX) { /* it is here */
        for (int i = 0; i < N; i++) {
            one[i] = (session){.def = alone.def, .g = alone.g, .least = SIZE_MAX};
            CHECK(!pthread_create(&one[i].thread, NULL, open_often, &one[i]));
        }
        for (int i = 0; i < N; i++) {
            pthread_join(one[i].thread, NULL);
            CHECK_SAY(one[i].least == alone.least && one[i].most == alone.most,
                      "session %d: %zu to %zu, alone %zu", i, one[i].least, one[i].most, alone.most);
        }
    }
    ph_graph_close(alone.g);
    eh_store_close(&s);
}

/* One thread runs and notes figures, another asks what is needed. */
static void *ask_needs(void *arg) {
    ph_guest *p = arg;
    ph_need   need;
    size_t    scratch;
    for (int i = 0; i < 2000; i++) {
        CHECK(!ph_guest_need(&p->base, &p->base.max, &need, &scratch, NULL));
        CHECK(need.standing <= need.engine && need.standing % 3 == 0 && need.standing <= 3 * 2000);
    }
    return NULL;
}

void test_guest_neighbours(void) {
    ph_engine  e = {.def = &ph_engine_ort};
    ph_guest   p = {.fixed = 0};
    ph_graph  *g = short_graph();
    ph_compile how = {.max = rows_of(ROWS)};
    pthread_t  thread;
    CHECK(!ph_guest_begin(&p, &e, g, &how, NULL));
    CHECK(ph_guest_times_seen(&p, &how.max) == 0);
    CHECK(!pthread_create(&thread, NULL, ask_needs, &p));
    for (int i = 0; i < 2000; i++) {
        ph_syms syms = rows_of(i % ROWS + 1);
        ph_guest_saw(&p, &syms, 100, 3);
    }
    pthread_join(thread, NULL);
    ph_need need;
    size_t  scratch;
    CHECK(!ph_guest_need(&p.base, &how.max, &need, &scratch, NULL) && need.standing == 6000 &&
          !need.is_estimate);
    CHECK_SAY(ph_guest_times_seen(&p, &how.max) == 1, "%zu: but the newest shapes are forgotten",
              ph_guest_times_seen(&p, &how.max));
    ph_guest_end(&p);
    ph_graph_close(g);
}

/* ---- taps, stopping ---- */

typedef struct watched {
    float at[ROWS * WIDE];
    int   n, order;
} watched;

static int n_watched;

static void watch(void *arg, int value, const float *data, const ph_shape *shape, const ph_syms *syms) {
    watched *w = arg;
    int64_t  n;
    (void)value;
    CHECK(!ph_shape_count(shape, syms, &n, NULL) && n <= ROWS * WIDE);
    w->n = (int)n;
    w->order = n_watched++;
    memcpy(w->at, data, (size_t)n * sizeof *data);
}

/* x w^T + b of one row, and what Gelu makes of it. */
static float product(const ph_graph *g, const float *x, int out) {
    const float *w = (const float *)g->value[ph_graph_find(g, "w")].storage.plane[PH_PLANE_DATA].bytes;
    const float *b = (const float *)g->value[ph_graph_find(g, "b")].storage.plane[PH_PLANE_DATA].bytes;
    double       sum = (double)b[out];
    for (int i = 0; i < WIDE; i++) sum += (double)x[i] * (double)w[(size_t)out * WIDE + (size_t)i];
    return (float)sum;
}

/* Values inside are seen, in the order in which they are made, and each follows from the one before. */
static void taps(const ph_engine_def *def) {
    static const char *const name[3] = {"y", "product", "normed"};
    static watched           got[3];
    float                    want[ROWS * OUT];
    eh_run                   r;
    eh_store                 s;
    ph_tap                   tap[3];
    ph_compile               how = {.max = rows_of(ROWS), .tap = tap, .n_taps = 3};
    ph_err                   err = {0};
    if (!open_guest("taps", &r, def, 1)) return;
    n_watched = 0;
    eh_store_open(&s);
    ph_graph *g = graph_of(&s, PH_F32);
    for (int i = 0; i < 3; i++) tap[i] = (ph_tap){ph_graph_find(g, name[i]), watch, &got[i]};
    if (compile(&r, g, &how) && eh_bind(&r, how.max, NULL)) {
        eh_fill(at(&r, "x"), ROWS * WIDE);
        eh_go(&r, how.max);
        for (int i = 0; i < 3; i++) CHECK(got[i].n == ROWS * (i == 2 ? WIDE : OUT) && got[i].order == 2 - i);
        for (int i = 0; i < ROWS * OUT; i++) want[i] = product(g, got[2].at + i / OUT * WIDE, i % OUT);
        eh_close_to(got[1].at, want, ROWS * OUT, 1e-5f, "product");
        for (int i = 0; i < ROWS * OUT; i++)
            want[i] = 0.5f * got[1].at[i] * (1 + erff(got[1].at[i] * 0.70710678f));
        eh_close_to(got[0].at, want, ROWS * OUT, 1e-5f, "y");
        eh_same(at(&r, "y"), got[0].at, ROWS * OUT, "y");
        CHECK(eh_guards_stand(&r));
    }
    if (r.program) def->close_program(r.program);
    r.program = NULL;
    tap[0].value = ph_graph_find(g, "x");
    CHECK(def->compile(r.engine, g, &how, &r.program, &err) == PH_EUSAGE && !r.program);
    eh_close(&r);
    ph_graph_close(g);
    eh_store_close(&s);
}

/* A flag ends a run, which then begins anew; a deadline that has passed does not. */
static void cancel(const ph_engine_def *def) {
    eh_run       r;
    eh_store     s;
    atomic_int   flag = 1;
    ph_until     until = {.cancel = &flag}, late = {.deadline_ns = 1};
    ph_run_state state = PH_RUN_DONE;
    ph_compile   how = {.max = rows_of(ROWS)};
    if (!open_guest("cancel", &r, def, 1)) return;
    eh_store_open(&s);
    ph_graph *g = graph_of(&s, PH_F32);
    if (compile(&r, g, &how) && eh_bind(&r, how.max, NULL)) {
        CHECK(!def->run(r.program, &how.max, &until, &state, NULL) && state == PH_RUN_AGAIN);
        def->reset(r.program);
        flag = 0;
        CHECK(!def->run(r.program, &how.max, &until, &state, NULL) && state == PH_RUN_DONE);
        CHECK(!def->run(r.program, &how.max, &late, &state, NULL) && state == PH_RUN_DONE);
    }
    eh_close(&r);
    ph_graph_close(g);
    eh_store_close(&s);
}

/* ---- on each of them ---- */

#define ON_BOTH(name)                                                                                        \
    void test_ort_##name(void) {                                                                             \
        name(&ph_engine_ort);                                                                                \
    }                                                                                                        \
    void test_openvino_##name(void) {                                                                        \
        name(&ph_engine_openvino);                                                                           \
    }
ON_BOTH(row)
ON_BOTH(state)
ON_BOTH(weights)
ON_BOTH(always_lent)
ON_BOTH(need)
ON_BOTH(beside)
ON_BOTH(taps)
ON_BOTH(cancel)

/* ---- what only OpenVINO does ---- */

static size_t anonymous(void) {
    ph_mem m;
    CHECK(ph_mem_read(&m));
    return m.rss_anon;
}

/* Inputs are read where they lie: a run takes memory for the output alone, and that twice over two runs. */
void test_openvino_border(void) {
    enum { MANY = 16 << 10 }; /* rows of 1 KiB */
    eh_run     r;
    ph_compile how = {.max = rows_of(MANY)};
    size_t     bytes = (size_t)MANY * WIDE * sizeof(float), before, after;
    if (!open_guest("border", &r, &ph_engine_openvino, 2)) return;
    ph_graph *g = short_graph();
    if (compile(&r, g, &how) && eh_bind(&r, how.max, NULL)) {
        float *x = at(&r, "x");
        CHECK(r.bytes == bytes && !at(&r, "y")); /* no place in the plan's memory, and none before a run */
        for (size_t i = 0; i < bytes / sizeof *x; i++) x[i] = i % 2 ? 2.0F : -1.0F;
        eh_go(&r, rows_of(1)); /* its code and tables */
        for (int i = 1; i <= 2; i++) {
            before = anonymous();
            eh_go(&r, how.max);
            after = anonymous();
            CHECK_SAY(after < before + bytes + (bytes >> 2), "run %d: %zu bytes", i, after - before);
            CHECK(at(&r, "y")[0] == 0 && at(&r, "y")[bytes / sizeof *x - 1] == 2);
        }
        CHECK(eh_guards_stand(&r));
    }
    eh_close(&r);
    ph_graph_close(g);
}

/* Weights are copied while it opens: what stands in their place later is nothing to a run. */
void test_openvino_copies(void) {
    eh_run     r;
    eh_store   s;
    ph_compile how = {.max = rows_of(1)};
    float      before;
    if (!open_guest("copies", &r, &ph_engine_openvino, 1)) return;
    eh_store_open(&s);
    ph_graph       *g = graph_of(&s, PH_F32);
    const ph_plane *w = &g->value[ph_graph_find(g, "w")].storage.plane[PH_PLANE_DATA];
    float          *bytes;
    memcpy(&bytes, &w->bytes, sizeof bytes);
    if (compile(&r, g, &how) && eh_bind(&r, how.max, NULL) &&
        ph_openvino_copies_weights(((ph_openvino_engine *)r.engine)->openvino)) {
        eh_fill(at(&r, "x"), WIDE);
        eh_go(&r, how.max);
        before = at(&r, "y")[0];
        for (int i = 0; i < OUT * WIDE; i++) bytes[i] = -bytes[i];
        eh_go(&r, how.max);
        eh_same(at(&r, "y"), &before, 1, "y");
    }
    eh_close(&r);
    ph_graph_close(g);
    eh_store_close(&s);
}

/* Sizes that differ from picture to picture leave little behind. */
void test_openvino_sizes(void) {
    enum { MANY = 3000 };
    eh_run     r;
    eh_store   s;
    ph_compile how = {.max = rows_of(MANY)};
    size_t     first = 0;
    if (!open_guest("sizes", &r, &ph_engine_openvino, 1)) return;
    eh_store_open(&s);
    ph_graph *g = graph_of(&s, PH_F32);
    if (compile(&r, g, &how) && eh_bind(&r, how.max, NULL)) {
        eh_fill(at(&r, "x"), (size_t)MANY * WIDE);
        eh_go(&r, how.max);
        eh_go(&r, how.max);
        for (int i = 0; i < 300; i++) {
            eh_go(&r, rows_of(1 + (i * 997) % MANY));
            if (i == 149) first = anonymous();
        }
        size_t last = anonymous();
#if defined(__SANITIZE_ADDRESS__)
        (void)first, (void)last; /* it keeps what was freed */
#else
        CHECK_SAY(last < first + (2 << 20), "%zu bytes after 150 sizes, %zu after 300", first, last);
#endif
    }
    eh_close(&r);
    ph_graph_close(g);
    eh_store_close(&s);
}
