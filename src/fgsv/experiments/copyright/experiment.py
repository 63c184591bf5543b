"""Copyright attribution (paper, section 4.2): royalty shares of four brands from a diffusion model.

A model that knows 23 brands is fine-tuned on coalitions of images of four others. The utility of a coalition
is the log-likelihood of images that the model fine-tuned on everything generated. FSRS comes from one run over
coalitions of images, for whole and for split brands alike; SRS comes from the exact GSV of the groups.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from fgsv.packages import how_to_install

try:
    import diffusers
    import matplotlib  # noqa: F401  for the figures: a missing package is reported before anything is trained
    import torch
    import transformers
except ImportError as error:
    raise ImportError(f"{error}: {how_to_install('diffusion', 'plots')}") from error

from fgsv.experiments.copyright.drawn_logos import draw_logos
from fgsv.experiments.copyright.logos import VALUED, Logos, prompt, read_flickr_logos
from fgsv.experiments.copyright.report import write_contact_sheet, write_report
from fgsv.experiments.copyright.scale import FULL, SMALL, Scale
from fgsv.experiments.copyright.small_model import build_model, train_autoencoder, train_denoiser
from fgsv.experiments.royalties import Royalties
from fgsv.experiments.workspace import Workspace, check_size, four_scenarios, torch_threads
from fgsv.types import Floats
from fgsv.utilities.adapters.layers import adapt, merge
from fgsv.utilities.diffusion.game import TARGETS, DiffusionGame, Settings, TrainingData, fine_tune
from fgsv.utilities.diffusion.model import DiffusionModel, load_model
from fgsv.words import option

SPLIT = ("google", "sprite")
"""The brands that are split in two in the second scenario."""


def run(
    out: str | Path,
    *,
    model: str | None = None,
    images: str | Path | None = None,
    annotation: str | Path | None = None,
    device: str = "auto",
    precision: str = "auto",
    small: bool = False,
    scale: Scale | None = None,
    adapters_at_once: int | None = None,
    max_seconds: float | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> dict[str, Royalties]:
    """Run the experiment, write shares, figures and images into `out`, and return the four tables.

    `model` is a Stable Diffusion checkpoint and `images` the folder of FlickrLogos-27; without them a small model
    is trained on logos drawn by this package. The model, the generated images and the evaluations are kept in `out`,
    where another run finds them. With `max_seconds` the run stops before a round of evaluations that would end later.
    """
    if scale is None and not small:
        check_size(device)
    if annotation is not None and images is None:
        raise ValueError(
            f"an annotation file was given, but not the folder of its images: add {option('images', 'FOLDER')}"
        )
    scale = scale or (SMALL if small else FULL if model is None else replace(FULL, settings=Settings()))
    scale = replace(
        scale, settings=replace(scale.settings, seed=seed), pretraining=replace(scale.pretraining, seed=seed)
    )
    workspace = Workspace.of(out, device, precision, quiet)
    for library in (diffusers, transformers):
        library.utils.logging.disable_progress_bar()  # theirs last milliseconds and clutter the progress lines
    with torch_threads(scale.threads):
        base, logos = base_model(workspace, scale, model, images, annotation)
        players = logos.only(VALUED, scale.per_brand)
        game = _game(workspace, scale, base, players, adapters_at_once)
        brands, parts = list(players.brands), _parts(players, scale)
        results = four_scenarios(
            workspace, game, brands, parts, scale, what="images", seed=seed, max_seconds=max_seconds
        )
        return write_report(workspace, scale, game, results)


def base_model(
    workspace: Workspace,
    scale: Scale,
    checkpoint: str | None = None,
    images: str | Path | None = None,
    annotation: str | Path | None = None,
) -> tuple[DiffusionModel, Logos]:
    """Return the model and the logos of all brands.

    The model is a checkpoint fine-tuned on the 23 other brands or, without one, a small model trained on them. It is
    found again in the folder `model` of the workspace if it was made in the same way. The logos are those of
    FlickrLogos-27 in `images` or, without it, drawn.
    """
    loaded = None if checkpoint is None else load_model(checkpoint)
    size = scale.model.image_size if loaded is None else loaded.image_size
    if images is None:
        logos = draw_logos(scale.per_brand, size, seed=0)
    else:
        logos = read_flickr_logos(images, annotation, size)
    logos.only(VALUED, scale.per_brand)  # an error about missing images comes before anything is trained
    others = sorted(set(logos.brands) - set(VALUED))
    if not others:
        raise ValueError(
            f"all images are of {', '.join(VALUED)}; the model needs images of other brands to start from"
        )
    first = logos.only(others)
    made_by = {
        "model": checkpoint,
        "images": hashlib.sha256(first.images.tobytes()).hexdigest(),
        "sizes": asdict(scale.model) if checkpoint is None else None,
        "training": asdict(scale.pretraining) if checkpoint is None else asdict(scale.settings),
    }

    def train(folder: Path) -> None:
        workspace.say(f"training on {len(first)} images of {len(others)} brands")
        made = _small(workspace, scale, first) if loaded is None else _tuned(workspace, scale, first, loaded)
        made.save(folder)

    folder = workspace.find_or_train(made_by, train)
    return load_model(folder).to(workspace.device, workspace.dtype), logos


def _small(workspace: Workspace, scale: Scale, logos: Logos) -> DiffusionModel:
    """Train a small model on the other brands."""
    model, prompts = build_model(scale.model, scale.pretraining.seed), [prompt(brand) for brand in logos.brands]
    model = model.to(workspace.device)
    train_autoencoder(model, logos.images, scale.pretraining, workspace.report)
    train_denoiser(model, logos.images, prompts, scale.pretraining, workspace.report)
    return model


def _tuned(workspace: Workspace, scale: Scale, logos: Logos, model: DiffusionModel) -> DiffusionModel:
    """Fine-tune a checkpoint on the other brands, as the authors do, with an adapter that is merged into it."""
    model = model.to(workspace.device, workspace.dtype)
    adapted = adapt(model.unet, rank=scale.settings.rank, alpha=scale.settings.alpha, targets=TARGETS)
    prompts = [prompt(brand) for brand in logos.brands]
    data = TrainingData.of(model, model.encode(logos.images), prompts, scale.settings)
    everything = np.ones((1, len(logos)), dtype=bool)
    merge(adapted, fine_tune(model, adapted, data, everything, scale.settings)[0])
    return replace(model, unet=adapted.without_adapters())


def _parts(players: Logos, scale: Scale) -> list[str]:
    """Return the group of each image in the second scenario: the brand, or its large or small part."""
    return [
        brand + ("large" if number % scale.per_brand < scale.large else "small") if brand in SPLIT else brand
        for number, brand in enumerate(players.brands)
    ]


def _game(
    workspace: Workspace, scale: Scale, model: DiffusionModel, players: Logos, adapters_at_once: int | None
) -> DiffusionGame:
    """Generate images with the model fine-tuned on everything, and return the game of their likelihood."""
    latents = model.encode(players.images)
    queries = {brand: prompt(brand) for brand in VALUED}
    empty = torch.zeros(len(queries), scale.generated, *model.latent_shape)
    arguments = (model, latents, [prompt(brand) for brand in players.brands], queries)
    game = DiffusionGame(*arguments, empty, scale.settings, adapters_at_once=adapters_at_once)

    def generate() -> Floats:
        workspace.say(f"fine-tuning on all {len(players)} images, generating {scale.generated} images a prompt")
        full = game.adapters(np.ones((1, len(players)), dtype=bool))
        generated = game.generate(full[0], scale.generated, seed=scale.settings.seed + 1000).cpu()
        before = game.generate(None, scale.generated, seed=scale.settings.seed + 1000)
        for name, images in (
            ("generated", model.decode(generated.flatten(0, 1))),
            ("generated_before", model.decode(before.flatten(0, 1))),
            ("players", players.images),
        ):
            write_contact_sheet(workspace.folder / f"{name}.png", images, len(queries))
        return generated.numpy()

    generated = torch.as_tensor(workspace.find_or_compute("generated.npz", game.fingerprint, generate))
    game = DiffusionGame(*arguments, generated, scale.settings, adapters_at_once=adapters_at_once)
    workspace.say(f"{game.room.adapters} adapters and {game.room.trajectories} trajectories at once")
    return game
