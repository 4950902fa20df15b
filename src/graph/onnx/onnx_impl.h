/* onnx_impl.h - what the files that import ONNX share.  Only graph/onnx/ includes this.
 *
 * A name of the file stands for an item: a value of the graph, or a list of sizes that has no value
 * yet (it gets one, a constant or a Sizes node, when somebody reads it as an array).
 */
#ifndef PH_GRAPH_ONNX_ONNX_IMPL_H
#define PH_GRAPH_ONNX_ONNX_IMPL_H

#include "graph/onnx/onnx_in.h"

enum { PH_OI_IN_MAX = 64, PH_OI_SIZES_MAX = 64 };

/* A small array of whole numbers known as dimensions: rank 0 or 1, at most PH_OI_SIZES_MAX. */
typedef struct ph_oi_sizes {
    int      rank, n;
    ph_dtype dtype; /* i64, i32, bool; f32 where a model takes a detour through floats */
    ph_dim   at[PH_OI_SIZES_MAX];
} ph_oi_sizes;

typedef struct ph_oi_item {
    int                is_set;
    int                id;    /* of the graph; -1: none yet */
    const ph_oi_sizes *sizes; /* or NULL */
} ph_oi_item;

/* The names of a graph or of one call of a function, sorted. */
typedef struct ph_oi_name {
    const char           *name;
    int                   node; /* that makes it; -1: it is given */
    ph_oi_item            item;
    const ph_onnx_tensor *tensor; /* an initializer that nobody has read yet; or NULL */
} ph_oi_name;

typedef struct ph_oi_scope {
    const ph_onnx_node     *node;
    size_t                  n_nodes, next; /* next: place in order */
    const uint32_t         *order;
    ph_oi_name             *name;
    size_t                  n_names;
    const ph_onnx_opset    *opset;
    size_t                  n_opsets;
    const ph_onnx_function *function; /* NULL: the model's graph */
    const ph_onnx_node     *call;     /* in the outer scope */
    const ph_onnx_attr     *attr;     /* [n_attrs] of the call, references resolved */
    size_t                  n_attrs;
    const char             *prefix; /* of names; "" for the graph */
    size_t                  n_prefix;
} ph_oi_scope;

enum { PH_OI_DEPTH_MAX = 16, PH_OI_KEY = 8 };

typedef struct ph_oi_kept ph_oi_kept;

typedef struct ph_oi {
    const ph_onnx            *m;
    const ph_onnx_import_how *how;
    ph_graph                 *g;
    ph_onnx_graph            *out;
    ph_arena                  arena;   /* tables of the import; closed at its end */
    ph_arena                  scratch; /* of one computation */
    ph_oi_scope               scope[PH_OI_DEPTH_MAX];
    int                       depth;      /* of the innermost scope */
    const ph_onnx_node       *node;       /* being imported */
    const ph_onnx_node       *stopped;    /* it failed here */
    int                       n_temps;    /* helper values of this node so far */
    int64_t                   opset;      /* of the node's domain */
    size_t                    n_imported; /* nodes, calls included */
    struct {
        int value, axis; /* a graph input and its axis that is this symbol; value -1: none */
    } witness[PH_N_SYMS];
    int                 n_syms;
    const ph_onnx_prop *prop; /* [n_props] of the model, by key */
    size_t              n_props;
    ph_oi_kept         *kept; /* [kept_max] slots, n_kept of them taken: onnx_kept.c */
    size_t              n_kept, kept_max;
} ph_oi;

/* One row of the table: how an operator of a file becomes nodes of ours. */
typedef struct ph_oi_row {
    const char *domain, *op;
    int         since;
    /* Attributes, apart by spaces: "axis", "axes<13" (gone since 13), "num_outputs>=18". */
    const char *attrs;
    ph_rc (*take)(ph_oi *o, const ph_onnx_node *n, ph_err *err); /* NULL: our operator of the same name */
} ph_oi_row;
const ph_oi_row *ph_oi_rows_onnx(size_t *n);      /* onnx_rows.c: ai.onnx */
const ph_oi_row *ph_oi_rows_microsoft(size_t *n); /* onnx_microsoft.c */
const ph_oi_row *ph_oi_rows_pinhole(size_t *n);   /* onnx_pinhole.c */
const ph_oi_row *ph_oi_row_of(const char *domain, const char *op);

/* ---- reading a node ---- */
int         ph_oi_has(ph_oi *o, const ph_onnx_node *n, size_t i); /* input i is there */
int         ph_oi_has_out(const ph_onnx_node *n, size_t k);       /* output k is wanted */
int         ph_oi_in(ph_oi *o, const ph_onnx_node *n, size_t i);  /* as an array; -1: left out, or failed */
ph_oi_item *ph_oi_item_of(ph_oi *o, const char *name);
int         ph_oi_is_taken(const ph_oi *o, const char *name); /* a name of the model's own graph */
const ph_onnx_attr *ph_oi_attr(ph_oi *o, const ph_onnx_node *n, const char *name); /* resolved; NULL: none */
int64_t             ph_oi_int(ph_oi *o, const ph_onnx_node *n, const char *name, int64_t otherwise);
double              ph_oi_float(ph_oi *o, const ph_onnx_node *n, const char *name, double otherwise);
const char         *ph_oi_text(ph_oi *o, const ph_onnx_node *n, const char *name, const char *otherwise);
const ph_shape     *ph_oi_shape(const ph_oi *o, int id); /* an empty one after a failure */
int                 ph_oi_is_constant(const ph_oi *o, int id);
/* The whole numbers of a constant value; 0: it is none, or has more than max. */
int ph_oi_ints(const ph_oi *o, int id, int64_t *out, int max, int *count);
/* The single float of a constant; 0: it is none. */
int ph_oi_one_float(const ph_oi *o, int id, double *out);

