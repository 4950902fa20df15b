/* ring_test.c - order, eviction by time stamp and stay, holds; and two threads that hand slots over. */
#include "sched/ring.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static ph_ring *ring(int n, size_t bytes) {
    ph_err   e = {0};
    ph_ring *r = NULL;
    CHECK_SAY(!ph_ring_open(&r, n, bytes, &e), "%s", e.msg);
    return r;
}

void test_ring_order(void) {
    ph_ring *r = ring(3, 100);
    int      a = ph_ring_claim(r), b = ph_ring_claim(r), c = ph_ring_claim(r);
    CHECK(a == 0 && b == 1 && c == 2);
    CHECK((char *)ph_ring_at(r, 2) - (char *)ph_ring_at(r, 0) == 200); /* one buffer, no gaps */
    ph_ring_give(r, b, PH_STAY_PICTURE);
    ph_ring_give(r, c, PH_STAY_PICTURE);
    ph_ring_give(r, a, PH_STAY_PICTURE);
    ph_ring_end(r);
    CHECK(ph_ring_take(r) == b && ph_ring_take(r) == c && ph_ring_take(r) == a && ph_ring_take(r) == -1);
    ph_ring_keep(r, a, 1);
    ph_ring_empty(r, b);
    ph_ring_begin(r); /* what was kept stays, what was read is empty */
    CHECK(ph_ring_claim(r) == b && ph_ring_claim(r) == c && ph_ring_claim(r) == a && ph_ring_evicted(r) == 1);
    ph_ring_close(r);
}

/* Keep slots of these kinds at these seconds, then see in which order they are evicted. */
static void evicts(const ph_stay *what, const double *at, int n, const int *want, const char *about) {
    ph_ring *r = ring(n, 8);
    for (int i = 0; i < n; i++) ph_ring_give(r, ph_ring_claim(r), what[i]);
    for (int i = 0; i < n; i++) ph_ring_keep(r, ph_ring_take(r), (uint64_t)(at[i] * 1e9));
    for (int i = 0; i < n; i++) {
        int got = ph_ring_claim(r);
        CHECK_SAY(got == want[i], "%s: slot %d is evicted as number %d, not %d", about, got, i, want[i]);
    }
    CHECK(ph_ring_evicted(r) == (size_t)n);
    ph_ring_close(r);
}

void test_ring_evicts(void) {
    static const ph_stay pictures[] = {PH_STAY_PICTURE, PH_STAY_PICTURE, PH_STAY_PICTURE};
    static const ph_stay mixed[] = {PH_STAY_TEXT, PH_STAY_SOUND, PH_STAY_PICTURE, PH_STAY_VIDEO};
    evicts(pictures, (const double[]){3, 1, 2}, 3, (const int[]){1, 2, 0}, "oldest first");
    evicts(pictures, (const double[]){1, 1, 1}, 3, (const int[]){0, 1, 2}, "of one time, the lower slot");
    evicts(mixed, (const double[]){1, 1, 1, 1}, 4, (const int[]){3, 2, 1, 0}, "low latency stays longest");
    evicts(mixed, (const double[]){0, 3.9, 5, 8}, 4, (const int[]){2, 1, 0, 3}, "but not for ever");
    for (int i = 1; i < PH_N_STAYS; i++) CHECK(ph_stay_ns[i] < ph_stay_ns[i - 1] && ph_stay_ns[i] > 0);
}

void test_ring_holds(void) {
    ph_ring *r = ring(2, 8);
    int      a = ph_ring_claim(r);
    ph_ring_give(r, a, PH_STAY_PICTURE);
    ph_ring_keep(r, ph_ring_take(r), SECOND);
    int b = ph_ring_claim(r);
    ph_ring_hold(r, a); /* b's pictures stand in a */
    ph_ring_give(r, b, PH_STAY_PICTURE);
    CHECK(ph_ring_take(r) == b);
    ph_ring_keep(r, b, 2 * SECOND);
    CHECK(ph_ring_claim(r) == b); /* though a is older */
    ph_ring_drop(r, a);
    CHECK(ph_ring_claim(r) == a);
    ph_ring_close(r);
}

/* Writes its number all over each slot; the other side must find it whole, and in order. */
enum { ROUNDS = 2000, WORDS = 64 };
static void *writer(void *arg) {
    ph_ring *r = arg;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        int       s = ph_ring_claim(r);
        uint32_t *at = ph_ring_at(r, s);
        for (int k = 0; k < WORDS; k++) at[k] = i;
        ph_ring_give(r, s, (ph_stay)(i % PH_N_STAYS));
    }
    ph_ring_end(r);
    return NULL;
}

void test_ring_threads(void) {
    for (int n = 1; n <= 3; n++) {
        ph_ring  *r = ring(n, WORDS * sizeof(uint32_t));
        pthread_t t;
        uint32_t  seen = 0, wrong = 0;
        int       s;
        CHECK(!pthread_create(&t, NULL, writer, r));
        while ((s = ph_ring_take(r)) >= 0) {
            const uint32_t *at = ph_ring_at(r, s);
            for (int k = 0; k < WORDS; k++) wrong += at[k] != seen;
            seen++;
            if (seen % 3)
                ph_ring_keep(r, s, seen);
            else
                ph_ring_empty(r, s);
        }
        pthread_join(t, NULL);
        CHECK_SAY(seen == ROUNDS && !wrong, "%d slots: %u came, %u words were not theirs", n, seen, wrong);
        ph_ring_close(r);
    }
}

void test_ring_refuses(void) {
    ph_err   e = {0};
    ph_ring *r;
    CHECK(ph_ring_open(&r, 0, 8, &e) == PH_EUSAGE && !r && strstr(e.msg, "0 slots"));
    CHECK(ph_ring_open(&r, PH_RING_SLOTS_MAX + 1, 8, &e) == PH_EUSAGE && !r);
    CHECK(ph_ring_open(&r, 3, SIZE_MAX / 2, &e) == PH_ELIMIT && !r);
    r = ring(2, 0); /* of models that see nothing */
    CHECK(ph_ring_at(r, 1) == NULL && ph_ring_claim(r) == 0);
    ph_ring_close(r);
    ph_ring_close(NULL);
}
