# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Nested states from a seed, the same in every process, and what tells two of them apart."""

from __future__ import annotations

import array
import collections
import ctypes
import datetime
import enum
import math
import pathlib
import random
import struct
import types
import typing
import zoneinfo
from typing import Any, Callable

from surefoot import _pack

from .tiers import has

if has("numpy"):
    import numpy
if has("ml_dtypes"):
    import ml_dtypes
if has("torch"):
    import torch

# Longer than this an array is a region of its own.
LONG = _pack.PACKED_BYTES_MAX

NUMPY_TYPES = (
    "? b B h H i I l L q Q e f d g F D G >f4 <f8 >f8 >c8 >i2 S7 S1 U5 >U2 V16 M8[ns] >M8[D] m8[25us] S0 V0 U0".split()
)
FIELDS: list[Any] = [
    [("a", ">i4"), ("b", "f8"), ("c", "u1", (3,))],
    [("x", "S0"), ("y", [("z", "U3", (2, 2))])],
    {"names": ["a", "b"], "formats": ["<u4", ("<f4", (2,))], "offsets": [4, 6], "itemsize": 20},
]
SMALL_TYPES = "bfloat16 float8_e4m3fn float8_e5m2 float8_e8m0fnu int4 uint4 int2 float4_e2m1fn float6_e2m3fn".split()
TORCH_TYPES = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 complex32".split()
)
TORCH_TYPES += "float8_e4m3fn float8_e5m2 float8_e8m0fnu uint16 uint64 bits8 float4_e2m1fn_x2".split()


class Phase(enum.Enum):
    FIRST = 1
    OTHER = "other"


class Flags(enum.Flag):
    NONE = 0
    A = enum.auto()
    B = enum.auto()


class Point(typing.NamedTuple):
    x: Any
    y: Any = None


