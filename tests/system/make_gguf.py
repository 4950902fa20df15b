"""A Hugging Face checkpoint with pictures as the field's two GGUF files.

    python3 make_gguf.py CHECKPOINT OUT.gguf OUT.mmproj.gguf f32|f16|q8_0

Keys and tensor names are those of llama.cpp's converters (its README of the multimodal tools, the tables of the PyPI package
gguf); LLaVA and LLaVA-NeXT in the older form (last layer left out, ffn_down the first of the two, model.image_newline), the others in
the newer.
Needs the PyPI packages gguf and numpy.
"""
import json
import pathlib
import struct
import sys

import gguf
import numpy as np
from field_names import vision_names

ARCH = {"qwen2": "qwen2", "qwen2_vl_text": "qwen2vl", "qwen2_5_vl_text": "qwen2vl"}  # by model_type; else llama
PROJECTOR = {"llava": "mlp", "llava_next": "mlp", "qwen2_vl": "qwen2vl_merger", "qwen2_5_vl": "qwen2.5vl_merger"}  # else its own name
HALF = {"F32": np.float32, "F16": np.float16}


def tensors(folder):
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        n = struct.unpack("<Q", data[:8])[0]
        for name, t in json.loads(data[8 : 8 + n]).items():
            if name == "__metadata__":
                continue
            raw = data[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]]
            if t["dtype"] == "BF16":
                x = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
            else:
                x = np.frombuffer(raw, HALF[t["dtype"]]).astype(np.float32)
            yield name, x.reshape(t["shape"])


def add(out, name, x, kind):
    """Vectors and position tables stay f32, as converters leave them."""
    if x.ndim < 2 or kind == "f32" or "position" in name:
        out.add_tensor(name, np.ascontiguousarray(x, np.float32))
    elif kind == "f16" or x.ndim > 2 or x.shape[-1] % 32:
        out.add_tensor(name, np.ascontiguousarray(x).astype(np.float16))
    else:
        q = gguf.quants.quantize(np.ascontiguousarray(x, np.float32), gguf.GGMLQuantizationType.Q8_0)
        out.add_tensor(name, q, raw_dtype=gguf.GGMLQuantizationType.Q8_0)


