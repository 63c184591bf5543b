"""Copyright attribution (paper, section 4.2, Figure 3): royalty shares of four brands from a diffusion model.

A model that knows 23 brands is fine-tuned on coalitions of images of four others. The utility of a coalition
is the log-likelihood of images that the model fine-tuned on everything generated. FSRS comes from one run over
coalitions of images, for whole and for split brands alike; SRS comes from the exact GSV of the groups.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import diffusers
import numpy as np
import pandas as pd
import torch
import transformers
from PIL import Image

from experiments.diffusion_model import Pretraining, SmallModel, build_model, train_autoencoder, train_denoiser
from experiments.drawn_logos import draw_logos
from experiments.logos import VALUED, Logos, prompt, read_flickr_logos
from experiments.records import find_or_make, say
from experiments.royalties import four_scenarios, report
from experiments.training import choose_device
from fgsv.types import Images
from fgsv.utilities.adapters.layers import adapt, merge
from fgsv.utilities.diffusion.fine_tuning import TARGETS, DiffusionGame, Settings, TrainingData, fine_tune
from fgsv.utilities.diffusion.model import DiffusionModel, load_model

SPLIT = ("google", "sprite")
"""The brands that are split in two in the second scenario."""


@dataclass(frozen=True)
class Scale:
    """Numbers of images, sizes of the model, lengths of the trainings, and when the run stops."""

    per_brand: int = 30
    """Images of each brand."""
    large: int = 20
    """Images in the larger part of a split brand."""
    generated: int = 20
    """Generated images for each prompt; their likelihood is the utility."""
    model: SmallModel = field(default_factory=SmallModel)
    pretraining: Pretraining = field(default_factory=Pretraining)
    settings: Settings = field(default_factory=Settings)
    stderr: float = 0.03
    """The run stops when the standard error of every share is at most this."""
    budget: int = 20_000
    """The most evaluations that the run may take."""


FULL = Scale(
    pretraining=Pretraining(autoencoder_steps=2000, steps=3000),
    settings=Settings(learning_rate=3e-3, guidance=2.0, schedule="linear"),
)
"""120 images, four prompts, and the paper's settings except three. The small model learns a brand in 300 steps at a
larger learning rate than Stable Diffusion's 1e-4; a rate that falls to zero makes the utility smoother; a guidance of
7.5 would saturate the colours."""

SMALL = Scale(
    per_brand=6,
    large=4,
    generated=6,
    model=SmallModel(16, (16, 32, 32), (32, 64), text_width=32, text_layers=1, norm_groups=8),
    pretraining=Pretraining(
        autoencoder_steps=400, autoencoder_batch=32, autoencoder_rate=4e-3, steps=800, batch=32, rate=2e-3
    ),
    settings=Settings(
        learning_rate=1e-2, epochs=8, schedule="linear", denoising_steps=8, guidance=2.0, trajectories=6
    ),
    budget=98,
)
"""Enough to see that the parts work, too little to compare brands."""


def run(
    out: Path = Path("bench-out/copyright"),
    *,
    model: str | None = None,
    images: Path | None = None,
    device: str = "auto",
    precision: str = "auto",
    small: bool = False,
    adapters: int | None = None,
    max_seconds: float | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Share royalties among four brands, whole and split: minutes on a GPU, with --small two or three on a CPU.

    `model` is a Stable Diffusion checkpoint, folder or name, and `images` the folder of FlickrLogos-27; without them
    a small model is trained on drawn logos. The model, the generated images and every evaluation are kept in `out`,
    where another run finds them. `adapters` are trained at once (default: as many as fit), and sampling stops after
    the first round that ends later than `max_seconds`.
    """
    where, dtype = choose_device(device, precision, small=small)
    for library in (diffusers, transformers):
        library.utils.logging.disable_progress_bar()
    scale = SMALL if small else FULL if model is None else replace(FULL, settings=Settings())
    settings, pretraining = replace(scale.settings, seed=seed), replace(scale.pretraining, seed=seed)
    scale = replace(scale, settings=settings, pretraining=pretraining)
    base, logos = base_model(out, scale, where, dtype, model, images)
    players = logos.only(VALUED, scale.per_brand)
    game = make_game(out, scale, base, players, adapters)
    brands = list(players.brands)
    parts = [
        brand + ("large" if number % scale.per_brand < scale.large else "small") if brand in SPLIT else brand
        for number, brand in enumerate(brands)
    ]
    results = four_scenarios(
        game,
        brands,
        parts,
        out,
        stderr=scale.stderr,
        budget=scale.budget,
        seed=seed,
        max_seconds=max_seconds,
    )
    shown = dict(zip(VALUED, map(base.decode, game.generated[:, :4]), strict=True))
    return report(out, "copyright", results, shown, settings=asdict(scale))


