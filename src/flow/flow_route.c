/* flow_route.c - parts that are left to the router ("auto"): what each engine says of each part, put to
 * route.h.
 *
 *     measured times ─► decide ─► engines that were chosen: here? parts compiled for a plan ─► whole plan
 *                         ▲                                     │
 *                         └── faults, estimates, releases ──────┘  until all that were chosen were tried
 *
 * An engine is opened only when it would get a part: what is not used is not loaded, and no memory goes to
 * what lost.  Under a limit of memory one is opened only if native, with that library loaded beside it, would
 * still fit: a library that turned out to be of no use does not go away.  For a plan alone all are tried, so
 * that it can say why each is not taken.
 *
 * The parts that are placed are vision, bridge and language; the cross graph goes with the language part,
 * whose cache it fills.  The question they are placed for is a picture of the load's size with some words;
 * its first token is wanted within latency_ms, of which each part has a share like its share of native's
 * estimates.
 */
#include "flow/session.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACED = 3 }; /* vision, bridge, language: in the order in which they run */
static const ph_part first_graph[PLACED] = {PH_PART_VISION, PH_PART_BRIDGE, PH_PART_LANGUAGE};

typedef struct placing {
    ph_session          *s;
    ph_part              graph[PLACED]; /* [route.n_parts] of each placed part, its first graph */
    const ph_engine_def *def[PH_ROUTE_ENGINES];
    ph_engine           *engine[PH_ROUTE_ENGINES]; /* owned until one is chosen; NULL: not here */
    ph_program          *program[PH_N_PARTS][PH_ROUTE_ENGINES]; /* owned; for plans only */
    ph_syms              size[PH_N_COST_STAGES];
    size_t               native;                 /* its place among the engines */
    size_t               native_bytes;           /* of the plan with it alone */
    size_t               grew[PH_ROUTE_ENGINES]; /* resident since it was opened */
    const ph_costs      *costs;                  /* NULL: none that hold here */
    ph_costs            *read;                   /* owned; of a file */
    int                  is_tried[PH_ROUTE_ENGINES];
    int                  is_stale[PH_ROUTE_ENGINES]; /* its times are of another release */
    int                  has_news;                   /* one was tried since the router was asked */
} placing;

/* ---- what an engine says of a part ---- */

static double estimate(const placing *p, size_t e, ph_part part, const ph_syms *syms) {
    const ph_graph *g = ph_part_graph(p->s->model, part);
    return g ? p->def[e]->estimate_us(p->engine[e], g, syms) : 0;
}

static double estimate_stage(const placing *p, size_t e, ph_cost_stage stage, const ph_syms *syms) {
    static const ph_part of[PH_N_COST_STAGES] = {PH_PART_VISION, PH_PART_BRIDGE, PH_PART_LANGUAGE,
                                                 PH_PART_LANGUAGE};
    double               us = estimate(p, e, of[stage], syms);
    if (stage != PH_COST_PREFILL || !p->s->model->cross) return us;
    ph_syms fill = {{0}}; /* the prompt waits for the pictures' keys too */
    size_t  tokens = 0;
    if (!ph_session_picture(p->s, &fill, &tokens, NULL)) {
        fill = (ph_syms){{0}};
        fill.at[PH_SYM_R] = (int64_t)tokens;
        us += estimate(p, e, PH_PART_CROSS, &fill);
    }
    return us;
}

static const ph_cost *cost_of(const placing *p, size_t e, ph_cost_stage stage) {
    const char *name = p->s->route.engine[e].name;
    for (size_t i = 0; p->costs && !p->is_stale[e] && i < p->costs->n; i++)
        if (p->costs->at[i].stage == stage && !strcmp(p->costs->at[i].engine, name)) return &p->costs->at[i];
    return NULL;
}

