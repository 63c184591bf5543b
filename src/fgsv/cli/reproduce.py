"""The command `fgsv reproduce`: the paper's experiments, one command each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fgsv.cli import options as option
from fgsv.cli.documents import print_json, prose_aside
from fgsv.cli.sections import App
from fgsv.files import read_json, writable_folder

if TYPE_CHECKING:
    import pandas as pd

app = App(help="Run an experiment of the paper.")

Out = Annotated[Path, typer.Option(help="Folder to write to; created if it does not exist", metavar="FOLDER")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of the sample")]
Budget = Annotated[int, typer.Option(min=1, help="Evaluations in each run of FGSV")]


@app.command()
def motivation(out: Out, seed: Seed = 0, budget: Budget = 20_000, as_json: option.Json = False) -> None:
    """Split group B and watch the value of group A.

    Writes Figure 1 of the paper: less than a minute.

    Example: fgsv reproduce motivation --out results
    """
    from fgsv.experiments import motivation as experiment

    _run("motivation", out, as_json, lambda: experiment.run(out, seed=seed, budget=budget), "group == 'A'")


@app.command()
def diabetes(
    out: Out,
    seed: Seed = 0,
    budget: Budget = 20_000,
    replications: Annotated[int, typer.Option(min=2, help="Runs of FGSV")] = 30,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers; the results do not depend on it")] = 2,
    as_json: option.Json = False,
) -> None:
    """Value patients under seven groupings.

    By sex, age and BMI. Writes Figure 4 of the paper: a few minutes.

    Example: fgsv reproduce diabetes --out results
    """
    from fgsv.experiments import diabetes as experiment

    def experimented() -> pd.DataFrame:
        return experiment.run(out, seed=seed, budget=budget, replications=replications, workers=workers)

    _run("diabetes", out, as_json, experimented, "variable == 'age'")


@app.command()
def copyright(  # shadows the builtin, because typer names the command after it
    out: option.Results,
    published: Annotated[
        Path | None, typer.Option(help="Compute the shares from the authors' published utilities (.npz)")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Stable Diffusion checkpoint, folder or name (default: train a small model)")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder of FlickrLogos-27 (default: draw logos)", metavar="FOLDER")
    ] = None,
    annotation: Annotated[
        Path | None, typer.Option(help="Annotation file of FlickrLogos-27, if it is not in that folder")
    ] = None,
    device: option.Device = "auto",
    precision: option.Floating = "auto",
    small: option.Small = False,
    adapters: option.Adapters = None,
    max_seconds: option.LastRound = None,
    seed: option.SeedOfModel = 0,
    as_json: option.Json = False,
) -> None:
    """Share royalties among four brands, whole and split.

    Writes Figure 3 of the paper: minutes on a GPU.

    Example: fgsv reproduce copyright --out results --small
    """
    if published is not None and any((small, model, images, annotation, adapters, max_seconds)):
        raise ValueError("--published computes shares from a file: use it with --out and --json only")
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
        print_json(read_json(out / "shares.json"))


def _run(name: str, out: Path, as_json: bool, experiment: Callable[[], pd.DataFrame], shown: str) -> None:
    """Run an experiment; print the table rows that `shown` selects, or its record and all rows as JSON."""
    from fgsv.report.documents import records

    writable_folder(out)
    with prose_aside(as_json):
        table = experiment()
    files = [f"{out / name}.{suffix}" for suffix in ("csv", "json", "png")]
    if as_json:
        print_json(read_json(files[1]) | {"table": records(table), "files": files})
        return
    typer.echo(table.query(shown).to_string(index=False))
    typer.echo(f"wrote {files[0]}, {files[1]} and {files[2]}")
