/* ort_session.h - one ONNX model on ONNX Runtime.
 *
 *     open(bytes or path) ─► bind inputs, outputs ─► run ─► read
 *
 * Inputs and outputs lie in the caller's memory, without a copy; an output whose shape is not known
 * beforehand may be left to ORT, which takes counted memory for it.  One thread at a time uses a session;
 * another may set the flag that stops it.
 */
#ifndef PH_ENGINE_ORT_ORT_SESSION_H
#define PH_ENGINE_ORT_ORT_SESSION_H

#include "base/threads.h"
#include "base/trace.h"
#include "engine/ort/ort.h"
#include "tensor/dtype.h"

enum { PH_ORT_RANK_MAX = 8 };

typedef struct ph_ort_session ph_ort_session;

/* What a session takes or gives. */
typedef struct ph_ort_io {
    char     name[160];
    int      type;  /* TensorProto.DataType; 0: no tensor */
    ph_dtype dtype; /* PH_N_DTYPES: none of ours */
    int      rank;
    int64_t  dim[PH_ORT_RANK_MAX];      /* -1: not known before a run */
    char     axis[PH_ORT_RANK_MAX][48]; /* its name; "" for none */
} ph_ort_io;

/* An array in memory, in C order: of an initializer, an input, an output. */
typedef struct ph_ort_array {
    int     type; /* TensorProto.DataType */
    int     rank;
    int64_t dim[PH_ORT_RANK_MAX];
    void   *data;
    size_t  bytes;
} ph_ort_array;

/* Numbers of an initializer that the model stores as external data.  Runs read them where they lie, and they
 * outlive the session: ORT keeps no copy, but of less than 128 bytes, and of what it packs (is_lean). */
typedef struct ph_ort_weight {
    const char  *name;
    ph_ort_array array;
} ph_ort_weight;

typedef struct ph_ort_model {
    const char *name;  /* for messages; NULL: the path */
    const void *bytes; /* [n] in memory; needed while opening only.  NULL: path */
    size_t      n;
    const char *path; /* of a file: external data beside it is found */
    /* Where the files of the bytes' external data are (read from there since 1.22; those of `weight` are only
     * looked up).  NULL: there are none; `weight` gives all such numbers, and ORT copies them for as long as
     * opening takes. */
    const char          *folder;
    const ph_ort_weight *weight;
    size_t               n_weights;
} ph_ort_model;

typedef struct ph_ort_how {
    const ph_ort_ep   *ep; /* in order of preference; the CPU stands behind them */
    size_t             n_eps;
    const char *const *key, *const *value; /* entries of a session's configuration, as ORT documents them */
    size_t    n_entries;
    int       is_lean;  /* weights are not packed for speed: no second copy of them */
    int       is_exact; /* n-bit weights meet floats, not rows of 8 bits: slower */
    int       is_plain; /* no optimisation of the graph */
    ph_trace *trace; /* or NULL: nodes that ran become spans, "ort.MatMul", when ph_ort_profile is called or
                        the session closed */
} ph_ort_how;

/* how: NULL for the defaults.  Errors: those of the model, PH_EFORMAT, PH_EMISMATCH, PH_EUNSUP, PH_EPATH;
 * PH_EMACHINE a provider; PH_EUSAGE its options; PH_ENOMEM. */
ph_rc ph_ort_session_open(ph_ort_session **s, ph_ort *ort, const ph_ort_model *model, const ph_ort_how *how,
                          ph_err *err);
void  ph_ort_session_close(ph_ort_session *s); /* accepts NULL */

size_t           ph_ort_n_inputs(const ph_ort_session *s);
size_t           ph_ort_n_outputs(const ph_ort_session *s);
const ph_ort_io *ph_ort_input(const ph_ort_session *s, size_t i);
const ph_ort_io *ph_ort_output(const ph_ort_session *s, size_t i);
int              ph_ort_find_input(const ph_ort_session *s, const char *name); /* -1: none */
int              ph_ort_find_output(const ph_ort_session *s, const char *name);

/* Input i is a->data[bytes], output o is written there, of a's shape, until the next bind; type 0: the
 * session's. An output that is not bound, or bound to NULL, is left to ORT. Errors: PH_EMISMATCH type, rank,
 * or too few bytes; PH_EUNSUP no tensor. */
ph_rc ph_ort_bind_input(ph_ort_session *s, size_t i, const ph_ort_array *a, ph_err *err);
ph_rc ph_ort_bind_output(ph_ort_session *s, size_t o, const ph_ort_array *a, ph_err *err);

/* cancel: or NULL; when it becomes other than 0, the run ends at the next node with PH_ECANCEL.
 * Errors: PH_EUSAGE an input that is not bound; PH_EMISMATCH shapes; PH_ENOMEM; what the model says. */
ph_rc ph_ort_run(ph_ort_session *s, const atomic_int *cancel, ph_err *err);

/* Output o after a run: the caller's memory, or ORT's until the next run or bind.  Errors: PH_EUNSUP no
 * tensor. */
ph_rc ph_ort_result(ph_ort_session *s, size_t o, ph_ort_array *out, ph_err *err);

/* Of a session with a trace: what ran so far enters it; later runs do not.  A span's arg is the node's place
 * among those of the run's profile.  Errors: PH_EIO, PH_EFORMAT of ORT's file, which is gone afterwards. */
ph_rc ph_ort_profile(ph_ort_session *s, ph_err *err);

#endif
