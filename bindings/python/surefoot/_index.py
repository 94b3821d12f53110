# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a checkpoint of this package consists of, and how it is found again.

A checkpoint has a region for each protected array, under its name; one for each long array of the state,
`python:state:NUMBER`; one for all short ones, `python:pack`; and the index, a JSON text of what they mean and of the
state's tree:

    {"format": 2, "protected": [[NAME, KIND, DTYPE, SHAPE, ORDER, PART], ...],
     "arrays": [[PATH, KIND, DTYPE, SHAPE, ORDER, PART, BYTES, PLACE], ...], "state": TREE}

PLACE is where in the pack the array begins, and null where it has a region of its own. An array of 0 bytes has a place and
no region: without other short arrays there is no pack. In format 1, which is still read, every array had a region, and there
was no PART.

The index's name ends in a digest of all that but the tree. So a program that has the same arrays sees it before
anything is read, and lets them be filled in place; where the digest is another, everything goes into new memory, so
that an array is never filled with what does not belong to it.
"""

from __future__ import annotations

import json
from typing import Any, Callable, NamedTuple, Optional

from . import _buffers
from ._buffers import Layout, Memory
from ._errors import DamagedError, ShapeError, SurefootError, UnsupportedError
from ._pack import INDEX, PACK, PREFIX, Pack, encoded, gather, region_of
from ._state import Flat, built, distinct

__all__ = ["INDEX_BYTES_MAX", "PREFIX", "Contents", "Found", "index_of", "state_of"]

# No state's tree comes near; it is read into memory as a whole.
INDEX_BYTES_MAX = 256 << 20

_DIFFERENCES_MAX = 5


class Contents:
    """What belongs to a checkpoint: protected arrays, and a state, where there is one."""

    def __init__(self, protected: dict[str, Memory], flat: Optional[Flat], pack: Pack) -> None:
        self.protected = protected
        self.flat = flat
        self.plan = pack.plan([(name, memory.layout) for name, memory in protected.items()], flat)
        self.index_name = self.plan.index_name
        self._pack = pack.region(self.plan.pack_bytes) if PACK in self.plan.regions else None

    def gather(self) -> None:
        """Copies what is not saved from where it is."""
        for memory in self.protected.values():
            memory.gather()
        if self._pack is not None and self.flat is not None:
            gather(self.plan.places, self.flat.arrays, self._pack)

    def arrays(self) -> dict[str, Memory]:
        """All regions but the index, by their names."""
        named = dict(self.protected)
        if self.flat is not None:
            for memory, region in zip(self.flat.arrays, self.plan.regions):
                if region is not None and region != PACK:
                    named[region] = memory.kept()
        if self._pack is not None:
            named[PACK] = self._pack
        return named

    def regions(self) -> dict[str, Memory]:
        """All regions, the index first."""
        text = self.plan.index(self.flat)
        if len(text) > INDEX_BYTES_MAX:
            raise SurefootError(f"the state has {len(text)} bytes beside its arrays; {INDEX_BYTES_MAX} are possible")
        arrays = self.arrays()
        self._prove(text, _lengths(arrays))
        return {self.index_name: _buffers.hold(bytearray(text), "the index"), **arrays}

    def _prove(self, text: bytes, lengths: dict[str, int]) -> None:
        """Raises UnsupportedError where this package's reader would refuse what is about to be saved. A plan is proved once,
        as is the tree of its first state; of later ones what the reader may refuse, because the rest has no such conditions."""
        try:
            if not self.plan.is_proved:
                _Index(text).check(lengths)
                self.plan.is_proved = True
            elif self.flat is not None and self.flat.to_prove:
                built(json.loads(encoded(self.flat.to_prove)), [None] * len(self.flat.arrays))
        except MemoryError:
            raise
        except Exception as error:
            why = f"it could not be loaded again: {error or type(error).__name__}"
            raise UnsupportedError(f"the state was not saved, because {why}; save that part in another form") from None


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
        indexes = [name for name in lengths if name.startswith(INDEX)]
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
            name: arrays[name]
            if self._in_place and name in arrays and arrays[name].fillable
            else _buffers.new_memory(length)
            for name, length in lengths.items()
        }

    def taken(self) -> Any:
        """The state, after all parts were filled; arrays that had to go elsewhere get what belongs to them."""
        names = [name for name in self._placed if name.startswith(INDEX)]
        if names:
            return _understood(lambda: self._taken(_Index(bytes(self._placed[names[0]].owner))))
        for memory in self._wanted.protected.values():
            memory.scatter()
        return None

    def _taken(self, index: _Index) -> Any:
        flat, protected = self._wanted.flat, self._wanted.protected
        if flat is not None and not index.has_state:
            raise ShapeError("the checkpoint has no state; the program asks for one")
        if self._in_place:
            arrays = (
                [] if flat is None else [self._in_owner(at, memory, index) for at, memory in enumerate(flat.arrays)]
            )
            state = built(index.tree, arrays) if index.has_state else None
            for memory in protected.values():
                memory.scatter()
            return state
        _same(index.protected, {name: memory.layout for name, memory in protected.items()}, "the array ")
        if flat is None:
            state = built(index.tree, index.made(self._placed)) if index.has_state else None
        else:
            _same(
                {saved.path: saved.layout for saved in index.arrays},
                {path: memory.layout for path, memory in zip(flat.paths, flat.arrays)},
                "",
            )
            state = self._filled(index, flat)
        for name, memory in protected.items():
            room = self._placed[name].owner
            _buffers.check_bytes(memory, len(room))
            memory.fill_from(room, 0, index.protected[name])
        return state

    def _in_owner(self, at: int, memory: Memory, index: _Index) -> Any:
        """The array of the program's state, after its memory was filled; a new one where nobody may write to it."""
        place = self._wanted.plan.places[at]
        if not memory.fillable:
            return index.made_one(at, self._placed)
        if place is not None and self._wanted.plan.regions[at] is not None:
            memory.fill_from(self._placed[PACK].owner, place, memory.layout)
        return memory.owner

    def _filled(self, index: _Index, flat: Flat) -> Any:
        by_path = dict(zip(flat.paths, flat.arrays))
        wanted = [by_path[saved.path] for saved in index.arrays]
        rooms = [index.room(at, self._placed) for at in range(len(wanted))]
        for memory, (_, _, nbytes) in zip(wanted, rooms):
            _buffers.check_bytes(memory, nbytes)
        owners = [
            memory.owner if memory.fillable else index.made_one(at, self._placed) for at, memory in enumerate(wanted)
        ]
        state = built(index.tree, owners)
        for memory, (room, offset, _), saved in zip(wanted, rooms, index.arrays):
            if memory.fillable:
                memory.fill_from(room, offset, saved.layout)
        return state


