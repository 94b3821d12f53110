#!/usr/bin/env python3
"""What `surefoot disturb predict` says of MPI programs whose ranks stop, beside what these take.

    nice -n -15 bench/mpi-noise/run.py target/release/surefoot [--repetitions 3] [--length-ms 20] [--period-ms 200]

Needs Open MPI (mpicc, mpirun). For each pattern and for 2, 4 and 8 ranks, runs without and with stops take turns. A rank stands for a
node: SIGSTOP and SIGCONT stop it for a length, every period, each rank at a random time, and the lengths that came of it are
taken down. The prediction takes the work and the communication of an iteration from the runs without stops; the rest is its own. Two
questions are asked of it: whether the predicted slowdown lies between the least and the most that was measured, and how many of the runs
with stops, as multiples of the median without, lie within the predicted interval for one more run. That knows nothing of how much runs
without stops differ from each other, so it is widened by just that.
"""
import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import threading
import time

PATTERNS = "barrier", "allreduce", "alltoall", "ring"
RANKS = 2, 4, 8
PATIENCE_S = 120
OVERHEAD_NS = 1_000


class Stops(threading.Thread):
    """Stops and continues processes at the moments of a plan until it is told to end."""

    def __init__(self, pids, length_s, period_s, chance):
        super().__init__(daemon=True)
        begin = time.monotonic() + 0.05
        self.plan = [[begin + chance.random() * period_s, pid] for pid in pids]
        self.length_s, self.period_s = length_s, period_s
        self.lengths_s, self.is_over, self.pids = [], threading.Event(), pids

    def run(self):
        events, stopped = [(at, pid, signal.SIGSTOP) for at, pid in self.plan], {}
        try:
            while not self.is_over.is_set():
                events.sort()
                at, pid, what = events.pop(0)
                if self.is_over.wait(max(0.0, at - time.monotonic())):
                    break
                os.kill(pid, what)
                now = time.monotonic()
                if what == signal.SIGSTOP:
                    stopped[pid] = now
                    events += [(at + self.length_s, pid, signal.SIGCONT), (at + self.period_s, pid, signal.SIGSTOP)]
                else:
                    self.lengths_s.append(now - stopped.pop(pid))
        except ProcessLookupError:
            pass
        finally:
            for pid in stopped:
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass

    def end(self):
        self.is_over.set()
        self.join()


def once(program, pattern, ranks, options, chance):
    """Seconds of all iterations and of the work in them, and the lengths of the stops."""
    words = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-np", str(ranks), program]
    words += [pattern, str(options.iterations), str(options.work_us), "8"]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    job = subprocess.Popen(words, env=environment, **pipes)
    watchdog = threading.Timer(PATIENCE_S, job.kill)
    watchdog.start()
    stops = None
    try:
        pids = [int(job.stdout.readline().split()[2]) for _ in range(ranks)]
        if chance:
            stops = Stops(pids, options.length_ms / 1e3, options.period_ms / 1e3, chance)
            stops.start()
            # The job begins at some moment of the stops.
            time.sleep(0.05 + options.period_ms / 1e3)
        job.stdin.write("go\n")
        job.stdin.flush()
        said = job.stdout.readline().split()
        if stops:
            stops.end()
        job.stdin.close()
        if len(said) != 4 or job.wait() != 0:
            raise SystemExit(f"{pattern} with {ranks} ranks failed: {said}")
        return int(said[1]) / 1e9, int(said[3]) / 1e9, stops.lengths_s if stops else []
    finally:
        if stops:
            stops.end()
        watchdog.cancel()
        if job.poll() is None:
            job.kill()


def predicted(surefoot, pattern, ranks, options, work_s, communication_s, length_s):
    depth = ranks if pattern == "ring" else ranks.bit_length() - 1
    latency_ns = max(1, round(communication_s * 1e9 / options.iterations / depth) - 2 * OVERHEAD_NS)
    words = [surefoot, "disturb", "predict", "--pattern", pattern, "--nodes", str(ranks), "--iterations", str(options.iterations)]
    words += ["--compute", f"{round(work_s * 1e9 / options.iterations)}ns", "--latency", f"{latency_ns}ns"]
    words += ["--overhead", f"{OVERHEAD_NS}ns", "--gap", f"{OVERHEAD_NS}ns", "--draws", "200", "--json"]
    words += ["--noise", f"freeze:length={round(length_s * 1e9)}ns,period={options.period_ms}ms,phase=random"]
    return latency_ns, json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("surefoot")
    reader.add_argument("--repetitions", type=int, default=3)
    reader.add_argument("--iterations", type=int, default=400)
    reader.add_argument("--work-us", type=int, default=5_000)
    reader.add_argument("--length-ms", type=int, default=20)
    reader.add_argument("--period-ms", type=int, default=200)
    reader.add_argument("--seed", type=int, default=1)
    options = reader.parse_args()
    chance = random.Random(options.seed)
    held, all_, within, cells = 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        program, source = os.path.join(folder, "ranks"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks.c")
        subprocess.run(["mpicc", "-O2", "-Wall", "-o", program, source], check=True)
        print(f"load {os.getloadavg()[0]:.1f}; {options.iterations} iterations of {options.work_us} us, stops of {options.length_ms} ms every "
              f"{options.period_ms} ms at random phases, {options.repetitions} runs with and without in turn, seed {options.seed}")
        for pattern in PATTERNS:
            for ranks in RANKS:
                without, during = [], []
                for _ in range(options.repetitions):
                    without.append(once(program, pattern, ranks, options, None))
                    during.append(once(program, pattern, ranks, options, chance))
                base_s = statistics.median(took for took, _, _ in without)
                work_s = statistics.median(worked for _, worked, _ in without)
                length_s = statistics.mean(length for _, _, lengths in during for length in lengths)
                latency_ns, line = predicted(options.surefoot, pattern, ranks, options, work_s, base_s - work_s, length_s)
                slowdowns = [took / base_s for took, _, _ in during]
                bases = [took for took, _, _ in without]
                low, high = line["interval_low"] * min(bases) / base_s, line["interval_high"] * max(bases) / base_s
                inside = sum(low <= slowdown <= high for slowdown in slowdowns)
                held, all_ = held + inside, all_ + len(slowdowns)
                is_within = min(slowdowns) <= line["slowdown"] <= max(slowdowns)
                within, cells = within + is_within, cells + 1
                print(f"{pattern:9} {ranks} ranks: without {base_s:.2f} s ({min(bases):.2f} to {max(bases):.2f}), latency {latency_ns / 1e3:.0f} us, stops "
                      f"{length_s * 1e3:.2f} ms; measured {' '.join(f'{slowdown:.2f}' for slowdown in sorted(slowdowns))}, predicted {line['slowdown']:.2f} "
                      f"({line['interval_low']:.2f} to {line['interval_high']:.2f}, widened {low:.2f} to {high:.2f}): "
                      f"{'within' if is_within else 'not within'} the measured, {inside} of {len(slowdowns)} inside", flush=True)
    print(f"{within} of {cells} predictions within what was measured, {held} of {all_} runs inside their interval; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
