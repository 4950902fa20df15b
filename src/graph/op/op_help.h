/* op_help.h - what operator files share: reading inputs and attributes, broadcasting, walking arrays.
 *
 * Only files of graph/op/ include this.
 */
#ifndef PH_GRAPH_OP_OP_HELP_H
#define PH_GRAPH_OP_OP_HELP_H

#include "graph/op.h"

/* ---- inference ---- */
/* Input i is there and has this element type (and rank, unless -1).  Errors: PH_EMISMATCH. */
ph_rc ph_want(const ph_graph *g, const ph_node *n, int i, ph_dtype dtype, int rank, ph_err *err);
ph_rc ph_want_index(const ph_graph *g, const ph_node *n, int i, ph_err *err); /* i32 or i64 */
/* An attribute of which one value is done.  Errors: PH_EUNSUP, with both. */
ph_rc ph_want_int(const ph_node *n, const char *name, int64_t only, ph_err *err);
/* An axis counted from the end when negative.  Errors: PH_EMISMATCH outside -rank .. rank-1. */
ph_rc ph_axis(int64_t axis, int rank, int *out, ph_err *err);
/* numpy's rule with symbols: equal, or a fixed 1 that stretches. */
ph_rc ph_broadcast(const ph_graph *g, const ph_shape *a, const ph_shape *b, ph_shape *out, ph_err *err);
/* "[R, 4] and [R, 5] ..." as PH_EMISMATCH, by the names of g's file. */
ph_rc ph_disagree(const ph_graph *g, const ph_shape *a, const ph_shape *b, const char *why, ph_err *err);
/* The whole numbers of a constant of rank 0 or 1, at most max.  Errors: PH_EUNSUP not a constant or no
 * integers; PH_ELIMIT too many. */
ph_rc ph_const_ints(const ph_graph *g, const ph_node *n, int i, int64_t *out, int max, int *count,
                    ph_err *err);
ph_rc ph_infer_same(const ph_graph *g, const ph_node *n, ph_value *out,
                    ph_err *err); /* f32 in, the same out */
void  ph_infer_set(ph_value *out, ph_dtype dtype, const ph_shape *shape);

/* ---- multiply-adds, for `macs` ---- */
/* x [.., K] with a matrix: each output takes K. */
ph_rc ph_macs_of_product(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how,
                         double *out, ph_err *err);
/* Filters w [O, ..] over x: each output takes one of them. */
ph_rc ph_macs_of_filters(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how,
                         double *out, ph_err *err);
/* x [T, B, I] through w and r, both whole at each place. */
ph_rc ph_macs_of_recurrence(const ph_graph *g, const ph_node *n, const ph_syms *syms, const ph_meets *how,
                            double *out, ph_err *err);

/* ---- evaluation ---- */
/* Numbers in C order whatever the input is: a stored weight is widened into the scratch arena. */
ph_rc   ph_dense(ph_array *out, const ph_array *in, const ph_eval *e, ph_err *err);
ph_rc   ph_floats(const float **out, const ph_array *in, const ph_eval *e, ph_err *err);
ph_rc   ph_scratch(float **out, int64_t n, const ph_eval *e, ph_err *err); /* n floats, not cleared */
int64_t ph_int_at(const ph_array *dense, int64_t i);                       /* of any whole type, bool too */
void    ph_int_put(ph_array *a, int64_t i, int64_t v);                     /* the low bytes */
int64_t ph_span(const ph_array *a, int first, int last); /* product of dims first .. last-1 */

/* An odometer over dim[rank] that keeps up to three offsets. */
typedef struct ph_walk {
    int     rank, n;
    int64_t dim[PH_RANK_MAX], index[PH_RANK_MAX];
    int64_t stride[3][PH_RANK_MAX], at[3];
} ph_walk;
ph_walk ph_walk_over(const ph_array *out);
/* Add an array that broadcasts to the walk's dimensions. */
void ph_walk_add(ph_walk *w, const ph_array *a);
void ph_walk_next(ph_walk *w);

typedef struct ph_binary {
    float (*real)(float a, float b);
    int (*whole)(int64_t a, int64_t b, int64_t *out); /* 0: no result */
} ph_binary;
ph_rc ph_infer_binary(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err);
ph_rc ph_eval_binary(const ph_array *in, ph_array *out, const ph_binary *f, const ph_eval *e, ph_err *err);
typedef void ph_unary_fn(float *y, const float *x, size_t n);
ph_rc        ph_eval_unary(const ph_array *in, ph_array *out, ph_unary_fn *f, const ph_eval *e, ph_err *err);
/* Same numbers under another shape.  Errors: PH_EMISMATCH when the counts differ. */
ph_rc ph_eval_reshape(const ph_array *in, ph_array *out, const ph_eval *e, ph_err *err);

#endif