def index_of(names: list[str]) -> Optional[str]:
    """The name of the index among those of a rank's regions."""
    return next((name for name in names if name.startswith(INDEX)), None)


def state_of(text: bytes, lengths: dict[str, int], read: Callable[[dict[str, Memory]], None]) -> Any:
    """The state that an index describes, made anew; None where it has none. `lengths` are those of the regions that
    there are, and `read` fills those of the state's arrays."""
    index = _Index(text)
    if not index.has_state:
        read({})
        return None
    _understood(lambda: index.spans(lengths))
    memories = {name: _buffers.new_memory(lengths[name]) for name in index.regions()}
    read(memories)
    return _understood(lambda: built(index.tree, index.made(memories)))


def _understood(work: Callable[[], Any]) -> Any:
    """Does something with what a file said. What Python raises meanwhile is the file's fault."""
    try:
        return work()
    except (SurefootError, MemoryError):
        raise
    except Exception as error:
        raise DamagedError(f"the checkpoint's state cannot be understood: {error or type(error).__name__}") from None


class _Saved(NamedTuple):
    """An array of a state, as the index says it."""

    path: str
    layout: Layout
    nbytes: Optional[int]
    place: Optional[int]


class _Index:
    """The index as it was read."""

    def __init__(self, text: bytes) -> None:
        try:
            said = json.loads(text)
            if said["format"] not in (1, 2):
                raise ValueError(f"it has the format {said['format']!r}; this package knows 1 and 2")
            self.protected = {name: _layout(*rest) for name, *rest in said["protected"]}
            rows = [_saved(*row) for row in said["arrays"]]
            # Up to version 0.1 some were saved with the same name.
            names = distinct([saved.path for saved in rows])
            self.arrays = [saved._replace(path=name) for saved, name in zip(rows, names)]
            self.has_state = "state" in said
            self.tree = said.get("state")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DamagedError(f"the checkpoint's index cannot be understood: {error}") from None

    def regions(self) -> list[str]:
        """The names of the regions of the state's arrays."""
        return [name for name in dict.fromkeys(map(self._region, range(len(self.arrays)))) if name is not None]

    def _region(self, at: int) -> Optional[str]:
        return region_of(at, self.arrays[at].nbytes, self.arrays[at].place)

    def span(self, at: int, lengths: dict[str, int]) -> tuple[Optional[str], int, int]:
        """Where an array is: in which region, where it begins in that, and how many bytes it has."""
        saved, name = self.arrays[at], self._region(at)
        if name is None:
            return None, 0, 0
        if name not in lengths:
            raise DamagedError(f"the checkpoint's index has {saved.path} in {name}, which is not there")
        if saved.place is None:
            return name, 0, lengths[name]
        if saved.place + (saved.nbytes or 0) > lengths[name]:
            raise ValueError(f"{saved.path} is beyond the end of the short arrays")
        return name, saved.place, saved.nbytes or 0

    def spans(self, lengths: dict[str, int]) -> list[tuple[Optional[str], int, int]]:
        """Where all arrays are. Those in the pack do not overlap, so that what all take is bounded by the lengths of the
        regions that there are."""
        end, spans = 0, [self.span(at, lengths) for at in range(len(self.arrays))]
        for saved, (name, offset, nbytes) in zip(self.arrays, spans):
            if name == PACK:
                if offset < end:
                    raise ValueError(f"{saved.path} overlaps another of the short arrays")
                end = offset + nbytes
        return spans

    def check(self, lengths: dict[str, int]) -> None:
        """Raises where the state cannot be made of regions of these lengths. No array is made."""
        for saved, (_, _, nbytes) in zip(self.arrays, self.spans(lengths)):
            _buffers.check_length(saved.layout, nbytes)
        if self.has_state:
            built(self.tree, [None] * len(self.arrays))

    def room(self, at: int, placed: dict[str, Memory]) -> tuple[bytearray, int, int]:
        """Where an array is: a room, where it begins in that, and how many bytes it has."""
        name = self._region(at)
        lengths = {name: placed[name].nbytes} if name is not None and name in placed else {}
        _, offset, nbytes = self.span(at, lengths)
        return (bytearray() if name is None else placed[name].owner), offset, nbytes

    def made_one(self, at: int, placed: dict[str, Memory]) -> Any:
        """An array, made anew: with memory of its own, so that it lives no longer than it is needed."""
        room, offset, nbytes = self.room(at, placed)
        if self.arrays[at].place is not None:
            room = bytearray(memoryview(room)[offset : offset + nbytes])
        return _buffers.made(room, self.arrays[at].layout)

    def made(self, placed: dict[str, Memory]) -> list[Any]:
        """All arrays, made anew."""
        self.spans(_lengths(placed))
        return [self.made_one(at, placed) for at in range(len(self.arrays))]


