#!/usr/bin/env python3
"""Write seeds for tests/fuzz/fuzz_graph.c that chance would not find: rows, a KV cache, rope of each kind.

Bytes as fuzz_graph.c reads them: leaves (kind, type, shape), then nodes (inputs, attributes, operator, ...).
Run in the repository's root.
"""
import re

ops = re.findall(r"^PH_OP\((\w+)\)", open("src/graph/op.def").read(), re.M)
source = open("tests/fuzz/fuzz_graph.c").read()
attrs = re.findall(r'"(\w+)"', source.split("attr_names[] = {", 1)[1].split("};", 1)[0])
texts = re.findall(r'"(\w+)"', source.split("texts[] = {", 1)[1].split("};", 1)[0])

ROWS, STATE, EMPTY = [5], [1, 1, 1, 205], [0, 0]
def table(cols): return [2, 0, 2, 190, 2 * cols]  # f32 [R, cols]
def integer(name, v): return [attrs.index(name), 0, v]
def real(name, v): return [attrs.index(name), 1, v]  # quarters
def text(name, v): return [attrs.index(name), 2, texts.index(v)]
def ints(name, *v): return [attrs.index(name), 3, len(v), *v]
def node(op, inputs, *a): return [len(inputs), len(a), ops.index(op), *inputs, *sum(a, [])]


def seed(name, leaves, *nodes):
    open(f"tests/golden/graph/{name}.bin", "wb").write(bytes([len(leaves) - 1] + sum(leaves, []) + sum(nodes, [])))


heads = [integer("num_heads", 1), integer("kv_num_heads", 1)]
seed("cached", [table(2), ROWS, STATE, EMPTY], node("CachedAttention", [0, 0, 0, 1, 2], integer("layer", 0), *heads))
seed("cached_layer1", [table(2), ROWS, STATE, EMPTY], node("CachedAttention", [0, 0, 0, 1, 2], integer("layer", 1), *[[h[0], 0, 2] for h in heads]))
seed("rope_none", [ROWS, table(4), EMPTY], node("RopeAngles", [0], integer("dim", 4)), node("RotaryEmbedding", [1, 3, 4], integer("num_heads", 1)))
seed("rope_mrope", [ROWS, table(6), EMPTY], node("RopeAngles", [0], integer("dim", 6), ints("mrope", 1, 1, 1)),
     node("RotaryEmbedding", [1, 3, 4], integer("num_heads", 1), integer("interleaved", 1)))
for kind in ("linear", "llama3", "yarn"):
    seed("rope_" + kind, [ROWS], node("RopeAngles", [0], integer("dim", 8), text("scaling", kind), integer("original_context", 9)))
