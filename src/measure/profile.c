/* profile.c - sessions of one engine each take turns; medians become costs, and the router is asked with
 * them.
 *
 * Engines take turns within a round, beginning with another one each time, so that a machine that slows down
 * slows all of them.  The question is the router's own (ph_session_cost_sizes): what is measured is what
 * parts are placed by.
 */
#include "measure/profile_impl.h"

#include <stdlib.h>
#include <string.h>

/* The parts that are placed, and what each one's work is called. */
static const struct {
    const char *part;
    ph_timed    timed;
} stages[PH_N_COST_STAGES] = {
    [PH_COST_SEE] = {"vision", PH_TIMED_SEE},
    [PH_COST_BRIDGE] = {"bridge", PH_TIMED_BRIDGE},
    [PH_COST_PREFILL] = {"language", PH_TIMED_PREFILL},
    [PH_COST_STEP] = {"language", PH_TIMED_STEP},
};

const char *ph_profile_part(ph_cost_stage stage) {
    return stages[stage].part;
}

/* ---- which engine runs what ---- */

static const ph_route_part *part_of(const ph_route *r, const char *name) {
    for (size_t i = 0; i < r->n_parts; i++)
        if (!strcmp(r->part[i].name, name)) return &r->part[i];
    return NULL;
}

static const char *engine_for(const ph_profiling *p, const char *part, size_t e) {
    const ph_route_part *x = part_of(&p->route, part);
    return x && !x->cell[e].fault[0] ? p->route.engine[e].name : "native";
}

int ph_profile_runs(const ph_profiling *p, ph_cost_stage stage, size_t i) {
    const ph_route_part *x = part_of(&p->route, stages[stage].part);
    return x && !x->cell[p->engine[i]].fault[0];
}

/* The engines that can take a part at least, as sessions. */
static void choose(ph_profiling *p) {
    for (size_t e = 0; e < p->route.n_engines; e++) {
        int can = 0;
        for (size_t i = 0; i < p->route.n_parts; i++) can |= !p->route.part[i].cell[e].fault[0];
        if (can && p->n < PH_BENCH_THREADS_MAX) p->engine[p->n++] = e;
    }
}

ph_session_options ph_profile_session(const ph_profiling *p, size_t i) {
    ph_session_options o = *p->how->session;
    o.sequences = 1;
    o.image_width = p->bench.image_width;
    o.image_height = p->bench.image_height;
    o.engine_vision = engine_for(p, "vision", p->engine[i]);
    o.engine_bridge = engine_for(p, "bridge", p->engine[i]);
    o.engine_language = engine_for(p, "language", p->engine[i]);
    o.costs = NULL;
    return o;
}

/* Every part left to the router, for a plan; measured NULL: which engines take what. */
static ph_rc ask_router(ph_profiling *p, const ph_costs *measured, ph_plan *plan, ph_route *route,
                        ph_err *err) {
    static const ph_costs none = {.n = 0};
    ph_session_options    o = *p->how->session;
    o.sequences = 1;
    o.image_width = p->bench.image_width;
    o.image_height = p->bench.image_height;
    o.engine_vision = o.engine_bridge = o.engine_language = PH_ENGINE_AUTO;
    o.costs = NULL;
    o.measured = measured ? measured : &none;
    o.has_all_devices = !measured;
    if (!measured) o.log = NULL; /* that no times are of this device is no news here */
    return ph_session_plan_route(p->b.model, &o, plan, route, err);
}

/* ---- sizes ---- */

static ph_rc sizes(ph_profiling *p, ph_err *err) {
    ph_syms size[PH_N_COST_STAGES];
    PH_TRY(ph_session_cost_sizes(p->b.session[0], size, err));
    int context = ph_session_plan_of(p->b.session[0])->load.context;
    int prompt = (int)size[PH_COST_PREFILL].at[PH_SYM_R], left = context - prompt - 1;
    if (left < 1)
        return PH_FAIL(err, PH_ECONTEXT,
                       "a context of %d tokens holds no prompt with an answer behind it: give a larger -c",
                       context);
    p->b.context = context;
    p->bench.prompt = p->bench.depth = prompt;
    p->bench.answer = left < PH_ROUTE_STEPS ? left : PH_ROUTE_STEPS;
    memcpy(p->size, size, sizeof size);
    p->b.ids = calloc((size_t)context + 1, sizeof *p->b.ids);
    return p->b.ids ? PH_OK : PH_FAIL(err, PH_ENOMEM, "a prompt of %d tokens", context);
}

/* ---- rounds ---- */

static ph_rc one_round(ph_profiling *p, unsigned seed, ph_err *err) {
    for (size_t k = 0; k < p->n; k++) {
        size_t i = (k + seed) % p->n;
        if (p->b.model->vision) PH_TRY(ph_bench_see(&p->b, i, err));
        PH_TRY(ph_bench_text(&p->b, i, seed, err));
    }
    return PH_OK;
}

static ph_rc rounds(ph_profiling *p, ph_err *err) {
    enum { UNSEEN = 2 };
    for (int r = 0; r < UNSEEN + p->how->rounds; r++) {
        char line[64];
        if (r < UNSEEN)
            snprintf(line, sizeof line, "round %d of %d unseen", r + 1, UNSEEN);
        else
            snprintf(line, sizeof line, "round %d of %d", r + 1 - UNSEEN, p->how->rounds);
        ph_bench_say(&p->b, line);
        PH_TRY(one_round(p, (unsigned)r, err));
        for (int what = 0; what < PH_N_TIMED && r < UNSEEN; what++)
            for (size_t i = 0; i < p->n; i++) p->b.sample[what][i].n = 0;
    }
    return PH_OK;
}

