/* bench.c - rounds over thread counts, and rows from what they took.
 *
 *     limits ► loads ► sessions opened ► one round unseen ► rounds: see, prefill, step ► rows
 *
 * Prefill is the whole of a prompt of its own; step is so many tokens after a prompt of `depth`, greedily.
 * Shares:  step     bytes read a token / what memory gives in a token's time
 *          prefill, see, bridge     multiply-adds / what the arithmetic in use does in that time; where both
 *                   kinds are used, the times that each would take at its peak are added
 */
#include "measure/bench_impl.h"

#include <stdlib.h>
#include <string.h>

enum { PROMPT = 512, ANSWER = 64, TOKENS_MAX = 1 << 24 };

typedef struct kind {
    const char *stage, *unit;
} kind;
/* clang-format off */
static const kind kinds[PH_N_TIMED] = {
    [PH_TIMED_LOAD_COLD]  = {"load_cold", "ms"},
    [PH_TIMED_FIRST_COLD] = {"first_cold", "ms"},
    [PH_TIMED_LOAD]       = {"load", "ms"},
    [PH_TIMED_FIRST]      = {"first", "ms"},
    [PH_TIMED_DECODE]     = {"decode", "ms"},
    [PH_TIMED_PREPARE]    = {"prepare", "ms"},
    [PH_TIMED_SEE]        = {"see", "ms"},
    [PH_TIMED_BRIDGE]     = {"bridge", "ms"},
    [PH_TIMED_PREFILL]    = {"prefill", "tok/s"},
    [PH_TIMED_STEP]       = {"step", "tok/s"},
    [PH_TIMED_ANSWER]     = {"answer", "tok/s"},
};
/* clang-format on */

void ph_bench_say(const ph_benching *b, const char *what) {
    if (b->how->say) b->how->say(b->how->arg, what);
}

void ph_bench_keep(ph_benching *b, ph_timed what, size_t threads, double ms) {
    ph_samples *s = &b->sample[what][threads];
    if (s->n < PH_BENCH_ROUNDS_MAX) s->ms[s->n++] = ms;
}

ph_session_options ph_bench_session(const ph_benching *b, size_t i) {
    ph_session_options o = *b->how->session;
    o.threads = b->how->threads[i];
    o.context = b->context;
    o.sequences = 1;
    return o;
}

void ph_bench_prompt(const ph_benching *b, int n, unsigned seed) {
    const ph_spec *spec = &b->model->spec;
    uint32_t       x = seed * 2654435761U + 1, ids = (uint32_t)ph_decoder_ids(&spec->text);
    for (int i = 0; i < n; i++) {
        do {
            x = x * 1664525U + 1013904223U;
            b->ids[i] = (int32_t)((x >> 8) % ids);
        } while (ids > 2 && (b->ids[i] == spec->image_token || b->ids[i] == spec->video_token));
    }
}

/* ---- sizes ---- */

static ph_rc check(const ph_bench_options *how, ph_err *err) {
    if (!how->n_threads || how->n_threads > PH_BENCH_THREADS_MAX)
        return PH_FAIL(err, PH_EUSAGE, "%zu thread counts; 1 to %d can be compared", how->n_threads,
                       PH_BENCH_THREADS_MAX);
    for (size_t i = 0; i < how->n_threads; i++)
        if (how->threads[i] < 1 || how->threads[i] > 256)
            return PH_FAIL(err, PH_EUSAGE, "%d threads; 1 to 256 are possible", how->threads[i]);
    if (how->rounds < 1 || how->rounds > PH_BENCH_ROUNDS_MAX)
        return PH_FAIL(err, PH_EUSAGE, "%d rounds; 1 to %d are possible", how->rounds, PH_BENCH_ROUNDS_MAX);
    if (!how->prompt || !how->answer || how->prompt > TOKENS_MAX || how->answer > TOKENS_MAX ||
        how->depth < 0 || how->depth > TOKENS_MAX)
        return PH_FAIL(err, PH_EUSAGE, "a prompt of %d tokens, %d steps, %d tokens before them", how->prompt,
                       how->answer, how->depth);
    return PH_OK;
}

static int at_most(int a, int b) {
    return a < b ? a : b;
}

