/* test_threads.c - every unit once, whatever the crew; stopping; nobody waits for a late worker. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/threads.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { UNITS = 1000, CREW_MAX = 8 };

typedef struct tally {
    unsigned char seen[UNITS]; /* plain bytes: a unit done twice at once is a race that TSan sees */
    size_t        piece;
    int           n_workers;
    atomic_int    bad;
} tally;

static void count_units(void *arg, size_t begin, size_t end, int worker) {
    tally *t = arg;
    if (end <= begin || end - begin > t->piece || worker < 0 || worker >= t->n_workers)
        atomic_fetch_add(&t->bad, 1);
    for (size_t i = begin; i < end; i++) t->seen[i]++;
}

void test_threads_every_unit_once(void) {
    static const size_t pieces[] = {0, 1, 3, 7, 64, 999, 1000, 5000};
    static tally        t;
    for (int crew = 1; crew <= CREW_MAX; crew++) {
        ph_threads *threads;
        CHECK(ph_threads_open(&threads, crew, NULL) == PH_OK && ph_threads_count(threads) == crew);
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
            size_t first = p * 13, n = UNITS - p;
            memset(&t, 0, sizeof t);
            t.piece = pieces[p] ? pieces[p] : 1;
            t.n_workers = crew;
            CHECK(ph_threads_run(threads, count_units, &t, first, n, pieces[p], NULL) == n);
            for (size_t i = 0; i < UNITS; i++)
                CHECK_SAY(t.seen[i] == (i >= first && i < n), "crew %d, piece %zu, unit %zu: %d times", crew,
                          pieces[p], i, t.seen[i]);
            CHECK(!t.bad);
        }
        CHECK(ph_threads_run(threads, count_units, &t, 5, 5, 1, NULL) == 5);
        CHECK(ph_threads_run(threads, count_units, &t, 9, 5, 1, NULL) == 5);
        /* The last three fit one piece: the caller does them alone, without a barrier. */
        CHECK(ph_threads_barriers(threads) == (crew == 1 ? 0 : 5));
        ph_threads_close(threads);
    }
}

static void note_thread(void *arg, size_t begin, size_t end, int worker) {
    (void)begin;
    (void)end;
    CHECK(pthread_equal(*(pthread_t *)arg, pthread_self()) && !worker);
}

/* Workers come up while the first range is being handed out. */
void test_threads_first_range(void) {
    enum { CREWS = 4000, FIRST = 22 };
    static tally t;
    for (int i = 0; i < CREWS; i++) {
        ph_threads *threads;
        t = (tally){.piece = 1, .n_workers = 4};
        CHECK(ph_threads_open(&threads, 4, NULL) == PH_OK);
        CHECK(ph_threads_run(threads, count_units, &t, 0, FIRST, 1, NULL) == FIRST);
        for (int u = 0; u < FIRST; u++)
            CHECK_SAY(t.seen[u] == 1, "crew %d, unit %d: %d times", i, u, t.seen[u]);
        ph_threads_close(threads);
    }
}

void test_threads_alone(void) {
    pthread_t   me = pthread_self();
    ph_threads *t;
    CHECK(!ph_threads_open(&t, 1, NULL));
    CHECK(ph_threads_run(t, note_thread, &me, 0, 100, 3, NULL) == 100);
    CHECK(ph_threads_barriers(t) == 0);
    ph_threads_close(t);
    CHECK(!ph_threads_open(&t, 4, NULL));
    CHECK(ph_threads_run(t, note_thread, &me, 0, 3, 3, NULL) == 3);
    ph_threads_close(t);
    ph_threads_close(NULL);
}

typedef struct stop {
    atomic_int    cancel;
    atomic_size_t n_done;
    size_t        at; /* unit whose task sets cancel */
    tally         tally;
} stop;

static void stop_at(void *arg, size_t begin, size_t end, int worker) {
    stop *s = arg;
    count_units(&s->tally, begin, end, worker);
    atomic_fetch_add(&s->n_done, end - begin);
    if (begin <= s->at && s->at < end) atomic_store(&s->cancel, 1);
}

static void nap(void *arg, size_t begin, size_t end, int worker) {
    stop_at(arg, begin, end, worker);
    usleep(300);
}

