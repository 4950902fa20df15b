/* plugin_test.c - libraries with operators of the user's own: files that are refused, the example against the
 * operator of ours, what a run allocates and what it is called, and engines that do not have them. */
#include "base/cpu.h"
#include "base/file.h"
#include "engine/guest.h"
#include "engine/ort/ort_engine.h"
#include "engine/plugin.h"
#include "tests/unit/engine/engine_help.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct place {
    char folder[64], path[128];
} place;

static int open_place(place *p) {
    snprintf(p->folder, sizeof p->folder, "%s/pinhole_plugin_XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    CHECK(mkdtemp(p->folder) != NULL);
    return 1;
}

static void close_place(const place *p) {
    char command[200];
    snprintf(command, sizeof command, "rm -r '%s'", p->folder);
    CHECK(!system(command));
}

/* folder/name, from a source of ours with a plain compiler. */
static const char *build(place *p, const char *name, const char *source, int number) {
    char        command[600];
    const char *cc = getenv("CC");
    snprintf(p->path, sizeof p->path, "%s/%s", p->folder, name);
    snprintf(command, sizeof command, "%s -std=c11 -O1 -shared -fPIC -Iinclude -DCASE=%d -o '%s' %s",
             cc && *cc ? cc : "cc", number, p->path, source);
    CHECK_SAY(!system(command), "%s", command);
    return p->path;
}

static void put(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, n, f) == n);
    if (f) CHECK(!fclose(f));
}

static void refuse(const char *const *path, size_t n, ph_rc want, const char *word) {
    ph_plugins p;
    ph_err     err = {0};
    ph_rc      rc = ph_plugins_open(&p, path, n, &err);
    CHECK_SAY(rc == want && strstr(err.msg, word), "%s: %s; wanted %s, '%s'", ph_rc_name(rc), err.msg,
              ph_rc_name(want), word);
    CHECK(!p.ops && !p.n);
    ph_plugins_close(&p);
}

#define EXAMPLE "examples/plugin/adapter_dispatch.c"
#define HOSTILE "tests/plugin/hostile.c"

/* A library for another machine: the loader of the system may say that it is not there. */
static void refuse_machine(place *p) {
    static const struct {
        int         at;
        uint8_t     byte[2];
        const char *word;
    } other[] = {{18, {0xfc, 0x7f}, "is a library for machine 32764 of ELF (64 bits, little end first)"},
                 {4, {1, 1}, " (32 bits, little end first), and this program is for "},
                 {4, {2, 2}, " (64 bits, big end first), and this program is for "}};
    ph_file     whole;
    const char *at = p->path;
    char        word[120];
    build(p, "whole.so", EXAMPLE, 0);
    if (ph_file_open(&whole, p->path, NULL)) return;
    uint8_t *bytes = malloc(whole.n);
    snprintf(p->path, sizeof p->path, "%s/other.so", p->folder);
    for (size_t i = 0; bytes && i < sizeof other / sizeof *other; i++) {
        memcpy(bytes, whole.bytes, whole.n);
        memcpy(bytes + other[i].at, other[i].byte, 2);
        put(p->path, bytes, whole.n);
        refuse(&at, 1, PH_EMACHINE, other[i].word);
    }
    int is_arm = whole.bytes[18] == 183; /* EM_AARCH64; 62 is x86-64 */
    if (bytes && (is_arm || whole.bytes[18] == 62)) {
        memcpy(bytes, whole.bytes, whole.n);
        bytes[18] = is_arm ? 62 : 183;
        put(p->path, bytes, whole.n);
        snprintf(word, sizeof word,
                 "is a library for %s (64 bits, little end first), and this program is for %s",
                 is_arm ? "x86-64" : "AArch64", is_arm ? "AArch64" : "x86-64");
        refuse(&at, 1, PH_EMACHINE, word);
    }
    ph_file_close(&whole);
    free(bytes);
}

