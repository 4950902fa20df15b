/* op_number.h - whole numbers of any width, comparisons, reductions and lists of sizes: what operators of
 * imported graphs share.  Only files of graph/op/ include this.
 */
#ifndef PH_GRAPH_OP_OP_NUMBER_H
#define PH_GRAPH_OP_OP_NUMBER_H

#include "graph/op/op_help.h"

/* A type of whole numbers, PH_BOOL included. */
int ph_is_whole(ph_dtype t);
/* Input i is f32 or whole numbers.  Errors: PH_EMISMATCH. */
ph_rc ph_want_number(const ph_graph *g, const ph_node *n, int i, ph_err *err);

/* Input 0 is whole numbers, PH_BOOL not among them.  Errors: PH_EMISMATCH. */
ph_rc ph_want_bits(const ph_graph *g, const ph_node *n, ph_err *err);

/* ---- element by element ---- */

typedef struct ph_unary {
    float (*real)(float x);
    int64_t (*whole)(int64_t x); /* NULL: floats only */
} ph_unary;
ph_rc ph_infer_number(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err); /* the same out */
ph_rc ph_eval_number(const ph_array *in, ph_array *out, const ph_unary *f, const ph_eval *e, ph_err *err);
/* f32 in, f32 out, with up to two float attributes. */
typedef float ph_shaped_fn(float x, float alpha, float beta);
ph_rc         ph_eval_shaped(const ph_array *in, ph_array *out, ph_shaped_fn *f, double alpha, double beta,
                             const ph_eval *e, ph_err *err);

/* Two of the same type, broadcast, to bool. */
typedef struct ph_compare {
    int (*real)(float a, float b);
    int (*whole)(int64_t a, int64_t b);
} ph_compare;
ph_rc ph_infer_compare(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err);
ph_rc ph_eval_compare(const ph_array *in, ph_array *out, const ph_compare *f, const ph_eval *e, ph_err *err);
/* The same for booleans only. */
ph_rc ph_infer_logic(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err);

/* ph_infer_binary of two that ph_want_bits takes. */
ph_rc ph_infer_bits(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err);

/* Any number of inputs of one type, broadcast, joined from the left. */
ph_rc ph_infer_many(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err);
ph_rc ph_eval_many(const ph_node *n, const ph_array *in, ph_array *out, const ph_binary *f, const ph_eval *e,
                   ph_err *err);

/* ---- reductions: over the axes of input 1 (a constant list), or all ---- */

typedef struct ph_reduction {
    double start;
    double (*real)(double sum, double x);
    double (*end)(double sum, int64_t n); /* or NULL */
    int64_t whole_start;
    int64_t (*whole)(int64_t sum, int64_t x); /* NULL: floats only */
    int is_shifted;                           /* x is taken less the largest, which is added to the result */
} ph_reduction;
ph_rc ph_infer_reduce(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err);
ph_rc ph_eval_reduce(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out,
                     const ph_reduction *r, const ph_eval *e, ph_err *err);
void  ph_write_reduce(struct ph_oo *o, const ph_node *n); /* their ph_op.onnx */

/* ---- scattering ---- */

/* The attribute reduction: 0 none, 1 add, 2 mul, 3 max, 4 min; -1: unknown. */
int ph_scatter_kind(const ph_node *n);
/* out[to] = out[to] (kind) updates[from], of one type. */
void ph_scatter_put(ph_array *out, int64_t to, const ph_array *updates, int64_t from, int kind);

/* ---- lists of sizes ---- */

/* The numbers of input i, a constant list or the output of Sizes: at most max, each a dimension or a plain
 * number, negative ones included.  Errors: PH_EUNSUP neither; PH_ELIMIT too many. */
ph_rc ph_const_dims(const ph_graph *g, const ph_node *n, int i, ph_dim *out, int max, int *count,
                    ph_err *err);
/* What a Sizes node makes: [count], count at most max.  Errors as inference. */
ph_rc ph_sizes_read(const ph_graph *g, const ph_node *n, ph_dim *out, int max, int *count, ph_err *err);

#endif
