"""Many LoRA adapters over one frozen UNet: B of them in one forward and backward pass.

A batch has the samples of adapter 0, then those of adapter 1, and so on. The frozen layers process one large
batch; an adapted projection adds B low-rank products at once, and only the adapters have gradients.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch

TARGETS = ("to_q", "to_k", "to_v", "to_out.0")
"""The attention projections of a diffusers UNet, by the ends of their names."""

WARM_UP = 3
"""Calls before a step is recorded, in which libraries choose kernels and allocate workspaces."""


class BatchedLinear(torch.nn.Module):
    """A frozen linear layer to which adapter i of a stack adds scaling * up[i] @ down[i].

    Input (B * b, ..., inputs), with the samples of one adapter next to each other; output (B * b, ..., outputs).
    Without a bound stack it is the frozen layer.
    """

    def __init__(self, base: torch.nn.Linear, rank: int, scaling: float) -> None:
        super().__init__()
        self.base = base
        self.rank = rank
        self.scaling = scaling
        self.down: torch.Tensor | None = None
        self.up: torch.Tensor | None = None

    @property
    def n_weights(self) -> int:
        """Number of weights of one adapter in this layer."""
        return self.rank * (self.base.in_features + self.base.out_features)

    def bind(self, flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Bind (B, n_weights) weights; return `down` and `up`, leaves of the graph that share their memory."""
        split = self.rank * self.base.in_features
        self.down = flat[:, :split].view(len(flat), self.rank, -1).detach()
        self.up = flat[:, split:].view(len(flat), -1, self.rank).detach()
        return self.down, self.up

    def forward(self, inputs: torch.Tensor, *rest: object) -> torch.Tensor:
        """Return the frozen output plus each adapter's product; `rest` is a scale from old diffusers, always 1."""
        outputs: torch.Tensor = self.base(inputs)
        if self.down is None or self.up is None:
            return outputs
        n_adapters = self.down.shape[0]
        low = torch.bmm(inputs.reshape(n_adapters, -1, self.base.in_features), self.down.transpose(1, 2))
        summed = torch.baddbmm(
            outputs.reshape(n_adapters, -1, self.base.out_features), low, self.up.transpose(1, 2), alpha=self.scaling
        )
        return summed.reshape(outputs.shape)


