# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memory of arrays and tensors: where it is, what it means, and how to make it anew.

NumPy and PyTorch are never imported here: an array of a library that the program has not imported cannot be there, and
one that is loaded needs the library anyway. Their arrays are the work of `_ndarrays` and `_tensors`; what is here is what
all have in common, and everything else with the buffer protocol.
"""

from __future__ import annotations

import array
import ctypes
import importlib
import math
import mmap
import struct
import sys
from typing import Any, Hashable, NamedTuple, Optional, Sequence

from ._errors import LibraryError, UnsupportedError

# Plain letters of the struct module, which a memoryview can be cast to.
_CASTABLE = frozenset("?cbBhHiIlLqQnNfd")

_BUFFERS = (bytearray, memoryview, array.array, mmap.mmap, ctypes.Array)


class Layout(NamedTuple):
    """What the bytes of an array mean. `dtype` is a text: the library's own name of the type of its elements."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    order: str = "C"
    """How the elements follow each other: C, F, or the dimensions from the outermost to the innermost: 0,2,3,1."""
    part: str = ""
    """Of a distributed tensor: which part of it this is."""

    def __str__(self) -> str:
        order = "" if self.order == "C" else f" in order {self.order}"
        kind = self.kind if self.dtype in ("", "B") else f"{self.kind} of {self.dtype}"
        return f"{kind} {list(self.shape)}{order}{', ' if self.part else ''}{self.part}"

    @property
    def content(self) -> tuple[Any, ...]:
        """All but the order, which a copy can change."""
        return (self.kind, self.dtype, self.shape, self.part)


class Memory:
    """The memory of one array, which it keeps alive.

    Where the elements lie one after the other, `address` is that of the array. Where they do not, as in a slice, `copied`
    is true: a save needs a copy of them, in a room of this memory's own (`staged`) or in one that it shares with others.
    """

    __slots__ = ("_keeps", "_room", "address", "array", "copied", "fillable", "layout", "nbytes", "owner", "same")

    def __init__(
        self,
        owner: Any,
        address: int,
        nbytes: int,
        layout: Layout,
        same: Hashable,
        keeps: Any = None,
        copied: bool = False,
        fillable: bool = True,
        array: Any = None,
    ) -> None:
        self.owner = owner
        # What is copied from and to: the owner itself, but for a distributed tensor.
        self.array = owner if array is None else array
        self.address = address
        self.nbytes = nbytes
        self.layout = layout
        # With the layout, what tells this memory from others.
        self.same = same
        self.copied = copied
        # Whether a restart may write into the array.
        self.fillable = fillable
        self._keeps = keeps
        self._room: Optional[bytearray] = None

    def staged(self) -> Memory:
        """Itself, with a room of its own where its elements have to be copied."""
        if self.copied and self._room is None:
            self._room = bytearray(self.nbytes)
            self.address = address_of(self._room)
        return self

    def kept(self) -> Memory:
        """Itself; from now on the memory stays even where the array is given another one."""
        if self._keeps is None and self.layout.kind == "torch":
            from . import _tensors

            self._keeps = _tensors.storage_of(self.array)
        return self

    def renewed(self, where: str) -> Memory:
        """Itself, or where the memory is now: `tensor.data = other` gives the same tensor another memory."""
        if self.layout.kind not in ("numpy", "torch"):
            # A buffer that was handed out can be neither resized nor closed.
            return self
        now = hold_in_place(self.owner, where)
        # The former keeps what it keeps alive; the same address means the same memory.
        return self if (now.same, now.layout) == (self.same, self.layout) else now

    def gather(self) -> None:
        """Copies what is in the array to the room, where there is one."""
        if self._room is not None:
            self.copy_to(self._room, 0)

    def scatter(self) -> None:
        """Copies what is in the room to the array, where there is one."""
        if self._room is not None:
            self.fill_from(self._room, 0, self.layout)

    def copy_to(self, room: bytearray, offset: int) -> None:
        """Copies the elements into a room, in the order of the layout."""
        if not self.nbytes:
            return
        if not self.copied:
            ctypes.memmove(address_of(room) + offset, self.address, self.nbytes)
        elif self.layout.kind == "buffer":
            room[offset : offset + self.nbytes] = memoryview(self.array).tobytes()
        else:
            _assign(lent(room, offset, self.layout), self.array)

    def fill_from(self, room: bytearray, offset: int, layout: Layout) -> None:
        """Fills the array with what lies in a room, in the order of `layout`."""
        if not self.nbytes:
            return
        if not self.copied and layout.order == self.layout.order:
            ctypes.memmove(self.address, address_of(room) + offset, self.nbytes)
        elif self.layout.kind == "buffer":
            view = memoryview(self.array)
            view[:] = memoryview(room)[offset : offset + self.nbytes].cast(view.format)  # type: ignore[call-overload]
        else:
            _assign(self.array, lent(room, offset, layout))