/* Measured at other sizes: in proportion to native's estimates.  Negative: not measured. */
static double measured(const placing *p, size_t e, ph_cost_stage stage) {
    const ph_cost *c = cost_of(p, e, stage);
    if (!c) return -1;
    if (!memcmp(&c->sizes, &p->size[stage], sizeof c->sizes)) return c->us;
    double then = estimate_stage(p, p->native, stage, &c->sizes),
           now = estimate_stage(p, p->native, stage, &p->size[stage]);
    return then > 0 ? c->us * now / then : c->us;
}

static ph_cost_stage first_stage(const placing *p, size_t i) {
    static const ph_cost_stage first[PH_N_PARTS] = {[PH_PART_VISION] = PH_COST_SEE,
                                                    [PH_PART_BRIDGE] = PH_COST_BRIDGE,
                                                    [PH_PART_LANGUAGE] = PH_COST_PREFILL};
    return first[p->graph[i]];
}

static double measured_part(const placing *p, size_t i, size_t e) {
    double us = measured(p, e, first_stage(p, i)), step;
    if (us < 0 || p->graph[i] != PH_PART_LANGUAGE) return us;
    step = measured(p, e, PH_COST_STEP);
    return step < 0 ? -1 : us + PH_ROUTE_STEPS * step;
}

static void set_fault(ph_route_cell *c, const char *fault) {
    snprintf(c->fault, sizeof c->fault, "%.*s", PH_ROUTE_TEXT - 1, *fault ? fault : "it gives no reason");
}

/* What shows before an engine is opened: one that would get nothing never is. */
static void look_at(placing *p, size_t i, size_t e) {
    ph_route_cell  *c = &p->s->route.part[i].cell[e];
    const ph_graph *cross =
        p->graph[i] == PH_PART_LANGUAGE ? ph_part_graph(p->s->model, PH_PART_CROSS) : NULL;
    ph_err why = {0};
    if (!p->def[e]->takes) return;
    ph_rc rc = p->def[e]->takes(ph_part_graph(p->s->model, p->graph[i]), &why);
    if (!rc && cross) rc = p->def[e]->takes(cross, &why);
    if (rc) set_fault(c, why.msg);
}

/* A program that is only asked what it needs; what compiling refuses, the engine cannot take. */
static void try_graph(placing *p, ph_part part, size_t e, ph_route_cell *c) {
    const ph_graph *g = ph_part_graph(p->s->model, part);
    int             lent[2];
    ph_compile      how = {.is_plan_only = 1, .lent = lent};
    ph_need         need;
    size_t          scratch;
    ph_err          why = {0};
    if (!g || c->fault[0]) return;
    ph_part_most(p->s, part, &how.max);
    how.n_lent = ph_part_lent(p->s, part, g, lent);
    ph_rc rc = p->def[e]->compile(p->engine[e], g, &how, &p->program[part][e], &why);
    if (!rc) rc = p->def[e]->need(p->program[part][e], &how.max, &need, &scratch, &why);
    if (rc) set_fault(c, why.msg);
}

/* Times of another release are not this one's. */
static void check_release(placing *p, size_t e) {
    char release[48] = "";
    if (p->def[e]->version) p->def[e]->version(release, sizeof release);
    for (int k = 0; k < PH_N_COST_STAGES; k++) {
        const ph_cost *c = cost_of(p, e, (ph_cost_stage)k);
        if (!c || !strcmp(c->release, release)) continue;
        ph_log_say(p->s->how.log, PH_LOG_WARN,
                   "measured times of engine %s are not used: they are of release %s, this is %s",
                   p->s->route.engine[e].name, c->release, release);
        p->is_stale[e] = 1;
    }
    for (size_t i = 0; p->is_stale[e] && i < p->s->route.n_parts; i++)
        p->s->route.part[i].cell[e].measured_us = -1;
}

static ph_rc open_engine(placing *p, size_t e, ph_err *err) {
    if (p->engine[e]) return PH_OK;
    size_t before = ph_mem_resident();
    PH_TRY(ph_part_engine(p->s, PH_PART_LANGUAGE, p->s->route.engine[e].name, &p->engine[e], err));
    size_t after = ph_mem_resident();
    p->grew[e] = after > before && p->def[e]->holds ? after - before : 0;
    return PH_OK;
}

