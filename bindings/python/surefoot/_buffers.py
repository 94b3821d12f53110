# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memory of arrays and tensors: where it is, what it means, and how to make it anew.

NumPy and PyTorch are never imported here: an array of a library that the program has not imported cannot be there, and
one that is loaded needs the library anyway.
"""

from __future__ import annotations

import array
import ctypes
import importlib
import json
import mmap
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Optional

from ._errors import LibraryError, UnsupportedError

# Plain letters of the struct module, which a memoryview can be cast to.
_CASTABLE = frozenset("?bBhHiIlLqQnNfd")


@dataclass(frozen=True)
class Layout:
    """What the bytes of an array mean. `dtype` is a text: the library's own name of the type of its elements."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    order: str = "C"

    def __str__(self) -> str:
        order = "" if self.order == "C" else f" in order {self.order}"
        kind = self.kind if self.dtype in ("", "B") else f"{self.kind} of {self.dtype}"
        return f"{kind} {list(self.shape)}{order}"


class Memory:
    """The memory of one array, which it keeps alive: the array, and what `keeps` holds beside it."""

    __slots__ = ("_keeps", "address", "layout", "nbytes", "owner")

    def __init__(self, owner: Any, address: int, nbytes: int, layout: Layout, keeps: Any = None) -> None:
        self.owner = owner
        self.address = address
        self.nbytes = nbytes
        self.layout = layout
        self._keeps = keeps

    def renewed(self, where: str) -> Memory:
        """Itself, or where the memory is now: `tensor.data = other` gives the same tensor another memory."""
        if self.layout.kind not in ("numpy", "torch"):
            # A buffer that was handed out can be neither resized nor closed.
            return self
        now = hold(self.owner, where)
        # The former keeps what it keeps alive; the same address means the same memory.
        return self if (now.address, now.nbytes, now.layout) == (self.address, self.nbytes, self.layout) else now


def is_array(thing: Any) -> bool:
    """Whether a thing in a state is saved as memory. Bytes are not: nobody may write to them."""
    known = (bytearray, memoryview, array.array, mmap.mmap, ctypes.Array)
    return isinstance(thing, known + _types("numpy", "ndarray") + _types("torch", "Tensor"))


def hold(thing: Any, where: str) -> Memory:
    """The memory of an array that may be saved and written to in place; `where` is how an error calls it."""
    if isinstance(thing, _types("torch", "Tensor")):
        return _hold_tensor(thing, where)
    if isinstance(thing, _types("numpy", "ndarray")):
        return _hold_ndarray(thing, where)
    return _hold_buffer(thing, where)


def new_memory(nbytes: int) -> Memory:
    """Room for something that is not known yet."""
    return _hold_buffer(bytearray(nbytes), "new memory")


def made(room: Memory, layout: Layout) -> Any:
    """The array of a layout in a room that is filled already. Raises ValueError where the two do not fit."""
    raw, shape = room.owner, layout.shape
    if layout.kind == "torch":
        return _made_tensor(raw, layout)
    if layout.kind == "numpy":
        return _made_ndarray(raw, layout)
    if layout.kind == "array":
        new = array.array(layout.dtype)
        new.frombytes(raw)
        if shape != (len(new),):
            raise ValueError(f"{len(raw)} bytes are not {layout}")
        return new
    if layout.kind == "bytearray":
        if shape != (len(raw),):
            raise ValueError(f"{len(raw)} bytes are not {layout}")
        return raw
    if layout.kind != "buffer":
        raise ValueError(f"a {layout.kind} is not known here")
    letter = layout.dtype.lstrip("@")
    if letter in ("", "B") or letter not in _CASTABLE or not raw:
        return memoryview(raw)
    try:
        return memoryview(raw).cast(letter, list(shape))  # type: ignore[call-overload]
    except TypeError as error:
        raise ValueError(f"{len(raw)} bytes are not {layout}: {error}") from None


def _types(module: str, name: str) -> tuple[type, ...]:
    """A type of a library, where that is imported."""
    found = getattr(sys.modules.get(module), name, None)
    return (found,) if isinstance(found, type) else ()


