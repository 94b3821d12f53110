# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Restarts with another number of ranks than saved."""

from __future__ import annotations

import array
from typing import Any

import surefoot

from .test_groups import Ranks, Threads
from .tiers import Tiers

WHOLE = 60_001


def cut(rank: int, ranks: int) -> tuple[int, int]:
    return rank * WHOLE // ranks, (rank + 1) * WHOLE // ranks


class Resized(Tiers):
    together = Ranks.together

    def saved(self, ranks: int) -> None:
        def work(rank: int, group: Threads) -> Any:
            first, end = cut(rank, ranks)
            with self.open(group=group) as job:
                own = array.array("l", range(first, end))
                job.protect("whole", own)
                job.protect("step", array.array("l", [7]))
                job.route_file("log").write_text(f"rank {rank}")
                return job.save_state({"rank": rank, "weights": array.array("d", [rank, 0.5]), "own": bytearray(rank)})

        self.assertTrue(all(self.together(work, ranks)))

    def test_arrays_are_cut_anew_by_their_names(self) -> None:
        self.saved(4)
        for ranks in (3, 2, 6):

            def work(rank: int, group: Threads) -> Any:
                first, end = cut(rank, ranks)
                with self.open(group=group) as job:
                    own, step = array.array("l", [0]) * (end - first), array.array("l", [0])
                    job.protect("whole", own)
                    job.protect("step", step)
                    with self.assertRaisesRegex(surefoot.OtherRanksError, f"by 4 ranks, and this job has {ranks}"):
                        job.restart()
                    self.assertEqual(step[0], 0)
                    restored = job.restart_resized()
                    assert restored is not None
                    self.assertIn("of 4 ranks", restored.report[0])
                    self.assertEqual(list(own), list(range(first, end)))
                    self.assertEqual((step[0], restored.generation), (7, 1))
                    return job.route_file("log").read_text() if rank < 4 else ""

            logs = self.together(work, ranks)
            self.assertEqual(logs, [f"rank {rank}" if rank < 4 else "" for rank in range(ranks)])

    def test_with_as_many_ranks_it_is_a_restart(self) -> None:
        self.saved(2)

        def work(rank: int, group: Threads) -> Any:
            first, end = cut(rank, 2)
            with self.open(group=group) as job:
                own, step = array.array("l", [0]) * (end - first), array.array("l", [0])
                job.protect("whole", own)
                job.protect("step", step)
                restored = job.restart_resized()
                return restored is not None and own == array.array("l", range(first, end)) and restored.state is None

        self.assertEqual(self.together(work, 2), [True, True])
        job = self.open("new")
        self.assertIsNone(job.restart_resized())
        self.assertIsNone(job.open_resized())

    def test_reading_leaves_nothing_where_there_is_no_job(self) -> None:
        with self.open("nosuch", durable=self.ssd, durable_allow_memory=True) as job:
            self.assertIsNone(job.open_resized())
        self.assertEqual([*self.memory.iterdir(), *self.ssd.iterdir()], [])

    def test_any_state_and_any_piece_can_be_read(self) -> None:
        self.saved(3)

        def work(rank: int, group: Threads) -> Any:
            with self.open(group=group) as job:
                found = job.open_resized()
                assert found is not None
                self.assertEqual((found.generation, found.ranks, len(found.entries())), (1, 3, 9))
                self.assertIn((2, "file:log", 6), found.entries())
                state = found.state(2 - rank)
                piece, log = array.array("l", [0] * 5), bytearray(6)
                first, _ = cut(1, 3)
                found.read((1, "whole", piece, 80), (rank, "file:log", log))
                self.assertEqual(list(piece), list(range(first + 10, first + 15)))
                self.assertEqual(log, f"rank {rank}".encode())
                # One that asks for what is not there is told, and so are the others.
                with self.assertRaises(surefoot.OptionError if rank == 1 else surefoot.OtherRankError):
                    found.read(*([(1, "none", piece)] if rank == 1 else []))
                with self.assertRaises(surefoot.OptionError if rank == 1 else surefoot.OtherRankError):
                    found.state(3 if rank == 1 else 0)
                again = job.open_resized()
                assert again is not None
                with self.assertRaisesRegex(surefoot.ArgumentError, "another checkpoint was opened"):
                    found.read()
                return state, job.save_state({"rank": rank}).generation

        for rank, (state, generation) in enumerate(self.together(work, 2)):
            of = 2 - rank
            wanted = {"rank": of, "weights": array.array("d", [of, 0.5]), "own": bytearray(of)}
            self.assertEqual((state, generation), (wanted, 2))
