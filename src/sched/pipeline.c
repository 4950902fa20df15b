/* pipeline.c - the sides of the corridor and what stands between them, see pipeline.h.
 *
 * A turn belongs to one side at a time.  With a ring alone: to the seeing side from claim to give, to the
 * answering side from take to keep.  The seeing side also looks at which pictures other turns have seen; that
 * is written by itself only.  What is prepared ahead has no slot yet: one turn more than there are slots,
 * which waits between two sides.  When it is seen it succeeds the turn whose slot was claimed, and that one
 * is prepared into next.
 *
 * The sequence is a turn's own (`home`) between two questions, so that no turn of the ring holds it while it
 * sees.
 */
#include "sched/pipeline.h"

#include "base/clock.h"
#include "sched/ring.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A question on its way. */
typedef struct item {
    size_t   index;
    ph_stay  what;
    ph_rc    rc; /* of the sides before the answer */
    ph_err   err;
    uint64_t borrows;
} item;

/* Between the side that prepares and the one that sees: one question at most. */
typedef enum ahead_state { AHEAD_EMPTY, AHEAD_READY, AHEAD_OVER } ahead_state;

struct ph_pipeline {
    ph_session              *session;
    ph_ring                 *ring;
    ph_turn                 *home;
    item                     item[PH_RING_SLOTS_MAX]; /* [n], of each slot */
    ph_turn                 *turn[PH_RING_SLOTS_MAX]; /* [n], whose features stand in it */
    int                      n;
    item                     next_item;
    ph_turn                 *next_turn; /* without a slot; NULL: nothing is prepared ahead */
    ahead_state              state;
    pthread_mutex_t          lock;
    pthread_cond_t           changed; /* the state */
    const ph_pipeline_calls *calls;
    size_t                   n_begun;
    atomic_int               is_stopping;
};

static ph_rc open_turns(ph_pipeline *p, ph_err *err) {
    size_t bytes = ph_session_features_bytes(p->session), rows = ph_session_features_rows(p->session);
    PH_TRY(ph_turn_open(&p->home, p->session, err));
    for (int i = 0; i < p->n; i++) {
        PH_TRY(ph_turn_open_beside(&p->turn[i], p->session, err));
        if (bytes)
            ph_turn_lend(p->turn[i], ph_ring_at(p->ring, 0), (size_t)i * rows, p->turn, (size_t)p->n,
                         (size_t)i);
    }
    return ph_session_ahead(p->session) ? ph_turn_open_beside(&p->next_turn, p->session, err) : PH_OK;
}

ph_rc ph_pipeline_open(ph_pipeline **out, ph_session *s, ph_err *err) {
    ph_pipeline *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p) return PH_FAIL(err, PH_ENOMEM, "a pipeline's tables");
    p->session = s;
    p->n = ph_session_beside(s) ? ph_session_beside(s) : 1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    ph_rc rc = ph_ring_open(&p->ring, p->n, ph_session_features_bytes(s), err);
    if (!rc) rc = open_turns(p, err);
    if (rc) {
        ph_pipeline_close(p);
        return rc;
    }
    *out = p;
    return PH_OK;
}

