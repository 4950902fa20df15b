"""Cuts the reference fixtures for block types down to what the tensor tests read.

    make_quant.py FOLDER_WITH_BLOCKS_AND_ROUNDING OUT_FOLDER

blocks.bin holds the tensors one after the other; blocks.txt has a line for each:
    type  what  rows  offset  bytes  rmse
"""
import json, sys
from safetensors.numpy import load_file

src, out = sys.argv[1:]
types = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K",
         "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q5_K", "IQ4_NL", "IQ4_XS", "MXFP4"]
blocks = load_file(src + "/blocks.safetensors")
rounding = load_file(src + "/rounding.safetensors")
rmse = {b["type"]: b["rmse"] for b in json.load(open(src + "/manifest.json"))["blocks"]}

data, lines = bytearray(), []


def add(kind, what, a):
    lines.append(f"{kind:6} {what:11} {len(a):5} {len(data):8} {a.nbytes:7} {rmse.get(kind, 0):.9f}")
    data.extend(a.tobytes())


add("-", "x", blocks["x"])
add("-", "edge", blocks["edge"])
for t in types:
    for what in ["q", "deq", "edge_q", "edge_deq", "random_q", "random_deq"]:
        if f"{t}/{what}" in blocks:
            add(t, what, blocks[f"{t}/{what}"])
for name, a in rounding.items():
    if name in ("f32_bits", "f16_bits_numpy", "bf16_bits_gguf", "bf16_bits_torch"):
        add("-", name.replace("_bits", ""), a)
open(out + "/blocks.bin", "wb").write(data)
open(out + "/blocks.txt", "w").write("# type what rows offset bytes rmse   (make_quant.py, do not edit)\n" + "\n".join(lines) + "\n")
