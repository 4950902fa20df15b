/* test_trace.c - the ring, the sums by name, and both from several threads. */
#include "base/clock.h"
#include "base/threads.h"
#include "base/trace.h"
#include "tests/unit/unit.h"

#include <string.h>
#include <unistd.h>

static uint64_t sum_of(const uint64_t buckets[PH_TRACE_BUCKETS]) {
    uint64_t n = 0;
    for (int b = 0; b < PH_TRACE_BUCKETS; b++) n += buckets[b];
    return n;
}

void test_trace_spans(void) {
    ph_trace *t;
    ph_span   got[20];
    CHECK(ph_trace_open(&t, 0, NULL) == PH_ELIMIT && ph_trace_open(&t, (size_t)-1, NULL) == PH_ELIMIT);
    CHECK(!ph_trace_open(&t, 8, NULL));
    CHECK(ph_trace_spans(t, got, 20) == 0);
    for (uint64_t i = 0; i < 5; i++) ph_trace_end(t, "see", ph_trace_begin(t), i);
    CHECK(ph_trace_spans(t, got, 20) == 5 && got[0].arg == 0 && got[4].arg == 4);
    CHECK(!strcmp(got[2].name, "see") && got[2].end_ns >= got[2].begin_ns && got[2].thread == (int)gettid());
    CHECK(got[1].begin_ns >= got[0].end_ns);
    for (uint64_t i = 5; i < 30; i++) ph_trace_end(t, "step", ph_trace_begin(t), i);
    /* The oldest are overwritten; a short list gets the newest. */
    CHECK(ph_trace_spans(t, got, 20) == 8 && got[0].arg == 22 && got[7].arg == 29);
    CHECK(ph_trace_spans(t, got, 3) == 3 && got[0].arg == 27 && got[2].arg == 29);
    ph_trace_reset(t);
    CHECK(ph_trace_spans(t, got, 20) == 0 && ph_trace_count(t, "see") == 0);
    ph_trace_end(t, "see", ph_trace_begin(t), 99);
    CHECK(ph_trace_spans(t, got, 20) == 1 && got[0].arg == 99);
    ph_trace_close(t);
}

void test_trace_sums(void) {
    ph_trace *t;
    uint64_t  b[PH_TRACE_BUCKETS];
    CHECK(!ph_trace_open(&t, 4, NULL));
    for (int i = 0; i < 10; i++) ph_trace_end(t, "fast", ph_clock_ns(), 0);
    ph_trace_end(t, "slow", ph_clock_ns() - 3000000, 0); /* 3 ms: more than 2^11 us, at most 2^12 */
    ph_trace_end(t, "ages", 0, 0);
    CHECK(ph_trace_count(t, "fast") == 10 && ph_trace_count(t, "slow") == 1 && ph_trace_count(t, "no") == 0);
    CHECK(ph_trace_total_ns(t, "slow") >= 3000000 && ph_trace_total_ns(t, "slow") < 1000000000);
    CHECK(ph_trace_total_ns(t, "no") == 0);
    CHECK(ph_trace_histogram(t, "fast", b) && sum_of(b) == 10);
    CHECK(ph_trace_histogram(t, "slow", b) && sum_of(b) == 1);
    int at = 0;
    while (!b[at]) at++;
    CHECK_SAY(at >= 12 && at < 20, "bucket %d", at);
    CHECK(!ph_trace_histogram(t, "no", b) && sum_of(b) == 0);
    ph_trace_add(t, "tokens", 5);
    ph_trace_add(t, "tokens", 7);
    ph_trace_add(t, "pages", 1);
    CHECK(ph_trace_counter(t, "tokens") == 12 && ph_trace_counter(t, "pages") == 1);
    CHECK(ph_trace_counter(t, "no") == 0);
    ph_trace_reset(t);
    CHECK(ph_trace_counter(t, "tokens") == 0 && ph_trace_total_ns(t, "slow") == 0);
    ph_trace_close(t);
}

/* Names are texts, not addresses; beyond the table's end there are spans, but no sums. */
void test_trace_names(void) {
    static char names[PH_TRACE_NAMES + 8][16];
    char        twin[] = "name3";
    ph_trace   *t;
    ph_span     got[4];
    CHECK(!ph_trace_open(&t, 4, NULL));
    for (int i = 0; i < PH_TRACE_NAMES + 8; i++) {
        snprintf(names[i], sizeof names[i], "name%d", i);
        ph_trace_end(t, names[i], ph_clock_ns(), (uint64_t)i);
        ph_trace_add(t, names[i], 2);
    }
    ph_trace_end(t, twin, ph_clock_ns(), 0);
    ph_trace_add(t, twin, 3);
    CHECK(ph_trace_count(t, "name3") == 2 && ph_trace_counter(t, "name3") == 5);
    CHECK(ph_trace_count(t, names[PH_TRACE_NAMES - 1]) == 1 && ph_trace_count(t, names[PH_TRACE_NAMES]) == 0);
    CHECK(ph_trace_counter(t, names[PH_TRACE_NAMES]) == 0);
    CHECK(ph_trace_spans(t, got, 4) == 4 && got[2].arg == PH_TRACE_NAMES + 7);
    ph_trace_close(t);
}

enum { SPANS_EACH = 10000 };

static atomic_int n_torn;

static void record(void *arg, size_t begin, size_t end, int worker) {
    static const char *const names[] = {"a", "b", "c", "d"};
    ph_trace                *t = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        uint64_t from = ph_trace_begin(t);
        ph_trace_end(t, names[i % 4], from, from);
        ph_trace_add(t, names[i % 4], 1);
        ph_span got[16];
        size_t  n = ph_trace_spans(t, got, 16);
        /* A span that is half of one event and half of another would show here. */
        for (size_t k = 0; k < n; k++)
            if (got[k].arg != got[k].begin_ns || got[k].end_ns < got[k].begin_ns || !got[k].name)
                atomic_fetch_add(&n_torn, 1);
    }
}

void test_trace_threads(void) {
    ph_threads *crew;
    ph_trace   *t;
    uint64_t    n = 0, counted = 0;
    CHECK(!ph_threads_open(&crew, 4, NULL));
    CHECK(!ph_trace_open(&t, 4, NULL)); /* small, so that slots are overwritten while they are read */
    CHECK(ph_threads_run(crew, record, t, 0, 4 * SPANS_EACH, 10, NULL) == 4 * SPANS_EACH);
    CHECK_SAY(atomic_load(&n_torn) == 0, "%d spans of two halves", atomic_load(&n_torn));
    for (int i = 0; i < 4; i++) {
        const char name[2] = {(char)('a' + i), 0};
        CHECK(ph_trace_count(t, name) == SPANS_EACH && ph_trace_counter(t, name) == SPANS_EACH);
        n += ph_trace_count(t, name);
        counted += ph_trace_counter(t, name);
    }
    CHECK(n == 4 * SPANS_EACH && counted == n);
    ph_threads_close(crew);
    ph_trace_close(t);
}

void test_trace_none(void) {
    uint64_t b[PH_TRACE_BUCKETS];
    ph_span  s;
    CHECK(ph_trace_begin(NULL) == 0);
    ph_trace_end(NULL, "x", 0, 0);
    ph_trace_add(NULL, "x", 1);
    ph_trace_reset(NULL);
    CHECK(!ph_trace_spans(NULL, &s, 1) && !ph_trace_count(NULL, "x") && !ph_trace_total_ns(NULL, "x"));
    CHECK(!ph_trace_counter(NULL, "x") && !ph_trace_histogram(NULL, "x", b));
    ph_trace_close(NULL);
}
