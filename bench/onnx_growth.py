#!/usr/bin/env python3
"""How does the time over an ONNX file grow with what is in it?  Each kind of file at N and at 4 N: a ratio of 4 is linear, 16 is quadratic.

    python bench/onnx_growth.py build/pinhole [N]

A ratio means something on a quiet machine and where the smaller run takes a tenth of a second or more.
"""
import importlib.util, os, struct, subprocess, sys, tempfile, time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
spec = importlib.util.spec_from_file_location("hostile", os.path.join(ROOT, "tests/golden/onnx/make_hostile.py"))
o = importlib.util.module_from_spec(spec)
spec.loader.exec_module(o)


def alpha(x):
    return o.data(1, "alpha") + o.number(20, 1) + bytes([2 << 3 | 5]) + struct.pack("<f", x)


def inputs(n):
    return ([o.node("Identity", ["i0"], ["y"])], [o.floats(f"w{i}", [0]) for i in range(n)],
            [o.value(f"i{i}", 1, [1]) for i in range(n)])


def products(n):
    return ([o.node("MatMul", ["x", f"w{i}"], [f"y{i}" if i else "y"]) for i in range(n)],
            [o.floats(f"w{i}", [1], [1, 1]) for i in range(n)], [o.value("x", 1, [1, 1])])


def attributes(n):
    return ([o.node("LeakyRelu", ["x"], [f"v{i}"], [alpha(i * 1e-4)]) for i in range(n)] + [o.node("Sum", ["v0", "v1"], ["y"])], [],
            [o.value("x", 1, [1])])


def copies(n):
    return ([o.node("Reshape", [f"v{i - 1}" if i else "x", "w"], [f"v{i}" if i + 1 < n else "y"]) for i in range(n)],
            [o.tensor("w", 7, [1], struct.pack("<q", 1))], [o.value("x", 1, [1])])


def folds(n):
    return ([o.node("Sin", [f"v{i - 1}" if i else "c"], [f"v{i}"]) for i in range(n)] + [o.node("Add", ["x", f"v{n - 1}"], ["y"])],
            [o.floats("c", [1])], [o.value("x", 1, [1])])


def seconds(pinhole, make, n, folder):
    o.HERE = folder
    nodes, tensors, ins = make(n)
    o.save("growth", nodes, tensors, ins, [o.value("y", 1, ["y"])])
    best = 1e9
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([pinhole, "check", os.path.join(folder, "growth.onnx")], stdout=subprocess.DEVNULL, check=False)
        subprocess.run([pinhole, "inspect", os.path.join(folder, "growth.onnx")], stdout=subprocess.DEVNULL, check=False)
        best = min(best, time.perf_counter() - start)
    return best


pinhole, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10000
with tempfile.TemporaryDirectory() as folder:
    for make in (inputs, products, attributes, copies, folds):
        small, large = seconds(pinhole, make, n, folder), seconds(pinhole, make, 4 * n, folder)
        print(f"{make.__name__:12} {n:7} {small:7.3f} s  {4 * n:7} {large:7.3f} s  ratio {large / small:5.1f}")
