"""The training of a stack of adapters: AdamW, steps that may be recorded, and coalitions that leave when done."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fgsv.types import Ints, Masks
from fgsv.utilities.adapters.layers import AdaptedModel
from fgsv.utilities.adapters.plan import training_plan

WARM_UP = 3
"""Calls before a step is recorded, in which libraries choose kernels and allocate workspaces."""

Losses = Callable[..., torch.Tensor]
"""Takes the inputs of a step, with the samples of one adapter next to each other; returns the (width,) losses."""
Inputs = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]
"""(width * b,) samples, the (width * b,) epochs that they are in, and which of them count, (width, b) -> inputs."""


@dataclass(frozen=True)
class AdamW:
    """Settings of AdamW; the defaults are torch's, with the paper's learning rate."""

    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.01

    def coefficients(self, number: int, pace: torch.Tensor) -> torch.Tensor:
        """Return (B, 3): weight decay, correction of the second moment's root, and rate of step `number` (from 1).

        `pace` (B,) multiplies each adapter's learning rate; an adapter with a pace of zero does not change.
        """
        beta1, beta2 = self.betas
        rate = self.learning_rate * pace.double()
        correction = torch.full_like(rate, math.sqrt(1 - beta2**number))
        return torch.stack([1 - rate * self.weight_decay, correction, rate / (1 - beta1**number)], dim=1)

    def step(
        self,
        coefficients: torch.Tensor,
        weights: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        gradient: torch.Tensor,
    ) -> None:
        """Take a step in place: AdamW updates each weight by itself, so one call is the same as B optimisers.

        Args:
            coefficients: (B, 3) what `coefficients` returned for each adapter.
            weights: (B, P), changed.
            first: (B, P) first moments, changed.
            second: (B, P) second moments, changed.
            gradient: (B, P) of each adapter's own loss.

        """
        beta1, beta2 = self.betas
        decay, correction, rate = coefficients.to(weights.dtype)[:, :, None].unbind(1)
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        spread = second.sqrt().div_(correction).add_(self.epsilon)
        weights.mul_(decay).sub_(rate * first / spread)


class Training:
    """The training of a stack of adapters: weights, moments and the number of steps taken.

    Weights, moments and losses have the precision of `weights`, usually float32; the model has its own. `losses` runs
    the model, to which the stack is bound, and returns one loss for each adapter. A step takes the first `width`
    adapters: in a stack sorted by decreasing number of steps, adapters that are done are left out, or unchanged. With
    `record`, steps are recorded and replayed, for at most `WIDTHS` different widths; with a small model a GPU would
    otherwise wait for Python. With `fixed`, every step takes the whole stack, as a compiled loss needs.
    """

    WIDTHS: ClassVar[int] = 8

    def __init__(
        self,
        adapted: AdaptedModel,
        weights: torch.Tensor,
        optimiser: AdamW,
        losses: Losses,
        *,
        record: bool = False,
        fixed: bool = False,
    ) -> None:
        self.adapted = adapted
        self.optimiser = optimiser
        self.weights = weights
        self.first = torch.zeros_like(weights)
        self.second = torch.zeros_like(weights)
        self.n_steps = 0
        self._losses = losses
        self._record = record
        self._fixed = fixed
        self._recorded: tuple[int, Callable[..., torch.Tensor]] | None = None
        """The last width and its recorded step."""

    def step(self, inputs: tuple[torch.Tensor, ...], pace: torch.Tensor) -> torch.Tensor:
        """Take one step of the first `width` adapters with the inputs of `losses`; return their (width,) losses.

        `pace` (width,) multiplies the learning rate of each adapter; one with a pace of zero does not change. The
        gradient of the sum of the losses is, for each adapter, that of its own loss.
        """
        self.n_steps += 1
        given = (*inputs, self.optimiser.coefficients(self.n_steps, pace))
        return self._recorded_step(given)(*given) if self._record else self._step(*given)

    def width(self, n_active: int) -> int:
        """Return the width of a step in which `n_active` adapters train: rounded up if steps are recorded."""
        if self._fixed:
            return len(self.weights)
        grain = -(-len(self.weights) // self.WIDTHS) if self._record else 1
        return min(len(self.weights), -(-n_active // grain) * grain)

    def _recorded_step(self, inputs: tuple[torch.Tensor, ...]) -> Callable[..., torch.Tensor]:
        width = len(inputs[-1])
        if self._recorded is None or self._recorded[0] != width:
            self._recorded = None  # frees its memory first
            state = (self.weights, self.first, self.second)
            kept = [tensor.clone() for tensor in state]
            self._recorded = width, recorded(self._step, inputs)
            for tensor, before in zip(state, kept, strict=True):  # recording took a few steps
                tensor.copy_(before)
        return self._recorded[1]

    def _step(self, *given: torch.Tensor) -> torch.Tensor:
        *inputs, coefficients = given
        width = len(coefficients)
        active = self.weights[:width]
        leaves = self.adapted.bind(active, train=True)
        losses = self._losses(*inputs)
        gradients = torch.autograd.grad(losses.sum(), leaves)
        gradient = torch.cat([piece.reshape(width, -1) for piece in gradients], dim=1).to(active.dtype)
        self.adapted.bind(None)
        self.optimiser.step(coefficients, active, self.first[:width], self.second[:width], gradient)
        return losses.detach()


@dataclass(frozen=True, eq=False)
class Course:
    """How every coalition is trained: in what order, in what mini-batches, for how long, and from what start."""

    start: torch.Tensor
    """(P,): the initial weights, the same for every coalition."""
    orders: Ints
    """(epochs, n): the order of the samples in each epoch, of which a coalition takes its own."""
    batch: int
    steps: int | None = None
    """Steps of every coalition, if they do not grow with its samples; `orders` are as many as they may need."""
    falling: bool = False
    """Whether the learning rate falls linearly to zero over a coalition's own steps."""