/* What it holds itself, as it says or as it was when it was measured; 0: not known. */
static size_t holds(const placing *p, size_t e) {
    if (p->engine[e]) return p->def[e]->holds ? p->def[e]->holds(p->engine[e]) : 0;
    for (int k = 0; k < PH_N_COST_STAGES; k++) {
        const ph_cost *c = cost_of(p, e, (ph_cost_stage)k);
        if (c) return c->holds;
    }
    return 0;
}

/* Parts that were to run on an engine that is not here. */
static ph_rc stand_in(placing *p, size_t e, const ph_err *why, ph_err *err) {
    ph_route *r = &p->s->route;
    for (size_t i = 0; i < r->n_parts; i++) {
        if (r->part[i].asked != (int)e) continue;
        PH_TRY(ph_engine_absent(p->s, r->engine[e].name, why, err));
        snprintf(p->s->engine_absent[p->graph[i]], PH_ROUTE_NAME, "%s", r->engine[e].name);
        r->part[i].asked = (int)p->native;
    }
    return PH_OK;
}

/* Is it here, and what does it say of each part? */
static ph_rc try_engine(placing *p, size_t e, ph_err *err) {
    ph_err why = {0};
    ph_rc  rc = open_engine(p, e, &why);
    p->is_tried[e] = p->has_news = 1;
    if (rc && rc != PH_EMACHINE) {
        if (err) *err = why;
        return rc;
    }
    if (rc) PH_TRY(stand_in(p, e, &why, err));
    if (!rc) check_release(p, e);
    for (size_t i = 0; i < p->s->route.n_parts; i++) {
        ph_route_cell *c = &p->s->route.part[i].cell[e];
        if (rc && !c->fault[0]) set_fault(c, why.msg);
        try_graph(p, p->graph[i], e, c);
        if (p->graph[i] == PH_PART_LANGUAGE) try_graph(p, PH_PART_CROSS, e, c);
        if (c->fault[0]) continue;
        ph_cost_stage stage = first_stage(p, i);
        c->estimate_us = estimate_stage(p, e, stage, &p->size[stage]);
    }
    return PH_OK;
}

/* ---- the question to the router ---- */

/* A place among the engines for this name; what is none, or one too many, has none. */
static int place_of(placing *p, const char *name) {
    ph_route            *r = &p->s->route;
    const ph_engine_def *def;
    const char          *device;
    ph_engine_class      cls;
    for (size_t e = 0; e < r->n_engines; e++)
        if (!strcmp(r->engine[e].name, name)) return (int)e;
    if (r->n_engines == PH_ROUTE_ENGINES || strlen(name) >= PH_ROUTE_NAME ||
        ph_engine_named(name, &def, &device, &cls, NULL))
        return -1;
    size_t e = r->n_engines++;
    snprintf(r->engine[e].name, sizeof r->engine[e].name, "%s", name);
    r->engine[e].cls = cls;
    r->engine[e].border_bytes_a_us = def->border_bytes_a_us;
    p->def[e] = def;
    return (int)e;
}

/* Devices that are here, of the engines that are. */
static ph_rc list_devices(placing *p, ph_err *err) {
    size_t n = p->s->route.n_engines;
    for (size_t e = 0; e < n; e++) {
        char   device[64], name[PH_ROUTE_NAME];
        ph_err why = {0};
        if (!p->def[e]->device_at) continue;
        ph_rc rc = open_engine(p, e, &why);
        if (rc && rc != PH_EMACHINE) {
            if (err) *err = why;
            return rc;
        }
        for (size_t i = 0; !rc && p->def[e]->device_at(p->engine[e], i, device, sizeof device); i++)
            if ((size_t)snprintf(name, sizeof name, "%s:%s", p->def[e]->name, device) < sizeof name)
                place_of(p, name);
    }
    return PH_OK;
}

