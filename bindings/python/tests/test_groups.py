# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Several ranks: threads that talk through a group of the test's own, and processes that talk through MPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import unittest
from typing import Any, Callable, Optional

import surefoot

from .tiers import PATIENCE_S, ROOT, Tiers, mpirun, needs_mpi


class Table:
    """Where threads meet: each puts down its bytes, and all take everybody's."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.bytes: list[bytes] = [b""] * size
        self.barrier = threading.Barrier(size, timeout=PATIENCE_S)

    def meet(self, rank: int, own: bytes) -> list[bytes]:
        self.bytes[rank] = own
        self.barrier.wait()
        everything = list(self.bytes)
        self.barrier.wait()
        return everything


class Threads(surefoot.Group):
    def __init__(self, table: Table, rank: int) -> None:
        self.table, self._rank = table, rank
        self.received_bytes = 0
        self.fails: Optional[BaseException] = None

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def size(self) -> int:
        return self.table.size

    def broadcast(self, data: memoryview, root: int) -> None:
        if self.fails:
            raise self.fails
        self.received_bytes += len(data)
        data[:] = self.table.meet(self._rank, bytes(data))[root]

    def all_gather(self, own: memoryview, everything: memoryview) -> None:
        if self.fails:
            raise self.fails
        self.received_bytes += len(everything)
        everything[:] = b"".join(self.table.meet(self._rank, bytes(own)))

    def exchange(self, to: int, send: memoryview, source: int, receive: memoryview) -> None:
        if self.fails:
            raise self.fails
        self.received_bytes += len(receive)
        receive[:] = self.table.meet(self._rank, bytes(send))[source]


class Ranks(Tiers):
    def together(self, work: Callable[[int, Threads], Any], size: int = 3) -> list[Any]:
        """Runs it on each rank, and returns what each returned or raised."""
        table = Table(size)
        results: list[Any] = [None] * size

        def run(rank: int) -> None:
            try:
                results[rank] = work(rank, Threads(table, rank))
            except BaseException as error:
                results[rank] = error
                table.barrier.abort() if not isinstance(error, surefoot.SurefootError) else None

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def test_all_ranks_come_back_to_the_same_checkpoint(self) -> None:
        def first(rank: int, group: Threads) -> Any:
            with self.open(durable=self.ssd, policy="every:2", group=group) as job:
                for step in range(5):
                    saved = job.save_state({"step": step, "own": bytearray([rank, step] * (1000 + rank))})
                return saved.generation

        def second(rank: int, group: Threads) -> Any:
            with self.open(durable=self.ssd, group=group) as job:
                return job.load_state()

        self.assertEqual(self.together(first), [5, 5, 5])
        # Rank 1 loses its node's memory: the end of the block made the newest durable, and all go back to that.
        shutil.rmtree(next(self.memory.glob("job/rank-00001")))
        for rank, state in enumerate(self.together(second)):
            self.assertEqual(state, {"step": 4, "own": bytearray([rank, 4] * (1000 + rank))})

    def test_what_one_rank_cannot_save_no_rank_saves(self) -> None:
        def work(rank: int, group: Threads) -> Any:
            job = self.open(group=group)
            job.save_state({"n": 1})
            try:
                job.save_state({"n": object() if rank == 1 else 2})
            except surefoot.SurefootError as error:
                said = error
            job.save_state({"n": 3})
            return said, job.load_state()["n"], job.closed

        (zero, three, _), (one, _, _), (two, _, _) = self.together(work)
        self.assertIsInstance(one, surefoot.UnsupportedError)
        for other in (zero, two):
            self.assertIsInstance(other, surefoot.OtherRankError)
            self.assertIn("rank 1", str(other))
        self.assertEqual(three, 3)

    def test_a_shape_that_one_rank_refuses_all_refuse(self) -> None:
        def work(rank: int, group: Threads) -> Any:
            job = self.open(group=group)
            job.save_state({"a": bytearray(5)})
            job.load_state({"a": bytearray(6 if rank == 2 else 5)})

        zero, one, two = self.together(work)
        self.assertIsInstance(two, surefoot.ShapeError)
        self.assertIsInstance(zero, surefoot.OtherRankError)
        self.assertIsInstance(one, surefoot.OtherRankError)

    def test_a_misspelt_setting_is_said_by_the_first_rank_alone(self) -> None:
        zero, one, two = self.together(lambda rank, group: self.open(group=group, durable_kep=3))
        self.assertIsInstance(zero, surefoot.OptionError)
        self.assertIn("durable_kep", str(zero))
        for other in (one, two):
            self.assertIsInstance(other, surefoot.OtherRankError)
            self.assertNotIn("durable_kep", str(other))
            self.assertIn("rank 0", str(other))

    def test_a_setting_that_is_misspelt_on_one_rank_keeps_no_other_waiting(self) -> None:
        def work(rank: int, group: Threads) -> Any:
            misspelt = {1: {"durable_kep": 3}, 2: {"durable_keeep": 3}}
            return self.open(group=group, **misspelt.get(rank, {}))

        zero, one, two = self.together(work)
        self.assertIsInstance(zero, surefoot.OtherRankError)
        self.assertIsInstance(one, surefoot.OptionError)
        self.assertIsInstance(two, surefoot.OptionError)

    def test_what_python_itself_refuses_on_one_rank_keeps_no_other_waiting(self) -> None:
        class Gone:
            def __fspath__(self) -> str:
                raise FileNotFoundError("the working directory is gone")

        def work(rank: int, group: Threads) -> Any:
            try:
                return self.open(group=group, **({"durable": Gone()} if rank == 1 else {}))
            except Exception as error:
                return error

        zero, one, two = self.together(work)
        self.assertIsInstance(one, FileNotFoundError)
        for other in (zero, two):
            self.assertIsInstance(other, surefoot.OtherRankError)
            self.assertIn("rank 1", str(other))
            self.assertIn("the working directory is gone", str(other))

    def test_a_group_that_fails_is_an_error_with_its_cause(self) -> None:
        def work(rank: int, group: Threads) -> Any:
            job = self.open(group=group)
            job.protect("a", bytearray(10))
            job.save()
            group.fails = OSError("the cable is out")
            with self.assertRaisesRegex(surefoot.GroupError, "") as caught:
                job.need()
            self.assertIsInstance(caught.exception.__cause__, OSError)
            group.fails = None
            with self.assertRaisesRegex(surefoot.GroupError, "an earlier call failed"):
                job.save()
            job.close()
            job = self.open(group=group)
            group.fails = KeyboardInterrupt()
            with self.assertRaises(KeyboardInterrupt):
                job.need()
            job.close()
            return "closed"

        self.assertEqual(self.together(work, 2), ["closed", "closed"])

    def test_a_call_from_within_a_group_is_refused(self) -> None:
        def work(rank: int, group: Threads) -> Any:
            job = self.open(group=group)
            job.protect("a", bytearray(10))
            busy: list[BaseException] = []
            exchange = group.exchange

            def again(*arguments: Any) -> None:
                try:
                    job.scrub()
                except surefoot.BusyError as error:
                    busy.append(error)
                exchange(*arguments)

            group.exchange = again  # type: ignore[method-assign]
            job.need()
            return len(busy) > 0

        self.assertEqual(self.together(work, 2), [True, True])

    def test_one_rank_needs_no_group(self) -> None:
        group = Threads(Table(1), 0)
        group.fails = RuntimeError("nobody may ask")
        job = self.open(group=group)
        job.save_state([1, 2])
        self.assertEqual(job.load_state(), [1, 2])


MPI = """
import os, sys
from mpi4py import MPI
import surefoot
comm = MPI.COMM_WORLD
settings = {"partner": True} if sys.argv[1] == "partner" else {}
with surefoot.Checkpoint("mpi", memory=os.environ["MEMORY"], policy="memory", group=comm, **settings) as job:
    state = {"step": 0, "own": bytearray(50_000 * (comm.rank + 1))}
    job.state_dict(state)
    restored = job.restart()
    begun = state["step"]
    assert state["own"] == bytes([begun % 256]) * len(state["own"]), "rank %d" % comm.rank
    for step in range(begun + 1, begun + 6):
        state["step"], state["own"][:] = step, bytes([step % 256]) * len(state["own"])
        if job.need():
            assert job.save(), job.notices()
    if comm.rank == 0:
        print("from", begun, "to", state["step"], "of", comm.size, *job.notices(), flush=True)
    comm.Barrier()
    os._exit(0) if sys.argv[1] == "dies" else None
