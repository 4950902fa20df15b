"""Small matrices in separate planes, as quantisers store them, with the numbers that they mean.

    make_storage.py INT8_SAFETENSORS OUT_FOLDER

The layouts are written here in numpy from their descriptions (AutoGPTQ qlinear_cuda.py, AutoAWQ gemm.py);
the byte forms are cut from a reference fixture, floats of eight bits are ml_dtypes', blocks of NVFP4 the gguf
package's.  planes.txt has a line a plane:
    case  form  bits  group  zero_add  rows  cols  plane  dtype  offset  bytes  width
width: elements of the plane's last dimension
"""
import sys
import gguf
import ml_dtypes
import numpy as np
from safetensors.numpy import load_file

int8, out = sys.argv[1:]
rng = np.random.default_rng(41)
data, lines = bytearray(), []
ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def add(case, form, bits, group, zero_add, rows, cols, plane, a, stored=None):
    name = {"float32": "F32", "float16": "F16", "int32": "I32", "int8": "I8", "uint8": "U8", "float8_e4m3fn": "F8_E4M3",
            "float8_e5m2": "F8_E5M2", "bfloat16": "BF16"}[str(a.dtype)] if stored is None else stored
    width = a.shape[-1] if a.ndim else 1
    lines.append(f"{case} {form} {bits} {group} {zero_add} {rows} {cols} {plane} {name} {len(data)} {a.nbytes} {width}")
    data.extend(np.ascontiguousarray(a).tobytes())


def words(q, bits, axis, order=None):
    """q packed along an axis, 32 / bits a word."""
    per = 32 // bits
    q = np.moveaxis(q.astype(np.uint32), axis, -1)
    q = q.reshape(*q.shape[:-1], -1, per)
    w = np.zeros(q.shape[:-1], np.uint32)
    for i in range(per):
        w |= q[..., order[i] if order else i] << np.uint32(bits * i)
    return np.moveaxis(w, -1, axis).view(np.int32)


def gptq(case, bits, group, shuffled=False, second=False, index=True, rows=16, cols=64):
    top, size = 2**bits - 1, group or cols
    at = np.arange(cols) // size
    if shuffled:
        at = rng.permutation(at)
    groups = at.max() + 1
    scale = rng.uniform(0.01, 0.1, (groups, rows)).astype(np.float16)
    zero = rng.integers(0, top + 1, (groups, rows))
    zero[0, :2] = [0, top]  # zero 0 is stored as the largest in the first format
    q = rng.integers(0, top + 1, (cols, rows))
    fact = (case, "gptq", bits, group, 0 if second else 1, rows, cols)
    add(*fact, 0, words(q, bits, 0))
    add(*fact, 1, scale)
    add(*fact, 2, words(zero if second else (zero - 1) & top, bits, 1))
    if index:
        add(*fact, 3, at.astype(np.int32))
    add(*fact, 9, (scale[at].astype(np.float32) * (q - zero[at]).astype(np.float32)).T)


def awq(case, group, rows=16, cols=64):
    size = group or cols
    at = np.arange(cols) // size
    scale = rng.uniform(0.01, 0.1, (at.max() + 1, rows)).astype(np.float16)
    zero = rng.integers(0, 16, scale.shape)
    q = rng.integers(0, 16, (cols, rows))
    fact = (case, "awq", 4, group, 0, rows, cols)
    add(*fact, 0, words(q, 4, 1, ORDER))
    add(*fact, 1, scale)
    add(*fact, 2, words(zero, 4, 1, ORDER))
    add(*fact, 9, (scale[at].astype(np.float32) * (q - zero[at]).astype(np.float32)).T)


def channels(case, q, scale, zero, want):
    fact = (case, "compressed-tensors", 0, 0, 0, *q.shape)
    add(*fact, 0, q)
    add(*fact, 1, scale)
    if zero is not None:
        add(*fact, 2, zero)
    add(*fact, 9, want)


gptq("v1", 4, 32)
gptq("v1_bits2", 2, 16)
gptq("v1_bits8", 8, 32)
gptq("v1_desc_act", 4, 16, shuffled=True)
gptq("v1_row", 4, 0)
gptq("v2", 4, 32, second=True)
gptq("v2_no_index", 8, 16, second=True, index=False)
awq("awq", 32)
awq("awq_row", 0)
f = load_file(int8)
channels("rowwise", f["sym8_rowwise_q"], f["sym8_rowwise_scale"], None, f["sym8_rowwise_deq"])
channels("asymmetric", f["asym8_rowwise_q"], f["asym8_rowwise_scale"], f["asym8_rowwise_zp"], f["asym8_rowwise_deq"])
channels("groups", f["sym4_group32_q"], f["sym4_group32_scale"], None, f["sym4_group32_deq"])
q = f["sym8_tensor_q"]
channels("tensor", q, f["sym8_tensor_scale"], None, f["sym8_tensor_scale"] * q.astype(np.float32))


def float8(case, form, kind, scale, rows, cols, side=128):
    """Random floats of eight bits under scales [N / side, K / side], [N, 1], [N] or [1]."""
    q = rng.normal(0, 60, (rows, cols)).astype(kind)
    fact = (case, form, 0, 0, 0, rows, cols)
    add(*fact, 0, q)
    add(*fact, 1, scale)
    s = scale.astype(np.float32)
    if s.ndim == 2 and s.shape[1] > 1:
        s = np.repeat(np.repeat(s, side, 0), side, 1)[:rows, :cols]
    elif s.size == rows:
        s = s.reshape(rows, 1)
    add(*fact, 9, np.float32(s) * q.astype(np.float32))


def some(shape, kind):
    return rng.uniform(0.001, 0.1, shape).astype(kind)


e4m3, e5m2, bf16 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16
float8("fp8_blocks", "fp8", e4m3, some((2, 3), np.float32), 136, 260)
float8("fp8_tensor", "fp8", e4m3, some((), np.float32), 8, 96)
float8("float_rows", "compressed-tensors", e4m3, some((24, 1), bf16), 24, 96)
float8("float_vector", "compressed-tensors", e5m2, some((24,), np.float32), 24, 96)
q = rng.integers(0, 256, (8, 2 * 36), np.uint8)
kind = gguf.GGMLQuantizationType.NVFP4
fact, factor = ("nvfp4_factor", "factor", 0, 0, 0, 8, 128), np.float32([0.013])
add(*fact, 0, q, "NVFP4")
add(*fact, 1, factor)
add(*fact, 9, gguf.quants.dequantize(q, kind) * factor)
open(out + "/planes.bin", "wb").write(data)
head = "# case form bits group zero_add rows cols plane dtype offset bytes width; plane 9: what it means\n"
open(out + "/planes.txt", "w").write(head + "\n".join(lines) + "\n")
