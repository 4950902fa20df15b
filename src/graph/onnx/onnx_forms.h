/* onnx_forms.h - handlers: how an operator of any opset is brought to the form that ours has.  Only
 * graph/onnx/. */
#ifndef PH_GRAPH_ONNX_ONNX_FORMS_H
#define PH_GRAPH_ONNX_ONNX_FORMS_H

#include "graph/onnx/onnx_impl.h"

typedef ph_rc ph_oi_take(ph_oi *o, const ph_onnx_node *n, ph_err *err);

/* onnx_shapes.c: what moves, cuts and makes arrays */
ph_oi_take ph_oi_constant, ph_oi_constant_of_shape, ph_oi_identity, ph_oi_flatten, ph_oi_axes, ph_oi_slice,
    ph_oi_split, ph_oi_pad, ph_oi_cast, ph_oi_cast_like, ph_oi_dropout, ph_oi_topk, ph_oi_resize,
    ph_oi_eye_like, ph_oi_no_shape, ph_oi_onehot, ph_oi_scatter;
/* onnx_forms.c: arithmetic */
ph_oi_take ph_oi_matmul, ph_oi_gemm, ph_oi_reduce, ph_oi_softmax, ph_oi_clip, ph_oi_layernorm,
    ph_oi_batchnorm, ph_oi_groupnorm, ph_oi_global_pool, ph_oi_mean, ph_oi_lpnorm, ph_oi_mvn, ph_oi_pow,
    ph_oi_quantize, ph_oi_qlinear_matmul, ph_oi_qlinear_conv, ph_oi_recurrent, ph_oi_maxpool;
/* onnx_attention.c */
ph_oi_take ph_oi_attention, ph_oi_ms_attention, ph_oi_mha, ph_oi_gqa, ph_oi_ms_rotary;

#endif
