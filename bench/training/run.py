# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How long a training stands still for a checkpoint, and whether a damaged one is noticed: Surefoot beside others.

    python3 bench/training/run.py                     1.5 GB in 60 tensors, and 100 MB in 5,000
    python3 bench/training/run.py --quick             a hundredth of that

Needs PyTorch, and SUREFOOT_LIBRARY where the library is not beside the package. A peer that is not installed is skipped,
and the table says why. All take turns: in each round each peer saves once, in an order that rotates, so that what else the
machine does hits all alike. The numbers of a busy machine are worth nothing; the load is printed with them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any, Optional

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "bindings" / "python"

NAMES = (
    "plain copy",
    "Surefoot",
    "Surefoot, checked",
    "DCP async_save, own stager",
    "DCP async_save, default stager",
    "DLRover flash checkpoint, memory",
    "NVRx local, synchronous",
    "ml-flashpoint, dcp.save",
    "ml-flashpoint, async_save",
)

# Longer than any save here takes; who takes longer hangs.
PATIENCE_S = 300


@dataclass
class Row:
    """What one peer did with one state."""

    name: str
    skipped: str = ""
    standstill_ns: list[int] = field(default_factory=list)
    processor_ns: list[int] = field(default_factory=list)
    """Of the thread that saves, which a busy machine disturbs less than the standstill."""
    complete_ns: list[int] = field(default_factory=list)
    load_ns: list[int] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)
    first_ns: list[int] = field(default_factory=list)
    """The first two saves, which find no memory of their own yet."""


class Peer:
    """A peer's process."""

    def __init__(self, name: str, home: pathlib.Path, count: int, megabytes: int, options: argparse.Namespace) -> None:
        self.row = Row(name)
        home.mkdir()
        command = [sys.executable, str(HERE / "child.py"), name, home, count, megabytes, options.threads]
        path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
        self._said = (home.parent / f"{home.name}.log").open("w+")
        self._child = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            # With what it starts itself, it is a group of processes that ends together.
            start_new_session=True,
        )
        answer = self._answer()
        if answer is not None:
            self.row.skipped = answer.get("missing", "")

    def ask(self, command: str) -> Optional[dict[str, Any]]:
        """What it answers; None where it answers no more, which the row says."""
        if self.row.skipped:
            return None
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(command + "\n")
            self._child.stdin.flush()
        except OSError:
            pass
        return self._answer()

    def _answer(self) -> Optional[dict[str, Any]]:
        assert self._child.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._child.stdout, selectors.EVENT_READ)
            line = self._child.stdout.readline() if waiting.select(PATIENCE_S) else ""
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._last_words()}
        if "error" in answer and "outcome" not in answer:
            self.row.skipped = f"failed: {answer['error']}"
            return None
        return answer

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = [line.strip() for line in self._said.read()[-5000:].splitlines() if line.strip()]
        return f"it ended or did not answer within {PATIENCE_S} s: {lines[-1][:200] if lines else 'no word'}"

    def close(self) -> None:
        skipped = self.row.skipped
        if not skipped:
            self.ask("close")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.communicate()
        self._said.close()
        self.row.skipped = skipped


def compare(count: int, megabytes: int, options: argparse.Namespace, home: pathlib.Path) -> list[Row]:
    names = [name for name in NAMES if not options.only or any(word in name for word in options.only)]
    peers = [Peer(name, home / f"{count}-{at}", count, megabytes, options) for at, name in enumerate(names)]
    try:
        for turn in range(-options.warm_up, options.rounds):
            for at in range(len(peers)):
                peer = peers[(at + turn) % len(peers)]
                saved = peer.ask("save")
                if saved is not None and turn < 0:
                    peer.row.first_ns.append(saved["standstill_ns"])
                elif saved is not None:
                    peer.row.standstill_ns.append(saved["standstill_ns"])
                    peer.row.processor_ns.append(saved["processor_ns"])
                    peer.row.complete_ns.append(saved["complete_ns"])
        for peer in peers:
            for _ in range(options.loads):
                loaded = peer.ask("load")
                if loaded is not None and not loaded["right"]:
                    peer.row.skipped = "failed: what it loaded is not what it saved"
                elif loaded is not None:
                    peer.row.load_ns.append(loaded["load_ns"])
        for peer in peers:
            for seed in range(options.damages):
                answer = peer.ask(f"damage {options.seed + seed}")
                if answer is None or answer["outcome"] == "none":
                    break
                peer.row.outcomes[answer["outcome"]] = peer.row.outcomes.get(answer["outcome"], 0) + 1
    finally:
        for peer in peers:
            peer.close()
    return [peer.row for peer in peers]


