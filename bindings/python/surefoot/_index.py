# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a checkpoint of this package consists of, and how it is found again.

A checkpoint has a region for each protected array, under its name; one for each array of the state,
`python:state:NUMBER`; and the index, a JSON text of what they mean and of the state's tree:

    {"format": 1, "protected": [[NAME, KIND, DTYPE, SHAPE, ORDER], ...], "arrays": [[PATH, ...], ...], "state": TREE}

The index's name ends in a digest of all that but the tree. So a program that has the same arrays sees it before
anything is read, and lets them be filled in place; where the digest is another, everything goes into new memory, so
that an array is never filled with what does not belong to it.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from typing import Any, Callable, Optional

from . import _buffers
from ._buffers import Layout, Memory
from ._errors import DamagedError, ShapeError, SurefootError
from ._state import Flat, built

# The names that begin with this are not the program's.
PREFIX = "python:"
_INDEX = PREFIX + "index:"
_STATE = PREFIX + "state:"

# No state's tree comes near; it is read into memory as a whole.
INDEX_BYTES_MAX = 256 << 20

_DIFFERENCES_MAX = 5


class Contents:
    """What belongs to a checkpoint: protected arrays, and a state, where there is one."""

    def __init__(self, protected: dict[str, Memory], flat: Optional[Flat]) -> None:
        self.protected = protected
        self.flat = flat
        arrays = [] if flat is None else list(zip(flat.paths, flat.arrays))
        self._said = {
            "format": 1,
            "protected": [_row(name, memory.layout) for name, memory in protected.items()],
            "arrays": [_row(path, memory.layout) for path, memory in arrays],
        }
        digest = hashlib.blake2b(_json(self._said), digest_size=12).hexdigest()
        self.index_name = _INDEX + digest

    def arrays(self) -> dict[str, Memory]:
        """The arrays, by the names of their regions."""
        named = dict(self.protected)
        if self.flat is not None:
            named.update((f"{_STATE}{number}", memory) for number, memory in enumerate(self.flat.arrays))
        return named

    def regions(self) -> dict[str, Memory]:
        """All regions, the index first."""
        said = dict(self._said) if self.flat is None else dict(self._said, state=self.flat.tree)
        text = _json(said)
        if len(text) > INDEX_BYTES_MAX:
            raise SurefootError(f"the state has {len(text)} bytes beside its arrays; {INDEX_BYTES_MAX} are possible")
        return {self.index_name: _buffers.hold(bytearray(text), "the index"), **self.arrays()}


class Found:
    """A checkpoint that is being brought back: where its parts went, and what they are."""

    def __init__(self, wanted: Contents) -> None:
        self.refused: list[str] = []
        self._wanted = wanted
        self._wanted_arrays = wanted.arrays()
        # Of the copy that was tried last, which is the one that was brought back.
        self._placed: dict[str, Memory] = {}
        self._in_place = False

    def place(self, _: Any, generation: int, parts: Any, count: int) -> int:
        """Says where the parts of a checkpoint go; called by the library, so that nothing may be raised here."""
        try:
            lengths = {parts[at].name.decode(): parts[at].bytes for at in range(count)}
            self._placed = self._places(lengths)
            for at in range(count):
                parts[at].start = self._placed[parts[at].name.decode()].address or None
            return 0
        except Exception as error:
            self.refused.append(f"generation {generation}: {error or type(error).__name__}")
            return 1

    def _places(self, lengths: dict[str, int]) -> dict[str, Memory]:
        indexes = [name for name in lengths if name.startswith(_INDEX)]
        arrays = self._wanted_arrays
        fits = {name: memory.nbytes for name, memory in arrays.items()} == {
            name: length for name, length in lengths.items() if name not in indexes
        }
        if not indexes:
            # Another language's, which says lengths and nothing else.
            if not fits:
                raise ShapeError(f"it has {_sizes(lengths)}, the program {_sizes(_lengths(arrays))}")
            self._in_place = True
            return dict(arrays)
        if len(indexes) > 1 or lengths[indexes[0]] > INDEX_BYTES_MAX:
            raise DamagedError("its index is not right")
        self._in_place = fits and indexes[0] == self._wanted.index_name
        return {
            name: arrays[name] if self._in_place and name in arrays else _buffers.new_memory(length)
            for name, length in lengths.items()
        }

    def taken(self) -> Any:
        """The state, after all parts were filled; arrays that had to go elsewhere get what belongs to them."""
        indexes = [name for name in self._placed if name.startswith(_INDEX)]
        if not indexes:
            return None
        index = _Index(bytes(self._placed[indexes[0]].owner))
        flat, wanted = self._wanted.flat, self._wanted
        try:
            if flat is not None and not index.has_state:
                raise ShapeError("the checkpoint has no state; the program asks for one")
            if self._in_place:
                arrays = [] if flat is None else [memory.owner for memory in flat.arrays]
                return built(index.tree, arrays) if index.has_state else None
            _same(index.protected, {name: memory.layout for name, memory in wanted.protected.items()}, "the array ")
            if flat is None:
                state = self._made_anew(index)
            else:
                _same(dict(index.arrays), dict(zip(flat.paths, (memory.layout for memory in flat.arrays))), "")
                state = self._filled(index, flat)
        except (ValueError, KeyError, RecursionError) as error:
            if isinstance(error, SurefootError):
                raise
            raise DamagedError(f"the checkpoint's state cannot be understood: {error}") from None
        for name, memory in wanted.protected.items():
            _copy(self._placed[name], memory)
        return state

    def _made_anew(self, index: _Index) -> Any:
        if not index.has_state:
            return None
        arrays = [_buffers.made(self._placed[f"{_STATE}{at}"], layout) for at, (_, layout) in enumerate(index.arrays)]
        return built(index.tree, arrays)

    def _filled(self, index: _Index, flat: Flat) -> Any:
        by_path = dict(zip(flat.paths, flat.arrays))
        owners = [by_path[path].owner for path, _ in index.arrays]
        state = built(index.tree, owners)
        for at, (path, _) in enumerate(index.arrays):
            _copy(self._placed[f"{_STATE}{at}"], by_path[path])
        return state


