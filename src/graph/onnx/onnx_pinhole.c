/* onnx_pinhole.c - our own multimodal operators, as files have them that were written with
 * ph_onnx_export_how.is_ours: the node is ours as it stands. */
#include "graph/onnx/onnx_forms.h"

#define OURS "pinhole"
static const ph_oi_row rows[] = {
    {OURS, "AdapterDispatch", 1, "first last scale", NULL},
    {OURS, "ModalGate", 1, "lambda", NULL},
    {OURS, "ModalitySwitch", 1, "", NULL},
    {OURS, "MultiModalAttention", 1, "kv_num_heads num_heads scale slices", NULL},
    {OURS, "PoolInject", 1, "alpha epsilon", NULL},
    {OURS, "SparseAttention", 1, "block scale sparsity", NULL},
};

const ph_oi_row *ph_oi_rows_pinhole(size_t *n) {
    *n = sizeof rows / sizeof *rows;
    return rows;
}