void test_plugin_refused(void) {
    place p;
    static const struct {
        ph_rc       rc;
        const char *word;
    } hostile[] = {{0, ""},
                   {PH_EFORMAT, "without the function pinhole_operators"},
                   {PH_EUNSUP, "has version 2 of the interface, this pinhole has 1"},
                   {PH_EFORMAT, "pinhole_operators gave no table"},
                   {PH_EFORMAT, "operator 0 has no name"}};
    if (!open_place(&p)) return;
    const char *at = p.path;
    refuse((const char *const[]){"no/such.so"}, 1, PH_EPATH, "plug-in no/such.so: there is no such file");
    refuse((const char *const[]){""}, 1, PH_EPATH, "path is empty");
    refuse((const char *const[]){p.folder}, 1, PH_EPATH, "it is no regular file");
    refuse((const char *const[]){"libm.so.6"}, 1, PH_EPATH,
           "there is no such file"); /* the loader would find it */
    snprintf(p.path, sizeof p.path, "%s/text.so", p.folder);
    put(p.path, "operators\n", 10);
    refuse(&at, 1, PH_EMACHINE, "cannot be loaded as a plug-in");
    put(p.path, "", 0);
    refuse(&at, 1, PH_EMACHINE, "cannot be loaded as a plug-in");
    for (int i = 1; i < (int)(sizeof hostile / sizeof *hostile); i++) {
        build(&p, "hostile.so", HOSTILE, i);
        refuse(&at, 1, hostile[i].rc, hostile[i].word);
        CHECK(!unlink(p.path));
    }
    ph_file whole;
    build(&p, "whole.so", EXAMPLE, 0);
    CHECK(!ph_file_open(&whole, p.path, NULL));
    snprintf(p.path, sizeof p.path, "%s/cut.so", p.folder);
    put(p.path, whole.bytes, whole.n / 4);
    ph_file_close(&whole);
    refuse(&at, 1, PH_EMACHINE, "was cut short");
    refuse_machine(&p);
    char one[160], two[160];
    snprintf(one, sizeof one, "%s", build(&p, "one.so", EXAMPLE, 0));
    snprintf(two, sizeof two, "%s", build(&p, "two.so", HOSTILE, 12));
    refuse((const char *const[]){one, two}, 2, PH_EMISMATCH,
           "com.acme::AdapterDispatch since version 1 is in plug-in");
    refuse((const char *const[]){one, one}, 2, PH_EMISMATCH, "one may have it");
    refuse(NULL, PH_PLUGINS_MAX + 1, PH_ELIMIT, "65 plug-ins; at most 64");
    close_place(&p);
}

/* ---- the example against ours ---- */

enum { WIDE = 40, RANK = 3, ROWS = 33, IMG = 32000 };

typedef struct pair {
    ph_plugins plugins;
    ph_graph  *user, *ours;
    float      a[WIDE * RANK], b[RANK * WIDE], a_turned[RANK * WIDE], b_turned[WIDE * RANK], x[ROWS * WIDE];
    int64_t    ids[ROWS];
} pair;

static int matrix(ph_graph *g, const char *name, int64_t rows, int64_t cols, const float *data) {
    size_t row = (size_t)cols * sizeof *data;
    return ph_graph_weight(g, name, ph_shape_of(2, ph_dim_of(rows), ph_dim_of(cols)),
                           ph_storage_of(PH_F32, data, (size_t)rows * row, row));
}

/* A Relu on both sides, so that the operator's input and output are buffers of the plan. */
static ph_graph *graph_of(pair *p, const ph_op *op) {
    static const double scale[] = {0.5};
    ph_graph           *g;
    ph_err              err = {0};
    ph_dim              n = ph_dim_sym(PH_SYM_N);
    CHECK(!ph_graph_open(&g, "vision", NULL));
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, n, ph_dim_of(WIDE)));
    int ids = ph_graph_input(g, "ids", PH_I64, ph_shape_of(1, n));
    int h = ph_graph_node(g, "Relu", PH_IN(x), PH_NO_ATTRS, "h"), y;
    if (op) {
        const int     in[] = {h, ids, matrix(g, "a", WIDE, RANK, p->a), matrix(g, "b", RANK, WIDE, p->b)};
        const ph_attr attr = PH_FLOAT("scale", scale[0]);
        y = ph_graph_node_of(g, op, 1, in, 4, &attr, 1, "adapted");
    } else {
        y = ph_graph_node(g, "AdapterDispatch",
                          PH_IN(h, h, ids, matrix(g, "a", RANK, WIDE, p->a_turned),
                                matrix(g, "b", WIDE, RANK, p->b_turned)),
                          PH_ATTRS(PH_FLOATS("scale", scale, 1)), "adapted");
    }
    ph_graph_output(g, ph_graph_node(g, "Relu", PH_IN(y), PH_NO_ATTRS, "clipped"), "y");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    return g;
}

