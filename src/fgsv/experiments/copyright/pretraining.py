"""Training of the small model from scratch: its autoencoder, then its UNet and text encoder together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from fgsv.types import Images
from fgsv.utilities.adapters.layers import recorded
from fgsv.utilities.diffusion.model import DiffusionModel, as_pixels

Report = Callable[[str, int, int, torch.Tensor], None]
"""Takes the part trained, the step, the number of steps and the loss; reading the loss waits for the GPU."""


@dataclass(frozen=True)
class Pretraining:
    """Steps, batch sizes and learning rates."""

    autoencoder_steps: int = 1000
    autoencoder_batch: int = 96
    autoencoder_rate: float = 2e-3
    steps: int = 2000
    batch: int = 256
    rate: float = 1e-3
    dropped_prompts: float = 0.1
    """Fraction of samples trained with the empty prompt, which guidance needs."""
    seed: int = 0


def train_autoencoder(
    model: DiffusionModel, images: Images, settings: Pretraining, report: Report | None = None
) -> None:
    """Train the autoencoder in place, and set its scaling factor so that latents have unit variance."""
    vae, device = model.vae.train().requires_grad_(True), model.device
    pixels = as_pixels(images, device)

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        with _mixed_precision(device):
            latents = vae.encode(batch).latent_dist.mode()
            decoded = vae.decode(latents).sample
        # A weak penalty on large latents keeps the space compact without blurring the decoded images.
        loss: torch.Tensor = (decoded.float() - batch).square().mean() + 1e-4 * latents.float().square().mean()
        return loss

    def batches() -> Iterator[tuple[torch.Tensor, ...]]:
        generator = torch.Generator().manual_seed(settings.seed)
        for rows in _shuffled(len(images), settings.autoencoder_batch, generator):
            # Colour channels in random order: after few brands, their colours must not be memorised.
            channels = torch.rand(len(rows), 3, generator=generator).argsort(dim=1)
            batch = pixels[rows.to(device)[:, None], channels.to(device)]
            # Rotated and mirrored for the same reason: new shapes have edges at other angles.
            turns, mirrored = (int(number) for number in torch.randint(0, 4, (2,), generator=generator))
            yield (batch.rot90(turns, (2, 3)).flip((3,) if mirrored % 2 else ()).contiguous(),)

    steps, rate = settings.autoencoder_steps, settings.autoencoder_rate
    _train("autoencoder", vae, loss_of, batches(), steps, rate, report)
    vae.eval().requires_grad_(False)
    vae.register_to_config(scaling_factor=1.0)
    spread = float(model.encode(images[:1024]).std())
    vae.register_to_config(scaling_factor=1.0 / spread)


def train_denoiser(
    model: DiffusionModel,
    images: Images,
    prompts: list[str],
    settings: Pretraining,
    report: Report | None = None,
) -> None:
    """Train the UNet and the text encoder in place to predict the noise in latents."""
    device = model.device
    parts = torch.nn.ModuleList([model.unet, model.text_encoder])
    parts.train().requires_grad_(True)
    latents = model.encode(images)
    distinct = ["", *dict.fromkeys(prompts)]
    tokens = model.tokens(distinct)
    text = torch.tensor([distinct.index(prompt) for prompt in prompts])
    products = model.scheduler.alphas_cumprod.to(device)

    def loss_of(
        noisy: torch.Tensor, timesteps: torch.Tensor, which: torch.Tensor, noise: torch.Tensor
    ) -> torch.Tensor:
        with _mixed_precision(device):
            embedded = model.text_encoder(tokens)[0].index_select(0, which)
            predicted = model.unet(noisy, timesteps, encoder_hidden_states=embedded).sample
        loss: torch.Tensor = (predicted.float() - noise).square().mean()
        return loss

    def batches() -> Iterator[tuple[torch.Tensor, ...]]:
        generator = torch.Generator().manual_seed(settings.seed + 1)
        for rows in _shuffled(len(images), settings.batch, generator):
            noise = torch.randn(len(rows), *latents.shape[1:], generator=generator).to(device)
            timesteps = torch.randint(0, len(products), (len(rows),), generator=generator).to(device)
            dropped = torch.rand(len(rows), generator=generator) < settings.dropped_prompts
            which = torch.where(dropped, 0, text[rows]).to(device)
            product = products[timesteps][:, None, None, None]
            noisy = product.sqrt() * latents[rows.to(device)] + (1 - product).sqrt() * noise
            yield noisy, timesteps, which, noise

    _train("denoiser", parts, loss_of, batches(), settings.steps, settings.rate, report)
    parts.eval().requires_grad_(False)


def _train(
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


def _shuffled(n: int, batch: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Yield batches of row numbers forever: shuffled passes over n rows."""
    batch = min(batch, n)
    left = torch.empty(0, dtype=torch.long)
    while True:
        if len(left) < batch:
            left = torch.cat([left, torch.randperm(n, generator=generator)])
        rows, left = left[:batch], left[batch:]
        yield rows


def _mixed_precision(device: torch.device) -> AbstractContextManager[None]:
    # without the cache of converted weights, which must not outlive a recorded step
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False)
