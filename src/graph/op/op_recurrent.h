/* op_recurrent.h - what RNN, GRU and LSTM share: shapes, directions, sequences of different length.  Only
 * graph/op/.
 *
 *     X [T, B, I]  W [D, G H, I]  R [D, G H, H]  B [D, 2 G H]  sequence_lens [B]  initial_h [D, B, H] ..
 *     Y [T, D, B, H]  Y_h [D, B, H]  (Y_c [D, B, H])
 *
 * D directions, G gates, H hidden_size.  layout 1 puts the batch first.
 */
#ifndef PH_GRAPH_OP_OP_RECURRENT_H
#define PH_GRAPH_OP_OP_RECURRENT_H

#include "graph/op/op_number.h"

enum { PH_RNN_GATES_MAX = 4, PH_RNN_ACTIVATIONS = 3 };

typedef double ph_rnn_activation(double x);

/* One direction of a node, as a step sees it. */
typedef struct ph_rnn {
    int64_t            hidden, inputs;
    int                gates;
    const float       *w, *r, *b, *p; /* [G H, I], [G H, H], [2 G H] or NULL, [3 H] or NULL */
    double             clip;          /* 0: none */
    ph_rnn_activation *f[PH_RNN_ACTIVATIONS];
    int                is_coupled;     /* LSTM: input_forget */
    int                reset_is_later; /* GRU: linear_before_reset */
} ph_rnn;

/* One element: x [I]; h, c [H] are read; h_new, c_new [H] are written. */
typedef void ph_rnn_step(const ph_rnn *r, const float *x, const float *h, const float *c, float *h_new,
                         float *c_new);

typedef struct ph_rnn_kind {
    int          gates, n_activations, has_cell;
    const char  *activations; /* by default: "Sigmoid,Tanh,Tanh" */
    ph_rnn_step *step;
} ph_rnn_kind;

/* w_k . x + b_w (+ r_k . h + b_r when h is not NULL), k = gate * H + unit */
double ph_rnn_input(const ph_rnn *r, int64_t k, const float *x);
double ph_rnn_state(const ph_rnn *r, int64_t k, const float *h);
double ph_rnn_clip(const ph_rnn *r, double x);

ph_rc ph_rnn_infer(const ph_graph *g, const ph_node *n, ph_value *out, const ph_rnn_kind *kind, ph_err *err);
ph_rc ph_rnn_eval(const ph_node *n, const ph_array *in, ph_array *out, const ph_rnn_kind *kind,
                  const ph_eval *e, ph_err *err);
void  ph_write_recurrent(struct ph_oo *o, const ph_node *n); /* their ph_op.onnx */

#endif
