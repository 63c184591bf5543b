"""The diffusion game: players are images with prompts, and an evaluation trains one adapter on a coalition."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import ArrayLike

from fgsv.types import Floats, Ints, Masks
from fgsv.utilities.adapters.layers import AdaptedModel, adapt
from fgsv.utilities.adapters.memory import check_asked, fit_on_gpu
from fgsv.utilities.adapters.plan import n_steps
from fgsv.utilities.adapters.stacks import check_settings, in_stacks
from fgsv.utilities.adapters.training import AdamW, Course
from fgsv.utilities.adapters.training import fine_tune as train_adapters
from fgsv.utilities.diffusion.likelihood import Noise, ReverseProcess, log_likelihood, sample
from fgsv.utilities.diffusion.model import DiffusionModel
from fgsv.utilities.fingerprint import fingerprint
from fgsv.utilities.row_sets import as_masks

TARGETS = ("to_q", "to_k", "to_v", "to_out.0")
"""The attention projections of a diffusers UNet, by the ends of their names."""
MOST_ADAPTERS = 2048
"""Trained at once."""
CPU_ADAPTERS = 64
"""Trained at once on a CPU."""
MOST_TRAJECTORIES = 8192
"""Drawn at once, of all adapters together; more would not use a GPU better."""


@dataclass(frozen=True)
class Settings:
    """How a coalition is fine-tuned and scored; the defaults are the paper's."""

    rank: int = 8
    alpha: float = 8.0
    learning_rate: float = 1e-4
    batch: int = 4
    epochs: int = 10
    schedule: str = "constant"
    """Learning rate: `constant`, or `linear`, falling to zero over a coalition's own steps."""
    denoising_steps: int = 25
    guidance: float = 7.5
    trajectories: int = 20
    seed: int = 0
    """Seed of the initial weights, of the order, timesteps and noise of training, and of the trajectories' noise: the
    same for every coalition."""

    def __post_init__(self) -> None:
        check_settings(self, ("rank", "batch", "epochs", "denoising_steps", "trajectories"))


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The players' images and prompts, encoded once, and the noise of every epoch."""

    latents: torch.Tensor
    """(n, C, H, W)."""
    texts: torch.Tensor
    """(texts, tokens, d): embeddings of the distinct prompts."""
    text: torch.Tensor
    """(n,): the position of each player's prompt in `texts`."""
    noise: torch.Tensor
    """(epochs, n, C, H, W): the noise added to a player's latents in an epoch, in every coalition."""
    timesteps: torch.Tensor
    """(epochs, n)."""

    @classmethod
    def of(cls, model: DiffusionModel, latents: torch.Tensor, prompts: list[str], settings: Settings) -> TrainingData:
        """Embed the prompts and draw the noise, on the CPU, so that it is the same on every device.

        Args:
            model: Embeds the prompts; everything moves to its device.
            latents: (n, C, H, W) encoded images.
            prompts: (n) the prompt of each image; equal ones are embedded once.
            settings: The epochs, each with its own noise, and the seed.

        Raises:
            ValueError: There are more images than prompts, or fewer.

        """
        if len(latents) != len(prompts):
            raise ValueError(f"{len(latents)} images but {len(prompts)} prompts: expected one for each image")
        distinct = list(dict.fromkeys(prompts))
        generator = torch.Generator().manual_seed(settings.seed)
        shape = (settings.epochs, len(prompts))
        most = int(model.scheduler.config.num_train_timesteps)
        return cls(
            latents.to(model.device),
            model.embed(distinct),
            torch.tensor([distinct.index(prompt) for prompt in prompts], device=model.device),
            torch.randn(*shape, *latents.shape[1:], generator=generator).to(model.device),
            torch.randint(0, most, shape, generator=generator).to(model.device),
        )


