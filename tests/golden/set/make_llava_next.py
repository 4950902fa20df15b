"""A tiny LLaVA-NeXT checkpoint and its reference: make_llava_next.py REFERENCE_SET (numpy, transformers 4.57, pillow)

The weights are those of the set's vlm_llava15, with an image_newline of its own; the forward pass is written here in
double precision from the definition (modeling_llava_next.py: get_anyres_image_grid_shape, unpad_image,
pack_image_features), pictures are prepared by transformers' LlavaNextImageProcessor.  The pass is held to the set's
vlm_llava15 first: without that it writes nothing.
"""
import json, os, shutil, struct, sys
import numpy as np
from PIL import Image, ImageOps
from transformers.models.llava_next.image_processing_llava_next import LlavaNextImageProcessor
from transformers.image_processing_utils import select_best_resolution

SRC, DST = sys.argv[1], os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "vlm_llava_next")
OLD, IMAGES = os.path.join(SRC, "models", "vlm_llava15"), os.path.join(SRC, "images")
TYPES = {"F16": np.float16, "F32": np.float32, "I32": np.int32, "U8": np.uint8}
PINPOINTS = [[56, 112], [112, 56], [112, 112], [168, 56], [56, 168]]


def read(path):
    b = open(path, "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    out = {}
    for k, t in json.loads(b[8 : 8 + n]).items():
        if k != "__metadata__":
            a, z = t["data_offsets"]
            out[k] = np.frombuffer(b[8 + n + a : 8 + n + z], TYPES[t["dtype"]]).reshape(t["shape"])
    return out


def write(path, tensors):
    header, body = {}, b""
    for k, v in tensors.items():
        v = np.ascontiguousarray(v)
        name = next(n for n, t in TYPES.items() if v.dtype == t)
        header[k] = {"dtype": name, "shape": list(v.shape), "data_offsets": [len(body), len(body) + v.nbytes]}
        body += v.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)


config = json.load(open(OLD + "/config.json"))
stored = read(OLD + "/model.safetensors")
W = {k: v.astype(np.float64) for k, v in stored.items()}
V, T = config["vision_config"], config["text_config"]
SIDE = V["image_size"] // V["patch_size"]


def linear(x, name):
    y = x @ W[name + ".weight"].T
    return y + W[name + ".bias"] if name + ".bias" in W else y


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def erf(x):
    from math import erf as f

    return np.vectorize(f)(x)


def tower(tiles):
    """[n, 3, s, s] -> [n, patches, d]: the hidden state before the last layer, without CLS."""
    p, vt = V["patch_size"], "vision_tower.vision_model."

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + V["layer_norm_eps"])
        return x * W[vt + name + ".weight"] + W[vt + name + ".bias"]

    out = []
    for t in tiles:
        x = t.reshape(3, SIDE, p, SIDE, p).transpose(1, 3, 0, 2, 4).reshape(SIDE * SIDE, -1)
        x = x @ W[vt + "embeddings.patch_embedding.weight"].reshape(V["hidden_size"], -1).T
        x = np.concatenate([W[vt + "embeddings.class_embedding"][None], x])
        x = norm(x + W[vt + "embeddings.position_embedding.weight"], "pre_layrnorm")
        for i in range(V["num_hidden_layers"] - 1):
            l, h = vt + "encoder.layers.%d." % i, V["num_attention_heads"]
            y = norm(x, "encoder.layers.%d.layer_norm1" % i)
            q, k, v = (linear(y, l + "self_attn.%s_proj" % c).reshape(len(x), h, -1).transpose(1, 0, 2) for c in "qkv")
            a = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])) @ v
            x = x + linear(a.transpose(1, 0, 2).reshape(len(x), -1), l + "self_attn.out_proj")
            y = linear(norm(x, "encoder.layers.%d.layer_norm2" % i), l + "mlp.fc1")
            x = x + linear(y / (1 + np.exp(-1.702 * y)), l + "mlp.fc2")
        out.append(x[1:])
    x = linear(np.stack(out), "multi_modal_projector.linear_1")
    return linear(x * 0.5 * (1 + erf(x / np.sqrt(2))), "multi_modal_projector.linear_2")


