# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How long the first two saves of a new job take, with slots that are made ahead and with slots that the saves make.

    python3 bench/training/first.py                    1.5 GB in 60 tensors, in turns

Each job is a process of its own: open, restart, compute for some seconds, save, compute, save. Needs PyTorch, and
SUREFOOT_LIBRARY where the library is not beside the package. A plain copy of the same tensors is the measure.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "bindings" / "python"


def once(count: int, megabytes: int, ahead: str, home: str, between_s: float) -> dict[str, float]:
    """Seconds that a job's first three saves take, and that a copy into memory that is there already takes."""
    import states
    import surefoot
    import torch

    torch.set_num_threads(2)
    state = states.make(count, megabytes)
    copy = states.empty_like(state)
    begun = time.monotonic()
    job = surefoot.Checkpoint("bench", memory=home, policy="memory", strict=True, memory_ahead_bytes=ahead)
    job.state_dict(state)
    job.restart()
    took = {"opening": time.monotonic() - begun}
    for name in ("first", "second", "third"):
        # Its steps: they compute, and take memory bandwidth as those of a training do.
        end = time.monotonic() + between_s
        while time.monotonic() < end:
            state["layer.0.weight"].mul_(1.0)
        begun = time.monotonic()
        job.save()
        took[name] = time.monotonic() - begun
    begun = time.monotonic()
    for name, tensor in state.items():
        copy[name].copy_(tensor)
    took["copy"] = time.monotonic() - begun
    job.close(discard=True)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensors", type=int, default=60)
    parser.add_argument("--megabytes", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=5, help="jobs of each kind (5)")
    parser.add_argument("--between-s", type=float, default=4, help="seconds of computing before each save (4)")
    parser.add_argument("--memory", default="/dev/shm", help="where checkpoints in memory go (/dev/shm)")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        with tempfile.TemporaryDirectory(dir=options.memory, prefix="surefoot-bench-") as home:
            print(json.dumps(once(options.tensors, options.megabytes, options.once, home, options.between_s)))
        return
    path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    measured: dict[str, list[dict[str, float]]] = {"0": [], "auto": []}
    before = os.getloadavg()[0]
    for turn in range(options.rounds):
        for ahead in ("0", "auto") if turn % 2 == 0 else ("auto", "0"):
            command = [sys.executable, __file__, *sys.argv[1:], "--once", ahead]
            answer = subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, "PYTHONPATH": path})
            measured[ahead].append(json.loads(answer.stdout))
            print(f"{ahead}: {answer.stdout.decode().strip()}", file=sys.stderr, flush=True)
    print("| memory.ahead_bytes | opening, ms | first save | second | third | plain copy |\n|---|---|---|---|---|---|")
    for ahead, rows in measured.items():
        cells = (_spread([row[name] for row in rows]) for name in ("opening", "first", "second", "third", "copy"))
        print(f"| {ahead} | {' | '.join(cells)} |")
    print(f"\nLoad average before {before:.1f}, after {os.getloadavg()[0]:.1f}; {os.cpu_count()} cores; {options.rounds} rounds.")


def _spread(seconds: list[float]) -> str:
    median, least, most = (1000 * of for of in (statistics.median(seconds), min(seconds), max(seconds)))
    return f"{median:.0f} ({least:.0f} to {most:.0f})"


if __name__ == "__main__":
    main()
