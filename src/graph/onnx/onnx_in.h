/* onnx_in.h - an ONNX model becomes a graph of ours.
 *
 *     ph_onnx_open ─► ph_onnx_import ─► ph_graph     (inputs and outputs under their own names)
 *
 * What is done on the way: nodes are put in order; operators are brought to the form of the opset that our
 * operators have, whatever opset the model declares (7 to 23); local functions are inlined; com.microsoft's
 * fused operators are taken apart; chains that compute shapes become Sizes; what depends on constants only is
 * computed.  MatMul and Gemm with a stored weight become Linear.  Floats of any width are computed in f32.
 *
 * Operators of other domains are those of plug-ins (`user`), or an error that says so.
 *
 * Dynamic axes become symbols; which is which stands in `symbol`.  Give the inputs' shapes to have plain
 * numbers instead: that reads models whose shapes a ph_dim cannot hold.
 */
#ifndef PH_GRAPH_ONNX_ONNX_IN_H
#define PH_GRAPH_ONNX_ONNX_IN_H

#include "formats/onnx.h"
#include "graph/user.h"

/* An input's shape as it will be given. */
typedef struct ph_onnx_given {
    const char *name;
    int         rank;
    int64_t     dim[PH_RANK_MAX];
} ph_onnx_given;

typedef struct ph_onnx_import_how {
    const ph_kernels    *kernels; /* for what is computed beforehand */
    const ph_onnx_given *given;   /* [n_given] inputs whose axes are plain numbers */
    size_t               n_given;
    const ph_user_ops   *user; /* operators of plug-ins, which outlives the graph; NULL: none */
} ph_onnx_import_how;

typedef struct ph_onnx_graph {
    ph_graph   *graph;             /* owned; weights lie in the ph_onnx, which must outlive it */
    const char *symbol[PH_N_SYMS]; /* the axis that each symbol is ("batch", "x[0]"); NULL: not used */
    int64_t     opset;             /* of ai.onnx */
    size_t      n_nodes;           /* of the file, functions inlined */
    /* Where the import stopped, of the file; kept when it fails.  NULL: nowhere, or at no node. */
    const ph_onnx_node *stopped;
} ph_onnx_graph;

enum { PH_ONNX_OPSET_MIN = 7, PH_ONNX_OPSET_MAX = 23 };

/* Errors: PH_EUNSUP an operator, a form or an element type that is not there, named with its node;
 * PH_EMISMATCH nodes that form a circle, names that nothing makes or two make, shapes, attributes of another
 * opset; PH_ELIMIT more dynamic axes than symbols, too many nodes; PH_ENOMEM. */
ph_rc ph_onnx_import(ph_onnx_graph *out, const ph_onnx *m, const ph_onnx_import_how *how, ph_err *err);
void  ph_onnx_graph_close(ph_onnx_graph *g); /* accepts a zeroed one */

/* A dynamic axis by its name[n], bytes of the file without an end; dim >= 0: the axis that has no name, of
 * the input that is called so ("x[0]"). */
typedef struct ph_onnx_axis {
    const char *name;
    size_t      n;
    int         dim;
} ph_onnx_axis;
enum { PH_ONNX_AXES_MAX = 64, PH_ONNX_AXIS_NAME = 1024 };

/* The axes that have numbers of their own, each once; how many, at most max.  With symbols in g, those; else
 * (an import with plain numbers, or none) what the inputs declare, of sums such as "past + 1" their terms. */
size_t ph_onnx_axes_of(const ph_onnx *m, const ph_onnx_graph *g, ph_onnx_axis *out, size_t max);
/* As text, cut where there is no room; out is returned. */
const char *ph_onnx_axis_name(const ph_onnx_axis *a, char out[PH_ONNX_AXIS_NAME]);
/* Its number in "batch=4,past=0,x[0]=2"; 0: it is not listed. */
int ph_onnx_axis_listed(const ph_onnx_axis *a, const char *list, int64_t *out);
/* The same; not listed: 1, or 0 when its name says past. */
int64_t ph_onnx_axis_size(const ph_onnx_axis *a, const char *list);

/* Shapes of the model's inputs by the numbers of their axes: "batch=4,past=0"; an axis that is not listed is
 * 1, or 0 when its name says past; sums of axes are added up.  How many there are, at most max. */
size_t ph_onnx_given_of(const ph_onnx *m, const char *list, ph_onnx_given *out, size_t max);

/* The symbols' numbers from the shapes of the inputs given; symbols that no given input has are 1.
 * Errors: PH_EMISMATCH a rank, or one symbol with two sizes. */
ph_rc ph_onnx_syms(const ph_onnx_graph *g, const ph_onnx_given *given, size_t n, ph_syms *out, ph_err *err);

/* Whether an operator of this domain is read at all, and since which opset; 0: it is not. */
int ph_onnx_op_since(const char *domain, const char *op);
/* Whether an operator of ai.onnx has this attribute in this opset; 0 too when the operator is not read. */
int ph_onnx_op_allows(const char *op, const char *attr, int64_t opset);

#endif