def decoder(embeds):
    """[T, d] -> the hidden states [layers + 1][T, d], the last normed, and the last row's logits."""
    n, h, kv, d = len(embeds), T["num_attention_heads"], T["num_key_value_heads"], T["head_dim"]
    f = T["rope_theta"] ** (-np.arange(0, d, 2) / d)
    angle = np.arange(n)[:, None] * f
    cos, sin = np.cos(angle), np.sin(angle)
    norm = lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + T["rms_norm_eps"]) * W[w]

    def turn(x):
        a, b = x[..., : d // 2], x[..., d // 2 :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x, states = embeds, [embeds]
    for i in range(T["num_hidden_layers"]):
        l = "language_model.model.layers.%d." % i
        y = norm(x, l + "input_layernorm.weight")
        q = turn(linear(y, l + "self_attn.q_proj").reshape(n, h, d).transpose(1, 0, 2))
        k = turn(linear(y, l + "self_attn.k_proj").reshape(n, kv, d).transpose(1, 0, 2)).repeat(h // kv, 0)
        v = linear(y, l + "self_attn.v_proj").reshape(n, kv, d).transpose(1, 0, 2).repeat(h // kv, 0)
        s = q @ k.transpose(0, 2, 1) / np.sqrt(d) + np.triu(np.full((n, n), -np.inf), 1)
        x = x + linear((softmax(s) @ v).transpose(1, 0, 2).reshape(n, -1), l + "self_attn.o_proj")
        y = norm(x, l + "post_attention_layernorm.weight")
        g = linear(y, l + "mlp.gate_proj")
        x = x + linear(g / (1 + np.exp(-g)) * linear(y, l + "mlp.up_proj"), l + "mlp.down_proj")
        states.append(x)
    states[-1] = norm(x, "language_model.model.norm.weight")
    head = W.get("language_model.lm_head.weight", W["language_model.model.embed_tokens.weight"])
    return states, states[-1] @ head.T


def embed(ids, features):
    x = W["language_model.model.embed_tokens.weight"][ids].copy()
    if len(features):
        x[np.array(ids) == config["image_token_index"]] = features
    return x


def pack(features, size):
    """One picture's [1 + tiles, patches, d] -> [tokens, d]."""
    height, width = size
    bh, bw = select_best_resolution(size, PINPOINTS)
    rows, cols = bh // V["image_size"], bw // V["image_size"]
    grid = features[1:].reshape(rows, cols, SIDE, SIDE, -1).transpose(0, 2, 1, 3, 4).reshape(rows * SIDE, cols * SIDE, -1)
    h, w = grid.shape[:2]
    if width / height > w / h:
        pad = (h - int(round(height * (w / width), 7))) // 2
        grid = grid[pad : h - pad]
    else:
        pad = (w - int(round(width * (h / height), 7))) // 2
        grid = grid[:, pad : w - pad]
    line = np.broadcast_to(W["image_newline"], (grid.shape[0], 1, grid.shape[2]))
    return np.concatenate([features[0], np.concatenate([grid, line], 1).reshape(-1, grid.shape[2])])


def load(name):
    return ImageOps.exif_transpose(Image.open(os.path.join(IMAGES, name))).convert("RGB")


manifest = json.load(open(OLD + "/golden/manifest.json"))
token = config["image_token_index"]

# The pass against the set's own reference.
case = next(c for c in manifest["cases"] if c["name"] == "scene")
ref = read(OLD + "/golden/scene.safetensors")
mean, std = (np.array(json.load(open(OLD + "/preprocessor_config.json"))[k]) for k in ("image_mean", "image_std"))
u8 = ref["pixel_values_u8"].astype(np.float64)
got = decoder(embed(case["input_ids"], tower((u8 / 255 - mean[:, None, None]) / std[:, None, None])[0]))[1][-1]
off = np.abs(got - ref["logits_last"]).max() / np.abs(ref["logits_last"]).max()
print("vlm_llava15 scene: off by %.2g" % off)
assert off < 1e-5

rng = np.random.default_rng(2024)
stored["image_newline"] = (rng.standard_normal(T["hidden_size"]) * 0.5).astype(np.float16)
W["image_newline"] = stored["image_newline"].astype(np.float64)
os.makedirs(DST + "/golden", exist_ok=True)
for f in os.listdir(OLD):
    if f.endswith((".json", ".jinja", ".model")):
        shutil.copyfile(os.path.join(OLD, f), os.path.join(DST, f))
config.update(architectures=["LlavaNextForConditionalGeneration"], model_type="llava_next", image_grid_pinpoints=PINPOINTS)
json.dump(config, open(DST + "/config.json", "w"), indent=1)
processor = LlavaNextImageProcessor(size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56}, image_grid_pinpoints=PINPOINTS)
pre = json.load(open(OLD + "/preprocessor_config.json"))
pre.update(image_processor_type="LlavaNextImageProcessor", image_grid_pinpoints=PINPOINTS, processor_class="LlavaNextProcessor", do_pad=True)
json.dump(pre, open(DST + "/preprocessor_config.json", "w"), indent=1)
write(DST + "/model.safetensors", stored)

cases = []
for name, images in [("scene", ["scene.png"]), ("odd_aspect", ["odd_aspect.png"]), ("gray8", ["gray8.png"]), ("rgba", ["rgba.png"]), ("tiny", ["tiny.png"]), ("two_images", ["scene.png", "second.png"])]:
    of = next(c for c in manifest["cases"] if c["name"] == ("scene" if name == "tiny" else name))
    pixels, features = [], []
    for f in images:
        p = processor(load(f), return_tensors="np")
        pixels.append(p["pixel_values"][0])
        size = [int(v) for v in p["image_sizes"][0]]
        features.append(pack(tower(p["pixel_values"][0].astype(np.float64)), size))
    ids, left, before = [], [len(f) for f in features], None
    for i in of["input_ids"]:
        if i != token:
            ids.append(i)
        elif before != token:
            ids += [token] * left.pop(0)
        before = i
    features = np.concatenate(features)
    states, logits = decoder(embed(ids, features))
    first, said, margins = logits[-1], list(ids), []
    for _ in range(24):
        last = decoder(embed(said, features))[1][-1]
        top = np.sort(last)
        margins.append(top[-1] - top[-2])
        said.append(int(last.argmax()))
    most = float(np.abs(first).max())
    stable = next((i for i, m in enumerate(margins) if m < 3e-4 * most), 24)
    shown = {"pixel_values": np.concatenate(pixels).astype(np.float32)} if name == "tiny" else {}
    write(os.path.join(DST, "golden", name + ".safetensors"), {
        **shown, "input_ids": np.array(ids, np.int32), "hidden_0": states[0].astype(np.float32), "hidden_last_pos": np.stack([s[-1] for s in states]).astype(np.float32),
        "logits_last": first.astype(np.float32), "greedy_ids": np.array(said[len(ids):], np.int32),
        "greedy_final_step_logits": last.astype(np.float32)})
    cases.append({"name": name, "file": name + ".safetensors", "images": images, "rendered_text": of["rendered_text"],
                  "input_ids": ids, "greedy_ids": said[len(ids):], "greedy_stable_len": stable, "greedy_stable_len_loose": next((i for i, m in enumerate(margins) if m < 1e-2 * most), 24),
                  "logits_absmax": most, "tolerance": {"logits_atol": 1e-4 * most, "logits_atol_tight": 2e-5 * most, "hidden_rtol": 1e-4}})
    print(name, len(ids), "ids,", [p.shape[0] for p in pixels], "tiles, stable", stable)
json.dump({"model": "vlm_llava_next", "how": "double precision, numpy: see make_llava_next.py", "cases": cases}, open(DST + "/golden/manifest.json", "w"), indent=1)
for folder, _, files in os.walk(DST):
    for f in files:
        os.chmod(os.path.join(folder, f), 0o644)
