#!/usr/bin/env python3
"""Overlap: a list of pictures and answers, double against serial, by turns.

    bench/pipeline.py                                a model of SmolVLM-256M's shape, made in a temporary folder (numpy)
    bench/pipeline.py -m SmolVLM-256M-Instruct/ --images 20 --rounds 3 --with "--image-max-tokens 300"
    bench/pipeline.py --sizes 200                    instead: what pictures of so many sizes leave behind (RssAnon)

Three ways take turns: serial with one thread, double with one thread a side, serial with all threads (-t).  Answers are
as long as makes both sides take about the same time with one thread (or -n tokens).  Printed are medians of the list's
milliseconds and of the ratios of neighbours: double over serial with one thread is 0.5 where both sides are balanced and
nothing is in the way.  auto (the default of `pinhole run --list`) is asked once which way it takes.  Ids must be the same all ways.
PINHOLE names the program (build/pinhole).
"""
import argparse
import json
import os
import re
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile

from common import PINHOLE, ROOT, machine, run


def picture(path, width, height, seed):
    """A 24-bit bitmap of a gradient that differs with the seed."""
    row = (width * 3 + 3) // 4 * 4
    with open(path, "wb") as f:
        f.write(struct.pack("<2sIHHI", b"BM", 54 + row * height, 0, 0, 54))
        f.write(struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, row * height, 0, 0, 0, 0))
        for y in range(height):
            line = bytes((x * (seed + 1) + y * 3 + c * seed * 7) & 255 for x in range(width) for c in range(3))
            f.write(line + bytes(row - len(line)))


def make_list(folder, sizes, tokens):
    path = os.path.join(folder, "list.jsonl")
    with open(path, "w") as f:
        for i, (width, height) in enumerate(sizes):
            name = os.path.join(folder, f"{i}.bmp")
            if not os.path.exists(name):
                picture(name, width, height, i)
            f.write(json.dumps({"prompt": "What is in the picture?", "image": name, "tokens": tokens}) + "\n")
    return path


def ask(a, path, how, threads):
    """The list's milliseconds, its answers, and what was said of it."""
    command = [PINHOLE, "run", "--list", path, "--stats", "-q", "--ignore-eos", "--pipeline", how, "-t", str(threads)]
    done = run(command + (["-m", a.model] if a.model else []) + shlex.split(a.extra))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return float(re.search(r"in ([0-9.]+) ms", done.stderr).group(1)), answers, done.stderr.strip()


SEEING = ("decode", "prepare", "see", "drop", "bridge")


def balanced(a, folder, sizes):
    """Tokens with which an answer takes as long as its picture, with one thread."""
    _, answers, _ = ask(a, make_list(folder, sizes[:3], 8), "serial", 1)
    seen = statistics.median(sum(x["stages"][s] for s in SEEING) for x in answers)
    begun = statistics.median(x["stages"]["splice"] + x["stages"]["prefill"] for x in answers)
    said = statistics.median(sum(x["stages"][s] for s in ("sample", "step", "speak")) / len(x["ids"]) for x in answers)
    return max(2, round((seen - begun) / said)), seen, begun


def overlap(a, folder):
    width, height = (int(x) for x in a.size.split("x"))
    sizes = [(width, height)] * a.images
    tokens, seen, begun = (a.tokens, 0, 0) if a.tokens else balanced(a, folder, sizes)
    path = make_list(folder, sizes, tokens)
    ways = {"serial, 1 thread": ("serial", 1), "double, 1 thread a side": ("double", 2),
            f"serial, {a.threads} threads": ("serial", a.threads)}
    found = {way: [] for way in ways}
    first = None
    for _ in range(a.rounds):
        for way, (how, threads) in ways.items():
            ms, answers, _ = ask(a, path, how, threads)
            ids = [x["ids"] for x in answers]
            if first is not None and ids != first:
                sys.exit(f"bench/pipeline.py: {way}: other ids")
            first = ids
            found[way].append(ms)
    serial, double, every = found.values()
    result = {"images": a.images, "tokens": tokens, "picture_ms": seen, "prefill_ms": begun,
              "ms": {way: statistics.median(x) for way, x in found.items()},
              "double_of_serial": statistics.median(d / s for d, s in zip(double, serial)),
              "double_of_all_threads": statistics.median(d / s for d, s in zip(double, every)),
              "auto": re.search(r"^pipeline: (.*)$", ask(a, path, "auto", a.threads)[2], re.M).group(1)}
    if a.json:
        print(json.dumps(dict(result, machine=machine(), rounds=a.rounds, threads=a.threads)))
        return
    print(f"{a.images} pictures of {a.size}, answers of {tokens} tokens")
    if seen:
        print(f"with one thread a picture takes {seen:.0f} ms, its prompt {begun:.0f} ms")
    for way, ms in result["ms"].items():
        print(f"  {way:26}{ms:12.0f} ms")
    print(f"double / serial with one thread     {result['double_of_serial']:.3f}")
    print(f"double / serial with all threads    {result['double_of_all_threads']:.3f}")
    print(f"auto: {result['auto']}")


def leaves(a, folder):
    """The largest first; the list twice, so that the second time nothing is new."""
    sizes = [(640 - (i * 37) % a.sizes * 500 // a.sizes, 480 - (i * 61) % a.sizes * 400 // a.sizes) for i in range(a.sizes)]
    path = make_list(folder, sizes, 2)
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(2 * text)
    rows = {}
    for how in ("serial", "double"):
        _, answers, _ = ask(a, path, how, a.threads)
        held = [x["memory"]["measured_anon"] for x in answers]
        rows[how] = [statistics.median(held[a.sizes // 2:a.sizes]), statistics.median(held[-a.sizes // 2:])]
    if a.json:
        print(json.dumps({"sizes": a.sizes, "rss_anon": rows, "ratio": {how: y / x for how, (x, y) in rows.items()}}))
        return
    for how, (x, y) in rows.items():
        print(f"{how:8}{a.sizes} sizes: RssAnon {x / 1e6:.2f} MB, then the same again {y / 1e6:.2f} MB: {y / x:.4f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model")
    p.add_argument("--shape", default="smolvlm-256m", help="of bench/random_models.py, without -m; built-in: our own model")
    p.add_argument("--images", type=int, default=20)
    p.add_argument("--size", default="640x480")
    p.add_argument("-n", "--tokens", type=int, default=0, help="of an answer; 0: as balances both sides")
    p.add_argument("-t", "--threads", type=int, default=os.cpu_count(), help="of serial with all of them")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--sizes", type=int, default=0)
    p.add_argument("--with", dest="extra", default="", help="more options of pinhole run")
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not a.model and a.shape != "built-in":
            a.model = os.path.join(folder, "model")
            made = subprocess.run([sys.executable, os.path.join(ROOT, "bench", "random_models.py"), a.shape, "--out", a.model],
                                  stdout=subprocess.DEVNULL)
            if made.returncode:
                sys.exit(made.returncode)  # it said why
            a.model = os.path.join(a.model, a.shape)
        leaves(a, folder) if a.sizes else overlap(a, folder)


main()
