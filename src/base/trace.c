/* trace.c - a ring of spans, sums and histograms by name, and counters.
 *
 * Everything shared is atomic.  A span takes number i by one atomic add and slot
 * i mod n; the slot's own word says whose the content is:
 *
 *     2i + 1  event i is being written        2i + 2  event i is whole
 *
 * A reader keeps what had the same even word before and after.  A writer that was
 * put aside for a whole round finds its slot newer, or in use, and drops its span
 * (not its sums): nobody ever waits.
 *
 * Names are compared by address first, then by text: the same literal may have
 * two addresses.  New ones go into the first empty place, by compare and swap, so
 * no name stands twice.  When all PH_TRACE_NAMES places are taken, spans of further
 * names still enter the ring, but have no sums.
 */
#include "base/trace.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct slot {
    _Atomic uint64_t      mark;
    _Atomic(const char *) name;
    _Atomic uint64_t      begin_ns, end_ns, arg;
    atomic_int            thread;
} slot;

typedef struct sums {
    _Atomic(const char *) name;
    _Atomic uint64_t      n, ns, bucket[PH_TRACE_BUCKETS];
} sums;

typedef struct counter {
    _Atomic(const char *) name;
    _Atomic uint64_t      value;
} counter;

struct ph_trace {
    _Atomic uint64_t head; /* spans ever recorded */
    size_t           n;
    sums             sums[PH_TRACE_NAMES];
    counter          counters[PH_TRACE_NAMES];
    slot             ring[]; /* [n] */
};

#define LOAD(x)     atomic_load_explicit(&(x), memory_order_relaxed)
#define STORE(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)
#define ADD(x, v)   atomic_fetch_add_explicit(&(x), (v), memory_order_relaxed)

ph_rc ph_trace_open(ph_trace **out, size_t spans_max, ph_err *err) {
    *out = NULL;
    if (!spans_max || spans_max > (SIZE_MAX / 2 - sizeof(ph_trace)) / sizeof(slot))
        return PH_FAIL(err, PH_ELIMIT, "trace: a ring of %zu spans", spans_max);
    ph_trace *t = calloc(1, sizeof *t + spans_max * sizeof(slot));
    if (!t) return PH_FAIL(err, PH_ENOMEM, "trace: a ring of %zu spans", spans_max);
    t->n = spans_max;
    *out = t;
    return PH_OK;
}

void ph_trace_close(ph_trace *t) {
    free(t);
}

uint64_t ph_trace_begin(ph_trace *t) {
    return t ? ph_clock_ns() : 0;
}

/* Is `at`, which holds `have`, the place of name?  An empty place becomes it. */
static int is_place_of(_Atomic(const char *) *at, const char *have, const char *name) {
    if (!have &&
        atomic_compare_exchange_strong_explicit(at, &have, name, memory_order_acq_rel, memory_order_acquire))
        return 1;
    return have == name || !strcmp(have, name);
}

static sums *sums_for(ph_trace *t, const char *name) {
    for (int i = 0; i < PH_TRACE_NAMES; i++) {
        const char *have = atomic_load_explicit(&t->sums[i].name, memory_order_acquire);
        if (have == name) return &t->sums[i];
        if (!have) break;
    }
    for (int i = 0; i < PH_TRACE_NAMES; i++) {
        sums *s = &t->sums[i];
        if (is_place_of(&s->name, atomic_load_explicit(&s->name, memory_order_acquire), name)) return s;
    }
    return NULL;
}

static const sums *sums_of(const ph_trace *t, const char *name) {
    for (int i = 0; t && i < PH_TRACE_NAMES; i++) {
        const char *have = atomic_load_explicit(&t->sums[i].name, memory_order_acquire);
        if (!have) return NULL;
        if (have == name || !strcmp(have, name)) return &t->sums[i];
    }
    return NULL;
}

const char *ph_trace_name(const ph_trace *t, size_t i) {
    return t && i < PH_TRACE_NAMES ? atomic_load_explicit(&t->sums[i].name, memory_order_acquire) : NULL;
}

/* Bucket 0 is up to 1 us, bucket b up to 2^b us, the last all that is longer. */
static int bucket_of(uint64_t ns) {
    int b = 0;
    while (b < PH_TRACE_BUCKETS - 1 && ns > UINT64_C(1000) << b) b++;
    return b;
}

