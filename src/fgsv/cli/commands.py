"""The command `fgsv`: each command opens the library's own public objects.

numpy and the rest are imported inside the commands, so that `fgsv --help` answers at once.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import fgsv
from fgsv.cli import bench as cli_bench
from fgsv.cli import ledger as cli_ledger
from fgsv.cli import options as option
from fgsv.cli.documents import print_json, records
from fgsv.cli.reproduce import reproduce

if TYPE_CHECKING:
    from fgsv.audit.of_table import AuditPlan
    from fgsv.payout import Payout
    from fgsv.valuation import Valuation

UsageError: Any = typer.BadParameter.__bases__[0]
"""What typer raises for words that are no command or option; its own class, or click's, by the version."""
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


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Keep `fgsv COMMAND` the form of every call."""


def open_job(
    file: option.File,
    group: option.Group,
    target: option.Target,
    regroup: option.Regroup = "",
    unit: option.Unit = None,
    test: option.Test = None,
    test_fraction: option.TestFraction = 0.25,
    test_by: option.TestBy = None,
    test_error: option.TestError = False,
    model: option.Model = None,
    metric: option.Metric = None,
    task: option.TaskName = None,
    ignore: option.Ignore = "",
    group_missing: option.GroupMissing = None,
    refit_preprocessing: option.Refit = False,
    encoding: option.Encoding = "utf-8",
    seed: option.Seed = 0,
) -> Job:
    """Open the game of a file; its parameters are the options of every command that `opens_file`."""
    from fgsv.tables.opening import open_file

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
    budget: option.Budget = None,
    precision: option.Precision = None,
    max_time: option.MaxTime = None,
    confidence: option.Confidence = 0.95,
    seed: option.Seed = 0,
    jobs: option.Jobs = 1,
    ledger: option.Ledger = None,
    on_error: option.OnError = "raise",
    payout: option.Amount = None,
    currency: option.Currency = "EUR",
    clip: option.Clip = False,
    floor: option.Floor = None,
    cap: option.Cap = None,
    audit: Annotated[bool, typer.Option("--audit", help="Audit the valuation too.")] = False,
    audit_budget: option.AuditBudget = None,
    parts: option.Parts = "2,3,5",
    aggregate_only: option.AggregateOnly = False,
    out: option.Out = None,
    force: option.Force = False,
    as_json: option.Json = False,
) -> None:
    """Value the providers of a file and, with --payout, split money among them.

    Example: fgsv value train.csv --group provider --target y --precision 0.01 --payout 100000 --out result
    """
    from fgsv.audit.of_table import AuditPlan
    from fgsv.cli import console
    from fgsv.payout import terms
    from fgsv.report import folder as results

    seconds, policy = parse_duration(max_time), parse_policy(on_error)
    if out is not None:
        results.check_folder(out, force=force)
    money: dict[str, Any] | None = None
    if payout is not None:
        money = {"amount": amounts_of(payout), "currency": currency, "clip": clip, "floor": floor, "cap": cap}
        outputs = None if job.folds is not None else job.game.outputs
        terms(**money, n_groups=job.dataset.partition.n_groups, outputs=outputs)
    if audit and job.game.outputs is not None and job.folds is None:
        raise ValueError("an audit takes one --metric; value several without it")
    if money is not None or audit:
        job.check_something_to_share()
    if precision is not None and job.folds is not None:
        raise ValueError("--precision does not go with --test-error, whose folds are valued apart: say --budget")
    audit_plan = AuditPlan.of(job, audit_budget, parts_of(parts)) if audit else None
    if not as_json:
        console.say_all(job.notes)
    valuation = console.run(
        job.game,
        job.dataset.partition,
        budget=budget,
        precision=precision,
        max_seconds=seconds,
        confidence=confidence,
        seed=seed,
        quiet=as_json,
        shown_as=job.on_all_test_rows_valued,
        n_jobs=jobs,
        ledger=ledger,
        on_error=policy,
    )
    finish(
        job,
        valuation,
        money=money,
        audit_plan=None if valuation.stopped == results.INTERRUPTED else audit_plan,
        aggregate_only=aggregate_only,
        confidence=confidence,
        seed=seed,
        out=out,
        as_json=as_json,
    )


def takes_options_of(
    other: Callable[..., None], without: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a function the parameters of another one, but for one of them."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(inspect.unwrap(other), eval_str=True)
        kept = [parameter for parameter in signature.parameters.values() if parameter.name != without]
        function.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return function

    return decorate


@app.command()
@opens_file
@takes_options_of(value, without="audit")
def audit(job: Job, **options: Any) -> None:
    """Value the providers and say what splitting and copying would earn, beside the usual group values (GSV).

    Example: fgsv audit train.csv --group provider --target y --budget 20000 --out result
    """
    inspect.unwrap(value)(job, audit=True, **options)


@app.command()
@opens_file
def plan(
    job: Job,
    pilot: Annotated[int, typer.Option(help="Evaluations of the pilot.", min=100)] = 2048,
    budget: option.Budget = None,
    precision: option.Precision = None,
    max_time: option.MaxTime = None,
    confidence: option.Confidence = 0.95,
    seed: option.Seed = 0,
    jobs: option.Jobs = 1,
    ledger: option.Ledger = None,
    as_json: option.Json = False,
) -> None:
    """Run a small pilot and say what precision will cost: budgets against half-widths and minutes.

    With --budget, --precision or --max-time also what a run that ends by them will cost and give.

    Example: fgsv plan train.csv --group provider --target y --precision 0.01
    """
    from fgsv.cli import console

    seconds = parse_duration(max_time)
    found = fgsv.plan(
        job.on_all_test_rows(job.game),
        job.dataset.partition,
        pilot=pilot,
        confidence=confidence,
        seed=seed,
        n_jobs=jobs,
        ledger=ledger if job.folds is None else None,  # it knows the folds one by one, and the sum of them not
    )
    limits = (budget, precision, seconds)
    evaluations = console.expected(found, *limits)
    if as_json:
        print_json({"plan": records(found.to_frame()), "evaluations": evaluations, "notes": job.notes})
        return
    console.say_all(job.notes)
    console.show(found.to_frame(), f"what precision costs, at {confidence:.0%} confidence")
    if evaluations is not None:
        console.say(console.describe(found, *limits))


@app.command()
def report(
    saved: option.Saved,
    out: Annotated[
        Path | None, typer.Option(help="The page to write; report.html beside the file if not said.")
    ] = None,
    aggregate_only: option.AggregateOnly = False,
    force: option.Force = False,
    as_json: option.Json = False,
) -> None:
    """Write the report of a saved valuation, one HTML file that opens offline.

    Example: fgsv report result/valuation.json --aggregate-only --out for-everybody.html
    """
    from fgsv.cli import console
    from fgsv.report import folder as results
    from fgsv.report import render

    page = out or saved.with_name("report.html")
    if page.exists() and not force:
        raise FileExistsError(f"{page} is there already: say --force to replace it, or another --out")
    results.replace_file(page, render(fgsv.Valuation.load(saved), aggregate_only=aggregate_only))
    if as_json:
        print_json({"report": str(page)})
    else:
        console.say(f"written: {page}")


@app.command()
def compare(
    first: option.Saved,
    second: Annotated[Path, typer.Argument(help="Another valuation.json.", show_default=False)],
    confidence: option.Confidence = 0.95,
    as_json: option.Json = False,
) -> None:
    """Compare the shares of two saved valuations, and say which differences are more than noise.

    Example: fgsv compare monday/valuation.json friday/valuation.json
    """
    from fgsv.cli import console
    from fgsv.valuation.comparison import compare as compared
    from fgsv.valuation.comparison import notes_on

    valuations = fgsv.Valuation.load(first), fgsv.Valuation.load(second)
    frame = compared(*valuations, confidence)
    notes = notes_on(*valuations)
    if as_json:
        print_json({"groups": records(frame), "notes": notes})
    else:
        console.show(frame, f"{second} against {first}")
        console.say_all(f"mind: {note}" for note in notes)


@app.command()
def payout(
    saved: option.Saved,
    amount: Annotated[str, typer.Option(help="Money to split; with several outputs one for each, with commas.")],
    currency: option.Currency = "EUR",
    clip: option.Clip = False,
    floor: option.Floor = None,
    cap: option.Cap = None,
    confidence: option.Confidence = 0.95,
    as_json: option.Json = False,
) -> None:
    """Split an amount of money by a saved valuation; the parts add up to it exactly.

    Example: fgsv payout result/valuation.json --amount 100000 --currency EUR
    """
    from fgsv.cli import console
    from fgsv.payout import split

    paid = split(
        fgsv.Valuation.load(saved),
        amounts_of(amount),
        currency,
        clip=clip,
        floor=floor,
        cap=cap,
        confidence=confidence,
    )
    if as_json:
        print_json(paid.to_dict())
        return
    console.show(paid.to_frame(), f"{paid.amount:,} {paid.currency}, {paid.policy.describe()}")
    console.say_all(paid.notes)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("fgsv-demo"),
    budget: Annotated[int, typer.Option(help="Evaluations in all.", min=100)] = 8_000,
    seed: option.Seed = 0,
    force: option.Force = False,
    as_json: option.Json = False,
) -> None:
    """Value ten hospitals, one with wrong labels and one that copied, and split 100,000 EUR among them.

    Example: fgsv demo --out fgsv-demo
    """
    from fgsv.cli import console
    from fgsv.experiments.hospitals import write
    from fgsv.report import folder as results

    results.check_folder(out, force=force)
    hospitals, test = write(out, seed)
    arguments = ["value", str(hospitals), "--group", "hospital", "--target", "diagnosis", "--test", str(test)]
    arguments += ["--metric", "accuracy", "--budget", str(budget), "--seed", str(seed), "--payout", "100000"]
    arguments += ["--audit", "--out"]
    if not as_json:
        again = out.with_name(out.name + "-by-hand")
        console.say(f"ten hospitals in {hospitals}; the same by hand:")
        console.say(f"  {shlex.join(['fgsv', *arguments, str(again)])}")
    app([*arguments, str(out), *(["--force"] if force else []), *(["--json"] if as_json else [])])


@app.command()
def version(as_json: option.Json = False) -> None:
    """Print the version.

    Example: fgsv version
    """
    if as_json:
        print_json({"fgsv": fgsv.__version__})
    else:
        typer.echo(fgsv.__version__)


app.command()(cli_ledger.verify)


def finish(
    job: Job,
    valuation: Valuation,
    *,
    money: dict[str, Any] | None,
    audit_plan: AuditPlan | None,
    aggregate_only: bool,
    confidence: float,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Audit, pay, write and print what came out; a run that was interrupted ends with exit code 1.

    A payout that cannot be made is said last, when all else is written and shown.
    """
    from fgsv.audit.auditing import close_calls
    from fgsv.cli import console
    from fgsv.payout import split
    from fgsv.report import folder as results

    valuation = job.finished(valuation, confidence)
    valuations = {column: valuation.regroup(groups) for column, groups in job.dataset.groupings.items()}
    if out is not None:
        # whatever fails from here on, the evaluations were not in vain; the same command may replace this file
        results.save(out, dataclasses.replace(valuation, stopped=results.INTERRUPTED))
    interrupted = valuation.stopped == results.INTERRUPTED
    extra: dict[str, Any] = {}
    paid: Payout | None = None
    unpaid: ValueError | None = None
    if money is not None:
        try:
            paid = split(valuation, **money, confidence=confidence)
            extra["payout"] = paid.to_dict()
            extra["warnings"] = close_calls(valuation, confidence)
        except ValueError as error:  # the values may leave nothing to pay under this policy
            unpaid, money = error, None
    if audit_plan is not None:
        from fgsv.audit.of_table import audit_file

        try:
            found = audit_file(job, valuation, audit_plan, payout=money, confidence=confidence, seed=seed)
            extra["audit"] = found.to_dict()
        except KeyboardInterrupt:
            interrupted = True
            extra["warnings"] = [*extra.get("warnings", []), "the audit was interrupted, so there is none"]
    valuation = dataclasses.replace(valuation, info=valuation.info | extra)
    valuations[next(iter(valuations))] = valuation
    written = [] if out is None else results.write(out, valuations, paid, aggregate_only=aggregate_only)
    if as_json:
        print_json(results.document(valuations, confidence) | {"files": [str(path) for path in written]})
    else:
        console.show_results(valuations, paid, confidence)
        if written:
            console.say(f"written to {out}: {', '.join(path.name for path in written)}")
        if written and not any(path.suffix == ".html" for path in written):
            console.say("no report.html: it needs pip install 'fgsv[report]'")
    if unpaid is not None:
        raise unpaid
    if interrupted:
        raise typer.Exit(1)


def parts_of(text: str) -> tuple[int, ...]:
    """Return numbers of companies, with commas between.

    >>> parts_of("2,10")
    (2, 10)
    """
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise ValueError(f"--parts must be like 2,3,5, got {text!r}") from None


def amounts_of(text: str) -> str | list[str]:
    """Return the amount, or several, one for each output, that have commas between.

    >>> amounts_of("1000"), amounts_of("600,400")
    ('1000', ['600', '400'])
    """
    amounts = text.split(",")
    return text if len(amounts) == 1 else amounts


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
    command = typer.main.get_command(app)
    try:
        code = command.main([word for word in arguments if word != "--debug"], "fgsv", standalone_mode=False)
        raise SystemExit(code)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the message is the help
            error.show()
        else:
            path = "fgsv" if error.ctx is None else error.ctx.command_path
            typer.echo(f"error: {_one_line(error.format_message())} ({path} --help says more)", err=True)
        raise SystemExit(2) from None
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


def _one_line(error: Exception | str) -> str:
    return " ".join(str(error).split()) or type(error).__name__
