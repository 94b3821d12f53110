# SPDX-License-Identifier: Apache-2.0 OR MIT
"""PyTorch: tensors, modules, optimizers, and ranks of torch.distributed. Needs PyTorch."""

from __future__ import annotations

import gc
import os
import signal
import unittest
from typing import Any

import surefoot
from surefoot import _index, _pack

from .test_groups import LENGTHS
from .tiers import PATIENCE_S, Tiers, has

if has("torch"):
    import torch



def has_dtensor() -> bool:
    return has("torch.distributed.tensor._api")


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
"""

# Ends while a thread still has a tensor that was made for a call of the group, as those of gloo may.
ENDS = """
import os, sys, threading, time, torch.distributed as dist
from surefoot._groups import TorchGroup
dist.init_process_group("gloo", init_method="file://%s/meeting" % sys.argv[1], rank=0, world_size=1)
group = TorchGroup()
group.broadcast(memoryview(bytearray(2000)), 0)
tensors = [group._tensor(memoryview(bytearray(2000)))]
def let_go():
    time.sleep(0.5)
    # Said before, in one write: nobody waits for this thread once it has let go.
    os.write(1, b"lets go\\n")
    tensors.clear()
threading.Thread(target=let_go, daemon=True).start()
"""


# A backend as NCCL is: registered for the memory of a GPU alone, and refusing that of the CPU.
RANKS_OF_A_GPU = """
import os, sys, torch, torch.distributed as dist
import surefoot
rank = int(sys.argv[1])
if hasattr(dist, "get_backend_config"):
    def backend(store, rank, size, timeout):
        return dist.ProcessGroupGloo(store, rank, size, timeout)
    dist.Backend.register_backend("gpu_only", backend, devices=["cuda"])
else:
    class Refuses(dist.ProcessGroup):
        def getBackendName(self):
            return "gpu_only"
    dist.Backend.register_backend("gpu_only", lambda store, rank, size, timeout: Refuses(rank, size))
dist.init_process_group("gpu_only", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
try:
    dist.broadcast(torch.zeros(1), 0)
    sys.exit("the backend moves memory of the CPU")
except (RuntimeError, ValueError):
    pass
own = torch.full((1000 * (rank + 1),), rank + 0.5)
for name in ("first", "second"):
    with surefoot.Checkpoint(name, memory=os.environ["MEMORY"], policy="memory", group=dist) as job:
        assert job.save_state({"own": own})
        assert torch.equal(job.load_state()["own"], own)
# The program's own and one of gloo, which both checkpoints have used.
groups = dist.distributed_c10d._world.pg_map if hasattr(dist.distributed_c10d, "_world") else dist.distributed_c10d._pg_map
print("saved twice, with groups:", len(groups), flush=True)
os._exit(0)
"""

DTENSORS = """
import os, sys, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
import surefoot
rank, ranks, how = int(sys.argv[1]), int(sys.argv[3]), sys.argv[4]
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=ranks)
mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",))
whole = torch.arange(70.0).reshape(10, 7)
def state_of(factor):
    return {"rows": distribute_tensor(whole * factor, mesh, [Shard(0)]), "all": distribute_tensor(whole, mesh, [Replicate()]),
            "columns": torch.nn.Parameter(distribute_tensor(whole + factor, mesh, [Shard(1)])), "plain": torch.ones(3) * factor}
with surefoot.Checkpoint("parts", memory=os.environ["MEMORY"], policy="memory", group=dist) as job:
    if how == "save":
        assert job.save_state(state_of(2))
    elif how == "load":
        into = state_of(0)
        rows = into["rows"]
        job.state_dict(into)
        job.restart()
        assert into["rows"] is rows and torch.equal(rows.full_tensor(), whole * 2), rows
        assert torch.equal(into["columns"].full_tensor(), whole + 2)
        loaded = job.load_state()
        part = loaded["rows"]
        assert isinstance(part, surefoot.DTensorPart) and part.placements == ("Shard(dim=0)",), part
        assert (part.shape, part.mesh, part.mesh_names, part.coordinate) == ((10, 7), (2,), ("dp",), (rank,)), part
        assert torch.equal(part.local, (whole * 2)[5 * rank:5 * rank + 5])
        assert torch.equal(part.to_dtensor(mesh, [Shard(0)]).full_tensor(), whole * 2)
        try:
            part.to_dtensor(mesh, [Shard(1)])
            sys.exit("another placement was taken")
        except surefoot.ArgumentError as error:
            assert "Shard(dim=0)" in str(error) and "Shard(dim=1)" in str(error), error
        into["rows"] = distribute_tensor(whole, mesh, [Replicate()])
        try:
            job.load_state(into)
            sys.exit("another part was filled")
        except surefoot.ShapeError as error:
            assert "the part [Shard(dim=0)] at [%d] on a mesh of [2] (dp) of [10, 7]" % rank in str(error), error
