/* openvino_model.h - an ONNX model on OpenVINO, over memory of the caller.
 *
 *     ph_openvino_open ─► ph_openvino_model_open (bytes) ─► bind inputs ─► run ─► result
 *
 * It runs on the processor, in f32 whatever the processor would rather take, on as many threads as the handle
 * was opened for; none is bound to a core.  OpenVINO copies the weights it is given, and packs them anew.
 */
#ifndef PH_ENGINE_OPENVINO_OPENVINO_MODEL_H
#define PH_ENGINE_OPENVINO_OPENVINO_MODEL_H

#include "engine/openvino/openvino.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ph_openvino       ph_openvino;
typedef struct ph_openvino_model ph_openvino_model;

/* threads: that a run may keep busy; at least 1.  Errors: of ph_openvino_probe; PH_ENOMEM. */
ph_rc ph_openvino_open(ph_openvino **o, int threads, ph_err *err);
void  ph_openvino_close(ph_openvino *o); /* accepts NULL; its models are closed before */

/* 1: weights that a model gives by their addresses are copied while it is opened, as all releases did that
 * were run; 0: a later one, which may go on reading them where they lie. */
int ph_openvino_copies_weights(const ph_openvino *o);

/* A model of ONNX, and what of it will be bound, by names.  Borrowed for the call. */
typedef struct ph_openvino_source {
    const char        *name;  /* for messages; NULL: the path */
    const void        *bytes; /* [n] in memory; NULL: path */
    size_t             n;
    const char        *path;            /* of a file: external data beside it is found */
    const char *const *in, *const *out; /* [n_in], [n_out] */
    size_t n_in, n_out;
} ph_openvino_source;

/* Errors: PH_EUNSUP it does not read the model or has no code for a node; PH_EMISMATCH; PH_EBUG a name that
 * the model has not; PH_ENOMEM. */
ph_rc ph_openvino_model_open(ph_openvino_model **m, ph_openvino *o, const ph_openvino_source *s, ph_err *err);
void  ph_openvino_model_close(ph_openvino_model *m); /* accepts NULL */

enum { PH_OPENVINO_RANK_MAX = 8 };

typedef struct ph_openvino_array {
    int     rank;
    int64_t dim[PH_OPENVINO_RANK_MAX];
    void   *data; /* [bytes], in C order */
    size_t  bytes;
} ph_openvino_array;

/* Input i is a->data, until the next bind.  Errors: PH_EMISMATCH the shape takes other bytes than a->bytes;
 * what it says. */
ph_rc ph_openvino_bind_input(ph_openvino_model *m, size_t i, const ph_openvino_array *a, ph_err *err);

/* cancel: or NULL; when it becomes other than 0, the run ends at the next node with PH_ECANCEL.
 * Errors: PH_EUNSUP, PH_EMISMATCH shapes; PH_ENOMEM; what the model says. */
ph_rc ph_openvino_run(ph_openvino_model *m, const atomic_int *cancel, ph_err *err);

/* Output i after a run, in OpenVINO's memory until the next one. */
ph_rc ph_openvino_result(ph_openvino_model *m, size_t i, ph_openvino_array *out, ph_err *err);

/* A property of the compiled model, as text, cut to what fits: "INFERENCE_PRECISION_HINT".  Errors: PH_EUNSUP
 * it has none. */
ph_rc ph_openvino_property(const ph_openvino_model *m, const char *key, char *out, size_t size, ph_err *err);

#endif
