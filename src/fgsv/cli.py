"""The command `fgsv`: each command opens the library's own public objects.

numpy and the rest are imported inside the commands, so that `fgsv --help` answers at once.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import fgsv
from fgsv import cli_bench, cli_ledger
from fgsv.cli_reproduce import reproduce

if TYPE_CHECKING:
    from fgsv.payout import Payout
    from fgsv.tabular import Job
    from fgsv.valuation import Valuation

app = typer.Typer(
    help="Fair shares for data providers: values that nobody can raise by splitting, merging or renaming.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(cli_bench.app, name="bench")


app.add_typer(reproduce, name="reproduce")

File = Annotated[Path, typer.Argument(help="CSV, TSV (also gzipped) or Parquet.", show_default=False)]
Group = Annotated[str, typer.Option(help="Column that says whose row it is; several with commas between.")]
Target = Annotated[str, typer.Option(help="Column to predict.")]
Unit = Annotated[str | None, typer.Option(help="Column whose equal values make rows one player: a patient.")]
Test = Annotated[Path | None, typer.Option(help="File of test rows.")]
TestFraction = Annotated[float, typer.Option(help="Part of the rows that test, drawn at random.")]
TestBy = Annotated[str | None, typer.Option(help="Column that says train or test.")]
Model = Annotated[str | None, typer.Option(help="logistic, ridge, knn, hgb, mlp, or package.module:object.")]
Metric = Annotated[str | None, typer.Option(help="A score by scikit-learn's name; several with commas between.")]
TaskName = Annotated[
    Literal["classification", "regression"] | None, typer.Option(help="Recognised from the target if not said.")
]
Ignore = Annotated[str, typer.Option(help="Columns that are no features, with commas between.")]
GroupMissing = Annotated[str | None, typer.Option(help="A name for rows whose group is missing.")]
Refit = Annotated[bool, typer.Option(help="Fit the preprocessing for each coalition anew (slow).")]
Encoding = Annotated[str, typer.Option(help="Of text files.")]
Budget = Annotated[int | None, typer.Option(help="Evaluations in all.", min=1)]
Precision = Annotated[float | None, typer.Option(help="Half-width to reach for every share: 0.01 is a point.")]
MaxTime = Annotated[str | None, typer.Option(help="90s, 10m or 2h.")]
Confidence = Annotated[float, typer.Option(help="Of every interval.")]
Seed = Annotated[int, typer.Option(help="Same seed, same result.", min=0)]
Jobs = Annotated[int, typer.Option(help="Workers that evaluate.")]
Ledger = Annotated[Path | None, typer.Option(help="Database that remembers every evaluation.")]
Amount = Annotated[str | None, typer.Option(help="Money to split, such as 100000.00.")]
Currency = Annotated[str, typer.Option(help="Code of three letters.")]
Clip = Annotated[bool, typer.Option(help="Pay nothing for negative values instead of charging (not faithful).")]
Floor = Annotated[str | None, typer.Option(help="The least that each is paid (not faithful).")]
Cap = Annotated[str | None, typer.Option(help="The most that each is paid (not faithful).")]
Out = Annotated[Path | None, typer.Option(help="Folder for valuation.json, valuation.csv and report.html.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a finished valuation.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Saved = Annotated[Path, typer.Argument(help="A valuation.json.", show_default=False)]


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Keep `fgsv COMMAND` the form of every call."""


app.add_typer(cli_ledger.app, name="ledger")
app.command()(cli_ledger.verify)


@app.command()
def version(as_json: Json = False) -> None:
    """Print the version.

    Example: fgsv version
    """
    typer.echo(json.dumps({"fgsv": fgsv.__version__}) if as_json else fgsv.__version__)


