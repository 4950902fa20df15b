/* ahead.c - a thread that says MADV_WILLNEED, see ahead.h. */
#include "base/ahead.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, PIECE = 1 << 20 };

struct ph_ahead {
    pthread_t       thread;
    int             has_thread;
    atomic_int      is_cancelled, is_over;
    atomic_size_t   asked;
    size_t          n, first, most;
    ph_ahead_range *range; /* [n] */
};

/* One range, as far as `most` allows; 0: it is time to stop. */
static int ask(ph_ahead *a, const ph_ahead_range *r) {
    uintptr_t at = (uintptr_t)r->at / PAGE * PAGE, end = (uintptr_t)r->at + r->n;
    while (at < end) {
        size_t piece = end - at < PIECE ? end - at : PIECE, asked = atomic_load(&a->asked);
        if (atomic_load(&a->is_cancelled) || asked + piece > a->most) return 0;
        /* What cannot be read ahead is read when it is used: no error. */
        madvise((void *)at, piece, MADV_WILLNEED);
        atomic_store(&a->asked, asked + piece);
        at += piece;
    }
    return 1;
}

static void *work(void *arg) {
    ph_ahead *a = arg;
    for (size_t i = a->first; i < a->n; i++)
        if (!ask(a, &a->range[i])) break;
    atomic_store(&a->is_over, 1);
    return NULL;
}

ph_rc ph_ahead_open(ph_ahead **out, const ph_ahead_range *range, size_t n, size_t first, size_t most,
                    ph_err *err) {
    ph_ahead *a = calloc(1, sizeof *a);
    *out = NULL;
    if (a) a->range = calloc(n ? n : 1, sizeof *range);
    if (!a || !a->range) {
        free(a);
        return PH_FAIL(err, PH_ENOMEM, "a list of %zu ranges to read ahead", n);
    }
    a->n = n, a->first = first < n ? first : n, a->most = most;
    if (n) memcpy(a->range, range, n * sizeof *range);
    int goes_on = 1;
    for (size_t i = 0; goes_on && i < a->first; i++) goes_on = ask(a, &a->range[i]);
    if (!goes_on || a->first == n) {
        atomic_store(&a->is_over, 1);
    } else if (pthread_create(&a->thread, NULL, work, a)) {
        ph_ahead_close(a);
        return PH_FAIL(err, PH_ENOMEM, "a thread that reads ahead");
    } else {
        a->has_thread = 1;
    }
    *out = a;
    return PH_OK;
}

void ph_ahead_close(ph_ahead *a) {
    if (!a) return;
    atomic_store(&a->is_cancelled, 1);
    if (a->has_thread) pthread_join(a->thread, NULL);
    free(a->range);
    free(a);
}

size_t ph_ahead_asked(const ph_ahead *a) {
    return atomic_load(&a->asked);
}

int ph_ahead_is_over(const ph_ahead *a) {
    return atomic_load(&a->is_over);
}