def table(title: str, rows: list[Row]) -> str:
    """A table for people. Times are of this machine; the ratio to the plain copy of the same run is what to compare."""
    plain = next((row for row in rows if row.name == "plain copy" and row.standstill_ns), None)
    columns = (
        "",
        "standstill, ms: median (min to max)",
        "of a plain copy",
        "processor time of the saving thread, ms: least, median",
        "least of a plain copy's",
        "first saves, ms",
        "complete after, ms",
        "load, ms",
        "damaged: right, refused, wrong",
    )
    lines = [f"### {title}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in rows:
        if row.skipped or not row.standstill_ns:
            lines.append(f"| {row.name} | not run: {row.skipped or 'no rounds'} |" + " |" * (len(columns) - 2))
            continue
        stood, least = statistics.median(row.standstill_ns), min(row.processor_ns)
        damaged = ", ".join(str(row.outcomes.get(word, 0)) for word in ("right", "refused", "wrong"))
        cells = (
            row.name,
            f"{_ms(stood)} ({_ms(min(row.standstill_ns))} to {_ms(max(row.standstill_ns))})",
            f"{stood / statistics.median(plain.standstill_ns):.2f}" if plain else "-",
            f"{_ms(least)}, {_ms(statistics.median(row.processor_ns))}",
            f"{least / min(plain.processor_ns):.2f}" if plain else "-",
            ", ".join(map(_ms, row.first_ns)),
            _ms(statistics.median(row.complete_ns)),
            _ms(statistics.median(row.load_ns)) if row.load_ns else "-",
            damaged if row.outcomes else "-",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.3g}" if nanoseconds < 1e8 else f"{nanoseconds / 1e6:.0f}"


def _kind(text: str) -> tuple[int, int]:
    count, _, megabytes = text.partition(":")
    if int(count) < 1 or int(megabytes) < 1:
        raise ValueError(text)
    return int(count), int(megabytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the bytes, and fewer rounds")
    parser.add_argument(
        "--state", type=_kind, action="append", help="another state than these: COUNT:MEGABYTES; may be repeated"
    )
    parser.add_argument("--rounds", type=int, help="saves that count (8; 3 with --quick)")
    parser.add_argument("--warm-up", type=int, default=2, help="saves before that do not count (2)")
    parser.add_argument("--loads", type=int, default=3, help="loads (3)")
    parser.add_argument("--damages", type=int, help="flipped bits (24; 8 with --quick)")
    parser.add_argument("--seed", type=int, default=1, help="of where bits are flipped (1)")
    parser.add_argument("--threads", type=int, default=2, help="threads of PyTorch (2)")
    parser.add_argument("--only", action="append", help="only peers with this in their names; may be repeated")
    parser.add_argument("--memory", default="/dev/shm", help="where checkpoints in memory go (/dev/shm)")
    parser.add_argument("--json", type=pathlib.Path, help="write everything that was measured there")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 8)
    options.damages = (8 if options.quick else 24) if options.damages is None else options.damages
    kinds = options.state or ([(60, 15), (500, 10)] if options.quick else [(60, 1500), (5000, 100)])
    # The directories in memory go away however this ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    before = os.getloadavg()[0]
    measured = {}
    for count, megabytes in kinds:
        title = f"{megabytes} MB in {count:,} tensors"
        with tempfile.TemporaryDirectory(dir=options.memory, prefix="surefoot-bench-") as home:
            measured[title] = compare(count, megabytes, options, pathlib.Path(home))
        print(table(title, measured[title]) + "\n", flush=True)
    print(f"Load average before {before:.2f}, after {os.getloadavg()[0]:.2f}; {os.cpu_count()} cores; {options.rounds} rounds.")
    if options.json:
        options.json.write_text(json.dumps({title: [vars(row) for row in rows] for title, rows in measured.items()}))


if __name__ == "__main__":
    main()