static int open_pair(pair *p, place *at) {
    ph_err      err = {0};
    const char *path = build(at, "example.so", EXAMPLE, 0);
    eh_fill(p->a, WIDE * RANK), eh_fill(p->b, RANK * WIDE), eh_fill(p->x, ROWS * WIDE);
    for (int i = 0; i < WIDE; i++)
        for (int j = 0; j < RANK; j++) {
            p->a_turned[j * WIDE + i] = p->a[i * RANK + j];
            p->b_turned[i * RANK + j] = p->b[j * WIDE + i];
        }
    for (int i = 0; i < ROWS; i++) p->ids[i] = i % 3 ? i : IMG;
    ph_rc rc = ph_plugins_open(&p->plugins, &path, 1, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    if (rc) return 0;
    p->user = graph_of(p, ph_user_op_find(p->plugins.ops, "com.acme", "AdapterDispatch", 1, NULL));
    p->ours = graph_of(p, NULL);
    return 1;
}

static void close_pair(pair *p) {
    ph_graph_close(p->user);
    ph_graph_close(p->ours);
    ph_plugins_close(&p->plugins);
}

static void *at(const eh_run *r, const char *name) {
    return r->engine->def->buffer(r->program, ph_graph_find(r->program->graph, name));
}

/* One run of n rows; where the allocator can be held, it is. */
static void run_held(const pair *p, const ph_graph *g, int threads, unsigned features, int64_t n, float *y) {
    eh_run       r;
    ph_run_state state = PH_RUN_AGAIN;
    ph_err       err = {0};
    ph_rc        rc = PH_EBUG;
    ph_syms      most = eh_syms(0, 0, 0, 0, ROWS), syms = eh_syms(0, 0, 0, 0, n);
    if (eh_open(&r, g, threads, features, most, NULL, 0) && eh_bind(&r, most, NULL)) {
        memcpy(at(&r, "x"), p->x, (size_t)n * WIDE * sizeof *p->x);
        memcpy(at(&r, "ids"), p->ids, (size_t)n * sizeof *p->ids);
        if (ut_can_hold_malloc()) ut_hold_malloc(1);
        for (int i = 0; i < 3; i++) rc = r.engine->def->run(r.program, &syms, NULL, &state, &err);
        ut_hold_malloc(0);
        CHECK_SAY(!rc && state == PH_RUN_DONE, "%s", err.msg);
        memcpy(y, at(&r, "y"), (size_t)n * WIDE * sizeof *y);
        CHECK(eh_guards_stand(&r));
    }
    eh_close(&r);
}

void test_plugin_example(void) {
    static pair  p;
    static float got[ROWS * WIDE], want[ROWS * WIDE], raw[ROWS * WIDE];
    place        where;
    if (!open_place(&where) || !open_pair(&p, &where)) return;
    const unsigned isa[] = {0, ph_cpu_features()};
    int            changed = 0;
    for (int i = 0; i < 2; i++)
        for (int threads = 1; threads <= 4; threads *= 2)
            for (int64_t n = 0; n <= ROWS; n += n ? 16 : 1) {
                run_held(&p, p.ours, threads, isa[i], n, want);
                CHECK(!ph_trace_open(&eh_trace, 64, NULL));
                run_held(&p, p.user, threads, isa[i], n, got);
                CHECK(ph_trace_count(eh_trace, "com.acme::AdapterDispatch") == 3 &&
                      !ph_trace_count(eh_trace, "eval"));
                ph_trace_close(eh_trace);
                eh_trace = NULL;
                eh_close_to(got, want, (size_t)n * WIDE, 1e-6f, "y, the plug-in's against ours");
            }
    for (size_t i = 0; i < ROWS * WIDE; i++) raw[i] = p.x[i] > 0 ? p.x[i] : 0;
    for (size_t i = 0; i < ROWS;
         i++) { /* rows of another token pass as they are; those of the image's do not */
        int is_same = !memcmp(&got[i * WIDE], &raw[i * WIDE], WIDE * sizeof *raw);
        CHECK(is_same == (p.ids[i] != IMG));
        changed += !is_same;
    }
    CHECK(changed == 11);
    close_pair(&p);
    close_place(&where);
}

/* Engines of others do not have it, and say so. */
void test_plugin_guests(void) {
    static pair p;
    place       where;
    ph_err      err = {0};
    if (!open_place(&where) || !open_pair(&p, &where)) return;
    ph_engine  e = {.def = &ph_engine_ort};
    ph_guest   guest = {.is_open = 0};
    ph_compile how = {.max = eh_syms(0, 0, 0, 0, ROWS)};
    for (size_t i = 0; i < p.user->n_nodes; i++) {
        CHECK(ph_engine_native.supports(p.user, (int)i));
        CHECK(ph_engine_ort.supports(p.user, (int)i) == !p.user->node[i].op->user);
        CHECK(ph_engine_openvino.supports(p.user, (int)i) == !p.user->node[i].op->user);
    }
    CHECK(ph_guest_begin(&guest, &e, p.user, &how, &err) == PH_EUNSUP &&
          strstr(
              err.msg,
              "node 'adapted' is com.acme::AdapterDispatch of plug-in acme, which engine ort does not have"));
    ph_guest_end(&guest);
    guest = (ph_guest){.is_open = 0};
    CHECK_SAY(!ph_guest_begin(&guest, &e, p.ours, &how, &err), "%s", err.msg);
    ph_guest_end(&guest);
    close_pair(&p);
    close_place(&where);
}

static ph_rc dear(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how, double *out,
                  ph_err *err) {
    int64_t ids, rows; /* ids [N], y [N, WIDE] */
    (void)how;
    PH_TRY(ph_dim_eval(g->value[n->in[1]].shape.dim[0], syms, &ids, err));
    PH_TRY(ph_dim_eval(g->value[n->out[0]].shape.dim[0], syms, &rows, err));
    *out = 1e9 * (double)ids * (double)rows;
    return PH_OK;
}

/* What it says that it costs is in the estimate. */
void test_plugin_cost(void) {
    static pair    p;
    place          where;
    const int64_t  n = 10;
    const ph_syms  syms = eh_syms(0, 0, 0, 0, n);
    const ph_meets all = {0};
    if (!open_place(&where) || !open_pair(&p, &where)) return;
    ph_node *node = &p.user->node[1];
    double   macs = 0, want = 2.0 * n * WIDE * RANK;
    CHECK(!node->op->macs(p.user, node, &syms, &all, &macs, NULL));
    CHECK_SAY(macs > want - 1 && macs < want + 1, "%g, wanted %g", macs, want);
    ph_op op = *node->op;
    node->op = &op;
    op.macs = NULL;
    double without = ph_engine_estimate_us(p.user, &syms, 1);
    op.macs = dear;
    double more = (ph_engine_estimate_us(p.user, &syms, 1) - without) / (1e9 * n * n / 10000);
    CHECK_SAY(more > 0.999 && more < 1.001, "%g of what was said", more);
    close_pair(&p);
    close_place(&where);
}

/* ---- threads ---- */

static atomic_int      inside, most_inside;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of this file's operators */

static int infer_same(const pinhole_op_node *n, const pinhole_op_value *in, int n_in, pinhole_op_value *out,
                      int n_out) {
    (void)n, (void)n_in, (void)n_out;
    out[0] = in[0];
    return 0;
}

static int eval_alone(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                      int n_out, void *scratch, size_t bytes) {
    int now = atomic_fetch_add(&inside, 1) + 1, most = atomic_load(&most_inside);
    (void)n, (void)n_in, (void)n_out, (void)scratch, (void)bytes;
    while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now)) {}
    usleep(200);
    memcpy(out[0].data, in[0].data, (size_t)in[0].dim[0] * sizeof(float));
    atomic_fetch_sub(&inside, 1);
    return 0;
}

