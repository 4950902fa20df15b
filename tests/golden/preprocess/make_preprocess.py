#!/usr/bin/env python3
"""Resized pictures and prepared tiles, as checksums of what the references make.

    make_preprocess.py FIXTURES     FIXTURES: folder of the reference fixtures (preprocess/, images/)

resize.txt     Pillow's Image.resize: the fixtures' own results, and noise of many sizes
recipes.txt    slow Hugging Face processors on noise of many sizes, configs at random: u8 and f32 checksums
pipelines.txt  the same on the fixtures' pictures; u8 agree with the fixtures' tensors
splitting.txt  sizes of Idefics3's canvas and grid
bad.txt        configs that are refused
configs/       one whole config a class: seeds for the fuzz target

Noise of width x height from a seed: x = x * 1664525 + 1013904223 (32 bits), each byte the top one, row by row.
Made with pillow 13.0.0, numpy 2.4.6, transformers 4.57.6 (without torch).
"""
import json, os, random, sys, warnings, zlib
import numpy as np
from PIL import Image, ImageOps
from safetensors.numpy import load_file
warnings.filterwarnings("ignore")
import transformers
transformers.logging.set_verbosity_error()
from transformers.models.clip.image_processing_clip import CLIPImageProcessor
from transformers.models.idefics3.image_processing_idefics3 import Idefics3ImageProcessor
from transformers.models.llava.image_processing_llava import LlavaImageProcessor
from transformers.models.siglip.image_processing_siglip import SiglipImageProcessor
from transformers.models.smolvlm.image_processing_smolvlm import SmolVLMImageProcessor
from transformers.models.vit.image_processing_vit import ViTImageProcessor

CLASSES = {c.__name__: c for c in (CLIPImageProcessor, LlavaImageProcessor, SiglipImageProcessor, ViTImageProcessor,
                                   Idefics3ImageProcessor, SmolVLMImageProcessor)}