"""


LENGTHS = """
import sys
if sys.argv[1] == "mpi":
    from mpi4py import MPI
    group = MPI.COMM_WORLD
else:
    import torch.distributed as group
    rank, size = int(sys.argv[2]), int(sys.argv[3])
    group.init_process_group("gloo", init_method="file://" + sys.argv[4], rank=rank, world_size=size)
from surefoot._groups import group_of
own = group_of(group)
other = 1 - own.rank
def exchange(sent, received):
    received = memoryview(bytearray(received))
    own.exchange(other, memoryview(bytearray(b"x" * sent)), other, received)
    return bytes(received)
assert exchange(16, 16) == b"x" * 16
# One direction at a time, and both; less than is expected, and more.
for to_second, to_first in [(8, 16), (16, 8), (8, 8), (8, 0), (0, 8)]:
    sent, coming = (to_second, to_first) if own.rank == 0 else (to_first, to_second)
    expected = 16 if coming else 0
    try:
        exchange(sent, expected)
        failed = ""
    except ValueError as error:
        failed = str(error)
    wanted = "rank %d sent 8 bytes where 16 are expected" % other if coming == 8 else ""
    assert failed == wanted, (own.rank, sent, coming, failed)
assert exchange(16, 16) == b"x" * 16
try:
    exchange(16, 8)
    raise SystemExit("what is too long is taken")