/* The table's, in its order; then devices that were named or measured, or all. */
static ph_rc list_engines(placing *p, ph_err *err) {
    for (size_t i = 0; i < ph_engine_count(); i++) place_of(p, ph_engine_at(i)->name);
    p->native = (size_t)place_of(p, "native");
    for (size_t i = 0; i < p->s->route.n_parts; i++)
        if (strcmp(p->s->engine_name[p->graph[i]], PH_ENGINE_AUTO)) {
            p->s->route.part[i].asked = place_of(p, p->s->engine_name[p->graph[i]]);
            if (p->s->route.part[i].asked < 0)
                return PH_FAIL(err, PH_ELIMIT, "more than %d engines to place parts on", PH_ROUTE_ENGINES);
        }
    for (size_t i = 0; p->costs && i < p->costs->n; i++) place_of(p, p->costs->at[i].engine);
    return p->s->how.has_all_devices ? list_devices(p, err) : PH_OK;
}

static double border_bytes(const placing *p, size_t i) {
    const ph_session *s = p->s;
    const ph_graph   *g = ph_part_graph(s->model, p->graph[i]);
    int               v = p->graph[i] == PH_PART_VISION ? s->features : s->visual_out;
    int64_t           n;
    if (p->graph[i] == PH_PART_LANGUAGE || v < 0) return 0;
    if (ph_shape_count(&g->value[v].shape, &p->size[PH_COST_SEE], &n, NULL)) return 0;
    return (double)n * (double)ph_dtype_bytes(g->value[v].dtype);
}

/* The sizes of one run, which the rule looks at. */
static ph_syms run_sizes(const placing *p, ph_part part) {
    ph_syms most, size = p->size[part == PH_PART_LANGUAGE ? PH_COST_PREFILL : PH_COST_SEE];
    ph_part_most(p->s, part, &most);
    for (int i = 0; i < PH_N_SYMS; i++)
        if (size.at[i] > most.at[i]) size.at[i] = most.at[i];
    return size;
}

static void describe(placing *p, size_t i) {
    ph_route_part *part = &p->s->route.part[i];
    const ph_part  graph = p->graph[i];
    const ph_syms  syms = run_sizes(p, graph);
    snprintf(part->name, sizeof part->name, "%s", ph_part_graph(p->s->model, graph)->name);
    ph_route_look(part, ph_part_graph(p->s->model, graph), &syms);
    if (graph == PH_PART_LANGUAGE && p->s->model->cross) {
        ph_route_part more;
        ph_route_look(&more, p->s->model->cross, &syms);
        part->nodes += more.nodes;
        if (more.largest > part->largest) part->largest = more.largest;
        part->has_products |= more.has_products;
        part->goes_by_data |= more.goes_by_data;
    }
    part->border_bytes = border_bytes(p, i);
}

/* Shares of the time until the first token, as native's estimates are to each other. */
static void set_budgets(const placing *p) {
    ph_route *r = &p->s->route;
    double    sum = 0;
    for (size_t i = 0; i < r->n_parts; i++) sum += r->part[i].cell[p->native].estimate_us;
    for (size_t i = 0; i < r->n_parts; i++)
        r->part[i].budget_us =
            sum > 0 ? 1e3 * p->s->how.latency_ms * r->part[i].cell[p->native].estimate_us / sum : 0;
}

/* Does whoever times the engine of this name get kinds of steps? */
static int has_kinds(placing *p, const char *engine) {
    int e = place_of(p, engine);
    return e < 0 || !p->def[e]->steps_hidden;
}

/* A file of times that lacks a part leaves all to the rule; one that names steps, but none of a stage, has a
 * time that nobody took with them. */
