# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How the ranks of a job talk: by a communicator of mpi4py, by torch.distributed, or by functions of the program's own.

Neither library is needed, nor imported before the program gives something of it. What the ranks tell each other of a
checkpoint is below a kilobyte for each; its content goes this way only with the setting `partner`, in pieces of 16 MiB.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from abc import ABC, abstractmethod
from typing import Any, Callable, Optional

from . import _library
from ._errors import ArgumentError

# Counts of MPI are of the C type int. The library stays below this.
_MESSAGE_BYTES_MAX = (1 << 31) - 1

_TAG = 21_326

# A view of memory that is no object's; one of a ctypes array has a format that other libraries do not know.
_from_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_from_memory.restype = ctypes.py_object
_from_memory.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_WRITE = 0x200


class Group(ABC):
    """The ranks of a job. Derive from it where neither MPI nor PyTorch is what the ranks talk through.

    The methods are called only from within calls of a checkpoint, in their thread, in the same order on all ranks. The
    views are valid until the method returns. A method that raises ends the call with a GroupError.
    """

    @property
    @abstractmethod
    def rank(self) -> int:
        """This rank, from 0."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many ranks there are."""

    @abstractmethod
    def broadcast(self, data: memoryview, root: int) -> None:
        """Gives the root's bytes to every rank; all pass the same length."""

    @abstractmethod
    def all_gather(self, own: memoryview, everything: memoryview) -> None:
        """Gives every rank what each passes, one after the other in the order of the ranks; all pass the same
        length."""

    @abstractmethod
    def exchange(self, to: int, send: memoryview, source: int, receive: memoryview) -> None:
        """Sends to one rank while it receives from another; every rank sends once and receives once."""


class MpiGroup(Group):
    """A communicator of mpi4py, or what has its methods for buffers."""

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator

    @property
    def rank(self) -> int:
        return int(self._communicator.Get_rank())

    @property
    def size(self) -> int:
        return int(self._communicator.Get_size())

    def broadcast(self, data: memoryview, root: int) -> None:
        self._communicator.Bcast(data, root=root)

    def all_gather(self, own: memoryview, everything: memoryview) -> None:
        self._communicator.Allgather(own, everything)

    def exchange(self, to: int, send: memoryview, source: int, receive: memoryview) -> None:
        self._communicator.Sendrecv(send, dest=to, sendtag=_TAG, recvbuf=receive, source=source, recvtag=_TAG)


class TorchGroup(Group):
    """A process group of torch.distributed whose backend moves memory of the CPU, such as gloo."""

    def __init__(self, group: Any = None) -> None:
        self._torch = importlib.import_module("torch")
        self._distributed = importlib.import_module("torch.distributed")
        if not self._distributed.is_initialized():
            raise ArgumentError("torch.distributed is not initialized; call init_process_group() before")
        self._group = group
        backend = str(self._distributed.get_backend(group))
        if "nccl" in backend and "gloo" not in backend:
            why = "moves no memory of the CPU; give torch.distributed.new_group(backend='gloo')"
            raise ArgumentError(f"the backend {backend} {why}")

    @property
    def rank(self) -> int:
        return int(self._distributed.get_rank(self._group))

    @property
    def size(self) -> int:
        return int(self._distributed.get_world_size(self._group))

    def _tensor(self, view: memoryview) -> Any:
        return self._torch.frombuffer(view, dtype=self._torch.uint8)

    def _global(self, rank: int) -> int:
        return rank if self._group is None else int(self._distributed.get_global_rank(self._group, rank))

    def broadcast(self, data: memoryview, root: int) -> None:
        self._distributed.broadcast(self._tensor(data), self._global(root), group=self._group)

    def all_gather(self, own: memoryview, everything: memoryview) -> None:
        each = list(self._tensor(everything).split(len(own)))
        self._distributed.all_gather(each, self._tensor(own), group=self._group)

    def exchange(self, to: int, send: memoryview, source: int, receive: memoryview) -> None:
        if to == self.rank:
            receive[:] = send
            return
        # Every receive finds its send on the way: nobody waits for a rank that waits for it.
        sent = None
        if len(send):
            sent = self._distributed.isend(self._tensor(send), self._global(to), group=self._group)
        if len(receive):
            self._distributed.recv(self._tensor(receive), self._global(source), group=self._group)
        if sent is not None:
            sent.wait()


def group_of(given: Any) -> Optional[Group]:
    """The group that a program gives, in whatever form."""
    if given is None or isinstance(given, Group):
        return given
    if all(hasattr(given, name) for name in ("Get_rank", "Get_size", "Bcast", "Allgather", "Sendrecv")):
        return MpiGroup(given)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None:
        if given is distributed:
            return TorchGroup()
        kind = getattr(distributed, "ProcessGroup", None)
        if kind is not None and isinstance(given, kind):
            return TorchGroup(given)
    raise ArgumentError(
        f"a {type(given).__name__} is not a group; give an mpi4py communicator, torch.distributed, a process group of "
        "it, or a surefoot.Group"
    )


class Calls:
    """A group as the functions of surefoot_group. It must live as long as the handle that was opened with it."""

    def __init__(self, group: Group) -> None:
        # An exception cannot pass through the library; it waits here for the end of the call.
        self.error: Optional[BaseException] = None
        self._group = group

        def broadcast(_: Any, data: int, length: int, root: int) -> int:
            return self._guarded(lambda: group.broadcast(_view(data, length), root))

        def all_gather(_: Any, own: int, everything: int, length: int) -> int:
            return self._guarded(lambda: group.all_gather(_view(own, length), _view(everything, length * group.size)))

        def exchange(_: Any, to: int, send: int, sent: int, source: int, receive: int, received: int) -> int:
            return self._guarded(lambda: group.exchange(to, _view(send, sent), source, _view(receive, received)))

        self.described = _library.CGroup(
            None,
            group.rank,
            group.size,
            _library.BROADCAST(broadcast),
            _library.ALL_GATHER(all_gather),
            _library.EXCHANGE(exchange),
        )

    def _guarded(self, work: Callable[[], None]) -> int:
        try:
            work()
            return 0
        except BaseException as error:  # noqa: B902 - a KeyboardInterrupt must not get lost either
            self.error = error
            return 1


def _view(address: int, length: int) -> memoryview:
    if length > _MESSAGE_BYTES_MAX:
        raise ValueError(f"{length} bytes are too many for one message")
    if length == 0:
        return memoryview(bytearray())
    view: memoryview = _from_memory(address, length, _WRITE)
    return view