static void *many_runs(void *graph) {
    ph_graph  *g = graph;
    float      x[4] = {1, 2, 3, 4};
    ph_feed    feed = {"x", {.data = x, .dtype = PH_F32, .rank = 1, .dim = {4}}};
    ph_syms    syms = {{0}};
    ph_kernels k;
    ph_kernels_init(&k, 0);
    for (int i = 0; i < 20; i++) {
        ph_arena arena;
        ph_array y;
        CHECK(!ph_arena_open_growing(&arena, 4096, NULL));
        CHECK(!ph_graph_eval(g, &syms, &feed, 1, "y", &y, &k, &arena, NULL) && ((float *)y.data)[3] == 4);
        ph_arena_close(&arena);
    }
    return NULL;
}

/* The most that were in it at the same time. */
static int crowd(uint32_t flags) {
    const pinhole_op       op = {.domain = "com.test",
                                 .name = "Alone",
                                 .since = 1,
                                 .flags = flags,
                                 .in_min = 1,
                                 .in_max = 1,
                                 .out_min = 1,
                                 .out_max = 1,
                                 .infer = infer_same,
                                 .eval = eval_alone};
    const pinhole_op_table t = {PINHOLE_OP_ABI, sizeof op, sizeof t, "test", "1", &op, 1};
    ph_user_ops           *u = NULL;
    ph_graph              *g = NULL;
    ph_err                 err = {0};
    pthread_t              thread[4];
    CHECK(!ph_user_ops_open(&u, NULL) && !ph_user_ops_add(u, &t, "test.so", &lock, &err) &&
          !ph_graph_open(&g, "g", NULL));
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(1, ph_dim_of(4)));
    ph_graph_output(
        g, ph_graph_node_of(g, ph_user_op_find(u, "com.test", "Alone", 1, NULL), 1, &x, 1, NULL, 0, "y"),
        "y");
    CHECK(!ph_graph_finish(g, NULL));
    atomic_store(&most_inside, 0);
    for (int i = 0; i < 4; i++) CHECK(!pthread_create(&thread[i], NULL, many_runs, g));
    for (int i = 0; i < 4; i++) CHECK(!pthread_join(thread[i], NULL));
    ph_graph_close(g);
    ph_user_ops_close(u);
    return atomic_load(&most_inside);
}

