/* op_lrn.c - LRN: each element over a power of the squares of its neighbours among the channels (opset 13).
 *
 *     y = x / (bias + alpha / size * sum of x^2 over size channels around it) ^ beta */
#include "graph/op/op_help.h"

#include <math.h>

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    PH_TRY(ph_infer_same(g, n, out, err));
    int64_t size = ph_node_int(n, "size", 0);
    if (out[0].shape.rank < 2 || size < 1 || size > 1 << 24)
        return PH_FAIL(err, PH_EMISMATCH, "LRN wants x [N, C, ..] and a size, not %lld", (long long)size);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x;
    int64_t      size = ph_node_int(n, "size", 1);
    double       alpha = ph_node_float(n, "alpha", 1e-4), beta = ph_node_float(n, "beta", 0.75),
           bias = ph_node_float(n, "bias", 1);
    (void)g;
    PH_TRY(ph_floats(&x, &in[0], e, err));
    int64_t channels = out->dim[1], inner = ph_span(out, 2, out->rank), count = ph_array_count(out);
    for (int64_t i = 0; i < count; i++) {
        int64_t c = i / inner % channels, first = c - (size - 1) / 2, last = c + size / 2;
        double  sum = 0;
        for (int64_t k = first < 0 ? 0 : first; k <= last && k < channels; k++) {
            double v = (double)x[i + (k - c) * inner];
            sum += v * v;
        }
        ((float *)out->data)[i] = (float)((double)x[i] / pow(bias + alpha / (double)size * sum, beta));
    }
    return PH_OK;
}

const ph_op ph_op_LRN = {
    .name = "LRN",
    .domain = "",
    .since = 13,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__LRN.html",
};
