"""Our GGUF files as the public gguf package reads them, and its files as we read them.

    gguf_roundtrip.py PINHOLE CHECKPOINT FOLDER

Prints a line a failure and ends with "N passed, M failed".
"""
import json
import os
import sys

import gguf
import numpy as np
from field_names import vision_names
from gguf.quants import dequantize

from checks import check, end, runner

pinhole, checkpoint, folder = sys.argv[1:]
run = runner(pinhole)


def weights(path):
    """Tensors of a safetensors file or of a set of shards, as float32."""
    out = {}
    for name in sorted(os.listdir(path)):
        if not name.endswith(".safetensors"):
            continue
        data = open(os.path.join(path, name), "rb").read()
        n = int.from_bytes(data[:8], "little")
        for key, t in json.loads(data[8 : 8 + n]).items():
            if key == "__metadata__":
                continue
            raw = data[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]]
            if t["dtype"] == "BF16":
                a = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
            else:
                a = np.frombuffer(raw, {"F32": np.float32, "F16": np.float16}[t["dtype"]]).astype(np.float32)
            out[key] = a.reshape(t["shape"])
    return out


def pairs(x, heads):
    """Rows of q and k as GGUF's llama keeps them: those that rotate together side by side."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


# ---- ours, read by the package ----

config = json.load(open(os.path.join(checkpoint, "config.json")))
text = config.get("text_config", config)
arch = {"qwen2_vl_text": "qwen2vl", "qwen2_5_vl_text": "qwen2vl", "gemma3_text": "gemma3"}.get(text["model_type"], text["model_type"])
ours = os.path.join(folder, "ours.gguf")
r = run("convert", checkpoint, "-o", ours, "--to", "gguf", "--json")
check(r.returncode == 0, r.stderr)
reader = gguf.GGUFReader(ours)
keys = {k: f.contents() for k, f in reader.fields.items()}
tensors = {t.name: t for t in reader.tensors}
check(keys["general.architecture"] == arch, "architecture")
for key, name in [
    ("block_count", "num_hidden_layers"),
    ("embedding_length", "hidden_size"),
    ("feed_forward_length", "intermediate_size"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("context_length", "max_position_embeddings"),
]:
    check(keys.get(f"{arch}.{key}") == text[name], f"{key}: {keys.get(f'{arch}.{key}')} is not {text[name]}")
check(abs(keys[f"{arch}.attention.layer_norm_rms_epsilon"] / text["rms_norm_eps"] - 1) < 1e-6, "epsilon")
if arch == "qwen2vl":
    check(keys["qwen2vl.rope.dimension_sections"] == text["rope_scaling"]["mrope_section"] + [0], "axes")
check(len(keys["tokenizer.ggml.tokens"]) == len(keys["tokenizer.ggml.token_type"]), "tokens and types")
vocab = json.load(open(os.path.join(checkpoint, "tokenizer.json")))
listed = {**vocab["model"]["vocab"], **{t["content"]: t["id"] for t in vocab["added_tokens"]}}
check(all(keys["tokenizer.ggml.tokens"][i] == s for s, i in listed.items()), "pieces")
if keys["tokenizer.ggml.model"] == "gpt2":
    merges = [m if isinstance(m, str) else " ".join(m) for m in vocab["model"]["merges"]]
    check(keys["tokenizer.ggml.merges"] == merges, "merges")
w = weights(checkpoint)
prefix = next(p for p in ("language_model.model.", "model.text_model.", "model.") if p + "norm.weight" in w)
is_gemma = arch.startswith("gemma")
names = {"token_embd.weight": "embed_tokens.weight", "output_norm.weight": "norm.weight"}
for i in range(text["num_hidden_layers"]):
    for a, b in [
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("attn_output", "self_attn.o_proj"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
        ("attn_norm", "input_layernorm"),
        ("post_attention_norm" if is_gemma else "ffn_norm", "post_attention_layernorm"),
    ] + [("ffn_norm", "pre_feedforward_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm")] * is_gemma:
        names[f"blk.{i}.{a}.weight"] = f"layers.{i}.{b}.weight"
for name, source in names.items():
    t, want = tensors.get(name), w[prefix + source]
    if arch == "llama" and ".attn_q" in name:
        want = pairs(want, text["num_attention_heads"])
    if arch == "llama" and ".attn_k" in name:
        want = pairs(want, text["num_key_value_heads"])
    if is_gemma and "norm" in name:
        want = want + 1  # the files have the factor itself
    check(t is not None and list(reversed(t.shape.tolist())) == list(want.shape), f"{name}: shape")
    check(t is not None and np.array_equal(dequantize(t.data, t.tensor_type).reshape(want.shape), want), f"{name}: numbers")

# ---- the vision part: keys of the package's constants, names of its table ----

mmproj = os.path.join(folder, "mmproj-ours.gguf")
if os.path.exists(mmproj):
    reader = gguf.GGUFReader(mmproj)
    keys = {k: f.contents() for k, f in reader.fields.items()}
    tensors = {t.name: t for t in reader.tensors}
    vision, K = config["vision_config"], gguf.Keys.ClipVision
    prepared = json.load(open(os.path.join(checkpoint, "preprocessor_config.json")))
    layers = vision.get("num_hidden_layers", vision.get("depth"))
    want = {
        "general.architecture": "clip",
        gguf.Keys.Clip.PROJECTOR_TYPE: {"llava": "mlp", "llava_next": "mlp", "qwen2_vl": gguf.VisionProjectorType.QWEN2VL,
                                        "qwen2_5_vl": gguf.VisionProjectorType.QWEN25VL}.get(config["model_type"], config["model_type"]),
        K.BLOCK_COUNT: layers,
        K.EMBEDDING_LENGTH: vision.get("embed_dim", vision["hidden_size"]),
        K.Attention.HEAD_COUNT: vision.get("num_attention_heads", vision.get("num_heads")),
        K.PROJECTION_DIM: text["hidden_size"],
    }
    if "spatial_merge_size" in vision:
        want |= {K.SPATIAL_MERGE_SIZE: 2, K.IMAGE_MIN_PIXELS: prepared["min_pixels"], K.IMAGE_MAX_PIXELS: prepared["max_pixels"]}
    if "fullatt_block_indexes" in vision:
        want |= {K.N_WA_PATTERN: vision["fullatt_block_indexes"][0] + 1, K.WINDOW_SIZE: vision["window_size"], K.USE_SILU: True}
    if "max_patches" in prepared:
        want |= {K.PREPROC_MIN_TILES: prepared["min_patches"], K.PREPROC_MAX_TILES: prepared["max_patches"]}
    if "image_grid_pinpoints" in prepared:  # there width stands before height
        want |= {"clip.vision.image_grid_pinpoints": [side for p in prepared["image_grid_pinpoints"] for side in reversed(p)],
                 "clip.vision.mm_patch_merge_type": "spatial_unpad"}
    for key, value in want.items():
        check(keys.get(key) == value, f"{key}: {keys.get(key)} is not {value}")
    named = dict(vision_names(config, w, layers))
    check(named.keys() == tensors.keys(), f"names of the vision part: {named.keys() ^ tensors.keys()}")
    for name in named.keys() & tensors.keys():
        t, x = tensors[name], named[name].squeeze() if named[name].ndim == 3 else named[name]
        # Of [1, 1, n] and [1, n, d] GGUF, too, keeps or drops dimensions of one: the others must be the same.
        shape = [d for d in reversed(t.shape.tolist()) if d > 1 or named[name].ndim != 3]
        check(shape == list(x.shape), f"{name}: {t.shape} is not {x.shape}")
        check(np.array_equal(dequantize(t.data, t.tensor_type).reshape(x.shape), x), f"{name}: numbers")

# ---- block types: ours unpack there as they do here ----

for kind in ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "mxfp4", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs", "tq1_0", "tq2_0", "nvfp4"]:
    packed, plain = os.path.join(folder, kind + ".gguf"), os.path.join(folder, kind + ".f32.gguf")
    big = os.path.join(folder, "big.gguf")
    if not os.path.exists(big):  # rows of 256, which the K types want; an architecture of nobody's
        out = gguf.GGUFWriter(big, "nobody")
        out.add_array("nobody.list", [1, 2, 3])
        out.add_string("nobody.text", "grüße")
        out.add_float64("nobody.double", 0.1)
        x = np.random.default_rng(3).standard_normal((24, 512)).astype(np.float32)
        out.add_tensor("blk.0.ffn_up.weight", x)
        out.add_tensor("blk.0.attn_norm.weight", x[0])
        out.add_tensor("half.weight", x.astype(np.float16))
        out.write_header_to_file()
        out.write_kv_data_to_file()
        out.write_tensors_to_file()
        out.close()
    r = run("quantize", big, "-o", packed, "--to", kind, "-q")
    check(r.returncode == 0, r.stderr)
    r = run("convert", packed, "-o", plain, "--to", "gguf", "--dtype", "f32", "-q")
    check(r.returncode == 0, r.stderr)
    a, b = gguf.GGUFReader(packed), gguf.GGUFReader(plain)
    t, u = {t.name: t for t in a.tensors}["blk.0.ffn_up.weight"], {t.name: t for t in b.tensors}["blk.0.ffn_up.weight"]
    check(t.tensor_type.name.lower() == kind, f"{kind}: stored as {t.tensor_type.name}")
    check(np.array_equal(dequantize(t.data, t.tensor_type), dequantize(u.data, u.tensor_type)), f"{kind}: unpacked")
    error = np.sqrt(np.mean((dequantize(t.data, t.tensor_type) - x) ** 2))
    check(error < {"q2_k": 0.35, "q3_k": 0.18, "mxfp4": 0.16, "nvfp4": 0.12, "tq1_0": 1, "tq2_0": 1}.get(kind, 0.1), f"{kind}: error {error}")
    check(np.array_equal(next(t for t in b.tensors if t.name == "blk.0.attn_norm.weight").data, x[0]), f"{kind}: the norm")
    fields = {k: f.contents() for k, f in b.fields.items()}
    check(fields["nobody.list"] == [1, 2, 3] and fields["nobody.text"] == "grüße" and fields["nobody.double"] == 0.1, "keys")

# ---- block types that we only read: any bytes, as the package unpacks them ----

types = [gguf.GGMLQuantizationType[k] for k in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "NVFP4", "TQ1_0")]
read, plain = os.path.join(folder, "read.gguf"), os.path.join(folder, "read.f32.gguf")
out = gguf.GGUFWriter(read, "nobody")
for t in types:
    block, size = gguf.GGML_QUANT_SIZES[t]
    b = np.random.default_rng(5).integers(0, 32, (4, 512 // block * size), np.uint8)  # low bytes make no infinite scale
    out.add_tensor(f"blk.0.{t.name}.weight", b, raw_dtype=t)
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
r = run("convert", read, "-o", plain, "--to", "gguf", "--dtype", "f32", "-q")
check(r.returncode == 0, r.stderr)
floats = {t.name: t.data for t in gguf.GGUFReader(plain).tensors}
for t in gguf.GGUFReader(read).tensors:
    check(np.array_equal(dequantize(t.data, t.tensor_type), floats[t.name].reshape(-1, 512)), f"{t.name}: read")
r = run("quantize", big, "-o", read, "--to", "iq2_xxs", "-q")
check(r.returncode != 0 and "read but cannot be written" in r.stderr, r.stderr)

# ---- the way back ----

vision = ["--mmproj", mmproj] if os.path.exists(mmproj) else []
back = os.path.join(folder, "back")
r = run("convert", ours, *vision, "-o", back, "--to", "safetensors", "-q")
check(r.returncode == 0, r.stderr)
again = weights(back)
check(again.keys() == w.keys() and all(np.array_equal(again[k], w[k]) for k in w), "there and back")

end()