def _imported(module: str) -> Any:
    """A library that what was saved needs."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise LibraryError(f"the checkpoint has arrays of {module}, which is not installed here") from None


def _refuse(where: str, why: str, remedy: str) -> UnsupportedError:
    return UnsupportedError(f"{where} {why}; {remedy}")


# Anything with the buffer protocol


def _hold_buffer(thing: Any, where: str) -> Memory:
    try:
        view = memoryview(thing)
    except TypeError:
        name = type(thing).__name__
        raise _refuse(where, f"is a {name}, which has no buffer", "give an array, a tensor or a bytearray") from None
    except (ValueError, BufferError) as error:
        raise _refuse(where, f"does not give its buffer: {error}", "is it closed?") from None
    if view.readonly:
        raise _refuse(where, "is read-only", "a restart could not fill it; give one that may be written to")
    if not view.c_contiguous:
        raise _refuse(where, "is not contiguous", "give a contiguous copy, and use that")
    if any(letter in view.format for letter in "OP&"):
        raise _refuse(where, f"holds addresses (format {view.format})", "they would mean nothing after a restart")
    kind = "array" if type(thing) is array.array else "bytearray" if type(thing) is bytearray else "buffer"
    dtype = thing.typecode if kind == "array" else view.format
    layout = Layout(kind, dtype, tuple(view.shape or ()))
    if view.nbytes == 0:
        return Memory(thing, 0, 0, layout, view)
    # The export in here keeps a bytearray from being resized, and a map from being closed.
    export = (ctypes.c_char * view.nbytes).from_buffer(view)
    return Memory(thing, ctypes.addressof(export), view.nbytes, layout, export)


# NumPy


def _hold_ndarray(thing: Any, where: str) -> Memory:
    if isinstance(thing, _types("numpy.ma", "MaskedArray")):
        raise _refuse(where, "is a masked array", "save its data and its mask")
    if thing.dtype.hasobject:
        raise _refuse(where, f"holds Python objects (dtype {thing.dtype})", "they would mean nothing after a restart")
    if not thing.flags.writeable:
        raise _refuse(where, "is read-only", "a restart could not fill it; give a copy, and use that")
    if thing.flags.c_contiguous:
        order = "C"
    elif thing.flags.f_contiguous:
        order = "F"
    else:
        raise _refuse(where, "is not contiguous", "give numpy.ascontiguousarray(it), and use that")
    layout = Layout("numpy", _dtype_text(thing.dtype), tuple(thing.shape), order)
    return Memory(thing, thing.ctypes.data if thing.nbytes else 0, thing.nbytes, layout)


def _dtype_text(dtype: Any) -> str:
    """A NumPy type as a text from which it can be made again."""
    if dtype.names is None:
        return str(dtype.str)
    return json.dumps(dtype.descr)


def _dtype_of(text: str) -> Any:
    numpy = _imported("numpy")

    def field(entry: Any) -> Any:
        name, kind, *shape = entry
        name = tuple(name) if isinstance(name, list) else name
        return (name, [field(inner) for inner in kind] if isinstance(kind, list) else kind, *map(tuple, shape))

    try:
        named = numpy.dtype([field(entry) for entry in json.loads(text)] if text.startswith("[") else text)
    except (TypeError, ValueError, SyntaxError) as error:
        raise ValueError(f"{text!r} is not a NumPy type: {error}") from None
    if named.hasobject:
        raise ValueError(f"{text!r} holds Python objects")
    return named


def check_comes_back(memory: Memory, where: str) -> None:
    """Refuses an array whose type has no words that another process would understand."""
    if memory.layout.kind == "numpy" and _dtype_of(memory.layout.dtype) != memory.owner.dtype:
        raise _refuse(where, f"is of {memory.owner.dtype}, whose name says too little", "view it as unsigned integers")


def _made_ndarray(raw: bytearray, layout: Layout) -> Any:
    numpy, dtype = _imported("numpy"), _dtype_of(layout.dtype)
    if _count(layout.shape) * dtype.itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes are not {layout}")
    if not raw:
        return numpy.empty(layout.shape, dtype, order=layout.order)
    return numpy.frombuffer(raw, dtype).reshape(layout.shape, order=layout.order)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


# PyTorch


def _hold_tensor(thing: Any, where: str) -> Memory:
    torch = sys.modules["torch"]
    if type(thing) not in (torch.Tensor, torch.nn.Parameter):
        raise _refuse(
            where, f"is a {type(thing).__name__}", "give the plain tensor in it, such as to_local() of a DTensor"
        )
    if thing.device.type != "cpu":
        raise _refuse(where, f"is on device {thing.device}", "give it as .cpu(), and copy it back after a restart")
    if thing.layout != torch.strided or thing.is_quantized:
        raise _refuse(where, f"is not a dense tensor ({thing.layout}, {thing.dtype})", "give its parts")
    if not thing.is_contiguous():
        raise _refuse(where, "is not contiguous", "give it as .contiguous(), and use that")
    if thing.is_conj() or thing.is_neg():
        raise _refuse(
            where, "is a view that is conjugated or negated when read", "give it as .resolve_conj().resolve_neg()"
        )
    nbytes = thing.numel() * thing.element_size()
    layout = Layout("torch", str(thing.dtype).replace("torch.", "", 1), tuple(thing.shape))
    # The tensor may be given another storage; this one must live until that is noticed.
    return Memory(thing, thing.data_ptr() if nbytes else 0, nbytes, layout, _storage_of(thing))


def _storage_of(tensor: Any) -> Any:
    # PyTorch before 2.0 has it with a type, and warns of that.
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tensor.storage()


def _made_tensor(raw: bytearray, layout: Layout) -> Any:
    torch = _imported("torch")
    dtype: Optional[Any] = getattr(torch, layout.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{layout.dtype!r} is not a PyTorch type")
    if _count(layout.shape) * torch.empty((), dtype=dtype).element_size() != len(raw):
        raise ValueError(f"{len(raw)} bytes are not {layout}")
    return torch.frombuffer(raw, dtype=dtype).reshape(layout.shape) if raw else torch.empty(layout.shape, dtype=dtype)
