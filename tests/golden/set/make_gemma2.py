"""A tiny Gemma 2 checkpoint and its reference: make_gemma2.py REFERENCE_SET (numpy)

The weights are those of the set's llm_gemma3_text without the norms of q and k; the config has soft caps low enough to
bite.  The forward pass is written here in double precision from the definitions (transformers 4.57 modeling_gemma2.py,
modeling_gemma3.py), for both.  It is held to the set's llm_gemma3_text first: without that it writes nothing.
"""
import json, os, shutil, sys
import numpy as np
from reference import read, text_cases, write

OLD = os.path.join(sys.argv[1], "models", "llm_gemma3_text")
DST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "llm_gemma2_softcap")


config = json.load(open(OLD + "/config.json"))
stored = read(OLD + "/model.safetensors")
W = {k: (v.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for k, v in stored.items()}
P = next(k for k in W if k.endswith("embed_tokens.weight"))[: -len("embed_tokens.weight")]


def decoder(c, ids):
    """ids [T] -> the hidden states [layers + 1][T, d], the last normed, and logits [T, vocab]."""
    n, h, kv, d = len(ids), c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    is3 = c["model_type"] == "gemma3_text"

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * (1 + W[P + name + ".weight"])

    def turn(x, theta):
        angle = np.arange(n)[:, None] * theta ** (-np.arange(0, d, 2) / d)
        cos, sin, a, b = np.cos(angle), np.sin(angle), x[..., : d // 2], x[..., d // 2 :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def cap(x, most):
        return most * np.tanh(x / most) if most else x

    x = W[P + "embed_tokens.weight"][ids] * np.sqrt(c["hidden_size"])
    states = [x]
    far = np.arange(n)[:, None] - np.arange(n)[None, :]
    for i in range(c["num_hidden_layers"]):
        l = "layers.%d." % i
        local = c["layer_types"][i] == "sliding_attention"
        theta = c["rope_local_base_freq"] if is3 and local else c["rope_theta"]
        y = norm(x, l + "input_layernorm")
        q, k, v = ((y @ W[P + l + "self_attn.%s_proj.weight" % p].T).reshape(n, -1, d).transpose(1, 0, 2) for p in "qkv")
        if is3:
            q, k = norm(q, l + "self_attn.q_norm"), norm(k, l + "self_attn.k_norm")
        q, k, v = turn(q, theta), turn(k, theta).repeat(h // kv, 0), v.repeat(h // kv, 0)
        s = cap(q @ k.transpose(0, 2, 1) / np.sqrt(c["query_pre_attn_scalar"]), c["attn_logit_softcapping"])
        s = np.where((far < 0) | (far >= (c["sliding_window"] if local else n)), -np.inf, s)
        s = np.exp(s - s.max(-1, keepdims=True))
        a = (s / s.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, -1)
        x = x + norm(a @ W[P + l + "self_attn.o_proj.weight"].T, l + "post_attention_layernorm")
        y = norm(x, l + "pre_feedforward_layernorm")
        g = y @ W[P + l + "mlp.gate_proj.weight"].T
        g = 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3)))
        y = (g * (y @ W[P + l + "mlp.up_proj.weight"].T)) @ W[P + l + "mlp.down_proj.weight"].T
        x = x + norm(y, l + "post_feedforward_layernorm")
        states.append(x)
    states[-1] = norm(x, "norm")
    return states, cap(states[-1] @ W[P + "embed_tokens.weight"].T, c["final_logit_softcapping"])


manifest = json.load(open(OLD + "/golden/manifest.json"))
for case in manifest["cases"]:
    ref = read(os.path.join(OLD, "golden", case["file"]))
    got = decoder(config, case["input_ids"])[1][-1]
    off = np.abs(got - ref["logits_last"]).max() / np.abs(ref["logits_last"]).max()
    print("llm_gemma3_text %s: off by %.2g" % (case["name"], off))
    assert off < 1e-5

os.makedirs(DST + "/golden", exist_ok=True)
for f in os.listdir(OLD):
    if f.endswith((".json", ".jinja", ".model")):
        shutil.copyfile(os.path.join(OLD, f), os.path.join(DST, f))
for key in ("_sliding_window_pattern", "rope_local_base_freq", "rope_scaling", "use_bidirectional_attention"):
    config.pop(key, None)
config.update(architectures=["Gemma2ForCausalLM"], model_type="gemma2", attn_logit_softcapping=2.5, final_logit_softcapping=4.0, rope_theta=10000.0,
              layer_types=["sliding_attention", "full_attention", "sliding_attention"])
json.dump(config, open(DST + "/config.json", "w"), indent=1)
write(DST + "/model.safetensors", {k: v for k, v in stored.items() if "self_attn.q_norm" not in k and "self_attn.k_norm" not in k})

cases = text_cases(DST, manifest["cases"], lambda ids: decoder(config, ids))
json.dump({"model": "llm_gemma2_softcap", "how": "double precision, numpy: see make_gemma2.py", "cases": cases}, open(DST + "/golden/manifest.json", "w"), indent=1)
for folder, _, files in os.walk(DST):
    for f in files:
        os.chmod(os.path.join(folder, f), 0o644)
