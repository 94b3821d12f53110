# SPDX-License-Identifier: Apache-2.0 OR MIT
"""PyTorch: tensors, modules, optimizers, and ranks of torch.distributed. Needs PyTorch."""

from __future__ import annotations

import gc
import os
import signal
import unittest
from typing import Any

import surefoot

from .tiers import PATIENCE_S, Tiers, has

if has("torch"):
    import torch

# A training loop whose data come from a generator that is part of the state.
TRAINING = """
import hashlib, os, sys, torch, surefoot
steps = int(sys.argv[1])
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
step = 0
with surefoot.Checkpoint("training", memory=os.environ["MEMORY"], policy="memory") as job:
    state = job.load_state()
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["random"])
        step = state["step"]
    print("from", step, flush=True)
    while step < steps:
        features = torch.randn(16, 32)
        loss = (model(features) - features.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        step += 1
        job.save_state({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "schedule": schedule.state_dict(), "random": torch.get_rng_state(), "step": step})
        print("saved", step, flush=True)
digest = hashlib.sha256()
for name, tensor in model.state_dict().items():
    digest.update(name.encode() + tensor.numpy().tobytes())
print("digest", digest.hexdigest())
"""

RANKS = """
import os, sys, torch, torch.distributed as dist
import surefoot
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
group = dist if sys.argv[3] == "world" else dist.new_group([0, 1])
settings = {"partner": True} if sys.argv[3] == "partner" else {}
with surefoot.Checkpoint("ranks", memory=os.environ["MEMORY"], policy="memory", group=group, **settings) as job:
    state = {"step": 0, "own": torch.zeros(1000 * (rank + 1))}
    job.state_dict(state)
    job.restart()
    begun = state["step"]
    assert (state["own"] == begun + rank / 2).all() or begun == 0
    for step in range(begun + 1, begun + 4):
        state["step"] = step
        state["own"].fill_(step + rank / 2)
        assert job.save()
    print("from", begun, "to", state["step"], *job.notices(), flush=True)
# The threads of gloo do not always survive the interpreter's end (seen without this package, too).
os._exit(0)
"""


