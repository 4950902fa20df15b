"""What `pinhole convert --to onnx` writes, against the onnx checker, ONNX Runtime and the stored references.

    onnx_out.py PINHOLE SET WORK

Every part of every model of SET: valid; runs in ONNX Runtime; vision and bridge parts give the reference's features, language
parts its logits, in one step and in two over the cache.  For parts without a cache the inputs and ONNX Runtime's outputs are
left in WORK/cases as reference cases, so that `pinhole verify` holds the import and the native engine to them.
"""
import json
import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
from safetensors.numpy import load_file, save_file

PINHOLE, SET, WORK = sys.argv[1:4]
LIMIT = 1e-4  # of the largest number
DOCS = "docs/reference/onnx.md"  # whose example is run
FIELDS = 10  # of a row: sequence, index, t, h, w, span, kind, back, cross begin, cross end
TYPES = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(int64)": np.int64}
passed = failed = 0
ort.set_default_logger_severity(3)


def check(ok, what):
    global passed, failed
    passed += bool(ok)
    failed += not ok
    if not ok:
        print(what)


def close(got, want, what, limit=LIMIT):
    got, want = np.asarray(got, np.float64).ravel(), np.asarray(want, np.float64).ravel()
    if got.size != want.size:
        check(False, f"{what}: {got.size} numbers, {want.size} wanted")
        return
    off = np.abs(got - want).max() / max(np.abs(want).max(), 1e-9)
    check(off <= limit, f"{what}: off by {off:.2e} of the largest")


class Part:
    def __init__(self, path):
        self.path = path
        try:
            onnx.checker.check_model(path, full_check=True)
            check(True, path)
        except Exception as e:
            check(False, f"{path}: {str(e)[:300]}")
        self.session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.inputs = {i.name: i for i in self.session.get_inputs()}
        self.outputs = [o.name for o in self.session.get_outputs()]

    def run(self, **feeds):
        feeds = {k: np.ascontiguousarray(v, TYPES[self.inputs[k].type]) for k, v in feeds.items() if k in self.inputs}
        return dict(zip(self.outputs, self.session.run(None, feeds))), feeds


def convert(model, out, *args):
    r = subprocess.run([PINHOLE, "convert", model, "-o", out, "--to", "onnx", "-q", *args], capture_output=True, text=True)
    check(r.returncode == 0, f"{model} {args}: {r.stderr}")
    return r.returncode == 0


# ---- cases for `pinhole verify` ----
class Cases:
    def __init__(self):
        self.items, self.tensors = [], {}
        self.dir = os.path.join(WORK, "cases")
        os.makedirs(self.dir, exist_ok=True)

    def add(self, name, path, feeds, outs):
        file = name.replace("/", "_") + ".onnx"
        os.rename(path, os.path.join(self.dir, file))
        item = {"name": name, "model": file, "inputs": {}, "outputs": {}, "tolerance": f"{LIMIT} relative to max abs"}
        for kind, values in (("inputs", feeds), ("outputs", outs)):
            for key, x in values.items():
                self.tensors[f"{name}/{kind}/{key}"] = np.ascontiguousarray(x)
                item[kind][key] = {"tensor": f"{name}/{kind}/{key}", "shape": list(x.shape)}
        self.items.append(item)

    def write(self):
        with open(os.path.join(self.dir, "good.json"), "w") as f:
            json.dump({"good": self.items}, f)
        save_file(self.tensors, os.path.join(self.dir, "good_io.safetensors"))


# ---- inputs ----
def packed(grids, window_patches):
    """Rows, segments, windows and the bridge's order of pictures of grids (t, h, w), merged 2 by 2, in windows."""
    rows, segments, windows, order, first = [], [], [], [], 0
    for t, h, w in grids:
        h, w = h // 2, w // 2
        side = window_patches or max(h, w)
        for f in range(t):
            begin = len(rows)
            for y0 in range(0, h, side):
                for x0 in range(0, w, side):
                    cells = [(y, x) for y in range(y0, min(y0 + side, h)) for x in range(x0, min(x0 + side, w))]
                    at = len(rows)
                    for y, x in cells:
                        order.append(first + (f * h + y) * w + x)
                        for dy in range(2):
                            for dx in range(2):
                                rows.append([0, 0, 0, 2 * y + dy, 2 * x + dx] + [0] * (FIELDS - 5))
                    windows += [[at, len(rows)]] * (len(rows) - at)
            segments += [[begin, len(rows)]] * (len(rows) - begin)
        first += t * h * w
    order = np.array(order)
    patches = (order[:, None] * 4 + np.arange(4)).ravel()  # the reference's patches in window order
    return np.array(rows), np.array(segments), np.array(windows), patches, np.argsort(order)


