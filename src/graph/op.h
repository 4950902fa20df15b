/* op.h - operators: one file each in op/, one const ph_op, one line in op.def.
 *
 * An operator is its schema, its shape inference, its meaning on the reference
 * kernels (`eval`: folding, tests, and the native engine's slow path) and, when
 * it is differentiable, its gradient.  Fast lowerings belong to the engines.
 */
#ifndef PH_GRAPH_OP_H
#define PH_GRAPH_OP_H

#include "graph/graph.h"
#include "graph/kv.h"
#include "kernels/kernels.h"

struct ph_user; /* what a plug-in said of its operator: graph/user.h */
struct ph_oo;   /* an ONNX model in the making: graph/onnx/onnx_emit.h */

/* A dense array at run time, C order.  For a stored weight, data is NULL and storage says where it is. */
typedef struct ph_array {
    void             *data;
    const ph_storage *storage;
    ph_kv            *kv; /* states only */
    ph_dtype          dtype;
    int               rank;
    int64_t           dim[PH_RANK_MAX];
} ph_array;
int64_t ph_array_count(const ph_array *a);

/* n floats to whole cache lines, so that no two threads write one. */
static inline size_t ph_whole_lines(size_t n) {
    return (n + 15) / 16 * 16;
}

/* What an evaluation may use besides its arrays. */
typedef struct ph_eval {
    const ph_kernels *kernels;
    ph_arena         *scratch; /* reset by the caller between nodes */
} ph_eval;

/* How rows meet each other where the graph's shapes do not say it; 0: each meets all that is there. */
typedef struct ph_meets {
    double keys_before;  /* in the cache before the first row; rows follow one another, causally */
    double segment_keys; /* SegmentAttention: keys that a row meets on average, whole picture */
    double window_keys;  /* the same of windows: inputs named "windows" */
} ph_meets;

typedef struct ph_op {
    const char *name;   /* ONNX name; of a plug-in's operator "com.acme::Gate", which no other has */
    const char *domain; /* "" (ai.onnx), "com.microsoft" or "pinhole"; or a plug-in's */
    int         since;  /* opset that defines the semantics used here; 1 for own domains */
    int         in_min, in_max, out_min, out_max; /* in_max -1: any number */
    /* Types and shapes of the outputs from those of the inputs; out[k].dtype and .shape are set.  Must work
     * with symbols.  Errors: PH_EMISMATCH with both shapes; PH_EUNSUP for an attribute value that is not
     * done. */
    ph_rc (*infer)(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err);
    /* out[k].data is allocated with the inferred shape; inputs and outputs do not overlap. */
    ph_rc (*eval)(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err);
    /* Builds nodes that compute the gradients of the inputs; NULL: not differentiable (yet). */
    ph_rc (*grad)(ph_graph *g, const ph_node *n, const int *out_grad, int *in_grad, ph_err *err);
    const char *source; /* where the semantics are written down */
    /* How many outputs this node has, between out_min and out_max; NULL: out_min. */
    int (*outputs)(const ph_graph *g, const ph_node *n);
    int has_effect; /* changes a state: never removed, merged or folded */
    int is_product; /* multiplies matrices */
    /* Multiply-adds of one run; NULL: so few that nobody counts them.  Errors: PH_ELIMIT sizes that overflow.
     */
    ph_rc (*macs)(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how, double *out,
                  ph_err *err);
    int goes_by_data; /* which memory it reads, and how much it does, stand in numbers that come with a run */
    /* Floats of scratch that eval takes beyond one copy of each input and output; NULL: none.  Arrays have
     * shapes, no data. */
    int64_t (*scratch)(const ph_graph *g, const ph_node *n, const ph_array *in, const ph_array *out);
    /* Writes the node in operators of the model's opset.  NULL: it is ONNX's own, under its name and with its
     * attributes, where the opset has them.  Failures stick to the model. */
    void (*onnx)(struct ph_oo *o, const ph_node *n);
    int                   is_unfolded; /* never computed before a run, whatever its inputs are */
    const struct ph_user *user;        /* of a plug-in: only the native engine has it.  NULL: our own */
} ph_op;

const ph_value *ph_in(const ph_graph *g, const ph_node *n, int i); /* input i; NULL: left out */

/* Elements of v, and dimension i (negative ones count from the last), as real numbers to reckon with. */
ph_rc ph_value_count(const ph_value *v, const ph_syms *syms, double *out, ph_err *err);
ph_rc ph_value_size(const ph_value *v, int i, const ph_syms *syms, double *out, ph_err *err);
/* Keys that rows 0 .. n-1 see together: each what was there before, and those up to itself; a window (0:
 * none) cuts. */
double ph_keys_seen(double n, double before, double window);

const ph_op *ph_op_find(const char *name); /* or NULL */
size_t       ph_op_count(void);
const ph_op *ph_op_at(size_t i);

#define PH_OP(name) extern const ph_op ph_op_##name;
#include "graph/op.def"
#undef PH_OP

/* Run a graph with eval, node by node, on arrays from the arena: the definition of what a graph means.
 * Feeds are matched by name.  want: a value's name, only what it needs is run, and *out is that array; NULL:
 * every node is run and out is [n_values], by value id (constants and inputs that nobody reads stay zeroed).
 * The arena holds every array made. */
typedef struct ph_feed {
    const char *name; /* input or state */
    ph_array    array;
} ph_feed;
ph_rc ph_graph_eval(const ph_graph *g, const ph_syms *syms, const ph_feed *feeds, size_t n_feeds,
                    const char *want, ph_array *out, const ph_kernels *kernels, ph_arena *arena, ph_err *err);

/* What a Slice takes along a dimension of `size`: the first element, and how many from it on, `step` apart;
 * step is neither 0 nor INT64_MIN. */
void ph_slice_cut(int64_t start, int64_t end, int64_t step, int64_t size, int64_t *first, int64_t *length);

#endif