@unittest.skipUnless(has("torch"), "PyTorch is not installed")
class Tensors(Tiers):
    def test_every_type_comes_back_in_place_and_new(self) -> None:
        names = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
        state: dict[str, Any] = {}
        newer = [name for name in ["float8_e4m3fn", "uint16"] if hasattr(torch, name)]
        for name in [*names.split(), *newer]:
            dtype = getattr(torch, name)
            nbytes = 6 * torch.empty((), dtype=dtype).element_size()
            raw = torch.randint(0, 2 if name == "bool" else 256, (nbytes,), dtype=torch.uint8)
            state[name] = raw.view(dtype).reshape(2, 3)
        state["scalar"] = torch.tensor(3.5)
        state["empty"] = torch.empty(0, 4)
        state["parameter"] = torch.nn.Parameter(torch.randn(10_000))
        part = torch.randn(10, 10)
        state["part"] = part[2:4]
        before = {name: bytes_of(tensor) for name, tensor in state.items()}
        with self.open() as job:
            job.save_state(state)
            for tensor in state.values():
                if tensor.numel() and tensor.dim():
                    tensor.data.view(torch.uint8).bitwise_not_()
            rest_of_part = part[5:].clone()
            job.restart()
            self.assertEqual({name: bytes_of(tensor) for name, tensor in state.items()}, before)
            self.assertTrue(torch.equal(part[5:], rest_of_part), "the rest of a tensor is not its part's")
        with self.open() as job:
            loaded = job.load_state()
        self.assertEqual({name: bytes_of(tensor) for name, tensor in loaded.items()}, before)
        for name, tensor in loaded.items():
            self.assertEqual((tensor.dtype, tensor.shape), (state[name].dtype, state[name].shape))

    def test_what_is_not_plain_memory_of_the_cpu_is_refused(self) -> None:
        matrix = torch.randn(4, 6)
        hostile = [
            (matrix.t(), r"not contiguous; give it as .contiguous\(\)"),
            (matrix[:, ::2], "not contiguous"),
            (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), "not contiguous"),
            (matrix.to_sparse(), "not a dense tensor"),
            (torch.quantize_per_tensor(matrix, 0.1, 0, torch.qint8), "not a dense tensor"),
            (torch.empty(3, device="meta"), r"is on device meta; give it as .cpu\(\)"),
            (torch.randn(3, dtype=torch.complex64).conj(), "conjugated"),
            (matrix.expand(3, 4, 6), "not contiguous"),
            (torch.nn.parameter.UninitializedParameter(), "is a UninitializedParameter"),
        ]
        job = self.open()
        for tensor, why in hostile:
            for attempt in (lambda: job.protect("tensor", tensor), lambda: job.save_state([tensor])):
                with self.assertRaisesRegex(surefoot.UnsupportedError, why):
                    attempt()
        with self.assertRaisesRegex(surefoot.UnsupportedError, "is a torch.torch.Size|is a torch.Size"):
            job.save_state({"size": matrix.shape})

    def test_a_tensor_that_got_another_storage_is_followed(self) -> None:
        job = self.open()
        weight = torch.nn.Parameter(torch.ones(100_000))
        job.protect("weight", weight)
        job.save()
        weight.data = torch.full((100_000,), 2.0)
        gc.collect()
        rubbish = [torch.randn(100_000) for _ in range(20)]
        job.save()
        del rubbish
        weight.data.zero_()
        job.restart()
        self.assertTrue((weight == 2).all())
        weight.data = torch.zeros(5)
        with self.assertRaisesRegex(surefoot.UnsupportedError, r"was torch of float32 \[100000\] and is .* \[5\]"):
            job.save()

    def test_shared_weights_stay_shared(self) -> None:
        layer = torch.nn.Linear(300, 300)
        model = torch.nn.Sequential(layer, layer)
        job = self.open()
        saved = job.save_state(model.state_dict())
        self.assertLess(saved.payload_bytes, 300 * 301 * 4 + 5000)
        loaded = job.load_state()
        self.assertEqual(loaded["0.weight"].data_ptr(), loaded["1.weight"].data_ptr())
        self.assertEqual(loaded._metadata, model.state_dict()._metadata)

    def test_other_shapes_are_refused_by_name(self) -> None:
        job = self.open()
        job.save_state({"model": torch.nn.Linear(3, 4).state_dict()})
        other = torch.nn.Linear(4, 3)
        before = bytes_of(other.weight)
        with self.assertRaises(surefoot.ShapeError) as caught:
            job.load_state({"model": other.state_dict()})
        self.assertIn("state['model']['weight'] is torch of float32 [4, 3] there and", str(caught.exception))
        self.assertEqual(bytes_of(other.weight), before)

    def test_training_that_is_killed_computes_the_same_bits(self) -> None:
        expected = self.run_program(TRAINING, 40).split("digest ")[1]
        self.forget_everything()
        for _ in range(3):
            child = self.start(TRAINING, 40)
            assert child.stdout is not None
            for _ in range(11):
                child.stdout.readline()
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
        out = self.run_program(TRAINING, 40)
        self.assertGreaterEqual(int(out.split()[1]), 30)
        self.assertEqual(out.split("digest ")[1], expected)

    def test_ranks_of_torch_distributed_go_on_where_they_were(self) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        self.addCleanup(os.environ.pop, "GLOO_SOCKET_IFNAME")
        for number, how in enumerate(["world", "group", "partner"]):
            children = [self.start(RANKS, rank, self.home / f"meeting-{number}", how) for rank in range(2)]
            for child in children:
                out, error = child.communicate(timeout=PATIENCE_S)
                self.assertEqual(child.returncode, 0, error)
                self.assertIn(f"from {number * 3} to {number * 3 + 3}", out)

    def test_a_group_that_is_not_initialized_is_refused(self) -> None:
        with self.assertRaisesRegex(surefoot.ArgumentError, "init_process_group"):
            self.open(group=torch.distributed)


@unittest.skipUnless(has("torch") and torch.cuda.is_available(), "there is no PyTorch with a CUDA device")
class CudaTensors(Tiers):
    def test_a_tensor_of_a_gpu_is_refused(self) -> None:
        with self.assertRaisesRegex(surefoot.UnsupportedError, "is on device cuda:0"):
            self.open().protect("tensor", torch.zeros(3, device="cuda"))


def bytes_of(tensor: Any) -> bytes:
    tensor = tensor.detach().contiguous()
    return bytes(tensor.reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else b""
