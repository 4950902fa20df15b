#!/usr/bin/env python3
"""What each fusion is worth: a model with one row of src/engine/fusion.def off, in turns with all of them on.

    bench/fusions.py -m model.gguf -t 2 [--rounds 5] [--only norm,gate] [--json]
    bench/fusions.py -m qwen3 -t 2 --step-kinds            by kind of step: a head's norm and rotation, fused and apart

Prints, for each row and for all of them together, time / time of the fused program (medians of ratios of neighbours):
above 1, the fusion pays.  The built-in model without -m; PINHOLE names the program (build/pinhole).
"""
import argparse
import json
import os
import statistics

from common import PINHOLE, run

STAGES = ("see", "bridge", "prefill", "step")


def bench(a, unfused, *more):
    command = [PINHOLE, "bench", "--json", "-q", "--no-cold", "--no-limits", "--rounds", "1", "-t", str(a.threads), *more]
    command += ["-m", a.model] if a.model else []
    for option, n in (("-p", a.prompt), ("-n", a.steps)):
        command += [option, str(n)] if n else []  # else as many as the model's context holds
    return json.loads(run(command + (["--unfuse", unfused] if unfused else [])).stdout)["rows"]


def times(a, unfused):
    rows = bench(a, unfused)
    found = {}
    for r in rows:
        if r["stage"] in STAGES:
            found[r["stage"]] = 1 / r["median"] if r["unit"].endswith("/s") else r["median"]
    return found


def kinds(a, unfused, stage):
    """Milliseconds by kind of step."""
    rows = bench(a, unfused, "--steps")
    return {s["kind"]: s["ms"] for r in rows if r["stage"] == stage for s in r["steps"]}


def by_steps(a):
    """What norm and rotation of heads cost in one step, beside what they cost in steps of their own.

    Fused, they are part of "append", which else only stores keys and values: what that takes alone is taken off.
    """
    ratios, last = [], None
    for _ in range(a.rounds):
        both, no_norm, apart = kinds(a, None, "prefill"), kinds(a, "headnorm", "prefill"), kinds(a, "rope,headnorm", "prefill")
        fused = both["append"] - apart["append"]
        alone = apart.get("norm", 0) - both.get("norm", 0) + apart.get("rotate", 0)
        ratios.append(fused / alone)
        last = both, no_norm, apart
    if a.json:
        print(json.dumps({"model": a.model, "threads": a.threads, "rounds": a.rounds, "norm_and_rope": ratios}))
        return
    for name, of in zip(("fused", "norm apart", "both apart"), last):
        print(f"{name:12}" + "  ".join(f"{k} {of[k]:.2f} ms" for k in ("norm", "rotate", "append") if k in of))
    print(f"norm + rotation of heads, fused / apart: {statistics.median(ratios):.2f}, {a.rounds} rounds from "
          f"{min(ratios):.2f} to {max(ratios):.2f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model")
    p.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    p.add_argument("-p", "--prompt", type=int, help="tokens of prefill; default 512, or what the model's context holds")
    p.add_argument("-n", "--steps", type=int, help="default 64, or what fits")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", help="some of the names, separated by commas")
    p.add_argument("--json", action="store_true")
    p.add_argument("--step-kinds", dest="by_steps", action="store_true", help="norm and rotation of heads by the times of their steps")
    a = p.parse_args()
    if a.by_steps:
        by_steps(a)
        return
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
