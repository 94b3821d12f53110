# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What one rank refuses, or fails at, in processes that talk through MPI or gloo: all ranks get an error with its reason, and
none waits."""

from __future__ import annotations

from .tiers import Processes, needs_mpi, needs_torch

OPENED = """
import os, sys
import numpy, surefoot

if sys.argv[1] == "mpi":
    from mpi4py import MPI
    group = MPI.COMM_WORLD
    rank, size = group.Get_rank(), group.Get_size()
else:
    import torch.distributed as group
    rank, size = int(sys.argv[2]), int(sys.argv[3])
    group.init_process_group("gloo", init_method="file://" + sys.argv[4], rank=rank, world_size=size)

def opened(**settings):
    settings = {"policy": "memory", "drive_file": "none", "health_file": "/nowhere", **settings}
    return surefoot.Checkpoint("job", memory=os.environ["MEMORY"], group=group, strict=True, **settings)

def ended():
    with open(os.path.join(os.environ["THROUGH"], str(rank)), "x"):
        pass
"""

# Each case on a session that goes on afterwards.
PROGRAM = (
    OPENED
    + """
class Own(numpy.ndarray):
    pass

def state(odd, length=100):
    array = numpy.full(length, 7.0)
    return {"a": array.view(Own) if rank == odd else array}

def state_dict(job, odd, call):
    job.state_dict(state(odd))
    call(job)

cases = {
    "save_state": lambda job, odd: job.save_state(state(odd)),
    "state_dict and save": lambda job, odd: state_dict(job, odd, lambda job: job.save()),
    "state_dict and restart": lambda job, odd: state_dict(job, odd, lambda job: job.restart()),
    "load_state": lambda job, odd: job.load_state(into=state(odd)),
    "load_state of another shape": lambda job, odd: job.load_state(into=state(None, 9 if rank == odd else 100)),
}
job = opened()
assert job.save_state(state(None)) and job.load_state()["a"][0] == 7
for name, case in cases.items():
    for odd in range(size):
        shape = name.endswith("shape")
        kind, word = (surefoot.ShapeError, "other arrays") if shape else (surefoot.UnsupportedError, "would come back as a plain array")
        try:
            case(job, odd)
            raise SystemExit(f"{name}: rank {odd} refused nothing")
        except kind as error:
            assert rank == odd and word in str(error), (name, error)
        except surefoot.OtherRankError as error:
            wanted = (f"rank {odd} failed: {kind.__name__}: ", word)
            assert rank != odd and all(word in str(error) for word in wanted), (name, error)
        job.state_dict(None)
        assert job.load_state()["a"][0] == 7, name

# An error that is this rank's alone ends its session, and the others are told of it.
job.close()
for odd in range(size):
    try:
        with opened() as job:
            if rank == odd:
                job.protect("a", object())
            job.restart()
        raise SystemExit(f"rank {odd} protected an object")
    except surefoot.UnsupportedError as error:
        assert rank == odd, error
    except surefoot.GroupError as error:
        wanted = f"rank {odd} closed its session after an error: UnsupportedError: "
        assert rank != odd and wanted in str(error), error
ended()
"""
)

# The last rank is gone in the middle of the job. What the transport says of that stands in the error, on all others.
DIES = (
    OPENED
    + """
job = opened()
job.save_state({"n": 1})
if rank == size - 1:
    os._exit(0)
try:
    while True:
        job.need()
except surefoot.GroupError as error:
    words = ("exchange failed: RuntimeError: ", "onnection")
    assert all(word in str(error) for word in words), error
ended()
os._exit(0)
"""
)


@needs_mpi
class MpiRefused(Processes):
    def test_what_one_rank_of_mpi_refuses_all_are_told(self) -> None:
        self.through_mpi(PROGRAM, 2, 3)


@needs_torch
class TorchRefused(Processes):
    def test_what_one_rank_of_gloo_refuses_all_are_told(self) -> None:
        self.through_torch(PROGRAM, 2, 3)

    def test_the_cause_of_a_group_that_fails_is_told(self) -> None:
        self.through_torch(DIES, 2, 3, gone=1)
