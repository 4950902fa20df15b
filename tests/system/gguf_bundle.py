"""A bundle of ours, as the public gguf package reads it, and its seal by the public xxhash package.

    gguf_bundle.py PINHOLE CHECKPOINT FOLDER

Prints a line a failure and ends with "N passed, M failed".
"""
import os
import struct
import sys

import gguf
import xxhash

from checks import check, checked, end, runner

pinhole, checkpoint, folder = sys.argv[1:]
run = checked(runner(pinhole))


def contents(path):
    reader = gguf.GGUFReader(path)
    keys = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    return reader, keys, {t.name: (t.tensor_type, t.shape.tolist(), t.data.tobytes()) for t in reader.tensors}


def check_seal(path, reader):
    raw = open(path, "rb").read()
    digest = xxhash.xxh3_128_digest
    size, version, zero, word = struct.unpack("<QII8s", raw[-24:])
    seal = raw[-size:]
    begins, again, head, data, n = struct.unpack("<8sQQQQ", seal[:40])
    check((begins, word, version, zero, again) == (b"PHSEALED", b"PHBUNDLE", 1, 0, size), "the words of the seal")
    check(head == reader.data_offset and head + data + size == len(raw), "its sizes")
    check(size == 56 + 24 * n + 40 and digest(seal[: size - 40]) == seal[size - 40 : size - 24], "its own digest")
    check(digest(raw[:head]) == seal[40:56], "the digest of the head")
    at = 0
    for i in range(n):
        end, want = struct.unpack("<Q16s", seal[56 + 24 * i : 80 + 24 * i])
        check(at < end <= at + (4 << 20) and digest(raw[head + at : head + end]) == want, f"piece {i}")
        at = end
    check(at == data, "the pieces are all data")


def path(name):
    return os.path.join(folder, name)


def without_extra(keys, tensors):
    """The model's own tensors; behind them stands what the keys name and count: the tokenizer's tables."""
    tables = keys.get("pinhole.bundle.tokenizer")
    check(keys.get("pinhole.bundle.extra_tensors", 0) == (tables is not None), "how many tensors are extra")
    check(tables is None or list(tensors)[-1] == tables, "the tables stand behind the model's tensors")
    return {name: t for name, t in tensors.items() if name != tables}


run("convert", checkpoint, "-o", path("b.bundle"), "--to", "bundle", "-q")
run("convert", checkpoint, "-o", path("c.gguf"), "--to", "gguf", "--names", "huggingface", "-q")
reader, keys, tensors = contents(path("b.bundle"))
check_seal(path("b.bundle"), reader)
_, carried, same = contents(path("c.gguf"))
check(without_extra(keys, tensors) == same, "the tensors of a carried directory")
check({k: v for k, v in keys.items() if not k.startswith("pinhole.bundle.")} == carried, "its keys")
check(keys["pinhole.bundle.version"] == 1 and keys["pinhole.bundle.plan.weights"] > 0, "keys of a bundle")
if os.path.basename(checkpoint).startswith("vlm_llava") or os.path.basename(checkpoint).startswith("llm_qwen"):
    run("convert", checkpoint, "-o", path("n.gguf"), "--to", "gguf", "-q")
    vision = ["--mmproj", path("mmproj-n.gguf")] if os.path.exists(path("mmproj-n.gguf")) else []
    run("convert", path("n.gguf"), *vision, "-o", path("p.bundle"), "--to", "bundle", "-q")
    reader, keys, tensors = contents(path("p.bundle"))
    check_seal(path("p.bundle"), reader)
    _, text_keys, text = contents(path("n.gguf"))
    _, vision_keys, sight = contents(vision[1]) if vision else (None, {}, {})
    check(without_extra(keys, tensors) == {**text, **sight}, "the tensors of both files")
    check(keys.get("pinhole.bundle.vision_tensors", 0) == len(sight), "how many are of the vision file")
    check({k: v for k, v in keys.items() if not k.startswith("pinhole.bundle.")} == text_keys, "keys of the language file")
    prefix = "pinhole.bundle.mmproj."
    under = {k[len(prefix) :]: v for k, v in keys.items() if k.startswith(prefix)}
    check(under == {k: v for k, v in vision_keys.items() if not k.startswith("general.file_type")}, "keys of the vision file")
end()
