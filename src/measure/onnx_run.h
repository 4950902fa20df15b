/* onnx_run.h - an ONNX model of a reference case, run in several ways.  Only measure/ includes this. */
#ifndef PH_MEASURE_ONNX_RUN_H
#define PH_MEASURE_ONNX_RUN_H

#include "graph/onnx/onnx_in.h"
#include "measure/case.h"

enum { PH_ONNX_IO_MAX = 128 };

/* Inputs to give, and outputs to compare: names, and tensors of the reference. */
typedef struct ph_onnx_io {
    const char      *name;
    const ph_weight *ref;
    const float     *floats; /* instead of ref */
    int              rank;
    int64_t          dim[PH_RANK_MAX];
    double           tolerance; /* 0: the case's */
} ph_onnx_io;

typedef struct ph_onnx_case {
    const char *path;
    ph_onnx_io  in[PH_ONNX_IO_MAX], out[PH_ONNX_IO_MAX];
    size_t      n_in, n_out;
    double      tolerance;      /* of floats, relative to the largest; whole numbers are exact */
    const char *by;             /* NULL: what is said of figures that the engine made: "native" */
    int         is_engine_only; /* not by the operators' definitions too */
} ph_onnx_case;

/* Open, import and run: by the operators' definitions, on the native engine after the passes, and once more
 * with plain numbers in place of dynamic axes.  One figure an output and a way.  Errors: the model's own. */
ph_rc ph_onnx_run_case(ph_report *r, const ph_onnx_case *c, ph_err *err);

/* The same as the options say: so, or on a library of others (onnx_guest.def), or on both, one held to the
 * other. */
ph_rc ph_onnx_check(ph_report *r, const ph_onnx_case *c, ph_err *err);

/* ---- for both ways ---- */
int64_t ph_onnx_io_count(const ph_onnx_io *io);
double  ph_onnx_given_at(const ph_onnx_io *io, int64_t i);
/* x as element i of data, an array of type t. */
void ph_onnx_put(ph_dtype t, void *data, int64_t i, double x);

/* An array that was computed, against io; one figure, named by `by` and what. */
typedef struct ph_onnx_made {
    ph_dtype       dtype;
    int            rank;
    const int64_t *dim;
    const void    *data;
} ph_onnx_made;
void ph_onnx_compare(ph_report *r, const ph_onnx_case *c, const ph_onnx_io *io, const ph_onnx_made *made,
                     const char *by, const char *what);

#endif
