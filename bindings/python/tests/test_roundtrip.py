# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a save called saved is loaded by another process, with the same bits, from every tier; the rest is refused when it is
saved."""

import array
import collections
import io
import json
import pathlib
import shutil
import struct
import types
import zoneinfo
from typing import Any
from unittest import mock

import surefoot
from surefoot import _ndarrays, _plain

from . import states
from .tiers import Tiers

FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"

COUNT = 150

# Both halves run in processes of their own. A state that is refused at its save is none that may fail at its load.
PROGRAM = """
import json, os, pathlib, shutil, sys, threading
import surefoot
from tests import states
from tests.test_groups import Table, Threads
mode, first, count, size = sys.argv[1], *map(int, sys.argv[2:5])
settings = json.loads(sys.argv[5])
health = pathlib.Path(os.environ["MEMORY"]).parent / "health.json"

def opened(seed, group):
    return surefoot.Checkpoint(f"seed-{seed}", group=group, health_file=health, **settings)

def save(seed, rank, job):
    state = states.made(seed + rank)
    if mode == "save":
        try:
            return "saved" if job.save_state(state) else "failed"
        except surefoot.UnsupportedError as error:
            return f"refused: {error}"
        except surefoot.OtherRankError:
            return "refused elsewhere"
    # Every way to load, before anything is compared: the ranks call together.
    loaded = job.load_state()
    if loaded is None:
        return "nothing"
    # What only parity has can be read by as many ranks as saved it, and not so.
    of_any_rank = loaded if "parity" in settings else job.open_resized().state(rank)
    job.state_dict(states.made(seed + rank))
    filled = job.restart().state
    return next(filter(None, (states.difference(state, one) for one in (loaded, of_any_rank, filled))), "same")

def run(seed, rank, group, said):
    try:
        with opened(seed, group) as job:
            said[seed + rank] = save(seed, rank, job)
    except Exception as error:
        said[seed + rank] = f"{type(error).__name__}: {error}"

