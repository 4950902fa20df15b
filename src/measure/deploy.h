/* deploy.h - can these ONNX models be deployed, alone and together?
 *
 * Each part by itself: opsets, operators, shapes, dynamic axes, where it can be cut between modalities.
 * Together: whether their opsets of ai.onnx agree or the older can be raised, whether the newest has the
 * operators that align modalities, and whether types and shapes fit where one part's output is another's
 * input by name.  Features [I, n, d] fit where rows [V, d] are taken: the corridor's splice flattens them,
 * and the problem "seam" that is not fatal says so.  Outputs are looked at as they are made, where symbols
 * hold that; where it is not what the file says of them, "output" does.
 */
#ifndef PH_MEASURE_DEPLOY_H
#define PH_MEASURE_DEPLOY_H

#include "graph/onnx/onnx_in.h"

enum {
    PH_DEPLOY_INPUTS_MAX = 256,
    PH_DEPLOY_PROBLEMS_MAX = 64,
    PH_DEPLOY_NOTES_MAX = 48, /* what can be lived with leaves room for what cannot */
    PH_DEPLOY_CUTS_MAX = 32,
    PH_DEPLOY_PARTS_MAX = 16
};

typedef struct ph_deploy_problem {
    const char *code; /* "operator", "plugin", "opset", "model", "opset_mismatch", "align", "static_axis",
                         "symbols", "seam", "output" */
    char node[96];    /* or "" */
    char message[400];
    int  is_fatal; /* 0: told, and can be lived with */
} ph_deploy_problem;

typedef struct ph_deploy_part {
    const char       *path; /* borrowed */
    ph_onnx           file;
    ph_onnx_graph     g; /* graph NULL: it cannot be imported, and problems say why */
    ph_modality       modality;
    const ph_shape  **made;                   /* of each output of the file, in g; NULL: not known.  Owned */
    ph_onnx_axis      axis[PH_ONNX_AXES_MAX]; /* [n_axes] dynamic ones of the inputs, imported or not */
    size_t            n_axes;
    ph_deploy_problem problem[PH_DEPLOY_PROBLEMS_MAX];
    size_t            n_problems, n_notes_left_out, n_fatal_left_out; /* the latter two: beyond the table */
    const char       *cut[PH_DEPLOY_CUTS_MAX]; /* values at which one modality's nodes end and others begin */
    ph_modality       cut_modality[PH_DEPLOY_CUTS_MAX];
    size_t            n_cuts;
} ph_deploy_part;

typedef struct ph_deploy {
    ph_deploy_part *part; /* [n]; owned */
    size_t          n;
    int64_t         opset; /* the newest of ai.onnx among them */
    int             is_deployable;
} ph_deploy;

/* user: operators of plug-ins, which outlive *d; or NULL.  Errors: what ph_onnx_open says of the first file
 * that cannot be read; PH_EUSAGE more than PH_DEPLOY_PARTS_MAX. */
ph_rc ph_deploy_open(ph_deploy *d, const char *const *path, size_t n, const ph_kernels *kernels,
                     const ph_user_ops *user, ph_err *err);
void  ph_deploy_close(ph_deploy *d); /* accepts a zeroed one */

#endif
