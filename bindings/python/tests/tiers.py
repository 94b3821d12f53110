# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Directories for the tiers of one test, and programs that are started to be killed."""

from __future__ import annotations

import importlib.util
import os
import pathlib
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
