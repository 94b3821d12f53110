# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Plain types beyond those of JSON, to a tree and back.

Each is an object whose first key names its type:

    {"set": [...]}                                      and frozenset
    {"deque": [[...], maxlen]}
    {"range": [start, stop, step]}
    {"namedtuple": [module, class, [[field, value], ...]]}
    {"enum": [module, class, [name, ...]]}              several names: flags that are set together
    {"namespace": ["argparse", [[name, value], ...]]}   and types.SimpleNamespace
    {"path": ["PosixPath", "/ssd"]}
    {"time": ["datetime", [2026, 11, 22, ...], ...]}    and date, time, timedelta, timezone, ZoneInfo
    {"torch": ["Size", [3, 4]]}                         and dtype, device, layout, memory_format
    {"dtype": "<f4"}                                    of NumPy

A named tuple or an enumeration is found by its name among the classes that the program has imported already, and is
made without calling anything of the class but what Python's own `tuple` and `Enum` do. Nothing is imported because a
checkpoint says so.
"""

from __future__ import annotations

import argparse
import datetime
import enum
import pathlib
import re
import sys
import types
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, Callable, Optional

from . import _ndarrays, _tensors
from ._buffers import imported
from ._errors import LibraryError, UnsupportedError

Take = Callable[[Any, str], Any]
Build = Callable[[Any], Any]

_FACTORIES: dict[str, Any] = {
    made.__name__: made
    for made in (list, dict, set, frozenset, tuple, int, float, complex, bool, str, bytes, OrderedDict, Counter, deque)
}
_NAMESPACES: dict[str, Any] = {"argparse": argparse.Namespace, "types": types.SimpleNamespace}
_PATHS: dict[str, Any] = {
    kind.__name__: kind for kind in (type(pathlib.Path()), pathlib.PurePosixPath, pathlib.PureWindowsPath)
}
_TORCH = ("Size", "dtype", "device", "layout", "memory_format")
_DEVICE = re.compile(r"[a-z]{1,30}(:[0-9]{1,5})?")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")


def taken(thing: Any, take: Take, path: str) -> Optional[Any]:
    """The tree of a thing; None where its type is not one of these. `take` does the parts of it."""
    kind = type(thing)
    if kind is set or kind is frozenset:
        return {kind.__name__: [take(part, f"an element of {path}") for part in thing]}
    if isinstance(thing, enum.Enum):
        return {"enum": _taken_enum(thing, path)}
    if isinstance(thing, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        return {"namedtuple": _taken_namedtuple(thing, take, path)}
    if kind is deque:
        return {"deque": [[take(part, f"{path}[{at}]") for at, part in enumerate(thing)], thing.maxlen]}
    if kind is range:
        return {"range": [take(number, path) for number in (thing.start, thing.stop, thing.step)]}
    for name, known in _NAMESPACES.items():
        if kind is known:
            parts = [[take(key, path), take(value, f"{path}.{key}")] for key, value in vars(thing).items()]
            return {"namespace": [name, parts]}
    if kind.__name__ in _PATHS and kind is _PATHS[kind.__name__]:
        return {"path": [kind.__name__, str(thing)]}
    time = _taken_time(thing, take, path)
    if time is not None:
        return {"time": time}
    return _taken_of_libraries(thing, kind)


def factory_of(thing: Any, path: str) -> Optional[str]:
    """The name of what a defaultdict makes for a key that it lacks."""
    factory = thing.default_factory
    name = None if factory is None else getattr(factory, "__name__", "")
    if name is not None and _FACTORIES.get(name) is not factory:
        raise UnsupportedError(
            f"{path} is a defaultdict of {factory!r}, which a text cannot name; give dict(it), or one of "
            f"{', '.join(_FACTORIES)}"
        )
    return name


def _taken_namedtuple(thing: Any, take: Take, path: str) -> list[Any]:
    kind = type(thing)
    if getattr(thing, "__dict__", None):
        raise UnsupportedError(f"{path} is a {kind.__qualname__} with attributes beside its fields; give a dict")
    _check_named(kind, path)
    parts = [[field, take(value, f"{path}.{field}")] for field, value in zip(kind._fields, tuple(thing))]
    if len(parts) != len(tuple(thing)):
        raise UnsupportedError(f"{path} is a {kind.__qualname__} whose fields are not its parts; give a tuple")
    return [kind.__module__, kind.__qualname__, parts]


def _taken_enum(thing: Any, path: str) -> list[Any]:
    kind = type(thing)
    _check_named(kind, path)
    members = vars(kind)["_member_map_"]
    if members.get(thing.name) is thing:
        return [kind.__module__, kind.__qualname__, [thing.name]]
    if isinstance(thing, enum.Flag) and isinstance(thing.value, int):
        names = [name for name, flag in members.items() if flag.value and flag.value & thing.value == flag.value]
        together = 0
        for name in names:
            together |= members[name].value
        if together == thing.value:
            return [kind.__module__, kind.__qualname__, names]
    raise UnsupportedError(f"{path} is {thing!r}, which has no name; give its value")


def _taken_time(thing: Any, take: Take, path: str) -> Optional[list[Any]]:
    kind = type(thing)
    if kind is datetime.datetime:
        parts = [thing.year, thing.month, thing.day, thing.hour, thing.minute, thing.second, thing.microsecond]
        return ["datetime", parts, thing.fold, take(thing.tzinfo, f"{path}.tzinfo")]
    if kind is datetime.date:
        return ["date", [thing.year, thing.month, thing.day]]
    if kind is datetime.time:
        parts = [thing.hour, thing.minute, thing.second, thing.microsecond]
        return ["time", parts, thing.fold, take(thing.tzinfo, f"{path}.tzinfo")]
    if kind is datetime.timedelta:
        return ["timedelta", [thing.days, thing.seconds, thing.microseconds]]
    if kind is datetime.timezone:
        offset, *name = thing.__getinitargs__()  # type: ignore[attr-defined]
        return ["timezone", [offset.days, offset.seconds, offset.microseconds], *name]
    if kind is zoneinfo.ZoneInfo and thing.key is not None:
        return ["zone", thing.key]
    return None


def _taken_of_libraries(thing: Any, kind: type) -> Optional[Any]:
    torch = sys.modules.get("torch")
    if torch is not None:
        if kind is torch.Size:
            return {"torch": ["Size", [int(length) for length in thing]]}
        for name in _TORCH[1:]:
            if kind is getattr(torch, name, None):
                return {"torch": [name, str(thing).replace("torch.", "", 1)]}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(thing, numpy.dtype) and not thing.hasobject:
        return {"dtype": _ndarrays.text_of(thing, "a dtype")}
    return None


def _check_named(kind: type, path: str) -> None:
    try:
        if _class_of(kind.__module__, kind.__qualname__) is kind:
            return
    except LibraryError:
        pass
    raise UnsupportedError(
        f"{path} is of the class {kind.__qualname__}, which cannot be found again as {kind.__module__}."
        f"{kind.__qualname__}; define it at the top of a module, or give a dict"
    )


def _class_of(module: Any, name: Any) -> type:
    """A class that the program has imported. Dictionaries are looked into, so that no module's or class's own lookup runs."""
    if not isinstance(module, str) or not isinstance(name, str):
        raise ValueError("a class has no name")
    found: Any = sys.modules.get(module)
    if not isinstance(found, types.ModuleType):
        raise LibraryError(f"the checkpoint has a {name} of {module}; import that before the state is loaded")
    for word in name.split("."):
        found = vars(found).get(word) if isinstance(found, (types.ModuleType, type)) else None
    if not isinstance(found, type):
        raise LibraryError(f"the checkpoint has a {name} of {module}, which has no such class any more")
    return found


# And back


def built(kind: str, content: Any, build: Build) -> Any:
    """The thing of a tree. Raises ValueError, or another exception of Python's own, for what `taken` does not make."""
    if kind == "set" or kind == "frozenset":
        return (set if kind == "set" else frozenset)(build(part) for part in _list(content))
    if kind == "namedtuple":
        return _built_namedtuple(*content, build)
    if kind == "enum":
        return _built_enum(*content)
    if kind == "deque":
        parts, longest = content
        return deque([build(part) for part in _list(parts)], longest)
    if kind == "range":
        return range(*(build(number) for number in _list(content)))
    if kind == "namespace":
        name, parts = content
        return _NAMESPACES[name](**dict(pairs(parts, build)))
    if kind == "path":
        name, text = content
        return _PATHS[name](_text(text))
    if kind == "time":
        return _built_time(build, *content)
    if kind == "torch":
        return _built_of_torch(*content)
    if kind == "dtype":
        return _ndarrays.dtype_of(_text(content))
    raise ValueError(f"the state has a part of the type {kind[:100]!r}, which is not known here")


