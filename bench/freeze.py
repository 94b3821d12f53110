"""How exactly `surefoot disturb run` holds cores, whether `surefoot stall probe` sees it, and what a program that computes loses.

    python3 bench/freeze.py target/release/surefoot

As root, on a machine with two cores or more, of which the last one is the judge's. Prints the rows of bench/results/disturb.md. The stalls are those of
the command's own lines; a gap of the probe is that of a stall if it covers nine tenths of it.
"""

import bisect
import glob
import json
import os
import subprocess
import sys
import tempfile

LENGTHS = ["length=50us,period=20ms", "length=2ms,period=100ms", "length=105ms,period=1s"]
LOSSES = ["length=2ms,period=20ms", "length=20ms,period=200ms"]
COVERED = 0.9
LOOP = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"


def run(surefoot, spec, workload, repetitions):
    words = ["--disturbance", "freeze:" + spec, "--workload", workload, "--repetitions", str(repetitions)]
    command = [surefoot, "disturb", "run", "--even-if-in-use", "--json", *words]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def microseconds(ns):
    return f"{ns / 1000:.2f} us"


def accuracy(surefoot):
    for spec in LENGTHS:
        effect = run(surefoot, spec, "sleep 3", 3)[-1]
        medians = [effect[name + "_median_ns"] for name in ("end_late", "end_skew", "start_late", "start_skew")]
        counts = f"{effect['stall_count']} stalls, {effect['missed_stalls']} missed"
        print(f"| {spec} | {' | '.join(map(microseconds, medians))} | {counts} | {load()} |", flush=True)


def probed(surefoot, cpu):
    for spec in LENGTHS:
        with tempfile.TemporaryDirectory() as home:
            probe = f"{surefoot} stall probe --cpu {cpu} --duration 3s --fifo 50 --threshold 20us --json > {home}/$$"
            rows = run(surefoot, f"{spec},cores={cpu}", probe, 3)
            stalls = [(row["start_ns"], row["start_ns"] + row["length_ns"]) for row in rows if row["type"] == "stall"]
            within, longer = 0, []
            for path in glob.glob(home + "/*"):
                with open(path) as file:
                    found = [row for row in map(json.loads, file) if row["type"] == "gap"]
                gaps = sorted((row["start_ns"], row["start_ns"] + row["duration_ns"]) for row in found)
                starts = [start for start, _ in gaps]
                for start, end in stalls:
                    if len(gaps) < 2 or start < gaps[0][0] or end > gaps[-1][1]:
                        continue
                    within += 1
                    place = bisect.bisect(starts, end)
                    near = gaps[max(0, place - 4) : place]
                    held = [g for g in near if min(g[1], end) - max(g[0], start) >= COVERED * (end - start)]
                    longer += [held[0][1] - held[0][0] - (end - start)] if held else []
        longer.sort()
        print(f"| {spec} | {len(longer)} of {within} | {microseconds(longer[len(longer) // 2])} | {load()} |", flush=True)


def loss(surefoot, cpu):
    for spec in LOSSES:
        effect = run(surefoot, f"{spec},cores={cpu}", f"chrt -f 40 taskset -c {cpu} sh -c '{LOOP}'", 40)[-1]
        low, lost, high = (100 - 100 / effect[name] for name in ("interval_low", "ratio", "interval_high"))
        share = 100 * effect["injected_share"]
        print(f"| {spec} | {share:.2f} % | {lost:.2f} % ({low:.2f} to {high:.2f}) | {lost - share:+.2f} | {load()} |", flush=True)


def load():
    return f"{os.getloadavg()[0]:.1f}"


def main():
    surefoot, cpu = os.path.abspath(sys.argv[1]), os.cpu_count() - 1
    print("| stalls | end, late | ends, cores apart | start, late | starts, cores apart | of | load |")
    accuracy(surefoot)
    print("| stalls | found by the probe | gap longer by, median | load |")
    probed(surefoot, cpu)
    print("| stalls | injected share | lost time | difference, points | load |")
    loss(surefoot, cpu)


main()
