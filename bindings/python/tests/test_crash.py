# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs that are killed, and go on where they were, bit by bit."""

import os
import signal
import unittest

from .tiers import Tiers, has

# Computes a chain of numbers in which each step depends on the one before, and saves after each.
PLAIN = """
import array, hashlib, os, sys, surefoot
steps, dies_at = int(sys.argv[1]), int(sys.argv[2])
numbers = array.array("Q", range(20_000))
state = {"step": 0, "numbers": numbers, "log": []}
job = surefoot.Checkpoint("crash", memory=os.environ["MEMORY"], durable=os.environ["SSD"], policy=sys.argv[3])
job.state_dict(state)
restored = job.restart()
print("from", state["step"], flush=True)
while state["step"] < steps:
    state["step"] += 1
    for i in range(0, 20_000, 97):
        numbers[i] = (numbers[i - 1] * 6364136223846793005 + state["step"]) % (1 << 64)
    state["log"].append(state["step"] * 0.1)
    saved = job.save(strict=True)
    # A pipe holds few such lines, so a program that nobody reads from does not get far.
    print("saved", state["step"], saved.generation, "." * 4000, flush=True)
    if state["step"] == dies_at:
        os._exit(9)
print("digest", hashlib.sha256(numbers.tobytes() + repr(state["log"]).encode()).hexdigest())
"""

NUMPY = """
import hashlib, os, sys, numpy, surefoot
steps = int(sys.argv[1])
with surefoot.Checkpoint("crash", memory=os.environ["MEMORY"], policy="memory") as job:
    state = job.load_state()
    if state is None:
        state = {"step": 0, "grid": numpy.random.default_rng(1).random((300, 400)), "history": []}
    grid = state["grid"]
    print("from", state["step"], flush=True)
    while state["step"] < steps:
        grid[1:-1] = (grid[:-2] + grid[2:] + numpy.sin(grid[1:-1])) / 2
        state["step"] += 1
        state["history"].append(grid.sum())
        job.save_state(state)
        print("saved", state["step"], flush=True)
print("digest", hashlib.sha256(grid.tobytes() + numpy.array(state["history"]).tobytes()).hexdigest())
"""


class Killed(Tiers):
    def undisturbed(self, program: str, *arguments: object) -> str:
        """What it comes to when nobody kills it; afterwards the tiers are empty."""
        out = self.run_program(program, *arguments)
        self.forget_everything()
        return out.split("digest ")[1].strip()


class Crashes(Killed):
    def test_a_program_that_exits_at_once_goes_on_with_its_last_step(self) -> None:
        expected = self.undisturbed(PLAIN, 30, 0, "memory")
        for dies_at in (7, 8, 20):
            child = self.start(PLAIN, 30, dies_at, "memory")
            out, error = child.communicate()
            self.assertEqual(child.returncode, 9, error)
            self.assertIn(f"saved {dies_at} ", out)
        out = self.run_program(PLAIN, 30, 0, "memory")
        self.assertTrue(out.startswith("from 20\n"), out)
        self.assertEqual(out.split("digest ")[1].strip(), expected)

    def test_a_program_that_is_killed_at_any_moment_loses_no_step_that_was_reported(self) -> None:
        for policy in ("memory", "durable", "every:3"):
            expected = self.undisturbed(PLAIN, 120, 0, policy)
            reported, lives = 0, 0
            while True:
                lives += 1
                child = self.start(PLAIN, 120, 0, policy)
                assert child.stdout is not None
                begun = int(child.stdout.readline().split()[1])
                # One more may have been complete when its program died before it could say so.
                self.assertIn(begun, (reported, reported + 1), policy)
                lines = [line for _, line in zip(range(13 * lives), child.stdout)]
                if lines and lines[-1].startswith("digest"):
                    break
                child.send_signal(signal.SIGKILL)
                lines += list(child.stdout)
                child.wait()
                steps = [int(line.split()[1]) for line in lines if line.startswith("saved") and line.endswith("\n")]
                reported = steps[-1] if steps else begun
            self.assertEqual(lines[-1].split()[1], expected, policy)
            self.assertGreater(lives, 2)
            self.forget_everything()


@unittest.skipUnless(has("numpy"), "NumPy is not installed")
class NumpyCrashes(Killed):
    def test_numpy_arrays_of_a_killed_program_come_back_new_and_bit_by_bit(self) -> None:
        expected = self.undisturbed(NUMPY, 60)
        for kill_after in (5, 17, 20):
            child = self.start(NUMPY, 60)
            assert child.stdout is not None
            for _ in range(kill_after):
                child.stdout.readline()
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
        out = self.run_program(NUMPY, 60)
        self.assertGreaterEqual(int(out.split()[1]), 39)
        self.assertEqual(out.split("digest ")[1].strip(), expected)
