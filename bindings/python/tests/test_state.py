# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Nested states: what comes back, what is refused, and what a hostile checkpoint can do."""

import argparse
import array
import collections
import ctypes
import datetime
import enum
import json
import math
import mmap
import pathlib
import random
import struct
import sys
import types
import typing
import zoneinfo

import surefoot
from surefoot import _index, _pack, _state

from .tiers import Tiers


def bits(number: float) -> bytes:
    return struct.pack("d", number)


class Phase(enum.Enum):
    WARMUP = "warm-up"
    MAIN = ("main", 2)
    ALIAS = "warm-up"


class Level(enum.IntEnum):
    LOW = 1


class Options(enum.Flag):
    NONE = 0
    FUSED = enum.auto()
    FOREACH = enum.auto()


class Point(typing.NamedTuple):
    x: typing.Any
    y: typing.Any = 3


Pair = collections.namedtuple("Pair", "left right")


class Traps(tuple):
    """A class with the looks of a named tuple; whoever calls it, or anything of it, is caught."""

    _fields = ("x",)
    called = False

    def __new__(cls, *_: object) -> "Traps":
        cls.called = True
        raise AssertionError("a class was called because a checkpoint said so")

    __init__ = _make = __new__  # type: ignore[assignment]


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

    def test_two_surrogates_in_a_row_stay_two(self) -> None:
        pair, letter = "\ud83d\ude00", "\U0001f600"
        state = {"s": pair, pair: 1, letter: 2, "both": [pair + letter, "\ude00\ud83d"], "path": pathlib.Path("a" + pair)}
        job = self.open()
        job.save_state(state)
        loaded = job.load_state()
        self.assertEqual(loaded, state)
        self.assertEqual([*loaded], [*state])
        self.assertEqual([len(loaded["s"]), loaded[pair], loaded[letter]], [2, 1, 2])

    def test_plain_types_of_training_states_come_back(self) -> None:
        utc, hours = datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=-3, minutes=-30), "home")
        counts = collections.defaultdict(list, {"a": [1], 2: (3,)})
        state = {
            "default": counts,
            "nested": collections.defaultdict(None, {1: collections.defaultdict(dict)}),
            "sets": [{1, "two", (3, frozenset({4}))}, frozenset(), set()],
            "enums": [Phase.MAIN, Phase.ALIAS, Level.LOW, Options.NONE, Options.FUSED | Options.FOREACH],
            "keys": {Phase.MAIN: 1, Point(1, 2): 2, datetime.date(2026, 1, 2): 3, pathlib.PurePosixPath("/a"): 4},
            "tuples": (Point(1, [2]), Point("x"), Pair(Point(0, None), right=array.array("d", [1.5]))),
            "paths": [pathlib.Path("/ssd/\udcff data"), pathlib.PurePosixPath("a/b"), pathlib.PureWindowsPath("C:/x")],
            "times": [
                datetime.datetime(2026, 11, 22, 1, 2, 3, 456789, tzinfo=hours),
                datetime.datetime(2026, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("UTC"), fold=1),
                datetime.datetime.max,
                datetime.time(1, 2, 3, 4, tzinfo=utc),
                datetime.timedelta(days=-3, microseconds=7),
                hours,
            ],
            "deque": collections.deque([1, {"a": 2}], maxlen=5),
            "ranges": [range(3), range(10, 0, -2), range(2**70)],
            "options": argparse.Namespace(lr=0.1, betas=(0.9, 0.999), inner=types.SimpleNamespace(name="adam")),
        }
        job = self.open()
        job.save_state(state)
        loaded = job.load_state()
        self.assertEqual(loaded, state)
        self.assertIs(loaded["default"].default_factory, list)
        self.assertIsNone(loaded["nested"].default_factory)
        self.assertEqual([*map(type, loaded["sets"])], [set, frozenset, set])
        self.assertTrue(all(there is here for there, here in zip(loaded["enums"], state["enums"])))
        self.assertEqual([*map(type, loaded["tuples"])], [Point, Point, Pair])
        self.assertIs(type(loaded["tuples"][2].left), Point)
        self.assertEqual([*map(type, loaded["paths"])], [*map(type, state["paths"])])
        self.assertEqual([time.fold for time in loaded["times"][:2]], [0, 1])
        self.assertEqual(str(loaded["times"][5]), "home")
        self.assertEqual(loaded["deque"].maxlen, 5)
        # In place: the program's own defaultdict stays.
        job.state_dict(state)
        counts["a"].append(2)
        job.restart()
        self.assertIs(state["default"], counts)
        self.assertEqual(counts["a"], [1])

    def test_a_class_is_never_called_nor_imported_for_a_checkpoint(self) -> None:
        module = types.ModuleType("lazy")
        module.__getattr__ = lambda name: self.fail(f"the module was asked for {name}")  # type: ignore[method-assign]
        sys.modules["lazy"] = module
        self.addCleanup(sys.modules.pop, "lazy")
        here = __name__
        hostile = [
            {"namedtuple": ["os", "system", [["x", 1]]]}, {"namedtuple": [here, "Traps", [["x", 1], ["y", 2]]]},
            {"namedtuple": ["builtins", "tuple", []]}, {"namedtuple": [here, "Point", [["y", 1], ["x", 2]]]},
            {"namedtuple": [here, "Point.__class__", []]}, {"namedtuple": ["lazy", "Lazy", []]},
            {"namedtuple": ["antigravity", "A", []]}, {"namedtuple": [here]}, {"namedtuple": 3},
            {"enum": ["subprocess", "Popen", ["x"]]}, {"enum": [here, "Phase", ["GONE"]]}, {"enum": [here, "Phase", []]},
            {"enum": [here, "Phase", ["MAIN", "WARMUP"]]}, {"enum": ["antigravity", "A", ["x"]]},
            {"enum": [here, "Phase", "MAIN"]}, {"enum": [[], {}, 1]},
            {"defaultdict": [], "factory": "exec"}, {"defaultdict": [], "factory": []}, {"defaultdict": []},
            {"set": [[1]]}, {"set": [{"dict": []}]}, {"frozenset": 3}, {"deque": [[], -1]}, {"deque": [[], "x"]},
            {"range": [1, 2, 0]}, {"range": []}, {"range": ["a"]}, {"namespace": ["os", []]},
            {"namespace": ["argparse", [[1, 2]]]}, {"path": ["Popen", "x"]}, {"path": ["PosixPath", 3]},
            {"time": ["datetime", [1], 0, None]}, {"time": ["datetime", [2026, 1, 1], 0, 3]}, {"time": ["zone", "../x"]},
            {"time": ["zone", "/etc/passwd"]}, {"time": ["timezone", [5]]}, {"time": ["timedelta", [10**30]]},
            {"time": ["date"]}, {"time": ["", []]}, {"dtensor": [{"array": 0}]}, {"dtensor": 3},
            {"dtensor": [1, ["x"], [], [], [], [], []]}, {"array": 0, "dict": []}, {"dict": [], "metadata": {}},
        ]  # fmt: skip
        before = set(sys.modules)
        refused = 0
        for tree in hostile:
            text = _pack.encoded({"format": 2, "protected": [], "arrays": [], "state": {"tuple": [tree]}})
            with self.assertRaises((surefoot.DamagedError, surefoot.LibraryError), msg=str(tree)):
                _index.state_of(text, {}, lambda memories: None)
            refused += 1
        self.assertEqual(refused, len(hostile))
        self.assertFalse(Traps.called)
        self.assertNotIn("antigravity", set(sys.modules) - before)
        # One that looks right is made without a call of its own.
        made = _state.built({"namedtuple": [here, "Traps", [["x", 7]]]}, [])
        self.assertEqual((type(made), tuple(made), Traps.called), (Traps, (7,), False))

    def test_what_would_not_come_back_as_it_was_is_refused_with_its_place(self) -> None:
        class Own(dict):  # type: ignore[type-arg]
            pass

        class Late(datetime.date):
            pass

        loop: list[object] = []
        loop.append(loop)
        deep: list[object] = []
        for _ in range(200):
            deep = [deep]
        point = collections.namedtuple("point", "x y")
        color = enum.IntEnum("color", "RED")
        tagged: collections.OrderedDict[str, int] = collections.OrderedDict()
        tagged.tag = 1  # type: ignore[attr-defined]
        hostile = [
            ({"tagged": tagged}, r"state\['tagged'\] has attributes \(tag\)"),
            ({"a": [1, (n for n in ())]}, r"state\['a'\]\[1\] is a builtins.generator"),
            ({"f": print}, "builtin_function"),
            ({"o": object()}, "builtins.object"),
            ({"own": Own()}, "Own"),
            ({"default": collections.defaultdict(lambda: 3)}, r"defaultdict of .*lambda.*give dict\(it\)"),
            ({"point": point(1, 2)}, "point, which cannot be found again as .*define it at the top of a module"),
            ({"color": color.RED}, "color, which cannot be found again"),  # type: ignore[attr-defined]
            ({"late": Late(2026, 1, 1)}, "Late"),
            ({"set": {(1, print)}}, "an element of state"),
            (loop, r"state\[0\] contains itself"),
            (deep, "nested deeper than 100"),
            ({array.array: 1}, "a key of state is a builtins.type"),
            ({"map": mmap.mmap(-1, 10)}, r"state\['map'\] is a mmap.mmap, which would come back as a memoryview"),
            ({"of c": (ctypes.c_int * 3)()}, "c_int_Array_3, which would come back as a memoryview; give memoryview"),
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
        for deep in ("[" * 150 + "]" * 150, '{"tuple":[' * 110 + "]}" * 110, '{"set":[' * 110 + "]}" * 110):
            with self.assertRaisesRegex(ValueError, "nested deeper than 100"):
                _state.built(json.loads(deep), [])
        deepest: list[object] = []
        for _ in range(99):
            deepest = [deepest]
        self.assertEqual(_state.built(_state.Flat(deepest).tree, []), deepest)
        indexes = [
            b"", b"\xff", b"[]", b"3", b'{"format":3}', b'{"format":2}', b'{"format":1}', b'{"format":1,"protected":3,"arrays":[]}',
            b'{"format":1,"protected":[],"arrays":[["a","numpy","f4",[-1],"C"]]}', b"[" * 100_000,
            b'{"format":1,"protected":[],"arrays":[["a","numpy"]]}',
            b'{"format":2,"protected":[],"arrays":[["a","bytearray","B",[1],"C","",-1,0]]}',
            b'{"format":2,"protected":[],"arrays":[["a","bytearray","B",[1],"C","",1,-64]]}',
            b'{"format":2,"protected":[],"arrays":[["a","bytearray","B",[1],"C","",1,0.5]]}',
            b'{"format":2,"protected":[],"arrays":[["a","numpy","f4",[1,2],"0,0","",8,0]]}',
            b'{"format":' + b"1" * 5000 + b"}",
        ]  # fmt: skip
        for text in indexes:
            with self.assertRaises(surefoot.DamagedError, msg=str(text[:60])):
                _index._Index(text)

    def test_checkpoints_whose_index_lies_are_refused(self) -> None:
        with self.open() as job:
            job.protect("a", bytearray(8))
            contents = _index.Contents(job._renewed(), _state.Flat({"x": bytearray(8)}), _pack.Pack())
            row = ["state['x']", "bytearray", "B", [8], "C", "", 8, 0]
            lies = [{"arrays": [[*row[:3], [9], *row[4:]]]}, {"arrays": []}, {"state": {"array": 7}},
                    {"arrays": [["state['x']", "array", "P", [1], *row[4:]]]}, {"arrays": [[row[0], "shell", *row[2:]]]},
                    {"arrays": [[*row[:6], 64, 0]]}, {"arrays": [[*row[:6], 8, 60]]}, {"arrays": [row[:5]]},
                    {"arrays": [[*row[:6], 8, 1 << 70]]}, {"arrays": [row, ["y", *row[1:]]]},
                    {"arrays": [[*row[:6], 8, None]]}, {"protected": [row[:6]] * 2, "format": 9}]  # fmt: skip
            truth = dict(json.loads(contents.plan.text), state={"array": 0})
            self.assertEqual(truth["arrays"], [row])
            for lie in lies:
                contents.regions = lambda lie=lie, regions=contents.regions(): {  # type: ignore[method-assign,misc]
                    name: _index._buffers.hold(bytearray(_pack.encoded({**truth, **lie})), "")
                    if "index" in name
                    else memory
                    for name, memory in regions.items()
                }
                job._announce(contents)
                job._call("surefoot_checkpoint_save", None)
                del contents.regions
                with self.assertRaises(surefoot.SurefootError, msg=str(lie)):
                    job.load_state()
