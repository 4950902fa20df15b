/* flow_load_test.c - weights mapped, read ahead, read whole, locked: the same answer, held where the plan
 * says. */
#include "tests/unit/flow/flow_help.h"

#include "base/mem.h"
#include "flow/session.h"

#include <string.h>

static const char *const scene[] = {"scene.png", NULL};

static void answer(const char *path, const ph_model_options *o, fh_answer *out, ph_plan *plan,
                   size_t *stored) {
    ph_err      e = {0};
    ph_model   *m = NULL;
    ph_turn    *t = NULL;
    ph_session *s = NULL;
    fh_talk     talk;
    fh_ask(&talk, scene, "What is in the image?");
    talk.q.answer_max = 6;
    if (ph_model_open(&m, path, o, &e)) fh_say(&e);
    *stored = 0;
    for (size_t i = 0; m && i < ph_source_weights(&m->source)->n; i++)
        *stored += ph_source_weights(&m->source)->at[i].n_bytes;
    if (m) s = fh_session(m, &(ph_session_options){.threads = 2});
    if (s) t = fh_turn(s);
    if (t) *plan = *ph_session_plan_of(s);
    if (t && fh_drive(t, &talk, out, &e)) fh_say(&e);
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
    fh_close(&talk);
}

/* Weights read while compiling are weighed by the kernel's count of pages, to which a sanitizer adds. */
static int near(size_t a, size_t b) {
    return !ut_can_hold_malloc() || (a > b ? a - b : b - a) <= 16 * 4096;
}

static void ways(const char *path) {
    static const ph_model_options how[] = {
        {.reads_ahead = 1}, {.is_read_whole = 1}, {.is_read_whole = 1, .is_locked = 1}};
    fh_answer base = {0}, other = {0};
    ph_plan   mapped = {0}, plan = {0};
    size_t    stored;
    answer(path, NULL, &base, &mapped, &stored);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        answer(path, &how[i], &other, &plan, &stored);
        fh_same(&base, &other, path);
        for (int k = 0; k < PH_N_PHASES; k++)
            CHECK_SAY(i == 0 ? near(plan.phase[k].weights, mapped.phase[k].weights)
                             : plan.phase[k].weights >= stored && plan.phase[k].weights < stored + (1 << 17),
                      "%s, way %zu, phase %d: %zu; mapped %zu, %zu stored", path, i, k, plan.phase[k].weights,
                      mapped.phase[k].weights, stored);
        fh_forget(&other);
    }
    fh_forget(&base);
}

void test_load_ways(void) {
    ways(FH_LLAVA);
    ways(FH_QWEN25VL);
    ways(FH_MLLAMA);
    ways(FH_PANEL);
}

/* A plan reads nothing, and says the same as the run's own. */
void test_load_planned(void) {
    const ph_model_options plan_only = {.is_read_whole = 1, .is_locked = 1, .is_plan_only = 1};
    ph_err                 e = {0};
    ph_model              *m = NULL;
    ph_mem                 before, after;
    CHECK(ph_mem_read(&before));
    if (ph_model_open(&m, FH_PANEL, &plan_only, &e)) fh_say(&e);
    CHECK(m && m->whole_bytes > 0 && !m->ahead && ph_mem_read(&after) && after.locked == before.locked);
    ph_model_close(m);
}

/* Closed while it reads; many times, for the sanitizers. */
void test_load_closed_at_once(void) {
    const ph_model_options ahead = {.reads_ahead = 1};
    ph_err                 e = {0};
    for (int i = 0; i < 10; i++) {
        ph_model *m = NULL;
        if (ph_model_open(&m, FH_PANEL, &ahead, &e)) fh_say(&e);
        CHECK(m && m->ahead);
        ph_model_close(m);
    }
}
