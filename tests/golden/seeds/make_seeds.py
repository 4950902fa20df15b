#!/usr/bin/env python3
"""Small seeds for the fuzz targets of tokenizers, cut from tests/golden/tokenizers: an input of two kilobytes is tried a hundred
times while one of fifty is tried once.  Run in this folder; Python's own library is enough."""
import json
import os

FROM = "../tokenizers/"
FOLDERS = sorted(f for f in os.listdir(FROM) if os.path.exists(FROM + f + "/tokenizer.json"))


def put(folder, name, data):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/{name}", "wb") as f:
        f.write(data)


def text_seeds():
    """The edge texts of the golden cases, a file for each tokenizer of fuzz_tokenizer_text.c and kind of text."""
    cases = json.load(open(FROM + "bpe_llama3/golden.json"))["cases"]
    texts = [c["text"].encode() for c in cases if 0 < len(c["text"].encode()) < 400]
    for i in range(0, len(texts), 8):
        put("text", f"{i // 8:02d}", bytes([i // 8, 9]) + b"\n".join(texts[i : i + 8])[:256])
    marks = "<s></s><|im_end|><|begin_of_text|><image><0x41>\u2581[SEP]<|endoftext|> <start_of_turn>"
    for kind in range(30):
        put("text", f"marks{kind:02d}", bytes([kind, 20]) + marks.encode())


def small_json(name):
    d = json.load(open(f"{FROM}{name}/tokenizer.json"))
    m, added = d["model"], d["added_tokens"][:6]
    keep = [a["content"] for a in added]
    if m["type"] == "Unigram":
        m["vocab"] = m["vocab"][:50]
        keep = [p for p, _ in m["vocab"]]
    else:
        merges = m.get("merges", [])[:8]
        parts = [x.split(" ") if isinstance(x, str) else x for x in merges]
        keep += sum(([a, b, a + b] for a, b in parts), [])
        keep += [p for p in m["vocab"] if len(p) == 1][:24] + ["<0x41>", "<0xE2>"]
        keep += [p for p in m["vocab"] if p.startswith("##")][:8]
        keep = [p for p in dict.fromkeys(keep) if p in m["vocab"] or any(p == a["content"] for a in added)]
        m["vocab"] = {p: i for i, p in enumerate(keep)}
        if "merges" in m:
            m["merges"] = merges
    for a in added:
        if a["content"] in keep:
            a["id"] = keep.index(a["content"])
    d["added_tokens"] = [a for a in added if a["content"] in keep]

    def walk(x):
        if isinstance(x, dict):
            if "precompiled_charsmap" in x:
                x["precompiled_charsmap"] = "BAAAAAAAAAAA"
            if "ids" in x and "tokens" in x:
                x["ids"] = [keep.index(t) if t in keep else 0 for t in x["tokens"]]
            for k in ("cls", "sep"):
                if k in x and x[k][0] in keep:
                    x[k][1] = keep.index(x[k][0])
            for v in x.values():
                walk(v)
        elif isinstance(x, list):
            for v in x:
                walk(v)

    walk(d)
    put("tokenizer_json", name + ".json", json.dumps(d, ensure_ascii=False, separators=(",", ":")).encode())


def varint(b, i):
    v = s = 0
    while True:
        v |= (b[i] & 127) << s
        i, s = i + 1, s + 7
        if b[i - 1] < 128:
            return v, i


def number(v):
    out = b""
    while v > 127:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def fields(b):
    i = 0
    while i < len(b):
        start = i
        tag, i = varint(b, i)
        wire, n = tag & 7, 0
        if wire == 0:
            _, i = varint(b, i)
        elif wire == 2:
            n, i = varint(b, i)
            i += n
        else:
            i += 4 if wire == 5 else 8
        yield tag >> 3, b[start:i], b[i - n : i]


def small_model(path, name):
    out, pieces = b"", 0
    for field, whole, body in fields(open(path, "rb").read()):
        if field == 1:
            pieces += 1
            if pieces > 40 and pieces % 12:
                continue
        elif field == 2:
            body = b"".join(w for f, w, x in fields(body) if len(w) < 40)
            whole = b"\x12" + number(len(body)) + body
        elif field == 3:
            body = b"".join(w for f, w, x in fields(body) if f != 2)
            whole = b"\x1a" + number(len(body)) + body
        out += whole
    put("tokenizer_spm", name, out)


text_seeds()
for one in FOLDERS:
    small_json(one)
small_model(FROM + "spm_llama2/tokenizer.model", "llama2.model")
small_model(FROM + "spm_gemma/tokenizer.model", "gemma.model")
small_model(FROM + "spm_unigram/spiece.model", "unigram.model")
