"""What the field's converter makes of the vision part: its names, by the tables of the PyPI package gguf, and its parts."""
import gguf
import numpy as np


def vision_names(config, w, layers):
    """What the field's converter makes of the vision part: names of its files and their numbers."""
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, layers)
    own = {"image_newline": "v.image_newline", "multi_modal_projector.linear_1": "mm.0", "multi_modal_projector.linear_2": "mm.2",
           "multi_modal_projector.mm_input_projection_weight": "mm.input_projection.weight"}
    if config["model_type"] == "internvl":  # the table has the names of its layout before transformers'
        own = {f"multi_modal_projector.{a}": f"mm.model.mlp.{b}" for a, b in (("layer_norm", 0), ("linear_1", 1), ("linear_2", 3))}
    for name, x in w.items():
        if name.startswith(("language_model.", "model.text_model.", "lm_head", "model.layers", "model.embed", "model.norm")):
            continue
        if "soft_emb_norm" in name:
            x = x + 1  # the files have the factor itself
        if ".qkv." in name:
            for part, rows in zip("qkv", np.split(x, 3)):
                yield table.get_name(name.replace("qkv", part), try_suffixes=(".weight", ".bias")), rows
        elif x.ndim == 5:
            for i, frame in enumerate(x.swapaxes(0, 2)):
                yield "v.patch_embd.weight" + (f".{i}" if i else ""), frame.swapaxes(0, 1)
        else:
            stem, dot, ending = name.rpartition(".")
            if ending not in ("weight", "bias"):
                stem, dot, ending = name, "", ""
                if "lambda_" in name or "position" in name:
                    dot, ending = ".", "weight"
            if stem.startswith("vision_tower.") and config["model_type"] == "internvl":
                stem = "model." + stem
            yield (own.get(stem) or table.get_name(stem) or "none for " + name) + dot + ending, x
