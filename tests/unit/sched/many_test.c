/* many_test.c - which way a list goes, and that it goes the whole way. */
#include "tests/unit/sched/sched_help.h"

#include <string.h>

static const char *const pictures[] = {"scene.png", "odd_aspect.png", "second.png", "rgba.png"};

static void make(sh_ask *ask, size_t n, int sees) {
    for (size_t i = 0; i < n; i++)
        ask[i] = (sh_ask){sees ? pictures[i % 4] : NULL,
                          i % 3 ? "What is in the image?" : "Describe the colours."};
}

static ph_many_report run(sh_list *l, const sh_ask *ask, size_t n, const ph_many *how) {
    const ph_pipeline_calls calls = {sh_next, sh_done, l};
    ph_many_report          r = {0};
    ph_err                  e = {0};
    ph_many                 m = *how;
    m.n = n;
    sh_open(l, ask, n);
    CHECK_SAY(!ph_many_run(&m, &calls, &r, &e), "%s", e.msg);
    CHECK_SAY(l->n_told == n && l->in_order, "%zu of %zu were told of", l->n_told, n);
    CHECK_SAY(r.n_serial + r.n_double + r.n_deep == n, "%zu serial, %zu double, %zu deep of %zu", r.n_serial,
              r.n_double, r.n_deep, n);
    CHECK(r.used == (r.sides.ahead && r.sides.beside   ? PH_OVERLAP_DEEP
                     : r.sides.ahead || r.sides.beside ? PH_OVERLAP_DOUBLE
                                                       : PH_OVERLAP_SERIAL));
    CHECK(r.predicted.total > 0 && r.measured > 0 && r.wall_ms > 0 && r.answer_ms > 0);
    sh_close(l);
    return r;
}

void test_many_ways(void) {
    enum { N = PH_MANY_LEAST + 3 };
    static sh_ask  ask[N], words[N];
    static sh_list base, l;
    ph_model      *m = sh_model(SH_SET "vlm_llava15");
    if (!m) return;
    make(ask, N, 1);
    make(words, N, 0);
    ph_many        how = {.model = m, .session = {.threads = 2}};
    ph_many_report r = run(&base, ask, N, &how);
    CHECK(r.used == PH_OVERLAP_SERIAL && !r.n_double && !r.why && r.threads == 2 && r.see_threads == 2);

    how.how = PH_OVERLAP_DOUBLE;
    r = run(&l, ask, N, &how);
    CHECK(r.used == PH_OVERLAP_DOUBLE && !r.n_serial && r.threads == 1 && r.see_threads == 1);
    sh_same(&base, &l, "double");

    /* Both ways are tried, whichever is faster: five serial, then double, for some or for all the rest. */
    how.how = PH_OVERLAP_AUTO;
    r = run(&l, ask, N, &how);
    sh_same(&base, &l, "auto");
    CHECK_SAY(r.n_serial >= 5 && r.n_double >= 5 && r.why && strstr(r.why, "faster"),
              "%zu serial, %zu double: %s", r.n_serial, r.n_double, r.why ? r.why : "");
    CHECK(r.serial_ms > 0 && r.double_ms > 0);
    CHECK((r.double_ms < r.serial_ms) == (r.n_serial == 5));

    /* What is not worth trying is not tried. */
    r = run(&l, ask, PH_MANY_LEAST - 1, &how);
    CHECK(!r.n_double && r.why && strstr(r.why, "few"));
    r = run(&l, words, N, &how);
    CHECK(!r.n_double && r.why && strstr(r.why, "seen"));
    how.session.threads = 1;
    r = run(&l, ask, N, &how);
    CHECK(!r.n_double && r.why && strstr(r.why, "one thread"));
    how.session.threads = 2;
    how.bytes_a_second = 1; /* a byte */
    r = run(&l, ask, N, &how);
    CHECK(!r.n_double && r.why && strstr(r.why, "memory") && r.cut.n == 1);
    how.bytes_a_second = 1e15;
    r = run(&l, ask, N, &how);
    CHECK(r.n_serial == 5 && r.n_double == N - 5 && r.cut.n == 2 && r.cut.drawn > 0 && strstr(r.why, "two"));
    sh_same(&base, &l, "as many as two threads");

    /* More threads: as many sides as the memory feeds, and no more than were asked for. */
    how.session.threads = 3;
    r = run(&l, ask, N, &how);
    CHECK(r.n_serial == 5 && r.n_deep == N - 5 && r.cut.n == 3 && r.sides.ahead && r.sides.beside);
    CHECK(r.used == PH_OVERLAP_DEEP && strstr(r.why, "three"));
    sh_same(&base, &l, "three sides");
    double all = r.cut.drawn;
    CHECK(all > 0);
    how.how = PH_OVERLAP_DOUBLE;
    r = run(&l, ask, N, &how);
    CHECK(r.n_serial == 5 && r.n_double == N - 5 && r.cut.n == 2);
    how.how = PH_OVERLAP_SERIAL;
    r = run(&l, ask, N, &how);
    CHECK(r.n_serial == N && !r.cut.n);
    how.how = PH_OVERLAP_DEEP;
    how.bytes_a_second = 0;
    r = run(&l, ask, N, &how);
    CHECK(r.n_deep == N && !r.why && r.see_threads == 1 && r.threads == 1);
    sh_same(&base, &l, "deep");
    how.bytes_a_second = 1; /* a byte, whatever was asked for */
    r = run(&l, ask, N, &how);
    CHECK(r.n_serial == N && r.cut.n == 1 && strstr(r.why, "memory"));
    how.bytes_a_second = 1e15;
    r = run(&l, ask, 9, &how); /* what was chosen, not what most questions had */
    CHECK(r.n_serial == 5 && r.n_deep == 4 && r.used == PH_OVERLAP_DEEP && strstr(r.why, "three"));
    for (size_t n = 1; n <= 5; n += 4) { /* those that are weighed are all */
        r = run(&l, ask, n, &how);
        CHECK(r.n_serial == n && r.used == PH_OVERLAP_SERIAL && !r.cut.n && strstr(r.why, "weighed"));
    }
    for (size_t i = 1; i < N; i++) ask[i] = ask[0];
    r = run(&l, ask, 6, &how);
    CHECK(r.n_serial == 6 && strstr(r.why, "no new picture"));
    ph_model_close(m);
}