/* What an attribute of this name may be (onnx_words.c).  Errors: PH_EMISMATCH another type, a flag that is
 * neither 0 nor 1, a factor that is no finite number. */
ph_rc ph_oi_word_check(const char *op, const char *name, const ph_onnx_attr *a, ph_err *err);
int   ph_oi_word_is_known(const char *op, const char *name); /* is there a line about it? */

/* ---- making nodes: names follow the node's first output; what is constant is computed at once ---- */
int ph_oi_make(ph_oi *o, const char *op, const int *in, int n_in, const ph_attr *attr, int n_attr);
/* The same without attributes, of an operator with n_out outputs: constants know no producer to ask for them.
 */
void ph_oi_make_all(ph_oi *o, const char *op, const int *in, int n_in, int *out, int n_out);
int  ph_oi_list(ph_oi *o, const int64_t *list, int n); /* a constant [n] i64 */
int  ph_oi_number(ph_oi *o, double x);                 /* a constant of rank 0, f32 */
int  ph_oi_shape_list(ph_oi *o, const ph_shape *s);    /* [rank] i64: a constant, or Sizes */
int  ph_oi_reshape(ph_oi *o, int x, const ph_shape *to);
int  ph_oi_transpose(ph_oi *o, int x, const int64_t *perm, int n);
void ph_oi_set(ph_oi *o, const ph_onnx_node *n, size_t k, int id); /* output k is this value */
void ph_oi_set_sizes(ph_oi *o, const ph_onnx_node *n, const ph_oi_sizes *s);
/* Our operator `op` with these inputs and attributes gives all outputs of n. */
ph_rc ph_oi_emit(ph_oi *o, const ph_onnx_node *n, const char *op, const int *in, int n_in,
                 const ph_attr *attr, int n_attr, ph_err *err);
/* The same of an operator that no name finds, with so many outputs. */
ph_rc ph_oi_emit_op(ph_oi *o, const ph_onnx_node *n, const ph_op *op, int n_out, const int *in, int n_in,
                    const ph_attr *attr, int n_attr, ph_err *err);
/* The same with the node's own inputs and attributes (those of the row's list that our operators know). */
ph_rc ph_oi_plain(ph_oi *o, const ph_onnx_node *n, const char *op, ph_err *err);
/* A helper value: our operator with these inputs and the node's own attributes. */
int ph_oi_plain_on(ph_oi *o, const ph_onnx_node *n, const char *op, const int *in, int n_in);
/* [before axis, from axis on] as a matrix; 0: symbols do not allow it. */
int ph_oi_as_matrix(const ph_shape *s, int64_t axis, ph_shape *to);
/* The graph's sticky error, or none. */
ph_rc ph_oi_done(ph_oi *o, ph_err *err);
ph_rc ph_oi_fail(ph_oi *o, ph_err *err, ph_rc rc, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* x times a weight: Linear where w is stored, else MatMul.  is_transposed: w is [N, K]. */
int ph_oi_product(ph_oi *o, int x, int w, int is_transposed, int bias);
enum { PH_OI_TURNED = 1, PH_OI_SCALED, PH_OI_NBITS }; /* kinds of keys, see below */

/* ---- values of files ---- */
int ph_oi_tensor(ph_oi *o, const ph_onnx_tensor *t, const char *name); /* a weight or small constant */

/* ---- weights laid out anew (onnx_kept.c) ---- */
/* A key says all that the weight is made of: its kind first, which is not 0, then ids of values (data,
 * scales, zero points) and numbers; what is left is 0. */
int ph_oi_kept_find(const ph_oi *o, const int64_t key[PH_OI_KEY]); /* -1: it was not made yet */
/* Make it: a weight [n, k] under the name of value `base` with the mark behind.  -1: the graph failed. */
int ph_oi_keep(ph_oi *o, const int64_t key[PH_OI_KEY], int base, const char *mark, int64_t n, int64_t k,
               ph_storage s);

/* ---- sizes (onnx_sizes.c) ---- */
/* The numbers of an input as sizes; 0: they are not known, or too many. */
int ph_oi_sizes_in(ph_oi *o, const ph_onnx_node *n, size_t i, ph_oi_sizes *out);
int ph_oi_sizes_value(ph_oi *o, const ph_oi_sizes *s); /* a constant or a Sizes node */
/* Where the node reckons with sizes only: does it.  *took 0: it is a node as all others. */
ph_rc ph_oi_sizes_try(ph_oi *o, const ph_onnx_node *n, int *took, ph_err *err);

/* ---- plug-ins (onnx_user.c) ---- */
/* A node that no row is about.  Errors: PH_EUNSUP no plug-in has it; PH_EMISMATCH only for a newer version of
 * its domain, an attribute that it has not; those of its inference. */
ph_rc ph_oi_user(ph_oi *o, const ph_onnx_node *n, ph_err *err);

/* ---- metadata (onnx_props.c) ---- */
/* The model's own, sorted, and what it says of all nodes. */
ph_rc ph_oi_props_open(ph_oi *o, ph_err *err);
/* What the file says of n, for the nodes of the graph from `first` on that n became. */
void ph_oi_props_apply(ph_oi *o, const ph_onnx_node *n, size_t first);

/* ---- folding (onnx_fold.c) ---- */
/* When the last node added has constants only, its outputs become constants.  */
void ph_oi_fold_last(ph_oi *o);

#endif
