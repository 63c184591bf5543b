"""The command `fgsv reproduce`: the paper's experiments, one command each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fgsv.cli import options as option
from fgsv.cli.copyright import copyright
from fgsv.cli.documents import print_json, prose_aside
from fgsv.environment import writable_folder

if TYPE_CHECKING:
    import pandas as pd

app = typer.Typer(help="Run an experiment of the paper and write its table, figure and record.")

Out = Annotated[Path, typer.Option(help="Folder to write to; created if it does not exist.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of the sample.")]
Budget = Annotated[int, typer.Option(min=1, help="Evaluations in each run of FGSV.")]


@app.command()
def motivation(out: Out, seed: Seed = 0, budget: Budget = 20_000, as_json: option.Json = False) -> None:
    """Split group B and watch the value of group A (Figure 1): less than a minute.

    Example: fgsv reproduce motivation --out results
    """
    from fgsv.experiments import motivation as experiment

    _run("motivation", out, as_json, lambda: experiment.run(out, seed=seed, budget=budget), "group == 'A'")


@app.command()
def diabetes(
    out: Out,
    seed: Seed = 0,
    budget: Budget = 20_000,
    replications: Annotated[int, typer.Option(min=2, help="Runs of FGSV.")] = 30,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers; the results do not depend on it.")] = 2,
    as_json: option.Json = False,
) -> None:
    """Value patients by sex, age and BMI under seven groupings (Figure 4): a few minutes.

    Example: fgsv reproduce diabetes --out results
    """
    from fgsv.experiments import diabetes as experiment

    def experimented() -> pd.DataFrame:
        return experiment.run(out, seed=seed, budget=budget, replications=replications, workers=workers)

    _run("diabetes", out, as_json, experimented, "variable == 'age'")


app.command()(copyright)


def _run(name: str, out: Path, as_json: bool, experiment: Callable[[], pd.DataFrame], shown: str) -> None:
    """Run an experiment; print the table rows that `shown` selects, or its record and all rows as JSON."""
    from fgsv.report.documents import records

    writable_folder(out)
    with prose_aside(as_json):
        table = experiment()
    files = [f"{out / name}.{suffix}" for suffix in ("csv", "json", "png")]
    if as_json:
        record = json.loads(Path(files[1]).read_text(encoding="utf-8"))
        print_json(record | {"table": records(table), "files": files})
        return
    typer.echo(table.query(shown).to_string(index=False))
    typer.echo(f"wrote {files[0]}, {files[1]} and {files[2]}")
