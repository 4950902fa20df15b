/* openvino.h - OpenVINO in this process: is it here, and which.
 *
 * It runs parts of models as the engine "openvino" of the table, and whole ONNX models in verify
 * (openvino_model.h).
 */
#ifndef PH_ENGINE_OPENVINO_OPENVINO_H
#define PH_ENGINE_OPENVINO_OPENVINO_H

#include "base/err.h"

/* The library, loaded at the first call. */
typedef struct ph_openvino_library {
    char path[1024];
    char release[32]; /* "2026.4.1" */
} ph_openvino_library;

/* Errors: PH_EMACHINE none is here, or what is here is none, is cut short, or is too old; the message names
 * the place and what to do. */
ph_rc ph_openvino_probe(ph_openvino_library *out, ph_err *err);

#endif
