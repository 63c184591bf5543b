"""The command `fgsv reproduce copyright`: royalty shares from a diffusion model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fgsv.cli import options as option
from fgsv.cli.documents import print_json, prose_aside


def copyright(  # shadows the builtin, because typer names the command after it
    out: Annotated[Path, typer.Option(help="Folder to write to; an interrupted run resumes from it.")],
    published: Annotated[
        Path | None, typer.Option(help="Compute the shares from the authors' published utilities (.npz).")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Stable Diffusion checkpoint, folder or name (default: train a small model)."),
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of FlickrLogos-27 (default: draw logos).")] = None,
    annotation: Annotated[
        Path | None, typer.Option(help="Annotation file of FlickrLogos-27, if it is not in that folder.")
    ] = None,
    device: Annotated[str, typer.Option(help="cuda, cpu, or auto: a GPU if available.")] = "auto",
    precision: Annotated[str, typer.Option(help="float32, bfloat16, or auto: bfloat16 on a GPU.")] = "auto",
    small: Annotated[bool, typer.Option("--small", help="Small version for a CPU: two or three minutes.")] = False,
    adapters: Annotated[
        int | None, typer.Option(min=1, help="Adapters trained at once (default: as many as fit in GPU memory).")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(min=0, help="Do not start a round of evaluations that would end after this.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the model and the sample.")] = 0,
    as_json: option.Json = False,
) -> None:
    """Share royalties among four brands, whole and split (Figure 3): minutes on a GPU.

    Example: fgsv reproduce copyright --out results --small
    """
    if published is not None and any((small, model, images, annotation, adapters, max_seconds)):
        raise ValueError("--published computes shares from a file: only --out and --json go with it")
    with prose_aside(as_json):
        if published is not None:
            from fgsv.experiments.copyright.published import run_published

            run_published(published, out)
        else:
            from fgsv.experiments.copyright.experiment import run

            run(
                out,
                model=model,
                images=images,
                annotation=annotation,
                device=device,
                precision=precision,
                small=small,
                adapters_at_once=adapters,
                max_seconds=max_seconds,
                seed=seed,
            )
    if as_json:
        print_json(json.loads((out / "shares.json").read_text(encoding="utf-8")))
