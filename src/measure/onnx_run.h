/* onnx_run.h - an ONNX model of a reference case, run in several ways.  Only measure/ includes this. */
#ifndef PH_MEASURE_ONNX_RUN_H
#define PH_MEASURE_ONNX_RUN_H

#include "graph/onnx/onnx_in.h"
#include "measure/case.h"

enum { PH_ONNX_IO_MAX = 32 };

/* Inputs to give, and outputs to compare: names, and tensors of the reference. */
typedef struct ph_onnx_io {
    const char      *name;
    const ph_weight *ref;
    const float     *floats; /* instead of ref */
    int              rank;
    int64_t          dim[PH_RANK_MAX];
} ph_onnx_io;

typedef struct ph_onnx_case {
    const char *path;
    ph_onnx_io  in[PH_ONNX_IO_MAX], out[PH_ONNX_IO_MAX];
    size_t      n_in, n_out;
    double      tolerance; /* of floats, relative to the largest; whole numbers are exact */
} ph_onnx_case;

/* Open, import and run: by the operators' definitions, on the native engine after the passes, and once more
 * with plain numbers in place of dynamic axes.  One figure an output and a way.  Errors: the model's own. */
ph_rc ph_onnx_run_case(ph_report *r, const ph_onnx_case *c, ph_err *err);

#endif
