"""A Hugging Face checkpoint carried by one GGUF file, as docs/adr/0164 says it, without pinhole.

    python3 make_carried.py CHECKPOINT OUT.gguf

Matrices of rows of 32 become Q8_0 where a Linear multiplies by them (proj and fc of the layers), the rest stays as it is;
names are cut to their last 63 bytes.  Needs the PyPI packages gguf and numpy.
"""
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

TYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32}
FILES = ("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
         "preprocessor_config.json", "processor_config.json", "chat_template.jinja", "vocab.json", "merges.txt")

checkpoint, path = pathlib.Path(sys.argv[1]), sys.argv[2]
data = (checkpoint / "model.safetensors").read_bytes()
n = struct.unpack("<Q", data[:8])[0]
out = gguf.GGUFWriter(path, "huggingface")
out.add_name(checkpoint.name)
if (checkpoint / "tokenizer.json").exists():
    out.add_string("tokenizer.huggingface.json", (checkpoint / "tokenizer.json").read_text())
for name in FILES:
    if (checkpoint / name).exists():
        out.add_string("pinhole.original." + name, (checkpoint / name).read_text())
for name in ("tokenizer.model", "spiece.model"):
    if (checkpoint / name).exists():
        out.add_array("pinhole.original." + name, list((checkpoint / name).read_bytes()))
lines, shapes = [], []
for name, t in sorted(json.loads(data[8 : 8 + n]).items()):
    if name == "__metadata__":
        continue
    raw = data[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]]
    x = np.frombuffer(raw, TYPES[t["dtype"]]).reshape(t["shape"])
    lines.append(f"{t['dtype']} {name}")
    shapes.append("" if x.ndim else "[]")
    short = name[-63:]
    if x.ndim == 2 and x.shape[1] % 32 == 0 and ".layers." in name:
        q = gguf.quants.quantize(np.ascontiguousarray(x, np.float32), gguf.GGMLQuantizationType.Q8_0)
        out.add_tensor(short, q, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    else:
        out.add_tensor(short, x.reshape(x.shape or (1,)))
out.add_array("pinhole.original.tensors", lines)
out.add_array("pinhole.original.shapes", shapes)
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
