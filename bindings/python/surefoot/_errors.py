# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Exceptions, each with the library's words."""

from __future__ import annotations

from typing import Optional


class SurefootError(Exception):
    """What went wrong. `status` is the number that the library gave, None where it was not asked."""

    status: Optional[int] = None


class ArgumentError(SurefootError, ValueError):
    """The call itself is wrong, such as one with a checkpoint that is closed."""

    status = -1


class OptionError(SurefootError, ValueError):
    """A setting or a name cannot be used."""

    status = -2


class StorageError(SurefootError):
    """The file system said no."""

    status = -3


class DamagedError(SurefootError):
    """A file that is there is not what it should be."""

    status = -4


class GroupError(SurefootError):
    """The ranks cannot talk, or are in different calls: the text says who is in which. The checkpoint can only be closed."""

    status = -5


class OtherRankError(SurefootError):
    """It failed on another rank, and so on all."""

    status = -6


class NothingIntactError(SurefootError):
    """There are checkpoints, but none can be proved intact on all ranks. The arrays hold nothing useful."""

    status = -7


class NoRoomError(SurefootError):
    """There is not enough room in the memory tier or on the drive."""

    status = -8


class BusyError(SurefootError):
    """The library is in a call with this checkpoint already, such as one that called a group's function."""

    status = -9


class InternalError(SurefootError):
    """A fault of the library; please report it. The checkpoint can only be closed."""

    status = -10


class OtherRanksError(SurefootError):
    """The newest checkpoint was saved by another number of ranks: `restart_resized` goes on from it. Nothing was
    touched."""

    status = -11


class LibraryError(SurefootError, ImportError):
    """The shared library is not there, or is not the right one."""


class UnsupportedError(SurefootError, TypeError):
    """An object cannot be saved: its type, or where its memory is. Nothing was changed."""


class ShapeError(SurefootError, ValueError):
    """The checkpoint has other arrays than the program. It stays, and the program's arrays were not touched."""


class SaveFailed(RuntimeWarning):
    """A save failed, and the program goes on with its former checkpoints."""


# Failures of one save that leave the program, its ranks and its former checkpoints as they were.
PASSING = (StorageError, DamagedError, OtherRankError, NoRoomError)

def words_of(error: BaseException) -> bytes:
    """What other ranks are told of an error."""
    said = str(error)
    return (f"{type(error).__name__}: {said}" if said else type(error).__name__).replace("\0", " ").encode("utf-8", "replace")


_KINDS = (
    ArgumentError,
    OptionError,
    StorageError,
    DamagedError,
    GroupError,
    OtherRankError,
    NothingIntactError,
    NoRoomError,
    BusyError,
    InternalError,
    OtherRanksError,
)


def error_of(status: int, text: str) -> SurefootError:
    """The exception for a status below 0. One that is newer than this table keeps its number."""
    for kind in _KINDS:
        if kind.status == status:
            return kind(text)
    error = SurefootError(text)
    error.status = status
    return error
