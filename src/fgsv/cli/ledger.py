"""The commands `fgsv ledger ...`."""

from __future__ import annotations

from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from fgsv.cli.help_texts import App
from fgsv.cli.options import ForceFile, Function, Json, command
from fgsv.cli.printing import echo, print_json, results_only
from fgsv.cli.values import OPEN_TABLE, OPEN_TEXT, Files, open_data
from fgsv.words import counted, significant, some

VERIFY_RECORDS = Function(
    "verification/record_checks.py:verify_records", only="game sample seed tolerance", optional="game"
)
FORGET = Function("ledger/forgetting.py:forget", only="players providers keep")
WITHDRAWN = Function("verification/checking.py:withdrawn_players", only="rows data test", optional="rows data")

app = App(help="Inspect, verify, merge and export ledgers.", no_args_is_help=True)

LedgerFile = Annotated[Path, typer.Argument(help="Ledger file")]


@app.command()
def show(ledger: LedgerFile, as_json: Json = False) -> None:
    """Show the games, evaluations and runs of a ledger.

    Example: fgsv ledger show run.db
    """
    from fgsv.cli import console
    from fgsv.files import encode
    from fgsv.ledger import Ledger
    from fgsv.ledger.tools import summary
    from fgsv.results.as_json import records
    from fgsv.valuation.display import Section

    with Ledger(ledger, read_only=True) as opened:
        games, runs, recorded = summary(opened), opened.runs(), opened.games()
    frames = {game.fingerprint: game.frame for _, game in recorded}
    fingerprints = {number: game.fingerprint for number, game in recorded}
    if as_json:
        ends = [encode(run.end) for run in runs]
        listed = [
            vars(run) | {"game": fingerprints[run.game], "end": end} for run, end in zip(runs, ends, strict=True)
        ]
        framed = [game | {"frame": _parts(frames[game["game"]])} for game in records(games)]
        print_json({"games": framed, "runs": listed})
        return
    if len(games):
        rows = tuple(
            (game, *(f"{count:,}" for count in counts), significant(seconds, 4))
            for game, *counts, seconds in games.itertuples(index=False)
        )
        console.show(Section("Games", (), tuple(map(str, games.columns)), rows))
        for fingerprint, frame in frames.items():
            words = ", ".join(f"{name} {part}" for name, part in _parts(frame).items())
            echo(f"frame of {fingerprint}: {words or 'not stated, so it can only be reused for these players'}")
    else:
        echo("no games")
    for run in runs:
        settings = run.settings
        end = "did not end: still running, or killed" if run.end is None else f"ended {run.ended}: {run.end}"
        echo(
            f"run {run.id} of {fingerprints[run.game]}: {settings.get('method')}, "
            f"seed {settings.get('seed')}, began {run.started}, {end}"
        )


@app.command("verify")
@command(VERIFY_RECORDS)
def verify_ledger(context: typer.Context, ledger: LedgerFile, as_json: Json = False, **given: Any) -> None:
    """Check that a ledger is intact.

    With --game, also check that the game still gives the recorded values.

    Example: fgsv ledger verify run.db --game market.py:game --sample 50
    """
    from fgsv.ledger import Ledger
    from fgsv.ledger.tools import summary
    from fgsv.packages import load_object
    from fgsv.verification.record_checks import odds_of_missing, verify_records

    with Ledger(ledger, read_only=True) as opened:  # opening checks every record against its checksum
        n_batches = int(summary(opened)["batches"].sum())
    words = [f"intact: {n_batches} batches"]
    if "game" not in given:
        report_differences(words, [], as_json)
        return
    with results_only():
        found = verify_records(ledger, **VERIFY_RECORDS.of(given) | {"game": load_object(given["game"])})
    words.append(f"{found.n_evaluated} batches re-evaluated: same")
    if found.n_evaluated < n_batches:
        missed = odds_of_missing(found.n_evaluated)
        words.append(
            f"if 5% of the batches had been forged, this sample would have missed it with probability {missed:.1%}"
        )
    report_differences(words, found, as_json)


@app.command()
def merge(
    into: Annotated[Path, typer.Argument(help="Ledger to add to; created if it does not exist")],
    sources: Annotated[list[Path], typer.Argument(help="Ledgers to add")],
    as_json: Json = False,
) -> None:
    """Add the evaluations and runs of several ledgers to one.

    Refused if players were forgotten in one of them and not in another: they would come back.

    Example: fgsv ledger merge all.db machine1.db machine2.db
    """
    from fgsv.ledger import tools

    merged = tools.merge(into, sources)
    if as_json:
        print_json(asdict(merged))
        return
    echo(f"{merged.added} batches added, {merged.known} already known")
    if merged.different:
        echo(
            f"warning: {merged.different} batches have different values in {into}, by up to "
            f"{merged.largest_difference:.3g}: the existing ones were kept"
        )


