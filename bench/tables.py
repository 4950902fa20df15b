#!/usr/bin/env python3
"""What `pinhole bench --json` and `peers.py --json` printed, as tables for docs/performance.md, or as CSV.

    bench/tables.py run.json peers.json            Markdown: the machine, then a row a stage; then the ratios
    bench/tables.py --csv run.json > tests/results/speed.MACHINE.csv

A file holds one object, or one a line.
"""
import csv
import json
import os
import statistics
import sys


def objects(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def is_run(o):
    return "machine" in o and "rows" in o


def is_peers(o):
    return "missing" in o and "rows" in o


def name_of(o):
    return os.path.basename(o["model"].rstrip("/"))


def number(x, form="{:.1f}"):
    return "" if x is None else form.format(x)


def machine_lines(o):
    m = o["machine"]
    yield f"{m['cpu']}, kernels {m['isa']}"
    yield ""
    yield "| threads | read GB/s | f32 GFLOP/s | int8 Gop/s | our f32 kernel | our int8 kernel |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for k in o["limits"]:
        yield "| " + " | ".join([str(k["threads"])] + [number(k[n]) for n in (
            "read_gbs", "f32_gflops", "int8_gops", "f32_kernel_gflops", "int8_kernel_gops")]) + " |"


def run_lines(o):
    yield f"`{name_of(o)}`, {o['rounds']} rounds"
    yield ""
    yield "| stage | threads | n | median | spread | share of the limit | MB a token |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for r in o["rows"]:
        share = "" if r["limit_share"] is None else f"{100 * r['limit_share']:.0f} % of {r['limit']}"
        size = number(r["bytes_per_token"] / 1e6) if "bytes_per_token" in r else ""
        yield (f"| {r['stage']} | {r['threads']} | {r['n']} | {r['median']:.2f} {r['unit']} | "
               f"{100 * r['spread']:.1f} % | {share} | {size} |")


def ratio_of(r):
    ours, theirs = statistics.median(r["ours"]), statistics.median(r["theirs"])
    return ours, theirs, theirs / ours if r["unit"] == "ms" else ours / theirs


def peer_lines(o):
    yield "| work | ours | peer | ratio | which |"
    yield "| --- | --- | --- | --- | --- |"
    for r in o["rows"]:
        ours, theirs, ratio = ratio_of(r)
        yield f"| {r['work']} | {ours:.2f} {r['unit']} | {theirs:.2f} {r['unit']} | {ratio:.2f} | {r['peer']} |"


def markdown(all_of):
    seen = set()
    for o in all_of:
        if is_run(o):
            machine = "\n".join(machine_lines(o))
            if machine not in seen and o["machine"]["read_gbs"] is not None:
                print(machine + "\n")
            seen.add(machine)
            print("\n".join(run_lines(o)) + "\n")
        else:
            print("\n".join(peer_lines(o)) + "\n")


def write_csv(all_of):
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow("cpu isa model stage threads n median unit spread limit_share limit peer ratio".split())
    for o in all_of:
        for r in o["rows"]:
            if is_run(o):
                m = o["machine"]
                share = r["limit_share"]
                out.writerow([m["cpu"], m["isa"], name_of(o), r["stage"], r["threads"], r["n"],
                              f"{r['median']:.4g}", r["unit"], f"{r['spread']:.3f}",
                              number(share, "{:.3f}"), r.get("limit", ""), "", ""])
            else:
                ours, _, ratio = ratio_of(r)
                out.writerow(["", "", "", r["work"], "", "", f"{ours:.4g}", r["unit"], "", "", "", r["peer"],
                              f"{ratio:.3f}"])


def main():
    files = [a for a in sys.argv[1:] if a != "--csv"]
    if not files or any(a.startswith("-") for a in files):
        print(__doc__)
        return 2
    all_of = [o for f in files for o in objects(f)]
    for o in all_of:
        if not (isinstance(o, dict) and (is_run(o) or is_peers(o))):
            sys.exit("tables.py: give what `pinhole bench --json` or `peers.py --json` printed")
    (write_csv if "--csv" in sys.argv[1:] else markdown)(all_of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