def _assign(target: Any, source: Any) -> None:
    if hasattr(target, "copy_"):
        target.detach().copy_(source.detach())
    else:
        target[...] = source


def is_array(thing: Any) -> bool:
    """Whether a thing in a state is saved as memory. Bytes are not: they go along with the other values."""
    return isinstance(thing, _BUFFERS + types_of("numpy", "ndarray") + types_of("torch", "Tensor"))


def expect_plain(thing: Any, where: str) -> None:
    """Raises UnsupportedError for what a state would bring back as a memoryview: an array or a bytearray of a class of the program,
    a map of memory, an array of ctypes."""
    if isinstance(thing, (mmap.mmap, ctypes.Array)):
        why = f"is a {type(thing).__module__}.{type(thing).__qualname__}, which would come back as a memoryview"
        raise refuse(where, why, "give memoryview(it), or protect() it, which fills it where it is")
    for plain in (array.array, bytearray):
        if isinstance(thing, plain) and type(thing) is not plain:
            why = f"is a {type(thing).__qualname__}, which would come back as a memoryview"
            raise refuse(where, why, f"give a {plain.__name__} of its content, or protect() it, which fills it where it is")


def hold(thing: Any, where: str) -> Memory:
    """The memory of an array that may be saved; `where` is how an error calls it."""
    if isinstance(thing, types_of("torch", "Tensor")):
        from . import _tensors

        return _tensors.hold(thing, where)
    if isinstance(thing, types_of("numpy", "ndarray")):
        from . import _ndarrays

        return _ndarrays.hold(thing, where)
    return _hold_buffer(thing, where)


def hold_in_place(thing: Any, where: str) -> Memory:
    """The memory of an array that a restart can fill where it is."""
    memory = hold(thing, where)
    if not memory.fillable:
        why = "is read-only, or shows an element more than once"
        raise refuse(where, why, "a restart could not fill it; give a copy, and use that")
    return memory.staged().kept()


def new_memory(nbytes: int) -> Memory:
    """Room for something that is not known yet."""
    return _hold_buffer(bytearray(nbytes), "new memory")


def address_of(room: bytearray) -> int:
    """Where the bytes of a bytearray are, as long as somebody holds its buffer, or does not resize it."""
    return ctypes.addressof(ctypes.c_char.from_buffer(room)) if room else 0


def lent(room: bytearray, offset: int, layout: Layout) -> Any:
    """The array of a layout in a part of a room, whose memory it uses."""
    if layout.kind == "torch":
        from . import _tensors

        return _tensors.lent(room, offset, layout)
    if layout.kind == "numpy":
        from . import _ndarrays

        return _ndarrays.lent(room, offset, layout)
    raise ValueError(f"a {layout.kind} is not known here")


def made(room: bytearray, layout: Layout) -> Any:
    """The array of a layout in a room that is filled already. Raises ValueError where the two do not fit."""
    check_length(layout, len(room))
    if layout.kind in ("torch", "numpy"):
        return lent(room, 0, layout)
    if layout.kind == "array":
        new = array.array(layout.dtype)
        new.frombytes(room)
        return new
    if layout.kind == "bytearray":
        return room
    letter = _letter_of(layout)
    if not letter or (not room and len(layout.shape) != 1):
        # Python makes no other view of it than one of bytes.
        return memoryview(room)
    if not room:
        # A view without elements cannot be cast.
        one: memoryview = memoryview(bytearray(struct.calcsize(letter))).cast(letter)  # type: ignore[call-overload]
        return one[:0]
    return memoryview(room).cast(letter, layout.shape)  # type: ignore[call-overload]


def check_length(layout: Layout, nbytes: int) -> None:
    """Raises ValueError where there is no array of a layout, or where it has not so many bytes."""
    itemsize: Optional[int] = 1
    if layout.kind == "torch":
        from . import _tensors

        itemsize = _tensors.dtype_of(layout.dtype).itemsize
    elif layout.kind == "numpy":
        from . import _ndarrays

        itemsize = _ndarrays.dtype_of(layout.dtype).itemsize
    elif layout.kind == "array":
        itemsize = array.array(layout.dtype).itemsize
    elif layout.kind == "buffer":
        letter = _letter_of(layout)
        itemsize = struct.calcsize(letter) if letter else None
    elif layout.kind != "bytearray":
        raise ValueError(f"a {layout.kind} is not known here")
    if layout.kind in ("array", "bytearray") and len(layout.shape) != 1:
        raise ValueError(f"there is no {layout}")
    if itemsize is not None and math.prod(layout.shape) * itemsize != nbytes:
        raise ValueError(f"{nbytes} bytes are not {layout}")


