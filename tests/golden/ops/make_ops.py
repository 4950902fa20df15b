#!/usr/bin/env python3
"""Write cases.txt and cases.bin: operators with inputs and the answers of independent implementations.

ONNX operators: onnx.reference.ReferenceEvaluator.  RopeAngles: the functions of transformers'
modeling_rope_utils.py, run on numpy float32 arrays in place of torch tensors (a number divided by a tensor
is its reciprocal times the number, as in torch).  Linear: numpy in float64.

    pip install onnx==1.23.2 numpy==2.4.6; pip install --no-deps transformers==4.57.6
    python make_ops.py
"""
import importlib.util, math, os, re, types

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

rng = np.random.default_rng(20260)
here = os.path.dirname(os.path.abspath(__file__))
names = {np.dtype("float32"): "F32", np.dtype("int64"): "I64", np.dtype("int32"): "I32", np.dtype("bool"): "BOOL",
         np.dtype("float16"): "F16", np.dtype("float64"): "F64", np.dtype("int8"): "I8", np.dtype("uint8"): "U8"}
text, blob = [], bytearray()


def place(a):
    a = np.asarray(a, order="C")
    while len(blob) % 8:
        blob.append(0)
    at = len(blob)
    blob.extend(a.tobytes())
    return f"{names[a.dtype]} {a.ndim} {' '.join(map(str, a.shape))} {at}".replace("  ", " ")


def write(name, op, inputs, attrs, outputs, tol):
    text.append(f"case {name} {op} {tol:g}")
    for role, a in inputs:
        text.append("skip" if a is None else f"{role} {place(a)}")
    for k, v in attrs.items():
        if isinstance(v, str): text.append(f"text {k} {v}")
        elif isinstance(v, (list, tuple)) and v and isinstance(v[0], float): text.append(f"floats {k} {len(v)} " + " ".join(f"{x!r}" for x in v))
        elif isinstance(v, (list, tuple)): text.append(f"ints {k} {len(v)} " + " ".join(map(str, v)))
        elif isinstance(v, float): text.append(f"float {k} {v!r}")
        else: text.append(f"int {k} {v}")
    for a in outputs:
        text.append("out " + place(a))
    text.append("end")


def case(name, op, inputs, attrs=None, opset=23, tol=2e-6, n_out=1, constant=()):
    """inputs: arrays, None for one left out; constant: places whose array is a constant of the graph."""
    attrs = attrs or {}
    given = {f"i{k}": a for k, a in enumerate(inputs) if a is not None}
    node = helper.make_node(op, [f"i{k}" if a is not None else "" for k, a in enumerate(inputs)],
                            [f"o{k}" for k in range(n_out)], **attrs)
    infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for k, a in given.items()]
    outs = [helper.make_tensor_value_info(f"o{k}", TensorProto.FLOAT, None) for k in range(n_out)]
    model = helper.make_model(helper.make_graph([node], "g", infos, outs), opset_imports=[helper.make_opsetid("", opset)])
    got = [np.asarray(a) for a in ReferenceEvaluator(model).run(None, given)]
    write(name, op, [("const" if k in constant else "in", a) for k, a in enumerate(inputs)], attrs, got, tol)


