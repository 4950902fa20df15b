#!/usr/bin/env python3
"""Checkpoints of real shapes with random weights, for timing: no figure of quality can come from them.

    bench/random_models.py llama-1.1b --out DIR                       a Hugging Face directory, f16
    bench/random_models.py llama-1.1b --out DIR --type q4_0,q4_k_m    and GGUF files of these block types
    bench/random_models.py vit-l14-336 --out DIR --dtype f32
    bench/random_models.py vit-b16 --out DIR --type int8              and a directory of bytes with a scale a row
    bench/random_models.py --list

Needs numpy only.  GGUF files are written by `pinhole quantize` (PINHOLE, default build/pinhole).  For types whose search
takes long, the language part's blocks are random bits instead, with scales that keep the size of the numbers: as
fast to read and multiply as any (--search quantises them all the same; a vision part stays as it is then).  q4_k_m is
llama.cpp's mixture: half of the value and down projections, and the output, in q6_k, everything else in q4_k.
int8 is a second directory, SHAPE.int8, with the tensors that `pinhole quantize --to int8` makes of the first.
The tokenizer is the built-in model's, padded with pieces that no text makes, with the special tokens that the
family wants.  Same shape, sizes, seed and numpy: same bytes.  Nothing is written inside the repository.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import zlib

try:
    import numpy as np
except ImportError:
    sys.exit("random_models.py: numpy, which makes the weights, is not here: pip install numpy, or python3-numpy of the system")

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TOKENIZER = os.path.join(ROOT, "models", "panel-vlm")


def text(d, ff, layers, heads, kv, vocab, context=2048, theta=10000.0, tied=False):
    return {"hidden_size": d, "intermediate_size": ff, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv, "head_dim": d // heads, "vocab_size": vocab,
            "max_position_embeddings": context, "rope_theta": theta, "tie_word_embeddings": tied}


def tower(d, ff, layers, heads, image, patch):
    return {"hidden_size": d, "intermediate_size": ff, "num_hidden_layers": layers, "num_attention_heads": heads,
            "image_size": image, "patch_size": patch, "num_channels": 3}


TINY = text(256, 768, 2, 4, 2, 1024, 4096)
SIGLIP_B = tower(768, 3072, 12, 12, 512, 16)
SHAPES = {  # kind, text, tower
    "llama-1.1b": ("llama", text(2048, 5632, 22, 32, 4, 32000), None),  # TinyLlama
    "smollm2-135m": ("llama", text(576, 1536, 30, 9, 3, 49152, 8192, 100000.0, True), None),
    "qwen3-0.6b": ("qwen3", dict(text(1024, 3072, 28, 16, 8, 151936, 8192, 1000000.0, True), head_dim=128), None),
    "smolvlm-256m": ("idefics3", text(576, 1536, 30, 9, 3, 49280, 8192, 100000.0), SIGLIP_B),
    "smolvlm-500m": ("idefics3", text(960, 2560, 32, 15, 5, 49280, 8192, 100000.0), SIGLIP_B),
    "vit-b16": ("llava", TINY, tower(768, 3072, 12, 12, 224, 16)),
    "vit-l14-336": ("llava", TINY, tower(1024, 4096, 24, 16, 336, 14)),
}

# ---- tokenizer ----


def special(token, at):
    return {"id": at, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True}


def make_tokenizer(vocab_size, more):
    """The built-in model's byte-level BPE with `more` special tokens, padded to vocab_size ids."""
    with open(os.path.join(TOKENIZER, "tokenizer.json"), encoding="utf-8") as f:
        t = json.load(f)
    vocab = t["model"]["vocab"]
    ids = {a["content"]: a["id"] for a in t["added_tokens"]}
    at = max(max(vocab.values()), max(ids.values())) + 1
    for token in more:
        if token in ids:
            continue
        ids[token] = at
        t["added_tokens"].append(special(token, at))
        vocab[token] = at
        at += 1
    if at > vocab_size:
        sys.exit(f"random_models.py: a vocabulary of {vocab_size}; the tokenizer has {at} ids already")
    for i in range(at, vocab_size):
        vocab[f"<unused_{i}>"] = i
    return t, ids