def fine_tune(
    adapted: AdaptedModel,
    masks: Masks,
    course: Course,
    optimiser: AdamW,
    losses: Losses,
    inputs: Inputs,
    *,
    record: bool = False,
    fixed: bool = False,
) -> torch.Tensor:
    """Train one adapter for each coalition of samples, all at once.

    Takes as many steps as the largest coalition; coalitions that are done leave the batch. The adapter of an empty
    coalition keeps its initial weights, under which the model is unchanged.

    Args:
        adapted: The model with P weights in an adapter.
        masks: (B, n) the samples of each coalition.
        course: How every coalition is trained.
        optimiser: Settings of AdamW.
        losses: Runs the model on the inputs of a step; returns the loss of each adapter.
        inputs: Samples, their epochs and which of them count -> what `losses` takes.
        record: Whether steps are recorded as CUDA graphs and replayed.
        fixed: Whether every step takes the whole stack, as a compiled loss needs.

    Returns:
        (B, P) weights, in the order of `masks`.

    """
    order = np.argsort(-masks.sum(axis=1), kind="stable")
    plan = training_plan(masks[order], course.orders, course.batch, course.steps)
    device = adapted.device
    samples = torch.as_tensor(plan.samples).to(device)
    epochs = torch.as_tensor(plan.epochs).to(device)[:, :, None].expand_as(samples)
    valid = torch.as_tensor(plan.valid).to(device)
    steps = torch.as_tensor(plan.n_steps).to(device)
    training = Training(adapted, course.start.repeat(len(masks), 1), optimiser, losses, record=record, fixed=fixed)
    for step in range(len(plan.samples)):
        width = training.width(plan.n_active(step))
        counted = valid[step, :width]
        pace = counted.any(dim=1)
        if course.falling:
            pace = pace * (1 - step / steps[:width].clamp(min=1)).clamp(min=0)
        training.step(inputs(samples[step, :width].flatten(), epochs[step, :width].flatten(), counted), pace)
    weights = torch.empty_like(training.weights)
    weights[torch.as_tensor(order, device=device)] = training.weights
    return weights


def recorded(step: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...]) -> Callable[..., torch.Tensor]:
    """Return a step recorded as a CUDA graph: the same kernels on new inputs of the same shapes, launched at once.

    With a small model a GPU would wait for Python to launch kernels. The step is first run `WARM_UP` times with these
    inputs. A step that cannot be recorded is returned unchanged, with a warning. On a CPU, which has no graphs, the
    step itself is called, after the same warm-up and on the same copies of its inputs.
    """
    buffers = tuple(tensor.clone() for tensor in inputs)
    try:
        again = (_graph if buffers[0].is_cuda else _calls)(step, buffers)
    except RuntimeError as error:
        warnings.warn(f"training without a CUDA graph: {str(error).splitlines()[0]}", stacklevel=2)
        return step

    def replay(*new: torch.Tensor) -> torch.Tensor:
        for buffer, tensor in zip(buffers, new, strict=True):
            buffer.copy_(tensor)
        return again()

    return replay


def _calls(step: Callable[..., torch.Tensor], buffers: tuple[torch.Tensor, ...]) -> Callable[[], torch.Tensor]:
    for _ in range(WARM_UP):
        step(*buffers)
    return lambda: step(*buffers)


def _graph(step: Callable[..., torch.Tensor], buffers: tuple[torch.Tensor, ...]) -> Callable[[], torch.Tensor]:
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step(*buffers)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step(*buffers)

    def replay() -> torch.Tensor:
        graph.replay()
        return result

    return replay
