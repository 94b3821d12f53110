# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Arrays that are saved from where they are, without NumPy."""

import array
import sys

import surefoot

cells = array.array("d", [0.0]) * 100_000
step = array.array("q", [0])

with surefoot.Checkpoint("cells", **dict(setting.split("=", 1) for setting in sys.argv[1:])) as job:
    job.protect("cells", cells)
    job.protect("step", step)
    try:
        restored = job.restart()
    except surefoot.NothingIntactError as error:
        # There are checkpoints and none is intact: whether to begin anew is for a person to say.
        sys.exit(f"{error}")
    log = job.route_file("log.txt")
    while step[0] < 20:
        step[0] += 1
        cells[step[0]] = cells[step[0] - 1] + 1 / step[0]
        with open(log, "a" if step[0] > 1 else "w") as file:
            print(step[0], cells[step[0]], file=file)
        job.save()
        print("step", step[0], *job.reasons, flush=True)
    print(open(log).read(), end="")