def index_of(names: list[str]) -> Optional[str]:
    """The name of the index among those of a rank's regions."""
    return next((name for name in names if name.startswith(_INDEX)), None)


def state_of(text: bytes, lengths: dict[str, int], read: Callable[[dict[str, Memory]], None]) -> Any:
    """The state that an index describes, made anew; None where it has none. `lengths` are those of the regions that
    there are, and `read` fills those of the state's arrays."""
    index = _Index(text)
    if not index.has_state:
        read({})
        return None
    names = [f"{_STATE}{at}" for at in range(len(index.arrays))]
    if not all(name in lengths for name in names):
        raise DamagedError("the checkpoint's index names arrays that are not there")
    memories = {name: _buffers.new_memory(lengths[name]) for name in names}
    read(memories)
    try:
        arrays = [_buffers.made(memories[name], layout) for name, (_, layout) in zip(names, index.arrays)]
        return built(index.tree, arrays)
    except (ValueError, KeyError, RecursionError) as error:
        if isinstance(error, SurefootError):
            raise
        raise DamagedError(f"the checkpoint's state cannot be understood: {error}") from None


class _Index:
    """The index as it was read."""

    def __init__(self, text: bytes) -> None:
        try:
            said = json.loads(text)
            if said["format"] != 1:
                raise ValueError(f"it has the format {said['format']!r}; this package knows 1")
            self.protected = {name: _layout(rest) for name, *rest in said["protected"]}
            self.arrays = [(str(path), _layout(rest)) for path, *rest in said["arrays"]]
            self.has_state = "state" in said
            self.tree = said.get("state")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DamagedError(f"the checkpoint's index cannot be understood: {error}") from None


def _json(said: Any) -> bytes:
    return json.dumps(said, separators=(",", ":"), allow_nan=False).encode("ascii")


def _row(name: str, layout: Layout) -> list[Any]:
    return [name, layout.kind, layout.dtype, list(layout.shape), layout.order]


def _layout(row: list[Any]) -> Layout:
    kind, dtype, shape, order = row
    shape = tuple(shape)
    if not all(type(length) is int and length >= 0 for length in shape) or order not in ("C", "F"):
        raise ValueError(f"a shape is {shape!r}, in order {order!r}")
    return Layout(str(kind), str(dtype), shape, order)


def _copy(source: Memory, target: Memory) -> None:
    if target.nbytes:
        ctypes.memmove(target.address, source.address, target.nbytes)


def _same(there: dict[str, Layout], here: dict[str, Layout], what: str) -> None:
    """Raises with the differences."""
    differences = [
        f"{what}{name} is {there.get(name, 'not')} there and {here.get(name, 'not')} here"
        for name in [*here, *(name for name in there if name not in here)]
        if there.get(name) != here.get(name)
    ]
    if differences:
        more = f"; {len(differences) - _DIFFERENCES_MAX} more" if len(differences) > _DIFFERENCES_MAX else ""
        raise ShapeError(f"the checkpoint has other arrays: {'; '.join(differences[:_DIFFERENCES_MAX])}{more}")


def _lengths(arrays: dict[str, Memory]) -> dict[str, int]:
    return {name: memory.nbytes for name, memory in arrays.items()}


def _sizes(lengths: dict[str, int]) -> str:
    said = [f"{name!r} of {length} bytes" for name, length in list(lengths.items())[:_DIFFERENCES_MAX]]
    return ", ".join(said) or "no arrays"
