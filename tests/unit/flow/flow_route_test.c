/* flow_route_test.c - parts that are left to the router: by rule, by measured times in memory and in files,
 * within a limit of memory, and what is said of times that are not of this device. */
#include "tests/unit/flow/flow_help.h"

#include "engine/ort/ort.h"
#include "flow/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int has_ort(void) {
    return !ph_engine_find("ort")->probe(NULL);
}

typedef struct heard {
    int  n;
    char line[600];
} heard;

static void hear(void *arg, ph_log_level level, const char *line) {
    heard *h = arg;
    if (level != PH_LOG_WARN) return;
    h->n++;
    snprintf(h->line, sizeof h->line, "%s", line);
}

static const ph_route_part *part(const ph_route *r, const char *name) {
    static const ph_route_part none;
    for (size_t i = 0; i < r->n_parts; i++)
        if (!strcmp(r->part[i].name, name)) return &r->part[i];
    CHECK_SAY(0, "no part %s of %zu", name, r->n_parts);
    return &none;
}

static const char *on(const ph_route *r, const char *name) {
    return r->engine[part(r, name)->engine].name;
}

/* Times that say: this engine for pictures, native for the rest.  Of the session s, or one that would be. */
static void make_costs(ph_costs *c, const ph_session *s, double native_us, double ort_us) {
    ph_err         e = {0};
    ph_syms        size[PH_N_COST_STAGES];
    ph_ort_library lib = {{0}, {0}};
    memset(c, 0, sizeof *c);
    c->rounds = 1;
    if (ph_session_cost_key(s, &c->key, &e) || ph_session_cost_sizes(s, size, &e)) fh_say(&e);
    if (has_ort()) ph_ort_probe(&lib, NULL);
    for (int stage = 0; stage < PH_N_COST_STAGES; stage++)
        for (int is_ort = 0; is_ort <= (stage <= PH_COST_BRIDGE); is_ort++) {
            double   us = stage == PH_COST_SEE ? (is_ort ? ort_us : native_us) : is_ort ? 20 : 10;
            ph_cost *x = &c->at[c->n++];
            *x = (ph_cost){
                .stage = (ph_cost_stage)stage, .sizes = size[stage], .us = us, .least = us, .most = us};
            snprintf(x->engine, sizeof x->engine, "%s", is_ort ? "ort" : "native");
            snprintf(x->release, sizeof x->release, "%s", is_ort ? lib.release : PH_VERSION);
        }
}

static ph_rc plan(const ph_model *m, ph_session_options o, ph_route *r, heard *h, ph_err *e) {
    static const ph_costs none = {.n = 0};
    ph_plan               p;
    const ph_log          log = {.write = hear, .arg = h, .most = PH_LOG_WARN};
    *h = (heard){0};
    *e = (ph_err){0};
    o.threads = 2;
    o.log = o.measured || o.costs ? &log : NULL;
    if (!o.measured && !o.costs) o.measured = &none; /* not those of whoever runs this */
    return ph_session_plan_route(m, &o, &p, r, e);
}

#define AUTO .engine_vision = "auto", .engine_language = "auto"

