# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Arrays of NumPy, and the types of their elements as texts from which they can be made again.

A type is NumPy's own short text (`<f4`, `<M8[ns]`), a JSON list of fields where NumPy's `descr` says all there is, a JSON
object where fields overlap, have gaps or titles, and `ml_dtypes:NAME` for the small floats and integers of that library.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Optional

from ._buffers import Layout, Memory, dense_order, imported, refuse, stored_of, types_of
from ._errors import LibraryError

# What a state's array or scalar comes back as beside the plain ones: the classes of NumPy's own, and types whose elements are
# records.
_CLASSES = ("matrix", "recarray", "chararray")

# Longer than any that NumPy makes of a type without fields. Older versions evaluate what stands before a comma.
_PLAIN = re.compile(r"[<>|=]?[?A-Za-z][0-9]{0,18}(\[[0-9]{0,18}[A-Za-zμ]{1,8}(/[0-9]{1,18})?\])?")
_SMALL = re.compile(r"ml_dtypes:([a-z][a-z0-9_]{1,40})")

# How deep the fields of a type may be nested, and how long its text may be.
_DEPTH_MAX = 20
_TEXT_MAX = 1 << 20

_texts: dict[Any, str] = {}


def hold(thing: Any, where: str) -> Memory:
    """The memory of an array."""
    if isinstance(thing, types_of("numpy.ma", "MaskedArray")):
        raise refuse(where, "is a masked array", "save its data and its mask")
    dtype = thing.dtype
    if dtype.hasobject:
        raise refuse(where, f"holds Python objects (dtype {dtype})", "they would mean nothing after a restart")
    text = _texts.get(dtype) if dtype.names is None else None
    if text is None:
        text = text_of(dtype, where)
        if dtype.names is None and len(_texts) < 1000:
            _texts[dtype] = text
    flags, nbytes, shape = thing.flags, thing.nbytes, tuple(thing.shape)
    address = thing.ctypes.data if nbytes else 0
    order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else None
    if order is None and dtype.itemsize and not any(stride % dtype.itemsize for stride in thing.strides):
        order = dense_order(shape, [stride // dtype.itemsize for stride in thing.strides])
    layout = Layout("numpy", text, shape, order or "C")
    if order is None:
        # Elements that are shown more than once would be filled more than once.
        shown = flags.writeable and not any(stride == 0 < count - 1 for stride, count in zip(thing.strides, shape))
        same = (address, thing.strides, *_beside(thing))
        return Memory(thing, 0, nbytes, layout, same, copied=True, fillable=shown)
    same = (address, *_beside(thing)) if address and _beside(thing) else address or id(thing)
    return Memory(thing, address, nbytes, layout, same, fillable=flags.writeable)


def _beside(thing: Any) -> tuple[Any, ...]:
    """What an array is beside a plain one: one of another class is not the same, though it shows the same memory."""
    kind, of = type(thing), thing.dtype.type
    is_plain = kind is sys.modules["numpy"].ndarray and of is not sys.modules["numpy"].record
    return () if is_plain else (kind, of)


def view_of(thing: Any, where: str) -> Optional[str]:
    """What an array or a scalar in a state is beside a plain one of its type; None where it is that. Raises UnsupportedError
    for a class that is not NumPy's own: it could only be made again by running the program's code."""
    numpy, kind = sys.modules["numpy"], type(thing)
    if kind is numpy.ndarray or isinstance(thing, numpy.generic):
        return "record" if thing.dtype.type is numpy.record else None
    for name in _CLASSES:
        if kind is _class_of(name):
            return name
    if isinstance(thing, types_of("numpy.ma", "MaskedArray")):
        return None
    raise refuse(
        where,
        f"is a {kind.__module__}.{kind.__qualname__}, which would come back as a plain array",
        "give numpy.asarray(it), or protect() it, which fills it where it is",
    )


def viewed(name: Any, thing: Any) -> Any:
    """An array, which may not be made yet, or a scalar as what `view_of` said. Raises ValueError where it cannot be that."""
    if thing is None and (name == "record" or name in _CLASSES):
        # Where no array is made.
        return None
    numpy = imported("numpy")
    if name == "record" and isinstance(thing, (numpy.ndarray, numpy.void)) and thing.dtype.names is not None:
        if thing.dtype.type is numpy.record:
            return thing
        records = numpy.asarray(thing).view(numpy.dtype((numpy.record, thing.dtype)))
        return records if isinstance(thing, numpy.ndarray) else records[()]
    if name not in _CLASSES or not isinstance(thing, numpy.ndarray):
        raise ValueError(f"{name!r} is not a class of NumPy for this")
    kind = _class_of(name)
    if type(thing) is kind:
        return thing
    if name == "matrix" and thing.ndim != 2:
        raise ValueError(f"a matrix has 2 dimensions, not {thing.ndim}")
    return thing.view(kind)


def _class_of(name: str) -> Any:
    numpy = imported("numpy")
    return getattr(numpy.char if name == "chararray" else numpy, name)


def lent(room: bytearray, offset: int, layout: Layout) -> Any:
    """An array in a part of a room, whose memory it uses."""
    numpy, dtype = imported("numpy"), dtype_of(layout.dtype)
    shape, count, places = stored_of(layout)
    if not dtype.itemsize:
        return _without_bytes(layout.shape, dtype)
    if not count:
        return numpy.empty(layout.shape, dtype)
    return numpy.frombuffer(room, dtype, count, offset).reshape(shape).transpose(places)


def text_of(dtype: Any, where: str) -> str:
    """A type as a text, from which the very same type can be made."""
    small = type(dtype.type) is type and dtype.type.__module__ == "ml_dtypes"
    texts = [f"ml_dtypes:{dtype.name}"] if small else [str(dtype.str)]
    if dtype.names is not None:
        try:
            texts = [json.dumps(dtype.descr)]
        except ValueError:
            # Fields that overlap have no such list.
            texts = []
        texts.append(json.dumps(_described(dtype, where)))
    for text in texts:
        try:
            if dtype_of(text) == dtype:
                return text
        except (ValueError, LibraryError):
            pass
    raise refuse(where, f"is of {dtype}, whose name says too little", "view it as unsigned integers")


def _described(dtype: Any, where: str) -> Any:
    """A type with fields, in full."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"of": _described(base, where), "shape": list(shape)}
    if dtype.names is None:
        return text_of(dtype, where)
    fields = []
    for name in dtype.names:
        inner, offset, *title = dtype.fields[name]
        fields.append([name, _described(inner, where), offset, *title])
    return {"fields": fields, "itemsize": dtype.itemsize, "aligned": bool(dtype.isalignedstruct)}


def dtype_of(text: str) -> Any:
    """The type of a text. Raises ValueError where there is none, or where its elements are Python objects."""
    numpy = imported("numpy")
    if len(text) > _TEXT_MAX:
        raise ValueError(f"a NumPy type has a name of {len(text)} letters")
    try:
        if text.startswith("["):
            named = numpy.dtype([_field(entry, 0) for entry in json.loads(text)])
        else:
            named = _made(json.loads(text) if text.startswith("{") else text, numpy, 0)
    except (TypeError, KeyError, ValueError, SyntaxError, RecursionError, OverflowError) as error:
        raise ValueError(f"{text[:100]!r} is not a NumPy type: {error}") from None
    if named.hasobject:
        raise ValueError(f"{text[:100]!r} holds Python objects")
    return named


def _plain(text: Any) -> str:
    if not isinstance(text, str) or not _PLAIN.fullmatch(text):
        raise ValueError(f"{text!r} is not the name of one")
    return text


def _field(entry: Any, depth: int) -> Any:
    """A field of a list as NumPy wants it."""
    name, kind, *shape = entry
    if depth > _DEPTH_MAX:
        raise ValueError("its fields are nested too deep")
    name = tuple(name) if isinstance(name, list) else name
    kind = [_field(inner, depth + 1) for inner in kind] if isinstance(kind, list) else _plain(kind)
    return (name, kind, *map(tuple, shape))


def _made(said: Any, numpy: Any, depth: int) -> Any:
    """The type of what `_described` said."""
    if depth > _DEPTH_MAX:
        raise ValueError("its fields are nested too deep")
    if isinstance(said, str):
        small = _SMALL.fullmatch(said)
        if small is None:
            return numpy.dtype(_plain(said))
        found = vars(imported("ml_dtypes")).get(small[1])
        if not isinstance(found, type) or not issubclass(found, numpy.generic):
            raise ValueError(f"this version of ml_dtypes has no {small[1]}")
        return numpy.dtype(found)
    if "of" in said:
        return numpy.dtype((_made(said["of"], numpy, depth + 1), tuple(said["shape"])))
    fields = said["fields"]
    described = {
        "names": [field[0] for field in fields],
        "formats": [_made(field[1], numpy, depth + 1) for field in fields],
        "offsets": [field[2] for field in fields],
        "itemsize": said["itemsize"],
    }
    if any(len(field) > 3 for field in fields):
        described["titles"] = [field[3] if len(field) > 3 else None for field in fields]
    return numpy.dtype(described, align=bool(said["aligned"]))


def is_ndarray(thing: Any) -> bool:
    """Whether it is an array of NumPy."""
    return isinstance(thing, types_of("numpy", "ndarray"))


def is_scalar(thing: Any) -> bool:
    """Whether it is a scalar of NumPy that can be saved."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(thing, numpy.generic) and not thing.dtype.hasobject


def scalar(text: str, content: bytes) -> Any:
    """A scalar from its type and its bytes."""
    dtype = dtype_of(text)
    if not dtype.itemsize:
        # Version 0.1 saved empty texts with the zero that ends them.
        return _without_bytes((), dtype)[()]
    if len(content) != dtype.itemsize:
        raise ValueError(f"{len(content)} bytes are no {text}")
    # An element of an array loses the zeros at its end, and two keys of a dict could become one.
    if dtype.kind == "S":
        return dtype.type(bytes(content))
    if dtype.kind == "U":
        is_big = dtype.byteorder == ">" or (dtype.byteorder == "=" and sys.byteorder == "big")
        return dtype.type(bytes(content).decode("utf-32-be" if is_big else "utf-32-le"))
    return imported("numpy").frombuffer(bytearray(content), dtype, 1)[0]


def bytes_of(scalar: Any) -> bytes:
    """The bytes of a scalar. NumPy gives an empty text the zero that ends it as well."""
    return bytes(scalar.tobytes()[: scalar.dtype.itemsize])


def _without_bytes(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array whose elements have no bytes. Asked for one of `S0` or `U0`, NumPy makes `S1` or `U1`, but not in a field."""
    return imported("numpy").zeros(shape, [("only", dtype)])["only"]