def base_model(
    out: Path,
    scale: Scale,
    device: torch.device,
    dtype: torch.dtype,
    checkpoint: str | None = None,
    folder: Path | None = None,
) -> tuple[DiffusionModel, Logos]:
    """Return the model and the logos of all brands.

    The model is a checkpoint fine-tuned on the 23 other brands or, without one, a small model trained on them. The
    logos are those of FlickrLogos-27 in `folder` or, without it, drawn.
    """
    loaded = None if checkpoint is None else load_model(checkpoint)
    size = scale.model.image_size if loaded is None else loaded.image_size
    logos = draw_logos(scale.per_brand, size) if folder is None else read_flickr_logos(folder, size)
    logos.only(VALUED, scale.per_brand)  # an error about missing images comes before anything is trained
    others = logos.only(sorted(set(logos.brands) - set(VALUED)))
    prompts = [prompt(brand) for brand in others.brands]

    def train(path: Path) -> None:
        say(f"training on {len(prompts)} images of other brands")
        if loaded is not None:
            made = tuned(loaded.to(device, dtype), others.images, prompts, scale.settings)
        else:
            made = build_model(scale.model, scale.pretraining.seed).to(device)
            train_autoencoder(made, others.images, scale.pretraining)
            train_denoiser(made, others.images, prompts, scale.pretraining)
        made.save(path)

    how = (scale.model, scale.pretraining) if loaded is None else (checkpoint, scale.settings)
    made_by = f"{how} {hashlib.sha256(others.images.tobytes()).hexdigest()}"
    return load_model(find_or_make(out / "model", made_by, train)).to(device, dtype), logos


def tuned(model: DiffusionModel, images: Images, prompts: list[str], settings: Settings) -> DiffusionModel:
    """Fine-tune a checkpoint on images, as the authors do, with an adapter that is merged into it."""
    adapted = adapt(model.unet, rank=settings.rank, alpha=settings.alpha, targets=TARGETS)
    data = TrainingData.of(model, model.encode(images), prompts, settings)
    everything = np.ones((1, len(images)), dtype=bool)
    merge(adapted, fine_tune(model, adapted, data, everything, settings)[0])
    return replace(model, unet=adapted.without_adapters())


def make_game(out: Path, scale: Scale, model: DiffusionModel, players: Logos, adapters: int | None) -> DiffusionGame:
    """Generate images with the model fine-tuned on everything, and return the game of their likelihood."""
    latents = model.encode(players.images)
    queries = {brand: prompt(brand) for brand in VALUED}
    empty = torch.zeros(len(queries), scale.generated, *model.latent_shape)
    arguments = (model, latents, [prompt(brand) for brand in players.brands], queries)
    game = DiffusionGame(*arguments, empty, scale.settings, adapters_at_once=adapters)

    def generate(path: Path) -> None:
        say(f"fine-tuning on all {len(latents)} images, generating {scale.generated} images a prompt")
        [adapter] = game.adapters(np.ones((1, len(latents)), dtype=bool))
        generated = game.generate(adapter, scale.generated, seed=scale.settings.seed + 1000).cpu()
        before = game.generate(None, scale.generated, seed=scale.settings.seed + 1000)
        write_images(out / "generated.png", model.decode(generated.flatten(0, 1)), len(queries))
        write_images(out / "generated_before.png", model.decode(before.flatten(0, 1)), len(queries))
        write_images(out / "players.png", players.images, len(queries))
        np.save(path, generated.numpy())

    generated = torch.as_tensor(np.load(find_or_make(out / "generated.npy", str(game.fingerprint), generate)))
    game = DiffusionGame(*arguments, generated, scale.settings, adapters_at_once=adapters)
    say(f"{game.adapters_at_once} adapters and {game.trajectories_at_once} trajectories at once")
    return game


def write_images(path: Path, images: Images, n_rows: int) -> None:
    """Write images into one file, in `n_rows` rows."""
    height, width = images.shape[1:3]
    rows = images.reshape(n_rows, -1, height, width, 3).transpose(0, 2, 1, 3, 4)
    Image.fromarray(rows.reshape(n_rows * height, -1, 3)).save(path)
