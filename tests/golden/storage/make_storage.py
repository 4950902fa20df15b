"""Small matrices in separate planes, as quantisers store them, with the numbers that they mean.

    make_storage.py INT8_SAFETENSORS OUT_FOLDER

The layouts are written here in numpy from their descriptions (AutoGPTQ qlinear_cuda.py, AutoAWQ gemm.py);
the byte forms are cut from a reference fixture.  planes.txt has a line a plane:
    case  form  bits  group  zero_add  rows  cols  plane  dtype  offset  bytes
"""
import sys
import numpy as np
from safetensors.numpy import load_file

int8, out = sys.argv[1:]
rng = np.random.default_rng(41)
data, lines = bytearray(), []
ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def add(case, form, bits, group, zero_add, rows, cols, plane, a):
    name = {"float32": "F32", "float16": "F16", "int32": "I32", "int8": "I8", "uint8": "U8"}[str(a.dtype)]
    lines.append(f"{case} {form} {bits} {group} {zero_add} {rows} {cols} {plane} {name} {len(data)} {a.nbytes}")
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
open(out + "/planes.bin", "wb").write(data)
head = "# case form bits group zero_add rows cols plane dtype offset bytes; plane 9: what it means\n"
open(out + "/planes.txt", "w").write(head + "\n".join(lines) + "\n")