static void record(ph_trace *t, const char *name, uint64_t begin_ns, uint64_t end_ns, uint64_t arg) {
    uint64_t i = ADD(t->head, 1);
    slot    *s = &t->ring[i % t->n];
    uint64_t mark = LOAD(s->mark);
    if ((mark & 1) || mark > 2 * i) return;
    if (!atomic_compare_exchange_strong_explicit(&s->mark, &mark, 2 * i + 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return;
    /* Release, so that who sees one of these sees the odd mark too when it looks again. */
    atomic_store_explicit(&s->name, name, memory_order_release);
    atomic_store_explicit(&s->begin_ns, begin_ns, memory_order_release);
    atomic_store_explicit(&s->end_ns, end_ns, memory_order_release);
    atomic_store_explicit(&s->arg, arg, memory_order_release);
    atomic_store_explicit(&s->thread, (int)syscall(SYS_gettid), memory_order_release);
    atomic_store_explicit(&s->mark, 2 * i + 2, memory_order_release);
}

void ph_trace_end(ph_trace *t, const char *name, uint64_t begin_ns, uint64_t arg) {
    if (t) ph_trace_put(t, name, begin_ns, ph_clock_ns(), arg);
}

void ph_trace_put(ph_trace *t, const char *name, uint64_t begin_ns, uint64_t end_ns, uint64_t arg) {
    if (!t) return;
    uint64_t ns = end_ns - begin_ns;
    record(t, name, begin_ns, end_ns, arg);
    sums *s = sums_for(t, name);
    if (!s) return;
    ADD(s->n, 1);
    ADD(s->ns, ns);
    ADD(s->bucket[bucket_of(ns)], 1);
}

size_t ph_trace_spans(const ph_trace *t, ph_span *out, size_t out_max) {
    size_t n = 0;
    if (!t) return 0;
    uint64_t head = atomic_load_explicit(&t->head, memory_order_acquire);
    uint64_t first = head > t->n ? head - t->n : 0;
    if (head - first > out_max) first = head - out_max; /* the newest are the ones to keep */
    for (uint64_t i = first; i < head; i++) {
        const slot *s = &t->ring[i % t->n];
        if (atomic_load_explicit(&s->mark, memory_order_acquire) != 2 * i + 2) continue;
        ph_span span = {
            .name = atomic_load_explicit(&s->name, memory_order_acquire),
            .begin_ns = atomic_load_explicit(&s->begin_ns, memory_order_acquire),
            .end_ns = atomic_load_explicit(&s->end_ns, memory_order_acquire),
            .arg = atomic_load_explicit(&s->arg, memory_order_acquire),
            .thread = atomic_load_explicit(&s->thread, memory_order_acquire),
        };
        if (LOAD(s->mark) == 2 * i + 2) out[n++] = span;
    }
    return n;
}

uint64_t ph_trace_total_ns(const ph_trace *t, const char *name) {
    const sums *s = sums_of(t, name);
    return s ? LOAD(s->ns) : 0;
}

uint64_t ph_trace_count(const ph_trace *t, const char *name) {
    const sums *s = sums_of(t, name);
    return s ? LOAD(s->n) : 0;
}

int ph_trace_histogram(const ph_trace *t, const char *name, uint64_t buckets[PH_TRACE_BUCKETS]) {
    const sums *s = sums_of(t, name);
    for (int b = 0; b < PH_TRACE_BUCKETS; b++) buckets[b] = s ? LOAD(s->bucket[b]) : 0;
    return s != NULL;
}

/* Names stay: they are the same after a reset, and a place taken away could be found by a late writer. */
void ph_trace_reset(ph_trace *t) {
    if (!t) return;
    for (int i = 0; i < PH_TRACE_NAMES; i++) {
        STORE(t->sums[i].n, 0);
        STORE(t->sums[i].ns, 0);
        for (int b = 0; b < PH_TRACE_BUCKETS; b++) STORE(t->sums[i].bucket[b], 0);
        STORE(t->counters[i].value, 0);
    }
    /* The ring goes on counting; what was in it no longer matches any number that a reader asks for. */
    for (size_t i = 0; i < t->n; i++) {
        uint64_t mark = LOAD(t->ring[i].mark);
        if (!(mark & 1))
            atomic_compare_exchange_strong_explicit(&t->ring[i].mark, &mark, 0, memory_order_relaxed,
                                                    memory_order_relaxed);
    }
}

void ph_trace_add(ph_trace *t, const char *name, uint64_t n) {
    if (!t) return;
    for (int i = 0; i < PH_TRACE_NAMES; i++) {
        counter *c = &t->counters[i];
        if (!is_place_of(&c->name, atomic_load_explicit(&c->name, memory_order_acquire), name)) continue;
        ADD(c->value, n);
        return;
    }
}

uint64_t ph_trace_counter(const ph_trace *t, const char *name) {
    for (int i = 0; t && i < PH_TRACE_NAMES; i++) {
        const char *have = atomic_load_explicit(&t->counters[i].name, memory_order_acquire);
        if (!have) return 0;
        if (have == name || !strcmp(have, name)) return LOAD(t->counters[i].value);
    }
    return 0;
}
