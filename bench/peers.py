#!/usr/bin/env python3
"""The same files and lengths through other programs, in turns with ours: A B A B, ratios of medians.

    LLAMA_BENCH=.../llama-bench bench/peers.py --gguf model.q4_0.gguf -t 1,2
    LLAMA_MTMD=.../llama-mtmd-cli bench/peers.py --gguf M.gguf --mmproj MM.gguf --image cup.jpg -t 2
    bench/peers.py --tower DIR --image-size 224x224 -t 1,2        ONNX Runtime, in the Python that runs this
    bench/peers.py --tower DIR --int8 --ours DIR.int8 --flags=--rows8   both by bytes

Which programs, by environment:
    PINHOLE       ours (build/pinhole)
    LLAMA_BENCH   llama.cpp's llama-bench: prefill and step; the whole command of one token, its time and peak memory
    LLAMA_CLI     its llama-cli or llama-completion: the whole command, one token
    LLAMA_MTMD    its llama-mtmd-cli: seeing a picture
    onnxruntime, onnx, numpy   as Python packages: the tower of a Hugging Face directory with CLIP's or SigLIP's names,
                  written out as ONNX operators in f32 (and quantised by ONNX Runtime itself with --int8)

A ratio above 1 says that ours is faster.  What cannot be measured is named; if nothing can, the status is 77.
"""
import argparse
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from common import PINHOLE, machine, run


def whole(command):
    """Milliseconds and the largest resident set, in MB, of a command from its start to its end."""
    begin = time.perf_counter()
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        child = subprocess.Popen(command, stdout=nothing, stderr=nothing)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"peers.py: {command[0]} ended with status {child.returncode}: {' '.join(command)}")
    return 1e3 * (time.perf_counter() - begin), used.ru_maxrss / 1e3


class Rows:
    """Figures of two programs, kept as speeds or times; printed as medians and their ratio."""

    def __init__(self):
        self.at = {}

    def add(self, work, unit, ours, theirs, peer):
        a, b = self.at.setdefault((work, unit, peer), ([], []))
        a.append(ours)
        b.append(theirs)

    def print(self):
        print(f"{'work':34} {'unit':6} {'ours':>10} {'peer':>10} {'ratio':>6}  {'spread':>13}  peer")
        for (work, unit, peer), (a, b) in self.at.items():
            ours, theirs = statistics.median(a), statistics.median(b)
            ratio = ours / theirs if unit == "tok/s" else theirs / ours
            spread = " ".join(f"{100 * (max(x) - min(x)) / statistics.median(x):5.1f}%" for x in (a, b))
            print(f"{work:34} {unit:6} {ours:10.2f} {theirs:10.2f} {ratio:6.2f}  {spread:>13}  {peer}")

    def json(self):
        return [{"work": w, "unit": u, "peer": p, "ours": a, "theirs": b}
                for (w, u, p), (a, b) in self.at.items()]


def ours(args, threads, more):
    """One round of `pinhole bench`, by stage."""
    command = [PINHOLE, "bench", "-t", str(threads), "--rounds", "1", "--no-limits", "--no-cold", "-q", "--json"]
    rows = json.loads(run(command + more + args.flags.split()).stdout)["rows"]
    return {r["stage"]: r["median"] for r in rows}


def name_of(args, peer):
    return f"{peer}; ours {args.flags}" if args.flags else peer

# ---- llama.cpp ----


def llama_bench(args, threads):
    out = run([os.environ["LLAMA_BENCH"], "-m", args.gguf, "-p", str(args.prompt), "-n", str(args.tokens), "-t",
               str(threads), "-r", "1", "-ngl", "0", "-o", "json"]).stdout
    figures = {}
    for row in json.loads(out):
        figures["prefill" if row["n_prompt"] else "step"] = row["avg_ts"]
    return figures


def text_round(args, threads, rows):
    a = ours(args, threads, ["-m", args.gguf, "-p", str(args.prompt), "-n", str(args.tokens)])
    b = llama_bench(args, threads)
    for stage, n in (("prefill", args.prompt), ("step", args.tokens)):
        rows.add(f"{stage} {n}, {threads} threads", "tok/s", a[stage], b[stage],
                 name_of(args, "llama-bench"))


