"""Many LoRA adapters over one frozen model: B of them in one forward and backward pass.

A batch has the samples of adapter 0, then those of adapter 1, and so on. The frozen layers process one large
batch; an adapted projection adds B low-rank products at once, and only the adapters have gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


class BatchedLinear(torch.nn.Module):
    """A frozen linear layer to which adapter i of a stack adds scaling * up[i] @ down[i].

    Input (B * b, ..., inputs), with the samples of one adapter next to each other; output (B * b, ..., outputs).
    Without a bound stack it is the frozen layer.
    """

    def __init__(self, base: Any, rank: int, scaling: float) -> None:
        super().__init__()
        self.base = base
        # the weight of transformers' Conv1D is (inputs, outputs)
        outputs, inputs = base.weight.shape if isinstance(base, torch.nn.Linear) else reversed(base.weight.shape)
        self.n_inputs = int(inputs)
        self.n_outputs = int(outputs)
        self.rank = rank
        self.scaling = scaling
        self.down: torch.Tensor | None = None
        self.up: torch.Tensor | None = None

    @property
    def n_weights(self) -> int:
        """Number of weights of one adapter in this layer."""
        return self.rank * (self.n_inputs + self.n_outputs)

    def matrices(self, flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return `down` and `up` of (B, n_weights) weights: (B, rank, inputs) and (B, outputs, rank)."""
        split = self.rank * self.n_inputs
        return flat[:, :split].view(len(flat), self.rank, -1), flat[:, split:].view(len(flat), -1, self.rank)

    def forward(self, inputs: torch.Tensor, *rest: object) -> torch.Tensor:
        """Return the frozen output plus each adapter's product; `rest` is a scale from old diffusers, always 1."""
        outputs: torch.Tensor = self.base(inputs)
        if self.down is None or self.up is None:
            return outputs
        n_adapters = self.down.shape[0]
        low = torch.bmm(inputs.reshape(n_adapters, -1, self.n_inputs), self.down.transpose(1, 2))
        summed = torch.baddbmm(
            outputs.reshape(n_adapters, -1, self.n_outputs), low, self.up.transpose(1, 2), alpha=self.scaling
        )
        return summed.reshape(outputs.shape)


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """A model some of whose linear layers take a stack of adapters; `adapt` returns one."""

    model: torch.nn.Module
    layers: dict[str, BatchedLinear]
    """The adapted layers by name, in the order of their weights in a stack."""

    @property
    def n_weights(self) -> int:
        """Number of weights of one adapter, P."""
        return sum(layer.n_weights for layer in self.layers.values())

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the frozen weights, also used to apply the adapters."""
        return next(self.model.parameters()).dtype

    def initial(self, seed: int) -> torch.Tensor:
        """Draw the (P,) initial weights: `down` Kaiming uniform and `up` zero, as peft does."""
        generator = torch.Generator().manual_seed(seed)
        pieces = []
        for layer in self.layers.values():
            bound = 1 / math.sqrt(layer.n_inputs)  # kaiming_uniform_ with a = sqrt(5)
            down = torch.rand(layer.rank * layer.n_inputs, generator=generator)
            pieces += [(2 * down - 1) * bound, torch.zeros(layer.n_outputs * layer.rank)]
        return torch.cat(pieces).to(self.device)

    def bind(self, weights: torch.Tensor | None, *, train: bool = False) -> list[torch.Tensor]:
        """Bind the (B, P) adapters to the model until the next call, or none; return the leaves of the graph."""
        if weights is None:
            for layer in self.layers.values():
                layer.down = layer.up = None
            return []
        leaves: list[torch.Tensor] = []
        for layer, matrices in zip(self.layers.values(), self._matrices(weights.to(self.dtype)), strict=True):
            layer.down, layer.up = (matrix.detach().requires_grad_(train) for matrix in matrices)
            leaves += [layer.down, layer.up]
        return leaves

    def _matrices(self, weights: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return `down` and `up` of each layer, from (B, P) weights."""
        pieces = torch.split(weights, [layer.n_weights for layer in self.layers.values()], dim=1)
        return [layer.matrices(piece) for layer, piece in zip(self.layers.values(), pieces, strict=True)]

    @contextmanager
    def using(self, weights: torch.Tensor | None) -> Iterator[torch.nn.Module]:
        """Yield the model with the (B, P) adapters bound, for inference; unbind them afterwards."""
        self.bind(weights)
        try:
            with torch.no_grad():
                yield self.model
        finally:
            self.bind(None)

    def named(self, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return one adapter's (P,) weights under peft's names, `...to_q.lora_A.weight` and `lora_B`."""
        named: dict[str, torch.Tensor] = {}
        for name, (down, up) in zip(self.layers, self._matrices(weights[None]), strict=True):
            named |= {f"{name}.lora_A.weight": down[0], f"{name}.lora_B.weight": up[0]}
        return named


def adapt(model: torch.nn.Module, *, rank: int = 8, alpha: float = 8.0, targets: Sequence[str]) -> AdaptedModel:
    """Freeze a model and replace its target layers, in place, by layers that take a stack of adapters.

    A second call on the same model only changes rank and scaling.

    Args:
        model: Any torch module; its weights lose their gradients, and it is set to evaluation mode.
        rank: Width of `down` and `up`, at least 1.
        alpha: An adapter adds alpha / rank * up @ down, as in `peft.LoraConfig`.
        targets: Ends of the names of the linear layers to adapt, such as "to_q" or "attn.c_proj".

    Returns:
        The same model, with the adapted layers in the order in which a stack has their weights.

    Raises:
        ValueError: The rank is below 1, or no linear layer has such a name.

    """
    if rank < 1:
        raise ValueError(f"an adapter needs a rank of at least 1, got {rank}")
    model.requires_grad_(False).eval()
    layers: dict[str, BatchedLinear] = {}
    for name, module in list(model.named_modules()):
        if not any(name == target or name.endswith("." + target) for target in targets):
            continue
        if isinstance(module, BatchedLinear):
            module.rank = rank
            module.scaling = alpha / rank
            layers[name] = module
        elif is_linear(module):
            layer = BatchedLinear(module, rank, alpha / rank)
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, layer)
            layers[name] = layer
    if not layers:
        there = sorted({name.rpartition(".")[2] for name, module in model.named_modules() if is_linear(module)})
        raise ValueError(
            f"{type(model).__name__} has no projections to adapt: expected linear layers named "
            f"{', '.join(targets)}; it has {', '.join(there) or 'none'}"
        )
    return AdaptedModel(model, layers)


def is_linear(module: torch.nn.Module) -> bool:
    """Return whether a module is a linear layer of torch, or the Conv1D of transformers, which GPT-2 has."""
    return isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"
