# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How the ranks of a job talk: by a communicator of mpi4py, by torch.distributed, or by functions of the program's own.

Neither library is needed, nor imported before the program gives something of it. What the ranks tell each other of a
checkpoint is a few messages of 1,776 bytes for each; its content goes this way only with the settings `partner` and
`parity`, in pieces of 256 KiB, and in a restart on other nodes.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import sys
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Callable, Optional

from . import _library
from ._errors import ArgumentError, words_of

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

    def post(self, to: int, data: memoryview) -> None:
        """Sends to one rank without waiting for it: that rank takes it with the exchange in which it next receives from this
        one. `close` calls it, too. A group that leaves it out works in step only: then a rank that closes early leaves
        those waiting that make another call."""
        raise NotImplementedError


class MpiGroup(Group):
    """A communicator of mpi4py, or what has its methods for buffers."""

    def __init__(self, communicator: Any) -> None:
        self._status = _status_of(communicator)
        # One of our own, so that no receive of the program takes what a rank says that closes.
        # It hangs on the program's communicator, so that all checkpoints of that one use the same.
        if not _keys:
            _keys.append(communicator.Create_keyval())
        own = communicator.Get_attr(_keys[0])
        if own is None:
            own = communicator.Dup()
            communicator.Set_attr(_keys[0], own)
        self._communicator = own

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
        if not len(receive):
            if len(send):
                self._communicator.Send(send, dest=to, tag=_TAG)
            return
        status = self._status()
        if len(send):
            own = {"dest": to, "sendtag": _TAG}
            self._communicator.Sendrecv(send, recvbuf=receive, source=source, recvtag=_TAG, status=status, **own)
        else:
            self._communicator.Recv(receive, source=source, tag=_TAG, status=status)
        # MPI itself takes only a longer message for an error.
        if status.Get_count() != len(receive):
            raise ValueError(f"rank {source} sent {status.Get_count()} bytes where {len(receive)} are expected")

    def post(self, to: int, data: memoryview) -> None:
        own = bytearray(data)
        _sent_by_mpi[:] = [(request, kept) for request, kept in _sent_by_mpi if not request.Test()]
        _sent_by_mpi.append((self._communicator.Isend(own, dest=to, tag=_TAG), own))


def _status_of(communicator: Any) -> Any:
    """The class by which the communicator's library tells how long a message was."""
    modules = [sys.modules.get(kind.__module__) for kind in type(communicator).__mro__]
    for module in modules:
        if hasattr(module, "Status"):
            return module.Status
    kind = type(communicator).__name__
    raise ArgumentError(f"a {kind} is of no module with a Status; give an mpi4py communicator or a surefoot.Group")


# The key of an attribute of communicators, once there is one.
_keys: list[int] = []

# What MPI may still be sending.
_sent_by_mpi: list[tuple[Any, bytearray]] = []

# Backends of torch.distributed that move memory of the CPU.
_CPU_BACKENDS = ("gloo", "mpi", "ucc")

# The gloo groups that were made here, by the group whose ranks they have; every checkpoint of a group uses the same.
_gloo_groups: dict[Any, Any] = {}

# The views that tensors were made of, as long as the tensors live. A thread of gloo may let go of one after the call that
# it was for has returned, and then needs the interpreter's lock: where the program has come to its end meanwhile, asking
# for that aborts the process. So the end waits for them.
_lent: dict[int, Any] = {}
_END_PATIENCE_S = 10

# What gloo may still be sending. It does not say what is done; a rank that takes nothing any more takes the last few never.
_sent_by_gloo: deque[Any] = deque(maxlen=512)


@atexit.register
def _wait_for_lent() -> None:
    until = time.monotonic() + _END_PATIENCE_S
    while _lent and time.monotonic() < until:
        # Which hands the lock over.
        time.sleep(0.001)