def drop(path):
    """The file's pages leave memory, as far as the system listens."""
    f = os.open(path, os.O_RDONLY)
    os.fsync(f)
    os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(f)


def whole_round(args, threads, rows, theirs):
    ours_is = [PINHOLE, "run", "-m", args.gguf, "--raw", "the", "-n", "1", "-t", str(threads), "-q"] + args.flags.split()
    (a, a_mb), (b, b_mb) = whole(ours_is), whole(theirs)
    peer = name_of(args, os.path.basename(theirs[0]))
    rows.add(f"whole command, 1 token, {threads} threads", "ms", a, b, peer)
    rows.add(f"its peak memory, {threads} threads", "MB", a_mb, b_mb, peer)
    if args.cold:
        found = []
        for command in (ours_is, theirs):
            drop(args.gguf)
            found.append(whole(command)[0])
        rows.add(f"whole command, 1 token, cold, {threads} threads", "ms", *found, peer)


def command_round(args, threads, rows):
    whole_round(args, threads, rows, [os.environ["LLAMA_CLI"], "-m", args.gguf, "-p", "the", "-n", "1", "-t",
                                      str(threads), "-no-cnv", "-ngl", "0"])


def bench_round(args, threads, rows):
    """The same by llama-bench, which does nothing else here either."""
    whole_round(args, threads, rows, [os.environ["LLAMA_BENCH"], "-m", args.gguf, "-p", "0", "-n", "1", "-r", "1",
                                      "--no-warmup", "-t", str(threads), "-ngl", "0"])


def mtmd_round(args, threads, rows):
    more = ["-m", args.gguf, "--mmproj", args.mmproj, "--image", args.image, "-p", "1", "-n", "1"]
    a = ours(args, threads, more)
    # What it does behind the picture is no matter here: some versions stop there.
    done = run([os.environ["LLAMA_MTMD"], "-m", args.gguf, "--mmproj", args.mmproj, "--jinja", "--image", args.image,
                "-p", "x", "-n", "1", "-t", str(threads), "-ngl", "0", "--no-mmproj-offload"], may_fail=True)
    found = re.findall(r"(?:slice |image )encoded in (\d+) ms|batch encoding done in (\d+) ms", done.stderr + done.stdout)
    if not found:
        sys.exit(f"peers.py: llama-mtmd-cli printed no time of encoding: {done.stderr.strip()[-400:]}")
    found = [a or b for a, b in found]
    rows.add(f"see, {threads} threads", "ms", a["see"] + a["bridge"], sum(map(float, found)),
             name_of(args, "llama-mtmd-cli"))

# ---- ONNX Runtime ----


class Tensors:
    """A safetensors file, one tensor at a time, as f32."""

    def __init__(self, folder):
        import numpy as np
        self.np, self.file = np, open(os.path.join(folder, "model.safetensors"), "rb")
        n = struct.unpack("<Q", self.file.read(8))[0]
        self.head, self.base = json.loads(self.file.read(n)), 8 + n
        for prefix in ("vision_tower.vision_model.", "model.vision_tower.vision_model.", "model.vision_model."):
            if prefix + "embeddings.patch_embedding.weight" in self.head:
                self.prefix = prefix
                return
        sys.exit(f"peers.py: {folder} has no tower with CLIP's or SigLIP's names in one model.safetensors")

    def has(self, name):
        return self.prefix + name in self.head

    def get(self, name):
        np, t = self.np, self.head[self.prefix + name]
        begin, end = t["data_offsets"]
        self.file.seek(self.base + begin)
        raw = self.file.read(end - begin)
        if t["dtype"] == "BF16":
            x = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            x = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[t["dtype"]]).astype(np.float32)
        return x.reshape(t["shape"])


