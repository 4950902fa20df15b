/* profile_kinds.c - where a stage's time goes, by the engine's steps or, where it runs a part as one step, by
 * its operators.
 *
 * Sessions and rounds of their own, since some engines take longer while they keep a record.  Times of steps
 * are taken from the session's trace behind each stage; an engine that keeps its own record gives it up once,
 * at the end, a part at a time.
 */
#include "measure/profile_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct kinds {
    ph_profiling *p;
    size_t        i; /* session */
    ph_session   *s;
    double        runs; /* of the stages' work that were recorded */
} kinds;

static const char *engine_of(const kinds *k) {
    return k->p->route.engine[k->p->engine[k->i]].name;
}

static ph_cost_kind *place(const kinds *k, ph_cost_stage stage, const char *kind) {
    ph_costs *c = &k->p->out->costs;
    for (size_t i = 0; i < c->n_kinds; i++)
        if (c->kind[i].stage == stage && !strcmp(c->kind[i].engine, engine_of(k)) &&
            !strcmp(c->kind[i].kind, kind))
            return &c->kind[i];
    if (c->n_kinds == PH_COST_KINDS_MAX) return NULL;
    ph_cost_kind *x = &c->kind[c->n_kinds++];
    *x = (ph_cost_kind){.stage = stage};
    snprintf(x->engine, sizeof x->engine, "%s", engine_of(k));
    snprintf(x->kind, sizeof x->kind, "%s", kind);
    return x;
}

/* What stands in the trace, divided: `share` of it is one question's.  A span that is the whole of a run says
 * nothing beside those within it. */
static void collect(const kinds *k, ph_cost_stage stage, double share) {
    const ph_trace *t = ph_session_trace(k->s);
    const char     *name, *engine = engine_of(k);
    size_t          own = strcspn(engine, ":"); /* spans know no device */
    if (!ph_profile_runs(k->p, stage, k->i)) return;
    for (size_t i = 0; (name = ph_trace_name(t, i)) != NULL; i++) {
        if (ph_bench_is_stage(name) || !ph_trace_count(t, name) ||
            (!strncmp(name, engine, own) && !name[own]))
            continue;
        int           is_prefixed = !strncmp(name, engine, own) && name[own] == '.';
        ph_cost_kind *x = place(k, stage, is_prefixed ? name + own + 1 : name);
        if (!x) return;
        x->us += (double)ph_trace_total_ns(t, name) / 1e3 * share;
        x->runs += (double)ph_trace_count(t, name) * share;
    }
}

/* One turn to its end, or to `last`: what each stage that runs a part leaves in the trace is its own. */
static ph_rc walk(const kinds *k, ph_turn *t, const ph_question *q, ph_stage last, ph_err *err) {
    static const struct {
        ph_stage      stage;
        ph_cost_stage cost;
    } kept[] = {{PH_STAGE_see, PH_COST_SEE},
                {PH_STAGE_bridge, PH_COST_BRIDGE},
                {PH_STAGE_prefill, PH_COST_PREFILL},
                {PH_STAGE_step, PH_COST_STEP}};
    ph_trace *trace = ph_session_trace(k->s);
    PH_TRY(ph_turn_begin(t, q, err));
    for (ph_stage now; (now = ph_turn_stage(t)) != last;) {
        ph_trace_reset(trace);
        PH_TRY(ph_turn_walk(&t, 1, err));
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (kept[i].stage == now)
                collect(k, kept[i].cost, 1 / k->runs / (now == PH_STAGE_step ? k->p->bench.answer : 1));
    }
    return PH_OK;
}

static ph_rc ask(const kinds *k, const ph_question *q, ph_stage last, ph_err *err) {
    ph_turn *t;
    PH_TRY(ph_turn_open(&t, k->s, err));
    ph_rc rc = walk(k, t, q, last, err);
    ph_turn_close(t);
    return rc;
}

static ph_rc one_round(const kinds *k, unsigned seed, ph_err *err) {
    const ph_bench   *b = &k->p->bench;
    const int32_t     id = 0;
    const ph_question look = {.ids = &id,
                              .n_ids = 1,
                              .pictures = &k->p->b.picture,
                              .n_pictures = 1,
                              .answer_max = 1,
                              .ignore_stop = 1};
    const ph_question say = {
        .ids = k->p->b.ids, .n_ids = (size_t)b->prompt, .answer_max = b->answer + 1, .ignore_stop = 1};
    if (k->p->b.model->vision) PH_TRY(ask(k, &look, PH_STAGE_splice, err));
    ph_bench_prompt(&k->p->b, b->prompt, seed);
    return ask(k, &say, PH_STAGE_done, err);
}

/* Records that an engine kept itself, of all rounds. */
static ph_rc flush(const kinds *k, ph_err *err) {
    ph_trace *trace = ph_session_trace(k->s);
    for (int stage = 0; stage <= PH_COST_PREFILL; stage++) { /* steps are in the same part as prefill */
        const char *part = ph_profile_part((ph_cost_stage)stage);
        if (!ph_session_engine(k->s, part)) continue;
        ph_trace_reset(trace);
        PH_TRY(ph_session_profile(k->s, part, err));
        collect(k, (ph_cost_stage)stage, 1 / k->runs);
    }
    return PH_OK;
}

static ph_rc of_session(ph_profiling *p, size_t i, ph_err *err) {
    ph_session_options o = ph_profile_session(p, i);
    kinds              k = {.p = p, .i = i, .runs = p->how->rounds};
    o.is_profiled = 1;
    PH_TRY(ph_session_open(&p->b.session[i], p->b.model, &o, err));
    k.s = p->b.session[i];
    for (int r = 0; r < p->how->rounds; r++) PH_TRY(one_round(&k, (unsigned)r + 1, err));
    return flush(&k, err);
}

/* By stage, by engine, the longest first. */
static int in_order(const void *a, const void *b) {
    const ph_cost_kind *x = a, *y = b;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    int by_name = strcmp(x->engine, y->engine);
    return by_name ? by_name : (x->us < y->us) - (x->us > y->us);
}

ph_rc ph_profile_kinds(ph_profiling *p, ph_err *err) {
    ph_bench_say(&p->b, "by kind of step");
    for (size_t i = 0; i < p->n; i++) {
        ph_rc rc = of_session(p, i, err);
        ph_profile_forget(p);
        PH_TRY(rc);
    }
    qsort(p->out->costs.kind, p->out->costs.n_kinds, sizeof *p->out->costs.kind, in_order);
    return PH_OK;
}