void test_route_by_rule(void) {
    ph_model *m = fh_model(FH_PANEL);
    ph_route  r;
    heard     h;
    ph_err    e;
    if (!m) return;
    CHECK(!plan(m, (ph_session_options){AUTO}, &r, &h, &e));
    CHECK(r.n_parts == 3 && !r.is_measured && r.fits);
    CHECK(!strcmp(on(&r, "vision"), "native") && !strcmp(on(&r, "bridge"), "native") &&
          !strcmp(on(&r, "language"), "native"));
    CHECK(part(&r, "language")->goes_by_data && !part(&r, "vision")->goes_by_data);
    CHECK(part(&r, "vision")->nodes == m->vision->n_nodes && part(&r, "vision")->has_products);
    double sum = 0;
    for (size_t i = 0; i < r.n_parts; i++) sum += r.part[i].budget_us;
    CHECK_SAY(fabs(sum - 380000) < 1, "%g", sum);
    CHECK(!plan(m, (ph_session_options){AUTO, .latency_ms = 100}, &r, &h, &e));
    sum = 0;
    for (size_t i = 0; i < r.n_parts; i++) sum += r.part[i].budget_us;
    CHECK_SAY(fabs(sum - 100000) < 1, "%g", sum);
    /* What is named is not chosen; nothing is left, nothing is said. */
    CHECK(!plan(m, (ph_session_options){.engine_vision = "native", .engine_bridge = "auto"}, &r, &h, &e));
    CHECK(part(&r, "vision")->asked >= 0 && part(&r, "bridge")->asked < 0 &&
          part(&r, "language")->asked >= 0);
    CHECK(!plan(m, (ph_session_options){.engine_vision = "native"}, &r, &h, &e) && !r.n_parts);
    CHECK(plan(m, (ph_session_options){AUTO, .latency_ms = -1}, &r, &h, &e) == PH_EUSAGE);
    CHECK(plan(m, (ph_session_options){AUTO, .latency_ms = NAN}, &r, &h, &e) == PH_EUSAGE);
    CHECK(plan(m, (ph_session_options){.engine_vision = "auto", .engine_language = "steam"}, &r, &h, &e) ==
          PH_EUSAGE);
    ph_model_close(m);
}

