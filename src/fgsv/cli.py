"""The command `fgsv`: each command opens the library's own public objects.

numpy and the rest are imported inside the commands, so that `fgsv --help` answers at once.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import fgsv
from fgsv import cli_bench, cli_ledger
from fgsv.cli_reproduce import reproduce

if TYPE_CHECKING:
    from fgsv.payout import Payout
    from fgsv.valuation import Valuation

Job = Any  # fgsv.tabular.Job, which is not imported before a command runs

app = typer.Typer(
    help="Fair shares for data providers: values that nobody can raise by splitting, merging or renaming.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(cli_bench.app, name="bench")
app.add_typer(reproduce, name="reproduce")
app.add_typer(cli_ledger.app, name="ledger")

File = Annotated[Path, typer.Argument(help="CSV, TSV (also gzipped) or Parquet.", show_default=False)]
Group = Annotated[str, typer.Option(help="Column that says whose row it is; several with commas between.")]
Target = Annotated[str, typer.Option(help="Column to predict.")]
Regroup = Annotated[str, typer.Option(help="Further columns to group by, which stay features; with commas.")]
Unit = Annotated[str | None, typer.Option(help="Column whose equal values make rows one player: a patient.")]
Test = Annotated[Path | None, typer.Option(help="File of test rows.")]
TestFraction = Annotated[float, typer.Option(help="Part of the rows that test, drawn at random.")]
TestBy = Annotated[str | None, typer.Option(help="Column that says train or test.")]
TestError = Annotated[bool, typer.Option("--test-error", help="Say how much the choice of the test rows matters.")]
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
OnError = Annotated[str, typer.Option(help="raise, or the number that a failed evaluation counts as.")]
Amount = Annotated[str | None, typer.Option(help="Money to split, such as 100000.00.")]
Currency = Annotated[str, typer.Option(help="Code of three letters.")]
Clip = Annotated[bool, typer.Option(help="Pay nothing for negative values instead of charging (not faithful).")]
Floor = Annotated[str | None, typer.Option(help="The least that each is paid (not faithful).")]
Cap = Annotated[str | None, typer.Option(help="The most that each is paid (not faithful).")]
AuditBudget = Annotated[int, typer.Option(help="Evaluations for the audit, beside the budget.", min=100)]
AggregateOnly = Annotated[
    bool, typer.Option("--aggregate-only", help="Leave the values of single rows out of the report.")
]
Out = Annotated[Path | None, typer.Option(help="Folder for valuation.json, valuation.csv and report.html.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a finished valuation.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Saved = Annotated[Path, typer.Argument(help="A valuation.json.", show_default=False)]


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Keep `fgsv COMMAND` the form of every call."""


def open_job(
    file: File,
    group: Group,
    target: Target,
    regroup: Regroup = "",
    unit: Unit = None,
    test: Test = None,
    test_fraction: TestFraction = 0.25,
    test_by: TestBy = None,
    test_error: TestError = False,
    model: Model = None,
    metric: Metric = None,
    task: TaskName = None,
    ignore: Ignore = "",
    group_missing: GroupMissing = None,
    refit_preprocessing: Refit = False,
    encoding: Encoding = "utf-8",
    seed: Seed = 0,
) -> Job:
    """Open the game of a file; its parameters are the options of every command that `opens_file`."""
    from fgsv.tabular import open_file

    return open_file(
        file,
        group=group,
        target=target,
        regroup=regroup,
        unit=unit,
        test=test,
        test_fraction=test_fraction,
        test_by=test_by,
        test_error=test_error,
        model=model,
        metric=metric,
        task=task,
        ignore=ignore,
        group_missing=group_missing,
        refit_preprocessing=refit_preprocessing,
        encoding=encoding,
        seed=seed,
    )


def opens_file(function: Callable[..., None]) -> Callable[..., None]:
    """Turn a function of a job and options into a command: the options of `open_job` come before its own."""
    own = inspect.signature(function, eval_str=True).parameters
    shared = inspect.signature(open_job, eval_str=True).parameters

    @wraps(function)
    def command(**options: Any) -> None:
        job = open_job(**{name: options[name] for name in shared})
        function(job, **{name: options[name] for name in own if name != "job"})

    parameters = [*shared.values(), *(own[name] for name in own if name not in shared and name != "job")]
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