def text_rows(n, past=0, positions=None, spans=None, cross=None):
    rows = np.zeros((1, n, FIELDS), np.int32)
    index = np.arange(past, past + n)
    rows[0, :, 1] = index
    rows[0, :, 2:5] = (index[:, None] if positions is None else positions.T[past:past + n])
    rows[0, :, 5] = index + 1
    if spans is not None:
        rows[0, :, 5] = np.maximum(spans[past:past + n, 1], index + 1)
        rows[0, :, 7] = index - np.minimum(spans[past:past + n, 0], index)
    if cross is not None:
        rows[0, :, 8:10] = cross[past:past + n]
    return rows


def empty_past(part):
    return {n: np.zeros([d if isinstance(d, int) else (0 if d == "P" else 1) for d in i.shape], np.float32)
            for n, i in part.inputs.items() if n.startswith("past.")}


def example(part, ids, past, out):
    """The example of the reference page, as it stands there, gives these outputs."""
    with open(DOCS) as f:
        text = f.read().split("```python\n")[1].split("```")[0]
    sees = "visual" in part.inputs
    given = {"np": np, "ids": ids, "T": ids.shape[1], "P": 0, "past": past, "sees": sees,
             "d": part.inputs["visual"].shape[1] if sees else None}
    try:
        exec(text, given)
        logits = part.session.run(["logits"], given["feeds"])[0]
        close(logits, out["logits"], f"{DOCS}: its example, {part.path}", 1e-6)
    except Exception as e:
        check(False, f"{DOCS}: its example, {part.path}: {str(e)[:300]}")


