# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Ranks that close, drop or leave a checkpoint while others go on: processes that talk through MPI or gloo. The others get an
error that names the rank and the call, none waits, and all that close wait for nobody."""

from __future__ import annotations

from .tiers import Processes, needs_mpi, needs_torch

PROGRAM = """
import gc, itertools, os, sys
import surefoot

if sys.argv[1] == "mpi":
    from mpi4py import MPI
    group = MPI.COMM_WORLD
    rank, size = group.Get_rank(), group.Get_size()
    wait = lambda source: group.recv(source=source)
    wake = lambda to: group.send(None, dest=to)
else:
    import torch, torch.distributed as group
    rank, size = int(sys.argv[2]), int(sys.argv[3])
    group.init_process_group("gloo", init_method="file://" + sys.argv[4], rank=rank, world_size=size)
    wait = lambda source: group.recv(torch.zeros(1), source)
    wake = lambda to: group.send(torch.zeros(1), to)

def opened():
    return surefoot.Checkpoint(
        "job", memory=os.environ["MEMORY"], durable=os.environ["SSD"], durable_allow_memory="yes", drive_file="none",
        health_file="/nowhere", group=group, strict=True,
    )

def state(step):
    return {"step": step, "own": bytearray([rank, step] * (1000 + rank))}

with opened() as job:
    for step in (1, 2):
        job.save_state(state(step))

calls = {
    "need": lambda job: job.need(),
    "save": lambda job: job.save(),
    "finish": lambda job: job.finish(),
    "complete": lambda job: job.complete(),
    "discard": lambda job: job.close(discard=True),
    "restart": lambda job: job.restart(),
    "restart_resized": lambda job: job.restart_resized(),
    "open_resized": lambda job: job.open_resized(),
}

def leave(job, how):
    if how == 0:
        job.close()
    elif how == 1:
        try:
            with job:
                raise ArithmeticError
        except ArithmeticError:
            pass
    # Otherwise the last reference goes.

number = 0
for call, gone in itertools.product(calls, range(size)):
    number += 1
    job = opened()
    assert job.load_state() == state(2), call
    job.state_dict(state(3))
    if rank == gone:
        leave(job, number % 3)
        del job
        gc.collect()
        continue
    try:
        calls[call](job)
        raise SystemExit(f"rank {rank}: {call} goes on without rank {gone}")
    except surefoot.GroupError as error:
        said = str(error)
    assert f"rank {gone} closed its session" in said and f"calls {call}" in said, (call, gone, said)
    job.close()

# Each closes only after the rank before it has closed.
for first in range(size):
    job = opened()
    if (rank - first) % size > 0:
        wait((rank - 1) % size)
    job.close()
    if (rank - first) % size < size - 1:
        wake((rank + 1) % size)

with opened() as job:
    assert job.load_state() == state(2)
open(os.path.join(os.environ["THROUGH"], str(rank)), "w").close()
"""


@needs_mpi
class MpiClosed(Processes):
    def test_ranks_of_mpi_are_told_who_closed(self) -> None:
        self.through_mpi(PROGRAM, 2, 3, 4)


@needs_torch
class TorchClosed(Processes):
    def test_ranks_of_gloo_are_told_who_closed(self) -> None:
        self.through_torch(PROGRAM, 2, 3, 4)