class Graph:
    """Nodes and weights being listed, with the operators' names as methods would have them."""

    def __init__(self, onnx, np):
        self.onnx, self.np, self.nodes, self.weights, self.n = onnx, np, [], [], 0

    def weight(self, x):
        self.n += 1
        name = f"w{self.n}"
        self.weights.append(self.onnx.numpy_helper.from_array(self.np.ascontiguousarray(x), name))
        return name

    def ints(self, *x):
        return self.weight(self.np.array(x, self.np.int64))

    def add(self, op, *inputs, **attributes):
        self.n += 1
        name = f"v{self.n}"
        self.nodes.append(self.onnx.helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def number(self, x):
        return self.weight(self.np.array(x, self.np.float32))


def activation(g, x, kind):
    if kind == "quick_gelu":
        return g.add("Mul", x, g.add("Sigmoid", g.add("Mul", x, g.number(1.702))))
    return g.add("Gelu", x, approximate="tanh" if "tanh" in kind else "none")


def onnx_tower(folder, layers_used):
    import numpy as np
    import onnx
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        c = json.load(f)["vision_config"]
    t, g = Tensors(folder), Graph(onnx, np)
    d, heads, patch, side = c["hidden_size"], c["num_attention_heads"], c["patch_size"], c["image_size"]
    eps, n = c.get("layer_norm_eps", 1e-5), (side // patch) ** 2

    def norm(x, name):
        return g.add("LayerNormalization", x, g.weight(t.get(name + ".weight")), g.weight(t.get(name + ".bias")),
                     axis=-1, epsilon=eps)

    def linear(x, name):
        return g.add("Add", g.add("MatMul", x, g.weight(t.get(name + ".weight").T)), g.weight(t.get(name + ".bias")))

    def split(x, order):
        return g.add("Transpose", g.add("Reshape", x, g.ints(1, -1, heads, d // heads)), perm=order)

    conv = ["pixels", g.weight(t.get("embeddings.patch_embedding.weight"))]
    if t.has("embeddings.patch_embedding.bias"):
        conv.append(g.weight(t.get("embeddings.patch_embedding.bias")))
    x = g.add("Conv", *conv, strides=[patch, patch], kernel_shape=[patch, patch])
    x = g.add("Transpose", g.add("Reshape", x, g.ints(1, d, n)), perm=[0, 2, 1])
    if t.has("embeddings.class_embedding"):
        x = g.add("Concat", g.weight(t.get("embeddings.class_embedding").reshape(1, 1, d)), x, axis=1)
    x = g.add("Add", x, g.weight(t.get("embeddings.position_embedding.weight")[None]))
    if t.has("pre_layrnorm.weight"):
        x = norm(x, "pre_layrnorm")
    for i in range(layers_used or c["num_hidden_layers"]):
        at = f"encoder.layers.{i}."
        h = norm(x, at + "layer_norm1")
        q, k, v = (linear(h, f"{at}self_attn.{p}_proj") for p in "qkv")
        s = g.add("MatMul", split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]))
        s = g.add("Softmax", g.add("Mul", s, g.number((d // heads) ** -0.5)), axis=-1)
        h = g.add("Transpose", g.add("MatMul", s, split(v, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        x = g.add("Add", x, linear(g.add("Reshape", h, g.ints(1, -1, d)), at + "self_attn.out_proj"))
        h = activation(g, linear(norm(x, at + "layer_norm2"), at + "mlp.fc1"), c.get("hidden_act", "quick_gelu"))
        x = g.add("Add", x, linear(h, at + "mlp.fc2"))
    if not t.has("pre_layrnorm.weight"):
        x = norm(x, "post_layernorm")
    make = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(g.nodes, "tower", [make("pixels", onnx.TensorProto.FLOAT, [1, 3, side, side])],
                                   [make(x, onnx.TensorProto.FLOAT, None)], g.weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    model.ir_version = 9
    return model, side


def ort_sessions(path, threads):
    import onnxruntime
    made = {}
    for n in threads:
        o = onnxruntime.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads = n, 1
        o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        made[n] = onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    return made


def tower_rounds(args, threads, rows):
    import numpy as np
    import onnx
    with tempfile.TemporaryDirectory() as work:
        model, side = onnx_tower(args.tower, args.layers_used)
        path = os.path.join(work, "tower.onnx")
        onnx.save(model, path)
        if args.int8:
            from onnxruntime.quantization import QuantType, quantize_dynamic
            quantize_dynamic(path, os.path.join(work, "int8.onnx"), weight_type=QuantType.QInt8)
            path = os.path.join(work, "int8.onnx")
        sessions = ort_sessions(path, threads)
        pixels = np.random.default_rng(1).standard_normal((1, 3, side, side), np.float32)
        for s in sessions.values():
            s.run(None, {"pixels": pixels})
        ours_model = ["-m", args.gguf, "--mmproj", args.mmproj] if args.mmproj else ["-m", args.ours or args.tower]
        size = args.image_size or f"{side}x{side}"
        for _ in range(args.rounds):
            for n in threads:
                a = ours(args, n, ours_model + ["--image-size", size, "-p", "1", "-n", "1"])
                sessions[n].run(None, {"pixels": pixels})  # after a pause: not counted, as our first round is not
                begin = time.perf_counter()
                sessions[n].run(None, {"pixels": pixels})
                b = 1e3 * (time.perf_counter() - begin)
                rows.add(f"see {side}x{side}, {n} threads", "ms", a["see"], b,
                         name_of(args, "onnxruntime int8" if args.int8 else "onnxruntime f32"))

# ---- the command ----


def lacking(args):
    """What was asked for and cannot be; what can."""
    missing, can = [], []
    for name, needs, fn in (("LLAMA_BENCH", args.gguf, text_round), ("LLAMA_BENCH", args.gguf, bench_round),
                            ("LLAMA_CLI", args.gguf, command_round),
                            ("LLAMA_MTMD", args.gguf and args.mmproj and args.image, mtmd_round)):
        path = os.environ.get(name)
        if not needs:
            continue
        if path and os.access(path, os.X_OK):
            can.append(fn)
        else:
            line = f"{name} is {'not set' if not path else 'no program: ' + path}"
            missing += [] if line in missing else [line]
    if args.tower:
        for package in ("numpy", "onnx", "onnxruntime"):
            try:
                __import__(package)
            except ImportError:
                missing.append(f"this Python has no {package}")
                args.tower = None
    return missing, can


def options():
    p = argparse.ArgumentParser(description="Ratios to llama.cpp and ONNX Runtime, measured in turns.")
    p.add_argument("--gguf", help="a GGUF file, for ours and for llama.cpp")
    p.add_argument("--mmproj", help="its vision part")
    p.add_argument("--image", help="a picture, for LLAMA_MTMD")
    p.add_argument("--tower", help="a Hugging Face directory, whose tower goes through ONNX Runtime")
    p.add_argument("--ours", help="our side's directory instead: the same tower in int8, say")
    p.add_argument("--flags", default="", help="options that ours gets besides: \"--rows8\"")
    p.add_argument("--layers-used", type=int, help="of the tower; default: all (LLaVA-1.5 leaves out the last)")
    p.add_argument("--image-size", help="of our picture: such that it becomes one tile; default: the tower's")
    p.add_argument("--cold", action="store_true", help="whole commands also with the file dropped from memory before")
    p.add_argument("--int8", action="store_true", help="ONNX Runtime's dynamic int8 instead of f32")
    p.add_argument("-t", "--threads", default="1,2")
    p.add_argument("-p", "--prompt", type=int, default=512)
    p.add_argument("-n", "--tokens", type=int, default=64)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json", action="store_true")
    return p.parse_args()


def main():
    args = options()
    if args.ours and (args.mmproj or not args.tower):
        sys.exit("peers.py: --ours is another directory of --tower, and with --mmproj ours is --gguf")
    missing, can = lacking(args)
    for line in missing:
        print(f"peers.py: {line}", file=sys.stderr)
    if not can and not args.tower:
        print("no peer to compare with: " + ("; ".join(missing) or "give --gguf or --tower; see --help"))
        return 77
    if not os.access(PINHOLE, os.X_OK):
        sys.exit(f"peers.py: {PINHOLE} is not there: make build, or name it in PINHOLE")
    threads, rows = [int(x) for x in args.threads.split(",")], Rows()
    for _ in range(args.rounds):
        for n in threads:
            for one_round in can:
                one_round(args, n, rows)
    if args.tower:
        tower_rounds(args, threads, rows)
    if args.json:
        print(json.dumps({"machine": machine(), "model": args.gguf or args.tower, "rows": rows.json(), "missing": missing}))
    else:
        rows.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
