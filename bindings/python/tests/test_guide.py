# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The guide's code is that of the examples, and the examples do what the guide says."""

import inspect
import os
import re
import signal
import socket
import sys
import subprocess
import unittest
import unittest.mock

import surefoot

from .tiers import PATIENCE_S, ROOT, Tiers, has

GUIDE = ROOT.parent.parent / "docs" / "guide" / "checkpoint-python.md"
EXAMPLES = ROOT / "examples"


class Examples(Tiers):
    def example(self, name: str, *arguments: object) -> "subprocess.Popen[str]":
        settings = [f"memory={self.memory}", "policy=memory", f"health_file={self.home}/health.json"]
        command = [sys.executable, str(EXAMPLES / name), *map(str, arguments), *settings]
        child = subprocess.Popen(
            command, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(self._end, child)
        return child

    def finished(self, child: "subprocess.Popen[str]") -> list[str]:
        out, error = child.communicate(timeout=PATIENCE_S)
        self.assertEqual((child.returncode, error), (0, ""))
        return out.splitlines()

    def is_told_to_end_and_goes_on(self, name: str, steps: int) -> None:
        expected = self.finished(self.example(name, steps))[-1]
        self.forget_everything()
        told = self.example(name, steps, "sigterm=checkpoint", f"durable={self.ssd}")
        assert told.stdout is not None
        lines = [told.stdout.readline() for _ in range(3)]
        told.send_signal(signal.SIGTERM)
        _, error = told.communicate(timeout=PATIENCE_S)
        self.assertEqual(told.returncode, 1, (lines, error))
        self.assertRegex(error, r"^told to end at step \d+: started again, it goes on there$")
        # The node is another one: what was saved at the signal is on the SSD.
        for path in sorted(self.memory.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        lines = self.finished(self.example(name, steps, f"durable={self.ssd}"))
        step = error.split(":")[0].split()[-1]
        self.assertRegex(lines[0], rf"restarted at step {step}: rank 0: generation \d+ from the SSD")
        self.assertEqual(lines[-1], expected)

    def is_killed_and_goes_on(self, name: str, steps: int) -> None:
        expected = self.finished(self.example(name, steps))[-1]
        self.forget_everything()
        killed = self.example(name, steps)
        assert killed.stdout is not None
        lines = [killed.stdout.readline() for _ in range(3)]
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        self.assertTrue(lines[2].startswith("step 30: loss"), lines)
        lines = self.finished(self.example(name, steps))
        self.assertRegex(lines[0], r"restarted at step [3-9]\d: rank 0: generation \d+ from memory: .* intact")
        self.assertEqual(lines[-1], expected)


class Guide(Examples):
    def test_a_state_is_read_without_its_program(self) -> None:
        with self.open("train") as job:
            job.save_state({"step": 7, "weights": bytearray(300_000), "small": bytearray(3)})
        self.assertEqual(
            self.finished(self.example("read_state.py", "train")), ["generation 1, rank 0: step, weights, small"]
        )

    def test_the_code_of_the_page_is_that_of_the_examples(self) -> None:
        examples = [path.read_text() for path in EXAMPLES.glob("*.py")]
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 6)
        for language, block in blocks:
            self.assertEqual(language, "python")
            self.assertTrue(any(block in example for example in examples), f"in no example:\n{block}")

    def test_the_page_names_everything_that_there_is(self) -> None:
        page = GUIDE.read_text()
        for name, member in inspect.getmembers(surefoot.Checkpoint):
            if not name.startswith("_") and name != "closed":
                self.assertRegex(page, rf"`{name}\b", f"{member} is not on the page")
        for name in surefoot.__all__:
            self.assertIn(name, page)
        signature = re.search(r"`Checkpoint\((.*?)\)`", page)
        assert signature is not None
        said = [re.split("[=:]", word.strip())[0] for word in signature[1].split(",")]
        real = [str(parameter) for parameter in inspect.signature(surefoot.Checkpoint).parameters.values()]
        self.assertEqual([word for word in said if word != "*"], [re.split("[=:]", word)[0] for word in real])

    def test_calls_are_written_on_the_page_as_they_are_made(self) -> None:
        def written(call: object) -> str:
            parts, had_star = [], False
            for one in inspect.signature(call).parameters.values():  # type: ignore[arg-type]
                if one.name == "self":
                    continue
                if one.kind is one.KEYWORD_ONLY and not had_star:
                    had_star = True
                    parts.append("*")
                name = f"**{one.name}" if one.kind is one.VAR_KEYWORD else one.name
                parts.append(name if one.default is one.empty else f"{name}={one.default!r}".replace("'", '"'))
            return ", ".join(parts)

        rows = re.findall(r"^\| (`[^|]*`) \|", GUIDE.read_text(), re.M)
        calls = [call for row in rows for call in re.findall(r"`(\w+)\(([^`]*)\)`", row)]
        self.assertGreater(len(calls), 10)
        for name, arguments in calls:
            call = surefoot.Checkpoint if name == "Checkpoint" else getattr(surefoot.Checkpoint, name)
            self.assertEqual(f"{name}({arguments})", f"{name}({written(call)})")

    def test_an_array_that_is_cut_anew_goes_on(self) -> None:
        expected = self.finished(self.example("resized.py", 12))
        self.forget_everything()
        self.finished(self.example("resized.py", 7))
        lines = self.finished(self.example("resized.py", 12))
        self.assertRegex(lines[0], "at step 5: rank 0: generation 1 from memory: .* intact")
        self.assertEqual(lines[1:], expected)

    def test_arrays_alone_and_their_file_come_back(self) -> None:
        killed = self.example("regions.py")
        assert killed.stdout is not None
        for _ in range(7):
            killed.stdout.readline()
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        lines = self.finished(self.example("regions.py"))
        self.assertGreaterEqual(int(lines[0].split()[1]), 8)
        self.assertIn("the policy is", lines[0])
        self.assertEqual([int(line.split()[0]) for line in lines[-20:]], list(range(1, 21)))


@unittest.skipUnless(has("numpy"), "NumPy is not installed")
class GuideNumpy(Examples):
    def test_training_with_numpy_goes_on_with_the_same_bits(self) -> None:
        self.is_killed_and_goes_on("training.py", 2000)

    def test_training_with_numpy_that_is_told_to_end_goes_on_with_the_same_bits(self) -> None:
        self.is_told_to_end_and_goes_on("training.py", 2000)


@unittest.skipUnless(has("torch"), "PyTorch is not installed")
class GuideTorch(Examples):
    def test_training_with_pytorch_goes_on_with_the_same_bits(self) -> None:
        self.is_killed_and_goes_on("training_torch.py", 200)

    def test_training_with_pytorch_that_is_told_to_end_goes_on_with_the_same_bits(self) -> None:
        self.is_told_to_end_and_goes_on("training_torch.py", 200)

    def test_data_parallel_training_goes_on_with_the_same_bits(self) -> None:
        expected = self.ended(self.ranks(60))[0].splitlines()[-1]
        self.assertRegex(expected, "after 60 steps the weights add up to ")
        self.forget_everything()
        killed = self.ranks(60)
        assert killed[0].stdout is not None
        while not killed[0].stdout.readline().startswith("step 30:"):
            pass
        for child in killed:
            child.kill()
            child.communicate()
        said = self.ended(self.ranks(60))
        for rank in range(2):
            self.assertRegex(said[rank], rf"restarted at step [3-6]0: rank {rank}: generation \d from memory")
        self.assertEqual(said[0].splitlines()[-1], expected)

    def ranks(self, steps: int) -> "list[subprocess.Popen[str]]":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
        started = []
        for rank in range(2):
            with unittest.mock.patch.dict(os.environ, {**common, "RANK": str(rank), "OMP_NUM_THREADS": "1"}):
                started.append(self.example("training_ddp.py", steps))
        return started

    def ended(self, ranks: "list[subprocess.Popen[str]]") -> list[str]:
        told = [child.communicate(timeout=PATIENCE_S) for child in ranks]
        self.assertEqual([child.returncode for child in ranks], [0, 0], told)
        return [out for out, _ in told]
