/* onnx_out.h - a graph becomes an ONNX model: a file for other compilers, or bytes for an engine.
 *
 *     ph_graph ─► ph_onnx_export ─► ph_onnx_write(path, &x.writer, &x.producer, ..)    a file, weights streamed
 *                                └► ph_onnx_write_memory(&m, &x.writer, ..)            bytes, weights shared
 *
 * Each operator writes itself (ph_op.onnx); what is ONNX's own in the opset asked for is written as it is,
 * all else is spelled out in operators that the opset has.  Names stay.  Dimensions become dim_params, called
 * as the symbols are.
 *
 * Graphs with a cache (language parts) are expanded from rows to [B, T]: inputs over rows get a batch and a
 * time axis, `rows` states for each token what it sees, and the cache of layer l comes in as past.l.key and
 * past.l.value [B, heads, P, d] and goes out as present.l.* [B, heads, P+T, d].  A cache that another graph
 * fills (cross attention) is cross.l.key and cross.l.value [B, heads, C, d]: outputs there, inputs here.
 *
 * Weights: f32 as they are; f16 and bf16 matrices as they are with a Cast; Q8_0, Q4_0 and bytes by channel
 * with a DequantizeLinear; MatMulNBits as itself.
 */
#ifndef PH_GRAPH_ONNX_ONNX_OUT_H
#define PH_GRAPH_ONNX_ONNX_OUT_H

#include "formats/onnx_write.h"
#include "graph/op.h"

enum { PH_ONNX_OUT_OPSET = 17, PH_ONNX_OUT_OPSET_MIN = 17, PH_ONNX_OUT_OPSET_MAX = 23 };

typedef struct ph_onnx_export_how {
    int64_t            opset;    /* 0: PH_ONNX_OUT_OPSET */
    int                has_type; /* matrices are written as `type`: PH_F32, PH_F16 or PH_BF16 */
    ph_dtype           type;
    int                is_widened; /* stored types without a form in ONNX become f16; else they are refused */
    const char *const *symbol;     /* [PH_N_SYMS] names for symbols; NULL, or NULL inside: their letters */
    int                is_flat; /* products as Gemm over matrices, so that weights are read where they lie */
    int                has_no_past; /* the cache begins empty and is not wanted: encoders of text */
    /* Matrices of halves, and stored types without a form in ONNX, are written as f32: for an engine that
     * would make floats of them anyway, and keep both. */
    int        is_float;
    int        is_ours; /* multimodal operators stay what they are, in domain pinhole: for our own import */
    const int *also; /* [n_also] values that become outputs beside the graph's own: those that are watched */
    size_t     n_also;
} ph_onnx_export_how;

struct ph_onnx_made;
typedef struct ph_onnx_exported {
    ph_onnx_writer       writer;
    ph_onnx_producer     producer; /* knows where *this stands: it must not be moved */
    ph_arena             arena;    /* names and lists */
    struct ph_onnx_made *made;     /* [writer.n_weights] how each is made; owned */
    size_t               n_made, made_max;
    float               *scratch; /* a row */
    size_t               scratch_max;
} ph_onnx_exported;

/* The graph must outlive *x, and so must what its weights lie in.
 * Errors: PH_EUSAGE an opset out of range; PH_EUNSUP an operator, an attribute or a stored type that has no
 * form in this opset, named with its node or weight; PH_ELIMIT; PH_ENOMEM. */
ph_rc ph_onnx_export(ph_onnx_exported *x, const ph_graph *g, const ph_onnx_export_how *how, ph_err *err);
void  ph_onnx_exported_close(ph_onnx_exported *x); /* accepts a zeroed one */

/* Has this node a form, with its attributes and stored weights?  Errors: as ph_onnx_export. */
ph_rc ph_onnx_export_try(const ph_graph *g, int node, const ph_onnx_export_how *how, ph_err *err);

#endif
