# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Data-parallel training with PyTorch that goes on where it was when it is started again.

torchrun --nproc-per-node 2 training_ddp.py 200       kill it, and start it again with as many ranks
"""

import sys

import surefoot
import torch
import torch.distributed

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(1)
layers = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
model = torch.nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
# From here on each rank draws data of its own.
torch.manual_seed(100 + rank)
steps, step = int(sys.argv[1]), 0
settings = dict(setting.split("=", 1) for setting in sys.argv[2:])

# All ranks open it, load, save and end together. Each saves its own state: the weights are the same on all, and the
# state of the generator is not.
with surefoot.Checkpoint("training-ddp", group=torch.distributed, **settings) as job:
    state = job.load_state()
    if state is not None:
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        step = state["step"]
        print(f"restarted at step {step}: {job.report[0]}", flush=True)

    while step < steps and not job.told_to_end:
        features = torch.randn(16, 32)
        loss = (model(features) - features.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 10 == 0:
            # Of tensors on a GPU give .cpu().
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            job.save_state({**state, "random": torch.get_rng_state()})
            for notice in job.notices():
                print(f"rank {rank}: {notice}", flush=True)
            if rank == 0:
                print(f"step {step}: loss {loss.item():.4f}", flush=True)

torch.distributed.destroy_process_group()
if step < steps:
    sys.exit(f"told to end at step {step}: started again, it goes on there")
if rank == 0:
    print(f"after {step} steps the weights add up to {sum(p.detach().sum().item() for p in model.parameters()).hex()}")
