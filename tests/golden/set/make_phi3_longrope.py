"""A tiny Phi-3 with LongRoPE and its reference: make_phi3_longrope.py REFERENCE_SET (numpy)

The weights are those of the set's llm_phi3_fused; the rotation is divided by lists and only three quarters of a head turn,
as in Phi-4-mini.  The pass is written here in double precision from the definition (modeling_phi3.py,
modeling_rope_utils.py: _compute_longrope_parameters) and held to llm_phi3_fused first: without that it writes nothing.
"""
import json, os, shutil, sys
import numpy as np
from reference import read, softmax, text_cases

SRC, DST = sys.argv[1], os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "llm_phi3_longrope")
OLD = os.path.join(SRC, "models", "llm_phi3_fused")
config, stored = json.load(open(OLD + "/config.json")), read(OLD + "/model.safetensors")
W = {k: (v if v.dtype != np.uint16 else (v.astype(np.uint32) << 16).view(np.float32)).astype(np.float64) for k, v in stored.items()}


def decoder(c, ids):
    """ids [T] -> the hidden states [layers + 1][T, d], the last normed, and logits [T, vocab]."""
    n, h, kv = len(ids), c["num_attention_heads"], c["num_key_value_heads"]
    d, scaling, original = c["hidden_size"] // h, c["rope_scaling"], c["original_max_position_embeddings"]
    dim, by = int(d * c["partial_rotary_factor"]), 1.0
    divide = np.ones(dim // 2)
    if scaling:
        assert n <= original
        divide, s = np.array(scaling["short_factor"]), c["max_position_embeddings"] / original
        by = np.sqrt(1 + np.log(s) / np.log(original)) if s > 1 else 1.0
    angle = np.arange(n)[:, None] / (divide * c["rope_theta"] ** (np.arange(0, dim, 2) / dim))
    cos, sin = np.cos(angle) * by, np.sin(angle) * by

    def turn(x):
        a, b = x[..., : dim // 2], x[..., dim // 2 : dim]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., dim:]], -1)

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * W["model." + name + ".weight"]

    heads = lambda x: x.reshape(n, -1, d).transpose(1, 0, 2)
    x = W["model.embed_tokens.weight"][ids]
    states = [x]
    for i in range(c["num_hidden_layers"]):
        l = "layers.%d." % i
        qkv = norm(x, l + "input_layernorm") @ W["model." + l + "self_attn.qkv_proj.weight"].T
        q, k, v = turn(heads(qkv[:, : h * d])), turn(heads(qkv[:, h * d : (h + kv) * d])), heads(qkv[:, (h + kv) * d :])
        s = q @ k.repeat(h // kv, 0).transpose(0, 2, 1) / np.sqrt(d) + np.triu(np.full((n, n), -np.inf), 1)
        a = (softmax(s) @ v.repeat(h // kv, 0)).transpose(1, 0, 2).reshape(n, -1)
        x = x + a @ W["model." + l + "self_attn.o_proj.weight"].T
        g, u = np.split(norm(x, l + "post_attention_layernorm") @ W["model." + l + "mlp.gate_up_proj.weight"].T, 2, -1)
        x = x + (g / (1 + np.exp(-g)) * u) @ W["model." + l + "mlp.down_proj.weight"].T
        states.append(x)
    states[-1] = norm(x, "norm")
    return states, states[-1] @ W["lm_head.weight"].T


manifest = json.load(open(OLD + "/golden/manifest.json"))
for case in manifest["cases"]:
    ref = read(os.path.join(OLD, "golden", case["file"]))
    got = decoder(config, case["input_ids"])[1][-1]
    off = np.abs(got - ref["logits_last"]).max() / np.abs(ref["logits_last"]).max()
    print("llm_phi3_fused %s: off by %.2g" % (case["name"], off))
    assert off < 1e-5

config.update(max_position_embeddings=2048, original_max_position_embeddings=512, partial_rotary_factor=0.75)
config["rope_scaling"] = {"type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.4, 2.1, 3.0], "long_factor": [1.0, 1.5, 3.0, 9.0, 20.0, 40.0]}
os.makedirs(DST + "/golden", exist_ok=True)
for f in os.listdir(OLD):
    if f.endswith((".json", ".jinja", ".model")) or f == "model.safetensors":
        shutil.copyfile(os.path.join(OLD, f), os.path.join(DST, f))
json.dump(config, open(DST + "/config.json", "w"), indent=1)

cases = text_cases(DST, manifest["cases"], lambda ids: decoder(config, ids))
json.dump({"model": "llm_phi3_longrope", "how": "double precision, numpy: see make_phi3_longrope.py", "cases": cases}, open(DST + "/golden/manifest.json", "w"), indent=1)
for folder, _, files in os.walk(DST):
    for f in files:
        os.chmod(os.path.join(folder, f), 0o644)
