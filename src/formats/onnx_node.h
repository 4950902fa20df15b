/* onnx_node.h - the messages between the model and its tensors.  Only formats/onnx*.c include this. */
#ifndef PH_FORMATS_ONNX_NODE_H
#define PH_FORMATS_ONNX_NODE_H

#include "formats/onnx_read.h"

ph_rc ph_onnx_read_attr(ph_onnx_reader *r, ph_pb m, ph_onnx_attr *out, ph_err *err);
ph_rc ph_onnx_read_node(ph_onnx_reader *r, ph_pb m, ph_onnx_node *out, ph_err *err);
ph_rc ph_onnx_read_value(ph_onnx_reader *r, ph_pb m, ph_onnx_value *out, ph_err *err);
/* An entry of metadata_props; one that is not ours ("pinhole."), or is no text, is left empty. */
ph_rc ph_onnx_read_prop(ph_onnx_reader *r, const ph_pb *m, const ph_pb_field *f, ph_onnx_prop *out,
                        ph_err *err);
ph_rc ph_onnx_read_opset(ph_onnx_reader *r, ph_pb m, ph_onnx_opset *out, ph_err *err);

#endif