def new_defaultdict(factory: Any) -> Any:
    """An empty defaultdict of a factory's name."""
    return defaultdict(None if factory is None else _FACTORIES[factory])


def pairs(content: Any, build: Build) -> list[tuple[Any, Any]]:
    """Pairs of keys and values."""
    built_pairs = []
    for pair in _list(content):
        key, value = _list(pair)
        built_pairs.append((build(key), build(value)))
    return built_pairs


def _built_namedtuple(module: Any, name: Any, parts: Any, build: Build) -> Any:
    kind = _class_of(module, name)
    # Of the class itself or the one that typing or collections made for it.
    fields = next((vars(base)["_fields"] for base in kind.__mro__ if "_fields" in vars(base)), None)
    if not issubclass(kind, tuple) or not isinstance(fields, tuple):
        raise ValueError(f"{module}.{name} is not a named tuple")
    if tuple(part[0] for part in _list(parts)) != fields:
        raise ValueError(f"{module}.{name} has other fields now: {', '.join(map(str, fields))}")
    return tuple.__new__(kind, [build(value) for _, value in parts])


def _built_enum(module: Any, name: Any, names: Any) -> Any:
    kind = _class_of(module, name)
    if not isinstance(kind, enum.EnumMeta):
        raise ValueError(f"{module}.{name} is not an enumeration")
    members = vars(kind)["_member_map_"]
    unknown = [name for name in _list(names) if name not in members]
    if unknown or (len(names) != 1 and not issubclass(kind, enum.Flag)):
        raise ValueError(f"{module}.{name} has no {', '.join(map(str, unknown)) or 'such combination'} any more")
    if not names:
        return kind(0)
    made = members[names[0]]
    for more in names[1:]:
        made |= members[more]
    return made


