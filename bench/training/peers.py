# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Those that are compared: each saves a state, says when it is complete, and brings it back.

A peer raises `Missing` where it cannot run here. `save` returns when the program may change its tensors again; that is
the standstill. `load` returns a state, or fills the one that it is given and returns that.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pathlib
import shutil
from typing import Any

import torch


class Missing(Exception):
    """Why a peer cannot run here."""


class Peer:
    def __init__(self, home: pathlib.Path, state: dict[str, Any]) -> None:
        self.home = home

    def save(self, state: dict[str, Any], number: int) -> None:
        raise NotImplementedError

    def complete(self) -> None:
        """Waits until what was saved can be loaded."""

    def load(self, into: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def files(self) -> list[pathlib.Path]:
        """Where the newest checkpoint is; none where it is in no file."""
        return [path for path in self.home.rglob("*") if path.is_file()]

    def close(self) -> None:
        pass


class Plain(Peer):
    """A copy into memory that is there already: what a checkpoint in memory costs at least."""

    def __init__(self, home: pathlib.Path, state: dict[str, Any]) -> None:
        super().__init__(home, state)
        self._copy = {name: torch.zeros_like(tensor) for name, tensor in state.items()}

    def save(self, state: dict[str, Any], number: int) -> None:
        for name, tensor in state.items():
            self._copy[name].copy_(tensor)

    def load(self, into: dict[str, Any]) -> dict[str, Any]:
        for name, tensor in into.items():
            tensor.copy_(self._copy[name])
        return into

    def files(self) -> list[pathlib.Path]:
        return []


class Surefoot(Peer):
    protection = "shard"

    def __init__(self, home: pathlib.Path, state: dict[str, Any]) -> None:
        super().__init__(home, state)
        try:
            import surefoot
        except ImportError as error:
            raise Missing(str(error)) from None
        try:
            self._job = surefoot.Checkpoint(
                "bench", memory=home, policy="memory", memory_protection=self.protection, strict=True
            )
        except surefoot.LibraryError as error:
            raise Missing(str(error)) from None

    def save(self, state: dict[str, Any], number: int) -> None:
        self._job.save_state(state)

    def load(self, into: dict[str, Any]) -> dict[str, Any]:
        loaded: dict[str, Any] = self._job.load_state(into)
        return loaded

    def close(self) -> None:
        self._job.close()


class SurefootChecked(Surefoot):
    protection = "checked"


class Dcp(Peer):
    """`torch.distributed.checkpoint.async_save` with a stager of its own, whose memory stays."""

    stager = True

    def __init__(self, home: pathlib.Path, state: dict[str, Any]) -> None:
        super().__init__(home, state)
        try:
            self._dcp = importlib.import_module("torch.distributed.checkpoint")
            staging = importlib.import_module("torch.distributed.checkpoint.staging")
            if "async_stager" not in inspect.signature(self._dcp.async_save).parameters:
                raise AttributeError("async_save has no async_stager")
            options = {"use_pinned_memory": False, "use_shared_memory": False}
            options.update(use_async_staging=False, use_non_blocking_copy=False)
            self._stager = staging.DefaultStager(staging.StagingOptions(**options)) if self.stager else None
        except (ImportError, AttributeError) as error:
            raise Missing(f"PyTorch {torch.__version__} has no such async_save: {error}") from None
        _one_rank(home)
        self._pending: Any = None

    def save(self, state: dict[str, Any], number: int) -> None:
        self._directory = self.home / f"step-{number}"
        more = {"async_stager": self._stager} if self._stager is not None else {}
        response = self._dcp.async_save(state, checkpoint_id=str(self._directory), **more)
        staged = getattr(response, "staging_completion", None)
        if staged is not None:
            staged.result()
        self._pending = getattr(response, "upload_completion", response)

    def complete(self) -> None:
        self._pending.result()
        for former in self.home.glob("step-*"):
            if former != self._directory:
                shutil.rmtree(former)

    def load(self, into: dict[str, Any]) -> dict[str, Any]:
        self._dcp.load(into, checkpoint_id=str(self._directory))
        return into

    def files(self) -> list[pathlib.Path]:
        return list(self._directory.glob("*.distcp"))


class DcpDefault(Dcp):
    """`async_save` as it comes: memory for staging is new each time."""

    stager = False


class DlRover(Peer):
    """DLRover's flash checkpoint in memory. Its saver, which its launcher would start, is a thread here."""

    def __init__(self, home: pathlib.Path, state: dict[str, Any]) -> None:
        super().__init__(home, state)
        os.environ.setdefault("ELASTIC_JOB_NAME", f"bench-{os.getpid()}")
        try:
            saver = importlib.import_module("dlrover.python.elastic_agent.torch.ckpt_saver")
            flash = importlib.import_module("dlrover.trainer.torch.flash_checkpoint.ddp")
        except Exception as error:
            raise Missing(f"dlrover cannot be imported: {error}") from None
        if list(pathlib.Path("/dev/shm").glob("ckpt_shm_*")):
            raise Missing("a job with DLRover has its checkpoint in /dev/shm, under the name that this one would take")
        _one_rank(home)
        self._before = set(pathlib.Path("/dev/shm").iterdir())
        self._memory = flash.StorageType.MEMORY
        saver.AsyncCheckpointSaver.start_async_saving_ckpt()
        self._saver = saver.AsyncCheckpointSaver
        self._checkpointer = flash.DdpCheckpointer(str(home))

    def save(self, state: dict[str, Any], number: int) -> None:
        self._checkpointer.save_checkpoint(number, state, str(self.home / f"{number}.pt"), storage_type=self._memory)

    def load(self, into: dict[str, Any]) -> dict[str, Any]:
        # What it returns are views of the saved memory; a program copies them, or trains inside its checkpoint.
        loaded = self._checkpointer.load_checkpoint()
        loaded = loaded.get("model_states", loaded)
        for name, tensor in into.items():
            tensor.copy_(loaded[name])
        return into

    def files(self) -> list[pathlib.Path]:
        return [path for path in set(pathlib.Path("/dev/shm").iterdir()) - self._before if path.is_file()]

    def close(self) -> None:
        made = self.files()
        saver = self._saver._saver_instance
        if saver is not None:
            saver.close()
        for path in made:
            path.unlink(missing_ok=True)


class Nvrx(Peer):
    """The local checkpoints of NVIDIA's resiliency extension, synchronous, with tensors of the CPU."""

    def __init__(self, home: pathlib.Path, state: dict[str, Any]) -> None:
        super().__init__(home, state)
        try:
            basic = importlib.import_module("nvidia_resiliency_ext.checkpointing.local.basic_state_dict")
            manager = importlib.import_module(
                "nvidia_resiliency_ext.checkpointing.local.ckpt_managers.local_manager"
            )
        except Exception as error:
            raise Missing(f"nvidia_resiliency_ext cannot be imported: {error}") from None
        _one_rank(home)

        class OnCpu(basic.BasicTensorAwareStateDict):  # type: ignore[name-defined,misc]
            """Its own class refuses tensors that are not of a GPU."""

            def __init__(self, state_dict: dict[str, Any]) -> None:
                self.state_dict, self._is_hollow = state_dict, False

            def restore_tensor_device(self, non_blocking: bool = True) -> None:
                pass

        # It is saved as a pickle, which finds the class by its name.
        globals()["OnCpu"] = OnCpu
        OnCpu.__qualname__, OnCpu.__module__ = "OnCpu", __name__
        self._kind, self._manager = OnCpu, manager.LocalCheckpointManager(home)

    def save(self, state: dict[str, Any], number: int) -> None:
        # Saved at once, so that a copy of the tensors is not needed.
        self._manager.save(self._kind(dict(state)), number, is_async=False)

    def load(self, into: dict[str, Any]) -> dict[str, Any]:
        self._manager.find_latest()
        loaded = self._manager.load()[0].state_dict
        for name, tensor in into.items():
            tensor.copy_(loaded[name])
        return into


class MlFlashpoint(Peer):
    """ml-flashpoint behind `dcp.save`, with its pool of buffers, which is what it recommends for memory. Nothing in DCP calls
    its `finalize_checkpoint`, so this does, and counts it as a part of completing."""

    asynchronous = False

    def __init__(self, home: pathlib.Path, state: dict[str, Any]) -> None:
        super().__init__(home, state)
        os.environ.setdefault("LOCAL_RANK", "0")
        try:
            self._dcp = importlib.import_module("torch.distributed.checkpoint")
            managers = importlib.import_module("ml_flashpoint.checkpoint_object_manager.checkpoint_object_manager")
            pools = importlib.import_module("ml_flashpoint.core.buffer_pool")
            self._ids = importlib.import_module("ml_flashpoint.core.checkpoint_id_types").CheckpointContainerId
            loaders = importlib.import_module("ml_flashpoint.core.checkpoint_loader")
            savers = importlib.import_module("ml_flashpoint.core.checkpoint_saver")
            self._readers = importlib.import_module("ml_flashpoint.adapter.pytorch.memory_storage_reader")
            writers = importlib.import_module("ml_flashpoint.adapter.pytorch.memory_storage_writer")
        except Exception as error:
            raise Missing(f"ml_flashpoint cannot be imported (it is built from its sources): {error}") from None
        _one_rank(home)
        bytes_all = sum(tensor.nbytes for tensor in state.values())
        # Headers of tensors come on top. Two of them: the former checkpoint stays until the next is complete.
        pool = pools.BufferPoolConfig(str(home / "pool"), 0, 2, bytes_all + len(state) * 4096 + (64 << 20))
        manager = managers.CheckpointObjectManager(pool)
        distributed = importlib.import_module("torch.distributed")
        # One rank has nobody to replicate to.
        self._saver = savers.DefaultMLFlashpointCheckpointSaver(
            distributed.get_rank, lambda: 0, distributed.barrier, manager, None
        )
        ready: Any = importlib.import_module("concurrent.futures").Future()
        ready.set_result(torch.multiprocessing.get_context("spawn").Manager())
        self._writer = writers.MemoryStorageWriter(self._saver, ready)
        self._loader = loaders.DefaultMLFlashpointCheckpointLoader(
            manager,
            None,
            global_rank_getter=distributed.get_rank,
            local_rank_getter=lambda: 0,
            broadcast_object_list_func=distributed.broadcast_object_list,
            all_gather_object_func=distributed.all_gather_object,
            world_size_getter=distributed.get_world_size,
        )
        self._pending: Any = None

    def save(self, state: dict[str, Any], number: int) -> None:
        base = self._ids(str(self.home / "job"))
        self._id = self._ids.create_child(base, self._ids.format_version_container(number))
        options = {"checkpoint_id": str(self._id), "storage_writer": self._writer}
        if self.asynchronous:
            self._pending = self._dcp.async_save(state, **options)
        else:
            self._dcp.save(state, **options)

    def complete(self) -> None:
        if self._pending is not None:
            self._pending.result()
        removing = self._saver.finalize_checkpoint(self._id)
        if removing is not None:
            removing.wait()

    def load(self, into: dict[str, Any]) -> dict[str, Any]:
        reader = self._readers.MemoryStorageReader(str(self._id), self._loader)
        self._dcp.load(into, checkpoint_id=str(self._id), storage_reader=reader)
        return into

    def files(self) -> list[pathlib.Path]:
        # Its checkpoints are links into the pool.
        return [path for path in super().files() if not path.is_symlink()]


class MlFlashpointAsync(MlFlashpoint):
    """ml-flashpoint behind `dcp.async_save`, which stages with its writer."""

    asynchronous = True


PEERS: dict[str, type[Peer]] = {
    "plain copy": Plain,
    "Surefoot": Surefoot,
    "Surefoot, checked": SurefootChecked,
    "DCP async_save, own stager": Dcp,
    "DCP async_save, default stager": DcpDefault,
    "DLRover flash checkpoint, memory": DlRover,
    "NVRx local, synchronous": Nvrx,
    "ml-flashpoint, dcp.save": MlFlashpoint,
    "ml-flashpoint, async_save": MlFlashpointAsync,
}


def _one_rank(home: pathlib.Path) -> None:
    """A process group of this process alone."""
    distributed = importlib.import_module("torch.distributed")
    if not distributed.is_initialized():
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        meeting = f"file://{home.parent / (home.name + '.meeting')}"
        distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
