/* onnx_guest.h - a library of others that runs ONNX models: one row of onnx_guest.def each.
 *
 *     open ─► load(model) ─► give(inputs) ─► run ─► output(i) ─► unload ─► close
 *
 * Only measure/ includes this.
 */
#ifndef PH_MEASURE_ONNX_GUEST_H
#define PH_MEASURE_ONNX_GUEST_H

#include "measure/onnx_run.h"

/* An output after a run; lives until the next run or unload. */
typedef struct ph_onnx_result {
    const char *name;
    ph_dtype    dtype;
    int         rank;
    int64_t     dim[PH_RANK_MAX];
    const void *data;
    size_t      bytes;
} ph_onnx_result;

struct ph_onnx_guest {
    const char *name;      /* of --engine and --against: "ort" */
    const char *what;      /* "ONNX Runtime" */
    const char *elsewhere; /* why cases of other kinds are skipped */
    /* Errors: PH_EMACHINE it is not here. */
    ph_rc (*open)(void **library, int threads, ph_err *err);
    void (*close)(void *library);
    /* The release, and the bytes that it held at most; 0: it counts none. */
    void (*describe)(void *library, char release[32], size_t *peak);
    /* Reads r->how->ep into r->ep, with text[size] for its pieces; NULL: it takes none. */
    ph_rc (*providers)(ph_report *r, char *text, size_t size, ph_err *err);
    /* Errors: PH_EUNSUP it does not run this model, which is no fault of ours. */
    ph_rc (*load)(void **model, ph_report *r, const ph_onnx_case *c, ph_err *err);
    void (*unload)(void *model); /* accepts NULL */
    /* The type of an input; PH_N_DTYPES: not one of ours.  Errors: PH_EMISMATCH no such input. */
    ph_rc (*input)(void *model, const char *name, ph_dtype *out, ph_err *err);
    ph_rc (*give)(void *model, const char *name, int rank, const int64_t *dim, void *data, size_t bytes,
                  ph_err *err); /* data stands until the run is over */
    ph_rc (*run)(void *model, ph_err *err);
    size_t (*n_outputs)(const void *model);
    int (*find_output)(const void *model, const char *name); /* -1: none */
    ph_rc (*output)(void *model, size_t i, ph_onnx_result *out, ph_err *err);
};

#define PH_ONNX_GUEST(name) extern const ph_onnx_guest ph_onnx_guest_##name;
#include "measure/onnx_guest.def"
#undef PH_ONNX_GUEST

const ph_onnx_guest *ph_onnx_guest_find(const char *name);        /* NULL: none, or name is */
const char          *ph_onnx_guest_names(char *out, size_t size); /* "ort or openvino"; out */

#endif
