#!/usr/bin/env python3
"""Single products in the shapes of the models in docs/performance.md, by `ph-kernel` and by peers' kernels, in turns.

    GGML_INCLUDE=llama.cpp/ggml/include GGML_LIB=llama.cpp/build/bin bench/kernels.py -t 2
    bench/kernels.py --only "see" -t 2            ONNX Runtime's MatMul, in the Python that runs this
    bench/kernels.py --fusions                    norm and rotation of heads; bytes that LayerNorm + Linear moves (valgrind)

Of ggml the faster of its two ways is taken: weights as they are in the file, or in the order that its kernels like
better, where it has one.  PH_KERNEL names ours (build/ph-kernel: make build/ph-kernel), CC a compiler for ggml's side.
A ratio above 1 says that ours is faster.  What cannot be measured is named; if nothing can, the status is 77.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time

from common import ROOT, machine, run
from peers import Graph, Rows, ort_sessions

KERNEL = os.environ.get("PH_KERNEL", os.path.join(ROOT, "build", "ph-kernel"))
BIG, SMALL = (5632, 2048), (1536, 576)  # columns and k of a gate: TinyLlama's shape, SmolLM2-135M

# what, type, rows, (columns, k), options of ours, peer
WORK = [(f"step, {name}, {t}", t, 1, shape, "", "ggml")
        for name, shape, types in (("1.1 B", BIG, ("q4_0", "q4_K", "f16")),
                                   ("SmolLM2-135M", SMALL, ("q4_0", "q4_1", "q8_0", "f16"))) for t in types]
WORK += [(f"prefill 512, {name}, {t}{' --rows8' if o else ''}", t, 512, shape, o, "ggml")
         for name, shape, types in (("1.1 B", BIG, (("q4_0", ""), ("q4_0", "--rows8"), ("q4_K", ""), ("q4_K", "--rows8"), ("f16", ""))),
                                    ("SmolLM2-135M", SMALL, (("q4_0", ""), ("q4_1", ""), ("q8_0", ""), ("f16", ""))))
         for t, o in types]
WORK += [("see, ViT-B/16, f32", "f32", 197, (3072, 768), "", "ort"), ("see, ViT-L/14, f32", "f32", 577, (4096, 1024), "", "ort"),
         ("see, SigLIP-B/16 at 512, f32", "f32", 1024, (3072, 768), "", "ggml"),
         ("see, SigLIP-B/16 at 512, q8_0 --rows8", "q8_0", 1024, (3072, 768), "--rows8", "ggml")]


def copies_of(kind, rows, cols, k):
    """As ph-kernel has it: a single row finds no weights in a cache."""
    bits = {"q4_0": 4.5, "q4_1": 5, "q4_K": 4.5, "q8_0": 8.5, "f16": 16, "f32": 32}[kind]
    return 8 if rows > 1 else int((256 << 20) * 8 / (cols * k * bits)) + 1


def ours(kind, rows, shape, copies, options, threads):
    out = run([KERNEL, "linear", "--type", kind, "--rows", str(rows), "--cols", str(shape[0]), "-k", str(shape[1]), "--copies",
               str(copies), "-t", str(threads), "--rounds", "7"] + options.split()).stdout
    return statistics.median(json.loads(out)["ms"])


class Ggml:
    """bench/peer_ggml.c, built against the library that the environment names."""

    def __init__(self, folder):
        include, lib = os.environ["GGML_INCLUDE"], os.path.abspath(os.environ["GGML_LIB"])
        self.program = os.path.join(folder, "peer_ggml")
        run([os.environ.get("CC", "cc"), "-O2", f"-I{include}", "-o", self.program, os.path.join(ROOT, "bench", "peer_ggml.c"),
             f"-L{lib}", f"-Wl,-rpath,{lib}", "-lggml", "-lggml-cpu", "-lggml-base"])

    def time(self, kind, rows, shape, copies, threads):
        """The faster of its ways."""
        found = []
        for repack in "01":
            done = run([self.program, kind, str(rows), str(shape[0]), str(shape[1]), str(copies), str(threads), "7", repack],
                       may_fail=True)
            if done.returncode == 0:
                found.append(statistics.median(json.loads(done.stdout)["ms"]))
            elif done.returncode != 77 or repack == "0":
                sys.exit(f"kernels.py: peer_ggml: {done.stderr.strip()[-400:]}")
        return min(found)


class Ort:
    """A model of as many MatMuls, each with its own weights."""

    def __init__(self, folder, rows, shape, copies, threads):
        import numpy as np
        import onnx
        g, rng = Graph(onnx, np), np.random.default_rng(1)
        ends = [g.add("MatMul", "x", g.weight(rng.standard_normal(shape[::-1], np.float32))) for _ in range(copies)]
        make, real = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
        model = onnx.helper.make_model(
            onnx.helper.make_graph(g.nodes, "linear", [make("x", real, [rows, shape[1]])],
                                   [make(e, real, [rows, shape[0]]) for e in ends], g.weights),
            opset_imports=[onnx.helper.make_opsetid("", 20)])
        model.ir_version = 9
        path = os.path.join(folder, "linear.onnx")
        onnx.save(model, path)
        self.session = ort_sessions(path, [threads])[threads]
        self.x = {"x": rng.standard_normal((rows, shape[1]), np.float32)}

    def time(self):
        found = []
        for _ in range(4):  # the first is not counted
            begin = time.perf_counter()
            self.session.run(None, self.x)
            found.append(1e3 * (time.perf_counter() - begin))
        return statistics.median(found[1:])


def lacking():
    """By peer, all that it lacks."""
    missing = {}
    for name in ("GGML_INCLUDE", "GGML_LIB"):
        if not os.path.isdir(os.environ.get(name, "")):
            missing.setdefault("ggml", []).append(f"{name} is {'no folder' if name in os.environ else 'not set'}")
    for package in ("numpy", "onnx", "onnxruntime"):
        try:
            __import__(package)
        except ImportError:
            missing.setdefault("ort", []).append(f"this Python has no {package}")
    return {peer: "; ".join(lines) for peer, lines in missing.items()}


def products(a, missing, rows):
    with tempfile.TemporaryDirectory() as folder:
        ggml = None if "ggml" in missing else Ggml(folder)
        for what, kind, n, shape, options, peer in WORK:
            if a.only not in what or peer in missing:
                continue
            copies = copies_of(kind, n, *shape)
            ort = Ort(folder, n, shape, copies, a.threads) if peer == "ort" else None
            for _ in range(a.rounds):
                mine = ours(kind, n, shape, copies, options, a.threads)
                theirs = ort.time() if ort else ggml.time(kind, n, shape, copies, a.threads)
                rows.add(f"{what}, {a.threads} threads", "ms", mine, theirs, "ONNX Runtime" if ort else "ggml")


def misses(fused, rounds):
    """Lines that missed a cache of 2 MB, in LayerNorm + Linear of 2048 rows of 1024, to 64 columns."""
    done = run(["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--D1=32768,8,64", "--LL=2097152,16,64",
                "--cachegrind-out-file=/dev/null", KERNEL, "linear", "--norm", "--type", "f32", "--rows", "2048", "--cols", "64",
                "-k", "1024", "--copies", "1", "-t", "1", "--rounds", str(rounds)] + ([] if fused else ["--unfused"]))
    return int(re.search(r"LLd misses:\s+([\d,]+)", done.stderr).group(1).replace(",", ""))


def fusions():
    for d, pairs in ((128, []), (64, []), (128, ["--pairs"]), (64, ["--pairs"])):
        f = json.loads(run([KERNEL, "headnorm", "-d", str(d)] + pairs).stdout)
        print(f"norm + rotation of heads of {d}{' in pairs' if pairs else ''}: {f['fused_ns']:.3f} ns a number, apart "
              f"{f['apart_ns']:.3f}: {f['ratio']:.2f}", flush=True)
    if not shutil.which("valgrind"):
        print("bytes of LayerNorm + Linear: valgrind is not there")
        return
    each = [64e-6 * (misses(fused, 3) - misses(fused, 1)) / 2 for fused in (True, False)]
    print(f"LayerNorm + Linear, 2048 x 1024 to 64: {each[0]:.1f} MB past a cache of 2 MB, apart {each[1]:.1f}: {each[0] / each[1]:.2f}")


def at_least_1(text):
    if not text.isdigit() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text}: a number from 1 to 1024 is wanted")
    return int(text)


def main():
    p = argparse.ArgumentParser(description="Ratios to the kernels of ggml and ONNX Runtime, measured in turns.")
    p.add_argument("-t", "--threads", type=at_least_1, default=2, help="of both sides (2)")
    p.add_argument("--rounds", type=at_least_1, default=3, help="turns of each work (3)")
    p.add_argument("--only", default="", help="works whose name holds this")
    p.add_argument("--fusions", action="store_true", help="instead: what two fusions of kernels are worth")
    p.add_argument("--json", action="store_true", help="one object instead of lines; ignored with --fusions")
    a = p.parse_args()
    if not os.access(KERNEL, os.X_OK):
        sys.exit(f"kernels.py: {KERNEL} is not there: make build/ph-kernel, or name it in PH_KERNEL")
    if a.fusions:
        fusions()
        return 0
    missing, rows = lacking(), Rows()
    for why in missing.values():
        print(f"kernels.py: {why}", file=sys.stderr)
    products(a, missing, rows)
    if not rows.at:
        print("nothing to compare: " + ("; ".join(missing.values()) or f"no work has '{a.only}' in its name"))
        return 77
    if a.json:
        print(json.dumps({"machine": machine(), "model": "kernels", "rows": rows.json(), "missing": list(missing.values())}))
    else:
        rows.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
