# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which arrays of a state are regions of their own, and which lie together in one: the pack.

A region costs the library some tens of microseconds however short it is, and there is a limit on how many there are. So
short arrays are copied one after the other into the pack, and so are those whose elements do not lie one after the
other; long ones are saved from where they are. A state that has the same arrays as at the last save has the same plan,
and only its values are looked at anew.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
from typing import Any, Optional

from . import _buffers
from ._buffers import Layout, Memory
from ._state import Flat

# Up to this length copying an array costs less than a region of its own.
PACKED_BYTES_MAX = 256 << 10

# Regions of their own for the longest arrays of a state at most; the pack takes the others, however long they are.
DIRECT_COUNT_MAX = 3000

# Arrays begin at multiples of this in the pack, as vector instructions like it.
_ALIGNMENT = 64

_FORMAT = 2

# The names that begin with this are not the program's.
PREFIX = "python:"
INDEX = PREFIX + "index:"
STATE = PREFIX + "state:"
PACK = PREFIX + "pack"

# Python has them for texts that are not Unicode; JSON's escapes of the two are one letter.
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class Plan:
    """Where the arrays of a checkpoint are in it, and the part of its index that says so."""

    def __init__(self, protected: list[tuple[str, Layout]], flat: Optional[Flat]) -> None:
        self._protected = protected
        self._paths = [] if flat is None else flat.paths
        self._arrays = None if flat is None else flat.arrays
        self._kinds = _kinds(flat)
        arrays = [] if flat is None else flat.arrays
        limit = _packed_bytes_max(arrays)
        self.places: list[Optional[int]] = []
        self.regions: list[Optional[str]] = []
        self.pack_bytes = 0
        # Whether this package's reader has read the index of this plan.
        self.is_proved = False
        for number, memory in enumerate(arrays):
            if memory.nbytes > limit and not memory.copied:
                self.places.append(None)
            else:
                self.places.append(self.pack_bytes)
                self.pack_bytes += -(-memory.nbytes // _ALIGNMENT) * _ALIGNMENT
            self.regions.append(region_of(number, memory.nbytes, self.places[-1]))
        placed = zip(self._paths, arrays, self.places)
        said = {
            "format": _FORMAT,
            "protected": [_row(name, layout) for name, layout in protected],
            "arrays": [[*_row(path, memory.layout), memory.nbytes, place] for path, memory, place in placed],
        }
        self.text = encoded(said)
        self.index_name = INDEX + hashlib.blake2b(self.text, digest_size=12).hexdigest()

    def holds_for(self, protected: list[tuple[str, Layout]], flat: Optional[Flat]) -> bool:
        """Whether another checkpoint has the same arrays, by name, layout and order."""
        if flat is not None and flat.arrays is self._arrays:
            return self._protected == protected
        paths = [] if flat is None else flat.paths
        return self._paths == paths and self._protected == protected and self._kinds == _kinds(flat)

    def index(self, flat: Optional[Flat]) -> bytes:
        """The index of a state."""
        return self.text if flat is None else b'%s,"state":%s}' % (self.text[:-1], encoded(flat.tree))


class Pack:
    """What stays from one save to the next: the plan, and the buffer in which short arrays are saved."""

    def __init__(self) -> None:
        self._plan: Optional[Plan] = None
        self._flat: Optional[Flat] = None
        self._room = bytearray()

    def flat(self, state: Any) -> Flat:
        """A state, taken apart; what is as at the last time is not looked at twice."""
        self._flat = Flat(state, former=self._flat)
        return self._flat

    def plan(self, protected: list[tuple[str, Layout]], flat: Optional[Flat]) -> Plan:
        """The plan of the last save where it still holds, else a new one."""
        if self._plan is None or not self._plan.holds_for(protected, flat):
            self._plan = Plan(protected, flat)
        return self._plan

    def region(self, nbytes: int) -> Memory:
        """The buffer, as a region of a length."""
        if not nbytes <= len(self._room) <= 4 * nbytes + (1 << 20):
            # The former is gone when nobody refers to its region any more.
            self._room = bytearray(nbytes)
        address = _buffers.address_of(self._room)
        export = memoryview(self._room)
        return Memory(self._room, address, nbytes, Layout("bytearray", "B", (nbytes,)), address, export)


def region_of(number: int, nbytes: Optional[int], place: Optional[int]) -> Optional[str]:
    """The region that has the bytes of a state's array; None for an array without bytes, which needs none. Saving and
    loading both ask here, so that no region is expected that was not saved."""
    if place is None:
        return f"{STATE}{number}"
    return PACK if nbytes else None


def gather(places: list[Optional[int]], arrays: list[Memory], region: Memory) -> None:
    """Copies arrays to their places in the pack."""
    copy, start = ctypes.memmove, region.address
    for place, memory in zip(places, arrays):
        if place is None:
            pass
        elif memory.copied:
            memory.copy_to(region.owner, place)
        elif memory.nbytes:
            copy(start + place, memory.address, memory.nbytes)


def _packed_bytes_max(arrays: list[Memory]) -> int:
    """Up to which length arrays go into the pack."""
    long = sorted(memory.nbytes for memory in arrays if memory.nbytes > PACKED_BYTES_MAX and not memory.copied)
    return PACKED_BYTES_MAX if len(long) <= DIRECT_COUNT_MAX else long[-DIRECT_COUNT_MAX - 1]


def _kinds(flat: Optional[Flat]) -> list[tuple[Layout, int, bool]]:
    return [] if flat is None else [(memory.layout, memory.nbytes, memory.copied) for memory in flat.arrays]


def encoded(said: Any) -> bytes:
    """As JSON, in ASCII. Only a text with two surrogates in a row is written as they are: escaped, a reader would join the two
    into one letter."""
    text = json.dumps(said, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    if not text.isascii():
        if _PAIR.search(text):
            return text.encode("utf-8", "surrogatepass")
        text = json.dumps(said, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _row(name: str, layout: Layout) -> list[Any]:
    return [name, layout.kind, layout.dtype, list(layout.shape), layout.order, layout.part]