def _saved(path: Any, *rest: Any) -> _Saved:
    layout, (nbytes, place) = _layout(*rest[:5]), rest[5:] or (None, None)
    if place is not None and not (type(place) is int and type(nbytes) is int and place >= 0 and nbytes >= 0):
        raise ValueError(f"{path} has {nbytes!r} bytes from {place!r} on")
    return _Saved(str(path), layout, nbytes, place)


def _layout(kind: Any, dtype: Any, shape: Any, order: Any, part: Any = "") -> Layout:
    shape = tuple(shape)
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"a shape is {shape!r}")
    layout = Layout(str(kind), str(dtype), shape, str(order), str(part))
    _buffers.outward_of(layout)
    return layout


def _same(there: dict[str, Layout], here: dict[str, Layout], what: str) -> None:
    """Raises with the differences. The order of the elements may be another: they are copied one by one then."""
    differences = [
        f"{what}{name} is {there.get(name, 'not')} there and {here.get(name, 'not')} here"
        for name in [*here, *(name for name in there if name not in here)]
        if _content(there.get(name)) != _content(here.get(name))
    ]
    if differences:
        more = f"; {len(differences) - _DIFFERENCES_MAX} more" if len(differences) > _DIFFERENCES_MAX else ""
        raise ShapeError(f"the checkpoint has other arrays: {'; '.join(differences[:_DIFFERENCES_MAX])}{more}")


def _content(layout: Optional[Layout]) -> Optional[tuple[Any, ...]]:
    return None if layout is None else layout.content


def _lengths(arrays: dict[str, Memory]) -> dict[str, int]:
    return {name: memory.nbytes for name, memory in arrays.items()}


def _sizes(lengths: dict[str, int]) -> str:
    said = [f"{name!r} of {length} bytes" for name, length in list(lengths.items())[:_DIFFERENCES_MAX]]
    return ", ".join(said) or "no arrays"
