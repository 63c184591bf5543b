"""The command `fgsv reproduce copyright`: royalty shares from a diffusion model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fgsv.cli import options as option
from fgsv.cli.documents import print_json, prose_aside


def copyright(  # the command's name
    out: Annotated[Path, typer.Option(help="The folder to write to; a run that was cut short goes on there.")],
    published: Annotated[
        Path | None, typer.Option(help="Compute the shares from the utilities that the authors published (.npz).")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A Stable Diffusion checkpoint, by folder or name; else a small model is trained."),
    ] = None,
    images: Annotated[Path | None, typer.Option(help="The folder of FlickrLogos-27; else logos are drawn.")] = None,
    annotation: Annotated[
        Path | None, typer.Option(help="Its annotation file, where it is not in that folder.")
    ] = None,
    device: Annotated[str, typer.Option(help="cuda, cpu, or auto: a GPU where there is one.")] = "auto",
    precision: Annotated[str, typer.Option(help="float32, bfloat16, or auto: bfloat16 on a GPU.")] = "auto",
    small: Annotated[bool, typer.Option("--small", help="A small form for a CPU: two or three minutes.")] = False,
    adapters: Annotated[
        int | None, typer.Option(min=1, help="Adapters trained at once; else as many as fit the GPU's memory.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop before the round of evaluations that would end later.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed is another model and another sample.")] = 0,
    as_json: option.Json = False,
) -> None:
    """Share royalties among four brands, whole and split (Figure 3): minutes on a GPU.

    Example: fgsv reproduce copyright --out results --small
    """
    if published is not None and any((small, model, images, annotation, adapters, max_seconds)):
        raise ValueError("--published computes shares from a file: it takes --out and --json alone")
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
