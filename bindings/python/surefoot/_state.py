# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A nested state as a tree of JSON and a list of arrays.

JSON and not pickle: reading a pickle runs what is written in it, so that whoever may write into a checkpoint's
directory could run programs as its reader; it depends on the versions of all classes in it; and no other language
reads it. What JSON has no word for is an object with one key, which names its type:

    {"dict": [[key, value], ...]}       and OrderedDict, Counter
    {"tuple": [...]}                    a list is a JSON array
    {"array": 3}                        the array number 3
    {"int": "0x..."}                    from 2^53 on, where other readers lose digits
    {"float": "7ff8000000000000"}       infinities and NaN, as the bits of the double
    {"complex": [real, imaginary]}
    {"bytes": "..."}                    in base64
    {"numpy": ["<f4", "0000803f"]}      a NumPy scalar: its type, and its bytes in hexadecimal
"""

from __future__ import annotations

import base64
import math
import struct
import sys
from collections import Counter, OrderedDict
from typing import Any

from . import _buffers
from ._buffers import Layout, Memory
from ._errors import UnsupportedError

# How deep a state may be nested; Python's JSON stops somewhere beyond.
DEPTH_MAX = 100

_DICTS: dict[type, str] = {dict: "dict", OrderedDict: "OrderedDict", Counter: "Counter"}
_EXACT_INT_MAX = 1 << 53
_POSSIBLE = "dicts, lists, tuples, numbers, texts, None, bytes, arrays and tensors can be saved"


class Flat:
    """A state that was taken apart: the tree, the arrays in it, and how each is called."""

    def __init__(self, state: Any, name: str = "state") -> None:
        self.arrays: list[Memory] = []
        self.paths: list[str] = []
        self._numbers: dict[tuple[int, int, Layout], int] = {}
        self._open: set[int] = set()
        self.tree = self._taken(state, name)

    def _taken(self, thing: Any, path: str) -> Any:
        kind = type(thing)
        if thing is None or kind is bool or kind is str:
            return thing
        if kind is int:
            return thing if abs(thing) < _EXACT_INT_MAX else {"int": hex(thing)}
        if kind is float:
            return _float(thing)
        if kind is complex:
            return {"complex": [_float(thing.real), _float(thing.imag)]}
        if kind is bytes:
            return {"bytes": base64.b64encode(thing).decode("ascii")}
        if _buffers.is_array(thing):
            return {"array": self._number(thing, path)}
        if kind in _DICTS or kind in (list, tuple):
            return self._container(thing, path)
        scalar = getattr(sys.modules.get("numpy"), "generic", None)
        if scalar is not None and isinstance(thing, scalar) and not thing.dtype.hasobject and not thing.dtype.names:
            return {"numpy": [thing.dtype.str, thing.tobytes().hex()]}
        raise UnsupportedError(f"{path} is a {kind.__module__}.{kind.__qualname__}; {_POSSIBLE}")

    def _container(self, thing: Any, path: str) -> Any:
        if id(thing) in self._open:
            raise UnsupportedError(f"{path} contains itself")
        if len(self._open) == DEPTH_MAX:
            raise UnsupportedError(f"{path} is nested deeper than {DEPTH_MAX}")
        self._open.add(id(thing))
        kind = type(thing)
        if kind in _DICTS:
            taken = [[self._key(key, path), self._taken(value, f"{path}[{key!r}]")] for key, value in thing.items()]
            tree: Any = {_DICTS[kind]: taken}
            # What torch.nn.Module.state_dict() hangs on its result, and load_state_dict() asks for.
            metadata = getattr(thing, "_metadata", None)
            if metadata is not None:
                tree["metadata"] = self._taken(metadata, f"{path}._metadata")
        else:
            taken = [self._taken(value, f"{path}[{number}]") for number, value in enumerate(thing)]
            tree = taken if kind is list else {"tuple": taken}
        self._open.discard(id(thing))
        return tree

    def _key(self, key: Any, path: str) -> Any:
        if _buffers.is_array(key):
            raise UnsupportedError(f"{path} has a {type(key).__name__} as a key; give it a text")
        return self._taken(key, f"a key of {path}")

    def _number(self, thing: Any, path: str) -> int:
        memory = _buffers.hold(thing, path)
        # Weights that two layers share are saved once, and shared again afterwards.
        key = (memory.address, memory.nbytes, memory.layout)
        number = self._numbers.get(key) if memory.nbytes else None
        if number is None:
            _buffers.check_comes_back(memory, path)
            number = len(self.arrays)
            self._numbers[key] = number
            self.arrays.append(memory)
            self.paths.append(path)
        return number


def built(tree: Any, arrays: list[Any]) -> Any:
    """The state of a tree. Raises ValueError for a tree that `Flat` does not make."""
    if tree is None or isinstance(tree, (bool, int, float, str)):
        return tree
    if isinstance(tree, list):
        return [built(part, arrays) for part in tree]
    if not isinstance(tree, dict) or not tree:
        raise ValueError("the state has a part without a type")
    (kind, content), *rest = tree.items()
    if kind == "tuple" and isinstance(content, list):
        return tuple(built(part, arrays) for part in content)
    if kind == "array" and type(content) is int and 0 <= content < len(arrays):
        return arrays[content]
    if kind == "int" and isinstance(content, str):
        return int(content, 16)
    if kind == "float" and isinstance(content, str):
        return struct.unpack(">d", bytes.fromhex(content))[0] if len(content) == 16 else _wrong(kind)
    if kind == "bytes" and isinstance(content, str):
        return base64.b64decode(content, validate=True)
    if kind == "complex" and isinstance(content, list) and len(content) == 2:
        return complex(*(built(part, arrays) for part in content))
    if kind == "numpy" and isinstance(content, list) and len(content) == 2:
        room = bytearray.fromhex(content[1])
        return _buffers._made_ndarray(room, Layout("numpy", str(content[0]), ()))[()]
    for known, name in _DICTS.items():
        if kind == name and isinstance(content, list):
            return _built_dict(known, content, dict(rest).get("metadata"), arrays)
    return _wrong(kind)


def _built_dict(kind: type, content: list[Any], metadata: Any, arrays: list[Any]) -> Any:
    new = kind()
    for pair in content:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError("the state has a dict whose parts are no pairs")
        try:
            new[built(pair[0], arrays)] = built(pair[1], arrays)
        except TypeError:
            raise ValueError("the state has a dict with a key that cannot be one") from None
    if metadata is not None:
        new._metadata = built(metadata, arrays)
    return new


def _wrong(kind: Any) -> Any:
    raise ValueError(f"the state has a part of the type {kind!r}, which is not known here or is not right")


def _float(number: float) -> Any:
    return number if math.isfinite(number) else {"float": struct.pack(">d", number).hex()}


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