def _built_time(build: Build, kind: Any, parts: Any, *rest: Any) -> Any:
    if kind == "zone":
        return zoneinfo.ZoneInfo(_text(parts))
    if kind == "datetime":
        return datetime.datetime(*parts, tzinfo=build(rest[1]), fold=rest[0])
    if kind == "date":
        return datetime.date(*parts)
    if kind == "time":
        return datetime.time(*parts, tzinfo=build(rest[1]), fold=rest[0])
    if kind == "timedelta":
        return datetime.timedelta(*parts)
    if kind == "timezone":
        return datetime.timezone(datetime.timedelta(*parts), *map(_text, rest))
    raise ValueError(f"{kind!r} is not a kind of time")


def _built_of_torch(kind: Any, content: Any) -> Any:
    if kind not in _TORCH:
        raise ValueError(f"{kind!r} is not a plain type of PyTorch")
    torch = imported("torch")
    if kind == "Size":
        return torch.Size([int(length) for length in _list(content)])
    if kind == "device":
        if not _DEVICE.fullmatch(_text(content)):
            raise ValueError(f"{content[:100]!r} is not a device")
        return torch.device(content)
    found = vars(torch).get(content) if _NAME.fullmatch(_text(content)) else None
    if type(found) is not getattr(torch, kind):
        raise ValueError(f"this version of PyTorch has no {kind} {content[:100]!r}")
    return found


def _list(thing: Any) -> list[Any]:
    if not isinstance(thing, list):
        raise ValueError(f"the state has a {type(thing).__name__} where a list belongs")
    return thing


def _text(thing: Any) -> str:
    if not isinstance(thing, str):
        raise ValueError(f"the state has a {type(thing).__name__} where a text belongs")
    return thing


def taken_part(part: _tensors.DTensorPart, array: Any) -> Any:
    """A distributed tensor's local part; `array` is what stands in the tree for its memory."""
    return {
        "dtensor": [
            array,
            list(part.shape),
            list(part.stride),
            list(part.mesh),
            list(part.mesh_names),
            list(part.coordinate),
            list(part.placements),
        ]
    }


def built_part(content: Any, build: Build) -> Any:
    """A distributed tensor's local part; the distributed tensor itself where the program's own was filled."""
    array, shape, stride, mesh, names, coordinate, placements = _list(content)
    local = build(array)
    if _tensors.is_dtensor(local):
        return local
    numbers = [tuple(int(number) for number in _list(part)) for part in (shape, stride, mesh, coordinate)]
    texts = [tuple(_text(text) for text in _list(part)) for part in (names, placements)]
    return _tensors.DTensorPart(local, numbers[0], numbers[1], numbers[2], texts[0], numbers[3], texts[1])
