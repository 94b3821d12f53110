# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The benchmark beside other people's checkpoints runs, with what is installed here. Needs PyTorch."""

import json
import subprocess
import sys
import unittest

from .tiers import PATIENCE_S, ROOT, Tiers, has

RUN = ROOT.parent.parent / "bench" / "training" / "run.py"


@unittest.skipUnless(has("torch"), "PyTorch is not installed")
class Bench(Tiers):
    def test_no_damage_is_missed_and_what_is_not_installed_is_said(self) -> None:
        path = self.home / "measured.json"
        command = [sys.executable, RUN, "--state", "40:1", "--rounds", "1", "--warm-up", "1", "--loads", "1"]
        command += ["--damages", "4", "--memory", self.memory, "--json", path, "--threads", "1"]
        command += ["--only", "plain copy", "--only", "Surefoot", "--only", "ml-flashpoint"]
        ran = subprocess.run(
            list(map(str, command)), env=self.environment(), capture_output=True, text=True, timeout=PATIENCE_S
        )
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
        rows = {row["name"]: row for row in json.loads(path.read_text())["1 MB in 40 tensors"]}
        self.assertEqual(rows["plain copy"]["outcomes"], {})
        self.assertEqual(rows["Surefoot"]["outcomes"], {"right": 4})
        self.assertEqual(set(rows["Surefoot, checked"]["outcomes"]) - {"right", "refused"}, set())
        self.assertEqual(sum(rows["Surefoot, checked"]["outcomes"].values()), 4)
        for name in ("plain copy", "Surefoot", "Surefoot, checked"):
            self.assertEqual((rows[name]["skipped"], len(rows[name]["standstill_ns"])), ("", 1))
            worked, stood = rows[name]["processor_ns"], rows[name]["standstill_ns"]
            self.assertTrue(len(worked) == 1 and 0 < worked[0] <= 2 * stood[0], (worked, stood))
        for name in ("ml-flashpoint, dcp.save", "ml-flashpoint, async_save"):
            if not has("ml_flashpoint"):
                self.assertIn(f"| {name} | not run: ", ran.stdout)