# ---- checks ----
def pixels_of(t, model):
    """The reference's own pixel values, [tiles, 3, h, w] or packed patches; None: the case has none."""
    for name in ("pixel_values", "pixel_values_u8", "pixel_values_videos_u8", "input_features"):
        if name in t:
            x = t[name].astype(np.float32)
            break
    else:
        return None
    if name.endswith("u8"):
        with open(os.path.join(model, "preprocessor_config.json")) as f:
            config = json.load(f)
        mean, std = np.float32(config["image_mean"]), np.float32(config["image_std"])
        if x.ndim == 2:  # channels by frames by patch
            mean, std = np.repeat(mean, x.shape[1] // 3), np.repeat(std, x.shape[1] // 3)
        else:
            mean, std = mean[:, None, None], std[:, None, None]
        x = (x / np.float32(255) - mean) / std
    return x.reshape(-1, *x.shape[-3:]) if x.ndim > 3 else x


def vision_feeds(t, config, pixels):
    grids = next((t[k] for k in ("image_grid_thw", "video_grid_thw") if k in t), None)
    if grids is None:
        feeds = {"pixels": pixels, "mels": pixels}
        if "aspect_ratio_ids" in t:
            feeds["tile_ids"] = (t["aspect_ratio_ids"].ravel()[:, None] * 4 + np.arange(4)).ravel()
        return feeds, {}
    vision = config["vision_config"]
    window = vision.get("window_size", 0) // vision["patch_size"] // 2
    rows, segments, windows, at, order = packed(grids, window)
    return {"patches": pixels[at], "rows": rows, "segments": segments, "windows": windows}, {"order": order}


FEATURES = ("image_features", "video_features", "image_embeds", "encoder_last", "cross_attention_states", "perceiver_output")


def see(model, name, config, case, t, parts, cases):
    """Visual tokens of a case, compared with the reference's."""
    pixels = pixels_of(t, model)
    if pixels is None:
        return None
    feeds, more = vision_feeds(t, config, pixels)
    if "tile_ids" in feeds:  # zeros where a grid has fewer tiles
        check(len(feeds["tile_ids"]) == len(pixels), f"{name}: {len(pixels)} tiles")
    seen, feeds = parts["vision"].run(**feeds)
    made, more = parts["bridge"].run(features=seen["features"], **more)
    visual = made[parts["bridge"].outputs[0]]
    want = next((t[k] for k in FEATURES if k in t), None)
    if want is not None:
        got = visual
        if "cross_attention_states" in t:  # the first of them
            got = visual.reshape(-1, visual.shape[-1])[:want.shape[1]]
        if got.size == want.size:
            close(got, want, f"{name} {case}: features")
        else:
            check(False, f"{name} {case}: features {got.shape}, the reference has {want.shape}")
    cases.add(f"{name}/{case}/vision", parts["vision"].path, feeds, seen) if os.path.exists(parts["vision"].path) else None
    cases.add(f"{name}/{case}/bridge", parts["bridge"].path, more, made) if os.path.exists(parts["bridge"].path) else None
    return visual


def spans_of(t):
    """Runs of visual tokens that see each other (Gemma 3): begin and end for each row."""
    if "token_type_ids" not in t:
        return None
    kind, out = t["token_type_ids"].ravel(), []
    for i, k in enumerate(kind):
        begin = end = i
        while k and begin and kind[begin - 1]:
            begin -= 1
        while k and end < len(kind) and kind[end]:
            end += 1
        out.append((begin, end if k else i + 1))
    return np.array(out)


def language(name, config, case, t, part, visual):
    ids = t["input_ids"].ravel().astype(np.int32)
    n = len(ids)
    feeds = {}
    image = next((config[k] for k in ("image_token_id", "image_token_index", "video_token_id") if k in config
                  and (ids == config[k]).any()), None)
    if config["model_type"] == "llava_next" and image is not None:
        return  # its tokens stand in another order than the bridge's rows
    if "visual" in part.inputs:
        at = np.flatnonzero(ids == image) if image is not None else np.array([], int)
        if len(at) and visual is None:
            return
        rows = visual.reshape(-1, visual.shape[-1])[:len(at)] if len(at) else None
        if rows is not None and len(rows) != len(at):
            return
        width = part.inputs["visual"].shape[1]
        feeds["visual"] = rows if len(at) else np.zeros((0, width), np.float32)
        feeds["visual_rows"] = at[:, None]
    positions = t.get("position_ids_thw")
    spans = spans_of(t)
    past = empty_past(part)
    out, _ = part.run(ids=ids[None], rows=text_rows(n, 0, positions, spans), out_rows=[n - 1], positions=np.arange(n)[None],
                      **feeds, **past)
    close(out["logits"], t["logits_last"], f"{name} {case}: logits")
    if len(feeds.get("visual", ())):
        return
    if spans is None and positions is None and "positions" not in part.inputs:
        example(part, ids[None], past, out)
    half = n // 2  # the same in two steps
    one, _ = part.run(ids=ids[None, :half], rows=text_rows(half, 0, positions), out_rows=[half - 1], **feeds, **past)
    kept = {k.replace("present", "past"): v for k, v in one.items() if k.startswith("present")}
    two, _ = part.run(ids=ids[None, half:], rows=text_rows(n - half, half, positions), out_rows=[n - half - 1], **feeds, **kept)
    close(two["logits"], t["logits_last"], f"{name} {case}: logits in two steps")


def looking(name, case, t, parts, visual):
    """Decoders that look at pictures beside the rows: mllama, IDEFICS."""
    ids = t["input_ids"].ravel()
    n = len(ids)
    seen, sees, filled = np.zeros((n, 2), int), np.zeros(n), {}
    if visual is None or case == "text_only":
        filled = {k: np.zeros((1, i.shape[1], 1, i.shape[3]), np.float32) for k, i in parts["language"].inputs.items()
                  if k.startswith("cross.")}
    else:
        tokens = visual.shape[1]
        mask = t["cross_attention_mask" if "cross_attention_mask" in t else "image_attention_mask"].reshape(n, -1)
        if "aspect_ratio_mask" in t:
            shown = t["aspect_ratio_mask"].ravel() > 0
            mask, visual = mask[:, shown], np.concatenate([visual[shown], visual[~shown]])  # blank tiles behind
        sees = mask.any(1)
        for i, row in enumerate(mask):
            at = np.flatnonzero(row > 0)
            blind = len(visual) if "cross_attention_mask" in t else 0  # mllama's see all
            seen[i] = (at[0] * tokens, (at[-1] + 1) * tokens) if len(at) else (0, blind * tokens)
        visual = visual.reshape(1, -1, visual.shape[-1])
        filled, _ = parts["cross"].run(visual=visual, rows=text_rows(visual.shape[1]))
    out, _ = parts["language"].run(ids=ids[None], rows=text_rows(n, cross=seen), out_rows=[n - 1],
                                   cross_seen=sees[None, :, None], **filled, **empty_past(parts["language"]))
    close(out["logits"], t["logits_last"], f"{name} {case}: logits")


def whisper(name, t, parts, visual):
    ids = t["decoder_prefix_ids"].ravel()
    n, frames = len(ids), visual.shape[1]
    filled, _ = parts["cross"].run(visual=visual.reshape(1, frames, -1), rows=text_rows(frames))
    seen = np.tile([0, frames], (n, 1))
    out, _ = parts["language"].run(ids=ids[None], positions=np.arange(n)[None], rows=text_rows(n, cross=seen), out_rows=[n - 1],
                                   **filled, **empty_past(parts["language"]))
    close(out["logits"], t["logits_last"], f"{name}: logits")


def dual(name, model, t, parts, cases):
    visual = see(model, name, {}, "case", t, parts, cases)
    close(visual / np.linalg.norm(visual, axis=-1, keepdims=True), t["image_embeds"] / np.linalg.norm(
        t["image_embeds"], axis=-1, keepdims=True), f"{name}: picture embeddings")
    ids = t["input_ids"]
    n, length = ids.shape
    rows = np.tile(text_rows(length), (n, 1, 1))
    if "attention_mask" in t:  # CLIP: causal, pooled at the end of the text
        last = t["attention_mask"].sum(1).astype(int) - 1
    else:  # SigLIP: all see all, pooled at the end of the row
        rows[:, :, 5] = length
        rows[:, :, 7] = rows[:, :, 1]
        last = np.full(n, length - 1)
    out, _ = parts["language"].run(ids=ids, positions=np.tile(np.arange(length), (n, 1)), rows=rows,
                                   out_rows=np.arange(n) * length + last)
    got, want = out["embedding"], t["text_embeds"]
    close(got, want / np.linalg.norm(want, axis=-1, keepdims=True), f"{name}: text embeddings")


def one_model(model, opset, cases):
    name = os.path.basename(model)
    out = os.path.join(WORK, f"{name}-{opset}")
    if not convert(model, out, "--part", "all", "--opset", str(opset)):
        return
    parts = {f[:-5]: Part(os.path.join(out, f)) for f in sorted(os.listdir(out)) if f.endswith(".onnx")}
    with open(os.path.join(model, "config.json")) as f:
        config = json.load(f)
    golden = os.path.join(model, "golden")
    for file in sorted(os.listdir(golden)):
        if not file.endswith(".safetensors"):
            continue
        case, t = file[:-12], load_file(os.path.join(golden, file))
        if "input_ids" not in t and "decoder_prefix_ids" not in t:
            continue
        if name.startswith("align_"):
            dual(f"{name} {opset}", model, t, parts, cases)
            continue
        visual = see(model, f"{name} {opset}", config, case, t, parts, cases) if "vision" in parts else None
        if name.startswith("speech_"):
            whisper(f"{name} {opset}", t, parts, visual)
        elif "cross" in parts:
            looking(f"{name} {opset}", case, t, parts, visual)
        else:
            language(f"{name} {opset}", config, case, t, parts["language"], visual)


def quantised(model):
    """From GGUF, where rows of q and k stand in pairs: the reference's logits.  Block types as DequantizeLinear: what the same
    weights give as floats."""
    name = os.path.basename(model)
    t = load_file(os.path.join(model, "golden", "p0.safetensors"))
    ids = t["input_ids"].ravel()
    gguf, path = os.path.join(WORK, "m.gguf"), os.path.join(WORK, "m.onnx")
    subprocess.run([PINHOLE, "convert", model, "-o", gguf, "--to", "gguf", "-q"], check=True, capture_output=True)
    if convert(gguf, path):
        language(f"{name} from GGUF", {"model_type": "llama"}, "p0", t, Part(path), None)
    for kind in ("q8_0", "q4_0"):
        gguf = os.path.join(WORK, f"{kind}.gguf")
        subprocess.run([PINHOLE, "quantize", model, "-o", gguf, "--to", kind, "-q"], check=True, capture_output=True)
        logits = {}
        for what, args in (("floats", ["--dtype", "f32"]), ("opset 17", []), ("opset 21", ["--opset", "21"]),
                           ("beside", ["--external", "0", "--opset", "23"])):
            path = os.path.join(WORK, f"{kind}.onnx")
            if convert(gguf, path, *args):
                part = Part(path)
                logits[what] = part.run(ids=ids[None], rows=text_rows(len(ids)), out_rows=[len(ids) - 1],
                                        **empty_past(part))[0]["logits"]
                close(logits[what], logits["floats"], f"{name} as {kind}, {what}: logits")


def main():
    cases = Cases()
    for i, model in enumerate(sorted(os.listdir(SET))):
        for opset in (17, 23) if i % 3 == 0 else (17 + i % 6,):
            one_model(os.path.join(SET, model), opset, cases)
    quantised(os.path.join(SET, "llm_llama_gqa_untied"))
    cases.write()
    r = subprocess.run([PINHOLE, "verify", cases.dir], capture_output=True, text=True)
    last = (r.stdout.strip().splitlines() or [""])[-1]
    check(r.returncode == 0 and f"{len(cases.items)} passed" in last, f"{len(cases.items)} cases: {r.stdout}{r.stderr}"[-3000:])
    print(f"{passed} passed, {failed} failed")


main()
