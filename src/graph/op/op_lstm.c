/* op_lstm.c - LSTM: gates i (in), o (out), f (forget), c (new): C = f C + i c, h = o g(C) (opset 22).
 *
 * Sequences, directions and states: op_recurrent.h. */
#include "graph/op/op_recurrent.h"

static void step(const ph_rnn *r, const float *x, const float *h, const float *c, float *h_new,
                 float *c_new) {
    int64_t n = r->hidden;
    for (int64_t k = 0; k < n; k++) {
        double in = ph_rnn_input(r, k, x) + ph_rnn_state(r, k, h),
               out = ph_rnn_input(r, n + k, x) + ph_rnn_state(r, n + k, h);
        double forget = ph_rnn_input(r, 2 * n + k, x) + ph_rnn_state(r, 2 * n + k, h);
        double fresh = r->f[1](ph_rnn_clip(r, ph_rnn_input(r, 3 * n + k, x) + ph_rnn_state(r, 3 * n + k, h)));
        if (r->p) in += (double)r->p[k] * (double)c[k], forget += (double)r->p[2 * n + k] * (double)c[k];
        in = r->f[0](ph_rnn_clip(r, in));
        forget = r->is_coupled ? 1 - in : r->f[0](ph_rnn_clip(r, forget));
        double cell = forget * (double)c[k] + in * fresh;
        if (r->p) out += (double)r->p[n + k] * cell;
        c_new[k] = (float)cell;
        h_new[k] = (float)(r->f[0](ph_rnn_clip(r, out)) * r->f[2](cell));
    }
}

static const ph_rnn_kind kind = {4, 3, 1, "Sigmoid,Tanh,Tanh", step};

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    return ph_rnn_infer(g, n, out, &kind, err);
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g;
    return ph_rnn_eval(n, in, out, &kind, e, err);
}

const ph_op ph_op_LSTM = {
    .name = "LSTM",
    .domain = "",
    .since = 22,
    .in_min = 3,
    .in_max = 8,
    .out_min = 3,
    .out_max = 3,
    .infer = infer,
    .is_product = 1,
    .macs = ph_macs_of_recurrence,
    .eval = eval,
    .onnx = ph_write_recurrent,
    .source = "onnx.ai/onnx/operators/onnx__LSTM.html",
};
