"""A GGUF file of ours that carries a Hugging Face directory, as the public gguf package reads it.

    gguf_carried.py PINHOLE CHECKPOINT FOLDER

Prints a line a failure and ends with "N passed, M failed".
"""
import json
import os
import sys

import gguf
import numpy as np
from gguf.quants import dequantize

from checks import check, checked, end, runner

pinhole, checkpoint, folder = sys.argv[1:]
run = checked(runner(pinhole))


def tensors(path):
    """Type, shape and bytes of each tensor of a safetensors file or of a set of shards."""
    out = {}
    for name in sorted(os.listdir(path)):
        if not name.endswith(".safetensors"):
            continue
        data = open(os.path.join(path, name), "rb").read()
        n = int.from_bytes(data[:8], "little")
        for key, t in json.loads(data[8 : 8 + n]).items():
            if key != "__metadata__":
                begin, end = t["data_offsets"]
                out[key] = (t["dtype"], t["shape"], data[8 + n + begin : 8 + n + end])
    return out


def numbers(kind, raw):
    if kind == "BF16":
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, {"F32": np.float32, "F16": np.float16}[kind]).astype(np.float32)


want = tensors(checkpoint)
ours, packed = os.path.join(folder, "ours.gguf"), os.path.join(folder, "packed.gguf")
run("convert", checkpoint, "-o", ours, "--to", "gguf", "--names", "huggingface", "-q")
run("quantize", ours, "-o", packed, "--to", "q8_0", "-q")
reader = gguf.GGUFReader(ours)
keys = {k: f.contents() for k, f in reader.fields.items()}
lines = keys["pinhole.original.tensors"]
check(keys["general.architecture"] == "huggingface", "architecture")
check(sorted(line.split(" ", 1)[1] for line in lines) == sorted(want), "names")
for name in os.listdir(checkpoint):
    path = os.path.join(checkpoint, name)
    if name.endswith((".safetensors", ".index.json")) or not os.path.isfile(path):
        continue
    has = keys.get("tokenizer.huggingface.json" if name == "tokenizer.json" else "pinhole.original." + name)
    data = open(path, "rb").read()
    check(has is not None and (bytes(has) if isinstance(has, list) else has.encode()) == data, name)
check(len(lines) == len(reader.tensors), "a line a tensor")
# Shapes that GGUF cannot say stand in a list of their own; the file has such with the first dimensions multiplied.
odd = {name for name, (_, shape, _) in want.items() if not 1 <= len(shape) <= 4}
shapes = keys.get("pinhole.original.shapes", [""] * len(lines))
check(("pinhole.original.shapes" in keys) == bool(odd) and len(shapes) == len(lines), "shapes only where one is odd")
for t, line, said in zip(reader.tensors, lines, shapes):
    kind, name = line.split(" ", 1)
    check(len(t.name.encode()) <= 63 and name.endswith(t.name.split("~")[-1]), f"{t.name} for {name}")
    shape, whole = list(reversed(t.shape.tolist())), want[name][1]
    stands = whole if name not in odd else [int(np.prod(whole[: len(whole) - 3]))] + whole[-3:] if whole else [1]
    check(kind == want[name][0] and shape == stands, f"{name}: {kind} {shape} is not {stands}")
    check(said == (str(whole) if name in odd else ""), f"{name}: the key says {said!r} of {whole}")
    check(t.data.tobytes() == want[name][2], f"{name}: bytes")
blocks = 0
for t, line in zip(gguf.GGUFReader(packed).tensors, lines):
    kind, name = line.split(" ", 1)
    if t.tensor_type != gguf.GGMLQuantizationType.Q8_0:
        continue
    x, y = numbers(kind, want[name][2]), dequantize(t.data, t.tensor_type).reshape(-1)
    check(np.abs(x - y).max() <= np.abs(x).max() / 200, f"{name}: numbers")
    blocks += 1
check(blocks > 3, f"{blocks} matrices became blocks")
end()
