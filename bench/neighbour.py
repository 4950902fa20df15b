#!/usr/bin/env python3
"""Steps a second beside a neighbour that takes one processor, as a share of the figure alone; and a peer's the same.

    bench/neighbour.py -m model.gguf -t 2 [--rounds 5] [--json]

The neighbour is one process that never sleeps, held to the first processor.  Alone and beside it take turns.  With
LLAMA_BENCH set to llama.cpp's llama-bench its share is printed too (a .gguf then).  PINHOLE names the program.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

from common import PINHOLE, machine, run


def ours(a):
    rows = json.loads(run([PINHOLE, "bench", "--json", "-q", "--no-cold", "--no-limits", "--rounds", "1", "-t",
                              str(a.threads), "-p", "1", "-n", str(a.steps)] + (["-m", a.model] if a.model else [])).stdout)["rows"]
    return next(r["median"] for r in rows if r["stage"] == "step")


def theirs(a):
    return json.loads(run([os.environ["LLAMA_BENCH"], "-m", a.model, "-p", "0", "-n", str(a.steps), "-t", str(a.threads),
                              "-r", "1", "-o", "json"]).stdout)[0]["avg_ts"]


def beside(program, a):
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(busy.pid, {min(os.sched_getaffinity(0))})
        return program(a)
    finally:
        busy.kill()
        busy.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model")
    p.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    p.add_argument("-n", "--steps", type=int, default=64)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    programs = {"pinhole": ours}
    if os.environ.get("LLAMA_BENCH") and a.model:
        programs["llama-bench"] = theirs
    found = {name: {"alone": [], "beside": []} for name in programs}
    for _ in range(a.rounds):
        for name, program in programs.items():
            found[name]["alone"].append(program(a))
            found[name]["beside"].append(beside(program, a))
    rows = [{"program": name, "alone": statistics.median(f["alone"]), "beside": statistics.median(f["beside"]),
             "share": statistics.median(b / x for b, x in zip(f["beside"], f["alone"]))} for name, f in found.items()]
    if a.json:
        print(json.dumps({"machine": machine(), "model": a.model, "threads": a.threads, "rounds": a.rounds, "neighbour": rows}))
        return
    print(f"{'program':14}{'alone':>15}{'beside':>15}{'share':>8}")
    for r in rows:
        print(f"{r['program']:14}{r['alone']:9.1f} tok/s{r['beside']:9.1f} tok/s{r['share']:8.2f}")


main()
