/* ort_session_impl.h - what a session holds.  Only engine/ort/ includes this. */
#ifndef PH_ENGINE_ORT_ORT_SESSION_IMPL_H
#define PH_ENGINE_ORT_ORT_SESSION_IMPL_H

#include "engine/ort/ort_env.h"
#include "engine/ort/ort_session.h"

#include <limits.h>

typedef struct ph_ort_bound {
    ph_ort_io  io;
    ort_value *value;  /* the caller's memory; NULL: not bound */
    int        is_set; /* the binding knows of it */
    size_t     order;  /* of an output: its place there */
} ph_ort_bound;

typedef struct ph_ort_watch ph_ort_watch;

struct ph_ort_session {
    ph_ort          *ort;
    char             name[160];
    ort_session     *session;
    ort_binding     *binding;
    ort_run_options *run_options;
    ph_ort_bound    *in, *out;           /* [n_in], [n_out] */
    size_t           n_in, n_out, n_set; /* n_set: outputs that the binding knows of */
    ort_value      **weight;             /* [n_weights] */
    size_t           n_weights;
    ort_value      **result; /* [n_results] of the last run, from ORT; NULL: not asked yet */
    size_t           n_results;
    ort_allocator   *result_allocator;
    int              has_run; /* and no output was bound since */
    ph_trace        *trace;
    char             profile[PATH_MAX]; /* the folder that ORT writes its profile to; "": it writes none */
    ph_ort_watch    *watch;             /* of flags that end a run; opened when the first one comes */
};

/* Bytes of an array; 0 for a type that is none of ours, SIZE_MAX for a shape that is none. */
size_t ph_ort_bytes_of(int type, int rank, const int64_t *dim);
/* The caller's memory as a value of ORT's. */
ph_rc ph_ort_value_of(const ph_ort *o, const ph_ort_array *a, const char *name, ort_value **out, ph_err *err);
void  ph_ort_drop_results(ph_ort_session *s);

/* Have ORT write a profile into a folder of its own, under TMPDIR or /tmp.  Errors: PH_EIO. */
ph_rc ph_ort_profile_begin(ph_ort_session *s, ort_options *options, ph_err *err);

/* ---- a thread that looks at the caller's flag while ORT runs ---- */
ph_rc ph_ort_watch_open(ph_ort_watch **w, const ph_ort_api *api, ort_run_options *options, ph_err *err);
void  ph_ort_watch_close(ph_ort_watch *w); /* accepts NULL */
void  ph_ort_watch_begin(ph_ort_watch *w, const atomic_int *cancel);
int   ph_ort_watch_end(ph_ort_watch *w); /* 1: it told ORT to end */

#endif
