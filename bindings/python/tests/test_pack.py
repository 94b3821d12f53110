# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Any number of arrays: short ones go into one region, whatever the library's limit on regions is."""

import array
import unittest.mock
from typing import Any

import surefoot
from surefoot import _buffers, _checkpoint, _pack

from .test_groups import Ranks, Threads
from .tiers import Tiers

LONG = _pack.PACKED_BYTES_MAX + 1


def many(count: int, seed: int = 0) -> dict[str, Any]:
    state: dict[str, Any] = {
        f"layer {number}": {"bias": bytearray(f"{number} {seed} ".encode() * (number % 40)), "step": number + seed}
        for number in range(count)
    }
    state["weights"] = [array.array("d", [seed, number] * (LONG // 16 + 1)) for number in range(3)]
    return state


class Packs(Tiers):
    together = Ranks.together

    def test_many_arrays_come_back_new_in_place_and_into_others(self) -> None:
        state = many(6000)
        with self.open() as job:
            self.assertTrue(job.save_state(state))
            self.assertLess(len(job._registered), 8)
            changed, expected = many(6000, 1), many(6000)
            for name, there in state.items():
                if name != "weights":
                    there["bias"][:] = changed[name]["bias"][: len(there["bias"])].ljust(len(there["bias"]))
            bias = state["layer 39"]["bias"]
            job.restart()
            self.assertEqual(state, expected)
            self.assertIs(state["layer 39"]["bias"], bias)
        with self.open() as job:
            loaded = job.load_state()
            self.assertEqual(loaded, expected)
            # What was loaded is each array's own: none is a part of another, and each may be resized.
            loaded["layer 7"]["bias"].extend(b"longer")
            self.assertEqual(loaded["layer 8"], expected["layer 8"])
            # The same arrays in another order lie elsewhere in the checkpoint.
            into = {name: there for name, there in reversed(list(many(6000).items()))}
            for name, there in into.items():
                if name != "weights":
                    there["bias"][:] = bytes(len(there["bias"]))
            filled = job.load_state(into)
            self.assertEqual(filled, expected)
            self.assertIs(filled["layer 39"]["bias"], into["layer 39"]["bias"])

    def test_more_long_arrays_than_regions_are_possible(self) -> None:
        with unittest.mock.patch.object(_pack, "DIRECT_COUNT_MAX", 2):
            with self.open() as job:
                state = [bytearray(bytes([number])) * (LONG + number) for number in range(5)]
                job.save_state(state)
                names = [name for name in job._registered if name.startswith(_pack.STATE)]
                self.assertEqual(names, ["python:state:3", "python:state:4"])
        with self.open() as job:
            self.assertEqual(job.load_state(), state)

    def test_arrays_that_come_go_and_grow(self) -> None:
        job = self.open()
        state: dict[str, Any] = {}
        for step in range(30):
            state[f"new {step}"] = bytearray([step]) * (1 + step * 3000)
            state.pop(f"new {step - 4}", None)
            if step % 7 == 0:
                state["long"] = bytearray([step]) * (LONG + step)
            self.assertTrue(job.save_state(state))
            self.assertEqual(job.load_state(), state)
        job.save_state({"n": 1})
        self.assertEqual(job.load_state(), {"n": 1})
        self.assertNotIn(_pack.PACK, job._registered)

    def test_a_state_is_taken_apart_once_for_a_save(self) -> None:
        job = self.open()
        with unittest.mock.patch.object(_pack, "Flat", wraps=_pack.Flat) as flat:
            job.save_state(many(3))
            self.assertEqual(flat.call_count, 1)
            job.save()
            self.assertEqual(flat.call_count, 2)

    def test_arrays_of_every_rank_can_be_read_by_another_number_of_ranks(self) -> None:
        def save(rank: int, group: Threads) -> Any:
            with self.open(group=group) as job:
                return job.save_state(many(50 + rank, rank))

        def load(rank: int, group: Threads) -> Any:
            with self.open(group=group) as job:
                found = job.open_resized()
                assert found is not None
                return found.state(2 - rank)

        self.assertTrue(all(self.together(save, 3)))
        self.assertEqual(self.together(load, 2), [many(52, 2), many(51, 1)])

    def test_a_checkpoint_of_the_first_format_is_still_read(self) -> None:
        index = {
            "format": 1,
            "protected": [["p", "bytearray", "B", [3], "C"]],
            "arrays": [["state['a']", "bytearray", "B", [5], "C"], ["state['b']", "array", "d", [2], "C"]],
            "state": {"dict": [["a", {"array": 0}], ["b", {"array": 1}], ["n", 7]]},
        }
        regions = {
            "p": bytearray(b"ppp"),
            "python:index:0123456789abcdef01234567": bytearray(_pack.encoded(index)),
            "python:state:0": bytearray(b"aaaaa"),
            "python:state:1": array.array("d", [1.5, 2.5]),
        }
        with self.open() as job:
            for name, memory in regions.items():
                job._register(job._opened(), name, _buffers.hold(memory, name))
            job._call("surefoot_checkpoint_save", None)
        with self.open() as job:
            room = bytearray(3)
            job.protect("p", room)
            into = {"a": bytearray(5), "b": array.array("d", [0, 0]), "n": 0}
            self.assertEqual(job.load_state(), {"a": b"aaaaa", "b": array.array("d", [1.5, 2.5]), "n": 7})
            filled = job.load_state(into)
            self.assertEqual((filled["a"], filled["n"], room), (b"aaaaa", 7, b"ppp"))
            self.assertIs(filled["b"], into["b"])
            found = job.open_resized()
            assert found is not None
            self.assertEqual(found.state(0)["b"], array.array("d", [1.5, 2.5]))

    def test_the_buffer_is_given_back_when_little_is_left_to_pack(self) -> None:
        pack = _pack.Pack()
        large = pack.region(50_000_000)
        self.assertIs(pack.region(20_000_000).owner, large.owner, "it is used again")
        self.assertLess(len(pack.region(1000).owner), 2000)

    def test_read_only_and_scattered_buffers_of_a_state_are_saved_by_copy(self) -> None:
        plain = bytearray(range(100))
        state = {"constant": memoryview(b"constant"), "every other": memoryview(plain)[::2], "empty": memoryview(b"")}
        with self.open() as job:
            job.save_state(state)
            plain[:] = bytes(100)
            job.restart()
            # The rest of the buffer is not the slice's, and what nobody can write to is there anew.
            self.assertEqual(plain, bytes(at if at % 2 == 0 else 0 for at in range(100)))
            self.assertEqual(bytes(state["constant"]), b"constant")
            job.protect("slice", memoryview(plain)[10:50:5])
            job.save()
            plain[:] = bytes(100)
            job.restart()
            self.assertEqual(plain[10:50:5], bytes(at if at % 2 == 0 else 0 for at in range(100))[10:50:5])
            self.assertEqual(plain[11], 0)
        with self.open() as job:
            with self.assertRaises(surefoot.ShapeError):
                job.load_state()
            job.protect("slice", bytearray(8))
            with self.assertRaises(surefoot.ShapeError):
                job.load_state()
            job.protect("slice", memoryview(bytearray(8))[::1])
            self.assertEqual(bytes(job.load_state()["every other"]), bytes(range(0, 100, 2)))
