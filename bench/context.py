#!/usr/bin/env python3
"""How a step's time grows with the tokens behind it: the slope, beside what reading keys and values must take.

    bench/context.py -m model.gguf -t 2 [--kv f32,q8_0] [--depths 1024,2048,4096,8192,16000] [--rounds 3] [--json]

All depths take turns within a round.  `slope` is the least-squares line through the medians, in ns a token of context;
`reading` is the bytes of keys and values that one more token adds over the read bandwidth of the same run.  Their ratio
is 1 where attention costs nothing but reading; `bend` is the largest distance of a median from the line, as a share of
it.  PINHOLE names the program (build/pinhole).
"""
import argparse
import json
import os
import statistics
import sys

from common import PINHOLE, machine, run


def bench(a, kv, depth, limits):
    command = [PINHOLE, "bench", "--json", "-q", "--no-cold", "--rounds", "1", "-t", str(a.threads), "-p", "1", "-n",
               str(a.steps), "--depth", str(depth), "--kv", kv] + (["-m", a.model] if a.model else [])
    return json.loads(run(command + ([] if limits else ["--no-limits"])).stdout)


def step(printed):
    return next(r for r in printed["rows"] if r["stage"] == "step")


def line(x, y):
    mx, my = statistics.mean(x), statistics.mean(y)
    slope = sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)
    return slope, my - slope * mx


def measure(a, kv, depths):
    first = [bench(a, kv, d, True) for d in (depths[0], depths[-1])]
    gbs = max(r["machine"]["read_gbs"] for r in first)
    times = {d: [] for d in depths}
    for _ in range(a.rounds):
        for d in depths:
            times[d].append(1e9 / step(bench(a, kv, d, False))["median"])
    ns = [statistics.median(times[d]) for d in depths]
    slope, at_0 = line(depths, ns)
    grown = step(first[1])["bytes_per_token"] - step(first[0])["bytes_per_token"]
    reading = grown / (depths[-1] - depths[0]) / gbs
    bend = max(abs(t - at_0 - slope * d) / (at_0 + slope * d) for d, t in zip(depths, ns))
    return {"kv": kv, "ms": {d: t / 1e6 for d, t in zip(depths, ns)}, "slope_ns": slope, "reading_ns": reading,
            "ratio": slope / reading, "bend": bend, "read_gbs": gbs}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model")
    p.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    p.add_argument("-n", "--steps", type=int, default=16)
    p.add_argument("--kv", default="f32")
    p.add_argument("--depths", default="1024,2048,4096,8192,16000")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    depths = sorted({int(d) for d in a.depths.split(",")})
    if len(depths) < 2:
        sys.exit("context.py: a line wants two depths")
    rows = [measure(a, kv, depths) for kv in a.kv.split(",")]
    if a.json:
        print(json.dumps({"machine": machine(), "model": a.model, "threads": a.threads, "rounds": a.rounds, "context": rows}))
        return
    print("kv      " + "".join(f"{d:>10}" for d in depths) + "   slope ns  reading ns  ratio   bend")
    for r in rows:
        print(f"{r['kv']:8}" + "".join(f"{r['ms'][d]:8.2f}ms" for d in depths) +
              f"{r['slope_ns']:11.1f}{r['reading_ns']:12.1f}{r['ratio']:7.2f}{100 * r['bend']:6.1f}%")


main()
