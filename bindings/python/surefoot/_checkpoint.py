# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The checkpoints of one rank of a job."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Optional

from . import _buffers, _library
from ._buffers import Memory
from ._errors import (
    PASSING,
    ArgumentError,
    NothingIntactError,
    OptionError,
    OtherRankError,
    OtherRanksError,
    SaveFailed,
    SurefootError,
    UnsupportedError,
    words_of,
)
from ._groups import Calls, Group, group_of
from ._index import PREFIX, Contents, Found
from ._pack import Pack
from ._resized import Resized
from ._settings import PathText, Value, encoded, settings_of
from ._state import Flat, adopt
from ._told import PLACES, Restored, Saved


def _close(library: Any, handle: int, process: int, kept: dict[str, Any]) -> None:
    # In a forked child the threads that write do not exist, and the handle is the parent's.
    if os.getpid() == process:
        why = kept.get("why")
        if why is None:
            library.surefoot_checkpoint_close(handle)
        else:
            library.surefoot_checkpoint_close_after(handle, why)
    kept.clear()


class Checkpoint:
    """The checkpoints of one rank of a job. Any thread may use it; calls wait for each other.

    `job` names it: letters, digits and `._-:/[]`. `memory` and `durable` are directories, or "none" for no such tier (`memory=None`
    as well). What is left out, here `memory=""` and `durable=None`, is said by variables or the host's file of settings, else memory is the
    user's own directory, /dev/shm/surefoot-UID, and there is no durable tier.
    `policy` and the `settings` are those of the library, with `_` for a point: `durable_keep=3`. `group` is how ranks
    talk: an mpi4py communicator, `torch.distributed`, a process group of it, or a `surefoot.Group`; then `need`,
    `save`, `restart`, `save_state`, `load_state`, `finish` and opening are called by all ranks in the same order.
    With `strict` a failed save raises instead of warning.

    As a context it ends with `finish` and `close`; after an exception in a job of several ranks with `close` alone,
    because the other ranks may be elsewhere.
    """

    def __init__(
        self,
        job: str,
        memory: Optional[PathText] = "",
        durable: Optional[PathText] = None,
        policy: Optional[str] = None,
        *,
        group: Any = None,
        strict: bool = False,
        **settings: Value,
    ) -> None:
        if not isinstance(strict, bool):
            raise ArgumentError(f"strict={strict!r} is neither True nor False")
        alone = sorted({"rank", "ranks", "world_size"} & set(settings))
        if alone:
            raise ArgumentError(
                f"{alone[0]}= cannot work alone: ranks must agree on every checkpoint; give group=, an mpi4py "
                "communicator, torch.distributed or a surefoot.Group"
            )
        self._library = _library.library()
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._strict = strict
        self._group: Optional[Group] = group_of(group)
        self._calls = Calls(self._group) if self._group is not None and self._group.size > 1 else None
        self._opened_count = 0
        self._protected: dict[str, Memory] = {}
        self._state: Any = None
        self._has_state = False
        # What the library knows, by name; the memory stays alive as long as it is here.
        self._registered: dict[str, Memory] = {}
        self._pack = Pack()
        self._report: tuple[str, ...] = ()
        handle = self._open(job, lambda: settings_of(memory, durable, policy, settings))
        self._handle = handle
        # With it, why this rank closes before the others, where an error is the reason.
        self._kept: dict[str, Any] = {"registered": self._registered, "calls": self._calls}
        self._finalizer = weakref.finalize(self, _close, self._library, handle, self._process, self._kept)

    def _open(self, job: str, words: Callable[[], dict[str, str]]) -> int:
        config: Optional[int] = None
        described = ctypes.byref(self._calls.described) if self._calls else None
        try:
            try:
                config = self._configured(job, words())
            except Exception as caught:
                # Also one of Python's own, such as a working directory that is gone on this rank alone.
                if described is not None:
                    self._decline(described, caught)
                raise
            handle = ctypes.c_void_p()
            self._check(self._library.surefoot_checkpoint_open(config, described, ctypes.byref(handle)))
            return int(handle.value or 0)
        finally:
            self._library.surefoot_config_free(config)

    def _decline(self, described: Any, error: Exception) -> None:
        """Keeps no other rank waiting in its opening. What is wrong on all ranks in the same way the first one says: raises
        OtherRankError on the others."""
        try:
            self._check(self._library.surefoot_checkpoint_decline(described, words_of(error)))
        except OptionError:
            pass

    def _configured(self, job: str, words: dict[str, str]) -> int:
        config = self._library.surefoot_config_new(encoded(job, "job"))
        if not config:
            raise _library.last_error(self._library, OptionError.status or 0)
        try:
            for name, value in words.items():
                self._check(self._library.surefoot_config_set(config, encoded(name, "setting"), encoded(value, name)))
        except BaseException:
            self._library.surefoot_config_free(config)
            raise
        return int(config)

    # What belongs to a checkpoint

    def protect(self, name: str, array: Any) -> None:
        """Saves an array with every checkpoint, and fills it in place at every restart. The same name again moves it.

        Anything with a buffer that may be written to: NumPy arrays, PyTorch tensors on the CPU, bytearray, memoryview,
        array.array, mmap. One whose elements do not fill their memory, such as a slice, is copied at each save and
        restart. It is kept alive until `release` or `close`. Write into the array, as `a[:] = b` or `a += b` do; `a = b`
        makes another array that nobody protects. No other thread writes to it during a save, or touches it during a
        restart.
        """
        if name.startswith(PREFIX):
            raise OptionError(f"region: a name that begins with {PREFIX} is this package's own: {name}")
        memory = _buffers.hold_in_place(array, f"the array {name!r}")
        with self._lock:
            handle = self._opened()
            self._register(handle, name, memory)
            self._protected[name] = memory

    def release(self, name: str) -> None:
        """Forgets a protected array."""
        with self._lock:
            handle = self._opened()
            if name not in self._protected:
                raise OptionError(f"region: there is none called {name}")
            self._forget(handle, name)
            del self._protected[name]

    def state_dict(self, state: Any) -> None:
        """Saves a nested state with every checkpoint, as it is then, and fills it in place at every `restart`.

        Dicts, lists, tuples, sets, numbers, texts, None, bytes, times, enumerations, arrays and tensors, any number of
        them. Long arrays are saved from where they are; short ones, and those whose elements do not fill their memory,
        are copied together first; all else goes along as JSON. In place of an array that is read-only there is a new one
        after a restart. There is one state; the next call replaces it, and None takes it away.

        A state that cannot be saved raises UnsupportedError: here in a job of one rank; with several in the next `save` or
        `restart`, where the other ranks get an OtherRankError with the same reason.
        """
        with self._lock:
            self._opened()
            try:
                flat = None if state is None else Flat(state)
                self._announce(Contents(self._renewed(), flat, self._pack))
            except Exception:
                if self._calls is None:
                    raise
                # Raised here, it would reach the other ranks only as a rank that left. `save` and `restart` look again.
            self._state, self._has_state = state, state is not None

    def route_file(self, name: str) -> Path:
        """Where to write a file that belongs to the checkpoints, from now on. It is complete when the next is taken,
        and there again after a restart."""
        with self._lock:
            room = ctypes.create_string_buffer(_library.PATH_BYTES_MAX)
            self._call("surefoot_checkpoint_route_file", encoded(name, "name"), room, len(room))
            return Path(os.fsdecode(room.value))

    # Taking them and bringing them back

    def need(self) -> bool:
        """Whether a checkpoint is worth its time now; `reasons` says why. A program may take one without asking."""
        with self._lock:
            answer = ctypes.c_int()
            self._call("surefoot_checkpoint_need", ctypes.byref(answer))
            return bool(answer.value)

    def save(self, to: Optional[str] = None, *, strict: Optional[bool] = None) -> Saved:
        """Takes a checkpoint, where the policy says; or where `to` does: "memory", "both" (in memory, and on its way to the
        durable tier), or "durable", which is durable when this returns.

        Where the file system, the room or another rank refuses it, the result is false and has the error, a
        `SaveFailed` warning is given, and the former checkpoints are as they were; with `strict` it raises instead. A
        state with something that cannot be saved, or a group that cannot talk, always raises.
        """
        return self._save(to, strict, self._state, self._has_state)

    def _save(self, to: Optional[str], strict: Optional[bool], state: Any, has_state: bool) -> Saved:
        with self._lock:
            self._opened()
            error: Optional[Exception] = None
            try:
                if to is not None and to not in PLACES[1:]:
                    raise ArgumentError(f"to={to!r} is no place: there are {', '.join(PLACES[1:])}")
                if strict is not None and not isinstance(strict, bool):
                    raise ArgumentError(f"strict={strict!r} is neither True nor False")
                contents = Contents(self._renewed(), self._pack.flat(state) if has_state else None, self._pack)
                contents.gather()
                self._announce(contents)
                self._state, self._has_state = state, has_state
            except Exception as caught:
                error = caught
            self._together("save", error)
            told = _library.CSaved()
            try:
                self._call("surefoot_checkpoint_save_to", PLACES.index(to or PLACES[0]), ctypes.byref(told))
            except PASSING as caught:
                if self._strict if strict is None else strict:
                    raise
                warnings.warn(SaveFailed(f"no checkpoint: {caught}"), stacklevel=3)
                return Saved(None, "nowhere", 0, 0.0, (), caught)
            place = PLACES[told.place] if 0 <= told.place < len(PLACES) else str(told.place)
            return Saved(told.generation or None, place, told.payload_bytes, told.visible_s, self._reasons())

    def save_state(self, state: Any, to: Optional[str] = None, *, strict: Optional[bool] = None) -> Saved:
        """`state_dict` and `save` in one. The state stays what later saves take."""
        return self._save(to, strict, state, state is not None)

    def restart(self) -> Optional[Restored]:
        """Brings back the newest checkpoint that all ranks can prove intact: from memory first, repaired where it is
        bad, else from the durable tier, else an older one. None where there is none at all; then nothing was touched.

        Protected arrays and the arrays of the state are filled in place; the other values of the state are put into its
        dicts and lists. A state that was saved, where `state_dict` was not called, is made anew, in `Restored.state`.

        Raises ShapeError where the checkpoint has other arrays; then none was touched, and the checkpoint stays. Raises
        NothingIntactError where there are checkpoints and none is intact; then the arrays hold nothing useful.
        """
        with self._lock:
            restored = self._bring_back(self._state if self._has_state else None, self._has_state)
            if restored is not None and self._has_state and not adopt(self._state, restored.state):
                self._state = restored.state
            return restored

    def load_state(self, into: Any = None) -> Any:
        """The state of the newest intact checkpoint; None where there is no checkpoint. Protected arrays are filled.

        Arrays are made anew, as long as they were saved. With `into`, a state with the same arrays, those are filled in
        place and are in the result.
        """
        with self._lock:
            restored = self._bring_back(into, into is not None)
            return None if restored is None else restored.state

    def _bring_back(self, into: Any, has_target: bool) -> Optional[Restored]:
        self._opened()
        error: Optional[Exception] = None
        found: Optional[Found] = None
        try:
            found = Found(Contents(self._renewed(), Flat(into) if has_target else None, self._pack))
        except Exception as caught:
            error = caught
        self._together("restart", error)
        assert found is not None, "who has no place for a checkpoint has raised"
        told = _library.CRestored()
        placer = _library.CPlacer(None, _library.PLACE(found.place))
        self._report = ()
        try:
            status = self._call("surefoot_checkpoint_restart_into", ctypes.byref(placer), ctypes.byref(told))
        except NothingIntactError as caught:
            if found.refused:
                raise NothingIntactError(f"{caught}; this program: {'; '.join(found.refused)}") from None
            raise
        if status == _library.NOTHING:
            return None
        self._report = self._lines("surefoot_checkpoint_report")
        state = None
        try:
            state = found.taken()
        except Exception as caught:
            error = caught
        self._together("restart", error)
        return Restored(told.generation, told.taken_realtime_ns, self._report, state)

    def restart_resized(self) -> Optional[Restored]:
        """As `restart`, for protected arrays and files, from the newest checkpoint of any number of ranks.

        Where there were more or fewer ranks, arrays are found by their names: the parts that the old ranks saved under
        a name, in the order of the ranks, are one array of which each rank here gets as much as it protects, if that is
        all of it; what all of them had, with the same content, everybody gets. A routed file of old rank r goes to
        rank r mod the number of ranks, and from ranks that are no more as `NAME.rank-00007`. Anything else is refused
        by name. Shapes and types are not looked at: bytes go where bytes were. States are left alone; `open_resized`
        has them.
        """
        with self._lock:
            error: Optional[Exception] = None
            try:
                # Lengths and places, as they are now.
                self._announce(Contents(self._renewed(), None, self._pack))
            except Exception as caught:
                error = caught
            self._together("restart_resized", error)
            try:
                restored = self._bring_back(None, False)
                return restored and Restored(restored.generation, restored.taken_realtime_ns, restored.report)
            except OtherRanksError:
                pass
            told = _library.CRestored()
            self._report = ()
            self._call("surefoot_checkpoint_restart_resized", PREFIX.encode(), ctypes.byref(told))
            try:
                for memory in self._protected.values():
                    memory.scatter()
            except Exception as caught:
                error = caught
            self._together("restart_resized", error)
            self._report = self._lines("surefoot_checkpoint_report")
            return Restored(told.generation, told.taken_realtime_ns, self._report)

    def open_resized(self) -> Optional[Resized]:
        """Opens the newest intact checkpoint of any number of ranks, to read arrays and states of any of them; None
        where there is no checkpoint. Nothing is filled. It stays open until the next call of this or
        `restart_resized`."""
        with self._lock:
            return self._open_resized()

    def _open_resized(self) -> Optional[Resized]:
        told = _library.CResized()
        self._report = ()
        self._opened_count += 1
        if self._call("surefoot_checkpoint_open_resized", ctypes.byref(told)) == _library.NOTHING:
            return None
        self._report = self._lines("surefoot_checkpoint_report")
        entries = []
        for number in range(told.entry_count):
            entry = _library.CEntry()
            self._call("surefoot_checkpoint_resized_entry", number, ctypes.byref(entry))
            entries.append((int(entry.rank), (entry.name or b"").decode("utf-8", "replace"), int(entry.bytes)))
        number = self._opened_count

        def read(pieces: list[tuple[int, str, int, Memory]], error: Optional[Exception]) -> None:
            with self._lock:
                if error is None and number != self._opened_count:
                    error = ArgumentError("another checkpoint was opened since; this one is closed")
                self._together("read_resized", error)
                wanted = [
                    _library.CPiece(rank, name.encode(), offset, memory.nbytes, memory.address)
                    for rank, name, offset, memory in pieces
                ]
                made = (_library.CPiece * len(wanted))(*wanted)
                self._call("surefoot_checkpoint_read_resized", made, len(pieces))

        return Resized(told.generation, told.taken_realtime_ns, told.ranks, self._report, tuple(entries), read)

    def scrub(self) -> tuple[str, ...]:
        """Checks and repairs what this rank keeps; a line for each copy. Not collective."""
        with self._lock:
            self._call("surefoot_checkpoint_scrub")
            self._report = self._lines("surefoot_checkpoint_report")
            return self._report

    # What it says

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the last `need` or `save` decided as it did, the deciding reason first."""
        with self._lock:
            return self._reasons()

    @property
    def report(self) -> tuple[str, ...]:
        """What the last restart or scrub met."""
        return self._report

    def notices(self) -> list[str]:
        """What happened in the background since the last call, such as a checkpoint that became durable."""
        with self._lock:
            handle, all_of_them = self._opened(), []
            while (notice := self._library.surefoot_checkpoint_notice(handle)) is not None:
                all_of_them.append(_library.text_of(notice))
            return all_of_them

    # Its end

    def finish(self) -> tuple[str, ...]:
        """Makes the newest checkpoint durable, whatever the policy says; returns where it is then. Without a durable tier
        that is memory only. Raises where the durable tier does not take it; it stays in memory."""
        return self._ended("surefoot_checkpoint_finish")

    def complete(self) -> tuple[str, ...]:
        """`finish`, and the job is completed: its next run begins anew instead of going on from its end, unless it is
        opened with `after_completion="continue"`."""
        return self._ended("surefoot_checkpoint_complete")

    def _ended(self, name: str) -> tuple[str, ...]:
        with self._lock:
            self._report = ()
            self._call(name)
            self._report = self._lines("surefoot_checkpoint_report")
            return self._report

    @property
    def told_to_end(self) -> bool:
        """Whether a rank was told to end by SIGTERM, as of the last `need` or `save`; with `sigterm="checkpoint"` only. The
        next `need` then asks for a checkpoint, and that one is durable when its `save` returns."""
        with self._lock:
            answer = ctypes.c_int()
            self._call("surefoot_checkpoint_told_to_end", ctypes.byref(answer))
            return bool(answer.value)

    def close(self, discard: bool = False) -> None:
        """Closes it. The checkpoints stay; a write to the durable tier that `finish` did not wait for does not count.
        With `discard` all checkpoints of the job, of all ranks in all tiers, are removed; then all ranks call it."""
        with self._lock:
            try:
                if discard and not self.closed:
                    handle = self._opened()
                    self._finalizer.detach()
                    self._check(self._library.surefoot_checkpoint_discard(handle))
            finally:
                self._finalizer()
                self._registered.clear()
                self._protected.clear()
                self._pack = Pack()
                self._state, self._has_state = None, False

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return not self._finalizer.alive

    def __enter__(self) -> Checkpoint:
        self._opened()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            if not self.closed and (error is None or self._calls is None):
                self.finish()
        except PASSING as caught:
            # The checkpoint in memory is there, and what the program still has to do is not lost with the drive.
            if error is None and self._strict:
                raise
            if error is None:
                warnings.warn(SaveFailed(f"the newest checkpoint is not durable: {caught}"), stacklevel=2)
        except SurefootError:
            # The program's own exception says more.
            if error is None:
                raise
        finally:
            if error is not None:
                self._kept["why"] = words_of(error)
            self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Checkpoint cannot be copied or sent to another process; open one there")

    # Inside

    def _opened(self) -> int:
        if os.getpid() != self._process:
            raise ArgumentError("this process was forked after the checkpoint was opened; it belongs to the parent")
        if self.closed:
            raise ArgumentError("the checkpoint is closed")
        return self._handle

    def _check(self, status: int) -> int:
        cause = None
        if self._calls is not None:
            cause, self._calls.error = self._calls.error, None
        if status >= 0:
            return status
        error = _library.last_error(self._library, status)
        if cause is not None and not isinstance(cause, Exception):
            raise cause
        raise error from cause

    def _call(self, name: str, *arguments: Any) -> int:
        return self._check(getattr(self._library, name)(self._opened(), *arguments))

    def _lines(self, name: str) -> tuple[str, ...]:
        text = _library.text_of(getattr(self._library, name)(self._opened()))
        return tuple(text.split("\n")) if text else ()

    def _reasons(self) -> tuple[str, ...]:
        return self._lines("surefoot_checkpoint_reasons")

    def _together(self, call: str, error: Optional[Exception]) -> None:
        """Raises on all ranks where one has an error of its own, before they call the library, or after."""
        if self._calls is not None:
            try:
                failure = None if error is None else words_of(error)
                self._call("surefoot_checkpoint_prepare", call.encode(), failure)
            except OtherRankError:
                if error is None:
                    raise
        if error is not None:
            raise error

    def _renewed(self) -> dict[str, Memory]:
        """The protected arrays, where they are now."""
        for name, memory in self._protected.items():
            now = memory.renewed(f"the array {name!r}")
            if now.layout != memory.layout:
                raise UnsupportedError(f"the array {name!r} was {memory.layout} and is {now.layout}; protect it again")
            self._protected[name] = now
        return dict(self._protected)

    def _announce(self, contents: Contents) -> None:
        """Makes the library know exactly these regions."""
        handle, wanted = self._opened(), contents.regions()
        for name in [name for name in self._registered if name not in wanted]:
            self._forget(handle, name)
        for name, memory in wanted.items():
            self._register(handle, name, memory)

    def _register(self, handle: int, name: str, memory: Memory) -> None:
        known = self._registered.get(name)
        if known is None or (known.address, known.nbytes) != (memory.address, memory.nbytes):
            self._check(
                self._library.surefoot_checkpoint_protect(
                    handle, encoded(name, "name"), memory.address or None, memory.nbytes
                )
            )
        # Only now may the former memory go.
        self._registered[name] = memory

    def _forget(self, handle: int, name: str) -> None:
        if name in self._registered:
            self._check(self._library.surefoot_checkpoint_release(handle, encoded(name, "name")))
            del self._registered[name]
