/* op_rnn.c - RNN: h = f(W x + R h + b) (opset 22).
 *
 * Sequences, directions and states: op_recurrent.h. */
#include "graph/op/op_recurrent.h"

static void step(const ph_rnn *r, const float *x, const float *h, const float *c, float *h_new,
                 float *c_new) {
    (void)c, (void)c_new;
    for (int64_t i = 0; i < r->hidden; i++)
        h_new[i] = (float)r->f[0](ph_rnn_clip(r, ph_rnn_input(r, i, x) + ph_rnn_state(r, i, h)));
}

static const ph_rnn_kind kind = {1, 1, 0, "Tanh", step};

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    return ph_rnn_infer(g, n, out, &kind, err);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_rnn_eval(n, in, out, &kind, e, err);
}

const ph_op ph_op_RNN = {
    .name = "RNN",
    .domain = "",
    .since = 22,
    .in_min = 3,
    .in_max = 6,
    .out_min = 2,
    .out_max = 2,
    .infer = infer,
    .is_product = 1,
    .macs = ph_macs_of_recurrence,
    .eval = eval,
    .onnx = ph_write_recurrent,
    .source = "onnx.ai/onnx/operators/onnx__RNN.html",
};
