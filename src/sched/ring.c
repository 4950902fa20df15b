/* ring.c - a lock, two conditions, and the state of each slot; see ring.h. */
#include "sched/ring.h"

#include "base/mem.h"
#include "base/region.h"

#include <pthread.h>
#include <stdlib.h>

#define SECOND UINT64_C(1000000000)

const uint64_t ph_stay_ns[PH_N_STAYS] = {[PH_STAY_TEXT] = 8 * SECOND,
                                         [PH_STAY_SOUND] = 4 * SECOND,
                                         [PH_STAY_PICTURE] = 2 * SECOND,
                                         [PH_STAY_VIDEO] = SECOND};

typedef enum state { EMPTY, FILLING, QUEUED, READ, KEPT } state;

typedef struct ring_slot {
    state    state;
    ph_stay  what;
    uint64_t over_ns; /* kept: stamp and stay */
    int      holds;
} ring_slot;

struct ph_ring {
    pthread_mutex_t lock;
    pthread_cond_t  given, freed;
    ph_region       memory;
    size_t          slot_bytes, evicted;
    int             n, is_over;
    int             queue[PH_RING_SLOTS_MAX], head, n_queued; /* a slot is queued once at most */
    ring_slot       slot[PH_RING_SLOTS_MAX];
};

ph_rc ph_ring_open(ph_ring **out, int n_slots, size_t slot_bytes, ph_err *err) {
    size_t bytes;
    *out = NULL;
    if (n_slots < 1 || n_slots > PH_RING_SLOTS_MAX)
        return PH_FAIL(err, PH_EUSAGE, "a ring of %d slots; 1 to %d are possible", n_slots,
                       PH_RING_SLOTS_MAX);
    if (ph_mul_over((size_t)n_slots, slot_bytes, &bytes))
        return PH_FAIL(err, PH_ELIMIT, "%d slots of %zu bytes", n_slots, slot_bytes);
    ph_ring *r = calloc(1, sizeof *r);
    if (!r) return PH_FAIL(err, PH_ENOMEM, "a ring's tables");
    r->n = n_slots;
    r->slot_bytes = slot_bytes;
    ph_rc rc = ph_region_open(&r->memory, bytes, err);
    if (rc) {
        free(r);
        return rc;
    }
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->given, NULL);
    pthread_cond_init(&r->freed, NULL);
    *out = r;
    return PH_OK;
}

void ph_ring_close(ph_ring *r) {
    if (!r) return;
    pthread_cond_destroy(&r->freed);
    pthread_cond_destroy(&r->given);
    pthread_mutex_destroy(&r->lock);
    ph_region_close(&r->memory);
    free(r);
}

void *ph_ring_at(const ph_ring *r, int slot) {
    return r->memory.at ? (unsigned char *)r->memory.at + (size_t)slot * r->slot_bytes : NULL;
}
int ph_ring_slots(const ph_ring *r) {
    return r->n;
}

/* An empty slot, else the kept one whose time is over first; -1: all are in use. */
static int find(const ph_ring *r) {
    int best = -1;
    for (int i = 0; i < r->n; i++) {
        const ring_slot *s = &r->slot[i];
        if (s->holds || (s->state != EMPTY && s->state != KEPT)) continue;
        if (s->state == EMPTY) return i;
        if (best < 0 || s->over_ns < r->slot[best].over_ns) best = i;
    }
    return best;
}

int ph_ring_claim(ph_ring *r) {
    int found;
    pthread_mutex_lock(&r->lock);
    while ((found = find(r)) < 0) pthread_cond_wait(&r->freed, &r->lock);
    r->evicted += r->slot[found].state == KEPT;
    r->slot[found].state = FILLING;
    pthread_mutex_unlock(&r->lock);
    return found;
}

void ph_ring_give(ph_ring *r, int slot, ph_stay what) {
    pthread_mutex_lock(&r->lock);
    r->slot[slot].state = QUEUED;
    r->slot[slot].what = what;
    r->queue[(r->head + r->n_queued++) % PH_RING_SLOTS_MAX] = slot;
    pthread_cond_signal(&r->given);
    pthread_mutex_unlock(&r->lock);
}

void ph_ring_end(ph_ring *r) {
    pthread_mutex_lock(&r->lock);
    r->is_over = 1;
    pthread_cond_broadcast(&r->given);
    pthread_mutex_unlock(&r->lock);
}

int ph_ring_take(ph_ring *r) {
    int found = -1;
    pthread_mutex_lock(&r->lock);
    while (!r->n_queued && !r->is_over) pthread_cond_wait(&r->given, &r->lock);
    if (r->n_queued) {
        found = r->queue[r->head];
        r->head = (r->head + 1) % PH_RING_SLOTS_MAX;
        r->n_queued--;
        r->slot[found].state = READ;
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

static void let_go(ph_ring *r, int slot, state to, uint64_t over_ns) {
    pthread_mutex_lock(&r->lock);
    r->slot[slot].state = to;
    r->slot[slot].over_ns = over_ns;
    pthread_cond_signal(&r->freed);
    pthread_mutex_unlock(&r->lock);
}

void ph_ring_keep(ph_ring *r, int slot, uint64_t now_ns) {
    let_go(r, slot, KEPT, now_ns + ph_stay_ns[r->slot[slot].what]);
}
void ph_ring_empty(ph_ring *r, int slot) {
    let_go(r, slot, EMPTY, 0);
}

static void hold(ph_ring *r, int slot, int more) {
    pthread_mutex_lock(&r->lock);
    r->slot[slot].holds += more;
    pthread_cond_signal(&r->freed);
    pthread_mutex_unlock(&r->lock);
}

void ph_ring_hold(ph_ring *r, int slot) {
    hold(r, slot, 1);
}
void ph_ring_drop(ph_ring *r, int slot) {
    hold(r, slot, -1);
}

void ph_ring_begin(ph_ring *r) {
    pthread_mutex_lock(&r->lock);
    r->is_over = r->n_queued = 0;
    for (int i = 0; i < r->n; i++) {
        r->slot[i].holds = 0;
        if (r->slot[i].state != KEPT) r->slot[i].state = EMPTY;
    }
    pthread_mutex_unlock(&r->lock);
}

size_t ph_ring_evicted(const ph_ring *r) {
    return r->evicted;
}
