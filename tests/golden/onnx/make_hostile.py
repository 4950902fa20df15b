#!/usr/bin/env python3
"""Write hostile/: small ONNX files that are valid in form and lie in their numbers and names, byte by byte with no library.

Seeds of tests/fuzz/fuzz_onnx.c and files of tests/flow/check.sh.

    python make_hostile.py
"""
import os, struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hostile")


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def data(field, b):
    b = b.encode() if isinstance(b, str) else b
    return varint(field << 3 | 2) + varint(len(b)) + b


def value(name, kind, dims):
    shape = b"".join(data(1, number(1, d) if isinstance(d, int) else data(2, d)) for d in dims)
    return data(1, name) + data(2, data(1, number(1, kind) + data(2, shape)))


def whole(name, n):
    return data(1, name) + number(20, 2) + number(3, n)


def wholes(name, list_):
    return data(1, name) + number(20, 7) + b"".join(number(8, n) for n in list_)


def node(op, ins, outs, attrs=(), domain=""):
    return (b"".join(data(1, i) for i in ins) + b"".join(data(2, o) for o in outs) + data(4, op)
            + b"".join(data(5, a) for a in attrs) + (data(7, domain) if domain else b""))


def tensor(name, kind, dims, raw):
    return b"".join(number(1, d) for d in dims) + number(2, kind) + data(8, name) + data(9, raw)


def floats(name, list_, dims=None):
    return tensor(name, 1, dims or [len(list_)], struct.pack(f"<{len(list_)}f", *list_))


def save(name, nodes, tensors, ins, outs, domains=()):
    graph = b"".join(data(1, n) for n in nodes) + data(2, "g") + b"".join(data(5, t) for t in tensors)
    graph += b"".join(data(11, i) for i in ins) + b"".join(data(12, o) for o in outs)
    model = number(1, 8) + data(7, graph) + data(8, data(1, "") + number(2, 17))
    model += b"".join(data(8, data(1, d) + number(2, 1)) for d in domains)
    with open(os.path.join(HERE, name + ".onnx"), "wb") as f:
        f.write(model)


def main():
    os.makedirs(HERE, exist_ok=True)
    shape = node("Shape", ["x"], ["s"])
    # -2^63 over -1, as floats and with a symbol beside it
    save("quotient", [shape, node("Cast", ["s"], ["f"], [whole("to", 1)]), node("Mul", ["f", "a"], ["b"]), node("Mul", ["b", "c"], ["d"]),
                      node("Div", ["d", "e"], ["g"]), node("Cast", ["g"], ["y"], [whole("to", 7)])],
         [floats("a", [2.0**29, 1]), floats("c", [-2.0**29, 1]), floats("e", [-1.0, 1])], [value("x", 1, [32, "N"])], [value("y", 7, [2])])
    # (N + k) - (N - k), which has no 63 bits
    save("sums", [shape, node("Add", ["s", "a"], ["p"]), node("Sub", ["s", "a"], ["q"]), node("Sub", ["p", "q"], ["y"])],
         [tensor("a", 7, [1], struct.pack("<q", 2**62 + 5))], [value("x", 1, ["N"])], [value("y", 7, [1])])
    save("widths", [node("Attention", ["x", "w", "b"], ["y"], [whole("num_heads", 1), wholes("qkv_hidden_sizes", [2**62] * 3)], "com.microsoft")],
         [floats("w", [1] * 6, [2, 3]), floats("b", [0] * 3)], [value("x", 1, [1, 2, 2])], [value("y", 1, [1, 2, 1])], ["com.microsoft"])
    # one operator's name ends as the other's
    save("suffix", [node("XFoo", ["x"], ["a"], domain="d"), node("Foo", ["x"], ["y"], domain="d")], [], [value("x", 1, ["N"])],
         [value("y", 1, ["N"])], ["d"])
    save("domain", [node("Relu", ["x"], ["y"])], [], [value("x", 1, ["N"])], [value("y", 1, ["N"])], [b"bad\xff\xfe", "good"])
    # 100 notes and nothing wrong; and as many with one operator that is not there, told last
    past = [value(f"past_key_values.{i // 2}.decoder.{'kv'[i % 2]}", 1, [1, 16, "P", 64]) for i in range(100)]
    one = ["past_key_values.0.decoder.k"]
    save("notes", [node("Relu", one, ["y"])], [], past, [value("y", 1, [1, 16, "P", 64])])
    save("notes_and_one", [node("Foo", one, ["y"], domain="d")], [], past, [value("y", 1, [1, 16, "P", 64])], ["d"])
    # two axes whose names agree in their first 180 bytes
    a, b = "number_of_tokens_of_the_language_model_" * 5 + "before", "number_of_tokens_of_the_language_model_" * 5 + "behind"
    save("axes", [node("Relu", ["x"], ["y"]), node("Relu", ["z"], ["u"])], [], [value("x", 1, [a]), value("z", 1, [b])],
         [value("y", 1, [a]), value("u", 1, [b])])
    # an output that is said to be what another model takes, and is made otherwise
    save("said", [node("Relu", ["x"], ["y"])], [], [value("x", 1, [2, 64])], [value("y", 1, [9, 64])])
    save("taken", [node("Relu", ["y"], ["z"])], [], [value("y", 1, [9, 64])], [value("z", 1, [9, 64])])


if __name__ == "__main__":
    main()
