/* bench_steps.c - where a stage's time goes: by kind of the engine's steps, from the session's trace.
 *
 * Rounds of their own, behind those whose times count: what is recorded is what every run records, but the
 * totals are taken back before each.
 */
#include "measure/bench_impl.h"

#include <stdlib.h>
#include <string.h>

/* Stages of the corridor are spans too, around those of the engine. */
int ph_bench_is_stage(const char *name) {
    for (int i = 0; i < PH_N_STAGES; i++)
        if (!strcmp(ph_stage_name[i], name)) return 1;
    return 0;
}

static ph_bench_row *row_for(ph_bench *o, const char *stage, int threads) {
    for (size_t i = 0; i < o->n_rows; i++)
        if (!strcmp(o->row[i].stage, stage) && o->row[i].threads == threads) return &o->row[i];
    return NULL;
}

static void add(ph_bench_row *row, const char *kind, double ms, double runs) {
    size_t i = 0;
    while (i < row->n_parts && strcmp(row->part[i].kind, kind)) i++;
    if (i == PH_BENCH_PARTS_MAX) return;
    if (i == row->n_parts) row->part[row->n_parts++] = (ph_bench_part){.kind = kind};
    row->part[i].ms += ms;
    row->part[i].runs += runs;
}

/* A round's share of the means. */
static void collect(ph_benching *b, size_t i, const char *stage) {
    const ph_trace *t = ph_session_trace(b->session[i]);
    ph_bench_row   *row = row_for(b->out, stage, b->how->threads[i]);
    const double    rounds = b->how->rounds;
    const char     *name;
    for (size_t k = 0; row && (name = ph_trace_name(t, k)) != NULL; k++)
        if (!ph_bench_is_stage(name) && ph_trace_count(t, name))
            add(row, name, (double)ph_trace_total_ns(t, name) / 1e6 / rounds,
                (double)ph_trace_count(t, name) / rounds);
}

static ph_rc one_round(ph_benching *b, size_t i, unsigned seed, ph_err *err) {
    ph_trace *t = ph_session_trace(b->session[i]);
    if (b->model->vision) {
        ph_trace_reset(t);
        PH_TRY(ph_bench_see(b, i, err)); /* with the bridge, whose steps are few */
        collect(b, i, "see");
    }
    ph_trace_reset(t);
    PH_TRY(ph_bench_ask(b, i, b->out->prompt, 1, seed, err));
    collect(b, i, "prefill");
    ph_trace_reset(t);
    PH_TRY(
        ph_bench_ask(b, i, b->out->depth, b->out->answer + 1, seed, err)); /* its prompt is one chunk more */
    collect(b, i, "step");
    return PH_OK;
}

static int longer(const void *a, const void *b) {
    double x = ((const ph_bench_part *)a)->ms, y = ((const ph_bench_part *)b)->ms;
    return (x < y) - (x > y);
}

ph_rc ph_bench_steps(ph_benching *b, ph_err *err) {
    ph_bench_say(b, "by kind of step");
    for (size_t i = 0; i < b->how->n_threads; i++)
        for (int r = 0; r < b->how->rounds; r++) PH_TRY(one_round(b, i, (unsigned)r + 1, err));
    for (size_t i = 0; i < b->out->n_rows; i++)
        qsort(b->out->row[i].part, b->out->row[i].n_parts, sizeof *b->out->row[i].part, longer);
    return PH_OK;
}
