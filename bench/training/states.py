# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The states that are saved: few long tensors, as the weights of a model, and many short ones."""

from __future__ import annotations

from typing import Any

import torch


def make(count: int, megabytes: int, seed: int = 1) -> dict[str, Any]:
    """`count` tensors of 32-bit floats of about the same length, `megabytes` together."""
    generator = torch.Generator().manual_seed(seed)
    length = max(1, megabytes * 1_000_000 // 4 // count)
    return {
        # Lengths that are no multiples of a page, as those of real weights.
        f"layer.{number}.weight": torch.rand(length + number % 7 - 3 if length > 3 else 1, generator=generator)
        for number in range(count)
    }


def empty_like(state: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.zeros_like(tensor) for name, tensor in state.items()}


def step(state: dict[str, Any], number: int) -> None:
    """Changes every tensor, as a step of training does."""
    for tensor in state.values():
        tensor[number % tensor.numel()] += 1


def equal(there: Any, here: dict[str, Any]) -> bool:
    """Whether two states are the same bits."""
    if not isinstance(there, dict) or there.keys() != here.keys():
        return False
    return all(torch.equal(there[name].view(torch.int32), tensor.view(torch.int32)) for name, tensor in here.items())