void ph_pipeline_close(ph_pipeline *p) {
    if (!p) return;
    for (int i = 0; i < PH_RING_SLOTS_MAX; i++) ph_turn_close(p->turn[i]);
    ph_turn_close(p->next_turn);
    ph_turn_close(p->home);
    ph_ring_close(p->ring);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* ---- preparing ---- */

static ph_stay stay_of(const ph_question *q) {
    if (!q) return PH_STAY_TEXT;
    if (q->sound) return PH_STAY_SOUND;
    for (size_t i = 0; i < q->n_pictures; i++)
        if (q->pictures[i].n_frames > 1 || q->pictures[i].is_video) return PH_STAY_VIDEO;
    return q->n_pictures ? PH_STAY_PICTURE : PH_STAY_TEXT;
}

/* The next question, up to its prepared pictures; 0: there is none. */
static int begin_next(ph_pipeline *p, ph_turn *t, item *it) {
    const ph_question *q = NULL;
    memset(&it->err, 0, sizeof it->err);
    int got = atomic_load(&p->is_stopping) ? 0 : p->calls->next(p->calls->arg, p->n_begun, &q, &it->err);
    if (!got) return 0;
    it->index = p->n_begun++;
    it->borrows = 0;
    it->what = stay_of(q);
    it->rc = got < 0 ? (ph_rc)got : ph_turn_begin(t, q, &it->err);
    if (!it->rc) it->rc = ph_turn_walk_until(t, PH_STAGE_see, &it->err);
    return 1;
}

static void set_state(ph_pipeline *p, ahead_state to) {
    pthread_mutex_lock(&p->lock);
    p->state = to;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* Wait while it is `as`; what it is then. */
static ahead_state await(ph_pipeline *p, ahead_state as, const char *what) {
    ph_trace *trace = ph_session_trace(p->session);
    uint64_t  begin = ph_trace_begin(trace);
    pthread_mutex_lock(&p->lock);
    while (p->state == as) pthread_cond_wait(&p->changed, &p->lock);
    ahead_state now = p->state;
    pthread_mutex_unlock(&p->lock);
    ph_trace_end(trace, what, begin, 0);
    return now;
}

static void *prepare_all(void *arg) {
    ph_pipeline *p = arg;
    for (;;) {
        await(p, AHEAD_READY, "await place");
        if (!begin_next(p, p->next_turn, &p->next_item)) break;
        set_state(p, AHEAD_READY);
    }
    set_state(p, AHEAD_OVER);
    return NULL;
}

/* ---- seeing ---- */

static int claim(ph_pipeline *p) {
    ph_trace *trace = ph_session_trace(p->session);
    uint64_t  begin = ph_trace_begin(trace);
    int       slot = ph_ring_claim(p->ring);
    ph_trace_end(trace, "await slot", begin, 0);
    return slot;
}

/* What was prepared ahead takes the place of a slot's turn, which is prepared into next; -1: nothing comes.
 */
static int take_prepared(ph_pipeline *p) {
    if (await(p, AHEAD_EMPTY, "await question") == AHEAD_OVER) return -1;
    int      slot = claim(p);
    ph_turn *before = p->turn[slot];
    ph_turn_succeed(p->next_turn, before);
    p->turn[slot] = p->next_turn;
    p->item[slot] = p->next_item;
    p->next_turn = before;
    set_state(p, AHEAD_EMPTY);
    return slot;
}

static int take_new(ph_pipeline *p) {
    int slot = claim(p);
    if (begin_next(p, p->turn[slot], &p->item[slot])) return slot;
    ph_ring_empty(p->ring, slot);
    return -1;
}

/* The next question into a free slot, up to where its features stand; 0: there is none. */
static int see_next(ph_pipeline *p) {
    int slot = p->next_turn ? take_prepared(p) : take_new(p);
    if (slot < 0) return 0;
    item *it = &p->item[slot];
    if (!it->rc && !atomic_load(&p->is_stopping)) {
        it->rc = ph_turn_walk_until(p->turn[slot], PH_STAGE_splice, &it->err);
        it->borrows = ph_turn_borrows(p->turn[slot]);
    }
    for (int i = 0; i < p->n; i++)
        if (it->borrows >> i & 1) ph_ring_hold(p->ring, i);
    ph_ring_give(p->ring, slot, it->what);
    return 1;
}

static void *see_all(void *arg) {
    ph_pipeline *p = arg;
    while (see_next(p)) continue;
    ph_ring_end(p->ring);
    return NULL;
}

/* ---- answering ---- */

static ph_rc answer(ph_pipeline *p, item *it, ph_turn *t, ph_answer *out) {
    if (!it->rc && atomic_load(&p->is_stopping))
        it->rc = PH_FAIL(&it->err, PH_ECANCEL, "not answered: the run was ended before it");
    else if (!it->rc) {
        ph_turn_swap_cache(t, p->home);
        it->rc = ph_turn_walk_until(t, PH_STAGE_done, &it->err);
        it->rc = ph_turn_end(t, it->rc, out);
        ph_turn_swap_cache(t, p->home);
        return it->rc;
    }
    if (it->rc == PH_ECANCEL && !atomic_load(&p->is_stopping)) /* while it was seen: an empty answer */
        return ph_turn_end(t, it->rc, out);
    ph_turn_abandon(t);
    return it->rc;
}

static void finish(ph_pipeline *p, int slot) {
    item     *it = &p->item[slot];
    ph_answer a = {0};
    ph_rc     rc = answer(p, it, p->turn[slot], &a);
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

/* ---- sides ---- */

/* Signals are the program's business: they go to its own threads. */
static ph_rc start(ph_pipeline *p, pthread_t *thread, void *side(void *), ph_err *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = pthread_create(thread, NULL, side, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e ? PH_FAIL(err, PH_EMACHINE, "a thread beside the answers: %s", strerror(e)) : PH_OK;
}

/* The sides from seeing on: in this thread, or seeing in one of its own. */
static ph_rc run_rest(ph_pipeline *p, ph_err *err) {
    pthread_t thread;
    if (!ph_session_beside(p->session)) {
        while (see_next(p)) finish(p, ph_ring_take(p->ring));
        return PH_OK;
    }
    PH_TRY(start(p, &thread, see_all, err));
    while (answer_next(p)) continue;
    pthread_join(thread, NULL);
    return PH_OK;
}

ph_rc ph_pipeline_run(ph_pipeline *p, const ph_pipeline_calls *calls, ph_err *err) {
    pthread_t thread;
    p->calls = calls;
    p->n_begun = 0;
    p->state = AHEAD_EMPTY;
    atomic_store(&p->is_stopping, 0);
    ph_ring_begin(p->ring);
    if (!p->next_turn) return run_rest(p, err);
    PH_TRY(start(p, &thread, prepare_all, err));
    ph_rc rc = run_rest(p, err);
    if (rc) { /* nobody takes what is prepared: one question was begun at most, and is not told of */
        atomic_store(&p->is_stopping, 1);
        await(p, AHEAD_EMPTY, "await question");
        set_state(p, AHEAD_EMPTY);
    }
    pthread_join(thread, NULL);
    return rc;
}
