"""The commands `fgsv ledger ...`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fgsv.cli import options as option
from fgsv.cli.documents import print_json

app = typer.Typer(help="Look into ledgers, check them, merge and export them.", no_args_is_help=True)

LedgerFile = Annotated[Path, typer.Argument(help="A ledger.", show_default=False)]
GameName = Annotated[
    str | None, typer.Option(help="package.module:object or file.py:object, to evaluate a sample again.")
]
Sample = Annotated[int, typer.Option(help="How many batches to evaluate again.", min=1)]
Tolerance = Annotated[float, typer.Option(help="How far a value may be from the recorded one.", min=0)]
Seed = Annotated[int, typer.Option(help="Of the sample.", min=0)]


@app.command()
def show(ledger: LedgerFile, as_json: option.Json = False) -> None:
    """Print what a ledger holds: games, evaluations, and the runs that made them.

    Example: fgsv ledger show run.db
    """
    from fgsv.ledger import Ledger
    from fgsv.ledger.tools import summary
    from fgsv.report.documents import records
    from fgsv.valuation import End

    with Ledger(ledger, read_only=True) as opened:
        games = summary(opened)
        runs = opened.runs()
        fingerprints = {number: game.fingerprint for number, game in opened.games()}
    if as_json:
        told = [run | {"game": fingerprints[run["game"]]} for run in runs]
        print_json({"games": records(games), "runs": told})
        return
    typer.echo(games.to_string(index=False, float_format="{:.3f}".format) if len(games) else "no game")
    for run in runs:
        settings = run["settings"]
        end = (
            f"ended {run['ended']}: {End.from_text(run['stopped'])}"
            if run["ended"]
            else "has no end: running, or killed"
        )
        typer.echo(
            f"run {run['id']} of {fingerprints[run['game']]}: {settings.get('method')}, "
            f"seed {settings.get('seed')}, began {run['started']}, {end}"
        )


@app.command("verify")
def verify_ledger(
    ledger: LedgerFile,
    game: GameName = None,
    sample: Sample = 20,
    tolerance: Tolerance = 0.0,
    seed: Seed = 0,
    as_json: option.Json = False,
) -> None:
    """Check that a ledger is whole and, with --game, that the game still answers what is recorded.

    Example: fgsv ledger verify run.db --game market.py:game --sample 50
    """
    from fgsv.environment import load_object
    from fgsv.ledger import Ledger
    from fgsv.ledger.tools import summary
    from fgsv.running.verification import verify_records

    with Ledger(ledger, read_only=True) as opened:  # opening reads every record and its checksum
        n_batches = int(summary(opened)["batches"].sum())
    words, found = [f"whole: {n_batches} batches"], []
    if game is not None:
        found = verify_records(ledger, load_object(game), sample=sample, seed=seed, tolerance=tolerance)
        words.append(f"{min(sample, n_batches)} batches evaluated again: same")
    report_differences(words, found, as_json)


@app.command()
def merge(
    into: Annotated[Path, typer.Argument(help="The ledger to add to; made if it does not exist.")],
    sources: Annotated[list[Path], typer.Argument(help="The ledgers to add.")],
    as_json: option.Json = False,
) -> None:
    """Add the evaluations and runs of several ledgers to one.

    Example: fgsv ledger merge all.db machine1.db machine2.db
    """
    from fgsv.ledger import tools

    merged = tools.merge(into, sources)
    if as_json:
        print_json(asdict(merged))
        return
    typer.echo(f"{merged.added} batches added, {merged.known} were there already")
    if merged.different:
        typer.echo(
            f"{merged.different} batches have other values in {into}, by up to {merged.largest_difference:.3g}: "
            "those in it were kept"
        )


@app.command()
def export(
    ledger: LedgerFile,
    out: Annotated[Path, typer.Argument(help="A .csv or .parquet file.", show_default=False)],
    as_json: option.Json = False,
) -> None:
    """Write every evaluation as a line of a CSV or Parquet file.

    Example: fgsv ledger export run.db evaluations.parquet
    """
    from fgsv.ledger import tools

    lines = tools.export(ledger, out)
    if as_json:
        print_json({"lines": lines, "file": str(out)})
    else:
        typer.echo(f"{lines} lines written to {out}")


def report_differences(same: list[str], differences: list[Any], as_json: bool) -> None:
    """Print what was checked, or where it is not the same; then the exit code is 1."""
    if as_json:
        # as text: what is stated or derived may be of any type, and is to be read back digit by digit
        found = [{name: str(cell) for name, cell in asdict(each).items()} for each in differences]
        print_json({"same": not found, "checked": same, "differences": found})
    else:
        for line in [*differences, "not the same"] if differences else same:
            typer.echo(str(line))
    if differences:
        raise typer.Exit(1)