void test_plugin_threads(void) {
    CHECK(crowd(0) == 1);
    CHECK(crowd(PINHOLE_OP_THREADS) > 1);
}

/* One file, opened by several: its calls still come one at a time, and it stays while one has it. */
enum { OPENERS = 4 };

typedef struct opener {
    const char *path;
    float       most;
} opener;

static void *open_and_run(void *arg) {
    opener    *o = arg;
    ph_plugins p;
    ph_graph  *g = NULL;
    ph_err     err = {0};
    ph_kernels k;
    ph_syms    syms = {{0}};
    float      data[4] = {0};
    ph_feed    feed = {"x", {.data = data, .dtype = PH_F32, .rank = 1, .dim = {4}}};
    ph_rc      rc = ph_plugins_open(&p, &o->path, 1, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    if (rc) return NULL;
    ph_kernels_init(&k, 0);
    CHECK(!ph_graph_open(&g, "g", NULL));
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(1, ph_dim_of(4)));
    ph_graph_output(g,
                    ph_graph_node_of(g, ph_user_op_find(p.ops, "com.acme", "AdapterDispatch", 1, NULL), 1, &x,
                                     1, NULL, 0, "y"),
                    "y");
    CHECK(!ph_graph_finish(g, NULL));
    for (int i = 0; i < 40; i++) {
        ph_arena arena;
        ph_array y;
        CHECK(!ph_arena_open_growing(&arena, 4096, NULL));
        CHECK(!ph_graph_eval(g, &syms, &feed, 1, "y", &y, &k, &arena, NULL));
        o->most = ((float *)y.data)[3];
        ph_arena_close(&arena);
    }
    ph_graph_close(g);
    ph_plugins_close(&p);
    return NULL;
}

void test_plugin_twice(void) {
    place      where;
    pthread_t  thread[OPENERS];
    opener     one[OPENERS];
    ph_plugins held;
    if (!open_place(&where)) return;
    const char *path = build(&where, "crowd.so", HOSTILE, 14);
    CHECK(!ph_plugins_open(&held, &path, 1, NULL));
    for (int i = 0; i < OPENERS; i++) {
        one[i] = (opener){.path = path};
        CHECK(!pthread_create(&thread[i], NULL, open_and_run, &one[i]));
    }
    for (int i = 0; i < OPENERS; i++) CHECK(!pthread_join(thread[i], NULL));
    for (int i = 0; i < OPENERS; i++) CHECK_SAY((int)one[i].most == 1, "%g in it", (double)one[i].most);
    ph_plugins_close(&held);
    open_and_run(&one[0]); /* loaded anew */
    CHECK((int)one[0].most == 1);
    close_place(&where);
}

/* ---- memory ---- */

enum { ROW_SCRATCH = 100000, HALVES = 40000 };