@app.command()
@opens_file
def value(
    job: Job,
    budget: Budget = None,
    precision: Precision = None,
    max_time: MaxTime = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    jobs: Jobs = 1,
    ledger: Ledger = None,
    on_error: OnError = "raise",
    payout: Amount = None,
    currency: Currency = "EUR",
    clip: Clip = False,
    floor: Floor = None,
    cap: Cap = None,
    audit: Annotated[bool, typer.Option("--audit", help="Audit the valuation too.")] = False,
    audit_budget: AuditBudget = 4000,
    aggregate_only: AggregateOnly = False,
    out: Out = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Value the providers of a file and, with --payout, split money among them.

    Example: fgsv value train.csv --group provider --target y --precision 0.01 --payout 100000 --out result
    """
    from fgsv import console, results
    from fgsv.payout import check_money

    if out is not None:
        results.check_folder(out, force=force)
    money = None
    if payout is not None:
        check_money(currency, amount=payout.split(",")[0], floor=floor, cap=cap)
        money = {"amount": payout, "currency": currency, "clip": clip, "floor": floor, "cap": cap}
        job.check_something_to_share()
    if audit and job.game.outputs is not None and job.folds is None:
        raise ValueError("an audit takes one --metric; value several without it")
    if not as_json:
        console.say_all(job.notes)
    valuation = console.run(
        job.game,
        job.dataset.partition,
        budget=budget,
        precision=precision,
        max_seconds=parse_duration(max_time),
        confidence=confidence,
        seed=seed,
        quiet=as_json,
        n_jobs=jobs,
        ledger=ledger,
        on_error=parse_policy(on_error),
    )
    finish(
        job,
        valuation,
        money=money,
        audit_budget=audit_budget if audit and valuation.stopped != results.INTERRUPTED else None,
        aggregate_only=aggregate_only,
        confidence=confidence,
        seed=seed,
        out=out,
        as_json=as_json,
    )


@app.command()
@opens_file
def audit(
    job: Job,
    budget: Budget = None,
    precision: Precision = None,
    max_time: MaxTime = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    jobs: Jobs = 1,
    ledger: Ledger = None,
    on_error: OnError = "raise",
    payout: Amount = None,
    currency: Currency = "EUR",
    clip: Clip = False,
    floor: Floor = None,
    cap: Cap = None,
    audit_budget: AuditBudget = 4000,
    aggregate_only: AggregateOnly = False,
    out: Out = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Value the providers and say what splitting and copying would earn, beside the usual group values (GSV).

    Example: fgsv audit train.csv --group provider --target y --budget 20000 --out result
    """
    options = dict(locals())
    inspect.unwrap(value)(options.pop("job"), audit=True, **options)


@app.command()
@opens_file
def plan(
    job: Job,
    pilot: Annotated[int, typer.Option(help="Evaluations of the pilot.", min=100)] = 2048,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    jobs: Jobs = 1,
    ledger: Ledger = None,
    as_json: Json = False,
) -> None:
    """Run a small pilot and say what precision will cost: budgets against half-widths and minutes.

    Example: fgsv plan train.csv --group provider --target y
    """
    from fgsv import console

    found = fgsv.plan(job.game, job.dataset.partition, confidence=confidence, seed=seed, n_jobs=jobs, ledger=ledger)
    if as_json:
        typer.echo(json.dumps({"plan": found.to_frame().to_dict("records"), "notes": job.notes}))
        return
    console.say_all(job.notes)
    console.show(found.to_frame(), f"what precision costs, at {confidence:.0%} confidence")


@app.command()
def report(
    saved: Saved,
    out: Annotated[
        Path | None, typer.Option(help="The page to write; report.html beside the file if not said.")
    ] = None,
    aggregate_only: AggregateOnly = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the report of a saved valuation, one HTML file that opens offline.

    Example: fgsv report result/valuation.json --aggregate-only --out for-everybody.html
    """
    from fgsv import console, results
    from fgsv.report import render

    page = out or saved.with_name("report.html")
    if page.exists() and not force:
        raise FileExistsError(f"{page} is there already: say --force to replace it, or another --out")
    results.replace_file(page, render(fgsv.Valuation.load(saved), aggregate_only=aggregate_only))
    if as_json:
        typer.echo(json.dumps({"report": str(page)}))
    else:
        console.say(f"written: {page}")


@app.command()
def compare(
    first: Saved,
    second: Annotated[Path, typer.Argument(help="Another valuation.json.", show_default=False)],
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Compare the shares of two saved valuations, and say which differences are more than noise.

    Example: fgsv compare monday/valuation.json friday/valuation.json
    """
    from fgsv import console
    from fgsv.comparison import compare as compared

    frame = compared(fgsv.Valuation.load(first), fgsv.Valuation.load(second), confidence)
    if as_json:
        typer.echo(frame.to_json(orient="records"))
    else:
        console.show(frame, f"{second} against {first}")


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

    money = {"amount": amount, "currency": currency, "clip": clip, "floor": floor, "cap": cap}
    paid = pay(fgsv.Valuation.load(saved), money, confidence)
    if as_json:
        typer.echo(json.dumps(paid.to_dict()))
        return
    console.show(paid.to_frame(), f"{paid.amount:,} {paid.currency}, {paid.policy.describe()}")
    console.say_all(paid.notes)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("fgsv-demo"),
    budget: Annotated[int, typer.Option(help="Evaluations in all.", min=100)] = 10_000,
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
    arguments = ["value", str(hospitals), "--group", "hospital", "--target", "diagnosis", "--test", str(test)]
    arguments += ["--metric", "accuracy", "--budget", str(budget), "--seed", str(seed), "--payout", "100000"]
    arguments += ["--audit", "--audit-budget", "3000", "--out", str(out)]
    app([*arguments, *(["--force"] if force else []), *(["--json"] if as_json else [])])


@app.command()
def version(as_json: Json = False) -> None:
    """Print the version.

    Example: fgsv version
    """
    typer.echo(json.dumps({"fgsv": fgsv.__version__}) if as_json else fgsv.__version__)


app.command()(cli_ledger.verify)


def finish(
    job: Job,
    valuation: Valuation,
    *,
    money: dict[str, Any] | None,
    audit_budget: int | None,
    aggregate_only: bool,
    confidence: float,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Audit, pay, write and print what came out; a run that was interrupted ends with exit code 1."""
    from fgsv import console, results

    valuation = job.finished(valuation, confidence)
    extra: dict[str, Any] = {}
    paid = None if money is None else pay(valuation, money, confidence)
    if paid is not None:
        extra["payout"] = paid.to_dict()
    if audit_budget is not None:
        from fgsv.auditing import audit_file

        found = audit_file(job, valuation, budget=audit_budget, payout=money, confidence=confidence, seed=seed)
        extra["audit"] = found.to_dict()
    valuation = dataclasses.replace(valuation, info=valuation.info | extra)
    valuations = {column: valuation.regroup(groups) for column, groups in job.dataset.groupings.items()}
    valuations[next(iter(valuations))] = valuation
    written = [] if out is None else results.write(out, valuations, paid, aggregate_only=aggregate_only)
    if as_json:
        typer.echo(json.dumps(results.document(valuations, confidence) | {"files": [str(p) for p in written]}))
    else:
        console.show_results(valuations, paid, confidence)
        if written:
            console.say(f"written to {out}: {', '.join(path.name for path in written)}")
    if valuation.stopped == results.INTERRUPTED:
        raise typer.Exit(1)


def pay(valuation: Valuation, money: dict[str, Any], confidence: float) -> Payout:
    """Return the payout that was asked for; several amounts, one for each output, have commas between."""
    from fgsv.payout import split

    amounts = str(money["amount"]).split(",")
    amount = amounts[0] if len(amounts) == 1 else amounts
    return split(valuation, confidence=confidence, **money | {"amount": amount})


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


def parse_policy(text: str) -> str | float:
    """Return what `--on-error` means: `raise`, or the number that a failed evaluation counts as."""
    try:
        return text if text == "raise" else float(text)
    except ValueError:
        raise ValueError(f"--on-error must be raise or a number, got {text!r}") from None


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: exit code 0, 1 (failed) or 2 (bad arguments); an error is one line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    warnings.filterwarnings("ignore", module="sklearn")  # a run says once what its models warn of
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
