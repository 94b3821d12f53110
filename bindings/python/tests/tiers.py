# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Directories for the tiers of one test, programs that are started to be killed, and the ranks of a job as processes."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import surefoot

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Longer than anything here takes, even where two cores do the work of ten.
PATIENCE_S = 300


def has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        # Of what it is a part of.
        return False


needs_mpi = unittest.skipUnless(has("mpi4py") and shutil.which("mpirun"), "mpi4py and mpirun are not both installed")
needs_torch = unittest.skipUnless(has("torch"), "PyTorch is not installed")


def mpirun(ranks: int, program: object, *arguments: object) -> list[str]:
    """The command that runs a program's file on so many ranks of this machine."""
    options = ["--allow-run-as-root", "--oversubscribe", "-np", str(ranks)]
    return ["mpirun", *options, sys.executable, str(program), *map(str, arguments)]


class Tiers(unittest.TestCase):
    """A test with a memory and a durable directory of its own."""

    def setUp(self) -> None:
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        home = tempfile.TemporaryDirectory(dir=base)
        self.addCleanup(home.cleanup)
        self.home = pathlib.Path(home.name)
        self.memory = self.home / "memory"
        self.memory.mkdir()
        # What lies in memory is not durable.
        ssd = tempfile.TemporaryDirectory(dir="/var/tmp" if os.access("/var/tmp", os.W_OK) else None)
        self.addCleanup(ssd.cleanup)
        self.ssd = pathlib.Path(ssd.name) / "ssd"
        self.ssd.mkdir()

    def open(self, job: str = "job", **settings: Any) -> surefoot.Checkpoint:
        settings = {"memory": self.memory, "policy": "memory", "health_file": self.home / "health.json", **settings}
        opened = surefoot.Checkpoint(job, **settings)
        self.addCleanup(opened.close)
        return opened

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), "MEMORY": str(self.memory), "SSD": str(self.ssd)}

    def environment_of_ranks(self) -> dict[str, str]:
        """That of ranks whose traffic stays within the machine, and their files within the test."""
        own = {
            "OMPI_MCA_btl": "self,vader",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
            # Ranks that wait leave the cores to those that work.
            "OMPI_MCA_mpi_yield_when_idle": "1",
        }
        return {**self.environment(), **own, "GLOO_SOCKET_IFNAME": "lo", "TMPDIR": str(self.home)}

    def start(self, program: str, *arguments: object) -> subprocess.Popen[str]:
        """Starts a program that is given as its text; it is killed at the end of the test at the latest."""
        command = [sys.executable, "-c", program, *map(str, arguments)]
        child = subprocess.Popen(
            command, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(self._end, child)
        return child

    def run_program(self, program: str, *arguments: object) -> str:
        child = self.start(program, *arguments)
        out, error = child.communicate(timeout=PATIENCE_S)
        self.assertEqual(child.returncode, 0, error)
        return out

    def forget_everything(self) -> None:
        """Empties the tiers."""
        for tier in (self.memory, self.ssd):
            for path in sorted(tier.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()

    @staticmethod
    def _end(child: subprocess.Popen[str]) -> None:
        if child.poll() is None:
            child.kill()
        child.communicate()


# Imports PyTorch once, which takes longer than what most ranks do, and makes a process of its own for each rank.
RANKS_OF_TORCH = """
import ctypes, json, os, sys
import torch.distributed
program, jobs = sys.argv[1], json.loads(sys.argv[2])
for environment, arguments in jobs:
    ranks = int(arguments[-2])
    children = []
    for rank in range(ranks):
        children.append(os.fork())
        if children[-1] == 0:
            # PR_SET_PDEATHSIG, SIGKILL: no rank outlives a test that gave up.
            ctypes.CDLL(None).prctl(1, 9)
            os.environ.update(environment)
            sys.argv = ["rank", "torch", str(rank), *arguments]
            exec(compile(program, "program", "exec"), {"__name__": "__main__"})
            sys.exit()
    for child in children:
        os.waitpid(child, 0)
"""


class Processes(Tiers):
    """A job whose ranks are processes. Its program's first argument is `mpi`, or `torch`, its rank, the number of ranks and the
    file at which they meet; it makes a file called as its rank in the directory THROUGH when it has come to its end."""

    def through_mpi(self, program: str, *counts: int) -> None:
        file = self.home / "program.py"
        file.write_text(program)
        for ranks in counts:
            own = self._own(ranks)
            said = self._said(mpirun(ranks, file, "mpi"), own)
            self._ended(own, ranks, said)

    def through_torch(self, program: str, *counts: int, gone: int = 0) -> None:
        """The last `gone` ranks do not come to their end."""
        jobs = [(self._own(ranks), [str(ranks), str(self.home / f"meeting-{ranks}")]) for ranks in counts]
        command = [sys.executable, "-c", RANKS_OF_TORCH, program, json.dumps(jobs)]
        said = self._said(command, {}, PATIENCE_S * len(counts))
        for ranks, (own, _) in zip(counts, jobs):
            self._ended(own, ranks - gone, said)

    def _own(self, ranks: int) -> dict[str, str]:
        """Variables that name the directories of a job of so many ranks."""
        own = {name: self.home / f"{name.lower()}-{ranks}" for name in ("MEMORY", "SSD", "THROUGH")}
        for directory in own.values():
            directory.mkdir()
        return {name: str(directory) for name, directory in own.items()}

    def _said(self, command: list[str], own: dict[str, str], patience_s: int = PATIENCE_S) -> str:
        environment = {**self.environment_of_ranks(), **own}
        child = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.addCleanup(self._end, child)
        return child.communicate(timeout=patience_s)[0]

    def _ended(self, own: dict[str, str], ranks: int, said: str) -> None:
        ended = sorted(int(file.name) for file in pathlib.Path(own["THROUGH"]).iterdir())
        self.assertEqual(ended, list(range(ranks)), said)
