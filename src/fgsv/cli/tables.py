"""The commands that open a table or texts: `fgsv value`, `fgsv audit` and `fgsv plan`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from fgsv.cli import options as option
from fgsv.cli.documents import print_json, results_only
from fgsv.cli.parsers import amounts, numbers, settings

if TYPE_CHECKING:
    from fgsv.tables.corpus import Corpus
    from fgsv.tables.opening import Table
else:
    Corpus = Table = Any  # imported only when a command runs


def open_data(
    file: option.Files,
    target: option.Target = None,
    text: option.Text = None,
    group: option.Group = None,
    regroup: option.Regroup = None,
    unit: option.Unit = None,
    test: option.Test = None,
    test_fraction: option.TestFraction = 0.25,
    test_by: option.TestBy = None,
    split_seed: option.SplitSeed = 0,
    test_error: option.TestError = False,
    output_by: option.OutputBy = None,
    prompt: option.Prompt = None,
    model: option.Model = None,
    training: option.Training = None,
    metric: option.Metric = None,
    empty: option.Empty = None,
    task: option.TaskName = None,
    ignore: option.Ignore = None,
    group_missing: option.GroupMissing = None,
    target_missing: option.TargetMissing = None,
    shared_units: option.SharedUnits = None,
    refit_preprocessing: option.Refit = False,
    encoding: option.Encoding = "utf-8",
    seed: option.Seed = 0,
) -> Table | Corpus:
    """Open a table or texts; its parameters become options of every command decorated with `opens_data`."""
    import fgsv

    if (target is None) == (text is None):
        raise typer.BadParameter("name the column to predict with --target, or the column of texts with --text")
    for_tables = {"metric": metric, "empty": empty, "task": task, "refit_preprocessing": refit_preprocessing}
    for_texts = {"output_by": output_by, "prompt": prompt, "training": training}
    for name, given in (for_texts if text is None else for_tables).items():
        if given:
            other = "--text" if text is None else "--target"
            raise typer.BadParameter(f"--{name.replace('_', '-')} can only be used with {other}")
    shared: dict[str, Any] = {
        "group": group or (),
        "regroup": regroup or (),
        "unit": unit,
        "test": test,
        "test_fraction": test_fraction,
        "test_by": test_by,
        "split_seed": split_seed,
        "model": model,
        "test_error": test_error,
        "ignore": ignore or (),
        "group_missing": group_missing,
        "shared_units": shared_units,
        "encoding": encoding,
        "seed": seed,
    }
    if text is not None:
        return fgsv.open_text(
            file,
            text=text,
            output_by=output_by,
            prompt=prompt,
            training=settings(training or ()),
            text_missing=cast(Literal["drop"] | None, target_missing),  # another word is refused there
            **shared,
        )
    return fgsv.open_table(
        file,
        target=target or "",
        metric=metric,
        empty=numbers(empty or ()),
        task=task,
        target_missing=target_missing,
        refit_preprocessing=refit_preprocessing,
        **shared,
    )


def opens_data(function: Callable[..., None]) -> Callable[..., None]:
    """Turn a function of opened data into a command: its options follow those of `open_data`."""
    own = inspect.signature(function, eval_str=True).parameters
    shared = inspect.signature(open_data, eval_str=True).parameters

    @wraps(function)
    def command(**options: Any) -> None:
        with results_only():
            table = open_data(**{name: options[name] for name in shared})
        function(table, **{name: options[name] for name in own if name != "table"})

    parameters = [*shared.values(), *(own[name] for name in own if name not in shared and name != "table")]
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


@opens_data
def value(
    table: Table | Corpus,
    context: typer.Context,
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
    pay_anyway: option.PayAnyway = False,
    no_without: option.NoWithout = False,
    audit: option.Audit = False,
    audit_budget: option.AuditBudget = None,
    parts: option.Parts = option.PARTS,
    aggregate_only: option.AggregateOnly = False,
    out: option.Out = None,
    force: option.Force = False,
    as_json: option.Json = False,
) -> None:
    """Value the providers of a table or of texts and, with --payout, split money among them.

    Exit code 3 if the valuation was made but its payout refused: see --pay-anyway.

    Example: fgsv value train.csv --group provider --target y --precision 0.01 --payout 100000 --out result
    """
    from fgsv.cli import console
    from fgsv.payout import Terms
    from fgsv.planning import Limits
    from fgsv.report import make_result
    from fgsv.report.documents import document_of

    limits = Limits(budget, precision, max_time)
    if not as_json:
        console.say_all(table.notes)
    with results_only(), console.watching(limits, quiet=as_json) as watcher:
        result = make_result(
            table,
            budget=budget,
            precision=precision,
            max_seconds=max_time,
            confidence=confidence,
            seed=seed,
            n_jobs=jobs,
            ledger=ledger,
            on_error=on_error,
            payout=Terms(amounts(payout), currency, clip, floor, cap, pay_anyway) if payout else None,
            without=not no_without,
            audit=audit or context.info_name == "audit",
            audit_budget=audit_budget,
            parts=[int(number) for number in parts],
            out=out,
            force=force,
            aggregate_only=aggregate_only,
            watcher=watcher,
            command=context.find_root().obj,
        )
    if as_json:
        more = {"files": [str(path) for path in result.files], "errors": [str(error) for error in result.errors]}
        print_json(document_of(result) | more)
    else:
        console.show_result(result)
        console.say_written(out, result.files)
    code = console.code_of_payout(result.unpaid, quiet=as_json)
    if result.errors:
        console.say_all(f"failed: {error}" for error in result.errors[:-1])
        raise result.errors[-1]
    raise typer.Exit(1 if result.interrupted else code)


@opens_data
def plan(
    table: Table | Corpus,
    pilot: Annotated[int, typer.Option(help="Evaluations in the pilot", min=100)] = 2048,
    budget: option.Budget = None,
    precision: option.Precision = None,
    max_time: option.MaxTime = None,
    confidence: option.Confidence = 0.95,
    seed: option.Seed = 0,
    jobs: option.Jobs = 1,
    ledger: option.Ledger = None,
    as_json: option.Json = False,
) -> None:
    """Run a small pilot and predict what precision costs: half-widths and minutes for several budgets.

    With --budget, --precision or --max-time, also predict the cost and precision of a run with these limits.

    Example: fgsv plan train.csv --group provider --target y --precision 0.01
    """
    from fgsv.cli import console
    from fgsv.planning import Limits, plan_table
    from fgsv.report.documents import records

    with results_only():
        found = plan_table(table, pilot=pilot, confidence=confidence, seed=seed, n_jobs=jobs, ledger=ledger)
    limits = Limits(budget, precision, max_time)
    evaluations = found.expected(limits)
    if as_json:
        document = {"plan": records(found.to_frame()), "evaluations": evaluations, "notes": table.notes}
        print_json(document | {"warnings": list(table.warnings)})
        return
    console.say_all(table.notes)
    console.say_all(f"warning: {warning}" for warning in table.warnings)
    console.show(found.to_frame(), f"what precision costs, at {confidence:.0%} confidence")
    if evaluations is not None:
        console.say(console.describe(found, limits))