CHAT = ("{% for m in messages %}{{ m['role'] }}: {% if m['content'] is string %}{{ m['content'] }}{% else %}"
        "{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}"
        "{% endfor %}{% endif %}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}")

# ---- tensors ----


def language(c, prefix, head, norms_heads=False):
    d, ff, q = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"] * c["head_dim"]
    kv = c["num_key_value_heads"] * c["head_dim"]
    yield prefix + "embed_tokens.weight", (c["vocab_size"], d)
    for i in range(c["num_hidden_layers"]):
        at = f"{prefix}layers.{i}."
        yield at + "input_layernorm.weight", (d,)
        yield at + "self_attn.q_proj.weight", (q, d)
        yield at + "self_attn.k_proj.weight", (kv, d)
        yield at + "self_attn.v_proj.weight", (kv, d)
        yield at + "self_attn.o_proj.weight", (d, q)
        if norms_heads:
            yield at + "self_attn.q_norm.weight", (c["head_dim"],)
            yield at + "self_attn.k_norm.weight", (c["head_dim"],)
        yield at + "post_attention_layernorm.weight", (d,)
        yield at + "mlp.gate_proj.weight", (ff, d)
        yield at + "mlp.up_proj.weight", (ff, d)
        yield at + "mlp.down_proj.weight", (d, ff)
    yield prefix + "norm.weight", (d,)
    if not c["tie_word_embeddings"]:
        yield head, (c["vocab_size"], d)


