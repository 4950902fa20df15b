/* op_copy.c - pinhole.Copy: the same numbers at another place; route puts it on seams between engines. */
#include "graph/onnx/onnx_emit.h"
#include "graph/op/op_help.h"

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    const ph_value *x = ph_in(g, n, 0);
    PH_TRY(ph_want(g, n, 0, x->dtype, -1, err));
    ph_infer_set(&out[0], x->dtype, &x->shape);
    return PH_OK;
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    (void)g, (void)n;
    return ph_eval_reshape(in, out, e, err);
}

static void write_onnx(ph_oo *o, const ph_node *n) {
    ph_oo_is(o, n, 0, ph_oo_in(o, n, 0));
}

const ph_op ph_op_Copy = {
    .name = "Copy",
    .domain = "pinhole",
    .since = 1,
    .in_min = 1,
    .in_max = 1,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .eval = eval,
    .onnx = write_onnx,
    .source = "the design: Copy is a node that route inserts",
};
