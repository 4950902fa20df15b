/* op_gru.c - GRU: gates z (keep), r (reset), h (new): h = (1 - z) h~ + z h (opset 22).
 *
 * Sequences, directions and states: op_recurrent.h. */
#include "graph/op/op_recurrent.h"

static void step(const ph_rnn *r, const float *x, const float *h, const float *c, float *h_new,
                 float *c_new) {
    int64_t n = r->hidden;
    (void)c;
    for (int64_t i = 0; i < n; i++) /* r (.) h, which the new value is made of; c_new is scratch */
        c_new[i] = (float)r->f[0](ph_rnn_clip(r, ph_rnn_input(r, n + i, x) + ph_rnn_state(r, n + i, h)));
    for (int64_t i = 0; i < n && !r->reset_is_later; i++) c_new[i] *= h[i];
    for (int64_t i = 0; i < n; i++) {
        double z = r->f[0](ph_rnn_clip(r, ph_rnn_input(r, i, x) + ph_rnn_state(r, i, h)));
        double state = r->reset_is_later ? (double)c_new[i] * ph_rnn_state(r, 2 * n + i, h)
                                         : ph_rnn_state(r, 2 * n + i, c_new);
        double fresh = r->f[1](ph_rnn_clip(r, ph_rnn_input(r, 2 * n + i, x) + state));
        h_new[i] = (float)((1 - z) * fresh + z * (double)h[i]);
    }
}

static const ph_rnn_kind kind = {3, 2, 0, "Sigmoid,Tanh", step};

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    return ph_rnn_infer(g, n, out, &kind, err);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_rnn_eval(n, in, out, &kind, e, err);
}

const ph_op ph_op_GRU = {
    .name = "GRU",
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
    .source = "onnx.ai/onnx/operators/onnx__GRU.html",
};
