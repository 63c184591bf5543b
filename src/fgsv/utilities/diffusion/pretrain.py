"""Training of the small model from nothing: its autoencoder, then its UNet and text encoder together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from fgsv.utilities.diffusion.logos import Images
from fgsv.utilities.diffusion.model import DiffusionModel, _pixels

Report = Callable[[str, int, int, float], None]
"""Takes what is trained, the step, the number of steps and the loss."""


@dataclass(frozen=True)
class Pretraining:
    """How long and how fast the parts are trained."""

    autoencoder_steps: int = 2000
    autoencoder_batch: int = 64
    autoencoder_rate: float = 1e-3
    steps: int = 4000
    batch: int = 128
    rate: float = 5e-4
    dropped_prompts: float = 0.1
    """The part of the samples trained with the empty prompt, which guidance needs."""
    seed: int = 0


def train_autoencoder(
    model: DiffusionModel, images: Images, settings: Pretraining, report: Report | None = None
) -> None:
    """Train the autoencoder in place on images, and set its scale to that of its latents."""
    vae, device = model.vae.train().requires_grad_(True), model.device
    pixels = _pixels(images, device)
    optimiser = torch.optim.AdamW(vae.parameters(), lr=settings.autoencoder_rate, weight_decay=0.0)
    generator = torch.Generator().manual_seed(settings.seed)
    for step, rows in _batches(len(images), settings.autoencoder_batch, settings.autoencoder_steps, generator):
        _set_rate(optimiser, settings.autoencoder_rate, step, settings.autoencoder_steps)
        batch = pixels[rows.to(device)]
        with _mixed_precision(device):
            posterior = vae.encode(batch).latent_dist
            decoded = vae.decode(posterior.mode()).sample
            # A faint pull towards small latents keeps the space compact without blurring what is decoded.
            loss = (decoded - batch).float().square().mean() + 1e-4 * posterior.mean.float().square().mean()
        _descend(optimiser, loss, vae)
        if report is not None:
            report("autoencoder", step + 1, settings.autoencoder_steps, float(loss.detach()))
    vae.eval().requires_grad_(False)
    vae.register_to_config(scaling_factor=1.0)
    spread = float(model.encode(images[: 16 * settings.autoencoder_batch]).std())
    vae.register_to_config(scaling_factor=1.0 / spread)


def train_denoiser(
    model: DiffusionModel,
    images: Images,
    prompts: list[str],
    settings: Pretraining,
    report: Report | None = None,
) -> None:
    """Train the UNet and the text encoder in place to predict the noise in latents, given prompts."""
    device = model.device
    parts = torch.nn.ModuleList([model.unet, model.text_encoder]).train().requires_grad_(True)
    latents = model.encode(images)
    distinct = ["", *dict.fromkeys(prompts)]
    tokens = model.tokens(distinct)
    text = torch.tensor([distinct.index(prompt) for prompt in prompts])
    products = model.scheduler.alphas_cumprod.to(device)
    optimiser = torch.optim.AdamW(parts.parameters(), lr=settings.rate, weight_decay=1e-4)
    generator = torch.Generator().manual_seed(settings.seed + 1)
    for step, rows in _batches(len(images), settings.batch, settings.steps, generator):
        _set_rate(optimiser, settings.rate, step, settings.steps)
        clean = latents[rows.to(device)]
        noise = torch.randn(clean.shape, generator=generator).to(device)
        timesteps = torch.randint(0, len(products), (len(rows),), generator=generator).to(device)
        dropped = torch.rand(len(rows), generator=generator) < settings.dropped_prompts
        which = torch.where(dropped, 0, text[rows]).to(device)
        product = products[timesteps][:, None, None, None]
        noisy = product.sqrt() * clean + (1 - product).sqrt() * noise
        with _mixed_precision(device):
            embedded = model.text_encoder(tokens)[0][which]
            predicted = model.unet(noisy, timesteps, encoder_hidden_states=embedded).sample
        loss = (predicted.float() - noise).square().mean()
        _descend(optimiser, loss, parts)
        if report is not None:
            report("denoiser", step + 1, settings.steps, float(loss.detach()))
    parts.eval().requires_grad_(False)


def _batches(n: int, batch: int, steps: int, generator: torch.Generator) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield (step, rows): shuffled passes over n rows, cut into batches."""
    batch = min(batch, n)
    left = torch.empty(0, dtype=torch.long)
    for step in range(steps):
        if len(left) < batch:
            left = torch.cat([left, torch.randperm(n, generator=generator)])
        rows, left = left[:batch], left[batch:]
        yield step, rows


def _set_rate(optimiser: torch.optim.Optimizer, rate: float, step: int, steps: int) -> None:
    """Warm up over a twentieth, then fall to zero along a cosine, which stands in for averaged weights."""
    warm = max(1, steps // 20)
    factor = min((step + 1) / warm, 0.5 + 0.5 * float(np.cos(np.pi * step / steps)))
    for group in optimiser.param_groups:
        group["lr"] = rate * factor


def _descend(optimiser: torch.optim.Optimizer, loss: torch.Tensor, module: torch.nn.Module) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    optimiser.step()


def _mixed_precision(device: torch.device) -> AbstractContextManager[None]:
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
