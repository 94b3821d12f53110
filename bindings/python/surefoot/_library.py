# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The shared library, found and declared: the names and types of surefoot_checkpoint.h."""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Optional

from ._errors import LibraryError, SurefootError, error_of
from ._version import VERSION

FILE_NAME = "libsurefoot.so"

OK = 0
NOTHING = 1
PATH_BYTES_MAX = 4096

BROADCAST = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_uint32)
ALL_GATHER = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)
EXCHANGE = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint32, c_void_p, c_size_t, c_uint32, c_void_p, c_size_t)
POST = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint32, c_void_p, c_size_t)


class CGroup(ctypes.Structure):
    """surefoot_group."""

    _fields_ = [
        ("context", c_void_p),
        ("rank", c_uint32),
        ("size", c_uint32),
        ("broadcast", BROADCAST),
        ("all_gather", ALL_GATHER),
        ("exchange", EXCHANGE),
        ("post", POST),
    ]


class CSaved(ctypes.Structure):
    """surefoot_saved."""

    _fields_ = [("generation", c_uint64), ("payload_bytes", c_uint64), ("visible_s", c_double), ("place", c_int)]


class CRestored(ctypes.Structure):
    """surefoot_restored."""

    _fields_ = [("generation", c_uint64), ("taken_realtime_ns", c_uint64)]


class CPart(ctypes.Structure):
    """surefoot_part."""

    _fields_ = [("name", c_char_p), ("bytes", c_size_t), ("start", c_void_p)]


PLACE = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, POINTER(CPart), c_size_t)


class CPlacer(ctypes.Structure):
    """surefoot_placer."""

    _fields_ = [("context", c_void_p), ("place", PLACE)]


class CResized(ctypes.Structure):
    """surefoot_resized."""

    _fields_ = [
        ("generation", c_uint64),
        ("taken_realtime_ns", c_uint64),
        ("ranks", c_uint32),
        ("entry_count", c_size_t),
    ]


class CEntry(ctypes.Structure):
    """surefoot_entry."""

    _fields_ = [("rank", c_uint32), ("name", c_char_p), ("bytes", c_size_t)]


class CPiece(ctypes.Structure):
    """surefoot_piece."""

    _fields_ = [
        ("rank", c_uint32),
        ("name", c_char_p),
        ("offset", c_size_t),
        ("bytes", c_size_t),
        ("start", c_void_p),
    ]


# Result and arguments of each function. A handle is a number that is never an address, so void * holds it.
_FUNCTIONS = {
    "surefoot_version": (c_char_p, []),
    "surefoot_group_failed": (c_int, [c_char_p]),
    "surefoot_config_new": (c_void_p, [c_char_p]),
    "surefoot_config_set": (c_int, [c_void_p, c_char_p, c_char_p]),
    "surefoot_config_free": (c_int, [c_void_p]),
    "surefoot_checkpoint_open": (c_int, [c_void_p, POINTER(CGroup), POINTER(c_void_p)]),
    "surefoot_checkpoint_decline": (c_int, [POINTER(CGroup), c_char_p]),
    "surefoot_checkpoint_prepare": (c_int, [c_void_p, c_char_p, c_char_p]),
    "surefoot_checkpoint_protect": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "surefoot_checkpoint_release": (c_int, [c_void_p, c_char_p]),
    "surefoot_checkpoint_route_file": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "surefoot_checkpoint_need": (c_int, [c_void_p, POINTER(c_int)]),
    "surefoot_checkpoint_save": (c_int, [c_void_p, POINTER(CSaved)]),
    "surefoot_checkpoint_save_to": (c_int, [c_void_p, c_int, POINTER(CSaved)]),
    "surefoot_checkpoint_told_to_end": (c_int, [c_void_p, POINTER(c_int)]),
    "surefoot_checkpoint_restart_into": (c_int, [c_void_p, POINTER(CPlacer), POINTER(CRestored)]),
    "surefoot_checkpoint_restart_resized": (c_int, [c_void_p, c_char_p, POINTER(CRestored)]),
    "surefoot_checkpoint_open_resized": (c_int, [c_void_p, POINTER(CResized)]),
    "surefoot_checkpoint_resized_entry": (c_int, [c_void_p, c_size_t, POINTER(CEntry)]),
    "surefoot_checkpoint_read_resized": (c_int, [c_void_p, POINTER(CPiece), c_size_t]),
    "surefoot_checkpoint_scrub": (c_int, [c_void_p]),
    "surefoot_checkpoint_finish": (c_int, [c_void_p]),
    "surefoot_checkpoint_complete": (c_int, [c_void_p]),
    "surefoot_checkpoint_discard": (c_int, [c_void_p]),
    "surefoot_checkpoint_close": (c_int, [c_void_p]),
    "surefoot_checkpoint_close_after": (c_int, [c_void_p, c_char_p]),
    "surefoot_checkpoint_reasons": (c_char_p, [c_void_p]),
    "surefoot_checkpoint_report": (c_char_p, [c_void_p]),
    "surefoot_checkpoint_notice": (c_char_p, [c_void_p]),
    "surefoot_error_text": (c_char_p, [c_void_p]),
}

_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None


def library() -> ctypes.CDLL:
    """The library, loaded once: what SUREFOOT_LIBRARY names, else the one beside this package, else the loader's."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
        return _loaded


def _load() -> ctypes.CDLL:
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), FILE_NAME)
    named = os.environ.get("SUREFOOT_LIBRARY")
    path = named or (beside if os.path.exists(beside) else FILE_NAME)
    try:
        found = ctypes.CDLL(path)
    except OSError as error:
        where = (
            "SUREFOOT_LIBRARY names it" if named else "name the file in SUREFOOT_LIBRARY, or put it beside the package"
        )
        raise LibraryError(f"{path} cannot be loaded: {error}; {where}") from None
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(found, name)
        except AttributeError:
            raise LibraryError(
                f"{path} has no function {name}: it is older than this package, or another library"
            ) from None
        function.restype = result
        function.argtypes = arguments
    version = text_of(found.surefoot_version())
    if _interface(version) != _interface(VERSION):
        raise LibraryError(f"{path} has version {version}, and this package {VERSION}: install the two together")
    return found


def _interface(version: str) -> list[str]:
    """What versions of one interface share: the first number, or the first two while the first is 0."""
    numbers = version.split(".")
    return numbers[: 2 if numbers[0] == "0" else 1]


def text_of(answer: Optional[bytes]) -> str:
    """A text of the library."""
    return (answer or b"").decode("utf-8", "replace")


def last_error(found: Any, status: int) -> SurefootError:
    """The exception for what has just failed in this thread."""
    return error_of(status, text_of(found.surefoot_error_text(None)))
