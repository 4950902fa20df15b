/* bench_border.c - what copying at the border between two engines would cost.
 *
 *     shared    A makes y ─► B reads it there                 y [rows, wide] stands once
 *     copied    A makes y ─► memcpy ─► B reads its own        twice
 *
 * The synthetic border is wide beside the work on both sides, so that the copy is most of what there is: the
 * most that sharing can bring.  Of a model that sees, the border is its own: the bridge's visual tokens, made
 * where the language part reads them or copied there (ph_session_options.copies_features).  Both ways take
 * turns, each round from fresh memory; what is held is what became anonymous memory of the process on the
 * way.
 */
#include "measure/bench_impl.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/region.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 16384, WIDE = 2048, PART = WIDE / 4 };

/* Two graphs whose border is wide and whose work is light: y [rows, wide] repeats x [1, wide], z is a quarter
 * of y. */
typedef struct seam {
    ph_kernels  kernels;
    ph_threads *threads;
    ph_engine  *engine;
    ph_graph   *graph[2];
    ph_program *program[2]; /* the second's input is its own, or lent */
} seam;

static int vector(ph_graph *g, const char *name, const int64_t *x, int64_t n) {
    return ph_graph_constant(g, name, PH_I64, ph_shape_of(1, ph_dim_of(n)), x);
}

static ph_graph *finish(ph_graph *g, ph_err *err) {
    if (!ph_graph_finish(g, err)) return g;
    ph_graph_close(g);
    return NULL;
}

static ph_graph *repeat(ph_err *err) {
    static const int64_t shape[] = {ROWS, WIDE};
    ph_graph            *g;
    if (ph_graph_open(&g, "repeat", err)) return NULL;
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, ph_dim_of(1), ph_dim_of(WIDE)));
    ph_graph_output(g, ph_graph_node(g, "Expand", PH_IN(x, vector(g, "shape", shape, 2)), PH_NO_ATTRS, "all"),
                    "y");
    return finish(g, err);
}

static ph_graph *quarter(ph_err *err) {
    static const int64_t from = 0, to = PART, axis = 1;
    ph_graph            *g;
    if (ph_graph_open(&g, "quarter", err)) return NULL;
    int y = ph_graph_input(g, "y", PH_F32, ph_shape_of(2, ph_dim_of(ROWS), ph_dim_of(WIDE)));
    int b = vector(g, "from", &from, 1), e = vector(g, "to", &to, 1), a = vector(g, "axis", &axis, 1);
    ph_graph_output(g, ph_graph_node(g, "Slice", PH_IN(y, b, e, a), PH_NO_ATTRS, "part"), "z");
    return finish(g, err);
}

static void close_seam(seam *s) {
    for (int i = 0; i < 2; i++) {
        if (s->program[i]) ph_engine_native.close_program(s->program[i]);
        ph_graph_close(s->graph[i]);
    }
    if (s->engine) ph_engine_native.close(s->engine);
    ph_threads_close(s->threads);
}

static ph_rc open_seam(seam *s, int threads, unsigned features, int is_shared, ph_err *err) {
    *s = (seam){0};
    ph_kernels_init(&s->kernels, features);
    PH_TRY(ph_threads_open(&s->threads, threads, err));
    const ph_engine_env env = {.threads = s->threads, .kernels = &s->kernels, .is_deterministic = 1};
    PH_TRY(ph_engine_native.open(&s->engine, &env, err));
    s->graph[0] = repeat(err);
    s->graph[1] = s->graph[0] ? quarter(err) : NULL;
    if (!s->graph[1]) return PH_EBUG;
    for (int i = 0; i < 2; i++) {
        int        y = ph_graph_find(s->graph[i], "y");
        ph_compile how = {.lent = &y, .n_lent = (size_t)(i && is_shared)};
        PH_TRY(ph_engine_native.compile(s->engine, s->graph[i], &how, &s->program[i], err));
    }
    return PH_OK;
}

static ph_rc bind(const seam *s, int i, ph_region *memory, ph_err *err) {
    const ph_syms syms = {{0}};
    ph_need       need;
    size_t        bytes;
    PH_TRY(ph_engine_native.need(s->program[i], &syms, &need, &bytes, err));
    PH_TRY(ph_region_open(memory, bytes, err));
    const ph_bind b = {.memory = memory->at, .bytes = memory->bytes};
    return ph_engine_native.bind(s->program[i], &syms, &b, err);
}

static void *at(const seam *s, int i, const char *name) {
    return ph_engine_native.buffer(s->program[i], ph_graph_find(s->graph[i], name));
}

static ph_rc cross(const seam *s, int is_shared, ph_err *err) {
    const ph_syms syms = {{0}};
    ph_run_state  state;
    PH_TRY(ph_engine_native.run(s->program[0], &syms, NULL, &state, err));
    void *y = at(s, 0, "y");
    if (is_shared)
        PH_TRY(ph_engine_native.lend(s->program[1], ph_graph_find(s->graph[1], "y"), y, err));
    else
        memcpy(at(s, 1, "y"), y, sizeof(float) * ROWS * WIDE);
    return ph_engine_native.run(s->program[1], &syms, NULL, &state, err);
}