def f(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def i64(*v):
    return np.array(v, dtype=np.int64)


# ---- element by element ----
for op in ("Add", "Sub", "Mul", "Div"):
    case(op.lower() + "_same", op, [f(3, 5), f(3, 5)])
    case(op.lower() + "_row", op, [f(2, 3, 4), f(4)])
    case(op.lower() + "_both", op, [f(3, 1, 4), f(2, 1)])
    case(op.lower() + "_i64", op, [rng.integers(-50, 50, (4, 3)), rng.integers(1, 9, (3,))])
case("pow_square", "Pow", [f(3, 4), np.array(2.0, np.float32)])
case("pow_real", "Pow", [np.abs(f(3, 4)), f(3, 1)], tol=1e-5)
for op in ("Sigmoid", "Tanh", "Relu", "Erf"):
    case(op.lower(), op, [np.concatenate([f(40, scale=3), np.array([0, -0.0, 20, -20, 90, -90], np.float32)])])
case("sqrt", "Sqrt", [np.abs(f(17))])
case("gelu", "Gelu", [f(50, scale=3)], {"approximate": "none"})
case("gelu_tanh", "Gelu", [f(50, scale=3)], {"approximate": "tanh"})
case("gelu_default", "Gelu", [f(7)])
for alpha in (1.0, 1.702, 0.5):
    x = f(50, scale=3)
    write(f"swish_{alpha}", "Swish", [("in", x)], {"alpha": alpha},
          [(x.astype(np.float64) / (1 + np.exp(-alpha * x.astype(np.float64)))).astype(np.float32)], 2e-6)
case("where", "Where", [rng.random((3, 1)) > .5, f(3, 4), f(1, 4)])
case("where_i64", "Where", [rng.random((4,)) > .5, rng.integers(0, 9, (2, 4)), i64(7)])
for to, t in ((TensorProto.INT64, "i64"), (TensorProto.INT32, "i32"), (TensorProto.BOOL, "bool"), (TensorProto.FLOAT16, "f16"), (TensorProto.DOUBLE, "f64")):
    case("cast_to_" + t, "Cast", [np.concatenate([f(20, scale=30), np.zeros(2, np.float32)])], {"to": int(to)})
case("cast_from_i64", "Cast", [rng.integers(-2**40, 2**40, (9,))], {"to": int(TensorProto.FLOAT)})
case("cast_from_bool", "Cast", [rng.random(9) > .5], {"to": int(TensorProto.FLOAT)})
case("cast_i64_i8", "Cast", [rng.integers(-100, 100, (9,))], {"to": int(TensorProto.INT8)})

# ---- norms, softmax, means ----
case("layernorm", "LayerNormalization", [f(3, 5, 32), f(32), f(32)], {"epsilon": 1e-6}, tol=4e-6)
case("layernorm_no_bias", "LayerNormalization", [f(4, 7), f(7)], {"axis": -1}, tol=4e-6)
case("rmsnorm", "RMSNormalization", [f(5, 48), f(48)], {"epsilon": 1e-5}, tol=4e-6)
case("rmsnorm_axis", "RMSNormalization", [f(2, 3, 9), f(9)], {"axis": 2}, tol=4e-6)
case("softmax", "Softmax", [f(4, 9, scale=4)])
case("softmax_axis", "Softmax", [f(2, 5, 3, scale=4)], {"axis": 1})
for keep in (0, 1):
    case(f"mean_last_{keep}", "ReduceMean", [f(2, 3, 5), i64(-1)], {"keepdims": keep}, constant=(1,))
    case(f"mean_two_{keep}", "ReduceMean", [f(2, 3, 5, 2), i64(0, 2)], {"keepdims": keep}, constant=(1,))
case("mean_all", "ReduceMean", [f(3, 4)])
case("mean_noop", "ReduceMean", [f(3, 4)], {"noop_with_empty_axes": 1})

# ---- products ----
def linear(name, x, w, b):
    y = x.astype(np.float64) @ w.astype(np.float64).T
    if b is not None: y = y + b
    write(name, "Linear", [("in", x), ("const", w)] + ([("const", b)] if b is not None else []), {}, [y.astype(np.float32)], 4e-6)

linear("linear", f(5, 33), f(7, 33), f(7))
linear("linear_no_bias", f(2, 3, 16), f(4, 16), None)
linear("linear_f16", f(5, 32), f(6, 32).astype(np.float16), f(6))
case("matmul", "MatMul", [f(5, 7), f(7, 3)], tol=4e-6)
case("matmul_batch", "MatMul", [f(2, 1, 3, 4), f(5, 4, 6)], tol=4e-6)
case("matmul_left_list", "MatMul", [f(4), f(2, 4, 3)], tol=4e-6)
case("matmul_right_list", "MatMul", [f(2, 3, 4), f(4)], tol=4e-6)
case("conv_patch", "Conv", [f(2, 3, 8, 12), f(5, 3, 4, 4), f(5)], {"strides": [4, 4], "kernel_shape": [4, 4]}, tol=4e-6)
case("conv_pads", "Conv", [f(1, 2, 7, 5), f(4, 2, 3, 3)], {"pads": [1, 2, 0, 1], "strides": [2, 1]}, tol=4e-6)
case("conv_dilated", "Conv", [f(2, 2, 9, 9), f(3, 2, 3, 2), f(3)], {"dilations": [2, 3], "pads": [1, 1, 1, 1]}, tol=4e-6)
case("conv_groups", "Conv", [f(1, 6, 6, 6), f(9, 2, 3, 3), f(9)], {"group": 3}, tol=4e-6)
case("conv_depthwise", "Conv", [f(1, 4, 5, 6), f(4, 1, 3, 3), f(4)], {"group": 4, "pads": [1, 1, 1, 1]}, tol=4e-6)
case("conv_same_upper", "Conv", [f(1, 1, 5, 6), f(2, 1, 3, 2)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, tol=4e-6)
case("conv_same_lower", "Conv", [f(1, 1, 5, 6), f(2, 1, 4, 2)], {"auto_pad": "SAME_LOWER", "strides": [1, 1]}, tol=4e-6)
case("conv_valid", "Conv", [f(1, 1, 5, 6), f(2, 1, 3, 2)], {"auto_pad": "VALID"}, tol=4e-6)

# ---- moves ----
case("gather_rows", "Gather", [f(6, 4), np.array([[5, 0, -1], [2, 2, -6]])])
case("gather_axis1", "Gather", [f(3, 5, 2), i64(4, 0, -2)], {"axis": 1})
case("gather_last", "Gather", [f(2, 3, 4), np.array(-1)], {"axis": -1})
case("gather_i64", "Gather", [rng.integers(0, 99, (7,)), i64(1, 1, 6)])
case("scatter_rows", "ScatterND", [f(6, 3), np.array([[4], [0], [-1]]), f(3, 3)])
case("scatter_deep", "ScatterND", [f(3, 4, 2), np.array([[[0, 1], [2, 3]], [[1, 0], [-1, -4]]]), f(2, 2, 2)])
case("reshape", "Reshape", [f(2, 3, 4), i64(0, -1, 2)], constant=(1,))
case("reshape_zero", "Reshape", [f(0, 3), i64(3, 0)], {"allowzero": 1}, constant=(1,))
case("transpose", "Transpose", [f(2, 3, 4)])
case("transpose_perm", "Transpose", [f(2, 3, 4, 2)], {"perm": [0, 2, 3, 1]})
case("concat0", "Concat", [f(2, 3), f(1, 3), f(4, 3)], {"axis": 0})
case("concat_last", "Concat", [f(2, 3, 1), f(2, 3, 4)], {"axis": -1})
case("slice", "Slice", [f(5, 6), i64(1, 0), i64(4, 5)], constant=(1, 2))
case("slice_axes", "Slice", [f(4, 5, 6), i64(-3, 5), i64(2**62, 0), i64(-1, 1), i64(2, -2)], constant=(1, 2, 3, 4))
case("slice_reverse", "Slice", [f(7), i64(-1), i64(-100), i64(0), i64(-3)], constant=(1, 2, 3, 4))
case("slice_empty", "Slice", [f(7, 2), i64(5), i64(2), i64(0)], constant=(1, 2, 3))
case("split_sizes", "Split", [f(2, 7), i64(2, 4, 1)], {"axis": 1}, n_out=3, constant=(1,))
case("split_equal", "Split", [f(7, 2)], {"num_outputs": 3}, n_out=3)
case("squeeze", "Squeeze", [f(1, 3, 1, 2), i64(-2)], constant=(1,))
case("squeeze_all", "Squeeze", [f(1, 3, 1, 2)])
case("unsqueeze", "Unsqueeze", [f(3, 2), i64(0, -1)], constant=(1,))
case("expand", "Expand", [f(3, 1), i64(2, 1, 4)], constant=(1,))
case("identity", "Identity", [f(3, 1)])

# ---- attention ----
case("attention_4d", "Attention", [f(2, 4, 5, 8), f(2, 4, 70, 8), f(2, 4, 70, 6)], tol=4e-6)
case("attention_3d", "Attention", [f(2, 5, 32), f(2, 9, 32), f(2, 9, 32)], {"q_num_heads": 4, "kv_num_heads": 4}, tol=4e-6)
case("attention_gqa", "Attention", [f(1, 5, 48), f(1, 7, 16), f(1, 7, 24)], {"q_num_heads": 6, "kv_num_heads": 2, "scale": 0.3}, tol=4e-6)
case("attention_causal", "Attention", [f(1, 2, 130, 4), f(1, 2, 130, 4), f(1, 2, 130, 4)], {"is_causal": 1}, tol=4e-6)
case("attention_softcap", "Attention", [f(1, 2, 5, 4, scale=3), f(1, 2, 6, 4, scale=3), f(1, 2, 6, 4)], {"softcap": 2.0}, tol=4e-6)
mask = rng.random((5, 9)) > .4
mask[2] = False
case("attention_bool_mask", "Attention", [f(2, 5, 32), f(2, 9, 32), f(2, 9, 32), mask], {"q_num_heads": 4, "kv_num_heads": 2 * 2}, tol=4e-6)
case("attention_float_mask", "Attention", [f(2, 4, 5, 8), f(2, 2, 9, 8), f(2, 2, 9, 8), f(2, 1, 5, 9)], {"is_causal": 1, "softcap": 3.0}, tol=4e-6)

# ---- rope ----
ang = f(2, 5, 4)
case("rotary_3d", "RotaryEmbedding", [f(2, 5, 24), np.cos(ang), np.sin(ang)], {"num_heads": 3})
case("rotary_3d_pairs", "RotaryEmbedding", [f(2, 5, 24), np.cos(ang), np.sin(ang)], {"num_heads": 3, "interleaved": 1})
case("rotary_part", "RotaryEmbedding", [f(2, 5, 36), np.cos(ang), np.sin(ang)], {"num_heads": 3, "rotary_embedding_dim": 8})
case("rotary_4d", "RotaryEmbedding", [f(2, 3, 5, 8), np.cos(ang), np.sin(ang)])
table = f(9, 4)
case("rotary_positions", "RotaryEmbedding", [f(2, 3, 5, 8), np.cos(table), np.sin(table), rng.integers(0, 9, (2, 5))], {"interleaved": 1})
case("rotary_positions_3d", "RotaryEmbedding", [f(2, 5, 24), np.cos(table), np.sin(table), rng.integers(0, 9, (2, 5))], {"num_heads": 3})


class T(np.ndarray):
    def __rtruediv__(self, other): return np.reciprocal(self) * np.float32(other)
    def to(self, *a, dtype=None, device=None): return self.astype(dtype) if dtype else self
    def float(self): return self.astype(np.float32)

torch = types.SimpleNamespace(float=np.float32, float32=np.float32, int64=np.int64, device=None, Tensor=T,
    arange=lambda *a, dtype=None, device=None: np.arange(*a).astype(dtype or np.int64).view(T),
    clamp=lambda x, lo, hi: np.clip(x, np.float32(lo), np.float32(hi)).view(T), where=lambda c, a, b: np.where(c, a, b).view(T),
    tensor=lambda v, dtype=None, device=None: np.array(v, dtype=dtype).view(T))
source = open(os.path.join(os.path.dirname(importlib.util.find_spec("transformers").origin), "modeling_rope_utils.py")).read()
source = "def _compute_default" + source.split("def _compute_default", 1)[1].split("ROPE_INIT_FUNCTIONS", 1)[0]
rope = {"torch": torch, "math": math}
exec("from typing import Optional\nPretrainedConfig = object\n" + source, rope)

rows = np.zeros((12, 8), np.int32)
rows[:, 2] = [0, 1, 2, 7, 63, 64, 511, 4095, 8191, 30000, 131071, 999999]
rows[:, 3] = rng.integers(0, 60, 12)
rows[:, 4] = rng.integers(0, 60, 12)


def angles(name, function, dim, theta, attrs, scaling=None, section=None, **more):
    config = types.SimpleNamespace(rope_theta=theta, head_dim=dim, hidden_size=dim, num_attention_heads=1,
                                   max_position_embeddings=4096, rope_scaling=scaling or {}, **more)
    inv, factor = rope[function](config, None)
    inv = np.asarray(inv).astype(np.float32)
    pos = rows[:, 2:5].astype(np.float32)
    axis = np.zeros(dim // 2, int)
    if section: axis = np.repeat([0, 1, 2], section)
    a = (pos[:, axis] * inv[None, :]).astype(np.float32).astype(np.float64)
    out = [(np.cos(a).astype(np.float32) * np.float32(factor)), (np.sin(a).astype(np.float32) * np.float32(factor))]
    if section: attrs = attrs | {"mrope": section}
    # The frequencies agree to an ulp (powf); at position p that moves an angle of p * inv by as much.
    write(name, "RopeAngles", [("in", rows)], {"dim": dim, "theta": float(theta)} | attrs, out, 0.2)
    write(name + "_near", "RopeAngles", [("in", rows[:6])], {"dim": dim, "theta": float(theta)} | attrs, [o[:6] for o in out], 1e-5)


angles("rope_default", "_compute_default_rope_parameters", 64, 10000.0, {})
angles("rope_theta", "_compute_default_rope_parameters", 16, 500000.0, {"scaling": "none"})
angles("rope_mrope", "_compute_default_rope_parameters", 128, 1000000.0, {}, section=[16, 24, 24])
angles("rope_linear", "_compute_linear_scaling_rope_parameters", 64, 10000.0, {"scaling": "linear", "factor": 4.0}, {"factor": 4.0})
l3 = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
angles("rope_llama3", "_compute_llama3_parameters", 64, 500000.0, {"scaling": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
       "high_freq_factor": 4.0, "original_context": 8192}, l3)
y = {"factor": 4.0, "original_max_position_embeddings": 32768}
ya = {"scaling": "yarn", "factor": 4.0, "original_context": 32768}
angles("rope_yarn", "_compute_yarn_parameters", 128, 1000000.0, ya, y)
angles("rope_yarn_mscale", "_compute_yarn_parameters", 64, 10000.0, ya | {"mscale": 0.707, "mscale_all_dim": 1.0, "beta_fast": 16.0},
       y | {"mscale": 0.707, "mscale_all_dim": 1.0, "beta_fast": 16})
angles("rope_yarn_whole", "_compute_yarn_parameters", 64, 10000.0, ya | {"truncate": 0, "attention_factor": 1.25}, y | {"truncate": False, "attention_factor": 1.25})
ff = [float(np.float32(x)) for x in np.linspace(1, 8, 16)]
angles("rope_factors", "_compute_longrope_parameters", 32, 10000.0, {"scaling": "factors", "freq_factors": ff, "attention_factor": 1.5},
       {"short_factor": ff, "long_factor": ff, "factor": 2.0, "attention_factor": 1.5})

open(os.path.join(here, "cases.txt"), "w").write("\n".join(text) + "\n")
open(os.path.join(here, "cases.bin"), "wb").write(bytes(blob))
print(sum(t.startswith("case") for t in text), "cases,", len(blob), "bytes; onnx", onnx.__version__, "numpy", np.__version__)
