"""A LLaVA's forward pass in double precision, from the definition, for the makers beside this."""
import json, os
import numpy as np
from PIL import Image, ImageOps
from reference import case_of, read, softmax, write

def load(images, name):
    return ImageOps.exif_transpose(Image.open(os.path.join(images, name))).convert("RGB")


def erf(x):
    from math import erf as f

    return np.vectorize(f)(x)


BENT = {
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "gelu": lambda x: x * 0.5 * (1 + erf(x / np.sqrt(2))),
    "gelu_pytorch_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}


class Llava:
    """W: arrays under their Hugging Face names.  A tower of CLIP or SigLIP, an MLP, a Llama decoder."""

    def __init__(self, config, stored):
        self.config, self.V, self.T = config, config["vision_config"], config["text_config"]
        self.W = {k: v.astype(np.float64) for k, v in stored.items()}
        self.side = self.V["image_size"] // self.V["patch_size"]

    def linear(self, x, name):
        y = x @ self.W[name + ".weight"].T
        return y + self.W[name + ".bias"] if name + ".bias" in self.W else y

    def hidden(self, tile):
        """[3, s, s] -> the hidden states [layers + 1][rows, d] of one tile."""
        V, W, vt = self.V, self.W, "vision_tower.vision_model."
        p, n, is_clip = V["patch_size"], self.side, V["model_type"] == "clip_vision_model"

        def norm(x, name):
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + V["layer_norm_eps"])
            return x * W[vt + name + ".weight"] + W[vt + name + ".bias"]

        x = tile.reshape(3, n, p, n, p).transpose(1, 3, 0, 2, 4).reshape(n * n, -1)
        x = x @ W[vt + "embeddings.patch_embedding.weight"].reshape(V["hidden_size"], -1).T
        if is_clip:
            x = np.concatenate([W[vt + "embeddings.class_embedding"][None], x])
        else:
            x = x + W[vt + "embeddings.patch_embedding.bias"]
        x = x + W[vt + "embeddings.position_embedding.weight"]
        states = [norm(x, "pre_layrnorm") if is_clip else x]
        for i in range(V["num_hidden_layers"]):
            x, l, h = states[-1], vt + "encoder.layers.%d." % i, V["num_attention_heads"]
            y = norm(x, "encoder.layers.%d.layer_norm1" % i)
            q, k, v = (self.linear(y, l + "self_attn.%s_proj" % c).reshape(len(x), h, -1).transpose(1, 0, 2) for c in "qkv")
            a = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])) @ v
            x = x + self.linear(a.transpose(1, 0, 2).reshape(len(x), -1), l + "self_attn.out_proj")
            y = self.linear(norm(x, "encoder.layers.%d.layer_norm2" % i), l + "mlp.fc1")
            states.append(x + self.linear(BENT[V["hidden_act"]](y), l + "mlp.fc2"))
        return states

    def tower(self, tiles):
        """[n, 3, s, s] -> [n, rows, d_model]: the chosen layers side by side, the first row left out by `default`."""
        chosen, first = self.config["vision_feature_layer"], self.config["vision_feature_select_strategy"] == "default"
        chosen = chosen if isinstance(chosen, list) else [chosen]
        hidden = [self.hidden(t) for t in tiles]
        x = np.stack([np.concatenate([h[c][first:] for c in chosen], -1) for h in hidden])
        x = BENT[self.config["projector_hidden_act"]](self.linear(x, "multi_modal_projector.linear_1"))
        return self.linear(x, "multi_modal_projector.linear_2")

    def decoder(self, embeds):
        """[T, d] -> the hidden states [layers + 1][T, d], the last normed, and the logits of every row."""
        T, W, linear = self.T, self.W, self.linear
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

    def embed(self, ids, features):
        x = self.W["language_model.model.embed_tokens.weight"][ids].copy()
        if len(features):
            x[np.array(ids) == self.config["image_token_index"]] = features
        return x

    def case(self, folder, name, images, text, ids, features, shown):
        """Writes one case; returns its entry in the manifest.  shown: arrays that it keeps besides."""
        arrays, entry = case_of(lambda i: self.decoder(self.embed(i, features)), ids)
        del arrays["prompt_argmax"]
        write(os.path.join(folder, "golden", name + ".safetensors"), {**shown, **arrays})
        print(name, len(ids), "ids, stable", entry["greedy_stable_len"])
        return {"name": name, "file": name + ".safetensors", "images": images, "rendered_text": text, **entry}


def check(source):
    """The pass against the reference set's own vlm_llava15; returns its config, arrays and manifest."""
    old = os.path.join(source, "models", "vlm_llava15")
    config, stored = json.load(open(old + "/config.json")), read(old + "/model.safetensors")
    manifest, m = json.load(open(old + "/golden/manifest.json")), Llava(config, stored)
    case = next(c for c in manifest["cases"] if c["name"] == "scene")
    ref = read(old + "/golden/scene.safetensors")
    mean, std = (np.array(json.load(open(old + "/preprocessor_config.json"))[k]) for k in ("image_mean", "image_std"))
    pixels = (ref["pixel_values_u8"].astype(np.float64) / 255 - mean[:, None, None]) / std[:, None, None]
    got = m.decoder(m.embed(case["input_ids"], m.tower(pixels)[0]))[1][-1]
    off = np.abs(got - ref["logits_last"]).max() / np.abs(ref["logits_last"]).max()
    print("vlm_llava15 scene: off by %.2g" % off)
    assert off < 1e-5
    return config, stored, manifest