static size_t held(void) {
    ph_mem m = {0};
    ph_mem_read(&m);
    return m.rss_anon;
}

/* Once to touch the memory, which is what is held; then once timed. */
static ph_rc wide_once(int threads, unsigned features, int is_shared, double *ms, size_t *bytes,
                       ph_err *err) {
    seam      s;
    ph_region memory[2] = {{0}};
    ph_rc     rc = open_seam(&s, threads, features, is_shared, err);
    size_t    before = held();
    for (int i = 0; !rc && i < 2; i++) rc = bind(&s, i, &memory[i], err);
    if (!rc) memset(at(&s, 0, "x"), 0, sizeof(float) * WIDE);
    if (!rc) rc = cross(&s, is_shared, err);
    size_t after = held();
    *bytes = after > before ? after - before : 0;
    uint64_t begin = ph_clock_ns();
    if (!rc) rc = cross(&s, is_shared, err);
    *ms = (double)(ph_clock_ns() - begin) / 1e6;
    close_seam(&s);
    for (int i = 0; i < 2; i++) ph_region_close(&memory[i]);
    return rc;
}

/* ---- a model's own ---- */

static ph_rc ask(ph_session *s, const ph_picture *picture, ph_answer *a, ph_err *err) {
    ph_turn *t;
    PH_TRY(ph_turn_open(&t, s, err));
    const ph_chat_part    parts[] = {{0}, {.text = "What is it?", .n = 11}};
    const ph_chat_message message = {.role = "user", .parts = parts, .n_parts = 2};
    const ph_question     q = {.messages = &message,
                               .n_messages = 1,
                               .pictures = picture,
                               .n_pictures = 1,
                               .answer_max = 1,
                               .ignore_stop = 1};
    ph_rc                 rc = ph_ask(t, &q, a, err);
    ph_turn_close(t);
    return rc;
}

static ph_rc tower_once(ph_benching *b, int is_shared, double *ms, size_t *bytes, ph_border_row *row,
                        ph_err *err) {
    ph_session_options o = *b->how->session;
    ph_session        *s;
    ph_answer          a;
    size_t             before = held();
    o.threads = b->how->threads[0];
    o.copies_features = !is_shared;
    PH_TRY(ph_session_open(&s, b->model, &o, err));
    ph_rc  rc = ask(s, &b->picture, &a, err);
    size_t after = held();
    if (!rc) rc = ask(s, &b->picture, &a, err); /* another turn: it is seen anew */
    *bytes = after > before ? after - before : 0;
    *ms = 0;
    for (int i = PH_STAGE_see; !rc && i <= (int)PH_STAGE_prefill; i++) *ms += a.stage_ms[i];
    if (!rc && is_shared)
        row->copied_when_shared = ph_trace_counter(ph_session_trace(s), "border bytes copied");
    if (!rc) row->bytes = (size_t)a.image_tokens * (size_t)b->model->spec.text.d_model * sizeof(float);
    ph_session_close(s);
    return rc;
}

/* ---- rounds ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static ph_rc rounds(ph_benching *b, unsigned features, int is_wide, ph_border_row *row, ph_err *err) {
    double ms[2][PH_BENCH_ROUNDS_MAX];
    size_t bytes[2] = {0};
    for (int r = 0; r < b->how->rounds; r++)
        for (int k = 0; k < 2; k++) { /* who goes first takes turns, too */
            int    is_shared = (r + k) % 2;
            size_t now;
            PH_TRY(is_wide ? wide_once(b->how->threads[0], features, is_shared, &ms[is_shared][r], &now, err)
                           : tower_once(b, is_shared, &ms[is_shared][r], &now, row, err));
            if (now > bytes[is_shared]) bytes[is_shared] = now;
        }
    row->copied_ms = median(ms[0], b->how->rounds);
    row->shared_ms = median(ms[1], b->how->rounds);
    row->copied_held = bytes[0];
    row->shared_held = bytes[1];
    return PH_OK;
}

static ph_rc of_model(ph_benching *b, ph_bench_border *out, ph_err *err) {
    PH_TRY(ph_model_open(&b->model, b->how->model, &b->how->open, err));
    if (!b->model->vision || !b->model->recipe.kind || b->model->spec.embed.d) return PH_OK; /* no border */
    PH_TRY(ph_bench_picture(b, err));
    ph_border_row *row = &out->row[out->n++];
    *row = (ph_border_row){.what = "model"};
    return rounds(b, 0, 0, row, err);
}

ph_rc ph_bench_border_run(ph_bench_border *out, const ph_bench_options *how, ph_err *err) {
    ph_bench    *place = calloc(1, sizeof *place);
    ph_benching  b = {.out = place, .how = how};
    unsigned     features;
    const size_t crossing = sizeof(float) * ROWS * WIDE;
    *out = (ph_bench_border){.n = 1, .row = {{.what = "wide", .bytes = crossing}}};
    if (!place) return PH_FAIL(err, PH_ENOMEM, "a benchmark's tables");
    ph_rc rc = ph_kernels_features(how->session->isa, &features, err);
    if (!rc) rc = rounds(&b, features, 1, &out->row[0], err);
    if (!rc) rc = of_model(&b, out, err);
    ph_model_close(b.model);
    free(b.made);
    free(place);
    return rc;
}
