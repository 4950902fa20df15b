"""Cuts the reference fixtures for block types down to what the tensor tests read.

    make_quant.py FOLDER_WITH_BLOCKS_AND_ROUNDING OUT_FOLDER

blocks.bin holds the tensors one after the other; blocks.txt has a line for each:
    type  what  rows  offset  bytes  rmse
Where the fixtures have no random blocks, these are made here and unpacked by the gguf package.
"""
import json, sys
import numpy as np
import gguf
from gguf.quants import dequantize
from safetensors.numpy import load_file

src, out = sys.argv[1:]
types = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K",
         "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q5_K", "IQ4_NL", "IQ4_XS", "MXFP4", "TQ1_0", "TQ2_0",
         "NVFP4", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"]
rng = np.random.default_rng(16)
blocks = load_file(src + "/blocks.safetensors")
rounding = load_file(src + "/rounding.safetensors")
rmse = {b["type"]: b["rmse"] for b in json.load(open(src + "/manifest.json"))["blocks"]}

data, lines = bytearray(), []


def add(kind, what, a):
    lines.append(f"{kind:6} {what:11} {len(a):5} {len(data):8} {a.nbytes:7} {rmse.get(kind, 0):.9f}")
    data.extend(a.tobytes())


def random_blocks(kind, rows=6):
    """Rows of 256 elements of any bytes, but with scales that are finite and ordinary."""
    t = gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[t]
    b = rng.integers(0, 256, (rows * 256 // block, size), np.uint8)
    d = rng.uniform(-0.1, 0.1, len(b)).astype(np.float16)
    if kind == "IQ1_M":  # in the upper four bits of four words
        for k in range(4):
            b[:, 49 + 2 * k] = b[:, 49 + 2 * k] & 15 | ((d.view(np.uint16) >> 4 * k & 15) << 4).astype(np.uint8)
    elif kind != "NVFP4":
        at = size - 2 if kind.startswith("TQ") else 0
        b[:, at : at + 2] = d.view(np.uint8).reshape(-1, 2)
    q = b.reshape(rows, -1)
    return q, dequantize(q, t)


add("-", "x", blocks["x"])
add("-", "edge", blocks["edge"])
for t in types:
    for what in ["q", "deq", "edge_q", "edge_deq", "random_q", "random_deq"]:
        if f"{t}/{what}" in blocks:
            add(t, what, blocks[f"{t}/{what}"])
    if types.index(t) >= types.index("TQ1_0") and f"{t}/random_q" not in blocks:
        q, deq = random_blocks(t)
        add(t, "random_q", q)
        add(t, "random_deq", deq)
for name, a in rounding.items():
    if name in ("f32_bits", "f16_bits_numpy", "bf16_bits_gguf", "bf16_bits_torch"):
        add("-", name.replace("_bits", ""), a)
for kind in ("e4m3fn", "e5m2"):
    add("-", kind + "_of", rounding[f"float8_{kind}_from_f32"])
    add("-", kind + "_to", rounding[f"float8_{kind}_to_f32"])
open(out + "/blocks.bin", "wb").write(data)
open(out + "/blocks.txt", "w").write("# type what rows offset bytes rmse   (make_quant.py, do not edit)\n" + "\n".join(lines) + "\n")