static void say_untimed(placing *p) {
    const ph_costs *c = p->costs;
    for (size_t i = 0; c && i < p->s->route.n_parts; i++) {
        const ph_route_part *part = &p->s->route.part[i];
        int                  is_timed = part->asked >= 0;
        for (size_t e = 0; e < p->s->route.n_engines; e++) is_timed |= part->cell[e].measured_us >= 0;
        if (!is_timed)
            ph_log_say(p->s->how.log, PH_LOG_WARN,
                       "the measured times have none of the part %s: parts go by rule; measure anew with "
                       "`pinhole profile --save-costs`",
                       part->name);
    }
    for (size_t i = 0; c && c->n_kinds && i < c->n; i++)
        if (has_kinds(p, c->at[i].engine) && !ph_costs_kinds_of(c, c->at[i].stage, c->at[i].engine))
            ph_log_say(p->s->how.log, PH_LOG_WARN,
                       "the measured times have %s on %s, but none of its kinds of steps: taken as it "
                       "stands; measure anew with `pinhole profile --save-costs`",
                       ph_cost_stage_name(c->at[i].stage), c->at[i].engine);
}

static ph_rc put(placing *p, ph_err *err) {
    ph_route *r = &p->s->route;
    r->memory_max = p->s->how.memory_max;
    PH_TRY(ph_session_cost_sizes(p->s, p->size, err));
    PH_TRY(ph_session_costs(p->s, &p->costs, &p->read, err));
    for (size_t k = 0; k < PLACED; k++)
        if (ph_part_graph(p->s->model, first_graph[k])) p->graph[r->n_parts++] = first_graph[k];
    for (size_t i = 0; i < r->n_parts; i++) r->part[i].asked = -1;
    PH_TRY(list_engines(p, err));
    for (size_t i = 0; i < r->n_parts; i++) {
        describe(p, i);
        for (size_t e = 0; e < r->n_engines; e++) {
            r->part[i].cell[e] = (ph_route_cell){.estimate_us = -1, .measured_us = -1};
            if (r->part[i].asked != (int)e) look_at(p, i, e); /* else compiling says it, where it is here */
        }
    }
    PH_TRY(
        try_engine(p, p->native, err)); /* which runs everything, and is the measure of budgets and sizes */
    set_budgets(p);
    for (size_t i = 0; i < r->n_parts; i++)
        for (size_t e = 0; e < r->n_engines; e++) r->part[i].cell[e].measured_us = measured_part(p, i, e);
    say_untimed(p);
    for (size_t e = 0; e < r->n_engines && p->s->is_plan_only; e++)
        if (!p->is_tried[e]) PH_TRY(try_engine(p, e, err));
    return PH_OK;
}

/* ---- the answer ---- */

static void set_part(placing *p, ph_part part, int e) {
    ph_ready *r = &p->s->part[part];
    if (!ph_part_graph(p->s->model, part)) return;
    *r = (ph_ready){
        .graph = ph_part_graph(p->s->model, part), .engine = p->engine[e], .program = p->program[part][e]};
    ph_part_most(p->s, part, &r->max);
}

/* Try those of a placement that were not. */
static ph_rc try_all(placing *p, const int *engine, ph_err *err) {
    for (size_t i = 0; i < p->s->route.n_parts; i++)
        if (!p->is_tried[engine[i]]) PH_TRY(try_engine(p, (size_t)engine[i], err));
    return PH_OK;
}

static ph_rc plan_of(placing *p, const int *engine, size_t *out, ph_err *err) {
    ph_plan plan;
    for (size_t i = 0; i < p->s->route.n_parts; i++) {
        set_part(p, p->graph[i], engine[i]);
        if (p->graph[i] == PH_PART_LANGUAGE) set_part(p, PH_PART_CROSS, engine[i]);
    }
    ph_rc rc = ph_session_predict(p->s, NULL, &plan, err);
    if (!rc) *out = plan.peak.total;
    memset(p->s->part, 0, sizeof p->s->part);
    return rc;
}

static int is_in(const placing *p, const int *engine, size_t e) {
    for (size_t i = 0; i < p->s->route.n_parts; i++)
        if (engine[i] == (int)e) return 1;
    return 0;
}