@app.command()
def value(
    file: File,
    group: Group,
    target: Target,
    unit: Unit = None,
    test: Test = None,
    test_fraction: TestFraction = 0.25,
    test_by: TestBy = None,
    model: Model = None,
    metric: Metric = None,
    task: TaskName = None,
    ignore: Ignore = "",
    group_missing: GroupMissing = None,
    refit_preprocessing: Refit = False,
    encoding: Encoding = "utf-8",
    budget: Budget = None,
    precision: Precision = None,
    max_time: MaxTime = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    jobs: Jobs = 1,
    ledger: Ledger = None,
    payout: Amount = None,
    currency: Currency = "EUR",
    clip: Clip = False,
    floor: Floor = None,
    cap: Cap = None,
    out: Out = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Value the providers of a file and, with --payout, split money among them.

    Example: fgsv value train.csv --group provider --target y --precision 0.01 --payout 100000 --out result
    """
    from fgsv import console, results, tabular
    from fgsv.payout import check_money

    if out is not None:
        results.check_folder(out, force=force)
    if payout is not None:
        check_money(currency, amount=payout.split(",")[0], floor=floor, cap=cap)
    seconds = parse_duration(max_time)
    job = tabular.open_file(
        file,
        group=group,
        target=target,
        unit=unit,
        test=test,
        test_fraction=test_fraction,
        test_by=test_by,
        model=model,
        metric=metric,
        task=task,
        ignore=ignore,
        group_missing=group_missing,
        refit_preprocessing=refit_preprocessing,
        encoding=encoding,
        seed=seed,
    )
    if not as_json:
        for note in job.notes:
            console.say(note)
    valuation = console.run(
        job.game,
        job.dataset.partition,
        budget=budget,
        precision=precision,
        max_seconds=seconds,
        confidence=confidence,
        seed=seed,
        quiet=as_json,
        **running(jobs, ledger),
    )
    finish(
        job,
        valuation,
        payout={"amount": payout, "currency": currency, "clip": clip, "floor": floor, "cap": cap},
        confidence=confidence,
        out=out,
        as_json=as_json,
    )


@app.command()
def plan(
    file: File,
    group: Group,
    target: Target,
    unit: Unit = None,
    test: Test = None,
    test_fraction: TestFraction = 0.25,
    test_by: TestBy = None,
    model: Model = None,
    metric: Metric = None,
    task: TaskName = None,
    ignore: Ignore = "",
    group_missing: GroupMissing = None,
    refit_preprocessing: Refit = False,
    encoding: Encoding = "utf-8",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    jobs: Jobs = 1,
    ledger: Ledger = None,
    as_json: Json = False,
) -> None:
    """Run a small pilot and say what precision will cost: budgets against half-widths and minutes.

    Example: fgsv plan train.csv --group provider --target y
    """
    from fgsv import console, tabular

    job = tabular.open_file(
        file,
        group=group,
        target=target,
        unit=unit,
        test=test,
        test_fraction=test_fraction,
        test_by=test_by,
        model=model,
        metric=metric,
        task=task,
        ignore=ignore,
        group_missing=group_missing,
        refit_preprocessing=refit_preprocessing,
        encoding=encoding,
        seed=seed,
    )
    found = fgsv.plan(job.game, job.dataset.partition, confidence=confidence, seed=seed, **running(jobs, ledger))
    if as_json:
        typer.echo(json.dumps({"plan": found.to_frame().to_dict("records"), "notes": job.notes}))
        return
    for note in job.notes:
        console.say(note)
    console.show(found.to_frame(), f"what precision costs, at {confidence:.0%} confidence")


@app.command()
def payout(
    saved: Saved,
    amount: Annotated[str, typer.Option(help="Money to split; with several outputs one for each, with commas.")],
    currency: Currency = "EUR",
    clip: Clip = False,
    floor: Floor = None,
    cap: Cap = None,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Split an amount of money by a saved valuation; the parts add up to it exactly.

    Example: fgsv payout result/valuation.json --amount 100000 --currency EUR
    """
    from fgsv import console

    paid = pay(
        fgsv.Valuation.load(saved),
        {"amount": amount, "currency": currency, "clip": clip, "floor": floor, "cap": cap},
        confidence,
    )
    assert paid is not None
    if as_json:
        typer.echo(json.dumps(paid.to_dict()))
        return
    console.show(paid.to_frame(), f"{paid.amount:,} {paid.currency}, {paid.policy.describe()}")
    for note in paid.notes:
        console.say(note)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("fgsv-demo"),
    budget: Annotated[int, typer.Option(help="Evaluations in all.", min=100)] = 20_000,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Value ten hospitals, one with wrong labels and one that copied, and split 100,000 EUR among them.

    Example: fgsv demo --out fgsv-demo
    """
    from fgsv import console, results
    from fgsv.demo import write

    results.check_folder(out, force=force)
    hospitals, test = write(out, seed)
    if not as_json:
        console.say(f"ten hospitals in {hospitals}; the same by hand:")
        console.say(
            f"  fgsv value {hospitals} --group hospital --target diagnosis --test {test} --metric accuracy "
            f"--budget {budget} --payout 100000 --out {out}"
        )
    value(
        hospitals,
        "hospital",
        "diagnosis",
        test=test,
        metric="accuracy",
        budget=budget,
        seed=seed,
        payout="100000",
        out=out,
        force=force,
        as_json=as_json,
    )


def finish(
    job: Job,
    valuation: Valuation,
    *,
    payout: dict[str, Any],
    confidence: float,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write and print what came out; a run that was interrupted ends with exit code 1."""
    from dataclasses import replace

    from fgsv import console, results

    valuation = replace(valuation, settings=valuation.settings | job.settings | {"confidence": confidence})
    groupings = job.dataset.groupings
    valuations = {column: valuation.regroup(partition) for column, partition in groupings.items()}
    first = next(iter(groupings))
    valuations[first] = valuation
    paid = pay(valuation, payout, confidence)
    written = [] if out is None else results.write(out, valuations, paid, None)
    interrupted = valuation.stopped == results.INTERRUPTED
    if as_json:
        document = {
            "n_evaluations": valuation.n_evaluations,
            "stopped": valuation.stopped,
            "notes": job.notes,
            "groupings": {
                column: json.loads(results.table_of(each, None, confidence).to_json(orient="records"))
                for column, each in valuations.items()
            },
            "payout": None if paid is None else paid.to_dict(),
            "files": [str(path) for path in written],
        }
        typer.echo(json.dumps(document))
    else:
        for column, each in valuations.items():
            frame = results.table_of(each, paid if column == first else None, confidence)
            console.show(frame.rename(columns={"group": column}))
        console.say(f"{valuation.n_evaluations:,} evaluations; {valuation.stopped}")
        for note in () if paid is None else paid.notes:
            console.say(note)
        if written:
            console.say(f"written to {out}: {', '.join(path.name for path in written)}")
    if interrupted:
        raise typer.Exit(1)


def pay(valuation: Valuation, asked: dict[str, Any], confidence: float) -> Payout | None:
    """Return the payout that was asked for, or None."""
    if asked["amount"] is None:
        return None
    from fgsv.payout import split

    amounts = str(asked["amount"]).split(",")
    amount = amounts[0] if len(amounts) == 1 else amounts
    return split(valuation, confidence=confidence, **asked | {"amount": amount})


def running(jobs: int, ledger: Path | None) -> dict[str, Any]:
    """Return the arguments of `fgsv.value` that say how it runs, where they are not the usual ones."""
    return ({} if jobs == 1 else {"n_jobs": jobs}) | ({} if ledger is None else {"ledger": ledger})


def parse_duration(text: str | None) -> float | None:
    """Return the seconds of 90, 90s, 10m or 2h.

    >>> parse_duration("1.5h")
    5400.0
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text.lower())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"--max-time must be like 90s, 10m or 2h, got {text!r}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: exit code 0, 1 (failed) or 2 (bad arguments); an error is one line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        app([argument for argument in arguments if argument != "--debug"])
    except KeyboardInterrupt:
        typer.echo("interrupted before there was a first estimate", err=True)
        raise SystemExit(1) from None
    except (ValueError, TypeError, FileNotFoundError, FileExistsError) as error:
        if debug:
            raise
        typer.echo(f"error: {_one_line(error)}", err=True)
        raise SystemExit(2) from None
    except Exception as error:
        if debug:
            raise
        typer.echo(f"failed: {_one_line(error)} (--debug shows where)", err=True)
        raise SystemExit(1) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