static size_t scratch_of_rows(const pinhole_op_node *n, const pinhole_array *in, int n_in,
                              const pinhole_array *out, int n_out) {
    int64_t turned = 0, rows = in[0].dim[0];
    (void)n_in, (void)out, (void)n_out;
    CHECK(!in[0].data || rows <= ROWS); /* planned without data */
    n->api->attr_int(n, "turned", &turned);
    return (size_t)(turned ? ROWS - rows : rows) * ROW_SCRATCH;
}

/* y = x + the sum of w, through all of the scratch. */
static int eval_memory(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                       int n_out, void *scratch, size_t bytes) {
    float sum = 0;
    (void)n, (void)n_in, (void)n_out;
    for (int64_t i = 0; i < in[1].dim[0]; i++) sum += ((const float *)in[1].data)[i];
    if (bytes) memset(scratch, 0x3c, bytes);
    for (int64_t i = 0; i < in[0].dim[0]; i++)
        ((float *)out[0].data)[i] = ((const float *)in[0].data)[i] + sum;
    return 0;
}

static const pinhole_op memory_op = {.domain = "com.test",
                                     .name = "Memory",
                                     .since = 1,
                                     .in_min = 2,
                                     .in_max = 2,
                                     .out_min = 1,
                                     .out_max = 1,
                                     .infer = infer_same,
                                     .eval = eval_memory,
                                     .scratch = scratch_of_rows};

static ph_graph *memory_graph(const ph_op *op, const uint16_t *w, int turned) {
    ph_graph     *g;
    const ph_attr attr = PH_INT("turned", 1);
    CHECK(!ph_graph_open(&g, "g", NULL));
    int in[2] = {ph_graph_input(g, "x", PH_F32, ph_shape_of(1, ph_dim_sym(PH_SYM_N)))};
    in[1] = ph_graph_weight(g, "w", ph_shape_of(1, ph_dim_of(HALVES)),
                            ph_storage_of(PH_F16, w, 2 * HALVES, 2 * HALVES));
    ph_graph_output(g, ph_graph_node_of(g, op, 1, in, 2, &attr, turned, "made"), "y");
    CHECK(!ph_graph_finish(g, NULL));
    return g;
}

static ph_rc run_rows(eh_run *r, int64_t n, float *y, ph_err *err) {
    ph_run_state state;
    ph_syms      syms = eh_syms(0, 0, 0, 0, n);
    float       *x = at(r, "x");
    for (int64_t i = 0; i < n; i++) x[i] = (float)i;
    ph_rc rc = r->engine->def->run(r->program, &syms, NULL, &state, err);
    if (!rc) memcpy(y, at(r, "y"), (size_t)n * sizeof *y);
    return rc;
}

/* Its scratch, and a weight that it is given as floats, are in the plan: nothing else is written, and what
 * would be more than was planned for is an error. */
void test_plugin_memory(void) {
    static uint16_t        w[HALVES];
    const pinhole_op_table t = {PINHOLE_OP_ABI, sizeof memory_op, sizeof t, "test", "1", &memory_op, 1};
    ph_user_ops           *u = NULL;
    ph_err                 err = {0};
    ph_syms                most = eh_syms(0, 0, 0, 0, ROWS);
    float                  y[ROWS];
    w[7] = 0x4000; /* 2 */
    CHECK(!ph_user_ops_open(&u, NULL) && !ph_user_ops_add(u, &t, "test.so", &lock, &err));
    for (int turned = 0; turned < 2; turned++) {
        eh_run    r;
        ph_graph *g = memory_graph(ph_user_op_find(u, "com.test", "Memory", 1, NULL), w, turned);
        if (eh_open(&r, g, 2, 0, most, NULL, 0) && eh_bind(&r, most, NULL)) {
            CHECK(turned || (r.bytes > ROWS * ROW_SCRATCH + HALVES * 4 && r.bytes < 2 * ROWS * ROW_SCRATCH));
            CHECK_SAY(!run_rows(&r, ROWS, y, &err) && y[ROWS - 1] == ROWS - 1 + 2, "%s", err.msg);
            ph_rc rc = run_rows(&r, 3, y, &err);
            CHECK_SAY(turned ? rc == PH_ELIMIT : !rc && y[1] == 3, "%s", err.msg);
            CHECK(!turned || strstr(err.msg, "asks for 3000000 bytes of scratch, more than was planned for"));
            CHECK(eh_guards_stand(&r));
        }
        eh_close(&r);
        ph_graph_close(g);
    }
    ph_user_ops_close(u);
}
