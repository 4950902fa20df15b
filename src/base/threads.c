/* threads.c - a crew that claims pieces, spins briefly, and parks.
 *
 * A range is cut into pieces 0 .. total-1.  One 64-bit word holds everything
 * that a claim needs:
 *
 *     claim = generation (32) | closed (1) | next piece (31)
 *
 * A worker reads the word, reads the job, and then moves the word from (g, i)
 * to (g, i + 1).  If that succeeds, the job it read is the job of g: a job is
 * written only after all claimed pieces of the one before are done, and the
 * word then has another generation.  So nobody has to check in or out, and a
 * worker that the machine put aside between two pieces is never waited for.
 * (Worker 0, the caller, waits for pieces that were claimed, and only those.)
 *
 * Parking uses futexes.  A worker counts itself parked, then sleeps if `wake`
 * still has the value that it saw before it looked for work; the caller changes
 * `wake` first and reads the count after.  One of the two sees the other.
 */
#include "base/threads.h"

#include "base/clock.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SPIN_NS = 20000, /* what a wait may burn before it parks; a wake-up costs two or three times that */
    COUNT_MAX = 1024,
};
#define CLOSED     (UINT64_C(1) << 31)
#define PIECE_MASK (CLOSED - 1)
#define PIECES_MAX ((size_t)1 << 30)

/* Read by workers that may be late, hence atomic; see the top of the file for why that is enough. */
typedef struct ph_job {
    _Atomic(ph_task *)          task;
    _Atomic(void *)             arg;
    atomic_size_t               first, end, piece, total;
    _Atomic uint64_t            deadline_ns;
    _Atomic(const atomic_int *) cancel;
} ph_job;

typedef struct ph_worker {
    ph_threads *crew;
    int         index;
    pthread_t   id;
} ph_worker;

struct ph_threads {
    _Alignas(64) _Atomic uint64_t claim;
    _Alignas(64) _Atomic uint32_t done; /* pieces done of this generation */
    _Atomic uint32_t is_caller_parked;
    _Alignas(64) _Atomic uint32_t wake; /* changes with each range */
    _Atomic uint32_t n_parked;
    _Atomic uint32_t must_end;
    _Alignas(64) ph_job job;
    _Atomic uint64_t barriers;
    int              is_running; /* the caller's own: calls may not nest */
    int              count;
    ph_worker        worker[]; /* [count - 1]: workers 1 .. count-1 */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t while_value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Watch the word for SPIN_NS; 1 when it changed. */
static int spin(_Atomic uint32_t *word, uint32_t while_value) {
    uint64_t end = ph_clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 16; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != while_value) return 1;
            relax();
        }
    } while (ph_clock_ns() < end);
    return 0;
}

int ph_until_reached(const ph_until *until) {
    if (!until) return 0;
    if (until->cancel && atomic_load_explicit(until->cancel, memory_order_relaxed)) return 1;
    return until->deadline_ns && ph_clock_ns() >= until->deadline_ns;
}

/* No further piece of the current generation is claimed.  Its caller is still waiting for one of ours. */
static void close_claims(ph_threads *t) {
    atomic_fetch_or_explicit(&t->claim, CLOSED, memory_order_acq_rel);
}

/* Claim and do pieces until there is none left. */
static void work(ph_threads *t, int worker) {
    ph_job *job = &t->job;
    for (;;) {
        uint64_t c = atomic_load_explicit(&t->claim, memory_order_acquire);
        size_t   i = c & PIECE_MASK;
        if ((c & CLOSED) || i >= atomic_load_explicit(&job->total, memory_order_relaxed)) return;
        ph_task *task = atomic_load_explicit(&job->task, memory_order_relaxed);
        void    *arg = atomic_load_explicit(&job->arg, memory_order_relaxed);
        size_t   piece = atomic_load_explicit(&job->piece, memory_order_relaxed);
        size_t   begin = atomic_load_explicit(&job->first, memory_order_relaxed) + i * piece;
        size_t   end = atomic_load_explicit(&job->end, memory_order_relaxed);
        if (!atomic_compare_exchange_weak_explicit(&t->claim, &c, c + 1, memory_order_acq_rel,
                                                   memory_order_relaxed))
            continue;
        /* From here to the count of `done` the generation cannot end. */
        task(arg, begin, end - begin < piece ? end : begin + piece, worker);
        ph_until until = {atomic_load_explicit(&job->deadline_ns, memory_order_relaxed),
                          atomic_load_explicit(&job->cancel, memory_order_relaxed)};
        if (ph_until_reached(&until)) close_claims(t);
        atomic_fetch_add(&t->done, 1);
        if (worker && atomic_load(&t->is_caller_parked)) futex_wake(&t->done, 1);
    }
}

static void *worker_main(void *arg) {
    ph_worker  *me = arg;
    ph_threads *t = me->crew;
    for (;;) {
        uint32_t seen = atomic_load(&t->wake);
        if (atomic_load(&t->must_end)) return NULL;
        work(t, me->index);
        if (spin(&t->wake, seen)) continue;
        atomic_fetch_add(&t->n_parked, 1);
        futex_wait(&t->wake, seen);
        atomic_fetch_sub(&t->n_parked, 1);
    }
}