except Exception as error:
    # One write for the line: those of the other rank come between the writes of an unbuffered program.
    sys.stdout.write("rank %d refuses" % own.rank + chr(10))
"""


@needs_mpi
class MpiRanks(Tiers):
    def ran(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = self.environment_of_ranks()
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)

    def test_ranks_of_mpi_go_on_where_they_were(self) -> None:
        program = self.home / "program.py"
        program.write_text(MPI)
        for number, how in enumerate(["dies", "ends", "partner", "partner"]):
            ran = self.ran(mpirun(3, program, how))
            if how == "ends" or how == "partner":
                self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn(f"from {number * 5} to {number * 5 + 5} of 3", ran.stdout, ran.stderr)
        self.assertTrue(os.listdir(self.memory))

    def test_a_message_of_another_length_is_an_error(self) -> None:
        program = self.home / "program.py"
        program.write_text(LENGTHS)
        ran = self.ran(mpirun(2, program, "mpi"))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(sorted(ran.stdout.split("\n")[:2]), ["rank 0 refuses", "rank 1 refuses"], ran.stderr)

    def test_another_number_of_ranks_goes_on(self) -> None:
        said = []
        for ranks, steps in [(4, 6), (3, 11), (2, 12), (6, 17)]:
            arguments = (steps, f"memory={self.memory}", "policy=memory")
            ran = self.ran(mpirun(ranks, ROOT / "examples" / "resized.py", *arguments))
            self.assertEqual(ran.returncode, 0, ran.stderr)
            said.append(ran.stdout)
        self.assertIn("at step 5: rank 0: generation 1 of 4 ranks", said[1])
        self.assertIn("at step 10: rank 0: generation 2 of 3 ranks", said[2])
        # Two ranks saved nothing of their own: it goes on from where three left it.
        self.assertIn("at step 10: rank 0: generation 2 of 3 ranks", said[3])
        self.memory.joinpath("resized").rename(self.home / "away")
        command = [
            sys.executable,
            str(ROOT / "examples" / "resized.py"),
            "17",
            f"memory={self.memory}",
            "policy=memory",
        ]
        alone = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertIn(alone.stdout.strip(), said[3])
