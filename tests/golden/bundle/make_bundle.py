"""A bundle of a language file and a vision file, as docs/reference/bundle.md says it, without pinhole.

    python3 make_bundle.py LANGUAGE.gguf VISION.gguf OUT.bundle

It has no plan of memory and one tensor that is no part of the model, as a later program might keep.  Needs the PyPI packages gguf,
numpy and xxhash.
"""
import struct
import sys

import gguf
import numpy as np
import xxhash

PIECE = 4 << 20
language, vision, path = gguf.GGUFReader(sys.argv[1]), gguf.GGUFReader(sys.argv[2]), sys.argv[3]
out = gguf.GGUFWriter(path, language.fields["general.architecture"].contents())


def copy(reader, prefix):
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.file_type", prefix and "general.alignment", "" if prefix else "general.architecture"):
            continue
        kind, sub = field.types[0], field.types[-1] if len(field.types) > 1 else None
        out.add_key_value(prefix + key, field.contents(), kind, sub)


copy(language, "")
copy(vision, "pinhole.bundle.mmproj.")
out.add_uint32("pinhole.bundle.version", 1)
out.add_uint64("pinhole.bundle.vision_tensors", len(vision.tensors))
out.add_uint64("pinhole.bundle.extra_tensors", 1)
for t in [*language.tensors, *vision.tensors]:
    out.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
out.add_tensor("pinhole.extra.0", np.arange(48, dtype=np.float32))
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()


def digest(raw):
    return xxhash.xxh3_128_digest(raw)


reader = gguf.GGUFReader(path)
raw = open(path, "rb").read()
raw += b"\0" * (-len(raw) % reader.alignment)
begin = reader.data_offset
starts = sorted(t.data_offset for t in reader.tensors)
pieces = b""
for start, stop in zip(starts, [*starts[1:], len(raw)]):
    for at in range(start, stop, PIECE):
        end = min(at + PIECE, stop)
        pieces += struct.pack("<Q", end - begin) + digest(raw[at:end])
size = 56 + len(pieces) + 16 + 24
seal = b"PHSEALED" + struct.pack("<QQQQ", size, begin, len(raw) - begin, len(pieces) // 24) + digest(raw[:begin]) + pieces
seal += digest(seal) + struct.pack("<QII", size, 1, 0) + b"PHBUNDLE"
open(path, "wb").write(raw + seal)