ph_rc ph_threads_open(ph_threads **out, int count, ph_err *err) {
    *out = NULL;
    if (count < 1 || count > COUNT_MAX)
        return PH_FAIL(err, PH_EUSAGE, "%d threads; 1 to %d are possible", count, COUNT_MAX);
    size_t      bytes = sizeof(ph_threads) + (size_t)(count - 1) * sizeof(ph_worker);
    ph_threads *t = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!t) return PH_FAIL(err, PH_ENOMEM, "a crew of %d threads", count);
    memset(t, 0, bytes);
    t->count = 1;
    /* As after a range: a worker that looks while the first job is being written must not claim of generation
     * 0. */
    atomic_store(&t->claim, CLOSED);

    /* Signals are the program's business: they go to its own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ph_rc rc = PH_OK;
    for (int i = 1; i < count && !rc; i++) {
        ph_worker *w = &t->worker[i - 1];
        *w = (ph_worker){.crew = t, .index = i};
        int e = pthread_create(&w->id, NULL, worker_main, w);
        if (e)
            rc = PH_FAIL(err, PH_EMACHINE, "thread %d of %d: %s; use fewer", i, count, strerror(e));
        else
            t->count = i + 1;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        ph_threads_close(t);
    else
        *out = t;
    return rc;
}

void ph_threads_close(ph_threads *t) {
    if (!t) return;
    atomic_store(&t->must_end, 1);
    atomic_fetch_add(&t->wake, 1);
    futex_wake(&t->wake, INT_MAX);
    for (int i = 1; i < t->count; i++) pthread_join(t->worker[i - 1].id, NULL);
    free(t);
}

int ph_threads_count(const ph_threads *t) {
    return t->count;
}

uint64_t ph_threads_barriers(const ph_threads *t) {
    return atomic_load_explicit(&t->barriers, memory_order_relaxed);
}

/* The caller alone: one worker, or one piece. */
static size_t run_alone(ph_task *task, void *arg, size_t first, size_t n, size_t piece,
                        const ph_until *until) {
    for (size_t begin = first; begin < n;) {
        size_t end = n - begin < piece ? n : begin + piece;
        task(arg, begin, end, 0);
        begin = end;
        if (ph_until_reached(until)) return begin;
    }
    return n;
}

static void publish(ph_threads *t, ph_task *task, void *arg, size_t first, size_t n, size_t piece,
                    size_t total, const ph_until *until) {
    ph_job  *job = &t->job;
    uint64_t generation = atomic_load_explicit(&t->claim, memory_order_relaxed) >> 32;
    atomic_store_explicit(&job->task, task, memory_order_relaxed);
    atomic_store_explicit(&job->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&job->first, first, memory_order_relaxed);
    atomic_store_explicit(&job->end, n, memory_order_relaxed);
    atomic_store_explicit(&job->piece, piece, memory_order_relaxed);
    atomic_store_explicit(&job->total, total, memory_order_relaxed);
    atomic_store_explicit(&job->deadline_ns, until ? until->deadline_ns : 0, memory_order_relaxed);
    atomic_store_explicit(&job->cancel, until ? until->cancel : NULL, memory_order_relaxed);
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    atomic_store(&t->claim, (generation + 1) << 32);
    atomic_fetch_add(&t->wake, 1);
    if (atomic_load(&t->n_parked))
        futex_wake(&t->wake, total < (size_t)t->count ? (int)total - 1 : t->count - 1);
}

/* All claimed pieces are done when this returns; the result is their number. */
static size_t await(ph_threads *t, size_t total) {
    close_claims(t); /* nothing is left to claim, or `until` closed it: either way this number stands */
    size_t claimed = atomic_load(&t->claim) & PIECE_MASK;
    assert(claimed <= total);
    (void)total;
    for (;;) {
        uint32_t done = atomic_load(&t->done);
        if (done == claimed) return claimed;
        if (spin(&t->done, done)) continue;
        atomic_store(&t->is_caller_parked, 1);
        if (atomic_load(&t->done) == done) futex_wait(&t->done, done);
        atomic_store(&t->is_caller_parked, 0);
    }
}

static size_t run_crew(ph_threads *t, ph_task *task, void *arg, size_t first, size_t n, size_t piece,
                       const ph_until *until) {
    size_t total = (n - first - 1) / piece + 1;
    atomic_fetch_add_explicit(&t->barriers, 1, memory_order_relaxed);
    publish(t, task, arg, first, n, piece, total, until);
    work(t, 0);
    size_t claimed = await(t, total);
    return claimed == total ? n : first + claimed * piece;
}

size_t ph_threads_run(ph_threads *t, ph_task *task, void *arg, size_t first, size_t n, size_t piece,
                      const ph_until *until) {
    if (first >= n) return n;
    if (ph_until_reached(until)) return first;
    if (!piece) piece = 1;
    assert(!t->is_running);
    t->is_running = 1;
    size_t at = first;
    while (at < n) {
        size_t left = n - at;
        /* A piece's number has 31 bits; longer ranges go in parts. */
        size_t end = (left - 1) / piece < PIECES_MAX ? n : at + PIECES_MAX * piece;
        size_t got = t->count == 1 || left <= piece ? run_alone(task, arg, at, end, piece, until)
                                                    : run_crew(t, task, arg, at, end, piece, until);
        at = got;
        if (got < end || ph_until_reached(until)) break;
    }
    t->is_running = 0;
    return at;
}