@dataclass(frozen=True, eq=False)
class AdaptedUNet:
    """A UNet whose attention projections take a stack of adapters; `adapt` returns one."""

    unet: torch.nn.Module
    layers: dict[str, BatchedLinear]
    """The adapted layers by name, in the order of their weights in a stack."""

    @property
    def n_weights(self) -> int:
        """Number of weights of one adapter, P."""
        return sum(layer.n_weights for layer in self.layers.values())

    @property
    def device(self) -> torch.device:
        """The device of the UNet."""
        return next(self.unet.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the frozen weights, also used to apply the adapters."""
        return next(self.unet.parameters()).dtype

    def initial(self, seed: int) -> torch.Tensor:
        """Draw the (P,) initial weights: `down` Kaiming uniform and `up` zero, as peft does."""
        generator = torch.Generator().manual_seed(seed)
        pieces = []
        for layer in self.layers.values():
            bound = 1 / math.sqrt(layer.base.in_features)  # kaiming_uniform_ with a = sqrt(5)
            down = torch.rand(layer.rank * layer.base.in_features, generator=generator)
            pieces += [(2 * down - 1) * bound, torch.zeros(layer.base.out_features * layer.rank)]
        return torch.cat(pieces).to(self.device)

    def bind(self, weights: torch.Tensor | None, *, train: bool = False) -> list[torch.Tensor]:
        """Bind the (B, P) adapters to the UNet until the next call, or none; return the leaves of the graph."""
        if weights is None:
            for layer in self.layers.values():
                layer.down = layer.up = None
            return []
        leaves: list[torch.Tensor] = []
        sizes = [layer.n_weights for layer in self.layers.values()]
        pieces = torch.split(weights.detach().to(self.dtype), sizes, dim=1)
        for layer, piece in zip(self.layers.values(), pieces, strict=True):
            leaves += [leaf.requires_grad_(train) for leaf in layer.bind(piece)]
        return leaves

    @contextmanager
    def using(self, weights: torch.Tensor | None) -> Iterator[torch.nn.Module]:
        """Yield the UNet with the (B, P) adapters bound, for inference; unbind them afterwards."""
        self.bind(weights)
        try:
            with torch.no_grad():
                yield self.unet
        finally:
            self.bind(None)

    def without_adapters(self) -> torch.nn.Module:
        """Put the plain linear layers back, and return the UNet."""
        for name, layer in self.layers.items():
            parent, _, child = name.rpartition(".")
            setattr(self.unet.get_submodule(parent), child, layer.base)
        return self.unet

    def named(self, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return one adapter's (P,) weights under peft's names, `...to_q.lora_A.weight` and `lora_B`."""
        named = {}
        start = 0
        for name, layer in self.layers.items():
            split = start + layer.rank * layer.base.in_features
            stop = start + layer.n_weights
            named[f"{name}.lora_A.weight"] = weights[start:split].view(layer.rank, -1)
            named[f"{name}.lora_B.weight"] = weights[split:stop].view(-1, layer.rank)
            start = stop
        return named


def merge(adapted: AdaptedUNet, weights: torch.Tensor) -> None:
    """Add one adapter, (P,), to the frozen weights of the UNet, permanently."""
    named = adapted.named(weights)
    with torch.no_grad():
        for name, layer in adapted.layers.items():
            product = named[f"{name}.lora_B.weight"] @ named[f"{name}.lora_A.weight"]
            layer.base.weight += (layer.scaling * product).to(layer.base.weight.dtype)


def adapt(
    unet: torch.nn.Module, *, rank: int = 8, alpha: float = 8.0, targets: Sequence[str] = TARGETS
) -> AdaptedUNet:
    """Freeze a UNet and replace its attention projections, in place, by layers that take a stack of adapters.

    `rank`, `alpha` and `targets` are those of `peft.LoraConfig`; an adapter adds alpha / rank * up @ down. A
    second call on the same UNet only changes the rank and the scaling.
    """
    if rank < 1:
        raise ValueError(f"an adapter needs a rank of at least 1, got {rank}")
    unet.requires_grad_(False).eval()
    layers: dict[str, BatchedLinear] = {}
    for name, module in list(unet.named_modules()):
        if not any(name == target or name.endswith("." + target) for target in targets):
            continue
        if isinstance(module, BatchedLinear):
            module.rank, module.scaling = rank, alpha / rank
            layers[name] = module
        elif isinstance(module, torch.nn.Linear):
            layer = BatchedLinear(module, rank, alpha / rank)
            parent, _, child = name.rpartition(".")
            setattr(unet.get_submodule(parent), child, layer)
            layers[name] = layer
    if not layers:
        raise ValueError(
            f"{type(unet).__name__} has no attention projections to adapt: "
            f"expected linear layers named {', '.join(targets)}"
        )
    return AdaptedUNet(unet, layers)


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
        """Take a step in place with (B, P) weights and moments and each adapter's own (B, 3) coefficients.

        AdamW updates each weight by itself, so one call for a stack is the same as B optimisers.
        """
        beta1, beta2 = self.betas
        decay, correction, rate = coefficients.to(weights.dtype)[:, :, None].unbind(1)
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        spread = second.sqrt().div_(correction).add_(self.epsilon)
        weights.mul_(decay).sub_(rate * first / spread)


class Training:
    """The training of a stack of adapters: weights, moments and the number of steps taken.

    Weights, moments and losses have the precision of `weights`, usually float32; the UNet has its own. A step takes
    the first `width` adapters: in a stack sorted by decreasing number of steps, adapters that are done are left out,
    or unchanged. With `record`, steps are recorded and replayed, for at most `WIDTHS` different widths; with a small
    UNet a GPU would otherwise wait for Python.
    """

    WIDTHS: ClassVar[int] = 8

    def __init__(
        self, adapted: AdaptedUNet, weights: torch.Tensor, optimiser: AdamW, *, record: bool = False
    ) -> None:
        self.adapted = adapted
        self.optimiser = optimiser
        self.weights = weights
        self.first = torch.zeros_like(weights)
        self.second = torch.zeros_like(weights)
        self.n_steps = 0
        self._record = record
        self._recorded: tuple[int, Callable[..., torch.Tensor]] | None = None
        """The last width and its recorded step."""

    def step(
        self,
        noisy: torch.Tensor,
        timesteps: torch.Tensor,
        prompts: torch.Tensor,
        target: torch.Tensor,
        valid: torch.Tensor,
        pace: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Take one step of those of the first `width` adapters that have a valid sample; return (width,) losses.

        `valid` is (width, b), `noisy` and `target` are (width * b, C, H, W), `timesteps` is (width * b,) and
        `prompts` (width * b, tokens, d). A loss is the mean squared error over an adapter's own valid samples; the
        gradient of the sum of the losses is, for each adapter, that of its own loss. `pace` (width,) multiplies the
        learning rate of each adapter.
        """
        self.n_steps += 1
        training = valid.any(dim=1)
        coefficients = self.optimiser.coefficients(self.n_steps, training if pace is None else training * pace)
        inputs = (noisy, timesteps, prompts, target, valid, coefficients)
        return self._recorded_step(inputs)(*inputs) if self._record else self._step(*inputs)

    def width(self, n_active: int) -> int:
        """Return the width of a step in which `n_active` adapters train: rounded up if steps are recorded."""
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

    def _step(
        self,
        noisy: torch.Tensor,
        timesteps: torch.Tensor,
        prompts: torch.Tensor,
        target: torch.Tensor,
        valid: torch.Tensor,
        coefficients: torch.Tensor,
    ) -> torch.Tensor:
        width, batch = valid.shape
        active = self.weights[:width]
        leaves = self.adapted.bind(active, train=True)
        predicted = self.adapted.unet(noisy, timesteps, encoder_hidden_states=prompts).sample
        errors = (predicted.to(active.dtype) - target.to(active.dtype)).square().flatten(1).mean(dim=1)
        counted = valid.to(errors.dtype)
        losses: torch.Tensor = (errors.view(width, batch) * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)
        gradients = torch.autograd.grad(losses.sum(), leaves)
        gradient = torch.cat([piece.reshape(width, -1) for piece in gradients], dim=1).to(active.dtype)
        self.adapted.bind(None)
        self.optimiser.step(coefficients, active, self.first[:width], self.second[:width], gradient)
        return losses.detach()


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