said = {}
for seed in range(first, first + count * size, size):
    if size == 1:
        run(seed, 0, None, said)
        continue
    table = Table(size)
    ranks = [threading.Thread(target=run, args=(seed, rank, Threads(table, rank), said)) for rank in range(size)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
print(json.dumps(said))
"""


class Roundtrips(Tiers):
    def both(
        self, count: int, saving: dict[str, object], loading: dict[str, object], ranks: int = 1, lost: str = ""
    ) -> None:
        """Saves states in one process and loads them in another; `lost` is removed in between."""
        saved = self.halved("save", count, ranks, saving)
        for path in list(self.home.glob(lost)) if lost else []:
            shutil.rmtree(path)
        loaded = self.halved("load", count, ranks, loading)
        right, wrong = 0, []
        for seed, outcome in saved.items():
            group = [saved[str(at)] for at in range(int(seed) // ranks * ranks, int(seed) // ranks * ranks + ranks)]
            if outcome == "saved" and loaded[seed] == "same":
                right += 1
            elif outcome == "saved" or not any(other.startswith("refused: ") for other in group):
                wrong.append(f"seed {seed}: {outcome}, {loaded[seed]}")
        self.assertEqual(wrong, [])
        self.assertGreater(right, 0.9 * len(saved), saved)

    def halved(self, mode: str, count: int, ranks: int, settings: dict[str, object]) -> dict[str, str]:
        out = self.run_program(PROGRAM, mode, 0, count, ranks, json.dumps(settings, default=str))
        outcomes: dict[str, str] = json.loads(out)
        self.assertEqual(len(outcomes), count * ranks)
        return outcomes

    def test_from_memory(self) -> None:
        settings = {"memory": self.memory, "policy": "memory"}
        self.both(COUNT, settings, settings)

    def test_from_the_durable_tier(self) -> None:
        saving = {"memory": self.memory, "durable": self.ssd, "policy": "durable"}
        self.both(COUNT // 3, saving, {**saving, "memory": None})

    def test_from_the_shared_directory(self) -> None:
        shared = self.ssd.parent / "shared"
        shared.mkdir()
        saving = {"memory": self.memory, "shared": shared, "policy": "durable"}
        self.both(COUNT // 3, saving, {**saving, "memory": None})

    def test_from_a_partner(self) -> None:
        settings = {"memory": self.memory, "policy": "memory", "partner": True}
        self.both(COUNT // 6, settings, settings, ranks=2, lost="memory/seed-*/rank-00000")

    def test_from_parity(self) -> None:
        settings = {"memory": self.memory, "policy": "memory", "parity": "2+1"}
        self.both(COUNT // 9, settings, settings, ranks=3, lost="memory/seed-*/rank-00001")

    def test_protected_arrays_without_bytes(self) -> None:
        def protected(fill: bytes) -> dict[str, bytearray]:
            return {"none": bytearray(), "some": bytearray(fill * 9), "last": bytearray()}

        for number, arrays in enumerate([protected(b"1"), {"none": bytearray()}, {}]):
            with self.open(f"job-{number}") as job:
                for name, array in arrays.items():
                    job.protect(name, array)
                self.assertTrue(job.save())
        for number, arrays in enumerate([protected(b"0"), {"none": bytearray()}, {}]):
            with self.open(f"job-{number}") as job:
                for name, array in arrays.items():
                    job.protect(name, array)
                self.assertTrue(job.restart())
                self.assertEqual(job.restart_resized().generation, 1)  # type: ignore[union-attr]
                entries = job.open_resized().entries()  # type: ignore[union-attr]
                self.assertEqual(entries, [(0, name, len(array)) for name, array in arrays.items()])
                self.assertEqual(arrays.get("some", b"1" * 9), b"1" * 9)

    def test_checkpoints_that_version_0_1_saved_and_could_not_load(self) -> None:
        """Made by commit 3ac3279, whose every way to load them raised DamagedError: arrays without bytes beside long ones and
        alone, and two arrays whose names are written alike."""
        shutil.unpack_archive(FIXTURES / "unloadable-0.1.tar.xz", self.ssd)
        expected = {
            "empty": {"step": 3, "mask": bytearray(), "none": array.array("d"), "w": bytearray(b"w" * (300 << 10))},
            "alone": {"step": 4, "mask": bytearray()},
            "repeated": {
                "options": types.SimpleNamespace(
                    **{"a.b": bytearray(b"first"), "a": types.SimpleNamespace(b=bytearray(b"second"))}
                ),
                "w": bytearray(b"w" * (300 << 10)),
            },
        }
        for job, state in expected.items():
            with self.open(job, memory=None, durable=self.ssd, policy="durable") as opened:
                if job == "alone":
                    opened.protect("p", bytearray(9))
                loaded = opened.load_state()
                self.assertEqual(states.difference(state, loaded), "", job)
                self.assertEqual(states.difference(state, opened.load_state(into=loaded)), "", job)
                self.assertEqual(states.difference(state, opened.open_resized().state(0)), "", job)  # type: ignore[union-attr]

    def test_what_could_not_be_loaded_is_refused_at_the_save(self) -> None:
        # A zone that is no file of this host: only its key is saved, and nothing has that key.
        content = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + bytes(6) + b"UTC\0"
        zone = zoneinfo.ZoneInfo.from_file(io.BytesIO(content), key="Nowhere/At_All")
        with self.open() as job:
            # With other arrays than at the last save, and with the same.
            for state in ({"zone": zone}, {"kept": 1}, {"kept": [(zone,)]}):
                if "kept" in state and state["kept"] == 1:
                    self.assertTrue(job.save_state(state))
                    continue
                with self.assertRaisesRegex(surefoot.UnsupportedError, "could not be loaded again: .*Nowhere/At_All"):
                    job.save_state(state)
            self.assertEqual(job.load_state(), {"kept": 1})

    def test_also_scalars_and_factories_of_a_later_state_are_read_back(self) -> None:
        later: list[tuple[str, Any]] = [("new_defaultdict", lambda number: collections.defaultdict(list, n=number))]
        if states.has("numpy"):
            later.append(("scalar", lambda number: states.numpy.float64(number)))
        for reader, made in later:
            with self.open(f"job-{reader}") as job:
                self.assertTrue(job.save_state({"kept": made(1)}))
                module = _ndarrays if reader == "scalar" else _plain
                with mock.patch.object(module, reader, side_effect=ValueError("not known here")):
                    with self.assertRaisesRegex(surefoot.UnsupportedError, "could not be loaded again: not known here"):
                        job.save_state({"kept": made(2)})
                self.assertEqual(job.load_state(), {"kept": made(1)})
