"""Many LoRA adapters over one frozen UNet: B of them in one forward and backward pass.

A batch holds the samples of adapter 0, then those of adapter 1, and so on. The frozen layers see one large
batch; an adapted projection adds to it B low-rank products at once, and its gradients are those of the
adapters alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

try:
    import torch
except ImportError as error:
    raise ImportError("diffusion models need torch and diffusers: pip install 'fgsv[diffusion]'") from error

TARGETS = ("to_q", "to_k", "to_v", "to_out.0")
"""The attention projections of a diffusers UNet, by the end of their names."""


class BatchedLinear(torch.nn.Module):
    """A frozen linear layer to which adapter i of a stack adds scaling * up[i] @ down[i].

    Input (B * b, ..., inputs), samples of one adapter next to each other; output (B * b, ..., outputs).
    Without a stack bound to it, it is the frozen layer.
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
        """How many weights one adapter has in this layer."""
        return self.rank * (self.base.in_features + self.base.out_features)

    def bind(self, flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Take (B, n_weights) weights, as two leaves of the graph that share their memory."""
        split = self.rank * self.base.in_features
        self.down = flat[:, :split].view(len(flat), self.rank, -1).detach()
        self.up = flat[:, split:].view(len(flat), -1, self.rank).detach()
        return self.down, self.up

    def forward(self, inputs: torch.Tensor, *rest: object) -> torch.Tensor:
        """Return the frozen product plus each adapter's own; `rest` is a scale of old diffusers, always 1."""
        outputs: torch.Tensor = self.base(inputs)
        if self.down is None or self.up is None:
            return outputs
        n_adapters = self.down.shape[0]
        low = torch.bmm(inputs.reshape(n_adapters, -1, self.base.in_features), self.down.transpose(1, 2))
        summed = torch.baddbmm(
            outputs.reshape(n_adapters, -1, self.base.out_features),
            low,
            self.up.transpose(1, 2),
            alpha=self.scaling,
        )
        return summed.reshape(outputs.shape)


@dataclass(frozen=True, eq=False)
class AdaptedUNet:
    """A UNet whose attention projections take a stack of adapters; make it with `adapt`."""

    unet: torch.nn.Module
    layers: dict[str, BatchedLinear]
    """The adapted layers by name, in the order of their weights in a stack."""

    @property
    def n_weights(self) -> int:
        """How many weights one adapter has, P."""
        return sum(layer.n_weights for layer in self.layers.values())

    @property
    def device(self) -> torch.device:
        """Where the UNet is."""
        return next(self.unet.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the frozen weights, in which the adapters are applied too."""
        return next(self.unet.parameters()).dtype

    def initial(self, seed: int) -> torch.Tensor:
        """Draw the (P,) weights to start from: `down` Kaiming uniform and `up` zero, as peft does."""
        generator = torch.Generator().manual_seed(seed)
        pieces = []
        for layer in self.layers.values():
            bound = 1 / math.sqrt(layer.base.in_features)  # kaiming_uniform_ with a = sqrt(5)
            down = torch.rand(layer.rank * layer.base.in_features, generator=generator)
            pieces += [(2 * down - 1) * bound, torch.zeros(layer.base.out_features * layer.rank)]
        return torch.cat(pieces).to(self.device)

    def bind(self, weights: torch.Tensor | None, *, train: bool = False) -> list[torch.Tensor]:
        """Run the UNet with the (B, P) adapters of `weights` from now on, or with none; return the leaves."""
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
        """Give the UNet with the (B, P) adapters bound to it, for inference; unbind them afterwards."""
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
        """Return one adapter's (P,) weights by peft's names: `...to_q.lora_A.weight` and `lora_B`."""
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
    """Add one adapter, (P,), to the frozen weights of the UNet for good."""
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
    second call finds the layers of the first and changes nothing but their rank and scaling.
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
            f"{type(unet).__name__} has no linear layers named {', '.join(targets)}: "
            "there are no attention projections to adapt"
        )
    return AdaptedUNet(unet, layers)


@dataclass(frozen=True)
class AdamW:
    """The settings of AdamW; the defaults are torch's, with the paper's learning rate."""

    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.01

    def step(
        self,
        number: int,
        weights: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        gradient: torch.Tensor,
    ) -> None:
        """Take step `number` (from 1) in place: (B, P) weights and moments, each adapter's its own.

        AdamW works on each weight alone, so one call for a stack is B optimisers side by side.
        """
        beta1, beta2 = self.betas
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        spread = second.sqrt().div_(math.sqrt(1 - beta2**number)).add_(self.epsilon)
        weights.mul_(1 - self.learning_rate * self.weight_decay)
        weights.addcdiv_(first, spread, value=-self.learning_rate / (1 - beta1**number))


class Training:
    """The training of a stack of adapters: weights, moments and the number of steps taken.

    Weights, moments and losses are in the precision of `weights`, float32 as a rule; the UNet runs in its
    own. Step t trains the first `n_active` adapters alone, so that a stack sorted by falling number of steps
    wastes nothing on those that are done, and leaves them as they are.
    """

    def __init__(self, adapted: AdaptedUNet, weights: torch.Tensor, optimiser: AdamW) -> None:
        self.adapted = adapted
        self.optimiser = optimiser
        self.weights = weights
        self.first = torch.zeros_like(weights)
        self.second = torch.zeros_like(weights)
        self.n_steps = 0

    def step(
        self,
        noisy: torch.Tensor,
        timesteps: torch.Tensor,
        prompts: torch.Tensor,
        target: torch.Tensor,
        valid: torch.Tensor,
    ) -> torch.Tensor:
        """Take one step of the first `len(valid)` adapters and return their losses, (n_active,).

        `valid` (n_active, b) says which samples count; `noisy` and `target` are (n_active * b, C, H, W),
        `timesteps` (n_active * b,) and `prompts` (n_active * b, tokens, d). A loss is the mean squared error
        over an adapter's own valid samples, and the sum of the losses has each adapter's own gradient.
        """
        n_active, batch = valid.shape
        active = self.weights[:n_active]
        leaves = self.adapted.bind(active, train=True)
        predicted = self.adapted.unet(noisy, timesteps, encoder_hidden_states=prompts).sample
        errors = (predicted.to(active.dtype) - target.to(active.dtype)).square().flatten(1).mean(dim=1)
        counted = valid.to(errors.dtype)
        losses: torch.Tensor = (errors.view(n_active, batch) * counted).sum(dim=1) / counted.sum(dim=1)
        gradients = torch.autograd.grad(losses.sum(), leaves)
        gradient = torch.cat([piece.reshape(n_active, -1) for piece in gradients], dim=1).to(active.dtype)
        self.adapted.bind(None)
        self.n_steps += 1
        self.optimiser.step(self.n_steps, active, self.first[:n_active], self.second[:n_active], gradient)
        return losses.detach()
