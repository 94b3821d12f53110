# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Training with PyTorch that goes on where it was when it is started again.

python3 training_torch.py 200                         kill it, and start it again
"""

import sys

import surefoot
import torch

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
steps, step = int(sys.argv[1]), 0

with surefoot.Checkpoint("training-torch", **dict(setting.split("=", 1) for setting in sys.argv[2:])) as job:
    state = job.load_state()
    if state is not None:
        model.load_state_dict(state["model"])
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
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            job.save_state({**state, "random": torch.get_rng_state()})
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
            for notice in job.notices():
                print(notice, flush=True)

if step < steps:
    sys.exit(f"told to end at step {step}: started again, it goes on there")
print(f"after {step} steps the weights add up to {sum(p.detach().sum().item() for p in model.parameters()).hex()}")
