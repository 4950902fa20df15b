/* verify.h - reference cases: what other implementations made of the same input, compared with what we make.
 *
 *     PATH ─walk─► folders ─claims─► a kind of case (case.def) ─run─► one row a case ─► sum
 *
 * A folder is claimed by what is in it, never by its name; a claimed folder is not entered further.
 * A case passes when every figure that its reference gives lies within the tolerance that the reference
 * states, and at least one figure was there.  What cannot be compared has failed; only what this program
 * does not do yet is skipped, with the reason.
 */
#ifndef PH_MEASURE_VERIFY_H
#define PH_MEASURE_VERIFY_H

#include "base/err.h"
#include "graph/user.h"
#include "tensor/dtype.h"

#include <stddef.h>

typedef enum ph_verdict { PH_VERDICT_OK, PH_VERDICT_FAILED, PH_VERDICT_SKIPPED } ph_verdict;
extern const char *const ph_verdict_name[]; /* "ok", "FAILED", "skipped" */

enum { PH_VERIFY_EPS_MAX = 8 };

typedef struct ph_verify_options {
    int      threads, chunk; /* as ph_session_options; 0: its defaults */
    ph_dtype kv;             /* PH_F32, or PH_F16: with the reference's loose limits */
    int is_fast;  /* block-typed weights meet rows of 16 bits, as users run them: limits ten times as wide */
    int is_rows8; /* they meet rows of 8 bits: a thousand times */
    unsigned    unfused;   /* bits 1 << PH_FUSE_*: steps that are not joined; the same numbers */
    const char *isa;       /* NULL: the best */
    int         is_tight;  /* logits_atol_tight instead of logits_atol */
    const char *filter;    /* only cases whose "folder/name" holds this; NULL: all */
    const char *real_gguf; /* the checkpoint of the cases that do not bring theirs; NULL: skipped */
    /* Of ONNX models.  engine: what is held to the reference, "native" (NULL), "ort" or "openvino".  against:
     * "ort" or "openvino": instead, every output of both engines, one held to the other. */
    const char *engine, *against;
    /* Of models: the engines that run their parts; NULL: native.  With one of them, kinds of cases that run
     * no part of a model are skipped; and against may be "native": every value that is seen inside the vision
     * part is held to the native engine's. */
    const char        *engine_vision, *engine_language, *engine_embed;
    const char *const *ep; /* [n_eps] ORT's execution providers with options: "openvino,device=cpu" */
    size_t             n_eps;
    const ph_user_ops *user; /* operators of plug-ins in ONNX models, which native runs; or NULL */
} ph_verify_options;

/* What limits for an f32 engine are multiplied with: 1, or more for what the options make less exact. */
static inline double ph_verify_looseness(const ph_verify_options *how) {
    return how->is_rows8 ? 1000 : how->kv != PH_F32 ? 100 : how->is_fast ? 10 : 1;
}

/* One case.  Texts live for the call. */
typedef struct ph_verify_row {
    const char *kind, *folder, *name;
    ph_verdict  verdict;
    const char *reason; /* why it failed or was skipped; else "" */
    int         n_figures;
    const char *worst; /* the figure nearest to its limit, or farthest beyond it; "" without figures */
    double      value, tolerance;
    const char *notes; /* tensors that were not compared and need not be; "" for none */
} ph_verify_row;
typedef void ph_verify_sink(void *arg, const ph_verify_row *row);

typedef struct ph_verify_sum {
    size_t      passed, failed, skipped;
    const char *guest;       /* the engine of another's library that ran, "ort"; NULL: none did */
    char        release[32]; /* of it */
    size_t      peak;        /* bytes that it held at most, where it has them of our allocator; else 0 */
} ph_verify_sum;

/* Run every case under path: a set, a kind's folder, a model's folder or its golden/.
 * Errors: PH_EPATH no such folder; PH_EUSAGE no such engine; PH_EMACHINE an engine or a provider is not
 * here; PH_EVERDICT a case failed, or none ran (*sum is filled in both). */
ph_rc ph_verify(const char *path, const ph_verify_options *how, ph_verify_sink *sink, void *arg,
                ph_verify_sum *sum, ph_err *err);

#endif
