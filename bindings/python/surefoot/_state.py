# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A nested state as a tree of JSON and a list of arrays.

JSON and not pickle: reading a pickle runs what is written in it, so that whoever may write into a checkpoint's
directory could run programs as its reader; it depends on the versions of all classes in it; and no other language
reads it. What JSON has no word for is an object whose first key names its type:

    {"dict": [[key, value], ...]}       and OrderedDict, Counter; defaultdict with "factory": "list"
    {"tuple": [...]}                    a list is a JSON array
    {"array": 3}                        the array number 3
    {"dtensor": [{"array": 3}, ...]}    the local part of a distributed tensor, and where it belongs
    {"int": "0x..."}                    from 2^53 on, where other readers lose digits
    {"float": "7ff8000000000000"}       infinities and NaN, as the bits of the double
    {"complex": [real, imaginary]}
    {"bytes": "..."}                    in base64
    {"numpy": ["<f4", "0000803f"]}      a NumPy scalar: its type, and its bytes in hexadecimal
    {"view": ["matrix", {"array": 3}]}  an array of a class of NumPy's own; "record" for one of records, or such a scalar

and the types of `_plain`.
"""

from __future__ import annotations

import base64
import math
import struct
from collections import Counter, OrderedDict, defaultdict
from typing import Any, Callable, Optional

from . import _buffers, _ndarrays, _plain, _tensors
from ._buffers import Memory
from ._errors import UnsupportedError

# How deep a state may be nested; Python's JSON stops somewhere beyond.
DEPTH_MAX = 100

# A time zone in a time, or the array of a distributed tensor or a view, is one level more in the tree than in the state.
_TREE_DEPTH_MAX = DEPTH_MAX + 3

_DICTS: dict[type, str] = {dict: "dict", OrderedDict: "OrderedDict", Counter: "Counter", defaultdict: "defaultdict"}
_DICT_KINDS = {name: kind for kind, name in _DICTS.items()}
_EXACT_INT_MAX = 1 << 53
_POSSIBLE = (
    "dicts, lists, tuples, named tuples, sets, numbers, texts, None, bytes, enumerations, paths, times, arrays and "
    "tensors can be saved"
)


class Flat:
    """A state that was taken apart: the tree, the arrays in it, and how each is called."""

    def __init__(self, state: Any, name: str = "state", former: Optional[Flat] = None) -> None:
        self.arrays: list[Memory] = []
        self.paths: list[str] = []
        # The arrays in the order in which they are met, how each is called, and what stands in the tree for it.
        self._met: list[Any] = []
        self._met_paths: list[str] = []
        self._nodes: list[dict[str, int]] = []
        self._open: set[int] = set()
        # What does for each type that was met: a state has thousands of things and few types.
        self._takers: dict[type, Callable[[Any, str], Any]] = {
            int: _int,
            float: lambda thing, _: _float(thing),
            complex: lambda thing, _: {"complex": [_float(thing.real), _float(thing.imag)]},
            bytes: lambda thing, _: {"bytes": base64.b64encode(thing).decode("ascii")},
            list: self._list,
            tuple: self._tuple,
            **dict.fromkeys(_DICTS, self._dict),
        }
        # Within a key nothing may be an array.
        self._in_key = 0
        # What a reader may refuse for a reason of its own, however the arrays are; parts of such a part are in it already.
        self.to_prove: list[Any] = []
        self._in_plain = 0
        self.tree = self._taken(state, name)
        self._memories = self._held(former)
        self._numbers = self._numbered(former)

    def _taken(self, thing: Any, path: str) -> Any:
        kind = type(thing)
        if kind is str or thing is None or kind is bool:
            return thing
        taker = self._takers.get(kind)
        if taker is None:
            if _buffers.is_array(thing):
                if _tensors.is_dtensor(thing):
                    taker = self._dtensor
                else:
                    taker = self._ndarray if _ndarrays.is_ndarray(thing) else self._array
            elif _ndarrays.is_scalar(thing):
                taker = self._scalar
            else:
                taker = self._plain
            self._takers[kind] = taker
        return taker(thing, path)

    def _plain(self, thing: Any, path: str) -> Any:
        self._enter(thing, path)
        self._in_plain += 1
        tree = _plain.taken(thing, self._in_set if isinstance(thing, (set, frozenset)) else self._taken, path)
        self._in_plain -= 1
        self._open.discard(id(thing))
        if tree is None:
            kind = type(thing)
            raise UnsupportedError(f"{path} is a {kind.__module__}.{kind.__qualname__}; {_POSSIBLE}")
        return self._noted(tree)

    def _scalar(self, thing: Any, path: str) -> Any:
        name = _ndarrays.view_of(thing, path)
        tree = {"numpy": [_ndarrays.text_of(thing.dtype, path), _ndarrays.bytes_of(thing).hex()]}
        return self._noted(tree if name is None else {"view": [name, tree]})

    def _noted(self, tree: Any) -> Any:
        if not self._in_plain:
            self.to_prove.append(tree)
        return tree

    def _enter(self, thing: Any, path: str) -> None:
        if id(thing) in self._open:
            raise UnsupportedError(f"{path} contains itself")
        if len(self._open) == DEPTH_MAX:
            raise UnsupportedError(f"{path} is nested deeper than {DEPTH_MAX}")
        self._open.add(id(thing))

    def _dict(self, thing: Any, path: str) -> Any:
        self._enter(thing, path)
        key_of, taken = self._key, self._taken
        tree: Any = {
            _DICTS[type(thing)]: [
                [key, taken(value, f"{path}[{key!r}]")]
                if type(key) is str
                else [key_of(key, f"a key of {path}"), taken(value, f"{path}[{_written(key)}]")]
                for key, value in thing.items()
            ]
        }
        if type(thing) is defaultdict:
            tree["factory"] = _plain.factory_of(thing, path)
            self._noted({"defaultdict": [], "factory": tree["factory"]})
        # What torch.nn.Module.state_dict() hangs on its result, and load_state_dict() asks for.
        metadata = getattr(thing, "_metadata", None)
        others = sorted(set(getattr(thing, "__dict__", ())) - {"_metadata"})
        if others:
            raise UnsupportedError(f"{path} has attributes ({', '.join(others)}) that are no keys of it; put them into the dict")
        if metadata is not None:
            tree["metadata"] = taken(metadata, f"{path}._metadata")
        self._open.discard(id(thing))
        return tree

    def _list(self, thing: Any, path: str) -> Any:
        self._enter(thing, path)
        tree = [self._taken(value, f"{path}[{number}]") for number, value in enumerate(thing)]
        self._open.discard(id(thing))
        return tree

    def _tuple(self, thing: Any, path: str) -> Any:
        return {"tuple": self._list(thing, path)}

    def _key(self, key: Any, path: str) -> Any:
        self._in_key += 1
        tree = self._taken(key, path)
        self._in_key -= 1
        return tree

    # An element of a set is found by its content, as a key is.
    _in_set = _key

    def _array(self, thing: Any, path: str) -> Any:
        _buffers.expect_plain(thing, path)
        if self._in_key:
            raise UnsupportedError(f"{path} is a {type(thing).__name__}, which is found by where it is; give a text")
        # Which number it has is known when all were met.
        node = {"array": 0}
        self._met.append(thing)
        self._met_paths.append(path)
        self._nodes.append(node)
        return node

    def _ndarray(self, thing: Any, path: str) -> Any:
        name, node = _ndarrays.view_of(thing, path), self._array(thing, path)
        return node if name is None else self._noted({"view": [name, node]})

    def _dtensor(self, thing: Any, path: str) -> Any:
        return self._noted(_plain.taken_part(_tensors.part_of(thing), self._array(thing, path)))

    def _held(self, former: Optional[Flat]) -> list[Memory]:
        """The memory of what was met; that of the former save where it is the very same."""
        met, paths = self._met, self._met_paths
        known: list[Any] = former._memories if former is not None and len(former._memories) == len(met) else []
        plain = _tensors.plain_types()
        if plain and met and all(type(thing) in plain for thing in met):
            return _tensors.hold_all(met, paths, known)
        return [_buffers.hold(thing, path) for thing, path in zip(met, paths)]

    def _numbered(self, former: Optional[Flat]) -> list[int]:
        """Gives each array its number. Weights that two layers share are saved once, and shared again afterwards. Views of
        other shapes are not the same."""
        memories, paths = self._memories, self._met_paths
        if former is not None and memories == former._memories and paths == former._met_paths:
            self.arrays, self.paths, numbers = former.arrays, former.paths, former._numbers
        else:
            numbers, known, arrays = [], {}, self.arrays
            for memory, path in zip(memories, paths):
                key = memory.same
                number = known.get(key) if memory.nbytes else None
                if number is not None and arrays[number].layout != memory.layout:
                    key = (key, memory.layout)
                    number = known.get(key)
                if number is None:
                    number = len(arrays)
                    if memory.nbytes:
                        known[key] = number
                    arrays.append(memory)
                    self.paths.append(path)
                numbers.append(number)
            self.paths = distinct(self.paths)
        for node, number in zip(self._nodes, numbers):
            node["array"] = number
        return numbers


def _written(key: Any) -> str:
    """A key, in the name of an array. Python refuses to write an integer of thousands of digits."""
    try:
        return repr(key)
    except ValueError:
        return f"a {type(key).__name__}"


def distinct(paths: list[str]) -> list[str]:
    """The names of arrays, each of them once: keys that differ may be written alike, such as two NaN."""
    known = set(paths)
    if len(known) == len(paths):
        return paths
    met: set[str] = set()
    counts: Counter[str] = Counter()
    names = []
    for path in paths:
        name = path
        while name in met:
            counts[path] += 1
            name = f"{path} ({counts[path] + 1})"
            # Another array may be called that.
            name = path if name in known else name
        met.add(name)
        names.append(name)
    return names


def _int(thing: int, _: str) -> Any:
    return thing if -_EXACT_INT_MAX < thing < _EXACT_INT_MAX else {"int": hex(thing)}


def _float(number: float) -> Any:
    return number if math.isfinite(number) else {"float": struct.pack(">d", number).hex()}


def built(tree: Any, arrays: list[Any], depth: int = 0) -> Any:
    """The state of a tree. Raises ValueError, or another exception of Python's own, for a tree that `Flat` does not
    make."""
    if tree is None or isinstance(tree, (bool, int, float, str)):
        return tree
    if depth > _TREE_DEPTH_MAX:
        raise ValueError(f"the state is nested deeper than {DEPTH_MAX}")

    def build(part: Any) -> Any:
        return built(part, arrays, depth + 1)

    if isinstance(tree, list):
        return [build(part) for part in tree]
    if not isinstance(tree, dict) or not tree:
        raise ValueError("the state has a part without a type")
    kind, content = next(iter(tree.items()))
    if kind == "array" and type(content) is int and 0 <= content < len(arrays):
        return arrays[content]
    if kind in _DICT_KINDS and isinstance(content, list):
        new = _plain.new_defaultdict(tree["factory"]) if kind == "defaultdict" else _DICT_KINDS[kind]()
        return _built_dict(new, content, tree.get("metadata"), build)
    if kind == "tuple" and isinstance(content, list):
        return tuple(build(part) for part in content)
    if kind == "dtensor":
        return _plain.built_part(content, build)
    if kind == "int" and isinstance(content, str):
        return int(content, 16)
    if kind == "float" and isinstance(content, str) and len(content) == 16:
        return struct.unpack(">d", bytes.fromhex(content))[0]
    if kind == "bytes" and isinstance(content, str):
        return base64.b64decode(content, validate=True)
    if kind == "complex" and isinstance(content, list) and len(content) == 2:
        return complex(*map(build, content))
    if kind == "numpy" and isinstance(content, list) and len(content) == 2:
        return _ndarrays.scalar(content[0], bytes.fromhex(content[1]))
    if kind == "view" and isinstance(content, list) and len(content) == 2 and next(iter(content[1])) in ("array", "numpy"):
        return _ndarrays.viewed(content[0], build(content[1]))
    return _plain.built(kind, content, build)


def _built_dict(new: Any, content: list[Any], metadata: Any, build: Callable[[Any], Any]) -> Any:
    try:
        for key, value in _plain.pairs(content, build):
            new[key] = value
    except TypeError:
        raise ValueError("the state has a dict with a key that cannot be one") from None
    if metadata is not None:
        new._metadata = build(metadata)
    return new


def adopt(live: Any, loaded: Any) -> bool:
    """Makes a state that the program holds equal to one that was loaded, and says whether it could."""
    if type(live) is not type(loaded):
        return False
    if isinstance(live, dict):
        for key in [key for key in live if key not in loaded]:
            del live[key]
        for key, value in loaded.items():
            if key not in live or not adopt(live[key], value):
                live[key] = value
        return True
    if isinstance(live, list):
        live[len(loaded) :] = loaded[len(live) :]
        for number, value in enumerate(loaded):
            if not adopt(live[number], value):
                live[number] = value
        return True
    return live is loaded
