/* onnx_pinhole.c - our own multimodal operators, as files have them that were written with
 * ph_onnx_export_how.is_ours: the node is ours as it stands.
 */
#include "graph/onnx/onnx_forms.h"

#include <inttypes.h>

#define OURS "pinhole"
enum { VERSION = 1 }; /* of the domain, that is written and read */

static ph_rc take(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    if (o->opset != VERSION)
        return PH_FAIL(err, PH_EMISMATCH,
                       "the model imports opset %" PRId64 " of domain " OURS "; %d is the one that is read",
                       o->opset, VERSION);
    return ph_oi_plain(o, n, n->op, err);
}

static const ph_oi_row rows[] = {
    {OURS, "AdapterDispatch", 1, "first last scale", take},
    {OURS, "ModalGate", 1, "lambda", take},
    {OURS, "ModalitySwitch", 1, "", take},
    {OURS, "MultiModalAttention", 1, "kv_num_heads num_heads scale slices", take},
    {OURS, "PoolInject", 1, "alpha epsilon", take},
    {OURS, "SparseAttention", 1, "block scale sparsity", take},
};

const ph_oi_row *ph_oi_rows_pinhole(size_t *n) {
    *n = sizeof rows / sizeof *rows;
    return rows;
}
