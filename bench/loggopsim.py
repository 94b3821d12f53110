#!/usr/bin/env python3
"""`surefoot disturb predict` beside LogGOPSim (github.com/spcl/LogGOPSim), on the same GOAL files.

    bench/loggopsim.py target/release/surefoot FOLDER

FOLDER has LogGOPSim's programs `LogGOPSim` and `txt2bin`, built by its own Makefile. Without noise both must end at the same
nanosecond wherever their rules are the same; every case in which they do not is printed. With noise the ends of 40 runs are compared
as distributions (Kolmogorov and Smirnov); LogGOPSim takes its seed from time(), so a library gives it other ones.
"""
import bisect
import json
import math
import os
import re
import subprocess
import sys
import tempfile

RUNS = 40
SEED_SOURCE = "#include <stdlib.h>\n#include <time.h>\ntime_t time(time_t *t) { time_t s = atol(getenv(\"SEED\")); if (t) *t = s; return s; }\n"


class Both:
    def __init__(self, surefoot, theirs, folder):
        self.surefoot, self.theirs, self.folder = surefoot, theirs, folder
        source = self.path("seed.c")
        with open(source, "w") as file:
            file.write(SEED_SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.path("seed.so"), source], check=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, pattern, ranks, size, compute, iterations):
        """The pattern as GOAL, in text and in LogGOPSim's binary form."""
        goal = self.path("job.goal")
        if os.path.exists(goal):
            os.remove(goal)
        job = ["--pattern", pattern, "--nodes", str(ranks), "--bytes", str(size), "--compute", compute]
        self.run([self.surefoot, "disturb", "predict", *job, "--iterations", str(iterations), "--write-goal", goal])
        self.run([os.path.join(self.theirs, "txt2bin"), "-i", goal, "-o", self.path("job.bin")])

    def run(self, words, **more):
        return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout

    def ours(self, latency, overhead, gap, noise, draws):
        network = ["--latency", f"{latency}ns", "--overhead", f"{overhead}ns", "--gap", f"{gap}ns", "--gbit-per-s", "8"]
        words = [self.surefoot, "disturb", "predict", "--goal", self.path("job.goal"), *network, "--json"]
        lines = [json.loads(line) for line in self.run(words + ["--noise", noise, "--draws", str(draws)]).splitlines()]
        return lines[-1]["base_ns"], [line["end_ns"] for line in lines if line["type"] == "draw"]

    def other(self, latency, overhead, gap, noise=(), seed=1):
        network = ["-L", latency, "-o", overhead, "-g", gap, "-G", 1, "-O", 0, "-S", 2_000_000_000]
        words = [os.path.join(self.theirs, "LogGOPSim"), "-b", "-f", self.path("job.bin"), *map(str, network), *noise]
        environment = dict(os.environ, LD_PRELOAD=self.path("seed.so"), SEED=str(seed))
        return int(re.search(r"Maximum finishing time at host \d+: (\d+)", self.run(words, env=environment)).group(1))


def undisturbed(both):
    print("without noise: pattern, ranks, bytes, L o g: ours, theirs")
    counts = {}
    for network in (5000, 1000, 1000), (2500, 1500, 1000), (1000, 200, 3000):
        for pattern in "barrier", "allreduce", "alltoall", "ring", "halo":
            for ranks in 2, 3, 4, 7, 8, 16, 37, 64, 100, 256, 1024:
                for size in (1,) if pattern == "barrier" else (1, 8, 1000, 65536):
                    both.write(pattern, ranks, size, "100us", 10)
                    (ours, _), theirs = both.ours(*network, "freeze:length=1ns,period=1000s", 2), both.other(*network)
                    kind = (pattern, "gap of 1000" if network[2] == 1000 else "gap of 3000", "2^n" if ranks & (ranks - 1) == 0 else "not 2^n")
                    equal, all_, worst = counts.get(kind, (0, 0, 0.0))
                    counts[kind] = (equal + (ours == theirs), all_ + 1, max(worst, abs(ours / theirs - 1)))
                    if ours != theirs:
                        print(f"  {pattern} {ranks} {size} {network}: {ours} {theirs} {100 * (ours / theirs - 1):+.2f} %")
    for kind, (equal, all_, worst) in counts.items():
        print(f"{', '.join(kind)} ranks: {equal} of {all_} equal, the farthest {100 * worst:.2f} % apart")


def spread(values):
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def chance(one, other):
    """That two samples of one distribution lie as far apart."""
    one, other = sorted(one), sorted(other)
    share = lambda values, at: bisect.bisect_right(values, at) / len(values)
    distance = max(abs(share(one, at) - share(other, at)) for at in one + other)
    size = math.sqrt(len(one) * len(other) / (len(one) + len(other)))
    reach = (size + 0.12 + 0.11 / size) * distance
    return min(1, max(0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * reach * reach) for k in range(1, 101))))


def disturbed(both):
    print(f"with noise, {RUNS} runs each: mean and standard deviation of the slowdown")
    cases = (
        ("barrier", 64, 300, 2, 50, "random"),
        ("allreduce", 64, 300, 2, 50, "random"),
        ("alltoall", 16, 500, 5, 100, "random"),
        ("ring", 16, 500, 5, 100, "random"),
        ("barrier", 8, 1000, 20, 200, "random"),
        ("barrier", 64, 2000, 20, 200, "same"),
    )
    for pattern, ranks, iterations, length, period, phase in cases:
        both.write(pattern, ranks, 8, "1ms", iterations)
        base, ends = both.ours(5000, 1000, 1000, f"freeze:length={length}ms,period={period}ms,phase={phase}", RUNS)
        with open(both.path("trace"), "w") as file:
            # Its reader takes an empty last line for a stall.
            file.write("\n".join(f"{number * period * 1_000_000}\t{length * 1_000_000}" for number in range(20_000)))
        noise = ["--noise-trace", both.path("trace")] + (["--noise-cosched"] if phase == "same" else [])
        theirs = [both.other(5000, 1000, 1000, noise, seed) / base for seed in range(RUNS)]
        ours = [end / base for end in ends]
        told = ["{:.4f} ({:.4f})".format(*spread(values)) for values in (ours, theirs)]
        print(f"{pattern}, {ranks} ranks, {length} ms of {period} ms, {phase}: ours {told[0]}, theirs {told[1]}, p = {chance(ours, theirs):.2f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        both = Both(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), folder)
        undisturbed(both)
        disturbed(both)
