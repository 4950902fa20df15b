/* ort_env.c - one environment: opened by the first handle, closed with the last.
 *
 * ORT itself keeps one a process, whatever is asked for.  So its pool is as large as the first handle wanted;
 * sessions of a handle that wants another number have threads of their own.
 */
#include "engine/ort/ort_env.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct shared {
    pthread_mutex_t lock;
    int             n_handles, threads;
    ort_env        *env;
    ort_place      *cpu; /* its allocator's, so it stays as long as env */
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- threads ---- */

static atomic_int n_threads;

typedef struct worker {
    pthread_t thread;
    void (*work)(void *);
    void *arg;
} worker;

static void *run_worker(void *arg) {
    worker *w = arg;
    w->work(w->arg);
    return NULL;
}

/* As ORT's own would be, but counted, and signals go to the program's threads. */
static void *start_worker(void *arg, void (*work)(void *), void *work_arg) {
    sigset_t all, before;
    worker  *w = malloc(sizeof *w);
    (void)arg;
    if (!w) return NULL;
    *w = (worker){.work = work, .arg = work_arg};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&w->thread, NULL, run_worker, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        free(w);
        return NULL;
    }
    atomic_fetch_add(&n_threads, 1);
    return w;
}

static void join_worker(void *thread) {
    worker *w = thread;
    pthread_join(w->thread, NULL);
    atomic_fetch_sub(&n_threads, 1);
    free(w);
}

int ph_ort_threads(void) {
    return atomic_load(&n_threads);
}

/* The library prints nothing: what matters comes as a status. */
static void ignore(void *arg, int severity, const char *category, const char *id, const char *where,
                   const char *message) {
    (void)arg, (void)severity, (void)category, (void)id, (void)where, (void)message;
}

/* ---- the environment ---- */

static ph_rc set_threads(const ph_ort_api *api, ort_threading *o, int threads, ph_err *err) {
    static const char doing[] = "setting up threads";
    PH_TRY(ph_ort_take(api, api->SetGlobalIntraOpNumThreads(o, threads), doing, err));
    PH_TRY(ph_ort_take(api, api->SetGlobalInterOpNumThreads(o, 1), doing, err));
    PH_TRY(ph_ort_take(api, api->SetGlobalSpinControl(o, 0), doing, err));
    PH_TRY(ph_ort_take(api, api->SetGlobalCustomThreadCreationOptions(o, NULL), doing, err));
    PH_TRY(ph_ort_take(api, api->SetGlobalCustomCreateThreadFn(o, start_worker), doing, err));
    return ph_ort_take(api, api->SetGlobalCustomJoinThreadFn(o, join_worker), doing, err);
}

static ph_rc open_env(const ph_ort_api *api, int threads, ph_err *err) {
    ort_threading *o = NULL;
    PH_TRY(ph_ort_take(api, api->CreateThreadingOptions(&o), "setting up threads", err));
    ph_rc rc = set_threads(api, o, threads, err);
    if (!rc)
        rc = ph_ort_take(api,
                         api->CreateEnvWithCustomLoggerAndGlobalThreadPools(ignore, NULL, PH_ORT_LOG_FATAL,
                                                                            "pinhole", o, &the.env),
                         "opening its environment", err);
    api->ReleaseThreadingOptions(o);
    if (!rc) rc = ph_ort_take(api, api->DisableTelemetryEvents(the.env), "keeping it quiet", err);
    if (!rc)
        rc = ph_ort_take(
            api, api->CreateMemoryInfo("Cpu", PH_ORT_ALLOCATOR_DEVICE, 0, PH_ORT_MEMORY_DEFAULT, &the.cpu),
            "naming the host's memory", err);
    if (!rc)
        rc = ph_ort_take(api, api->RegisterAllocator(the.env, ph_ort_allocator(api, the.cpu)),
                         "registering an allocator", err);
    the.threads = threads;
    return rc;
}

static void close_env(const ph_ort_api *api) {
    if (the.env) {
        ph_ort_ep_forget(api, the.env);
        api->ReleaseEnv(the.env);
    }
    if (the.cpu) api->ReleaseMemoryInfo(the.cpu);
    the.env = NULL;
    the.cpu = NULL;
}

ph_rc ph_ort_open(ph_ort **ort, int threads, ph_err *err) {
    const ph_ort_api *api;
    ph_rc             rc = PH_OK;
    *ort = NULL;
    PH_TRY(ph_ort_api_get(&api, err));
    ph_ort *o = calloc(1, sizeof *o);
    if (!o) return PH_FAIL(err, PH_ENOMEM, "a handle of ONNX Runtime");
    threads = threads < 1 ? 1 : threads;
    pthread_mutex_lock(&the.lock);
    if (!the.n_handles) rc = open_env(api, threads, err);
    if (!rc)
        the.n_handles++;
    else
        close_env(api);
    *o = (ph_ort){api, the.env, the.cpu, threads, the.threads == threads};
    pthread_mutex_unlock(&the.lock);
    if (rc)
        free(o);
    else
        *ort = o;
    return rc;
}

void ph_ort_close(ph_ort *ort) {
    if (!ort) return;
    pthread_mutex_lock(&the.lock);
    if (!--the.n_handles) close_env(ort->api);
    pthread_mutex_unlock(&the.lock);
    free(ort);
}
