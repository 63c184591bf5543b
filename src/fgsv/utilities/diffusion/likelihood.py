"""Reverse diffusion with many adapters at once, and the log-likelihood of images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fgsv.utilities.adapters.layers import AdaptedModel


@dataclass(frozen=True, eq=False)
class ReverseProcess:
    """The reverse steps of a DDPM scheduler as numbers: from_x0 * x_0 + from_x * x_t + deviation * noise."""

    timesteps: tuple[int, ...]
    """Decreasing; the last one leads to x_0."""
    signal: tuple[float, ...]
    """Square root of the product of alphas at each timestep: x_t = signal * x_0 + noise * epsilon."""
    noise: tuple[float, ...]
    from_x0: tuple[float, ...]
    from_x: tuple[float, ...]
    deviation: tuple[float, ...]
    prediction: str
    """What the UNet predicts: `epsilon`, `v_prediction` or `sample`."""

    @classmethod
    def of(cls, scheduler: Any, n_steps: int) -> ReverseProcess:
        """Return the process of a DDPMScheduler with n_steps denoising steps."""
        config = scheduler.config
        trained = int(config.num_train_timesteps)
        if not 1 <= n_steps <= trained:
            raise ValueError(f"denoising_steps must be from 1 to {trained} steps, the scheduler's own, got {n_steps}")
        if config.thresholding or config.clip_sample:
            raise ValueError(
                "a scheduler that clips samples has no Gaussian steps: set clip_sample and thresholding to false"
            )
        scheduler.set_timesteps(n_steps)
        timesteps = np.asarray(scheduler.timesteps)
        before = timesteps - trained // n_steps
        products = np.asarray(scheduler.alphas_cumprod, dtype=float)
        now = products[timesteps]
        then = np.where(before < 0, 1.0, products[before])
        beta = 1 - now / then
        columns = (
            np.sqrt(now),
            np.sqrt(1 - now),
            np.sqrt(then) * beta / (1 - now),
            np.sqrt(now / then) * (1 - then) / (1 - now),
            np.sqrt((1 - then) / (1 - now) * beta),
        )
        signal, noise, from_x0, from_x, deviation = (tuple(column.tolist()) for column in columns)
        prediction = str(config.prediction_type)
        return cls(tuple(timesteps.tolist()), signal, noise, from_x0, from_x, deviation, prediction)

    @property
    def last_variance(self) -> float:
        """The variance of x_0 given x_1: the beta of the last step (its posterior variance is zero)."""
        return self.noise[-1] ** 2

    def denoised(self, step: int, x: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
        """Return the x_0 that a prediction implies.

        Args:
            step: Position in `timesteps`.
            x: (..., C, H, W) x_t, at that timestep.
            predicted: What the UNet returned for it, of the same shape.

        Raises:
            ValueError: The scheduler predicts something else than noise, velocity or the sample.

        """
        match self.prediction:
            case "epsilon":
                return (x - self.noise[step] * predicted) / self.signal[step]
            case "v_prediction":
                return self.signal[step] * x - self.noise[step] * predicted
            case "sample":
                return predicted
            case other:
                raise ValueError(f"the scheduler predicts {other!r}; expected epsilon, v_prediction or sample")


@dataclass(frozen=True, eq=False)
class Noise:
    """The random numbers of r trajectories for each of q prompts, the same for every coalition."""

    start: torch.Tensor
    """(q * r, C, H, W): x_T, prompt by prompt."""
    steps: torch.Tensor
    """(n_steps - 1, q * r, C, H, W): the noise added at each step except the last."""

    @classmethod
    def draw(cls, n: int, n_steps: int, shape: tuple[int, int, int], seed: int, device: torch.device) -> Noise:
        """Draw the noise of trajectories on the CPU, so that it is the same on every device.

        Args:
            n: Trajectories, of all prompts together.
            n_steps: Denoising steps, of which the last adds no noise.
            shape: (C, H, W) of the latents.
            seed: The same seed gives the same noise for every coalition.
            device: Where the noise goes.

        """
        generator = torch.Generator().manual_seed(seed)
        start = torch.randn(n, *shape, generator=generator)
        steps = torch.randn(n_steps - 1, n, *shape, generator=generator)
        return cls(start.to(device), steps.to(device))

    def __getitem__(self, rows: slice) -> Noise:
        """Return the noise of some of the trajectories."""
        return Noise(self.start[rows], self.steps[:, rows])


def sample(
    adapted: AdaptedModel,
    weights: torch.Tensor | None,
    process: ReverseProcess,
    noise: Noise,
    prompts: torch.Tensor,
    unconditional: torch.Tensor,
    guidance: float,
) -> torch.Tensor:
    """Return the means of x_0 at the end of each trajectory, for each of B adapters.

    With guidance, prediction = unconditional + guidance * (conditional - unconditional). Each step takes 2 B n
    samples of the UNet, B n without guidance.

    Args:
        adapted: The UNet.
        weights: (B, P) adapters, or None for the model without any (then B = 1).
        process: The denoising steps.
        noise: Of n trajectories, the same for every adapter.
        prompts: (n, tokens, d) the text embedding of each trajectory.
        unconditional: (tokens, d) the embedding of the empty prompt.
        guidance: 1 means none.

    Returns:
        (B, n, C, H, W).

    """
    n_adapters = 1 if weights is None else len(weights)
    n = len(prompts)
    shape = noise.start.shape[1:]
    guided = guidance != 1
    texts = torch.stack([prompts, unconditional.expand_as(prompts)]) if guided else prompts[None]
    texts = texts.to(adapted.dtype).flatten(0, 1).repeat(n_adapters, 1, 1)
    x = noise.start.repeat(n_adapters, 1, 1, 1)
    mean = x
    with adapted.using(weights) as unet:
        for step, timestep in enumerate(process.timesteps):
            both = x.view(n_adapters, 1, n, *shape).expand(-1, 2 if guided else 1, -1, -1, -1, -1)
            inputs = both.reshape(-1, *shape).to(adapted.dtype)
            predicted = unet(inputs, timestep, encoder_hidden_states=texts).sample.to(x.dtype)
            if guided:
                conditional, free = predicted.view(n_adapters, 2, n, *shape).unbind(1)
                predicted = torch.lerp(free, conditional, guidance).reshape(-1, *shape)
            mean = process.from_x0[step] * process.denoised(step, x, predicted) + process.from_x[step] * x
            if step + 1 < len(process.timesteps):
                x = mean + process.deviation[step] * noise.steps[step].repeat(n_adapters, 1, 1, 1)
    return mean.view(n_adapters, n, *shape)


def log_likelihood(means: torch.Tensor, images: torch.Tensor, variance: float) -> torch.Tensor:
    """Return the mean log-likelihood of the images of each prompt, (B, q), in nats per latent dimension.

        log p(x) = log [ 1/r sum over j of N(x; mean_j, variance I) ], averaged over the k images

    The sum is over full densities, by log-sum-exp; only the result is divided by C H W, a constant that cancels in
    shares. In float64, as with hundreds of dimensions and a small variance the log-densities span thousands of nats.

    Args:
        means: (B, q, r, C, H, W) the means of x_0 of r trajectories for each adapter and prompt.
        images: (q, k, C, H, W) generated latents.
        variance: Of x_0 given its mean (`ReverseProcess.last_variance`).

    """
    n_trajectories = means.shape[2]
    dimensions = images[0, 0].numel()
    centres = means.double().flatten(3)
    points = images.double().flatten(2)
    squares = torch.cdist(points.expand(len(centres), -1, -1, -1), centres).square()
    densities = -squares / (2 * variance) - dimensions / 2 * math.log(2 * math.pi * variance)
    likelihoods = torch.logsumexp(densities, dim=-1) - math.log(n_trajectories)
    return likelihoods.mean(dim=-1) / dimensions
