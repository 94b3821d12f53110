# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Ranks that make different calls, or have different settings: processes that talk through MPI or gloo. All of them get an
error that says so, none waits, and what was saved stays."""

from __future__ import annotations

from .tiers import Processes, needs_mpi, needs_torch

# Every pair of calls and every setting in one job after the other, over the same group: nothing is left of one that failed.
# Two ranks try one half of the pairs and three the other; with SUREFOOT_SOAK, as in `make soak`, both try all.
PROGRAM = """
import itertools, os, sys
import surefoot

if sys.argv[1] == "mpi":
    from mpi4py import MPI
    group = MPI.COMM_WORLD
    rank, size = group.Get_rank(), group.Get_size()
else:
    import torch.distributed as group
    rank, size = int(sys.argv[2]), int(sys.argv[3])
    group.init_process_group("gloo", init_method="file://" + sys.argv[4], rank=rank, world_size=size)

def opened(**settings):
    # Hundreds of openings: on a disk they would take minutes, and what they say does not depend on it.
    settings = {"durable": os.environ["SSD"], "durable_allow_memory": "yes", "drive_file": "none", "health_file": "/nowhere", **settings}
    return surefoot.Checkpoint("job", memory=os.environ["MEMORY"], group=group, strict=True, **settings)

def state(step):
    return {"step": step, "own": bytearray([rank, step] * (1000 + rank))}

with opened() as job:
    for step in (1, 2):
        job.save_state(state(step))

calls = {
    "need": lambda job: job.need(),
    "save": lambda job: job.save(),
    "save to memory": lambda job: job.save(to="memory"),
    "save to durable": lambda job: job.save(to="durable"),
    "finish": lambda job: job.finish(),
    "complete": lambda job: job.complete(),
    "discard": lambda job: job.close(discard=True),
    "restart": lambda job: job.restart(),
    "restart_resized": lambda job: job.restart_resized(),
    "open_resized": lambda job: job.open_resized(),
}
number = 0
for one, other in itertools.permutations(calls, 2):
    number += 1
    if number % 2 != size % 2 and "SUREFOOT_SOAK" not in os.environ:
        continue
    odd = number // 2 % size
    job = opened()
    restored = job.load_state()
    assert restored == state(2), (one, other, restored["step"])
    job.state_dict(state(3))
    try:
        calls[one if rank == odd else other](job)
        raise SystemExit(f"rank {rank}: {one} at rank {odd} and {other} elsewhere were not noticed")
    except surefoot.GroupError as error:
        said = str(error)
    # A place is told after a preparation that is the same for all.
    first, second = one.split()[0], other.split()[0]
    assert "out of step" in said and f"rank {odd} calls {first}" in said and f" {second}" in said, said
    assert first != second or f"calls {one}" in said and f" {other}" in said, said
    if not job.closed:
        try:
            job.save()
            raise SystemExit(f"rank {rank}: saves after {one} and {other}")
        except surefoot.GroupError as error:
            assert "an earlier call failed" in str(error), error
    job.close()

settings = {
    "DURABLE_KEEP": "7", "DURABLE_PROTECTION": "shard", "PARTNER": "yes", "PARITY": "1+1", "SHARED": os.environ["SSD"] + "/..",
    "MEMORY_SLOTS": "6", "MEMORY_PROTECTION": "checked", "POLICY": "every:3", "STALENESS_MAX_S": "77",
    "MEMORY_MTBF_S": "99", "DURABLE_MTBF_S": "999", "PRIORITY": "endurance", "AFTER_COMPLETION": "continue",
    "SIGTERM": "checkpoint", "MEMORY_THREADS": None, "DURABLE_LIMIT_BYTES_PER_S": None, "ENDURANCE_RATED_BYTES": None,
    "POLICY ": "nonsense", "PARITY ": "0+0",
}
for number, (name, value) in enumerate(settings.items()):
    odd = number % size
    variable = "SUREFOOT_CHECKPOINT_" + name.strip()
    if rank == odd:
        os.environ[variable] = value or ("2" if name == "MEMORY_THREADS" else "900000000")
    try:
        job = opened()
        # Whoever may open goes on to its end.
        job.restart()
        job.need()
        job.save_state(state(2), to="memory")
        job.finish()
        job.close()
        assert value is None, f"{name} on rank {odd} was not noticed"
    except surefoot.OptionError as error:
        words = (name.lower().strip(), name.lower().strip().replace("_", ".", 1))
        assert any(word in str(error) for word in words), error
        assert value is not None and (value in str(error) or name == "SHARED"), error
        assert name.endswith(" ") or f"on rank {odd}" in str(error), error
    except surefoot.OtherRankError as error:
        assert name.endswith(" ") and rank != odd and variable in str(error) and f"rank {odd} failed" in str(error), error
    os.environ.pop(variable, None)

# One rank's program gives another name, or has something that cannot be saved.
for wrong in ("other", "job"):
    try:
        job = surefoot.Checkpoint(wrong if rank == 1 else "job", memory=os.environ["MEMORY"], group=group, drive_file="none")
    except surefoot.OptionError as error:
        assert wrong == "other" and "job is job on rank" in str(error) and "other on rank 1" in str(error), error
        continue
    assert wrong == "job"
    try:
        job.save_state({"thing": object() if rank == 1 else 5})
        raise SystemExit("an object was saved")
    except surefoot.UnsupportedError:
        assert rank == 1
    except surefoot.OtherRankError as error:
        assert "rank 1 failed: UnsupportedError: " in str(error), error
    job.close()

with opened() as job:
    assert job.load_state() == state(2)
# A file of its own: mpirun may print the words of one rank between those of another.
with open(os.path.join(os.environ["THROUGH"], str(rank)), "x"):
    pass
"""


@needs_mpi
class MpiApart(Processes):
    def test_ranks_of_mpi_that_are_apart_are_all_told(self) -> None:
        self.through_mpi(PROGRAM, 2, 3)


@needs_torch
class TorchApart(Processes):
    def test_ranks_of_gloo_that_are_apart_are_all_told(self) -> None:
        self.through_torch(PROGRAM, 2, 3)