/* What neighbours share follows from the cut, at its exact borders: 1, 2 and 4 GB/s; sharing costs the time.
 */
void test_many_chooses(void) {
    static const ph_cut_stage early[] = {{1e9, 1}, {2e9, 1}, {16e9, 4}}, /* decode shares with see first */
        late[] = {{4e9, 4}, {2e9, 1}, {4e9, 1}};                         /* see with the answer */
    static const struct {
        const ph_cut_stage *group;
        double              gives;
        size_t              most, n;
        int                 ahead, beside;
    } rows[] = {{early, 7e9, 3, 3, 1, 1},     {early, 7e9 - 1, 3, 2, 0, 1}, {early, 6e9, 3, 2, 0, 1},
                {early, 6e9 - 1, 3, 1, 0, 0}, {early, 1, 3, 1, 0, 0},       {early, 0, 3, 3, 1, 1},
                {early, 7e9, 2, 2, 0, 1},     {early, 7e9, 1, 1, 0, 0},     {late, 7e9, 3, 3, 1, 1},
                {late, 7e9 - 1, 3, 2, 1, 0},  {late, 5e9, 3, 2, 1, 0},      {late, 5e9 - 1, 3, 1, 0, 0},
                {late, 1e15, 2, 2, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_cut   cut;
        ph_sides s = ph_many_choose(rows[i].group, rows[i].gives, rows[i].most, &cut);
        CHECK_SAY(cut.n == rows[i].n && s.ahead == rows[i].ahead && s.beside == rows[i].beside,
                  "row %zu: %zu slots, ahead %d, beside %d", i, cut.n, s.ahead, s.beside);
    }
}

/* What double would take and a budget does not give ends no run that serial can go on with. */
void test_many_no_room(void) {
    enum { N = PH_MANY_LEAST + 3 };
    static sh_ask  ask[N];
    static sh_list base, l;
    ph_model      *m = sh_model(SH_SET "vlm_llava15");
    if (!m) return;
    make(ask, N, 1);
    ph_many how = {.model = m, .session = {.threads = 2, .engine_vision = "auto", .engine_language = "auto"}};
    ph_session_options both = how.session;
    ph_plan            one, two;
    both.beside = PH_PIPELINE_SLOTS;
    CHECK(!ph_session_plan(m, &how.session, &one, NULL) && !ph_session_plan(m, &both, &two, NULL));
    CHECK_SAY(two.peak.total > one.peak.total + 500000, "%zu serial, %zu double", one.peak.total,
              two.peak.total);
    run(&base, ask, N, &how);
    how.session.memory_max = (one.peak.total + two.peak.total) / 2;
    how.how = PH_OVERLAP_AUTO;
    ph_many_report r = run(&l, ask, N, &how);
    sh_same(&base, &l, "auto within a budget");
    CHECK_SAY(r.n_serial == N && r.used == PH_OVERLAP_SERIAL && r.why && strstr(r.why, "budget"),
              "%zu serial, %zu double: %s", r.n_serial, r.n_double, r.why ? r.why : "");
    /* Where it was asked for, it is an error still, and nobody is asked for questions. */
    const ph_pipeline_calls calls = {sh_next, sh_done, &l};
    ph_err                  e = {0};
    how.how = PH_OVERLAP_DOUBLE;
    how.n = N;
    sh_open(&l, ask, N);
    CHECK(ph_many_run(&how, &calls, &r, &e) == PH_EBUDGET && !l.n_told);
    how.how = PH_OVERLAP_AUTO;
    how.session.see_threads = 5;
    CHECK(ph_many_run(&how, &calls, &r, &e) == PH_EUSAGE && !l.n_told && strstr(e.msg, "5 of 2 threads"));
    sh_close(&l);
    sh_close(&base);
    ph_model_close(m);
}

void test_many_splits(void) {
    CHECK(ph_many_see_threads(2, 1, 100) == 1 && ph_many_see_threads(2, 100, 1) == 1);
    CHECK(ph_many_see_threads(8, 3, 1) == 6 && ph_many_see_threads(8, 1, 3) == 2);
    CHECK(ph_many_see_threads(8, 0, 0) == 4 && ph_many_see_threads(1, 1, 1) == 1);
    CHECK(ph_overlap_find("double") == PH_OVERLAP_DOUBLE && ph_overlap_find("auto") == PH_OVERLAP_AUTO);
    CHECK(ph_overlap_find("deep") == PH_OVERLAP_DEEP && ph_overlap_find("serial") == PH_OVERLAP_SERIAL &&
          ph_overlap_find("both") == -1);
}
