#!/usr/bin/env python3
"""Write ops/, ops.json and ops_io.safetensors: an adapter for the rows of one token, as an operator of domain com.acme
(examples/plugin), as pinhole's own, and spelled out in ONNX's.  The answers are numpy's, reckoned in float64.

    pip install onnx==1.19.1 numpy==2.4.6
    python make_plugin.py
"""
import json, os, shutil, struct

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {"float32": "F32", "int64": "I64", "int32": "I32"}
K, RANK, IMG, SCALE = 24, 4, 32000, 0.75
rng = np.random.default_rng(17)
header, body, cases = {}, b"", []
shutil.rmtree(os.path.join(HERE, "ops"), ignore_errors=True)
os.makedirs(os.path.join(HERE, "ops"))

W = rng.standard_normal((K, K)).astype(np.float32) / 5
A = rng.standard_normal((K, RANK)).astype(np.float32) / 5
B = rng.standard_normal((RANK, K)).astype(np.float32)


def put(case, name, a):
    global body
    data = np.ascontiguousarray(a).tobytes()
    header[f"{case}/{name}"] = {"dtype": NAMES[str(a.dtype)], "shape": list(a.shape), "data_offsets": [len(body), len(body) + len(data)]}
    body += data
    return {"name": name, "tensor": f"{case}/{name}", "shape": list(a.shape)}


def answer(x, ids, token=IMG, scale=SCALE):
    rows = x.astype(np.float64) @ W.astype(np.float64)
    more = rows + scale * (rows @ A.astype(np.float64)) @ B.astype(np.float64)
    return np.maximum(np.where((ids == token)[..., None], more, rows), 0).astype(np.float32)


def constant(name, a):
    return numpy_helper.from_array(a, name)


def add(case, nodes, constants, x, ids, y, opsets):
    axes = ["batch", "time"][2 - ids.ndim:]
    graph = h.make_graph([h.make_node("MatMul", ["x", "W"], ["h"], "project"), *nodes, h.make_node("Relu", ["z"], ["y"], "clip")], case,
                         [h.make_tensor_value_info("x", T.FLOAT, [*axes, K]),
                          h.make_tensor_value_info("ids", h.np_dtype_to_tensor_dtype(ids.dtype), axes)],
                         [h.make_tensor_value_info("y", T.FLOAT, [*axes, K])], [constant("W", W), *constants])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17), *[h.make_opsetid(*o) for o in opsets]], ir_version=8)
    onnx.save(model, os.path.join(HERE, "ops", case + ".onnx"))
    cases.append({"name": case, "model": f"ops/{case}.onnx", "inputs": [put(case, "x", x), put(case, "ids", ids)],
                  "outputs": [put(case, "y", y)], "tolerance": "1e-5 relative to max abs"})


def inputs(shape, kind):
    ids = rng.integers(1, 1000, shape).astype(kind)
    ids.reshape(-1)[::3] = IMG
    return rng.standard_normal((*shape, K)).astype(np.float32), ids


user = [h.make_node("AdapterDispatch", ["h", "ids", "A", "B"], ["z"], "adapter", domain="com.acme", scale=SCALE, token=IMG)]
pair = [constant("A", A), constant("B", B)]
x, ids = inputs((11,), np.int64)
add("user", user, pair, x, ids, answer(x, ids), [("com.acme", 1)])
add("ours", [h.make_node("AdapterDispatch", ["h", "h", "ids", "A", "B"], ["z"], "adapter", domain="pinhole", first=[IMG], scale=[SCALE])],
    [constant("A", A.T.copy()), constant("B", B.T.copy())], x, ids, answer(x, ids), [("pinhole", 1)])
spelled = [h.make_node("MatMul", ["h", "A"], ["low"]), h.make_node("MatMul", ["low", "B"], ["up"]), h.make_node("Mul", ["up", "scale"], ["scaled"]),
           h.make_node("Add", ["h", "scaled"], ["more"]), h.make_node("Equal", ["ids", "token"], ["is"]),
           h.make_node("Unsqueeze", ["is", "axis"], ["column"]), h.make_node("Where", ["column", "more", "h"], ["z"])]
add("spelled", spelled, pair + [constant("scale", np.float32(SCALE)), constant("token", np.int64(IMG)), constant("axis", np.array([1]))],
    x, ids, answer(x, ids), [])
x, ids = inputs((3, 5), np.int32)
add("batch", user, pair, x, ids, answer(x, ids), [("com.acme", 2)])
x, ids = inputs((6,), np.int64)
plain = [h.make_node("AdapterDispatch", ["h", "ids", "A", "B"], ["z"], "adapter", domain="com.acme")]
add("defaults", plain, pair, x, ids, answer(x, ids, scale=1.0), [("com.acme", 1)])

# Two versions of a domain, one of them a function's, and an operator whose name begins another's; of a plug-in of tests/plugin.
inner = h.make_function("f", "F", ["a"], ["b"], [h.make_node("AdapterDispatch", ["a"], ["b"], "new", domain="com.acme")],
                        [h.make_opsetid("", 17), h.make_opsetid("com.acme", 3)])
nodes = [h.make_node("F", ["x"], ["t"], domain="f"), h.make_node("AdapterDispatchMore", ["t"], ["u"], "more", domain="com.acme"),
         h.make_node("AdapterDispatch", ["u"], ["y"], "old", domain="com.acme")]
graph = h.make_graph(nodes, "versions", [h.make_tensor_value_info("x", T.FLOAT, ["n", 4])], [h.make_tensor_value_info("y", T.FLOAT, ["n", 4])])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("f", 1), h.make_opsetid("com.acme", 1)], ir_version=8,
                       functions=[inner]), os.path.join(HERE, "versions.onnx"))

text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(os.path.join(HERE, "ops_io.safetensors"), "wb").write(struct.pack("<Q", len(text)) + text + body)
json.dump({"cases": cases}, open(os.path.join(HERE, "ops.json"), "w"), indent=1)
print(len(cases))
