#!/usr/bin/env python3
"""What stalls of all cores do to checkpoints and to the network interface: `surefoot disturb` judges the other parts.

    python3 bench/judge.py target/release/surefoot target/library [slowdown|killed|nic|health ...]

As root, with Open MPI; the second word is a folder with libsurefoot.so (`cargo build --profile library -p surefoot-c`). Rows:

- slowdown: the two MPI programs with checkpoints, under freezes and without, by turns;
- killed: the same programs are killed in the middle of saves while all cores freeze, started again until they are done, and must end
  with the bits of a run that nobody disturbed; every checkpoint on the way must verify;
- nic: `nic run` by the clock under freezes: a frozen host must not look like an interface that hangs; each recovery is counted, and no
  message may be lost or doubled;
- health: what `nic health` says of each interface, frozen and not.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "../bindings/c/examples")
FREEZES = "freeze:length=105ms,period=500ms", "freeze:length=400ms,period=1s"
PROGRAMS = ("stencil", ["300", "1200"]), ("conjugate_gradient", ["400", "300"])
KILLS = 6
MPI = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-np", "2"]
PATIENCE_S = 300


def disturbed(surefoot, spec, workload, repetitions):
    words = [surefoot, "disturb", "run", "--even-if-in-use", "--json", "--disturbance", spec, "--workload", workload]
    said = subprocess.run(words + ["--repetitions", str(repetitions)], stdout=subprocess.PIPE, text=True, env=MPI)
    if said.returncode:
        raise SystemExit(said.returncode)
    return [json.loads(line) for line in said.stdout.splitlines()]


def conditions(rows):
    """The condition of each run, but for that to warm up."""
    return [row["condition"] for row in rows if row["type"] == "run" and row["condition"] != "warm_up"]


def build(library, folder):
    for name, _ in PROGRAMS:
        words = ["mpicc", "-O2", "-I", os.path.join(EXAMPLES, ".."), os.path.join(EXAMPLES, name + ".c"), "-o", os.path.join(folder, name)]
        subprocess.run(words + ["-L", library, "-lsurefoot", "-Wl,-rpath," + library, "-lm"], check=True)


def settings(folder):
    return ["memory=" + os.path.join(folder, "memory"), "durable=" + os.path.join(folder, "durable"), "staleness_max_s=0.5"]


def slowdown(surefoot, folder):
    for name, arguments in PROGRAMS:
        tiers = "T=$(mktemp -d); mkdir $T/memory $T/durable; "
        words = " ".join(MPIRUN + [os.path.join(folder, name)] + arguments + settings("$T")) + " >/dev/null; code=$?; rm -r $T; exit $code"
        for spec in FREEZES:
            effect = disturbed(surefoot, spec, tiers + words, 4)[-1]
            share, ratio = effect["injected_share"], effect["ratio"]
            interval = f"{effect['interval_low']:.3f} to {effect['interval_high']:.3f}"
            print(f"| slowdown of {name} | {spec} | {100 * share:.1f} % injected | {ratio:.3f} ({interval}); 1 / (1 - share) is {1 / (1 - share):.3f} |", flush=True)


def digest(text):
    return next((line for line in text.splitlines() if line.startswith("digest ")), None)


def killed_in_a_save(words, chance):
    """Runs a job and kills one of its ranks shortly after it said that it saves; what it said, and whether it was killed."""
    job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=MPI, start_new_session=True)
    watchdog = threading.Timer(PATIENCE_S, lambda: os.killpg(job.pid, signal.SIGKILL))
    watchdog.start()
    ranks, said, saves, was_killed = [], [], 0, False
    for line in job.stdout:
        said.append(line)
        if line.startswith("rank ") and " is process " in line:
            ranks.append(int(line.split()[4]))
        saves += "saving" in line
        if saves == 2 and len(ranks) == 2 and not was_killed:
            time.sleep(chance.random() * 0.01)
            try:
                os.kill(chance.choice(ranks), signal.SIGKILL)
                was_killed = True
            except ProcessLookupError:
                pass
    job.wait()
    watchdog.cancel()
    return "".join(said), was_killed


def until_done(surefoot, folder, name, seed):
    """Kills a job in its saves until it has been killed often enough, and lets it end; a line of JSON about that."""
    chance, program = random.Random(seed), MPIRUN + [os.path.join(folder, name)] + dict(PROGRAMS)[name]
    kills, verified, text = 0, 0, ""
    with tempfile.TemporaryDirectory(dir=folder) as tiers:
        places = [os.path.join(tiers, tier) for tier in ("memory", "durable")]
        for place in places:
            os.mkdir(place)
        while kills < KILLS and digest(text) is None:
            text, was_killed = killed_in_a_save(program + settings(tiers), chance)
            kills += was_killed
            verify = [surefoot, "checkpoint", "verify"] + [place for place in places if os.path.exists(place)]
            verified += subprocess.run(verify, stdout=subprocess.DEVNULL).returncode == 0
        if digest(text) is None:
            text = subprocess.run(program + settings(tiers), stdout=subprocess.PIPE, text=True, env=MPI).stdout
    print(json.dumps({"kills": kills, "verified": verified, "digest": digest(text)}))


def killed(surefoot, folder):
    for name, arguments in PROGRAMS:
        undisturbed = subprocess.run(MPIRUN + [os.path.join(folder, name)] + arguments + ["policy=never"], check=True, stdout=subprocess.PIPE, text=True, env=MPI)
        whole = digest(undisturbed.stdout)
        for spec in FREEZES:
            out = tempfile.mkdtemp(dir=folder)
            workload = f"seed=$(date +%s%N); python3 {os.path.abspath(__file__)} --until-done {surefoot} {folder} {name} $seed >{out}/$seed"
            rows = disturbed(surefoot, spec, workload, 2)
            for condition in ("undisturbed", "disturbed"):
                found = [one for of, one in zip(conditions(rows), ends_of(out)) if of == condition]
                kills, verified = (sum(one[key] for one in found) for key in ("kills", "verified"))
                equal = sum(one["digest"] == whole for one in found)
                print(f"| {name} killed in saves, {condition} | {spec} | {kills} kills, {verified} verified | {equal} of {len(found)} end with the same bits |", flush=True)


def ends_of(out):
    """The last line of each run but that to warm up, in the order of the runs."""
    files = (open(os.path.join(out, name)) for name in sorted(os.listdir(out))[1:])
    return [[json.loads(line) for line in file if line.startswith("{")][-1] for file in files]


def nic(surefoot, folder):
    for spec in FREEZES:
        out = os.path.join(folder, "nic-" + spec.split("=")[1].split(",")[0])
        os.makedirs(out)
        workload = f"{surefoot} nic run --clock wall --messages 30000 --json >{out}/$(date +%s%N)"
        rows = disturbed(surefoot, spec, workload, 4)
        for condition in ("undisturbed", "disturbed"):
            ends = [end for of, end in zip(conditions(rows), ends_of(out)) if of == condition]
            print(f"| nic run, {condition} | {spec} | {len(ends)} runs | {told(ends)} |", flush=True)


def told(ends):
    """The sums of what is counted at the end of each run."""
    names = "delivered", "lost", "duplicated", "reordered", "corrupted", "failure", "recovery"
    sums = [f"{name} {sum(end[name + '_count'] for end in ends)}" for name in names]
    causes = {}
    for end in ends:
        for cause, count in end["detected_by"].items():
            causes[cause] = causes.get(cause, 0) + count
    return ", ".join(sums + [f"by {cause} {count}" for cause, count in sorted(causes.items())])


def health(surefoot, folder):
    for spec in FREEZES:
        out = os.path.join(folder, "health-" + spec.split("=")[1].split(",")[0])
        os.makedirs(out)
        rows = disturbed(surefoot, spec, f"{surefoot} nic health --json --over 2s >{out}/$(date +%s%N)", 3)
        states = {}
        for condition, name in zip(conditions(rows), sorted(os.listdir(out))[1:]):
            with open(os.path.join(out, name)) as file:
                for line in map(json.loads, file):
                    if line["type"] == "interface":
                        states.setdefault(condition, set()).add(f"{line.get('name', line.get('interface'))} {line['state']}")
        for condition, seen in sorted(states.items()):
            print(f"| nic health, {condition} | {spec} | | {', '.join(sorted(seen))} |", flush=True)


PARTS = {"slowdown": slowdown, "killed": killed, "nic": nic, "health": health}


def main():
    if sys.argv[1] == "--until-done":
        return until_done(*sys.argv[2:])
    surefoot, library = map(os.path.abspath, sys.argv[1:3])
    wanted = sys.argv[3:] or list(PARTS)
    if not set(wanted) <= set(PARTS):
        raise SystemExit(f"the parts are {', '.join(PARTS)}")
    print(f"load {os.getloadavg()[0]:.1f}\n| what | stalls of all cores | | came of it |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if {"slowdown", "killed"} & set(wanted):
            build(library, folder)
        for part in wanted:
            PARTS[part](surefoot, folder)
    print(f"load {os.getloadavg()[0]:.1f}")


main()
