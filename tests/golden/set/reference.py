"""What the makers beside this share: safetensors files, and a case from a forward pass in double precision."""
import json, os, struct
import numpy as np

TYPES = {"F16": np.float16, "F32": np.float32, "I32": np.int32, "U8": np.uint8, "BF16": np.uint16}  # BF16: its bits


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


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def greedy(logits_of, ids, steps=24):
    """logits_of(ids) [T, vocab]: the answer's ids, the logits of its last step, and stable(share): how many of its first
    steps are led by at least that share of `most`."""
    said, margins = list(ids), []
    for _ in range(steps):
        last = logits_of(said)[-1]
        top = np.sort(last)
        margins.append(top[-1] - top[-2])
        said.append(int(last.argmax()))
    return said[len(ids):], last, lambda share, most: next((i for i, m in enumerate(margins) if m < share * most), steps)


def case_of(decoder, ids):
    """decoder(ids): the hidden states of all layers and the logits of every row.  Its arrays, and what a manifest says."""
    states, logits = decoder(ids)
    said, last, stable = greedy(lambda i: decoder(i)[1], ids)
    most = float(np.abs(logits[-1]).max())
    arrays = {"input_ids": np.array(ids, np.int32), "hidden_0": states[0].astype(np.float32),
              "hidden_last_pos": np.stack([s[-1] for s in states]).astype(np.float32),
              "logits_last": logits[-1].astype(np.float32), "prompt_argmax": logits.argmax(-1).astype(np.int32),
              "greedy_ids": np.array(said, np.int32), "greedy_final_step_logits": last.astype(np.float32)}
    entry = {"input_ids": ids, "greedy_ids": said, "greedy_stable_len": stable(3e-4, most), "greedy_stable_len_loose": stable(1e-2, most),
             "logits_absmax": most, "tolerance": {"logits_atol": 1e-4 * most, "logits_atol_tight": 2e-5 * most, "hidden_rtol": 1e-4}}
    return arrays, entry


def text_cases(folder, cases, decoder):
    """Writes the cases of a text model under the names that they have in the set; returns their entries."""
    entries = []
    for of in cases:
        arrays, entry = case_of(decoder, of["input_ids"])
        del arrays["hidden_0"]
        write(os.path.join(folder, "golden", of["file"]), arrays)
        entries.append({k: of[k] for k in ("name", "file", "prompt", "add_special_tokens", "messages") if k in of} | entry)
        print(of["name"], len(of["input_ids"]), "ids, largest logit", round(entry["logits_absmax"], 3), "stable", entry["greedy_stable_len"])
    return entries