/* ---- costs ---- */

/* Of session i's own engine, wherever it runs something. */
static size_t holds_of(const ph_profiling *p, size_t i) {
    const char *name = p->route.engine[p->engine[i]].name;
    for (size_t k = 0; k < PH_N_COST_STAGES; k++) {
        const char *on = ph_session_engine(p->b.session[i], stages[k].part);
        if (on && !strcmp(on, name)) return ph_session_holds(p->b.session[i], stages[k].part);
    }
    return 0;
}

static void add_cost(ph_profiling *p, ph_cost_stage stage, size_t i) {
    const ph_samples    *s = &p->b.sample[stages[stage].timed][i];
    const char          *name = p->route.engine[p->engine[i]].name, *device;
    const ph_engine_def *def;
    ph_engine_class      cls;
    ph_costs            *c = &p->out->costs;
    double               us = stage == PH_COST_STEP ? 1e3 / p->bench.answer : 1e3, least = 1e-3;
    if (!s->n || !ph_profile_runs(p, stage, i) || c->n == PH_COSTS_MAX ||
        ph_engine_named(name, &def, &device, &cls, NULL))
        return;
    ph_summary sum = ph_bench_sum(s->ms, s->n);
    ph_cost   *x = &c->at[c->n++];
    *x = (ph_cost){.stage = stage, .sizes = p->size[stage], .holds = holds_of(p, i)};
    snprintf(x->engine, sizeof x->engine, "%s", name);
    if (def->version) def->version(x->release, sizeof x->release);
    x->least = sum.least * us > least ? sum.least * us : least; /* the clock's own grain */
    x->us = sum.median * us > x->least ? sum.median * us : x->least;
    x->most = sum.most * us > x->us ? sum.most * us : x->us;
}

static ph_rc keep_costs(ph_profiling *p, ph_err *err) {
    PH_TRY(ph_session_cost_key(p->b.session[0], &p->out->costs.key, err));
    p->out->costs.rounds = p->how->rounds;
    for (int stage = 0; stage < PH_N_COST_STAGES; stage++)
        for (size_t i = 0; i < p->n; i++) add_cost(p, (ph_cost_stage)stage, i);
    return PH_OK;
}

/* ---- all of it ---- */

static ph_rc prepare(ph_profiling *p, ph_err *err) {
    ph_plan plan;
    PH_TRY(ph_model_open(&p->b.model, p->how->model, &p->how->open, err));
    if (ph_graph_find(p->b.model->language, "logits") < 0)
        return PH_FAIL(err, PH_EUNSUP, "%s gives no next token: profile measures models that answer",
                       p->how->model);
    if (p->b.model->spec.n_mels)
        return PH_FAIL(err, PH_EUNSUP, "%s hears: profile shows pictures, and knows no sound", p->how->model);
    if (p->b.model->vision) PH_TRY(ph_bench_picture(&p->b, err));
    PH_TRY(ask_router(p, NULL, &plan, &p->route, err));
    choose(p);
    for (size_t i = 0; i < p->n; i++) {
        ph_session_options o = ph_profile_session(p, i);
        PH_TRY(ph_session_open(&p->b.session[i], p->b.model, &o, err));
    }
    return sizes(p, err);
}

void ph_profile_forget(ph_profiling *p) {
    for (size_t i = 0; i < PH_BENCH_THREADS_MAX; i++) {
        ph_session_close(p->b.session[i]);
        p->b.session[i] = NULL;
    }
}

static ph_rc run(ph_profiling *p, ph_err *err) {
    ph_profile *out = p->out;
    PH_TRY(prepare(p, err));
    PH_TRY(rounds(p, err));
    PH_TRY(keep_costs(p, err));
    ph_profile_forget(p);
    PH_TRY(ask_router(p, &out->costs, &out->plan, &out->route, err));
    out->image_width = p->bench.image_width;
    out->image_height = p->bench.image_height;
    out->prompt = p->bench.prompt;
    out->steps = p->bench.answer;
    if (p->how->has_kinds) PH_TRY(ph_profile_kinds(p, err));
    return p->how->has_spans ? ph_profile_spans(p, err) : PH_OK;
}

ph_rc ph_profile_run(ph_profile *out, const ph_profile_options *how, ph_err *err) {
    ph_profiling p = {.out = out, .how = how};
    *out = (ph_profile){0};
    if (how->rounds < 1 || how->rounds > PH_BENCH_ROUNDS_MAX)
        return PH_FAIL(err, PH_EUSAGE, "%d rounds; 1 to %d are possible", how->rounds, PH_BENCH_ROUNDS_MAX);
    p.options = (ph_bench_options){.session = how->session,
                                   .picture = how->picture,
                                   .image_width = how->image_width,
                                   .image_height = how->image_height,
                                   .rounds = how->rounds,
                                   .say = how->say,
                                   .arg = how->arg};
    p.b = (ph_benching){.out = &p.bench, .how = &p.options};
    p.b.sample = calloc(PH_N_TIMED, sizeof *p.b.sample);
    if (!p.b.sample) return PH_FAIL(err, PH_ENOMEM, "the times of %d rounds", how->rounds);
    ph_rc rc = run(&p, err);
    ph_profile_forget(&p);
    ph_model_close(p.b.model);
    free(p.b.sample);
    free(p.b.ids);
    free(p.b.made);
    if (rc) ph_profile_close(out);
    return rc;
}

void ph_profile_close(ph_profile *p) {
    free(p->span);
    p->span = NULL;
    p->n_spans = 0;
}
