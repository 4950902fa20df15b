"""A tiny LLaVA over SigLIP and its reference: make_llava_siglip.py REFERENCE_SET (numpy, transformers 4.57, pillow)

The layout of llava-interleave: a tower without class token, all its rows used (`full`), here two layers of it side by side.
The decoder is that of the set's vlm_llava15, tower and projector are random; the pass (llava_pass.py) is in double
precision and held to vlm_llava15 first, pictures are prepared by transformers' SiglipImageProcessor.
"""
import json, os, shutil, sys
import numpy as np
from transformers.models.siglip.image_processing_siglip import SiglipImageProcessor
from llava_pass import Llava, check, load
from reference import write

SRC, DST = sys.argv[1], os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "vlm_llava_siglip")
OLD, IMAGES = os.path.join(SRC, "models", "vlm_llava15"), os.path.join(SRC, "images")
D, FF, SIDE, PATCH, LAYERS = 48, 96, 56, 14, 3

config, stored, manifest = check(SRC)
rng = np.random.default_rng(77)
random = lambda *shape, by=0.1: (rng.standard_normal(shape) * by).astype(np.float16)
config["vision_config"] = {"model_type": "siglip_vision_model", "hidden_size": D, "intermediate_size": FF, "num_hidden_layers": LAYERS,
                           "num_attention_heads": 4, "num_channels": 3, "image_size": SIDE, "patch_size": PATCH,
                           "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6}
config.update(vision_feature_layer=[-1, 1], vision_feature_select_strategy="full")
stored = {k: v for k, v in stored.items() if k.startswith("language_model.")}
vt, n = "vision_tower.vision_model.", (SIDE // PATCH) ** 2
stored[vt + "embeddings.patch_embedding.weight"] = random(D, 3, PATCH, PATCH, by=0.05)
stored[vt + "embeddings.patch_embedding.bias"] = random(D)
stored[vt + "embeddings.position_embedding.weight"] = random(n, D, by=0.3)
for i in range(LAYERS):
    l = vt + "encoder.layers.%d." % i
    for name, rows, cols in [("self_attn.q_proj", D, D), ("self_attn.k_proj", D, D), ("self_attn.v_proj", D, D), ("self_attn.out_proj", D, D), ("mlp.fc1", FF, D), ("mlp.fc2", D, FF)]:
        stored[l + name + ".weight"], stored[l + name + ".bias"] = random(rows, cols, by=0.15), random(rows)
    for name in ("layer_norm1", "layer_norm2"):
        stored[l + name + ".weight"], stored[l + name + ".bias"] = (1 + random(D)).astype(np.float16), random(D)
stored[vt + "post_layernorm.weight"], stored[vt + "post_layernorm.bias"] = random(D), random(D)  # no LLaVA reads them
d = config["text_config"]["hidden_size"]
for name, cols in (("linear_1", 2 * D), ("linear_2", d)):
    stored["multi_modal_projector.%s.weight" % name] = random(d, cols, by=0.15)
    stored["multi_modal_projector.%s.bias" % name] = random(d)

os.makedirs(DST + "/golden", exist_ok=True)
for f in os.listdir(OLD):
    if f.endswith((".json", ".jinja", ".model")):
        shutil.copyfile(os.path.join(OLD, f), os.path.join(DST, f))
json.dump(config, open(DST + "/config.json", "w"), indent=1)
processor = SiglipImageProcessor(size={"height": SIDE, "width": SIDE})
pre = {**processor.to_dict(), "image_processor_type": "SiglipImageProcessor", "processor_class": "LlavaProcessor"}
json.dump(pre, open(DST + "/preprocessor_config.json", "w"), indent=1)
write(DST + "/model.safetensors", stored)
m = Llava(config, stored)

cases = []
for name, images in [("scene", ["scene.png"]), ("gray8", ["gray8.png"]), ("two_images", ["scene.png", "second.png"])]:
    of = next(c for c in manifest["cases"] if c["name"] == name)
    pixels = np.concatenate([processor(load(IMAGES, f), return_tensors="np")["pixel_values"] for f in images])
    features = m.tower(pixels.astype(np.float64)).reshape(-1, d)
    shown = {"pixel_values": pixels.astype(np.float32)} if name == "scene" else {}
    cases.append(m.case(DST, name, images, of["rendered_text"], of["input_ids"], features, shown))
json.dump({"model": "vlm_llava_siglip", "how": "double precision, numpy: see make_llava_siglip.py", "cases": cases}, open(DST + "/golden/manifest.json", "w"), indent=1)
for folder, _, files in os.walk(DST):
    for f in files:
        os.chmod(os.path.join(folder, f), 0o644)