@app.command()
def export(
    ledger: LedgerFile,
    out: Annotated[Path, typer.Argument(help="File to write, .csv or .parquet")],
    force: ForceFile = False,
    as_json: Json = False,
) -> None:
    """Write every evaluation as a line of CSV or Parquet.

    Example: fgsv ledger export run.db evaluations.parquet
    """
    from fgsv.ledger import tools
    from fgsv.pipeline import check_file

    check_file(out, force=force, kinds=(".csv", ".parquet"))
    lines = tools.export(ledger, out)
    if as_json:
        print_json({"lines": lines, "file": str(out)})
    else:
        echo(f"{lines} lines written to {out}")


def _parts(frame: Any) -> dict[str, str]:
    """Return the parts of a frame, each as a short hash."""
    parts = frame if isinstance(frame, dict) else {} if frame is None else {"frame": frame}
    return {name: sha256(part.encode()).hexdigest()[:8] for name, part in parts.items()}


@app.command()
@command(OPEN_TABLE, OPEN_TEXT)
def applies(context: typer.Context, file: Files, as_json: Json = False, **given: Any) -> None:
    """Show how much of earlier ledgers applies to a table.

    Says which players are still there, and what is known.

    Example: fgsv ledger applies april.csv --group provider --target y --start march.db
    """
    from fgsv.ledger import known
    from fgsv.planning import start_in_words

    data = open_data(context, file, given)
    if "start" not in given:
        raise ValueError("name the earlier ledgers with --start")
    found = known(data.game, given["start"])
    if as_json:
        counts = {"apply": len(found), "recorded": found.n_recorded, "draws": int((found.run >= 0).sum())}
        print_json(counts | {"players_left": found.n_left, "players_joined": found.n_joined, "notes": found.notes})
        return
    for line in [start_in_words(found, data.partition, data.game), *found.notes]:
        echo(line)


@app.command()
@command(FORGET, WITHDRAWN)
def forget(
    context: typer.Context,
    ledger: LedgerFile,
    result: Annotated[Path | None, typer.Option(help="With --rows: the valuation.json of a run")] = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Erase the evaluations that used withdrawn players.

    Also erases the data that identifies these players, except in the preprocessing, whose categories and medians
    stay. If only some rows were withdrawn, give them with --rows. Or value the table without them (--start), and keep
    the new ledger's players.

    Example: fgsv ledger forget march.db --provider "Clinic Birch"
    """
    from fgsv.ledger.forgetting import forget as erase

    players = list(given.get("player", ()))
    if len({result is not None, "rows" in given, "data" in given}) > 1:
        raise typer.BadParameter("--rows, --result and --data belong together: they say which players hold the rows")
    if result is not None:
        from fgsv.results import Result
        from fgsv.verification import withdrawn_players

        with results_only():
            players += withdrawn_players(Result.load(result), ledger, **WITHDRAWN.of(given))
    found = erase(ledger, **FORGET.of(given) | {"players": players})
    if as_json:
        print_json(asdict(found))
    else:
        what = f"{counted(found.evaluations, 'evaluation')} of {counted(found.players, 'player')}"
        echo(f"{what} erased from {ledger}")
        if found.test_rows:
            echo(f"{counted(found.test_rows, 'test row')} beside it erased: no run can start from it any more")
        if found.unknown:
            few = some(map(repr, found.unknown), most=3)
            echo(f"warning: {ledger} has no player {few}: misspelt, or forgotten before")
        if found.preprocessing:
            echo(
                f"warning: the preprocessing stays in {ledger}: medians, means and categories of all rows it was "
                "fitted to, with theirs among them unless --reference named others"
            )


def report_differences(same: list[str], differences: list[Any], as_json: bool) -> None:
    """Print what was checked, or the differences, which make the exit code 1."""
    if as_json:
        # as text: both sides may be of any type, and no digit may be lost
        found = [{name: str(cell) for name, cell in asdict(each).items()} for each in differences]
        print_json({"same": not found, "checked": same, "differences": found})
    else:
        for line in [*differences, "not the same"] if differences else same:
            echo(line)
    if differences:
        raise typer.Exit(1)
