# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Nested states: what comes back, what is refused, and what a hostile checkpoint can do."""

import array
import collections
import enum
import json
import math
import random
import struct

import surefoot
from surefoot import _index, _state

from .tiers import Tiers


def bits(number: float) -> bytes:
    return struct.pack("d", number)


class States(Tiers):
    def test_every_type_comes_back_as_it_was(self) -> None:
        strange_nan = struct.unpack("d", bytes.fromhex("010203040506f07f"))[0]
        state = {
            "text": 'quotes " \0 \u2028 \U0001f600 and half a pair \ud800',
            "numbers": [0, -1, 2**53, -(2**64), 10**5000, True, False, None],
            "floats": (0.1, -0.0, 5e-324, 1.7976931348623157e308),
            "strange": [math.inf, -math.inf, math.nan, strange_nan],
            "complex": complex(1, -0.0),
            "bytes": bytes(range(256)),
            "empty": [{}, [], (), b"", ""],
            3: {(1, "two"): {None: 1.5}, False: 2, 2.5: 3},
            "ordered": collections.OrderedDict(b=1, a=collections.Counter("hello")),
            "random": random.Random(3).getstate(),
            "dict": {"array": 0, "dict": [], "tuple": 1},
        }
        job = self.open()
        job.save_state(state)
        loaded = job.load_state()
        self.assertEqual([*map(bits, loaded.pop("strange"))], [*map(bits, state.pop("strange"))])
        self.assertEqual(loaded, state)
        self.assertEqual([*map(bits, loaded["floats"])], [*map(bits, state["floats"])])
        self.assertEqual([*map(type, loaded["numbers"])], [*map(type, state["numbers"])])
        self.assertEqual(list(loaded), list(state), "the order of the keys")
        self.assertIs(type(loaded["ordered"]), collections.OrderedDict)
        self.assertIs(type(loaded["ordered"]["a"]), collections.Counter)
        self.assertEqual(bits(loaded["complex"].imag), bits(-0.0))

    def test_what_would_not_come_back_as_it_was_is_refused_with_its_place(self) -> None:
        class Own(dict):  # type: ignore[type-arg]
            pass

        loop: list[object] = []
        loop.append(loop)
        deep: list[object] = []
        for _ in range(200):
            deep = [deep]
        point = collections.namedtuple("point", "x y")
        color = enum.IntEnum("color", "RED")
        hostile = [
            ({"a": [1, {2, 3}]}, r"state\['a'\]\[1\] is a builtins.set"),
            ({"f": print}, "builtin_function"),
            ({"o": object()}, "builtins.object"),
            ({"own": Own()}, "Own"),
            ({"default": collections.defaultdict(list)}, "defaultdict"),
            ({"point": point(1, 2)}, "point"),
            ({"color": color.RED}, "color"),  # type: ignore[attr-defined]
            (loop, r"state\[0\] contains itself"),
            (deep, "nested deeper than 100"),
            ({"b": memoryview(b"read-only")}, r"state\['b'\] is read-only"),
            ({"b": memoryview(bytearray(8))[::2]}, "not contiguous"),
            ({array.array: 1}, "a key of state is a builtins.type"),
        ]
        job = self.open()
        job.save_state({"kept": 1})
        for state, why in hostile:
            with self.assertRaisesRegex(surefoot.UnsupportedError, why):
                job.save_state(state)
        self.assertEqual(job.load_state(), {"kept": 1})

    def test_arrays_are_filled_in_place_and_values_put_into_the_same_dicts(self) -> None:
        weights, counts = array.array("d", range(1000)), bytearray(b"abc")
        inner = {"rate": 0.1, "old": 1}
        state = {"layers": [{"weights": weights}, counts], "optimizer": inner, "losses": [3.0]}
        job = self.open()
        job.state_dict(state)
        job.save()
        before = list(weights)
        weights[5], counts[:] = -1.0, b"xyz"
        inner["rate"], inner["new"] = 0.2, 2
        del inner["old"]
        state["losses"].extend([2.0, 1.0])  # type: ignore[attr-defined]
        restored = job.restart()
        assert restored is not None
        self.assertEqual((list(weights), counts), (before, b"abc"))
        self.assertEqual(inner, {"rate": 0.1, "old": 1})
        self.assertEqual(state, {"layers": [{"weights": weights}, counts], "optimizer": inner, "losses": [3.0]})
        self.assertIs(state["layers"][0]["weights"], weights)  # type: ignore[index]
        # Values of another length than last time change nothing about the arrays.
        state["losses"] = [float(step) for step in range(10_000)]
        job.save()
        state["losses"], weights[0] = [], 17.0
        job.restart()
        self.assertEqual((len(state["losses"]), weights[0]), (10_000, 0.0))

    def test_new_arrays_are_as_long_as_they_were_saved(self) -> None:
        with self.open() as job:
            numbers = memoryview(bytearray(24)).cast("d", [3])
            job.save_state({"a": array.array("q", [1, 2, 3]), "b": bytearray(b"b" * 70_000), "c": numbers})
        with self.open() as job:
            loaded = job.load_state()
            self.assertEqual(loaded["a"], array.array("q", [1, 2, 3]))
            self.assertEqual(loaded["b"], b"b" * 70_000)
            self.assertEqual((loaded["c"].format, loaded["c"].tolist()), ("d", [0.0, 0.0, 0.0]))
            numbers = memoryview(bytearray(24)).cast("d", [3])
            into = {"a": array.array("q", [0, 0, 0]), "b": bytearray(70_000), "c": numbers}
            filled = job.load_state(into)
            self.assertIs(filled["a"], into["a"])
            self.assertEqual(into, loaded)
            # The same arrays in another order are filled as well.
            turned = dict(reversed(list(into.items())))
            turned["b"] = bytearray(70_000)
            self.assertEqual(job.load_state(turned)["b"], b"b" * 70_000)
            self.assertEqual(turned["b"], b"b" * 70_000)

    def test_other_shapes_are_refused_by_name_and_nothing_is_touched(self) -> None:
        job = self.open()
        protected = bytearray(b"p" * 100)
        job.protect("p", protected)
        job.save_state({"w": array.array("d", range(4)), "gone": bytearray(1), "n": 1})
        protected[:] = bytes(100)
        other = {"w": array.array("f", range(8)), "new": bytearray(2), "n": 2}
        with self.assertRaises(surefoot.ShapeError) as caught:
            job.load_state(other)
        said = str(caught.exception)
        self.assertIn("state['w'] is array of d [4] there and array of f [8] here", said)
        self.assertIn("state['new'] is not there", said)
        self.assertIn("state['gone'] is bytearray [1] there and not here", said)
        self.assertEqual((list(other["w"]), protected), (list(map(float, range(8))), bytes(100)))  # type: ignore[call-overload]
        loaded = job.load_state()
        self.assertEqual((loaded["n"], list(loaded["w"]), protected), (1, [0.0, 1.0, 2.0, 3.0], b"p" * 100))

    def test_a_state_is_not_asked_for_where_there_is_none(self) -> None:
        with self.open() as job:
            job.protect("a", bytearray(b"1"))
            job.save()
            restored = job.restart()
            assert restored is not None
            self.assertIsNone(restored.state)
            with self.assertRaisesRegex(surefoot.ShapeError, "has no state"):
                job.load_state({"n": 1})
        with self.open("other") as job:
            job.save_state({"n": [1]})
        with self.open("other") as job:
            restored = job.restart()
            assert restored is not None
            self.assertEqual(restored.state, {"n": [1]})

    def test_shared_arrays_are_saved_once_and_stay_shared(self) -> None:
        shared = bytearray(b"s" * 100_000)
        job = self.open()
        saved = job.save_state({"a": shared, "b": [shared]})
        self.assertLess(saved.payload_bytes, 110_000)
        loaded = job.load_state()
        self.assertIs(loaded["a"], loaded["b"][0])

    def test_an_older_checkpoint_of_another_shape_is_taken_where_the_newest_is_bad(self) -> None:
        with self.open() as job:
            job.save_state({"a": bytearray(b"1" * 200_000)})
            job.save_state({"a": bytearray(b"2" * 300_000), "b": 1})
        newest = max((path for path in self.memory.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
        with open(newest, "r+b") as image:
            image.write(b"\xff" * newest.stat().st_size)
        with self.open() as job:
            restored = job.restart()
            assert restored is not None
            self.assertEqual(restored.state, {"a": b"1" * 200_000})
            self.assertIn("refused", restored.report[0])

    def test_a_tree_that_nobody_made_is_refused_and_runs_nothing(self) -> None:
        hostile = [
            {}, {"array": 5}, {"array": True}, {"array": -1}, {"array": "0"}, {"dict": [[1]]}, {"dict": {"a": 1}},
            {"dict": [[[], 1]]}, {"tuple": 3}, {"int": "zz"}, {"int": 5}, {"float": "00"}, {"float": "zz" * 8},
            {"complex": [1]}, {"bytes": "*"}, {"numpy": [1, 2, 3]}, {"pickle": "gASV"}, {"__class__": "os.system"},
        ]  # fmt: skip
        for tree in hostile:
            with self.assertRaises((ValueError, TypeError), msg=str(tree)):
                _state.built(tree, [b""])
        deep = json.loads("[" * 150 + "]" * 150)
        self.assertIsInstance(_state.built(deep, []), list)
        indexes = [
            b"", b"\xff", b"[]", b"3", b'{"format":2}', b'{"format":1}', b'{"format":1,"protected":3,"arrays":[]}',
            b'{"format":1,"protected":[],"arrays":[["a","numpy","f4",[-1],"C"]]}', b"[" * 100_000,
            b'{"format":1,"protected":[],"arrays":[["a","numpy"]]}', b'{"format":' + b"1" * 5000 + b"}",
        ]  # fmt: skip
        for text in indexes:
            with self.assertRaises(surefoot.DamagedError, msg=str(text[:60])):
                _index._Index(text)

    def test_checkpoints_whose_index_lies_are_refused(self) -> None:
        with self.open() as job:
            job.protect("a", bytearray(8))
            contents = _index.Contents(job._renewed(), _state.Flat({"x": bytearray(8)}))
            lies = [{"arrays": [["state['x']", "bytearray", "B", [9], "C"]]}, {"arrays": []}, {"state": {"array": 7}},
                    {"arrays": [["state['x']", "array", "P", [1], "C"]]}, {"arrays": [["x", "shell", "rm", [8], "C"]]},
                    {"protected": [["a", "bytearray", "B", [8], "C"]] * 2, "format": 9}]  # fmt: skip
            truth = dict(contents._said, state={"array": 0})
            for lie in lies:
                contents.regions = lambda lie=lie, regions=contents.regions(): {  # type: ignore[method-assign,misc]
                    name: _index._buffers.hold(bytearray(_index._json({**truth, **lie})), "")
                    if "index" in name
                    else memory
                    for name, memory in regions.items()
                }
                job._announce(contents)
                job._call("surefoot_checkpoint_save", None)
                del contents.regions
                with self.assertRaises(surefoot.SurefootError, msg=str(lie)):
                    job.load_state()