/* Given counts must fit into the model's own context; the defaults give way. */
static ph_rc sizes(ph_benching *b, ph_err *err) {
    ph_bench *out = b->out;
    int       own = b->model->spec.text.context;
    out->depth = b->how->depth > 0 ? b->how->depth : 1;
    out->prompt = b->how->prompt > 0 ? b->how->prompt : at_most(PROMPT, own > 1 ? own - 1 : 1);
    out->answer = b->how->answer > 0 ? b->how->answer : at_most(ANSWER, own - out->depth - 1);
    int stepping = out->depth + out->answer + 1, prefilling = out->prompt + 1;
    b->context = stepping > prefilling ? stepping : prefilling;
    if (out->answer < 1 || b->context > own)
        return PH_FAIL(
            err, PH_ECONTEXT,
            "a prompt of %d tokens, or %d steps after %d, take a context of %d; this model was made "
            "for %d: give a smaller -p, -n or --depth",
            out->prompt, out->answer, out->depth, b->context, own);
    /* A picture's tokens have to fit too, though they are not run; one that cannot is refused when seen. */
    if (b->model->vision && out->image_tokens >= b->context) b->context = at_most(out->image_tokens + 1, own);
    return PH_OK;
}

/* ---- one round ---- */

static ph_rc finish(ph_turn *t, const ph_question *q, ph_answer *a, int *steps, ph_err *err) {
    PH_TRY(ph_turn_begin(t, q, err));
    *steps = 0;
    while (ph_turn_stage(t) != PH_STAGE_done) {
        *steps += ph_turn_stage(t) == PH_STAGE_step;
        PH_TRY(ph_turn_walk(&t, 1, err));
    }
    ph_turn_answer(t, a);
    return PH_OK;
}

/* A prompt of n ids, answered with so many tokens, by a turn that knows nothing yet. */
static ph_rc ask(ph_benching *b, size_t i, int n, int answer, ph_answer *a, int *steps, ph_err *err) {
    const ph_question q = {.ids = b->ids, .n_ids = (size_t)n, .answer_max = answer, .ignore_stop = 1};
    ph_turn          *t;
    PH_TRY(ph_turn_open(&t, b->session[i], err));
    ph_rc rc = finish(t, &q, a, steps, err);
    ph_turn_close(t);
    return rc;
}

ph_rc ph_bench_ask(ph_benching *b, size_t threads, int n, int answer, unsigned seed, ph_err *err) {
    ph_answer a;
    int       steps;
    ph_bench_prompt(b, n, seed);
    return ask(b, threads, n, answer, &a, &steps, err);
}

ph_rc ph_bench_text(ph_benching *b, size_t i, unsigned seed, ph_err *err) {
    ph_answer a;
    int       steps;
    ph_bench_prompt(b, b->out->prompt, seed);
    PH_TRY(ask(b, i, b->out->prompt, 1, &a, &steps, err));
    ph_bench_keep(b, PH_TIMED_PREFILL, i, a.stage_ms[PH_STAGE_prefill]);
    ph_bench_prompt(b, b->out->depth, seed);
    PH_TRY(ask(b, i, b->out->depth, b->out->answer + 1, &a, &steps, err));
    if (steps != b->out->answer)
        return PH_FAIL(err, PH_EBUG, "%d steps were run where %d were wanted", steps, b->out->answer);
    const double *ms = a.stage_ms;
    ph_bench_keep(b, PH_TIMED_STEP, i, ms[PH_STAGE_step]);
    ph_bench_keep(b, PH_TIMED_ANSWER, i, ms[PH_STAGE_step] + ms[PH_STAGE_sample] + ms[PH_STAGE_speak]);
    return PH_OK;
}

static ph_rc one_round(ph_benching *b, unsigned seed, ph_err *err) {
    for (size_t i = 0; i < b->how->n_threads; i++) {
        if (b->model->vision) PH_TRY(ph_bench_see(b, i, err));
        PH_TRY(ph_bench_text(b, i, seed, err));
    }
    return PH_OK;
}

static void forget(ph_benching *b) {
    for (int k = PH_TIMED_DECODE; k < PH_N_TIMED; k++)
        for (size_t i = 0; i < b->how->n_threads; i++) b->sample[k][i].n = 0;
}

static ph_rc rounds(ph_benching *b, ph_err *err) {
    for (size_t i = 0; i < b->how->n_threads; i++) {
        ph_session_options o = ph_bench_session(b, i);
        PH_TRY(ph_session_open(&b->session[i], b->model, &o, err));
    }
    ph_bench_say(b, "one round unseen");
    PH_TRY(one_round(b, 0, err));
    forget(b);
    for (int r = 0; r < b->how->rounds; r++) {
        char line[64];
        snprintf(line, sizeof line, "round %d of %d", r + 1, b->how->rounds);
        ph_bench_say(b, line);
        PH_TRY(one_round(b, (unsigned)r + 1, err));
    }
    return PH_OK;
}

