"""The commands `fgsv bench ...`: benchmarks that reproduce the paper's figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fgsv.cli import options as option
from fgsv.cli.documents import print_json, prose_aside
from fgsv.cli.parsers import listed
from fgsv.cli.sections import App
from fgsv.files import writable_folder
from fgsv.packages import optional

app = App(help="Reproduce the paper's benchmarks.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Require a benchmark's name, even while there is only one."""


@app.command()
def sou(
    out: Annotated[Path, typer.Option(help="Folder for tables and figures", metavar="FOLDER")],
    n: Annotated[
        list[str] | None, typer.Option(help="Numbers of players; several allowed", metavar="NUMBERS")
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,  # the rest of --n 64 128 256
    budget: Annotated[int, typer.Option(help="Evaluations in total, for all groups")] = 20_000,
    repeats: Annotated[int, typer.Option(help="Runs of each method on each game")] = 30,
    seed: Annotated[int, typer.Option(help="Seed of the games")] = 0,
    jobs: Annotated[int, typer.Option(help="Number of workers")] = 2,
    as_json: option.Json = False,
) -> None:
    """Compare nine methods on the sum-of-unanimity game.

    Draws the paper's Figures 2 and 5.

    Example: fgsv bench sou --n 64 128 256 --budget 20000 --repeats 30 --out bench-out/sou
    """
    from fgsv.experiments import sou as experiment
    from fgsv.report.documents import records

    try:
        sizes = tuple(int(size) for size in listed((n or []) + (more or []))) or (64, 128, 256)
        settings = experiment.Settings(sizes, budget, repeats, seed=seed, jobs=jobs)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    optional("matplotlib", "figures", "plots")  # fail now rather than after an hour of work
    writable_folder(out)
    with prose_aside(as_json):
        report = experiment.run(settings)
        folder = experiment.write(report, settings, out)
    if as_json:
        print_json({"summary": records(report.summary), "statements": list(report.statements), "folder": str(folder)})
        return
    typer.echo(report.summary.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    typer.echo()
    for statement in report.statements:
        typer.echo(statement)
    typer.echo(f"\nTables and figures are in {folder}.")
