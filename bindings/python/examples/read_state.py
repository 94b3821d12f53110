# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Reads the state that each rank of a job saved, after the job ended and without its program.

python3 read_state.py training memory=/dev/shm/surefoot-1000 durable=/ssd
"""

import sys

import surefoot

name = sys.argv[1]
settings = dict(setting.split("=", 1) for setting in sys.argv[2:])

job = surefoot.Checkpoint(name, **settings)
try:
    found = job.open_resized()
    if found is None:
        sys.exit(f"no checkpoint of {name}")
    for rank in range(found.ranks):
        state = found.state(rank)
        print(f"generation {found.generation}, rank {rank}: {', '.join(map(str, state))}")
finally:
    job.close()