/* What a model has decides which parts there are. */
void test_route_parts(void) {
    static const struct {
        const char *path;
        size_t      n;
    } rows[] = {{FH_SMOLLM2, 1}, {FH_QWEN2VL, 3}, {FH_MLLAMA, 3}, {FH_WHISPER, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_model *m = fh_model(rows[i].path);
        ph_route  r = {0};
        heard     h;
        ph_err    e;
        if (!m) continue;
        CHECK_SAY(!plan(m, (ph_session_options){AUTO}, &r, &h, &e), "%s: %s", rows[i].path, e.msg);
        CHECK_SAY(r.n_parts == rows[i].n, "%s: %zu parts", rows[i].path, r.n_parts);
        for (size_t k = 0; k < r.n_parts; k++) CHECK(r.part[k].budget_us > 0 && r.part[k].why[0]);
        ph_model_close(m);
    }
}

/* The faster engine gets the part where it is here; it answers the same, and nothing else is loaded. */
void test_route_by_times(void) {
    static const char *const scene[] = {"scene.png", NULL};
    static ph_costs          c;
    ph_model                *m = fh_model(FH_PANEL);
    ph_session              *s = fh_session(m, &(ph_session_options){.threads = 2});
    ph_route                 r;
    heard                    h;
    ph_err                   e;
    fh_talk                  talk;
    fh_answer                one = {0}, two = {0};
    if (!s) return;
    fh_ask(&talk, scene, "What is in the image?");
    talk.q.answer_max = 4;
    make_costs(&c, s, 5000, 4000);
    CHECK(!plan(m, (ph_session_options){AUTO, .measured = &c}, &r, &h, &e));
    CHECK_SAY(!h.n, "%s", h.line);
    CHECK(r.is_measured && !strcmp(on(&r, "vision"), has_ort() ? "ort" : "native"));
    CHECK(!strcmp(on(&r, "bridge"), "native") && !strcmp(on(&r, "language"), "native"));
    CHECK_SAY(r.us == (has_ort() ? 4000 : 5000) + 10 + 10 + PH_ROUTE_STEPS * 10, "%g", r.us);
    ph_session *routed = fh_session(m, &(ph_session_options){AUTO, .measured = &c, .threads = 2});
    CHECK(routed && ph_session_route(routed) && !ph_session_route(s));
    if (routed) CHECK(!strcmp(ph_session_engine(routed, "vision"), has_ort() ? "ort" : "native"));
    if (routed) CHECK(!strcmp(ph_session_engine(routed, "bridge"), "native"));
    ph_turn *a = fh_turn(s), *b = fh_turn(routed);
    if (a && fh_drive(a, &talk, &one, &e)) fh_say(&e);
    if (b && fh_drive(b, &talk, &two, &e)) fh_say(&e);
    CHECK(one.n && one.n == two.n && !memcmp(one.id, two.id, one.n * sizeof *one.id));
    ph_turn_close(b);
    ph_session_close(routed);
    /* Native is faster: the other is not even looked for when a session is opened. */
    make_costs(&c, s, 4000, 5000);
    routed = fh_session(m, &(ph_session_options){AUTO, .measured = &c, .threads = 2});
    if (routed) {
        const ph_route_cell *ort = &part(ph_session_route(routed), "vision")->cell[1];
        CHECK(!strcmp(ph_session_engine(routed, "vision"), "native"));
        CHECK(ort->estimate_us < 0 && ort->measured_us == 5000 && !ort->fault[0]);
    }
    ph_session_close(routed);
    fh_forget(&one);
    fh_forget(&two);
    ph_turn_close(a);
    ph_session_close(s);
    ph_model_close(m);
    fh_close(&talk);
}

/* Twice the tiles: twice the time, and the same choice. */
void test_route_other_sizes(void) {
    static ph_costs c;
    ph_model       *m = fh_model(FH_IDEFICS3);
    ph_session     *s = fh_session(m, &(ph_session_options){.threads = 2});
    ph_route        r;
    heard           h;
    ph_err          e;
    if (!s) return;
    make_costs(&c, s, 5000, 6000);
    int64_t tiles = c.at[0].sizes.at[PH_SYM_I];
    CHECK(tiles > 1);
    c.at[0].sizes.at[PH_SYM_I] = c.at[1].sizes.at[PH_SYM_I] = 2 * tiles;
    CHECK(!plan(m, (ph_session_options){AUTO, .measured = &c}, &r, &h, &e));
    double us = part(&r, "vision")->cell[0].measured_us;
    CHECK_SAY(us > 2400 && us < 2700, "%g", us);
    CHECK(!strcmp(on(&r, "vision"), "native"));
    ph_session_close(s);
    ph_model_close(m);
}

/* The plan of the faster engine must fit; where none does the plan that takes the least is still told. */
void test_route_within_memory(void) {
    static ph_costs c;
    ph_model       *m = fh_model(FH_PANEL);
    ph_session     *s = fh_session(m, &(ph_session_options){.threads = 2}), *none = NULL;
    ph_route        r;
    heard           h;
    ph_err          e;
    ph_plan         p;
    if (!s) return;
    make_costs(&c, s, 5000, 4000);
    ph_session_options o = {AUTO, .measured = &c, .threads = 2};
    CHECK(!ph_session_plan(m, &(ph_session_options){.threads = 2}, &p, &e));
    o.memory_max = p.peak.total + (2 << 20); /* native's with some room: no copy of weights, no library */
    CHECK(!plan(m, o, &r, &h, &e));
    CHECK(!strcmp(on(&r, "vision"), "native") && r.bytes <= o.memory_max &&
          r.passed == (has_ort() ? 2u : 0u));
    ph_session *fits = fh_session(m, &o);
    CHECK(fits && !strcmp(ph_session_engine(fits, "vision"), "native"));
    ph_session_close(fits);
    o.memory_max = 1 << 20;
    CHECK(!plan(m, o, &r, &h, &e) && !r.fits && r.bytes > o.memory_max);
    CHECK(strstr(part(&r, "vision")->why, "no placement fits the memory"));
    CHECK(ph_session_open(&none, m, &o, &e) == PH_EBUDGET && !none && strstr(e.msg, "fits 1048576 bytes"));
    ph_session_close(s);
    ph_model_close(m);
}

/* ---- files ---- */

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

void test_route_files(void) {
    static ph_costs c, other;
    char            path[] = "/tmp/ph-costs-XXXXXX";
    ph_model       *m = fh_model(FH_PANEL);
    ph_session     *s = fh_session(m, &(ph_session_options){.threads = 2});
    ph_route        r;
    heard           h;
    ph_err          e;
    int             fd = mkstemp(path);
    CHECK(fd >= 0);
    if (fd >= 0) close(fd);
    if (!s) return;
    make_costs(&c, s, 5000, 4000);
    const ph_session_options o = {AUTO, .costs = path};
    CHECK(!ph_costs_write(&c, path, &e));
    CHECK(!plan(m, o, &r, &h, &e) && r.is_measured && !h.n);
    other = c; /* of another model */
    memset(other.key.model, '0', PH_FINGERPRINT - 1);
    CHECK(!ph_costs_write(&other, path, &e));
    CHECK(!plan(m, o, &r, &h, &e) && !r.is_measured);
    CHECK_SAY(h.n == 1 && strstr(h.line, "are not used: they are of another model"), "%s", h.line);
    other = c; /* of another release of one engine: the others' times stay */
    for (size_t i = 0; i < other.n; i++)
        if (!strcmp(other.at[i].engine, "ort"))
            snprintf(other.at[i].release, sizeof other.at[i].release, "0.1");
    CHECK(!ph_costs_write(&other, path, &e));
    CHECK(!plan(m, o, &r, &h, &e) && r.is_measured && !strcmp(on(&r, "vision"), "native"));
    if (has_ort()) CHECK_SAY(h.n == 1 && strstr(h.line, "they are of release 0.1, this is "), "%s", h.line);
    /* When a session is opened, what its time is worth is known only once it was chosen. */
    const ph_session_options run = {AUTO, .measured = &other, .threads = 2};
    ph_session              *routed = fh_session(m, &run);
    if (routed) CHECK(!strcmp(ph_session_engine(routed, "vision"), "native"));
    ph_session_close(routed);
    write_text(path, "{\"pinhole_costs\":2}");
    CHECK(!plan(m, o, &r, &h, &e) && !r.is_measured);
    CHECK_SAY(h.n == 1 && strstr(h.line, "costs of version 2"), "%s", h.line);
    write_text(path, "{\"pinhole_costs\":1");
    CHECK(plan(m, o, &r, &h, &e) == PH_EFORMAT && e.n_notes == 1 &&
          strstr(e.note[0], "pinhole profile --save-costs"));
    unlink(path);
    CHECK(plan(m, o, &r, &h, &e) == PH_EPATH);
    ph_session_close(s);
    ph_model_close(m);
}

/* ---- devices ---- */

void test_route_devices(void) {
    ph_model          *m = fh_model(FH_PANEL);
    ph_session        *s = NULL;
    ph_err             e = {0};
    heard              h = {0, ""};
    const ph_log       log = {.write = hear, .arg = &h, .most = PH_LOG_WARN};
    ph_session_options o = {.threads = 2, .engine_vision = "ort:cpu", .engine_bridge = "ort", .log = &log};
    if (!m) return;
    if (has_ort()) {
        s = fh_session(m, &o); /* the same library by two names */
        if (s)
            CHECK(!strcmp(ph_session_engine(s, "vision"), "ort:cpu") &&
                  !strcmp(ph_session_engine(s, "bridge"), "ort"));
        if (s) CHECK(ph_session_holds(s, "vision") > 0 && !ph_session_holds(s, "language"));
        CHECK_SAY(!h.n, "%s", h.line);
        ph_session_close(s);
    }
    o.engine_vision = o.engine_bridge = "ort:nowhere";
    s = fh_session(m, &o);
    if (s) CHECK(!strcmp(ph_session_engine(s, "vision"), "native"));
    CHECK_SAY(h.n == 1 && strstr(h.line, "engine ort:nowhere is not here, native runs its part"), "%s",
              h.line);
    ph_session_close(s);
    o.is_engine_strict = 1;
    CHECK(ph_session_open(&s, m, &o, &e) == PH_EMACHINE);
    o.engine_language = "auto"; /* named, and beside it some that are not */
    CHECK(ph_session_open(&s, m, &o, &e) == PH_EMACHINE);
    o.is_engine_strict = 0;
    h.n = 0;
    s = fh_session(m, &o);
    if (s) CHECK(!strcmp(ph_session_engine(s, "vision"), "native") && h.n == 1);
    ph_session_close(s);
    o.engine_vision =
        "ort:a name that is longer than any name is, ORT's own of a provider and a device too, by far";
    CHECK(ph_session_open(&s, m, &o, &e) == PH_EUSAGE);
    ph_model_close(m);
}
