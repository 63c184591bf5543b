"""Training on one device: which one, and how a small model is trained from scratch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import torch

from experiments.records import say
from fgsv.utilities.adapters.training import recorded

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def choose_device(device: str, precision: str, *, small: bool) -> tuple[torch.device, torch.dtype]:
    """Return the device and the precision of adapters; "auto" is a GPU if there is one, and bfloat16 on it."""
    has_gpu = torch.cuda.is_available()
    if device == "auto" and not has_gpu and not small:
        raise ValueError("torch finds no GPU; at full size this takes days on a CPU: use --small or --device cpu")
    chosen = torch.device(("cuda" if has_gpu else "cpu") if device == "auto" else device)
    if precision == "auto":
        precision = "bfloat16" if chosen.type == "cuda" else "float32"
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision!r} is unknown; expected auto, {' or '.join(PRECISIONS)}")
    if small:
        torch.set_num_threads(1)  # with small tensors, several threads only wait for each other
    return chosen, PRECISIONS[precision]


def minimise(
    what: str,
    module: torch.nn.Module,
    loss_of: Callable[..., torch.Tensor],
    batches: Iterator[tuple[torch.Tensor, ...]],
    steps: int,
    rate: float,
) -> torch.Tensor:
    """Minimise a loss with AdamW, and return its value at each step.

    The learning rate warms up over a twentieth of the steps, then follows a cosine.
    """
    module.train().requires_grad_(True)
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
    losses = []
    for number, inputs in zip(range(steps), chain([first], batches), strict=False):
        warm = (number + 1) / max(1, steps // 20)
        now = rate * min(warm, 0.5 + 0.5 * math.cos(math.pi * number / steps))
        for group in optimiser.param_groups:
            if on_gpu:
                group["lr"].fill_(now)
            else:
                group["lr"] = now
        losses.append(run(*inputs).clone())
        if (number + 1) % max(1, steps // 5) == 0:  # rarely: reading a loss waits for the GPU
            say(f"{what}: step {number + 1} of {steps}, loss {float(losses[-1]):.4f}")
    module.eval().requires_grad_(False)
    return torch.stack(losses)


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