class TorchGroup(Group):
    """A process group of torch.distributed. Where its backend moves no memory of the CPU, as NCCL, the same ranks make a
    gloo group of their own, which is used instead."""

    def __init__(self, group: Any = None) -> None:
        self._torch = importlib.import_module("torch")
        self._distributed = importlib.import_module("torch.distributed")
        if not self._distributed.is_initialized():
            raise ArgumentError("torch.distributed is not initialized; call init_process_group() before")
        self._group = group
        if not self._moves_cpu_memory():
            whole = self._distributed.group.WORLD if group is None else group
            if whole not in _gloo_groups:
                _gloo_groups[whole] = self._gloo()
            self._group = _gloo_groups[whole]

    def _moves_cpu_memory(self) -> bool:
        backend = str(self._distributed.get_backend(self._group))
        # Since PyTorch 2.0 a group may have a backend for each kind of device: "cpu:gloo,cuda:nccl".
        if hasattr(self._distributed, "get_backend_config"):
            said = str(self._distributed.get_backend_config(self._group))
            by_device = dict(part.split(":", 1) for part in said.split(",") if ":" in part)
            backend = by_device.get("cpu", "none") if by_device else backend
        return backend in _CPU_BACKENDS

    def _gloo(self) -> Any:
        """A gloo group of the same ranks. All of them come here, because all open the checkpoint."""
        options: dict[str, Any] = {}
        ranks = None
        if self._group is not None and self._group is not self._distributed.group.WORLD:
            ranks = self._distributed.get_process_group_ranks(self._group)
            # Otherwise the ranks that are not in the group would have to call it, too.
            options["use_local_synchronization"] = True
        try:
            return self._distributed.new_group(ranks, backend="gloo", **options)
        except (TypeError, AttributeError, RuntimeError, ValueError) as error:
            remedy = "call torch.distributed.new_group(backend='gloo') on all ranks and give that"
            raise ArgumentError(f"no gloo group could be made for the ranks of this one: {error}; {remedy}") from None

    @property
    def rank(self) -> int:
        return int(self._distributed.get_rank(self._group))

    @property
    def size(self) -> int:
        return int(self._distributed.get_world_size(self._group))

    def _tensor(self, view: memoryview) -> Any:
        own = memoryview(view)
        _lent[id(own)] = weakref.ref(own, lambda _, key=id(own): _lent.pop(key, None))
        return self._torch.frombuffer(own, dtype=self._torch.uint8)

    def _global(self, rank: int) -> int:
        return rank if self._group is None else int(self._distributed.get_global_rank(self._group, rank))

    def broadcast(self, data: memoryview, root: int) -> None:
        self._distributed.broadcast(self._tensor(data), self._global(root), group=self._group)

    def all_gather(self, own: memoryview, everything: memoryview) -> None:
        each = list(self._tensor(everything).split(len(own)))
        self._distributed.all_gather(each, self._tensor(own), group=self._group)

    def exchange(self, to: int, send: memoryview, source: int, receive: memoryview) -> None:
        if to == self.rank:
            if len(send) != len(receive):
                raise ValueError(f"rank {to} sends itself {len(send)} bytes where {len(receive)} are expected")
            receive[:] = send
            return
        # Every receive finds its send on the way: nobody waits for a rank that waits for it.
        sent = self._send(to, self._tensor(send)) if len(send) else []
        came = self._receive(source, receive) if len(receive) else 0
        for request, _ in sent:
            request.wait()
        if came != len(receive):
            raise ValueError(f"rank {source} sent {came} bytes where {len(receive)} are expected")

    def _send(self, to: int, data: Any) -> list[tuple[Any, Any]]:
        """Sends a length and the message. Gloo does not say how long a message is that came: it leaves the rest of the buffer as it
        was where one is shorter, and ends the process where one is longer."""
        length = self._torch.tensor([len(data)], dtype=self._torch.int64)
        send = self._distributed.isend
        return [(send(part, self._global(to), group=self._group, tag=_TAG), part) for part in (length, data)]

    def _receive(self, source: int, into: memoryview) -> int:
        """Receives a message, and says how long it was; one of another length is dropped, so that the group can be used again."""

        def receive(part: Any) -> None:
            self._distributed.recv(part, self._global(source), group=self._group, tag=_TAG)

        length = self._torch.zeros(1, dtype=self._torch.int64)
        receive(length)
        sent = int(length[0])
        if sent == len(into):
            receive(self._tensor(into))
        elif 0 < sent <= _MESSAGE_BYTES_MAX:
            receive(self._torch.empty(sent, dtype=self._torch.uint8))
        return sent

    def post(self, to: int, data: memoryview) -> None:
        # Memory of its own: what gloo still holds at the end is no view of the program's.
        _sent_by_gloo.append(self._send(to, self._tensor(data).clone()))


def group_of(given: Any) -> Optional[Group]:
    """The group that a program gives, in whatever form."""
    if given is None or isinstance(given, Group):
        return given
    if all(hasattr(given, name) for name in ("Get_rank", "Get_size", "Bcast", "Allgather", "Sendrecv", "Isend", "Dup")):
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

        def post(_: Any, to: int, data: int, length: int) -> int:
            try:
                group.post(to, _view(data, length))
                return 0
            except Exception as error:
                # Who closes after the group's end tells nobody, and that is no failure of the close.
                return _failed(error)

        has_post = type(group).post is not Group.post
        self.described = _library.CGroup(
            None,
            group.rank,
            group.size,
            _library.BROADCAST(broadcast),
            _library.ALL_GATHER(all_gather),
            _library.EXCHANGE(exchange),
            _library.POST(post) if has_post else _library.POST(),
        )

    def _guarded(self, work: Callable[[], None]) -> int:
        try:
            work()
            return 0
        except BaseException as error:  # noqa: B902 - a KeyboardInterrupt must not get lost either
            self.error = error
            return _failed(error)


def _failed(error: BaseException) -> int:
    """Has the cause in the text of the call that it fails, also on the other ranks."""
    _library.library().surefoot_group_failed(words_of(error))
    return 1


def _view(address: int, length: int) -> memoryview:
    if length > _MESSAGE_BYTES_MAX:
        raise ValueError(f"{length} bytes are too many for one message")
    if length == 0:
        return memoryview(bytearray())
    view: memoryview = _from_memory(address, length, _WRITE)
    return view
