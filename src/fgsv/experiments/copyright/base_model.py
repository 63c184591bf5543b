"""The model that coalitions are fine-tuned from: it knows 23 brands, and none of the four that are valued."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from fgsv.environment import write_whole
from fgsv.experiments.copyright.drawn_logos import draw_logos
from fgsv.experiments.copyright.logos import VALUED, Logos, prompt, read_flickr_logos
from fgsv.experiments.copyright.pretraining import train_autoencoder, train_denoiser
from fgsv.experiments.copyright.scale import Scale
from fgsv.experiments.copyright.small_model import build_model
from fgsv.experiments.copyright.workspace import Workspace
from fgsv.utilities.adapters.layers import adapt, merge
from fgsv.utilities.diffusion.game import TrainingData, fine_tune
from fgsv.utilities.diffusion.model import DiffusionModel, load_model


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
    folder = workspace.folder / "model"
    note, made = folder / "made_by.json", json.dumps(made_by, sort_keys=True)
    if note.is_file() and note.read_text(encoding="utf-8") == made:
        workspace.say(f"using the model in {folder}")
    else:
        workspace.say(f"training on {len(first)} images of {len(others)} brands")
        train = _train_small if loaded is None else partial(_tune_checkpoint, model=loaded)
        train(workspace, scale, first).save(folder)
        write_whole(note, made)
    return load_model(folder).to(workspace.device, workspace.dtype), logos


def _train_small(workspace: Workspace, scale: Scale, logos: Logos) -> DiffusionModel:
    model = build_model(scale.model, scale.pretraining.seed).to(workspace.device)

    def report(part: str, step: int, steps: int, loss: torch.Tensor) -> None:
        if step % max(1, steps // 5) == 0:
            workspace.say(f"{part}: step {step} of {steps}, loss {float(loss):.4f}")

    train_autoencoder(model, logos.images, scale.pretraining, report)
    train_denoiser(model, logos.images, [prompt(brand) for brand in logos.brands], scale.pretraining, report)
    return model


def _tune_checkpoint(workspace: Workspace, scale: Scale, logos: Logos, model: DiffusionModel) -> DiffusionModel:
    """Fine-tune a checkpoint on the other brands, as the authors do, with an adapter that is merged into it."""
    model = model.to(workspace.device, workspace.dtype)
    adapted = adapt(model.unet, rank=scale.settings.rank, alpha=scale.settings.alpha)
    prompts = [prompt(brand) for brand in logos.brands]
    data = TrainingData.of(model, model.encode(logos.images), prompts, scale.settings)
    everything = np.ones((1, len(logos)), dtype=bool)
    merge(adapted, fine_tune(model, adapted, data, everything, scale.settings)[0])
    return replace(model, unet=adapted.without_adapters())
