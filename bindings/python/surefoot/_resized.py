# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A checkpoint of any number of ranks, open for reading."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from . import _buffers
from ._buffers import Memory
from ._errors import OptionError, SurefootError
from ._index import INDEX_BYTES_MAX, PREFIX, index_of, state_of

_Read = Callable[[list[tuple[int, str, int, Memory]], Optional[Exception]], None]


@dataclass(frozen=True)
class Resized:
    """The newest intact checkpoint, of however many ranks. `read` and `state` are called by all ranks."""

    generation: int
    """Its number."""
    taken_realtime_ns: int
    """When it was taken, nanoseconds since 1970."""
    ranks: int
    """How many ranks saved it."""
    report: tuple[str, ...]
    """What this rank met while it was proved."""
    regions: tuple[tuple[int, str, int], ...] = field(repr=False)
    """Everything in it: the rank that saved it, its name (`file:NAME` of a routed file), its length."""
    _read: _Read = field(repr=False)

    def entries(self) -> list[tuple[int, str, int]]:
        """Arrays and files: the rank that saved each, its name (`file:NAME` of a routed file), its length in bytes."""
        return [entry for entry in self.regions if not entry[1].startswith(PREFIX)]

    def read(self, *pieces: tuple[Any, ...]) -> None:
        """Fills arrays from what any of the ranks saved, checked and repaired, wherever it is. Each piece is
        `(rank, name, array)` or `(rank, name, array, offset)`, with an offset in bytes; a rank that wants nothing passes
        none. All ranks call it."""
        wanted: list[tuple[int, str, int, Memory]] = []
        error: Optional[Exception] = None
        try:
            for rank, name, array, *rest in pieces:
                offset = int(rest[0]) if rest else 0
                memory = _buffers.hold(array, f"the room for {name!r}")
                self._expect(rank, name, offset, memory.nbytes)
                wanted.append((rank, name, offset, memory))
        except Exception as caught:
            error = caught
        self._read(wanted, error)

    def state(self, rank: int) -> Any:
        """The state that a rank saved, made anew; None where it saved none. All ranks call it, each for the rank whose
        state it wants."""
        lengths = {name: length for of, name, length in self.regions if of == rank}
        index = index_of(list(lengths))
        error: Optional[Exception] = None
        room: Optional[Memory] = None
        try:
            if not lengths:
                raise OptionError(f"piece: there is no rank {rank}, there are {self.ranks}")
            if index is not None and lengths[index] > INDEX_BYTES_MAX:
                raise OptionError(f"piece: the index of rank {rank} has {lengths[index]} bytes")
            room = _buffers.new_memory(lengths[index] if index is not None else 0)
        except (SurefootError, MemoryError) as caught:
            error = caught
        self._read([] if index is None or room is None else [(rank, index, 0, room)], error)
        done = False

        def read(memories: dict[str, Memory]) -> None:
            nonlocal done
            done = True
            self._read([(rank, name, 0, memory) for name, memory in memories.items()], None)

        try:
            if index is None or room is None:
                read({})
                return None
            return state_of(bytes(room.owner), lengths, read)
        except (SurefootError, MemoryError) as caught:
            if not done:
                # The others wait for what this rank wants.
                self._read([], caught)
            raise

    def _expect(self, rank: int, name: str, offset: int, nbytes: int) -> None:
        length = next((length for of, known, length in self.regions if (of, known) == (rank, name)), None)
        if length is None:
            raise OptionError(f"piece: rank {rank} saved nothing called {name!r}")
        if offset < 0 or offset + nbytes > length:
            raise OptionError(f"piece: {name!r} of rank {rank} has {length} bytes, not {nbytes} from {offset} on")