def vision(c, prefix, is_clip):
    d, ff, patch = c["hidden_size"], c["intermediate_size"], c["patch_size"]
    n = (c["image_size"] // patch) ** 2
    yield prefix + "embeddings.patch_embedding.weight", (d, 3, patch, patch)
    if is_clip:
        yield prefix + "embeddings.class_embedding", (d,)
        yield prefix + "pre_layrnorm.weight", (d,)
        yield prefix + "pre_layrnorm.bias", (d,)
    else:
        yield prefix + "embeddings.patch_embedding.bias", (d,)
    yield prefix + "embeddings.position_embedding.weight", (n + is_clip, d)
    for i in range(c["num_hidden_layers"]):
        at = f"{prefix}encoder.layers.{i}."
        for name, shape in (("layer_norm1", (d,)), ("self_attn.q_proj", (d, d)), ("self_attn.k_proj", (d, d)),
                            ("self_attn.v_proj", (d, d)), ("self_attn.out_proj", (d, d)), ("layer_norm2", (d,)),
                            ("mlp.fc1", (ff, d)), ("mlp.fc2", (d, ff))):
            yield at + name + ".weight", shape
            yield at + name + ".bias", shape[:1]
    yield prefix + "post_layernorm.weight", (d,)
    yield prefix + "post_layernorm.bias", (d,)


def tensors(kind, t, v):
    if kind in ("llama", "qwen3"):
        yield from language(t, "model.", "lm_head.weight", kind == "qwen3")
    elif kind == "llava":
        yield from language(t, "language_model.model.", "language_model.lm_head.weight")
        yield from vision(v, "vision_tower.vision_model.", True)
        for i, k in ((1, v["hidden_size"]), (2, t["hidden_size"])):
            yield f"multi_modal_projector.linear_{i}.weight", (t["hidden_size"], k)
            yield f"multi_modal_projector.linear_{i}.bias", (t["hidden_size"],)
    else:
        yield from language(t, "model.text_model.", "lm_head.weight")
        yield from vision(v, "model.vision_model.", False)
        yield "model.connector.modality_projection.proj.weight", (t["hidden_size"], 16 * v["hidden_size"])


def is_norm(name):
    return "norm" in name


def numbers(name, shape, seed):
    """Norms are ones; biases and tables small; matrices keep the size of what goes through them."""
    if is_norm(name):
        return np.full(shape, 0.0 if name.endswith(".bias") else 1.0, np.float32)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    fan = int(np.prod(shape[1:])) if len(shape) > 1 else shape[0]
    size = 0.02 if len(shape) == 1 or "embed" in name else fan ** -0.5
    return rng.standard_normal(shape, np.float32) * np.float32(size)


def stored(x, dtype):
    if dtype == "f32":
        return x.astype("<f4").tobytes()
    if dtype == "f16":
        return x.astype("<f2").tobytes()
    bits = np.ascontiguousarray(x, "<f4").view("<u4").astype(np.uint64)  # to nearest even
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def rounded(x, dtype):
    """The numbers that a directory of this type holds of x."""
    if dtype == "bf16":
        return (np.frombuffer(stored(x, dtype), "<u2").astype("<u4") << 16).view("<f4").reshape(x.shape)
    return x.astype("<f2").astype("<f4") if dtype == "f16" else x


def int8(x, dtype, what):
    """Levels or scales of rows: symmetric, the largest number of a row is 127 (src/tensor/int8.c)."""
    x = rounded(x, dtype)
    scale = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    scale = np.where(scale > 0, scale, np.float32(1)).astype("<f4")
    return (scale if what == "scale" else np.clip(np.rint(x / scale), -127, 127).astype("i1")).tobytes()


def is_linear(name, shape):
    return len(shape) == 2 and name.endswith(".weight") and "embed" not in name and not name.endswith("lm_head.weight")


def parts_of(name, shape, dtype, as_int8):
    """What of a tensor is written: name, shape, type, and how its bytes are made of its numbers."""
    if not as_int8 or not is_linear(name, shape):
        return [(name, shape, dtype, lambda x: stored(x, dtype))]
    return [(name + "_scale", (shape[0], 1), "f32", lambda x: int8(x, dtype, "scale")),
            (name, shape, "i8", lambda x: int8(x, dtype, "levels"))]


def write_safetensors(path, listed, dtype, seed, as_int8=False):
    size = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1}
    parts = [(name, shape, part) for name, shape in listed for part in parts_of(name, shape, dtype, as_int8)]
    if as_int8:  # the widest elements first, each kind in the order of the model
        parts.sort(key=lambda p: -size[p[2][2]])
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for _, _, (name, shape, kind, _) in parts:
        n = int(np.prod(shape)) * size[kind]
        header[name] = {"dtype": kind.upper(), "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    part = path + ".part"
    with open(part, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for name, shape, (_, _, _, make) in parts:
            f.write(make(numbers(name, shape, seed)))
    os.replace(part, path)
    return at

# ---- configs ----


def write_json(folder, name, what):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(what, f, indent=1, ensure_ascii=False)
        f.write("\n")


def specials_of(kind):
    if kind == "llava":
        return ["<image>"]
    if kind == "idefics3":
        return ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"] + [
            f"<row_{r}_col_{c}>" for r in range(1, 7) for c in range(1, 7)]
    return []


def config_of(kind, t, v, ids, dtype):
    name = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[dtype]
    base = {"bos_token_id": ids["<s>"], "eos_token_id": ids["</s>"], "pad_token_id": ids["<pad>"]}
    lm = dict(t, model_type="llama", architectures=["LlamaForCausalLM"], hidden_act="silu", rms_norm_eps=1e-5,
              attention_bias=False, mlp_bias=False, torch_dtype=name, **base)
    if kind == "qwen3":
        lm.update(model_type="qwen3", architectures=["Qwen3ForCausalLM"], rms_norm_eps=1e-6)
    if kind in ("llama", "qwen3"):
        return lm
    out = {"torch_dtype": name, "tie_word_embeddings": False, "image_token_id": ids["<image>"],
           "text_config": lm, **base}
    if kind == "llava":
        n = (v["image_size"] // v["patch_size"]) ** 2
        out.update(architectures=["LlavaForConditionalGeneration"], model_type="llava",
                   image_token_index=ids["<image>"], image_seq_length=n, projector_hidden_act="gelu",
                   multimodal_projector_bias=True, vision_feature_layer=-1,
                   vision_feature_select_strategy="default",
                   vision_config=dict(v, model_type="clip_vision_model", hidden_act="quick_gelu",
                                      layer_norm_eps=1e-5, projection_dim=v["hidden_size"]))
    else:
        out.update(architectures=["Idefics3ForConditionalGeneration"], model_type="idefics3", scale_factor=4,
                   vision_config=dict(v, model_type="idefics3_vision", hidden_act="gelu_pytorch_tanh",
                                      layer_norm_eps=1e-6))
    return out


def with_int8(config, listed, tied):
    """The config of a directory whose Linears are int8."""
    scheme = {"num_bits": 8, "type": "int", "symmetric": True}
    group = {"targets": ["Linear"], "weights": dict(scheme, strategy="channel", dynamic=False),
             "input_activations": dict(scheme, strategy="token", dynamic=True), "output_activations": None}
    head = ["re:.*lm_head"] if tied else [n[:-len(".weight")] for n, _ in listed if n.endswith("lm_head.weight")]
    return dict(config, quantization_config={
        "quant_method": "compressed-tensors", "format": "int-quantized", "quantization_status": "compressed",
        "config_groups": {"group_0": group}, "ignore": head, "kv_cache_scheme": None})


def processor_of(kind, v):
    side = v["image_size"]
    common = {"do_convert_rgb": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
              "do_resize": True}
    if kind == "llava":
        return dict(common, image_processor_type="CLIPImageProcessor", processor_class="LlavaProcessor",
                    size={"shortest_edge": side}, resample=3, do_center_crop=True,
                    crop_size={"height": side, "width": side}, image_mean=[0.48145466, 0.4578275, 0.40821073],
                    image_std=[0.26862954, 0.26130258, 0.27577711])
    return dict(common, image_processor_type="Idefics3ImageProcessor", processor_class="Idefics3Processor",
                size={"longest_edge": 4 * side}, max_image_size={"longest_edge": side}, resample=1, do_pad=True,
                do_image_splitting=True, image_mean=[0.5] * 3, image_std=[0.5] * 3)


def write_configs(folder, kind, t, v, dtype, change=lambda config: config):
    tokenizer, ids = make_tokenizer(t["vocab_size"], specials_of(kind))
    write_json(folder, "tokenizer.json", tokenizer)
    write_json(folder, "tokenizer_config.json",
               {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
                "pad_token": "<pad>", "model_max_length": t["max_position_embeddings"], "chat_template": CHAT})
    write_json(folder, "config.json", change(config_of(kind, t, v, ids, dtype)))
    if not v:
        return
    write_json(folder, "preprocessor_config.json", processor_of(kind, v))
    n = (v["image_size"] // v["patch_size"]) ** 2
    write_json(folder, "processor_config.json",
               {"processor_class": "LlavaProcessor", "image_token": "<image>", "patch_size": v["patch_size"],
                "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
               if kind == "llava" else {"processor_class": "Idefics3Processor", "image_seq_len": n // 16})

# ---- GGUF ----


def has_more_bits(i, layers):
    """llama.cpp's q4_k_m: the first and last eighth of the layers, and every third between."""
    return i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2


def q4_k_m(layers):
    rules = ["output.weight = q6_k"]
    for i in range(layers):
        if has_more_bits(i, layers):
            rules += [f"blk.{i}.attn_v.weight = q6_k", f"blk.{i}.ffn_down.weight = q6_k"]
    return "\n".join(rules) + "\n"


def quantize(pinhole, folder, path, kind, layers, has_vision):
    command = [pinhole, "quantize", folder, "-o", path, "--quiet"]
    if has_vision:
        command += ["--mmproj-out", path[:-len(".gguf")] + ".mmproj.gguf"]
    recipe = path + ".recipe"
    if kind == "q4_k_m":
        with open(recipe, "w", encoding="utf-8") as f:
            f.write(q4_k_m(layers))
        command += ["--to", "q4_k", "--recipe", recipe]
    else:
        command += ["--to", kind]
    subprocess.run(command, check=True, stdout=sys.stderr)
    if kind == "q4_k_m":
        os.remove(recipe)


# name: GGUF type, elements and bytes a block, parts of a block: (kind, bytes); the size of a number in units of d
# (the standard deviation of scale times quant, for random bits), and the offset in units of d where there is one.
BLOCKS = {
    "q4_0": (2, 32, 18, (("d", 2), ("bits", 16)), 4.61, 0),
    "q4_1": (3, 32, 20, (("d", 2), ("m", 2), ("bits", 16)), 4.61, -7.5),
    "q5_0": (6, 32, 22, (("d", 2), ("bits", 20)), 9.23, 0),
    "q5_1": (7, 32, 24, (("d", 2), ("m", 2), ("bits", 20)), 9.23, -15.5),
    "q4_k": (12, 256, 144, (("d", 2), ("m", 2), ("bits", 140)), 257.0, 7.5),
    "q5_k": (13, 256, 176, (("d", 2), ("m", 2), ("bits", 172)), 529.0, 15.5),
    "q6_k": (14, 256, 210, (("bits", 208), ("d", 2)), 73.9 * 18.5, 0),
}


def random_blocks(kind, shape, seed, name):
    """Rows of random blocks, a few million elements at a time."""
    _, elements, size, parts, unit, offset = BLOCKS[kind]
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    std = 0.02 if "embd" in name else shape[-1] ** -0.5
    d = np.array([std / unit], "<f2")
    m = np.array([offset * std / unit], "<f2")
    left = int(np.prod(shape)) // elements
    while left:
        n = min(left, 1 << 16)
        blocks = rng.integers(0, 256, (n, size), np.uint8)
        at = 0
        for what, width in parts:
            if what != "bits":
                blocks[:, at:at + 2] = (d if what == "d" else m).view(np.uint8)
            at += width
        yield blocks.tobytes()
        left -= n


class Gguf:
    """What of a file is copied: metadata as bytes, and a list of tensors."""

    WIDTH = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def __init__(self, path):
        self.f = open(path, "rb")
        _, self.version, n_tensors, self.n_kv = self.take("<4sIQQ")
        begin = self.f.tell()
        for _ in range(self.n_kv):
            self.text()
            self.value(self.take("<I")[0])
        end = self.f.tell()
        self.f.seek(begin)
        self.meta = self.f.read(end - begin)
        self.tensors = []
        for _ in range(n_tensors):
            name = self.text().decode()
            dims = self.take("<%dQ" % self.take("<I")[0])
            kind, offset = self.take("<IQ")
            self.tensors.append((name, dims[::-1], kind, offset))
        self.data = (self.f.tell() + 31) // 32 * 32

    def take(self, form):
        return struct.unpack(form, self.f.read(struct.calcsize(form)))

    def text(self):
        return self.f.read(self.take("<Q")[0])

    def value(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            item, n = self.take("<IQ")
            if item == 8:
                for _ in range(n):
                    self.text()
            else:
                self.f.seek(n * self.WIDTH[item], 1)
        else:
            self.f.seek(self.WIDTH[kind], 1)


def type_of(kind, name, shape, layers, has_output):
    """The block type of a tensor, as llama.cpp's mixtures have it; None: as it is stored."""
    if len(shape) != 2 or not name.endswith(".weight") or is_norm(name):
        return None
    base = "q4_k" if kind == "q4_k_m" else kind
    if name == "output.weight" or (name == "token_embd.weight" and not has_output):
        base = "q6_k"
    elif kind == "q4_k_m" and name.endswith((".attn_v.weight", ".ffn_down.weight")):
        base = "q6_k" if has_more_bits(int(name.split(".")[1]), layers) else base
    if shape[-1] % BLOCKS[base][1]:
        base = "q4_0" if shape[-1] % 32 == 0 else None  # rows that are no whole blocks of 256
    return base


def fill(source, path, kind, layers, seed):
    """The file `source`, its matrices replaced by random blocks."""
    g = Gguf(source)
    has_output = any(t[0] == "output.weight" for t in g.tensors)
    plan, at = [], 0
    for name, shape, stored_as, offset in g.tensors:
        base = type_of(kind, name, shape, layers, has_output)
        n = int(np.prod(shape))
        size = n // BLOCKS[base][1] * BLOCKS[base][2] if base else n * {0: 4, 1: 2, 30: 2}[stored_as]
        plan.append((name, shape, base, stored_as, offset, at, size))
        at = (at + size + 31) // 32 * 32
    with open(path + ".part", "wb") as f:
        f.write(struct.pack("<4sIQQ", b"GGUF", g.version, len(plan), g.n_kv) + g.meta)
        for name, shape, base, stored_as, _, begin, _ in plan:
            f.write(struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape)))
            f.write(struct.pack("<%dQ" % len(shape), *shape[::-1]))
            f.write(struct.pack("<IQ", BLOCKS[base][0] if base else stored_as, begin))
        for name, shape, base, _, offset, _, size in plan:
            f.write(b"\0" * (-f.tell() % 32))
            if base:
                f.writelines(random_blocks(base, shape, seed, name))
            else:
                g.f.seek(g.data + offset)
                f.write(g.f.read(size))
        f.write(b"\0" * (-f.tell() % 32))
    os.replace(path + ".part", path)


def write_gguf(args, folder, path, kind, layers, has_vision):
    if args.search or kind not in (*BLOCKS, "q4_k_m"):
        quantize(args.pinhole, folder, path, kind, layers, has_vision)
        return
    plain = path + ".f16"
    quantize(args.pinhole, folder, plain + ".gguf", "f16", layers, has_vision)
    if has_vision:
        os.replace(plain + ".mmproj.gguf", path[:-len(".gguf")] + ".mmproj.gguf")
    fill(plain + ".gguf", path, kind, layers, args.seed)
    os.remove(plain + ".gguf")

# ---- the command ----


def changed(shape, args):
    """The shape with the sizes that the options give."""
    kind, t, v = shape
    t, v = dict(t), dict(v) if v else None
    for key, given in (("num_hidden_layers", args.layers), ("hidden_size", args.hidden),
                       ("intermediate_size", args.ff), ("vocab_size", args.vocab),
                       ("max_position_embeddings", args.context)):
        if given:
            t[key] = given
    t["head_dim"] = t["hidden_size"] // t["num_attention_heads"]
    if v and args.vision_layers:
        v["num_hidden_layers"] = args.vision_layers
    return kind, t, v


def refuse_inside(out):
    out = os.path.realpath(out)
    if out == ROOT or out.startswith(os.path.realpath(ROOT) + os.sep):
        sys.exit(f"random_models.py: {out} is inside the repository; give --out somewhere else")
    return out


def write_int8(args, folder, kind, t, v, listed):
    os.makedirs(folder, exist_ok=True)
    write_configs(folder, kind, t, v, args.dtype, lambda c: with_int8(c, listed, t["tie_word_embeddings"]))
    n = write_safetensors(os.path.join(folder, "model.safetensors"), listed, args.dtype, args.seed, True)
    print(f"{folder}: int8, {n / 1e6:.0f} MB")


def options():
    p = argparse.ArgumentParser(description="Checkpoints of real shapes with random weights, for timing.")
    p.add_argument("shape", nargs="?", choices=sorted(SHAPES))
    p.add_argument("--out", help="folder to write into, outside the repository")
    p.add_argument("--dtype", choices=("f16", "bf16", "f32"), default="f16", help="of the directory (f16)")
    p.add_argument("--type", default="", help="GGUF files of these types too: q4_0,q8_0,q4_k_m,f16 ...; int8: a directory")
    p.add_argument("--search", action="store_true", help="quantise instead of making random blocks")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--pinhole", default=os.environ.get("PINHOLE", os.path.join(ROOT, "build", "pinhole")))
    for name in ("layers", "hidden", "ff", "vocab", "context", "vision-layers"):
        p.add_argument("--" + name, type=int, help="instead of the shape's own")
    p.add_argument("--list", action="store_true", help="print the shapes and stop")
    return p, p.parse_args()


def main():
    parser, args = options()
    if args.list or not args.shape or not args.out:
        for name, (kind, t, v) in SHAPES.items():
            n = sum(int(np.prod(s)) for _, s in tensors(kind, t, v))
            print(f"{name:14} {n / 1e6:8.1f} M parameters  {kind}")
        return None if args.list else parser.error("a shape and --out are wanted")
    kind, t, v = changed(SHAPES[args.shape], args)
    folder = os.path.join(refuse_inside(args.out), args.shape)
    os.makedirs(folder, exist_ok=True)
    write_configs(folder, kind, t, v, args.dtype)
    listed = list(tensors(kind, t, v))
    n = write_safetensors(os.path.join(folder, "model.safetensors"), listed, args.dtype, args.seed)
    print(f"{folder}: {len(listed)} tensors, {n / 1e6:.0f} MB")
    for block in filter(None, args.type.lower().split(",")):
        if block == "int8":
            write_int8(args, folder + ".int8", kind, t, v, listed)
            continue
        path = f"{folder}.{block}.gguf"
        write_gguf(args, folder, path, block, t["num_hidden_layers"], v is not None)
        print(f"{path}: {os.path.getsize(path) / 1e6:.0f} MB")
    return None


if __name__ == "__main__":
    main()