def fine_tune(
    model: DiffusionModel,
    adapted: AdaptedModel,
    data: TrainingData,
    masks: Masks,
    settings: Settings,
    *,
    record: bool | None = None,
) -> torch.Tensor:
    """Train one adapter for each coalition, all at once.

    Takes epochs * ceil(s / batch) steps, s the size of the largest coalition. In an epoch, members come in the order
    of one permutation of all players, and noise depends on (epoch, player): coalitions that share members are trained
    on them in the same order with the same noise.

    Args:
        model: The model whose scheduler says how noise is added and what is predicted.
        adapted: Its UNet with P weights in an adapter.
        data: The players' images and prompts.
        masks: (B, n) coalitions.
        settings: How a coalition is fine-tuned.
        record: Whether steps are recorded as CUDA graphs. Default: on a GPU.

    Returns:
        (B, P) weights.

    """
    rng = np.random.default_rng(settings.seed)
    orders = np.stack([rng.permutation(masks.shape[1]) for _ in range(settings.epochs)])
    falling = settings.schedule == "linear"
    course = Course(adapted.initial(settings.seed), orders, settings.batch, falling=falling)
    products = model.scheduler.alphas_cumprod.to(adapted.device)
    predicts = str(model.scheduler.config.prediction_type)
    texts = data.texts.to(adapted.dtype)

    def inputs(who: torch.Tensor, epoch: torch.Tensor, valid: torch.Tensor) -> tuple[torch.Tensor, ...]:
        latents = data.latents[who]
        noise = data.noise[epoch, who]
        timesteps = data.timesteps[epoch, who]
        signal = products[timesteps].sqrt()[:, None, None, None]
        spread = (1 - products[timesteps]).sqrt()[:, None, None, None]
        target = {"epsilon": noise, "v_prediction": signal * noise - spread * latents, "sample": latents}[predicts]
        noisy = (signal * latents + spread * noise).to(adapted.dtype)
        return noisy, timesteps, texts[data.text[who]], target, valid

    return train_adapters(
        adapted,
        masks,
        course,
        AdamW(settings.learning_rate),
        partial(denoising_losses, adapted.model),
        inputs,
        record=adapted.device.type == "cuda" if record is None else record,
    )


def denoising_losses(
    unet: torch.nn.Module,
    noisy: torch.Tensor,
    timesteps: torch.Tensor,
    prompts: torch.Tensor,
    target: torch.Tensor,
    valid: torch.Tensor,
) -> torch.Tensor:
    """Return the (width,) mean squared errors of the adapters bound to a UNet, each over its own valid samples.

    Args:
        unet: With a stack of `width` adapters bound to it.
        noisy: (width * b, C, H, W) latents with noise, those of one adapter next to each other.
        timesteps: (width * b,) how noisy they are.
        prompts: (width * b, tokens, d) text embeddings.
        target: (width * b, C, H, W) what the UNet should predict.
        valid: (width, b) whether a sample counts.

    """
    predicted = unet(noisy, timesteps, encoder_hidden_states=prompts).sample
    dtype = torch.promote_types(predicted.dtype, torch.float32)
    errors = (predicted.to(dtype) - target.to(dtype)).square().flatten(1).mean(dim=1)
    counted = valid.to(dtype)
    return (errors.view(valid.shape) * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)


