/* onnx.h - parts of a model, or an imported ONNX model, as ONNX files: for other compilers and runtimes.
 *
 *     -m's model ─► vision | bridge | cross | language ─► ph_onnx_export ─► PART.onnx (+ PART.onnx.data)
 *     .onnx      ─► our graph of it                    ─┘
 */
#ifndef PH_CONVERT_ONNX_H
#define PH_CONVERT_ONNX_H

#include "graph/onnx/onnx_out.h"
#include "graph/user.h"

enum { PH_CONVERT_PARTS_MAX = 4 };

typedef struct ph_convert_onnx {
    const char        *in, *mmproj; /* as -m and --mmproj; mmproj NULL: none */
    const char        *out;         /* a .onnx; with part "all" a directory that is made if it is not there */
    const char        *part;        /* NULL: the only one there is */
    uint64_t           external;    /* as of ph_onnx_write */
    ph_onnx_export_how how;         /* symbol and has_no_past are set here */
    int                injects; /* 1: pooled features at this layer of the language part, so much of them */
    int                inject_layer;
    double             inject_alpha;
    const ph_user_ops *user; /* operators of plug-ins in an ONNX file; or NULL */
} ph_convert_onnx;

typedef struct ph_convert_onnx_report {
    size_t n;
    struct {
        char         name[16], path[4096];
        size_t       nodes, weights;
        ph_onnx_size size;
    } part[PH_CONVERT_PARTS_MAX];
} ph_convert_onnx_report;

/* Errors: those of opening, of the export, of writing; PH_EUSAGE no such part (lists those that there are),
 * several and none named, an output that is something that is read. */
ph_rc ph_convert_onnx_run(const ph_convert_onnx *c, ph_convert_onnx_report *report, ph_err *err);

#endif