def _letter_of(layout: Layout) -> str:
    """The letter of a memoryview's elements; empty where Python cannot make such a view. ctypes writes the byte order of the
    host in front."""
    order, letter = layout.dtype[:-1], layout.dtype[-1:] or "B"
    native = "<" if sys.byteorder == "little" else ">"
    is_native = order in ("", "@") or (order == native and struct.calcsize(order + letter) == struct.calcsize(letter))
    return letter if letter in _CASTABLE and is_native else ""


def check_bytes(memory: Memory, nbytes: int) -> None:
    """Raises ValueError where an array cannot be filled with so many bytes."""
    if memory.nbytes != nbytes:
        raise ValueError(f"{nbytes} bytes are not {memory.layout}")


def dense_order(shape: Sequence[int], strides: Sequence[int]) -> Optional[str]:
    """In which order dimensions lie whose elements fill their memory without a gap; None where they do not. Strides are in
    elements."""
    outward = sorted(range(len(shape)), key=lambda at: (-strides[at], at))
    expected = 1
    for at in reversed(outward):
        if shape[at] != 1 and strides[at] != expected:
            return None
        expected *= shape[at]
    return ",".join(map(str, outward))


def outward_of(layout: Layout) -> list[int]:
    """The dimensions of a layout from the outermost to the innermost. Raises ValueError where its order is not one."""
    count = len(layout.shape)
    if layout.order == "C":
        return list(range(count))
    if layout.order == "F":
        return list(reversed(range(count)))
    outward = [int(word) for word in layout.order.split(",")]
    if sorted(outward) != list(range(count)):
        raise ValueError(f"{layout} has an order of other dimensions")
    return outward


def stored_of(layout: Layout) -> tuple[list[int], int, list[int]]:
    """How a layout lies in memory: its lengths from the outermost dimension to the innermost, the number of its elements, and where
    each of its dimensions is among those lengths. Raises ValueError where its order is not one."""
    outward = outward_of(layout)
    places = [0] * len(outward)
    count = 1
    for place, at in enumerate(outward):
        places[at] = place
        count *= layout.shape[at]
    return [layout.shape[at] for at in outward], count, places


def types_of(module: str, name: str) -> tuple[type, ...]:
    """A type of a library, where that is imported."""
    found = getattr(sys.modules.get(module), name, None)
    return (found,) if isinstance(found, type) else ()


def imported(module: str) -> Any:
    """A library that what was saved needs: one of the few that this package names."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise LibraryError(f"the checkpoint has arrays or types of {module}, which is not installed here") from None


def refuse(where: str, why: str, remedy: str) -> UnsupportedError:
    """The error for what cannot be saved."""
    return UnsupportedError(f"{where} {why}; {remedy}")


def _hold_buffer(thing: Any, where: str) -> Memory:
    try:
        view = memoryview(thing)
    except TypeError:
        name = type(thing).__name__
        raise refuse(where, f"is a {name}, which has no buffer", "give an array, a tensor or a bytearray") from None
    except (ValueError, BufferError) as error:
        raise refuse(where, f"does not give its buffer: {error}", "is it closed?") from None
    if any(letter in view.format for letter in "OP&"):
        raise refuse(where, f"holds addresses (format {view.format})", "they would mean nothing after a restart")
    kind = "array" if type(thing) is array.array else "bytearray" if type(thing) is bytearray else "buffer"
    dtype = thing.typecode if kind == "array" else view.format
    layout = Layout(kind, dtype, tuple(view.shape or ()))
    if view.nbytes == 0:
        return Memory(thing, 0, 0, layout, id(thing), view, fillable=not view.readonly)
    if view.readonly or not view.c_contiguous:
        # Other views than those of one dimension cannot be assigned to.
        fillable = not view.readonly and view.ndim == 1 and view.format in _CASTABLE
        return Memory(thing, 0, view.nbytes, layout, id(thing), view, copied=True, fillable=fillable)
    # The export in here keeps a bytearray from being resized, and a map from being closed.
    export = (ctypes.c_char * view.nbytes).from_buffer(view)
    address = ctypes.addressof(export)
    return Memory(thing, address, view.nbytes, layout, address, export)