class States:
    """Makes states. Every draw depends on the seed alone."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        kinds: list[Callable[[], Any]] = [self.buffer]
        if has("numpy"):
            kinds.append(self.numpy_array)
        if has("torch"):
            kinds.append(self.tensor)
        self.arrays = kinds
        # Which lengths the arrays of this state have: most joints are where all of them are of one kind.
        self.lengths = self.random.choice(["empty", "empty or long", "long", "short", "any", "any"])
        self.met: list[Any] = []

    def state(self) -> Any:
        if self.seed < len(CORNERS):
            return CORNERS[self.seed]()
        made = {f"part {number}": self.value(0) for number in range(self.random.randrange(6))}
        return self.random.choice([made, made, list(made.values()), tuple(made.values()), made.get("part 0", {})])

    def value(self, depth: int) -> Any:
        draw = self.random.random()
        if draw < 0.35:
            return self.array()
        if draw < 0.65 or depth > 5:
            return self.scalar()
        return self.container(depth + 1)

    def container(self, depth: int) -> Any:
        parts = [self.value(depth) for _ in range(self.random.choice([0, 0, 1, 2, 3, 5]))]
        keyed = [(self.key(), part) for part in parts]
        named = {self.random.choice(["a", "a.b", "b", "a['b']", "", "c d"]): part for part in parts}
        choice = self.random.randrange(13)
        if choice < 4:
            return dict(keyed)
        if choice == 4:
            return parts
        if choice == 5:
            return tuple(parts)
        if choice == 6:
            return collections.OrderedDict(keyed)
        if choice == 7:
            return collections.defaultdict(self.random.choice([None, list, int, collections.Counter]), keyed)
        if choice == 8:
            return collections.deque(parts, self.random.choice([None, len(parts), 7]))
        if choice == 9:
            return Point(parts[0] if parts else (), parts)
        if choice == 10:
            return {self.key() for _ in parts} if depth % 2 else frozenset(self.key() for _ in parts)
        if choice == 11:
            return types.SimpleNamespace(**named)
        return collections.Counter({self.key(): self.random.randrange(9) for _ in parts})

    def key(self) -> Any:
        kinds = [self.text, self.number, lambda: None, lambda: (self.text(), (self.number(),)), self.plain_key]
        return self.random.choice(kinds)()

    def plain_key(self) -> Any:
        keys = [
            Phase.FIRST,
            Flags.A | Flags.B,
            Point(1, "y"),
            b"raw\0",
            True,
            frozenset({1, (2,)}),
            range(3),
            2.5,
            float("nan"),
        ]
        keys += [datetime.date(2026, 1, 2), pathlib.PurePosixPath("/a b"), complex(0, -0.0), ""]
        if has("numpy"):
            keys += [numpy.float32(0.1), numpy.int16(7), numpy.str_("text"), numpy.datetime64("2026-11-22")]
        return self.random.choice(keys)

    def text(self) -> str:
        return self.random.choice(
            ["", "a", "b", "state", "python:pack", "x\0y", "\ud800", "\U0001f600 ü", "'\"]['", "long " * 50]
        )

    def number(self) -> Any:
        sign = self.random.choice([1, -1])
        ints = [0, 1, 7, 2**31, 2**53 - 1, 2**53, 2**64, 10**60, 10**5000]
        floats = [0.0, 0.1, 5e-324, 1.7976931348623157e308, math.inf]
        return sign * self.random.choice([*ints, *floats])

    def scalar(self) -> Any:
        nan = struct.unpack("d", bytes.fromhex("010203040506f07f"))[0]
        plain = [None, True, False, math.nan, nan, complex(-0.0, math.nan), b"", b"\0\xff" * 9, Phase.OTHER, Flags.NONE]
        plain += [
            datetime.timedelta(-1, 3, 7),
            datetime.datetime(2026, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("UTC"), fold=1),
        ]
        plain += [
            datetime.timezone(datetime.timedelta(hours=-3), "home"),
            pathlib.Path("/\udcff"),
            range(0),
            range(2**70, 0, -3),
        ]
        if has("numpy"):
            plain += [
                numpy.float16(-0.0),
                numpy.longdouble(1) / 3,
                numpy.bool_(True),
                numpy.bytes_(b""),
                numpy.str_(""),
            ]
            plain += [
                numpy.dtype(">f4"),
                numpy.dtype(FIELDS[0]),
                numpy.zeros(1, FIELDS[0])[0],
                numpy.timedelta64("NaT", "s"),
            ]
        if has("torch"):
            plain += [
                torch.Size([0, 3]),
                torch.float16,
                torch.device("cpu"),
                torch.device("cuda:1"),
                torch.strided,
                torch.channels_last,
            ]
        return self.random.choice([self.text, self.number, lambda: self.random.choice(plain)])()

    def array(self) -> Any:
        if self.met and self.random.random() < 0.15:
            return self.random.choice(self.met)
        made = self.random.choice(self.arrays)()
        self.met.append(made)
        return made

    def bytes(self, itemsize: int) -> int:
        """How many elements an array has."""
        kind = self.lengths
        if kind == "any":
            kind = self.random.choice(["empty", "short", "short", "short", "long"])
        if kind == "empty or long":
            kind = self.random.choice(["empty", "long"])
        if kind == "empty":
            return 0
        limit = self.random.choice([LONG // itemsize, LONG // itemsize + 1]) if kind == "long" else 200
        return (
            limit + (kind == "long") * self.random.randrange(3) or 1
            if kind == "long"
            else self.random.randrange(1, limit)
        )

    def noise(self, nbytes: int) -> bytearray:
        return bytearray(self.random.getrandbits(8 * nbytes).to_bytes(nbytes, "little"))

    def buffer(self) -> Any:
        letter = self.random.choice("bBhHiIlLqQfd")
        itemsize = struct.calcsize(letter)
        count = self.bytes(itemsize)
        raw = self.noise(count * itemsize)
        choice = self.random.randrange(7)
        if choice == 0:
            return raw
        if choice == 1:
            made = array.array(letter)
            made.frombytes(raw)
            return made
        if choice == 2:
            return memoryview((ctypes.c_double * (count // 8)).from_buffer_copy(raw[: count // 8 * 8]))
        if choice == 3:
            return memoryview(bytes(raw))
        view = memoryview(raw).cast(letter) if raw else memoryview(raw)
        if choice == 4 and count:
            return view.cast("B").cast(letter, [count, 1])
        return view[::2] if choice == 5 else view

    def shape(self, count: int) -> tuple[int, ...]:
        if count == 0:
            return self.random.choice([(0,), (0, 5), (3, 0, 2), (1, 0), (0, 1 << 40), (2, 0, 3, 0)])
        if count == 1:
            return self.random.choice([(), (1,), (1, 1, 1)])
        for divisor in (7, 5, 3, 2):
            if count % divisor == 0:
                return self.random.choice([(count,), (divisor, count // divisor), (count // divisor, 1, divisor)])
        return (count,)

    def numpy_array(self) -> Any:
        names: list[Any] = [*NUMPY_TYPES, *FIELDS]
        if has("ml_dtypes"):
            names += [getattr(ml_dtypes, name) for name in SMALL_TYPES if hasattr(ml_dtypes, name)] * 2
        dtype = numpy.dtype(self.random.choice(names))
        count = self.bytes(dtype.itemsize or 1) if dtype.itemsize else self.random.randrange(4)
        shape = self.shape(count)
        if dtype.kind == "U" or dtype.names or not dtype.itemsize:
            # Not all bits are a text, and an array of no bytes cannot be made of bytes.
            made = numpy.zeros(shape, [("only", dtype)])["only"]
            if dtype.kind == "U" and count and dtype.itemsize:
                made[...] = "ü"
            return made
        made = numpy.frombuffer(self.noise(count * dtype.itemsize), "u1")
        made = numpy.zeros(shape, dtype) if not made.size else made.view(dtype).reshape(shape)
        return self.numpy_layout(made)

    def numpy_layout(self, made: Any) -> Any:
        choice = self.random.randrange(8)
        if choice == 0:
            return numpy.asfortranarray(made)
        if choice == 1:
            return made.T
        if choice == 2 and made.ndim:
            return made[::-1]
        if choice == 3 and made.ndim:
            return made[::2]
        if choice == 4 and made.ndim > 1:
            return numpy.moveaxis(made, 0, -1)
        if choice == 5 and made.nbytes < LONG:
            return numpy.broadcast_to(made, (2, *made.shape)) if made.size else made
        if choice == 6:
            made.flags.writeable = False
        return made

    def tensor(self) -> Any:
        names = [name for name in TORCH_TYPES if hasattr(torch, name)]
        dtype = getattr(torch, self.random.choice(names))
        itemsize = torch.empty((), dtype=dtype).element_size()
        count = self.bytes(itemsize)
        shape = self.shape(count)
        if not count:
            return torch.empty(shape if math.prod(shape or (1,)) == 0 and max(shape) < 99 else (0, 4), dtype=dtype)
        flat = torch.frombuffer(self.noise(count * itemsize), dtype=torch.uint8).view(dtype)
        made = flat.reshape(shape)
        choice = self.random.randrange(6)
        if choice == 0 and made.dim() > 1:
            return made.transpose(0, -1)
        if choice == 1 and made.dim():
            return made[::2]
        if choice == 2 and dtype.is_complex and dtype != getattr(torch, "complex32", None):
            return made.conj()
        if choice == 3 and made.dim():
            return made.unsqueeze(0).expand(2, *shape) if count * itemsize < LONG else made
        if choice == 4 and dtype.is_floating_point and dtype in (torch.float32, torch.float64):
            return torch.nn.Parameter(made)
        return made


def _repeated_names() -> Any:
    """Arrays whose names are written alike."""
    nans = {float("nan"): bytearray(b"a"), float("nan"): bytearray(b"b")}
    space = types.SimpleNamespace(**{"a.b": bytearray(b"1"), "a": types.SimpleNamespace(b=array.array("d", [2]))})
    return {"nans": nans, "space": space, "again": {0: bytearray(b"x"), "0 (2)": bytearray(b"y")}}


def _reported_arrays() -> Any:
    """Arrays that other formats were reported to lose: orders of elements, byte orders, small types, no elements."""
    if not has("numpy"):
        return {}
    noise = numpy.random.default_rng(3)
    numbers = noise.standard_normal((6, 10))
    described = [("a", ">i4"), ("b", "f8"), ("c", "u1", (3,))]
    arrays = {
        "fortran": numpy.asfortranarray(numbers.astype("f4")),
        "three": numpy.asfortranarray(numbers[:, :8].reshape(2, 3, 8)),
        "sliced": numbers[::2, 1:],
        "negative": numpy.arange(20, dtype="i4")[::-1],
        "transposed": numbers.reshape(3, 4, 5).transpose(1, 2, 0),
        "big": numpy.arange(7, dtype=">f8"),
        "zero": numpy.array(3.5),
        "zero big": numpy.array(77, dtype=">u2"),
        "one": numpy.array([1.25], dtype="f2"),
        "empty": numpy.empty((0, 5), dtype="i8"),
        "times": numpy.array(["2026-11-28", "NaT"], dtype="M8[D]"),
        "text": numpy.array(["a", "\u00fcn\u00ef"]),
        "bytes": numpy.array([b"ab", b"c\0d"]),
        "fields": numpy.array([(1, 2.5, [1, 2, 3]), (2, -0.0, [4, 5, 6])], dtype=described),
        "aligned": numpy.zeros(2, dtype=numpy.dtype([("x", "u1"), ("y", "f8")], align=True)),
        "nan": numpy.frombuffer(bytes.fromhex("0100c07f010080ff00000080"), dtype="f4"),
        "unaligned": numpy.frombuffer(bytearray(b"x" + bytes(range(40))), dtype="f8", offset=1, count=5),
        "column": numpy.arange(4000, dtype="i2").reshape(4, 1000)[:, 500:501],
    }
    if has("ml_dtypes"):
        small = [getattr(ml_dtypes, name) for name in SMALL_TYPES if hasattr(ml_dtypes, name)]
        arrays.update((f"small {at}", numpy.arange(3).astype(dtype)) for at, dtype in enumerate(small))
    return arrays


def _reported_values() -> Any:
    values: dict[Any, Any] = {"python": random.Random(9).getstate(), "big": 2**200 + 1, (2, 3): "b", None: "c", 1: "a"}
    if has("numpy"):
        legacy = numpy.random.RandomState(4)
        values.update(legacy=legacy.get_state(), pcg=numpy.random.PCG64(5).state, big_endian=numpy.array([5], ">i8")[0])
        values["time"] = numpy.datetime64("2026-11-28T01:02:03.000000007")
    return values


def _empty_beside_long() -> Any:
    return {"step": 3, "w": numpy.ones(100_000), "mask": numpy.empty(0)} if has("numpy") else {}


def _deepest(wrap: Callable[[Any], Any]) -> Any:
    made: Any = bytearray(b"in the middle")
    for _ in range(100):
        made = wrap(made)
    return made


# States that are tried whatever the seeds make: nothing, no bytes, everything on one side of each limit.
CORNERS: list[Callable[[], Any]] = [
    lambda: {},
    lambda: [],
    lambda: (),
    lambda: 0,
    lambda: "",
    lambda: False,
    bytearray,
    lambda: {"mask": bytearray()},
    lambda: {"w": bytearray(LONG + 1), "mask": array.array("d")},
    lambda: {"w": bytearray(LONG), "mask": memoryview(b"")},
    lambda: [bytearray(LONG + 1), bytearray(1), bytearray()],
    lambda: {"a": memoryview(bytearray(0)), "b": {"c": (array.array("q"), [])}, "n": 10**5000},
    _repeated_names,
    _empty_beside_long,
    _reported_arrays,
    _reported_values,
    lambda: _deepest(lambda made: [made]),
    lambda: _deepest(lambda made: {"k": made}),
    lambda: _deepest(lambda made: (made,)),
    lambda: _deepest(lambda made: Point(made)),
    lambda: _deepest(lambda made: types.SimpleNamespace(part=made)),
    lambda: _deepest(lambda made: collections.deque([made], 3)),
    lambda: _deepest(lambda made: collections.OrderedDict(k=made)),
]


def made(seed: int) -> Any:
    """The state of a seed."""
    return States(seed).state()


def difference(there: Any, here: Any, path: str = "state") -> str:
    """Where two states differ in type, order, shape or bits; empty where they do not."""
    if isinstance(there, ctypes.Array) and type(here) is type(there):
        there, here = memoryview(there), memoryview(here)
    if isinstance(there, _views()) and not _is_native(there):
        # What Python has no type for comes back as its bytes; see the guide.
        same = isinstance(here, memoryview) and here.tobytes() == memoryview(there).tobytes()
        return "" if same else f"{path}: {there!r} {here!r}"
    if isinstance(there, _views()):
        there = memoryview(there)
    if has("torch") and isinstance(there, torch.Tensor):
        # A parameter comes back as a tensor, as `state_dict()` has it.
        return _differing(path, isinstance(here, torch.Tensor), _tensor_said(there), _tensor_said(here))
    if type(there) is not type(here):
        return f"{path}: {type(there)} {type(here)}"
    if has("numpy") and isinstance(there, (numpy.ndarray, numpy.generic)):
        said = [(thing.dtype, thing.dtype.itemsize, thing.shape, thing.tobytes()) for thing in (there, here)]
        return _differing(path, True, *said)
    if isinstance(there, memoryview):
        said = [(thing.format.lstrip("@<"), thing.shape, thing.tobytes()) for thing in (there, here)]
        return _differing(path, True, *said)
    if isinstance(there, array.array):
        return _differing(path, True, (there.typecode, there.tobytes()), (here.typecode, here.tobytes()))
    if isinstance(there, dict):
        parts = [(f"key {at}", *pair) for at, pair in enumerate(zip(there, here))]
        parts += [(f"value {at}", *pair) for at, pair in enumerate(zip(there.values(), here.values()))]
        factories = [getattr(thing, "default_factory", None) for thing in (there, here)]
        return _of_parts(path, parts, (len(there), factories[0]), (len(here), factories[1]))
    if isinstance(there, (list, tuple, collections.deque)):
        parts = [(str(at), *pair) for at, pair in enumerate(zip(there, here))]
        ends = [getattr(thing, "maxlen", None) for thing in (there, here)]
        return _of_parts(path, parts, (len(there), ends[0]), (len(here), ends[1]))
    if isinstance(there, types.SimpleNamespace):
        return difference(vars(there), vars(here), path)
    if isinstance(there, float):
        return _differing(path, True, struct.pack("d", there), struct.pack("d", here))
    if isinstance(there, complex):
        return difference([there.real, there.imag], [here.real, here.imag], path)
    if isinstance(there, datetime.datetime):
        return _differing(path, there.fold == here.fold, repr(there), repr(here))
    if isinstance(there, (set, frozenset)):
        return _differing(path, True, sorted(map(_written, there)), sorted(map(_written, here)))
    return _differing(path, True, there, here)


def _written(thing: Any) -> str:
    return (
        hex(thing)
        if isinstance(thing, int)
        else repr(thing)
        if not isinstance(thing, tuple)
        else str([*map(_written, thing)])
    )


def _views() -> tuple[type, ...]:
    return (memoryview, ctypes.Array)


def _is_native(thing: Any) -> bool:
    view = memoryview(thing)
    return view.format.lstrip("@<") in "bBhHiIlLqQfd" and (view.nbytes > 0 or view.ndim == 1)


def _of_parts(path: str, parts: list[tuple[str, Any, Any]], there: Any, here: Any) -> str:
    if there != here:
        return f"{path}: {there} {here}"
    return next(filter(None, (difference(one, other, f"{path}[{name}]") for name, one, other in parts)), "")


def _differing(path: str, is_same: bool, there: Any, here: Any) -> str:
    return "" if is_same and there == here else f"{path}: {str(there)[:200]} {str(here)[:200]}"


def _tensor_said(thing: Any) -> Any:
    if not isinstance(thing, torch.Tensor):
        return type(thing)
    plain = thing.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    raw = bytes(plain.reshape(-1).view(torch.uint8).tolist()) if plain.numel() else b""
    return thing.dtype, tuple(thing.shape), raw
