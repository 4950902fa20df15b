/* onnx_microsoft.c - the fused operators that ONNX Runtime's optimiser writes, taken apart again. */
#include "graph/onnx/onnx_forms.h"

static const ph_oi_row rows[] = {
    {"com.microsoft", "Gelu", 1, "", NULL},
};

const ph_oi_row *ph_oi_rows_microsoft(size_t *n) {
    *n = sizeof rows / sizeof *rows;
    return rows;
}
