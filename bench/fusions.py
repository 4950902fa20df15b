#!/usr/bin/env python3
"""What each fusion is worth: a model with one row of src/engine/fusion.def off, in turns with all of them on.

    bench/fusions.py -m model.gguf -t 2 [--rounds 5] [--only norm,gate] [--json]

Prints, for each row and for all of them together, time / time of the fused program (medians of ratios of neighbours):
above 1, the fusion pays.  The built-in model without -m; PINHOLE names the program (build/pinhole).
"""
import argparse
import json
import os
import statistics

from common import PINHOLE, run

STAGES = ("see", "bridge", "prefill", "step")


def times(a, unfused):
    command = [PINHOLE, "bench", "--json", "-q", "--no-cold", "--no-limits", "--rounds", "1", "-t", str(a.threads)]
    command += ["-p", str(a.prompt), "-n", str(a.steps)] + (["-m", a.model] if a.model else [])
    rows = json.loads(run(command + (["--unfuse", unfused] if unfused else [])).stdout)["rows"]
    found = {}
    for r in rows:
        if r["stage"] in STAGES:
            found[r["stage"]] = 1 / r["median"] if r["unit"].endswith("/s") else r["median"]
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model")
    p.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    p.add_argument("-p", "--prompt", type=int, default=512)
    p.add_argument("-n", "--steps", type=int, default=64)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", help="some of the names, separated by commas")
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    known = [f["name"] for f in json.loads(run([PINHOLE, "inspect", "--known", "--json"]).stdout)["fusions"]]
    names = a.only.split(",") if a.only else known + ["all"]
    ratios = {n: {} for n in names}
    times(a, None)  # the file comes into memory
    for _ in range(a.rounds):
        for name in names:
            fused, unfused = times(a, None), times(a, name)
            for stage in fused:
                ratios[name].setdefault(stage, []).append(unfused[stage] / fused[stage])
    medians = {n: {s: statistics.median(r) for s, r in by.items()} for n, by in ratios.items()}
    if a.json:
        print(json.dumps({"model": a.model, "threads": a.threads, "rounds": a.rounds, "ratios": medians}))
        return
    stages = [s for s in STAGES if any(s in by for by in medians.values())]
    print(f"{'without':10}" + "".join(f"{s:>9}" for s in stages))
    for name, by in medians.items():
        print(f"{name:10}" + "".join(f"{by[s]:9.3f}" if s in by else f"{'':9}" for s in stages))


if __name__ == "__main__":
    main()
