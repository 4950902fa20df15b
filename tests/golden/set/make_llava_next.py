"""A tiny LLaVA-NeXT checkpoint and its reference: make_llava_next.py REFERENCE_SET (numpy, transformers 4.57, pillow)

The weights are those of the set's vlm_llava15, with an image_newline of its own; the forward pass (llava_pass.py) is in
double precision from the definition (modeling_llava_next.py: get_anyres_image_grid_shape, unpad_image,
pack_image_features), pictures are prepared by transformers' LlavaNextImageProcessor.  The pass is held to the set's
vlm_llava15 first: without that it writes nothing.
"""
import json, os, shutil, sys
import numpy as np
from transformers.models.llava_next.image_processing_llava_next import LlavaNextImageProcessor
from transformers.image_processing_utils import select_best_resolution
from llava_pass import Llava, check, load
from reference import write

SRC, DST = sys.argv[1], os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "vlm_llava_next")
OLD, IMAGES = os.path.join(SRC, "models", "vlm_llava15"), os.path.join(SRC, "images")
PINPOINTS = [[56, 112], [112, 56], [112, 112], [168, 56], [56, 168]]


def pack(features, size):
    """One picture's [1 + tiles, patches, d] -> [tokens, d]."""
    height, width = size
    bh, bw = select_best_resolution(size, PINPOINTS)
    rows, cols = bh // m.V["image_size"], bw // m.V["image_size"]
    grid = features[1:].reshape(rows, cols, m.side, m.side, -1).transpose(0, 2, 1, 3, 4).reshape(rows * m.side, cols * m.side, -1)
    h, w = grid.shape[:2]
    if width / height > w / h:
        pad = (h - int(round(height * (w / width), 7))) // 2
        grid = grid[pad : h - pad]
    else:
        pad = (w - int(round(width * (h / height), 7))) // 2
        grid = grid[:, pad : w - pad]
    line = np.broadcast_to(m.W["image_newline"], (grid.shape[0], 1, grid.shape[2]))
    return np.concatenate([features[0], np.concatenate([grid, line], 1).reshape(-1, grid.shape[2])])


config, stored, manifest = check(SRC)
token = config["image_token_index"]
rng = np.random.default_rng(2024)
stored["image_newline"] = (rng.standard_normal(config["text_config"]["hidden_size"]) * 0.5).astype(np.float16)
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
m = Llava(config, stored)

cases = []
for name, images in [("scene", ["scene.png"]), ("odd_aspect", ["odd_aspect.png"]), ("gray8", ["gray8.png"]), ("rgba", ["rgba.png"]), ("tiny", ["tiny.png"]), ("two_images", ["scene.png", "second.png"])]:
    of = next(c for c in manifest["cases"] if c["name"] == ("scene" if name == "tiny" else name))
    pixels, features = [], []
    for f in images:
        p = processor(load(IMAGES, f), return_tensors="np")
        pixels.append(p["pixel_values"][0])
        size = [int(v) for v in p["image_sizes"][0]]
        features.append(pack(m.tower(p["pixel_values"][0].astype(np.float64)), size))
    ids, left, before = [], [len(f) for f in features], None
    for i in of["input_ids"]:
        if i != token:
            ids.append(i)
        elif before != token:
            ids += [token] * left.pop(0)
        before = i
    features = np.concatenate(features)
    shown = {"pixel_values": np.concatenate(pixels).astype(np.float32)} if name == "tiny" else {}
    cases.append(m.case(DST, name, images, of["rendered_text"], ids, features, shown))
json.dump({"model": "vlm_llava_next", "how": "double precision, numpy: see make_llava_next.py", "cases": cases}, open(DST + "/golden/manifest.json", "w"), indent=1)
for folder, _, files in os.walk(DST):
    for f in files:
        os.chmod(os.path.join(folder, f), 0o644)
