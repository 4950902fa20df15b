/* profile_impl.h - what the files of profile share.  Only src/measure/profile*.c includes this. */
#ifndef PH_MEASURE_PROFILE_IMPL_H
#define PH_MEASURE_PROFILE_IMPL_H

#include "measure/bench_impl.h"
#include "measure/profile.h"

typedef struct ph_profiling {
    ph_profile               *out;
    const ph_profile_options *how;
    ph_bench_options          options; /* as bench is asked for its rounds */
    ph_bench                  bench;
    ph_benching               b;     /* its sessions are engines here, not numbers of threads */
    ph_route                  route; /* of a plan only: which engine can take what */
    size_t                    engine[PH_BENCH_THREADS_MAX]; /* [n] of session i: its place in route */
    size_t                    n;
    ph_syms                   size[PH_N_COST_STAGES];
} ph_profiling;

const char        *ph_profile_part(ph_cost_stage stage);
ph_session_options ph_profile_session(const ph_profiling *p, size_t i);
int ph_profile_runs(const ph_profiling *p, ph_cost_stage stage, size_t i); /* is it session i's own engine? */
void ph_profile_forget(ph_profiling *p);                                   /* close the sessions */

/* profile_kinds.c: costs.kind */
ph_rc ph_profile_kinds(ph_profiling *p, ph_err *err);
/* profile_spans.c: span */
ph_rc ph_profile_spans(ph_profiling *p, ph_err *err);

#endif
