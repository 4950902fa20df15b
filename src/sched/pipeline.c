/* pipeline.c - two sides of the corridor and the ring between them, see pipeline.h.
 *
 * A turn belongs to one side at a time: to the seeing side from claim to give, to the answering side from
 * take to keep.  The seeing side also looks at which pictures other turns have seen; that is written by
 * itself only. The sequence is a turn's own (`home`) between two questions, so that no turn of the ring holds
 * it while it sees.
 */
#include "sched/pipeline.h"

#include "base/clock.h"
#include "sched/ring.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What is on its way in a slot. */
typedef struct item {
    ph_turn *turn;
    size_t   index;
    ph_rc    rc; /* of the seeing side */
    ph_err   err;
    uint64_t borrows;
} item;

struct ph_pipeline {
    ph_session              *session;
    ph_ring                 *ring;
    ph_turn                 *home;
    item                     item[PH_RING_SLOTS_MAX]; /* [n] */
    int                      n;
    const ph_pipeline_calls *calls;
    size_t                   n_begun;
    atomic_int               is_stopping;
};

ph_rc ph_pipeline_open(ph_pipeline **out, ph_session *s, ph_err *err) {
    ph_pipeline *p = calloc(1, sizeof *p);
    ph_turn     *turns[PH_RING_SLOTS_MAX];
    int          n = ph_session_beside(s) ? ph_session_beside(s) : 1;
    size_t       bytes = ph_session_features_bytes(s);
    *out = NULL;
    if (!p) return PH_FAIL(err, PH_ENOMEM, "a pipeline's tables");
    p->session = s;
    ph_rc rc = ph_ring_open(&p->ring, n, bytes, err);
    if (!rc) rc = ph_turn_open(&p->home, s, err);
    for (; !rc && p->n < n; p->n++) {
        rc = ph_turn_open_beside(&p->item[p->n].turn, s, err);
        turns[p->n] = p->item[p->n].turn;
        if (rc) break;
    }
    for (int i = 0; !rc && bytes && i < n; i++)
        ph_turn_lend(turns[i], ph_ring_at(p->ring, 0), (size_t)i * ph_session_features_rows(s), turns,
                     (size_t)n);
    if (rc) {
        ph_pipeline_close(p);
        return rc;
    }
    *out = p;
    return PH_OK;
}

void ph_pipeline_close(ph_pipeline *p) {
    if (!p) return;
    for (int i = 0; i < p->n; i++) ph_turn_close(p->item[i].turn);
    ph_turn_close(p->home);
    ph_ring_close(p->ring);
    free(p);
}

/* ---- seeing ---- */

static ph_stay stay_of(const ph_question *q) {
    if (!q) return PH_STAY_TEXT;
    if (q->sound) return PH_STAY_SOUND;
    for (size_t i = 0; i < q->n_pictures; i++)
        if (q->pictures[i].n_frames > 1 || q->pictures[i].is_video) return PH_STAY_VIDEO;
    return q->n_pictures ? PH_STAY_PICTURE : PH_STAY_TEXT;
}

/* The next question into a free slot, up to where its features stand; 0: there is none. */
static int see_next(ph_pipeline *p) {
    ph_trace *trace = ph_session_trace(p->session);
    uint64_t  begin = ph_trace_begin(trace);
    int       slot = ph_ring_claim(p->ring);
    item     *it = &p->item[slot];
    ph_trace_end(trace, "await slot", begin, 0);
    const ph_question *q = NULL;
    memset(&it->err, 0, sizeof it->err);
    int got = atomic_load(&p->is_stopping) ? 0 : p->calls->next(p->calls->arg, p->n_begun, &q, &it->err);
    if (!got) {
        ph_ring_empty(p->ring, slot);
        return 0;
    }
    it->index = p->n_begun++;
    it->borrows = 0;
    it->rc = got < 0 ? (ph_rc)got : ph_turn_begin(it->turn, q, &it->err);
    if (!it->rc) {
        it->rc = ph_turn_walk_until(it->turn, PH_STAGE_splice, &it->err);
        it->borrows = ph_turn_borrows(it->turn);
    }
    for (int i = 0; i < p->n; i++)
        if (it->borrows >> i & 1) ph_ring_hold(p->ring, i);
    ph_ring_give(p->ring, slot, stay_of(q));
    return 1;
}

static void *see_all(void *arg) {
    ph_pipeline *p = arg;
    while (see_next(p)) continue;
    ph_ring_end(p->ring);
    return NULL;
}

/* ---- answering ---- */

static ph_rc answer(ph_pipeline *p, item *it, ph_answer *out) {
    if (!it->rc && atomic_load(&p->is_stopping))
        it->rc = PH_FAIL(&it->err, PH_ECANCEL, "not answered: the run was ended before it");
    else if (!it->rc) {
        ph_turn_swap_cache(it->turn, p->home);
        it->rc = ph_turn_walk_until(it->turn, PH_STAGE_done, &it->err);
        it->rc = ph_turn_end(it->turn, it->rc, out);
        ph_turn_swap_cache(it->turn, p->home);
        return it->rc;
    }
    if (it->rc == PH_ECANCEL && !atomic_load(&p->is_stopping)) /* while it was seen: an empty answer */
        return ph_turn_end(it->turn, it->rc, out);
    ph_turn_abandon(it->turn);
    return it->rc;
}

static void finish(ph_pipeline *p, int slot) {
    item     *it = &p->item[slot];
    ph_answer a = {0};
    ph_rc     rc = answer(p, it, &a);
    if (p->calls->done(p->calls->arg, it->index, rc, rc ? NULL : &a, &it->err))
        atomic_store(&p->is_stopping, 1);
    for (int i = 0; i < p->n; i++)
        if (it->borrows >> i & 1) ph_ring_drop(p->ring, i);
    if (rc || !a.image_tokens)
        ph_ring_empty(p->ring, slot);
    else
        ph_ring_keep(p->ring, slot, ph_clock_ns());
}

static int answer_next(ph_pipeline *p) {
    ph_trace *trace = ph_session_trace(p->session);
    uint64_t  begin = ph_trace_begin(trace);
    int       slot = ph_ring_take(p->ring);
    ph_trace_end(trace, "await picture", begin, 0);
    if (slot < 0) return 0;
    finish(p, slot);
    return 1;
}

/* Signals are the program's business: they go to its own threads. */
static ph_rc start(ph_pipeline *p, pthread_t *thread, ph_err *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = pthread_create(thread, NULL, see_all, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e ? PH_FAIL(err, PH_EMACHINE, "a thread that sees: %s", strerror(e)) : PH_OK;
}

ph_rc ph_pipeline_run(ph_pipeline *p, const ph_pipeline_calls *calls, ph_err *err) {
    pthread_t thread;
    p->calls = calls;
    p->n_begun = 0;
    atomic_store(&p->is_stopping, 0);
    ph_ring_begin(p->ring);
    if (!ph_session_beside(p->session)) {
        while (see_next(p)) finish(p, ph_ring_take(p->ring));
        return PH_OK;
    }
    PH_TRY(start(p, &thread, err));
    while (answer_next(p)) continue;
    pthread_join(thread, NULL);
    return PH_OK;
}