/* Native alone, and beside it what the engines of a placement hold: the least that trying them comes to. */
static ph_rc least_of(placing *p, const int *engine, size_t *out, ph_err *err) {
    int native[PH_ROUTE_PARTS];
    for (size_t i = 0; i < PH_ROUTE_PARTS; i++) native[i] = (int)p->native;
    if (!p->native_bytes) PH_TRY(plan_of(p, native, &p->native_bytes, err));
    *out = p->native_bytes;
    for (size_t e = 0; e < p->s->route.n_engines; e++)
        if (e != p->native && is_in(p, engine, e)) *out += holds(p, e);
    return PH_OK;
}

/* The session's plan as it would be with these.  Where one that is tried only now takes no part, the plan is
 * of no use, and the router is asked anew. */
static ph_rc plan_bytes(void *arg, const int *engine, size_t *out, ph_err *err) {
    placing *p = arg;
    PH_TRY(least_of(p, engine, out, err));
    if (*out > p->s->how.memory_max) return PH_OK;
    PH_TRY(try_all(p, engine, err));
    PH_TRY(plan_of(p, engine, out, err));
    for (size_t e = 0; e < p->s->route.n_engines && !p->s->is_plan_only; e++)
        if (!is_in(p, engine, e)) *out += p->grew[e];
    return PH_OK;
}

/* Ask the router until it knows of all that it chose. */
static ph_rc decide(placing *p, ph_err *err) {
    ph_route *r = &p->s->route;
    ph_err    why;
    ph_rc     rc;
    do {
        int engine[PH_ROUTE_PARTS];
        p->has_news = 0;
        why = (ph_err){0};
        rc = ph_route_decide(r, plan_bytes, p, &why);
        for (size_t i = 0; i < r->n_parts; i++) engine[i] = r->part[i].engine;
        if (!rc) rc = try_all(p, engine, &why);
    } while (p->has_news && (!rc || rc == PH_EBUDGET));
    if (rc && err) *err = why;
    return rc;
}

static void take(placing *p) {
    ph_session *s = p->s;
    for (size_t i = 0; i < s->route.n_parts; i++) {
        ph_route_part *part = &s->route.part[i];
        const char    *absent = s->engine_absent[p->graph[i]];
        ph_part        last = p->graph[i] == PH_PART_LANGUAGE ? PH_PART_CROSS : p->graph[i];
        for (int k = (int)p->graph[i]; k <= (int)last; k++) {
            snprintf(s->engine_name[k], PH_ROUTE_NAME, "%s", s->route.engine[part->engine].name);
            /* A side with a crew of its own opens its own: what was tried here is the other side's. */
            if (!s->see_threads || !ph_part_sees((ph_part)k)) s->engine[k] = p->engine[part->engine];
        }
        if (*absent) snprintf(part->why, sizeof part->why, PH_STANDS_IN, absent);
        ph_log_say(s->how.log, PH_LOG_INFO, "%s on %s: %s", part->name, s->route.engine[part->engine].name,
                   part->why);
    }
}

static void close_placing(placing *p) {
    for (size_t e = 0; e < PH_ROUTE_ENGINES; e++) {
        int is_taken = 0;
        for (int k = 0; k < PH_N_PARTS; k++) {
            if (p->program[k][e]) p->def[e]->close_program(p->program[k][e]);
            is_taken |= p->engine[e] && p->s->engine[k] == p->engine[e];
        }
        if (!p->engine[e] || is_taken) continue;
        p->def[e]->close(p->engine[e]);
        if (!p->s->is_plan_only) p->s->left_bytes += p->grew[e];
    }
    free(p->read);
}

ph_rc ph_session_place(ph_session *s, ph_err *err) {
    placing p = {.s = s};
    int     is_left = 0;
    for (size_t k = 0; k < PLACED; k++)
        is_left |= ph_part_graph(s->model, first_graph[k]) &&
                   !strcmp(s->engine_name[first_graph[k]], PH_ENGINE_AUTO);
    if (!is_left) return PH_OK;
    ph_rc rc = put(&p, err);
    if (!rc) rc = decide(&p, err);
    if (rc == PH_EBUDGET && s->is_plan_only) rc = PH_OK; /* the plan of the least is still wanted */
    if (!rc) take(&p);
    close_placing(&p);
    return rc;
}
