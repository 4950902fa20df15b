"""Makes the small good files that the formats tests read, with the public libraries of both formats.

    make_formats.py OUT_FOLDER        (pip install gguf==0.19.0 safetensors==0.8.0 numpy)

facts.txt holds a line for each tensor as those libraries read it back:
    file  tensor  dtype  shape  crc32 of its bytes
"""
import json, os, sys, zlib
import numpy as np
import gguf
from safetensors import safe_open
from safetensors.numpy import save_file

out = sys.argv[1]
rng = np.random.default_rng(7)
facts = []
GT = gguf.GGMLQuantizationType


def fact(file, name, dtype, shape, data):
    dims = "x".join(map(str, shape)) or "scalar"
    facts.append(f"{file} {name} {dtype} {dims} {zlib.crc32(data):08x}")


def noise(*shape):
    return rng.standard_normal(shape).astype(np.float32)


# ---- GGUF: every value type, every tensor type that is read
w = gguf.GGUFWriter(out + "/kinds.gguf", "llama")
w.add_uint8("t.u8", 250), w.add_int8("t.i8", -5), w.add_uint16("t.u16", 65000), w.add_int16("t.i16", -30000)
w.add_uint32("t.u32", 4000000000), w.add_int32("t.i32", -2000000000), w.add_float32("t.f32", 0.1)
w.add_uint64("t.u64", 2**64 - 1), w.add_int64("t.i64", -(2**62)), w.add_float64("t.f64", 1e-300)
w.add_bool("t.yes", True), w.add_bool("t.no", False), w.add_string("t.text", "caf\u00e9 \U0001f600")
w.add_array("t.texts", ["a", "", "b\u00fccher", "<s>"]), w.add_array("t.ints", [3, -1, 4])
w.add_array("t.reals", [0.5, -1.25]), w.add_array("t.bools", [True, False, True])
w.add_custom_alignment(64)
tensors = [("f32", noise(3, 5), None), ("f16", noise(2, 3, 4).astype(np.float16), None), ("i32", np.arange(6, dtype=np.int32), None)]
for kind in ["BF16", "Q8_0", "Q4_0", "Q4_1"]:
    tensors.append((kind.lower(), gguf.quants.quantize(noise(2, 64), GT[kind]), GT[kind]))
tensors.append(("q4_k", rng.integers(0, 256, (2, 144), dtype=np.uint8), GT.Q4_K))
tensors.append(("q6_k", rng.integers(0, 256, (1, 2, 210), dtype=np.uint8), GT.Q6_K))
for name, data, kind in tensors:
    w.add_tensor(name, data, raw_dtype=kind)
w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()

# ---- GGUF in three parts
w = gguf.GGUFWriter(out + "/split.gguf", "llama", split_max_tensors=2)
w.add_string("general.name", "in parts")
for i in range(5):
    w.add_tensor(f"blk.{i}.weight", noise(4, 8 + i))
w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()

for file in sorted(os.listdir(out)):
    if file.endswith(".gguf"):
        for t in gguf.GGUFReader(out + "/" + file).tensors:
            fact(file, t.name, t.tensor_type.name, reversed(t.shape.tolist()), t.data.tobytes())

# ---- safetensors: every plain type, a scalar, an empty tensor
kinds = {k: rng.integers(0, 100, (2, 3)).astype(k) for k in ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]}
kinds |= {k: noise(4).astype(k) for k in ["float16", "float32", "float64"]}
kinds |= {"bool": np.array([True, False, True]), "scalar": np.array(2.5, np.float32), "empty": np.zeros((0, 7), np.float32), 'quote"\\': noise(1)}
save_file(kinds, out + "/kinds.safetensors", metadata={"format": "pt", "note": "caf\u00e9"})

os.makedirs(out + "/shards", exist_ok=True)
where = {}
for i in range(3):
    part = {f"layer.{i}.weight": noise(4, 8), f"layer.{i}.bias": noise(8)}
    name = f"model-{i + 1:05}-of-00003.safetensors"
    save_file(part, f"{out}/shards/{name}", metadata={"format": "pt"})
    where |= {k: name for k in part}
json.dump({"metadata": {"total_size": 480}, "weight_map": where}, open(out + "/shards/model.safetensors.index.json", "w"), indent=1)

for file in ["kinds.safetensors"] + [f"shards/model-{i + 1:05}-of-00003.safetensors" for i in range(3)]:
    with safe_open(f"{out}/{file}", "np") as f:
        for name in f.keys():
            s = f.get_slice(name)
            fact(file, name, s.get_dtype(), s.get_shape(), np.ascontiguousarray(f.get_tensor(name)).tobytes())

open(out + "/facts.txt", "w").write("# file tensor dtype shape crc32   (make_formats.py, do not edit)\n" + "\n".join(facts) + "\n")
