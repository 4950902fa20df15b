"""A tiny Gemma 2 checkpoint and its reference: make_gemma2.py REFERENCE_SET (numpy)

The weights are those of the set's llm_gemma3_text without the norms of q and k; the config has soft caps low enough to
bite.  The forward pass is written here in double precision from the definitions (transformers 4.57 modeling_gemma2.py,
modeling_gemma3.py), for both.  It is held to the set's llm_gemma3_text first: without that it writes nothing.
"""
import json, os, shutil, struct, sys
import numpy as np

OLD = os.path.join(sys.argv[1], "models", "llm_gemma3_text")
DST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "llm_gemma2_softcap")


def read(path):
    """The tensors, bf16 as its bits, and which those are."""
    b = open(path, "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    out, types = {}, {"F32": np.float32, "I32": np.int32, "BF16": np.uint16}
    for k, t in json.loads(b[8 : 8 + n]).items():
        if k != "__metadata__":
            a, z = t["data_offsets"]
            out[k] = np.frombuffer(b[8 + n + a : 8 + n + z], types[t["dtype"]]).reshape(t["shape"])
    return out


def write(path, tensors):
    header, body, types = {}, b"", {"float32": "F32", "int32": "I32", "uint16": "BF16"}
    for k, v in tensors.items():
        v = np.ascontiguousarray(v)
        header[k] = {"dtype": types[str(v.dtype)], "shape": list(v.shape), "data_offsets": [len(body), len(body) + v.nbytes]}
        body += v.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)


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

cases = []
for of in manifest["cases"]:
    ids = of["input_ids"]
    states, logits = decoder(config, ids)
    first, said, margins = logits[-1], list(ids), []
    for _ in range(24):
        last = decoder(config, said)[1][-1]
        top = np.sort(last)
        margins.append(top[-1] - top[-2])
        said.append(int(last.argmax()))
    most = float(np.abs(first).max())
    stable, loose = (next((i for i, m in enumerate(margins) if m < by * most), 24) for by in (3e-4, 1e-2))
    write(os.path.join(DST, "golden", of["file"]), {
        "input_ids": np.array(ids, np.int32), "hidden_last_pos": np.stack([s[-1] for s in states]).astype(np.float32),
        "logits_last": first.astype(np.float32), "prompt_argmax": logits.argmax(-1).astype(np.int32),
        "greedy_ids": np.array(said[len(ids):], np.int32), "greedy_final_step_logits": last.astype(np.float32)})
    cases.append({k: of[k] for k in ("name", "file", "prompt", "add_special_tokens", "messages") if k in of} | {
        "input_ids": ids, "greedy_ids": said[len(ids):], "greedy_stable_len": stable, "greedy_stable_len_loose": loose, "logits_absmax": most,
        "tolerance": {"logits_atol": 1e-4 * most, "logits_atol_tight": 2e-5 * most, "hidden_rtol": 1e-4}})
    print(of["name"], len(ids), "ids, largest logit", round(most, 3), "stable", stable)
json.dump({"model": "llm_gemma2_softcap", "how": "double precision, numpy: see make_gemma2.py", "cases": cases}, open(DST + "/golden/manifest.json", "w"), indent=1)
for folder, _, files in os.walk(DST):
    for f in files:
        os.chmod(os.path.join(folder, f), 0o644)
