# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An array that is cut among however many ranks there are.

mpirun -np 4 python3 resized.py 100 policy=memory
mpirun -np 3 python3 resized.py 200 policy=memory
"""

import array
import sys

import surefoot

CELLS = 100_003

try:
    from mpi4py import MPI

    group, rank, ranks = MPI.COMM_WORLD, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
except ImportError:
    group, rank, ranks = None, 0, 1

steps = int(sys.argv[1])
settings = dict(setting.split("=", 1) for setting in sys.argv[2:])
first, end = rank * CELLS // ranks, (rank + 1) * CELLS // ranks
cells = array.array("q", range(first, end))
step = array.array("q", [0])

with surefoot.Checkpoint("resized", group=group, **settings) as job:
    job.protect("cells", cells)
    job.protect("step", step)
    restored = job.restart_resized()
    if restored:
        print(f"at step {step[0]}: {restored.report[0]}", flush=True)
    while step[0] < steps:
        for at in range(len(cells)):
            cells[at] = (cells[at] * 31 + 7) % 1_000_003
        step[0] += 1
        if step[0] % 5 == 0:
            job.save()
own = sum((first + at + 1) * cell for at, cell in enumerate(cells))
whole = own if group is None else group.allreduce(own)
if rank == 0:
    print(f"after {step[0]} steps: {whole}", flush=True)
