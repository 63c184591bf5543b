"""Training a small model from scratch, as the experiments do that have no checkpoint to start from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import torch

from fgsv.utilities.adapters.training import recorded

Report = Callable[[str, int, int, torch.Tensor], None]
"""Takes the part trained, the step, the number of steps and the loss; reading the loss waits for the GPU."""


def minimise(
    what: str,
    module: torch.nn.Module,
    loss_of: Callable[..., torch.Tensor],
    batches: Iterator[tuple[torch.Tensor, ...]],
    steps: int,
    rate: float,
    report: Report | None,
) -> None:
    """Minimise a loss with AdamW; the learning rate warms up over a twentieth of the steps, then follows a cosine."""
    device = next(module.parameters()).device
    on_gpu = device.type == "cuda"
    # On a GPU the rate is a tensor, which a recorded step reads again on every replay. It is zero while the step is
    # recorded, so that recording moves no weight.
    current: Any = torch.zeros((), device=device) if on_gpu else 0.0
    fused = None if on_gpu else True  # None: torch chooses, and takes many tensors at once on a GPU
    optimiser = torch.optim.AdamW(module.parameters(), lr=current, weight_decay=1e-4, capturable=on_gpu, fused=fused)

    def step(*inputs: torch.Tensor) -> torch.Tensor:
        optimiser.zero_grad(set_to_none=True)
        loss = loss_of(*inputs)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
        return loss.detach()

    first = next(batches)
    run = recorded(step, first) if on_gpu else step
    for number, inputs in zip(range(steps), chain([first], batches), strict=False):
        warm = (number + 1) / max(1, steps // 20)
        now = rate * min(warm, 0.5 + 0.5 * math.cos(math.pi * number / steps))
        for group in optimiser.param_groups:
            if on_gpu:
                group["lr"].fill_(now)
            else:
                group["lr"] = now
        loss = run(*inputs)
        if report is not None:
            report(what, number + 1, steps, loss)


def shuffled(n: int, batch: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Yield batches of row numbers forever: shuffled passes over n rows."""
    batch = min(batch, n)
    left = torch.empty(0, dtype=torch.long)
    while True:
        if len(left) < batch:
            left = torch.cat([left, torch.randperm(n, generator=generator)])
        rows, left = left[:batch], left[batch:]
        yield rows


def mixed_precision(device: torch.device) -> AbstractContextManager[None]:
    """Compute in bfloat16 on a GPU, with weights in float32."""
    # without the cache of converted weights, which must not outlive a recorded step
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False)