class DiffusionGame:
    """U(S): the log-likelihood of given images under the model fine-tuned on S, one output for each prompt.

    `latents` (n, C, H, W) and `prompts` (n) are the players. `queries` are q prompts, name -> text, and `generated`
    (q, k, C, H, W) the latents of k images for each. An evaluation trains one adapter, which serves all queries, and
    takes 2 q r T samples of the UNet for r trajectories of T steps (half without guidance). `adapters_at_once`
    coalitions are trained at once; default: as many as fit into the free memory of the GPU.
    """

    batch_size = 512
    """Number of coalitions to evaluate in one call; it does not depend on the machine's memory."""

    def __init__(
        self,
        model: DiffusionModel,
        latents: torch.Tensor,
        prompts: list[str],
        queries: dict[str, str],
        generated: torch.Tensor,
        settings: Settings | None = None,
        *,
        adapters_at_once: int | None = None,
    ) -> None:
        settings = settings or Settings()
        check_asked(adapters_at_once)
        if len(queries) != len(generated):
            raise ValueError(
                f"generated has images for {len(generated)} prompts, but there are {len(queries)} queries"
            )
        self.model = model
        self.settings = settings
        self.n_players = len(latents)
        self.outputs = tuple(queries)
        self.adapted = adapt(model.unet, rank=settings.rank, alpha=settings.alpha, targets=TARGETS)
        self.data = TrainingData.of(model, latents, prompts, settings)
        self.generated = generated.to(model.device)
        self.process = ReverseProcess.of(model.scheduler, settings.denoising_steps)
        self._queries = model.embed([*queries.values(), ""])
        self._noise = self._draw_noise(settings.trajectories, settings.seed + 1)  # not the initial adapters' numbers
        self._asked = adapters_at_once

    @cached_property
    def adapters_at_once(self) -> int:
        """Number of adapters trained at once."""
        if self.adapted.device.type != "cuda":
            return min(self._asked or CPU_ADAPTERS, MOST_ADAPTERS)
        return fit_on_gpu("adapters", self._train_some, 1, self.adapted.device, self._asked, MOST_ADAPTERS)

    @cached_property
    def trajectories_at_once(self) -> int:
        """Number of trajectories drawn at once, of all adapters together."""
        if self.adapted.device.type != "cuda":
            return MOST_TRAJECTORIES
        return fit_on_gpu("trajectories", self._draw_some, 4, self.adapted.device, None, MOST_TRAJECTORIES)

    @cached_property
    def fingerprint(self) -> str | None:
        """A hash of the players, the images, the frozen weights, the noise schedule and the settings."""
        scheduler = self.model.scheduler
        schedule = [str(scheduler.config.prediction_type), *map(float, scheduler.alphas_cumprod)]
        tensors = [self.data.latents, self.data.texts, self.data.text, self.generated, self._queries]
        tensors += [weight for _, weight in sorted(self.model.unet.state_dict().items())]
        arrays = [tensor.detach().float().cpu().numpy() for tensor in tensors]
        process = [self.process.timesteps, schedule, str(self.adapted.dtype)]
        return fingerprint("diffusion", asdict(self.settings), self.outputs, process, arrays)

    def cost(self, sizes: Ints) -> ArrayLike:
        """Return the cost of an evaluation in samples of the UNet; a backward pass counts as a forward one."""
        settings = self.settings
        trained = 2 * settings.batch * n_steps(np.asarray(sizes), settings.epochs, settings.batch)
        sampled = (2 if settings.guidance != 1 else 1) * len(self._noise.start) * settings.denoising_steps
        return np.asarray(trained + sampled, dtype=float)

    def __call__(self, masks: ArrayLike) -> Floats:
        """Return (m, q) log-likelihoods of (m, n) coalitions."""
        coalitions = as_masks(masks, self.n_players)
        return in_stacks(coalitions, self._evaluate, self.adapters_at_once, len(self.outputs))

    def adapters(self, masks: Masks) -> torch.Tensor:
        """Train and return the (B, P) adapters of (B, n) coalitions."""
        return fine_tune(self.model, self.adapted, self.data, masks, self.settings)

    def generate(self, weights: torch.Tensor | None, count: int, seed: int) -> torch.Tensor:
        """Return latents of new images.

        Args:
            weights: (P,) an adapter; None: the model without one.
            count: Images for each query.
            seed: Seed of the trajectories' noise.

        Returns:
            (q, count, C, H, W).

        """
        noise = self._draw_noise(count, seed)
        return self._trajectories(None if weights is None else weights[None], noise, count)[0]

    def _draw_noise(self, count: int, seed: int) -> Noise:
        """Draw the noise of `count` trajectories for each query."""
        steps = self.settings.denoising_steps
        return Noise.draw(len(self.outputs) * count, steps, self.model.latent_shape, seed, self.adapted.device)

    def _evaluate(self, masks: Masks) -> Floats:
        weights = self.adapters(masks)
        at_once = max(1, self.trajectories_at_once // len(self._noise.start))
        means = (
            self._trajectories(weights[i : i + at_once], self._noise, self.settings.trajectories)
            for i in range(0, len(weights), at_once)
        )
        scores = [log_likelihood(each, self.generated, self.process.last_variance) for each in means]
        return torch.cat(scores).cpu().numpy()

    def _trajectories(self, weights: torch.Tensor | None, noise: Noise, count: int) -> torch.Tensor:
        """Return the (B, q, count, C, H, W) means of x_0, computed in as many pieces as memory requires."""
        prompts = self._queries[:-1].repeat_interleave(count, dim=0)
        at_once = max(1, self.trajectories_at_once // (1 if weights is None else len(weights)))
        pieces = [
            self._draw(weights, self.process, noise[i : i + at_once], prompts[i : i + at_once])
            for i in range(0, len(prompts), at_once)
        ]
        means = torch.cat(pieces, dim=1)
        return means.view(len(means), len(self.outputs), count, *means.shape[2:])

    def _draw(
        self, weights: torch.Tensor | None, process: ReverseProcess, noise: Noise, prompts: torch.Tensor
    ) -> torch.Tensor:
        return sample(self.adapted, weights, process, noise, prompts, self._queries[-1], self.settings.guidance)

    def _train_some(self, count: int) -> None:
        """Take a training step of `count` adapters, to measure its memory."""
        masks = np.zeros((count, self.n_players), dtype=bool)
        masks[:, : self.settings.batch] = True
        fine_tune(self.model, self.adapted, self.data, masks, replace(self.settings, epochs=1))

    def _draw_some(self, count: int) -> None:
        """Draw `count` trajectories of two steps with one adapter, to measure their memory."""
        weights = self.adapted.initial(self.settings.seed)[None]
        process = ReverseProcess.of(self.model.scheduler, 2)
        noise = Noise.draw(count, 2, self.model.latent_shape, 0, self.adapted.device)
        self._draw(weights, process, noise, self._queries[:1].expand(count, -1, -1))