FILTERS = ["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
here = os.path.dirname(os.path.abspath(__file__))
fixtures = sys.argv[1]
random.seed(3)
ri, R = random.randint, random.random
crc = lambda a: f"{zlib.crc32(np.ascontiguousarray(a).tobytes()):08x}"


def noise(w, h, seed):
    out = np.empty(w * h * 3, np.uint8)
    x = seed
    for i in range(out.size):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = x >> 24
    return out.reshape(h, w, 3)


def write(name, head, lines):
    with open(os.path.join(here, name), "w") as f:
        f.write(f"# {head}   (make_preprocess.py, do not edit)\n" + "\n".join(lines) + "\n")


# resize: source is a picture of ../images, or noise:WxH:seed
lines = []
stored = load_file(f"{fixtures}/preprocess/resize.safetensors")
for c in json.load(open(f"{fixtures}/preprocess/resize.json"))["cases"]:
    if c["op"].startswith("PIL.") and stored[c["tensor"]].ndim == 3 and c["image"] != "photo.jpg":
        lines.append(f"{c['out_w']:4} {c['out_h']:4} {FILTERS.index(c['filter'])} {crc(stored[c['tensor']])} {c['image']}")
for i in range(90):
    d = lambda: random.choice([ri(1, 9), ri(1, 60), ri(1, 130)])
    w, h, ow, oh = d(), d(), d(), d()
    if i % 15 == 0: w, h = random.choice([(4096, 1), (1, 4096)])
    f = i % 6
    a = noise(w, h, i)
    lines.append(f"{ow:4} {oh:4} {f} {crc(np.array(Image.fromarray(a).resize((ow, oh), f)))} noise:{w}x{h}:{i}")
write("resize.txt", "out_w out_h filter crc32 of [out_h,out_w,3], source", lines)


def run(cls, cfg, a):
    p = CLASSES[cls](**cfg)
    is_grid = "max_image_size" in p.to_dict()
    kw = {"return_row_col_info": True} if is_grid else {}
    o = p.preprocess(a, input_data_format="channels_last", return_tensors="np", **kw)
    v = np.asarray(o["pixel_values"])
    v = v.reshape((-1,) + v.shape[-3:])
    return v, (o["rows"][0][0], o["cols"][0][0]) if is_grid else (0, 0)


def case(cls, cfg, a, source):
    v, grid = run(cls, cfg, a)
    u8, _ = run(cls, {**cfg, "do_rescale": False, "do_normalize": False}, a)
    u8 = u8.astype(np.uint8).transpose(0, 2, 3, 1)
    n, _, h, w = v.shape
    text = json.dumps({**cfg, "image_processor_type": cls + random.choice(["", "Fast"])}, separators=(",", ":"))
    return f"{n} {h} {w} {grid[0]} {grid[1]} {crc(u8)} {crc(v.astype('<f4'))} {source} {text}", u8


def config():
    cls = random.choice(list(CLASSES))
    cfg = {}
    if R() < .8: cfg["resample"] = ri(0, 5)
    if R() < .3: cfg["image_mean"] = [round(R(), 4) for _ in range(3)]
    if R() < .3: cfg["image_std"] = [round(.1 + R(), 4) for _ in range(3)]
    if R() < .15: cfg["rescale_factor"] = random.choice([1 / 127.5, 1 / 256])
    for k in ("do_rescale", "do_normalize", "do_resize"):
        if R() < .1: cfg[k] = False
    if cls in ("CLIPImageProcessor", "LlavaImageProcessor"):
        cfg["size"] = random.choice([{"shortest_edge": ri(1, 60)}, {"height": ri(1, 60), "width": ri(1, 60)}, ri(1, 60)])
        cfg["crop_size"] = random.choice([{"height": ri(1, 60), "width": ri(1, 60)}, ri(1, 60)])
        if R() < .2: cfg["do_center_crop"] = False
        if R() < .6: cfg["do_pad"] = R() < .8
    elif cls in ("SiglipImageProcessor", "ViTImageProcessor"):
        cfg["size"] = {"height": ri(1, 60), "width": ri(1, 60)}
    else:
        cfg["max_image_size"] = {"longest_edge": ri(5, 30)}
        cfg["size"] = {"longest_edge": ri(1, 120)} if R() < .9 else {"height": ri(4, 60), "width": ri(4, 60)}
        if R() < .3: cfg["do_image_splitting"] = False
    return cls, cfg


lines = []
for i in range(120):
    cls, cfg = config()
    d = lambda: random.choice([ri(1, 9), ri(1, 60), ri(1, 120)])
    w, h = d(), d()
    if i % 20 == 0: w, h = random.choice([(4096, 1), (1, 4096), (1, 1)])
    if max(w, h) / min(w, h) > 300 and "crop_size" in cfg: cfg["size"] = {"shortest_edge": ri(1, 9)}
    lines.append(case(cls, cfg, noise(w, h, i), f"noise:{w}x{h}:{i}")[0])
write("recipes.txt", "n h w rows cols crc32 of u8 [n,h,w,3], of f32 [n,3,h,w], source, config", lines)

lines = []
stored = load_file(f"{fixtures}/preprocess/pipelines.safetensors")
for c in json.load(open(f"{fixtures}/preprocess/pipelines.json"))["cases"]:
    cls = c["hf_class"]
    if cls not in CLASSES or c["image"] == "photo.jpg":
        continue
    im = ImageOps.exif_transpose(Image.open(f"{fixtures}/images/{c['image']}")).convert("RGB")
    cfg = {k: v for k, v in c["config"].items() if k != "_processor_class"}
    line, u8 = case(cls, cfg, np.array(im), c["image"])
    if c.get("tensor_u8"):
        want = stored[c["tensor_u8"]]
        want = want.reshape((-1,) + want.shape[-3:]).transpose(0, 2, 3, 1)
        assert (want == u8).all(), c["tensor_u8"]
    lines.append(line)
write("pipelines.txt", "n h w rows cols crc32 of u8 [n,h,w,3], of f32 [n,3,h,w], source, config", lines)

lines = [f"{c['h']} {c['w']} {c['longest_edge']} {c['tile']} {c['tiled_canvas'][0]} {c['tiled_canvas'][1]} "
         f"{c['n_tiles_with_global']} {c['rows']} {c['cols']}"
         for c in json.load(open(f"{fixtures}/preprocess/size_tables.json"))["idefics3_splitting"]]
write("splitting.txt", "h w longest_edge tile canvas_h canvas_w n_tiles rows cols", lines)

clip = '"image_processor_type":"CLIPImageProcessor"'
bad = [
    ("EUNSUP", '{"image_processor_type":"SomethingElse"}', '"SomethingElse" is not known; known are CLIPImageProcessor'),
    ("EFORMAT", '{"size":224}', "has no image_processor_type"),
    ("EFORMAT", '{"image_processor_type":7}', "image_processor_type"),
    ("EFORMAT", '{%s,"size":0}' % clip, "size"),
    ("EFORMAT", '{%s,"size":{"shortest_edge":99999999}}' % clip, "shortest_edge"),
    ("EFORMAT", '{%s,"size":{"longest_edge":5}}' % clip, "neither shortest_edge nor height and width"),
    ("EFORMAT", '{%s,"size":[1]}' % clip, "expected a height and a width"),
    ("EFORMAT", '{%s,"crop_size":{"shortest_edge":5}}' % clip, "crop_size has no height and width"),
    ("EFORMAT", '{%s,"image_mean":[0.5]}' % clip, "1 values, expected one for each of 3 channels"),
    ("EFORMAT", '{%s,"image_std":[0.5,0,0.5]}' % clip, "image_std[1] is 0"),
    ("EFORMAT", '{%s,"image_mean":[0,0,1e9]}' % clip, "image_mean[2] is 1e+09"),
    ("EFORMAT", '{%s,"rescale_factor":Infinity}' % clip, "preprocessor_config.json: rescale_factor is inf"),
    ("EFORMAT", '{%s,"rescale_factor":0}' % clip, "preprocessor_config.json: rescale_factor is 0"),
    ("EFORMAT", '{%s,"rescale_factor":-1}' % clip, "rescale_factor is -1"),
    ("EFORMAT", '{%s,"image_mean":1e300}' % clip, "preprocessor_config.json: image_mean[0] is 1e+300"),
    ("EFORMAT", '{"image_processor_type":"LlavaNextImageProcessor","image_grid_pinpoints":[]}',
     "preprocessor_config.json: image_grid_pinpoints: expected a list of 1 .. "),
    ("EFORMAT", '{%s,"do_resize":"yes"}' % clip, "do_resize"),
    ("EUNSUP", '{%s,"resample":9}' % clip, "resample is 9"),
    ("EFORMAT", '{"image_processor_type":"SiglipImageProcessor","size":{"shortest_edge":5}}', "no height and width"),
    ("EFORMAT", '{"image_processor_type":"Idefics3ImageProcessor","size":{"shortest_edge":5}}', "neither longest_edge"),
    ("EFORMAT", '{"image_processor_type":"Idefics3ImageProcessor","max_image_size":{"longest_edge":0}}', "longest_edge"),
    ("ELIMIT", '{"image_processor_type":"Idefics3ImageProcessor","max_image_size":{"longest_edge":16000}}', "becomes 1 tiles of 16000 x 16000"),
    ("ELIMIT", '{%s,"size":16384,"do_center_crop":false}' % clip, "becomes 1 tiles of"),
]
write("bad.txt", "verdict, config, words of the message; tab between; a layout of 100 x 90 is asked",
      ["\t".join(b) for b in bad])

os.makedirs(os.path.join(here, "configs"), exist_ok=True)
for name, cls in CLASSES.items():
    with open(os.path.join(here, "configs", name + ".json"), "w") as f:
        json.dump({**cls().to_dict(), "image_processor_type": name}, f)
