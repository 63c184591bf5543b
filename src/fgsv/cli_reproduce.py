"""The command `fgsv reproduce`: the paper's experiments, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

reproduce = typer.Typer(help="Run an experiment of the paper and write its table, figure and record.")

Out = Annotated[Path, typer.Option(help="The folder to write to; it is made where it does not exist.")]
Seed = Annotated[int, typer.Option(min=0, help="Another seed is another sample.")]
Budget = Annotated[int, typer.Option(min=1, help="Evaluations of the utility in a run of FGSV.")]


@reproduce.command()
def motivation(out: Out, seed: Seed = 0, budget: Budget = 20_000) -> None:
    """Split group B and watch the value of group A (Figure 1): less than a minute.

    Example: fgsv reproduce motivation --out results
    """
    from fgsv.experiments import motivation as experiment

    table = experiment.run(out, seed=seed, budget=budget)
    _echo(table[table.group == "A"].to_string(index=False), out, "motivation")


@reproduce.command()
def diabetes(
    out: Out,
    seed: Seed = 0,
    budget: Budget = 20_000,
    replications: Annotated[int, typer.Option(min=2, help="Runs of FGSV.")] = 30,
    workers: Annotated[int, typer.Option(min=1, help="Processes to run them in; the numbers stay the same.")] = 2,
) -> None:
    """Value patients by sex, age and BMI under seven groupings (Figure 4): a few minutes.

    Example: fgsv reproduce diabetes --out results
    """
    from fgsv.experiments import diabetes as experiment

    table = experiment.run(out, seed=seed, budget=budget, replications=replications, workers=workers)
    _echo(table[table.variable == "age"].to_string(index=False), out, "diabetes")


def _echo(table: str, out: Path, name: str) -> None:
    typer.echo(table)
    typer.echo(f"wrote {out / name}.csv, {out / name}.json and {out / name}.png")