def pairs(x, heads):
    """Rows of a rotated projection from halves (i, i + d/2) to neighbours (2i, 2i + 1)."""
    rows, width = x.shape
    return x.reshape(heads, 2, rows // heads // 2, width).swapaxes(1, 2).reshape(rows, width)


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """The fields of a protobuf message: number, value."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            n, at = varint(data, at)
            value, at = data[at : at + n], at + n
        else:
            n = {1: 8, 5: 4}[key & 7]
            value, at = data[at : at + n], at + n
        yield key >> 3, value


def sentencepiece(folder):
    """Pieces of tokenizer.model: text, score, type (1 normal when absent)."""
    for number, message in fields((folder / "tokenizer.model").read_bytes()):
        if number == 1:
            piece = dict(fields(message))
            yield piece[1].decode(), struct.unpack("<f", piece.get(2, b"\0\0\0\0"))[0], piece.get(3, 1)


def write_tokenizer(out, folder, vocab):
    tok = json.loads((folder / "tokenizer.json").read_text())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    text = [f"[PAD{i}]" for i in range(vocab)]
    kind = [5] * vocab  # unused
    score = [0.0] * vocab
    is_spm = (folder / "tokenizer.model").exists()
    if is_spm:
        for i, (piece, s, t) in enumerate(sentencepiece(folder)):
            text[i], score[i], kind[i] = piece, s, t
    else:
        for piece, i in tok["model"]["vocab"].items():
            text[i], kind[i] = piece, 1
    for a in tok["added_tokens"]:
        text[a["id"]] = a["content"]
        kind[a["id"]] = 3 if a["special"] and kind[a["id"]] != 2 else kind[a["id"]] if not a["special"] else 2
    out.add_tokenizer_model("llama" if is_spm else "gpt2")
    if not is_spm:
        out.add_tokenizer_pre("smollm" if out.arch == "llama" else "qwen2")
        out.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tok["model"]["merges"]])
    out.add_token_list(text)
    if is_spm:
        out.add_token_scores(score)
    out.add_token_types(kind)
    special = {v: k for k, v in enumerate(text)}
    for name, put in (("bos_token", out.add_bos_token_id), ("eos_token", out.add_eos_token_id), ("unk_token", out.add_unk_token_id), ("pad_token", out.add_pad_token_id)):
        token = config.get(name)
        token = token["content"] if isinstance(token, dict) else token
        if token in special:
            put(special[token])
    out.add_add_bos_token(is_spm)
    if is_spm:
        out.add_add_eos_token(False)
        out.add_add_space_prefix(True)
    out.add_chat_template((folder / "chat_template.jinja").read_text())


def write_language(path, folder, config, all_tensors, kind):
    t = config["text_config"]
    heads, kv = t["num_attention_heads"], t.get("num_key_value_heads", t["num_attention_heads"])
    dim = t.get("head_dim") or t["hidden_size"] // heads
    arch = ARCH.get(t.get("model_type"), "llama")
    out = gguf.GGUFWriter(path, arch)
    out.add_name(folder.name)
    out.add_context_length(t["max_position_embeddings"])
    out.add_embedding_length(t["hidden_size"])
    out.add_block_count(t["num_hidden_layers"])
    out.add_feed_forward_length(t["intermediate_size"])
    out.add_rope_dimension_count(dim)
    out.add_head_count(heads)
    out.add_head_count_kv(kv)
    out.add_layer_norm_rms_eps(t["rms_norm_eps"])
    out.add_rope_freq_base(t["rope_theta"])
    out.add_vocab_size(t["vocab_size"])
    if arch == "qwen2vl":
        out.add_rope_dimension_sections(t["rope_scaling"]["mrope_section"] + [0])
    write_tokenizer(out, folder, t["vocab_size"])
    names = gguf.get_tensor_name_map({"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen2vl": gguf.MODEL_ARCH.QWEN2VL}[arch], t["num_hidden_layers"])
    for name, x in all_tensors:
        for prefix in ("language_model.", "model.text_model."):
            if name.startswith(prefix):
                short = name[len(prefix) :]
                short = short if short.startswith(("model.", "lm_head")) else "model." + short
                break
        else:
            if name != "lm_head.weight" and not (arch == "qwen2vl" and name.startswith("model.")):
                continue
            short = name
        if ".q_proj." in short and arch == "llama":
            x = pairs(x, heads)
        if ".k_proj." in short and arch == "llama":
            x = pairs(x, kv)
        add(out, names.get_name(short, try_suffixes=(".weight", ".bias")), x, kind)
    finish(out)


VISION = [  # Hugging Face, GGUF
    ("embeddings.patch_embedding.", "v.patch_embd."), ("embeddings.class_embedding", "v.class_embd"),
    ("embeddings.position_embedding.", "v.position_embd."), ("pre_layrnorm.", "v.pre_ln."), ("post_layernorm.", "v.post_ln."),
    ("encoder.layers.", "v.blk."), ("self_attn.q_proj.", "attn_q."), ("self_attn.k_proj.", "attn_k."),
    ("self_attn.v_proj.", "attn_v."), ("self_attn.out_proj.", "attn_out."), ("layer_norm1.", "ln1."), ("layer_norm2.", "ln2."),
]


def vision_name(name, is_old):
    name = name.removeprefix("vision_tower.vision_model.").removeprefix("model.vision_model.")
    for hf, ours in VISION + [("mlp.fc1.", "ffn_down." if is_old else "ffn_up."), ("mlp.fc2.", "ffn_up." if is_old else "ffn_down.")]:
        name = name.replace(hf, ours)
    return name


def write_vision(path, folder, config, all_tensors, kind):
    v = config["vision_config"]
    p = json.loads((folder / "preprocessor_config.json").read_text())
    is_llava = config["model_type"] in ("llava", "llava_next")
    layers = v.get("num_hidden_layers", v.get("depth")) - (1 if is_llava else 0)
    width = v.get("embed_dim", v["hidden_size"])
    out = gguf.GGUFWriter(path, "clip")
    out.add_bool("clip.has_text_encoder", False)
    out.add_bool("clip.has_vision_encoder", True)
    if is_llava:
        out.add_bool("clip.has_llava_projector", True)
    out.add_string("clip.projector_type", PROJECTOR.get(config["model_type"], config["model_type"]))
    out.add_bool("clip.use_gelu", v["hidden_act"] in ("gelu", "gelu_pytorch_tanh"))
    out.add_bool("clip.use_silu", v["hidden_act"] == "silu")
    one = lambda side: side[0] if isinstance(side, list) else side
    for key, value in (("image_size", one(v.get("image_size", 560))), ("patch_size", one(v["patch_size"])), ("embedding_length", width),
                       ("feed_forward_length", v.get("intermediate_size", v["hidden_size"])), ("block_count", layers),
                       ("attention.head_count", v.get("num_attention_heads", v.get("num_heads"))),
                       ("projection_dim", config["text_config"]["hidden_size"])):
        out.add_uint32("clip.vision." + key, value)
    out.add_float32("clip.vision.attention.layer_norm_epsilon", v.get("layer_norm_eps", 1e-6))
    out.add_array("clip.vision.image_mean", p["image_mean"])
    out.add_array("clip.vision.image_std", p["image_std"])
    write_pictures(out, config, v, p)
    if config["model_type"] not in ("llava", "llava_next", "idefics3"):
        for name, x in vision_names(config, dict(all_tensors), layers):
            add(out, name, x.squeeze() if x.ndim == 3 else x, kind)
        return finish(out)
    bridge = {"multi_modal_projector.linear_1.": "mm.0.", "multi_modal_projector.linear_2.": "mm.2.", "model.connector.modality_projection.proj.": "mm.model.fc."}
    for name, x in all_tensors:
        for hf, ours in bridge.items():
            if name.startswith(hf):
                add(out, ours + name[len(hf) :], x, kind)
        if name == "image_newline":
            add(out, "model.image_newline", x, kind)
        if "vision" in name and f".layers.{layers}." not in name:
            add(out, vision_name(name, is_llava), x, kind)
    finish(out)


def write_pictures(out, config, v, p):
    """Keys of how pictures are prepared."""
    if config["model_type"] == "idefics3":
        out.add_vision_projector_scale_factor(config["scale_factor"])
        out.add_vision_preproc_image_size(p["size"]["longest_edge"])
    if config["model_type"] == "internvl":
        out.add_vision_projector_scale_factor(int(1 / config["downsample_ratio"]))
        out.add_vision_preproc_min_tiles(p["min_patches"])
        out.add_vision_preproc_max_tiles(p["max_patches"])
    if "image_grid_pinpoints" in p:
        flat = [side for pair in p["image_grid_pinpoints"] for side in reversed(pair)]  # width, then height
        out.add_array("clip.vision.image_grid_pinpoints", flat)
        out.add_string("clip.vision.mm_patch_merge_type", "spatial_unpad")
    if "spatial_merge_size" in v:  # the small checkpoints' own; the field's tools have theirs where these are missing
        out.add_vision_min_pixels(p["min_pixels"])
        out.add_vision_max_pixels(p["max_pixels"])
    if "fullatt_block_indexes" in v:
        out.add_vision_n_wa_pattern(v["fullatt_block_indexes"][0] + 1)
        out.add_vision_window_size(v["window_size"])


def finish(out):
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    folder, language, vision, kind = pathlib.Path(sys.argv[1]), *sys.argv[2:5]
    config = json.loads((folder / "config.json").read_text())
    both = list(tensors(folder))
    write_language(language, folder, config, both, kind)
    write_vision(vision, folder, config, both, kind)


main()
