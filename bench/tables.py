#!/usr/bin/env python3
"""What `pinhole bench`, peers.py, context.py and neighbour.py printed with --json, as tables for docs/performance.md, or as CSV.

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
    return "machine" in o and "rows" in o and "missing" not in o


def is_peers(o):
    return "missing" in o and "rows" in o


def is_context(o):
    return "context" in o


def is_neighbour(o):
    return "neighbour" in o


def name_of(o):
    return os.path.basename((o.get("model") or "the built-in model").rstrip("/"))


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
    return ours, theirs, ours / theirs if r["unit"] == "tok/s" else theirs / ours


def peer_lines(o):
    yield "| work | ours | peer | ratio | which |"
    yield "| --- | --- | --- | --- | --- |"
    for r in o["rows"]:
        ours, theirs, ratio = ratio_of(r)
        yield f"| {r['work']} | {ours:.2f} {r['unit']} | {theirs:.2f} {r['unit']} | {ratio:.2f} | {r['peer']} |"


def context_lines(o):
    depths = list(o["context"][0]["ms"])
    yield f"`{name_of(o)}`, {o['threads']} threads"
    yield ""
    yield "| keys and values | " + " | ".join(depths) + " | slope, ns a token | reading them | ratio |"
    yield "| --- |" + " --- |" * (len(depths) + 3)
    for r in o["context"]:
        yield (f"| {r['kv']} | " + " | ".join(f"{r['ms'][d]:.2f} ms" for d in depths) +
               f" | {r['slope_ns']:.0f} | {r['reading_ns']:.0f} | {r['ratio']:.2f} |")


def neighbour_lines(o):
    yield f"`{name_of(o)}`, {o['threads']} threads"
    yield ""
    yield "| program | alone | beside | share |"
    yield "| --- | --- | --- | --- |"
    for r in o["neighbour"]:
        yield f"| {r['program']} | {r['alone']:.1f} tok/s | {r['beside']:.1f} tok/s | {r['share']:.2f} |"


def lines_of(o):
    for test, lines in ((is_context, context_lines), (is_neighbour, neighbour_lines), (is_run, run_lines)):
        if test(o):
            return lines(o)
    return peer_lines(o)


def markdown(all_of):
    seen = set()
    for o in all_of:
        if is_run(o):
            machine = "\n".join(machine_lines(o))
            if machine not in seen and o["machine"]["read_gbs"] is not None:
                print(machine + "\n")
            seen.add(machine)
        print("\n".join(lines_of(o)) + "\n")


def write_csv(all_of):
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow("cpu isa model stage threads n median unit spread limit_share limit peer ratio".split())
    for o in all_of:
        m, model, threads = o.get("machine") or {"cpu": "", "isa": ""}, name_of(o), o.get("threads", "")
        for r in o.get("neighbour", []):
            out.writerow([m["cpu"], m["isa"], model, "step beside a neighbour", threads, "", f"{r['beside']:.4g}", "tok/s",
                          "", "", "", r["program"] + " alone", f"{r['share']:.3f}"])
        for r in o.get("context", []):
            out.writerow([m["cpu"], m["isa"], model, f"slope of a step, keys and values in {r['kv']}", threads, "",
                          f"{r['slope_ns']:.4g}", "ns/token", f"{r['bend']:.3f}", "", "", "reading them",
                          f"{r['ratio']:.3f}"])
        for r in o.get("rows", []):
            if is_run(o):
                share = r["limit_share"]
                out.writerow([m["cpu"], m["isa"], name_of(o), r["stage"], r["threads"], r["n"],
                              f"{r['median']:.4g}", r["unit"], f"{r['spread']:.3f}",
                              number(share, "{:.3f}"), r.get("limit", ""), "", ""])
            else:
                ours, _, ratio = ratio_of(r)
                out.writerow([m["cpu"], m["isa"], model, r["work"], "", "", f"{ours:.4g}", r["unit"], "", "", "", r["peer"],
                              f"{ratio:.3f}"])


def main():
    files = [a for a in sys.argv[1:] if a != "--csv"]
    if not files or any(a.startswith("-") for a in files):
        print(__doc__)
        return 2
    all_of = [o for f in files for o in objects(f)]
    for o in all_of:
        if not (isinstance(o, dict) and (is_run(o) or is_peers(o) or is_context(o) or is_neighbour(o))):
            sys.exit("tables.py: give what `pinhole bench`, peers.py, context.py or neighbour.py printed with --json")
    (write_csv if "--csv" in sys.argv[1:] else markdown)(all_of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
