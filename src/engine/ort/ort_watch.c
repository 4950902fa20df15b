/* ort_watch.c - the caller's flag becomes ORT's: a thread looks at it every millisecond while a run lasts,
 * and sleeps otherwise. */
#include "engine/ort/ort_session_impl.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { LOOK_NS = 1000 * 1000 };

struct ph_ort_watch {
    const ph_ort_api *api;
    ort_run_options  *options;
    pthread_t         thread;
    pthread_mutex_t   lock;
    pthread_cond_t    changed;
    const atomic_int *cancel; /* NULL: no run */
    int               was_told, is_over;
};

static void wait_a_little(ph_ort_watch *w) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_NS;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&w->changed, &w->lock, &until);
}

static void *watch(void *arg) {
    ph_ort_watch *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->is_over) {
        if (w->cancel && !w->was_told && atomic_load(w->cancel)) {
            w->was_told = 1;
            (void)ph_ort_take(w->api, w->api->RunOptionsSetTerminate(w->options), "ending a run", NULL);
        }
        if (w->cancel && !w->was_told)
            wait_a_little(w);
        else
            pthread_cond_wait(&w->changed, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static int start(ph_ort_watch *w) {
    pthread_condattr_t attr;
    sigset_t           all, before;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&w->thread, NULL, watch, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static void drop(ph_ort_watch *w) {
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

ph_rc ph_ort_watch_open(ph_ort_watch **out, const ph_ort_api *api, ort_run_options *options, ph_err *err) {
    ph_ort_watch *w = calloc(1, sizeof *w);
    if (!w) return PH_FAIL(err, PH_ENOMEM, "a watch over a flag");
    w->api = api;
    w->options = options;
    if (start(w)) {
        drop(w);
        return PH_FAIL(err, PH_EMACHINE, "no thread for a watch over a flag");
    }
    *out = w;
    return PH_OK;
}

void ph_ort_watch_close(ph_ort_watch *w) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->is_over = 1;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    drop(w);
}

void ph_ort_watch_begin(ph_ort_watch *w, const atomic_int *cancel) {
    pthread_mutex_lock(&w->lock);
    w->cancel = cancel;
    w->was_told = 0;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

int ph_ort_watch_end(ph_ort_watch *w) {
    pthread_mutex_lock(&w->lock);
    w->cancel = NULL;
    int was_told = w->was_told;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return was_told;
}