/* Stopped early, the units below the result are done and none above; going on from there does the rest. */
void test_threads_until(void) {
    static stop s;
    for (int crew = 1; crew <= 4; crew++) {
        ph_threads *t;
        CHECK(!ph_threads_open(&t, crew, NULL));
        for (int by_time = 0; by_time < 2; by_time++) {
            memset(&s, 0, sizeof s);
            s.tally = (tally){.piece = 5, .n_workers = crew};
            s.at = by_time ? UNITS : 400;
            ph_until until = {.cancel = &s.cancel};
            if (by_time) until.deadline_ns = ph_clock_ns() + 5000000;
            size_t got = ph_threads_run(t, by_time ? nap : stop_at, &s, 0, UNITS, 5, &until);
            CHECK_SAY(got < UNITS && got == atomic_load(&s.n_done) && got % 5 == 0, "crew %d: %zu, %zu", crew,
                      got, atomic_load(&s.n_done));
            if (!by_time) CHECK(got > 400);
            for (size_t i = 0; i < UNITS; i++) CHECK(s.tally.seen[i] == (i < got));
            CHECK(ph_threads_run(t, stop_at, &s, got, UNITS, 5, &until) == got);
            CHECK(ph_threads_run(t, stop_at, &s, got, UNITS, 5, NULL) == UNITS);
            for (size_t i = 0; i < UNITS; i++) CHECK(s.tally.seen[i] == 1);
        }
        ph_threads_close(t);
    }
    CHECK(!ph_until_reached(NULL) && !ph_until_reached(&(ph_until){0}));
    CHECK(ph_until_reached(&(ph_until){.deadline_ns = 1}));
}

typedef struct slow {
    atomic_int n_others, is_slow_out;
} slow;

/* The first unit that a worker other than 0 gets sleeps; all others count. */
static void one_sleeps(void *arg, size_t begin, size_t end, int worker) {
    slow *s = arg;
    int   none = 0;
    (void)begin;
    (void)end;
    if (worker == 1 && atomic_compare_exchange_strong(&s->is_slow_out, &none, 1))
        usleep(50000);
    else {
        usleep(200);
        atomic_fetch_add(&s->n_others, 1);
    }
}

/* While one worker hangs in its piece, the others do all the rest of the range. */
void test_threads_slow_worker(void) {
    ph_threads *t;
    slow        s = {0};
    CHECK(!ph_threads_open(&t, 3, NULL));
    uint64_t begin = ph_clock_ns();
    for (int i = 0; i < 20 && !atomic_load(&s.is_slow_out); i++) {
        atomic_store(&s.n_others, 0);
        CHECK(ph_threads_run(t, one_sleeps, &s, 0, 100, 1, NULL) == 100);
    }
    CHECK(atomic_load(&s.is_slow_out));
    CHECK_SAY(atomic_load(&s.n_others) == 99, "%d", atomic_load(&s.n_others));
    CHECK_SAY(ph_clock_ns() - begin < 5000000000u, "%llu ns", (unsigned long long)(ph_clock_ns() - begin));
    ph_threads_close(t);
}

static void add_up(void *arg, size_t begin, size_t end, int worker) {
    (void)worker;
    for (size_t i = begin; i < end; i++) ((uint32_t *)arg)[i] += (uint32_t)i;
}

/* Many ranges in a row, of different lengths, on more workers than processors: late workers of one
 * range meet the next.  The plain additions are races if a unit is ever done by two. */
void test_threads_many_short_runs(void) {
    enum { RUNS = 20000 };
    static uint32_t sum[64], want[64];
    memset(sum, 0, sizeof sum);
    memset(want, 0, sizeof want);
    ph_threads *t;
    CHECK(!ph_threads_open(&t, 2 * (ph_cpu_count() < 4 ? ph_cpu_count() : 4), NULL));
    for (int run = 0; run < RUNS; run++) {
        size_t first = (size_t)(run % 5), n = 8 + (size_t)(run * 7 % 56);
        CHECK(ph_threads_run(t, add_up, sum, first, n, 1 + (size_t)(run % 3), NULL) == n);
        for (size_t i = first; i < n; i++) want[i] += (uint32_t)i;
    }
    CHECK(!memcmp(sum, want, sizeof sum));
    CHECK(ph_threads_barriers(t) == RUNS);
    ph_threads_close(t);
}

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Between two ranges a crew sleeps: 300 ms of waiting cost this process next to no CPU time. */
void test_threads_park(void) {
    static uint32_t sum[64];
    ph_threads     *t;
    CHECK(!ph_threads_open(&t, 4, NULL));
    CHECK(ph_threads_run(t, add_up, sum, 0, 64, 1, NULL) == 64);
    uint64_t before = cpu_ns();
    usleep(300000);
    CHECK_SAY(cpu_ns() - before < 60000000, "%llu ns", (unsigned long long)(cpu_ns() - before));
    CHECK(ph_threads_run(t, add_up, sum, 0, 64, 1, NULL) == 64);
    ph_threads_close(t);
}

void test_threads_refused(void) {
    ph_threads *t = NULL;
    ph_err      err = {0};
    CHECK(ph_threads_open(&t, 0, &err) == PH_EUSAGE && !t);
    CHECK(ph_threads_open(&t, 100000, &err) == PH_EUSAGE && !t && err.msg[0] == '1');
}