/* ---- rows ---- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

ph_summary ph_bench_sum(const double *x, int n) {
    double at[PH_BENCH_ROUNDS_MAX];
    memcpy(at, x, (size_t)n * sizeof *x);
    qsort(at, (size_t)n, sizeof *at, by_size);
    return (ph_summary){
        .median = n % 2 ? at[n / 2] : (at[n / 2 - 1] + at[n / 2]) / 2, .least = at[0], .most = at[n - 1]};
}

static void summarise(ph_bench_row *row, const ph_samples *s) {
    double at[PH_BENCH_ROUNDS_MAX];
    int    is_rate = strcmp(row->unit, "ms") != 0;
    for (int i = 0; i < s->n; i++) {
        double ms = s->ms[i] > 1e-6 ? s->ms[i] : 1e-6; /* the clock's own grain */
        at[i] = is_rate ? 1e3 * row->n / ms : ms;
    }
    ph_summary sum = ph_bench_sum(at, s->n);
    row->least = sum.least;
    row->most = sum.most;
    row->median = sum.median;
    row->spread = (row->most - row->least) / row->median;
}

/* Seconds that the work takes at the machine's limit. */
static double at_limit(const ph_bench_row *row, const ph_machine *m, int is_step) {
    if (is_step) return m->read_gbs > 0 ? row->bytes_per_token / (m->read_gbs * 1e9) : 0;
    double f32 = m->f32_gflops > 0 ? 2 * row->work.f32_macs / (m->f32_gflops * 1e9) : 0;
    double int8 = m->int8_gops > 0 ? 2 * row->work.int8_macs / (m->int8_gops * 1e9) : 0;
    return f32 + int8;
}

static void set_share(ph_bench_row *row, const ph_machine *m, int is_step) {
    double is = !strcmp(row->unit, "ms") ? row->median / 1e3 : (is_step ? 1 : row->n) / row->median;
    double least = at_limit(row, m, is_step);
    row->limit = is_step                                             ? "read"
                 : row->work.int8_macs > 0 && row->work.f32_macs > 0 ? "f32+int8"
                 : row->work.int8_macs > 0                           ? "int8"
                                                                     : "f32";
    if (least > 0) row->limit_share = least / is;
}

/* What the row's graph does; 0: it has none. */
static ph_rc work_of(const ph_benching *b, ph_timed what, const ph_kernels *k, ph_work *out, int *has,
                     ph_err *err) {
    const ph_session_options *s = b->how->session;
    const ph_bench           *o = b->out;
    ph_syms                   syms = {{0}};
    double          item = (double)ph_dtype_bytes(s->kv_dtype) / (double)ph_dtype_block(s->kv_dtype);
    ph_work_how     how = {.kernels = k, .is_exact = s->is_exact, .kv_item = item};
    const ph_graph *g = b->model->language;
    *has =
        what == PH_TIMED_SEE || what == PH_TIMED_BRIDGE || what == PH_TIMED_PREFILL || what == PH_TIMED_STEP;
    if (!*has) return PH_OK;
    if (what == PH_TIMED_PREFILL) syms.at[PH_SYM_R] = o->prompt;
    if (what == PH_TIMED_STEP) {
        syms.at[PH_SYM_R] = 1;
        how.meets.keys_before = o->depth + (o->answer - 1) / 2.0; /* of the step in the middle */
    }
    syms.at[PH_SYM_S] = 1;
    if (what == PH_TIMED_SEE || what == PH_TIMED_BRIDGE) {
        ph_tile_layout l;
        PH_TRY(ph_recipe_layout(&l, &b->model->recipe, o->image_width, o->image_height, err));
        ph_bench_segments(&b->model->spec, &l, &how.meets.segment_keys, &how.meets.window_keys);
        syms.at[PH_SYM_I] = o->n_tiles;
        syms.at[PH_SYM_N] = o->n_patches;
        g = what == PH_TIMED_SEE ? b->model->vision : b->model->bridge;
    }
    return ph_work_count(g, &syms, &how, out, err);
}