print("done", how, flush=True)
os._exit(0)
"""


@unittest.skipUnless(has("torch"), "PyTorch is not installed")
class Tensors(Tiers):
    def test_a_tensor_that_changed_between_two_saves_is_saved_as_it_is_then(self) -> None:
        def changes(state: Any) -> Any:
            yield "a value", lambda: state["a"].add_(1)
            yield "another memory", lambda: setattr(state["a"], "data", torch.arange(12.0).reshape(3, 4) + 7)
            yield "another order in the same memory", lambda: state["e"].t_()
            yield "another shape of the same memory", lambda: state["d"].resize_(2, 6)
            yield "another type in the same memory", lambda: setattr(state["b"], "data", state["b"].view(torch.int32))
            yield "a memory with another tensor", lambda: setattr(state["c"], "data", state["a"].data)
            yield "each its own again", lambda: setattr(state["c"], "data", state["a"].data.clone() + 1)
            yield "another tensor", lambda: state.update(d=torch.ones(5))
            yield "one less", lambda: state.pop("a")

        state = {name: torch.arange(12.0).reshape(3, 4) * at for at, name in enumerate("abcd")}
        state["e"] = torch.arange(16.0).reshape(4, 4)
        with self.open() as job:
            for what, change in changes(state):
                change()
                for _ in range(2):
                    self.assertTrue(job.save_state(state))
                loaded = job.load_state()
                self.assertEqual(list(loaded), list(state), what)
                for name, tensor in state.items():
                    self.assertEqual(loaded[name].dtype, tensor.dtype, what)
                    self.assertTrue(torch.equal(loaded[name], tensor), f"{what}: {name}")
                if "a" in state:
                    shared = state["a"].data_ptr() == state["c"].data_ptr()
                    self.assertEqual(loaded["a"] is loaded["c"], shared, what)

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
            (matrix.to_sparse(), "not a dense tensor"),
            (torch.quantize_per_tensor(matrix, 0.1, 0, torch.qint8), "not a dense tensor"),
            (torch.empty(3, device="meta"), r"is on device meta; give it as .cpu\(\)"),
            (torch.nn.parameter.UninitializedParameter(), "is a UninitializedParameter"),
        ]
        job = self.open()
        for tensor, why in hostile:
            for attempt in (lambda: job.protect("tensor", tensor), lambda: job.save_state([tensor])):
                with self.assertRaisesRegex(surefoot.UnsupportedError, why):
                    attempt()
        with self.assertRaisesRegex(surefoot.UnsupportedError, "shows an element more than once"):
            job.protect("expanded", matrix.expand(3, 4, 6))

    def test_every_memory_layout_comes_back_in_place_and_new(self) -> None:
        matrix = torch.randn(60, 60)
        state: dict[str, Any] = {
            "channels": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
            "volume": torch.randn(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d),
            "transposed": torch.randn(4, 6).t(),
            "slice": matrix[10:20, ::2],
            "column": torch.randint(0, 256, (700_000, 2), dtype=torch.uint8)[:, 1],
            "conjugated": torch.randn(3, dtype=torch.complex64).conj(),
            "imaginary": torch.randn(3, dtype=torch.complex64).conj().imag,
            "half": torch.randn(5, 4).to(torch.bfloat16)[:, 1:3],
            "parameter": torch.nn.Parameter(torch.randn(3, 4, 5, 6).to(memory_format=torch.channels_last)),
            "one": torch.randn(1, 5, 1)[:, ::2],
        }
        job = self.open()
        for protect in (False, True):
            before = {name: bytes_of(tensor.detach().clone()) for name, tensor in state.items()}
            if protect:
                job.state_dict(None)
                for name, tensor in state.items():
                    job.protect(name, tensor)
                job.save()
            else:
                job.save_state({**state, "expanded": matrix[0].expand(3, 60)})
                loaded = job.load_state()
                self.assertTrue(torch.equal(loaded.pop("expanded"), matrix[0].expand(3, 60)))
                self.assertEqual({name: bytes_of(tensor) for name, tensor in loaded.items()}, before)
                self.assertTrue(loaded["channels"].is_contiguous(memory_format=torch.channels_last))
                self.assertEqual(loaded["volume"].stride(), state["volume"].stride())
                # The same values where the program's own tensors lie otherwise.
                into = {name: torch.zeros_like(tensor.detach().contiguous()) for name, tensor in state.items()}
                job.load_state({**into, "expanded": torch.zeros(3, 60)})
                self.assertEqual({name: bytes_of(tensor) for name, tensor in into.items()}, before)
                job.save_state(state)
            rest = matrix[25].clone()
            for tensor in state.values():
                tensor.data.zero_()
            job.restart()
            self.assertEqual({name: bytes_of(tensor.detach().clone()) for name, tensor in state.items()}, before)
            self.assertTrue(torch.equal(matrix[25], rest), "the rest of a tensor is not its slice's")

    def test_plain_types_of_pytorch_come_back(self) -> None:
        state = [torch.Size([3, 4]), torch.Size([]), torch.bfloat16, torch.device("cuda:1"), torch.device("cpu")]
        state += [torch.strided, torch.channels_last, {torch.float32: 1}]
        job = self.open()
        job.save_state(state)
        loaded = job.load_state()
        self.assertEqual(loaded, state)
        self.assertEqual([*map(type, loaded)], [*map(type, state)])
        hostile = [["Size", "x"], ["Size", ["x"]], ["dtype", "nn"], ["dtype", "load"], ["dtype", 3], ["hub", "load"],
                   ["device", "cuda:" + "9" * 99], ["device", "a b"], ["device", 0], ["dtype", "__name__"], []]  # fmt: skip
        for content in hostile:
            text = _pack.encoded({"format": 2, "protected": [], "arrays": [], "state": {"torch": content}})
            with self.assertRaises(surefoot.DamagedError, msg=str(content)):
                _index.state_of(text, {}, lambda memories: None)
        for dtype, shape in [("load", [8]), ("qint8", [8]), ("float32", [1 << 62]), ("float32", [0, 1 << 70])]:
            row = ["state", "torch", dtype, shape, "C", "", 8, 0]
            text = _pack.encoded({"format": 2, "protected": [], "arrays": [row], "state": {"array": 0}})
            with self.assertRaises(surefoot.DamagedError, msg=str(row)):
                _index.state_of(text, {"python:pack": 64}, lambda memories: None)

    def test_thousands_of_small_tensors_are_one_region(self) -> None:
        state = {f"layer {number}": torch.full((number % 50,), float(number)) for number in range(5000)}
        job = self.open()
        saved = job.save_state(state)
        self.assertTrue(saved)
        self.assertLess(len(job._registered), 4)
        for tensor in state.values():
            tensor.fill_(-1)
        job.restart()
        self.assertTrue(all((state[f"layer {number}"] == number).all() for number in range(5000)))

    def test_tensors_that_are_made_anew_of_the_same_memory_are_not_described_anew(self) -> None:
        weights = [torch.full((number % 50 + 1,), float(number)) for number in range(300)]
        job = self.open()
        job.save_state([weight.detach() for weight in weights])
        before = job._pack._flat
        for weight in weights:
            weight += 1
        anew = [weight.detach() for weight in weights]
        job.save_state(anew)
        after = job._pack._flat
        self.assertTrue(all(one is other for one, other in zip(before._memories, after._memories)))
        self.assertTrue(all(memory.owner is weight for memory, weight in zip(after._memories, anew)))
        # The first are gone, and others have other memory.
        others = [weight + 1 for weight in weights]
        del before, after, anew, weights
        job.save_state(others)
        for number, loaded in enumerate(job.load_state()):
            self.assertTrue((loaded == number + 2).all(), number)

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

    def test_a_message_of_another_length_is_an_error(self) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        self.addCleanup(os.environ.pop, "GLOO_SOCKET_IFNAME")
        meeting = str(self.home / "meeting")
        ranks = [self.start(LENGTHS, "torch", rank, 2, meeting) for rank in range(2)]
        for rank, child in enumerate(ranks):
            out, error = child.communicate(timeout=PATIENCE_S)
            self.assertEqual((child.returncode, out), (0, f"rank {rank} refuses\n"), error)

    def test_ranks_whose_backend_moves_no_memory_of_the_cpu_get_a_group_of_their_own(self) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        self.addCleanup(os.environ.pop, "GLOO_SOCKET_IFNAME")
        children = [self.start(RANKS_OF_A_GPU, rank, self.home / "meeting") for rank in range(2)]
        for child in children:
            out, error = child.communicate(timeout=PATIENCE_S)
            self.assertEqual((child.returncode, out), (0, "saved twice, with groups: 2\n"), error)

    def test_a_process_ends_when_the_threads_of_its_group_have_let_go_of_its_tensors(self) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        self.addCleanup(os.environ.pop, "GLOO_SOCKET_IFNAME")
        self.assertEqual(self.run_program(ENDS, self.home), "lets go\n")

    def test_a_group_that_is_not_initialized_is_refused(self) -> None:
        with self.assertRaisesRegex(surefoot.ArgumentError, "init_process_group"):
            self.open(group=torch.distributed)


@unittest.skipUnless(has("torch") and has_dtensor(), "there is no PyTorch with torch.distributed.tensor (2.5)")
class DTensors(Tiers):
    def test_the_local_part_comes_back_with_its_placement(self) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        self.addCleanup(os.environ.pop, "GLOO_SOCKET_IFNAME")
        for number, how in enumerate(["save", "load"]):
            children = [self.start(DTENSORS, rank, self.home / f"meeting-{number}", 2, how) for rank in range(2)]
            for child in children:
                out, error = child.communicate(timeout=PATIENCE_S)
                self.assertEqual((child.returncode, out), (0, f"done {how}\n"), error)


@unittest.skipUnless(has("torch") and torch.cuda.is_available(), "there is no PyTorch with a CUDA device")
class CudaTensors(Tiers):
    def test_a_tensor_of_a_gpu_is_refused(self) -> None:
        with self.assertRaisesRegex(surefoot.UnsupportedError, "is on device cuda:0"):
            self.open().protect("tensor", torch.zeros(3, device="cuda"))


def bytes_of(tensor: Any) -> bytes:
    tensor = tensor.detach().contiguous()
    return bytes(tensor.reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else b""
