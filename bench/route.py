#!/usr/bin/env python3
"""Is the placement by measured times ever slower than the best single engine?

    bench/route.py [-m MODEL]... [-t 2] [--rounds 9] [--allow 1.05] [--json]

For each model: `pinhole profile --save-costs` once, then every engine that is here by itself and `--engine auto` in
turns, beginning with another one each round (`pinhole bench`, stages see, bridge, prefill and step).  The time of a
question is see + bridge + prefill + 32 steps.  Prints medians of rounds and the ratio auto / best single engine, which
is the median of the rounds' own ratios; the status is 1 when one is above --allow.  Where the placement is that engine's
own, both are the same program, and what they differ by is the machine's noise: it is printed as such, and not counted.  To be run
where nothing else runs: figures of a busy machine say nothing.  The built-in model without -m; PINHOLE names the program (build/pinhole).
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

from common import PINHOLE, machine, run

STEPS = 32


def question(a, model, engine, costs):
    """Milliseconds of a question's parts, of one round."""
    command = [PINHOLE, "bench", "--json", "-q", "--no-cold", "--no-limits", "--rounds", "1", "-t", str(a.threads), "-p", str(a.prompt),
               "-n", str(STEPS), "--depth", str(a.prompt), "--engine", engine] + (["-m", model] if model else [])
    rows = json.loads(run(command + (["--costs", costs] if engine == "auto" else [])).stdout)["rows"]
    total = 0
    for r in rows:
        if r["stage"] in ("see", "bridge"):
            total += r["median"]
        elif r["stage"] == "prefill":
            total += 1e3 * a.prompt / r["median"]
        elif r["stage"] == "step":
            total += 1e3 * STEPS / r["median"]
    return total


def singles(profile):
    """A placement for each engine that was measured: what it cannot take stays with native."""
    able = {c["engine"]: set() for c in profile["costs"]}
    for c in profile["costs"]:
        able[c["engine"]].add(c["stage"])
    found = {}
    for engine, stages in able.items():
        parts = {"vision": "see", "bridge": "bridge", "language": "prefill"}
        found[engine] = ",".join(f"{p}={engine if s in stages else 'native'}" for p, s in parts.items())
    return found


def one(a, model):
    with tempfile.TemporaryDirectory() as folder:
        costs = os.path.join(folder, "costs.json")
        profile = json.loads(run([PINHOLE, "profile", "--json", "-q", "-t", str(a.threads), "--save-costs", "--costs", costs]
                                 + ([model] if model else [])).stdout)
        ways = singles(profile)
        ways["auto"] = "auto"
        times = {w: [] for w in ways}
        order = list(ways)
        for r in range(a.rounds):
            for w in order[r % len(order):] + order[:r % len(order)]:
                times[w].append(question(a, model, ways[w], costs))
        medians = {w: statistics.median(t) for w, t in times.items()}
        best = min((w for w in ways if w != "auto"), key=medians.get)
        ratios = [x / y for x, y in zip(times["auto"], times[best])]
        placed = {p["part"]: p["engine"] for p in profile["route"]["parts"]}
        alone = dict(w.split("=") for w in ways[best].split(","))
        return {"model": model or "built-in", "ms": medians, "best": best, "ratio": statistics.median(ratios),
                "ratios": [min(ratios), max(ratios)], "placed": placed,
                "same": all(alone[part] == engine for part, engine in placed.items())}


def verdict(a, found, worst):
    """The last line."""
    if worst is None:
        return "nothing is counted: each placement is the best single engine's own"
    counted = sum(not f["same"] for f in found)
    return (f"{'holds' if worst <= a.allow else 'does not hold'}: at most {a.allow} times the best single engine, "
            f"{counted} of {len(found)} model{'s' * (len(found) > 1)} counted")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("-m", "--model", action="append")
    p.add_argument("-t", "--threads", type=int, default=2)
    p.add_argument("-p", "--prompt", type=int, default=96)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--allow", type=float, default=1.05)
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    found = [one(a, m) for m in a.model or [None]]
    worst = max((f["ratio"] for f in found if not f["same"]), default=None)
    if a.json:
        print(json.dumps({"machine": machine(), "threads": a.threads, "rounds": a.rounds, "models": found, "worst": worst}))
    else:
        for f in found:
            times = ", ".join(f"{w} {t:.2f} ms" for w, t in f["ms"].items())
            placed = ", ".join(f"{part} on {e}" for part, e in f["placed"].items())
            print(f"{f['model']}: {times}; {placed}\n  auto / {f['best']}: {f['ratio']:.3f}, rounds from "
                  f"{f['ratios'][0]:.3f} to {f['ratios'][1]:.3f}{'; the same placement: noise, not counted' if f['same'] else ''}")
        print(verdict(a, found, worst))
    sys.exit(worst is not None and worst > a.allow)


if __name__ == "__main__":
    main()