static int count_of(const ph_bench *o, ph_timed what) {
    if (what == PH_TIMED_PREFILL) return o->prompt;
    if (what == PH_TIMED_STEP || what == PH_TIMED_ANSWER) return o->answer;
    if (what == PH_TIMED_SEE || what == PH_TIMED_BRIDGE) return o->n_patches ? o->n_patches : o->n_tiles;
    return 1;
}

static ph_rc rows_of(ph_benching *b, ph_timed what, const ph_kernels *k, ph_err *err) {
    ph_bench *o = b->out;
    ph_work   work = {0};
    int       has_work, is_step = what == PH_TIMED_STEP;
    if (!b->sample[what][0].n) return PH_OK; /* not of this model */
    PH_TRY(work_of(b, what, k, &work, &has_work, err));
    for (size_t i = 0; i < b->how->n_threads; i++) {
        ph_bench_row *row = &o->row[o->n_rows++];
        *row = (ph_bench_row){.stage = kinds[what].stage,
                              .threads = b->how->threads[i],
                              .n = count_of(o, what),
                              .unit = kinds[what].unit,
                              .limit_share = -1,
                              .limit = "",
                              .work = work};
        if (is_step) row->bytes_per_token = work.weight_bytes + work.kv_bytes;
        summarise(row, &b->sample[what][i]);
        if (has_work && b->how->has_limits) set_share(row, &o->machine[i], is_step);
    }
    return PH_OK;
}

static ph_rc make_rows(ph_benching *b, ph_err *err) {
    ph_kernels k;
    unsigned   features;
    PH_TRY(ph_kernels_features(b->how->session->isa, &features, err));
    ph_kernels_init(&k, features);
    for (int what = 0; what < PH_N_TIMED; what++) PH_TRY(rows_of(b, (ph_timed)what, &k, err));
    return PH_OK;
}

/* ---- all of it ---- */

static ph_rc limits(ph_benching *b, ph_err *err) {
    b->out->n_threads = b->how->n_threads;
    if (!b->how->has_limits) return PH_OK;
    ph_bench_say(b, "this machine's limits");
    for (size_t i = 0; i < b->how->n_threads; i++) {
        const ph_machine_options o = {
            .threads = b->how->threads[i], .isa = b->how->session->isa, .read_bytes = b->how->read_bytes};
        PH_TRY(ph_machine_measure(&b->out->machine[i], &o, err));
    }
    return PH_OK;
}

static ph_rc prepare(ph_benching *b, ph_err *err) {
    PH_TRY(ph_model_open(&b->model, b->how->model, &b->how->open, err));
    if (ph_graph_find(b->model->language, "logits") < 0)
        return PH_FAIL(err, PH_EUNSUP, "%s gives no next token: bench measures models that answer",
                       b->how->model);
    if (b->model->vision) PH_TRY(ph_bench_picture(b, err));
    PH_TRY(sizes(b, err));
    b->ids = calloc((size_t)b->context + 1, sizeof *b->ids);
    return b->ids ? PH_OK : PH_FAIL(err, PH_ENOMEM, "a prompt of %d tokens", b->context);
}

static ph_rc run(ph_benching *b, ph_err *err) {
    PH_TRY(prepare(b, err)); /* first of all what may be refused */
    PH_TRY(limits(b, err));
    ph_model_close(b->model); /* a mapped file's pages cannot be dropped */
    b->model = NULL;
    PH_TRY(ph_bench_load(b, err));
    PH_TRY(ph_model_open(&b->model, b->how->model, &b->how->open, err));
    PH_TRY(rounds(b, err));
    snprintf(b->out->isa, sizeof b->out->isa, "%s", ph_session_isa(b->session[0]));
    PH_TRY(make_rows(b, err));
    return b->how->has_steps ? ph_bench_steps(b, err) : PH_OK;
}

ph_rc ph_bench_run(ph_bench *out, const ph_bench_options *how, ph_err *err) {
    ph_benching b = {.out = out, .how = how};
    *out = (ph_bench){.rounds = how->rounds, .cold_left = -1};
    PH_TRY(check(how, err));
    b.sample = calloc(PH_N_TIMED, sizeof *b.sample);
    if (!b.sample) return PH_FAIL(err, PH_ENOMEM, "the times of %d rounds", how->rounds);
    ph_rc rc = run(&b, err);
    for (size_t i = 0; i < how->n_threads; i++) ph_session_close(b.session[i]);
    ph_model_close(b.model);
    free(b.sample);
    free(b.ids);
    free(b.made);
    return rc;
}
