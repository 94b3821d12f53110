# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One peer in a process of its own, which does what the lines on its stdin say and answers each with a line of JSON.

A process of its own, because one that dies or hangs is a row of the table and no end of the benchmark, and because what
one leaves in memory would be the others' noise.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import sys
import time
from typing import Any

import peers
import states


class Child:
    def __init__(self, name: str, home: pathlib.Path, count: int, megabytes: int) -> None:
        self._state = states.make(count, megabytes)
        self._peer = peers.PEERS[name](home, self._state)
        self._number = 0

    def save(self) -> dict[str, Any]:
        self._number += 1
        states.step(self._state, self._number)
        begin, worked = time.monotonic_ns(), time.thread_time_ns()
        self._peer.save(self._state, self._number)
        stood, worked = time.monotonic_ns() - begin, time.thread_time_ns() - worked
        self._peer.complete()
        return {"standstill_ns": stood, "processor_ns": worked, "complete_ns": time.monotonic_ns() - begin}

    def load(self) -> dict[str, Any]:
        into = states.empty_like(self._state)
        begin = time.monotonic_ns()
        loaded = self._peer.load(into)
        return {"load_ns": time.monotonic_ns() - begin, "right": states.equal(loaded, self._state)}

    def damage(self, seed: int) -> dict[str, Any]:
        """Flips a bit of the newest checkpoint and loads it. A checkpoint is saved before, so that each is damaged once."""
        self.save()
        files = [path for path in self._peer.files() if path.stat().st_size]
        if not files:
            return {"outcome": "none"}
        chance = random.Random(seed)
        longest = max(path.stat().st_size for path in files)
        at, bit = chance.randrange(longest), chance.randrange(8)
        # Former copies are damaged as well, so that nobody is right because of them.
        for path in files:
            if path.stat().st_size * 2 >= longest:
                flip(path, min(at, path.stat().st_size - 1), bit)
        into = states.empty_like(self._state)
        try:
            loaded = self._peer.load(into)
        except BaseException as error:
            return {"outcome": "refused", "error": f"{type(error).__name__}: {error}"[:200]}
        return {"outcome": "right" if states.equal(loaded, self._state) else "wrong"}

    def close(self) -> dict[str, Any]:
        self._peer.close()
        return {"closed": True}


def flip(path: pathlib.Path, at: int, bit: int) -> None:
    with open(path, "r+b", buffering=0) as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def main() -> None:
    # What libraries print to stdout must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name, home, count, megabytes, threads = sys.argv[1:6]
    peers.torch.set_num_threads(int(threads))

    def answer(said: dict[str, Any]) -> None:
        print(json.dumps(said), file=answers, flush=True)

    try:
        child = Child(name, pathlib.Path(home), int(count), int(megabytes))
    except peers.Missing as error:
        return answer({"missing": str(error)})
    answer({"ready": True})
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            answer(getattr(child, command)(*map(int, arguments)))
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {error}"[:300]})
        if command == "close":
            break
    # Threads of libraries that do not end must not keep the process.
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
