"""The commands that open a table or texts: `fgsv value`, `fgsv audit` and `fgsv plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from fgsv.cli import options as option
from fgsv.cli.documents import print_json, results_only
from fgsv.cli.opening import opens_data
from fgsv.cli.parsers import amounts
from fgsv.words import level

if TYPE_CHECKING:
    from fgsv.data.dataset import Dataset
    from fgsv.results import Result, Seal

    Before: TypeAlias = Result | None
    SealFile: TypeAlias = Seal | None
else:
    Before, SealFile = option.Before, option.SealFile  # paths, which `opens_data` loads


@opens_data
def value(
    table: Dataset,
    context: typer.Context,
    budget: option.Budget = None,
    precision: option.Precision = None,
    max_time: option.MaxTime = None,
    confidence: option.Confidence = 0.95,
    seed: option.Seed = 0,
    jobs: option.Jobs = 1,
    ledger: option.Ledger = None,
    start: option.Start = None,
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
    before: Before = None,
    seal: SealFile = None,
    public: option.Public = None,
    out: option.Out = None,
    force: option.Force = False,
    as_json: option.Json = False,
) -> None:
    """Value the providers of a table or of texts.

    With --payout, also split money among them. The exit code is 3 if the valuation was made but its payout was
    refused: see --pay-anyway.

    Example: fgsv value train.csv --group provider --target y --precision 0.01 --payout 100000 --out result
    """
    from fgsv.cli import console
    from fgsv.payout import Terms
    from fgsv.pipeline import value_data
    from fgsv.planning import Limits
    from fgsv.results.as_json import document_of

    audit = audit or context.info_name == "audit"
    limits = Limits(budget, precision, max_time)
    if seal is not None and option.was_given(context, "seed"):
        raise typer.BadParameter("--seed cannot be used with --seal, which determines the seed")
    if not as_json:
        console.say_all(table.notes)
    with results_only(), console.watching(limits.beside_audit() if audit else limits, quiet=as_json) as watcher:
        result = value_data(
            table,
            budget=budget,
            precision=precision,
            max_seconds=max_time,
            confidence=confidence,
            seed=seed,
            n_jobs=jobs,
            ledger=ledger,
            start=start,
            on_error=on_error,
            payout=Terms(amounts(payout), currency, clip, floor, cap, pay_anyway) if payout else None,
            without=not no_without,
            audit=audit,
            audit_budget=audit_budget,
            parts=[int(number) for number in parts],
            out=out,
            force=force,
            aggregate_only=aggregate_only,
            watcher=watcher,
            before=before,
            command=context.find_root().obj,
            seal=seal,
            public=public,
        )
    if as_json:
        more = {"files": [str(path) for path in result.files], "errors": [str(error) for error in result.errors]}
        print_json(document_of(result) | more)
    else:
        console.show_result(result)
        if result.sealed is not None:
            console.say(f"sealed by {result.sealed.commitment}: root {result.sealed.root}")
        console.say_written(out, result)
    code = console.code_of_payout(result.unpaid, quiet=as_json)
    if result.errors:
        console.say_all(f"failed: {error}" for error in result.errors[:-1])
        raise result.errors[-1]
    raise typer.Exit(1 if result.interrupted else code)


@opens_data
def plan(
    table: Dataset,
    pilot: Annotated[int, typer.Option(help="Evaluations in the pilot", min=100)] = 2048,
    budget: option.Budget = None,
    precision: option.Precision = None,
    max_time: option.MaxTime = None,
    confidence: option.Confidence = 0.95,
    seed: option.Seed = 0,
    jobs: option.Jobs = 1,
    ledger: option.Ledger = None,
    start: option.Start = None,
    as_json: option.Json = False,
) -> None:
    """Run a small pilot and predict the cost of precision.

    Shows half-widths and times for several budgets. With --budget, --precision or --max-time, also predicts the cost
    and precision of a run with these limits.

    Example: fgsv plan train.csv --group provider --target y --precision 0.01
    """
    from fgsv.cli import console
    from fgsv.planning import Limits, plan_table
    from fgsv.results.as_json import records

    limits = Limits(budget, precision, max_time)
    with results_only():
        options: dict[str, Any] = {"n_jobs": jobs, "ledger": ledger, "start": start}
        found = plan_table(table, limits=limits, pilot=pilot, confidence=confidence, seed=seed, **options)
    evaluations = found.expected(limits)
    if as_json:
        document: dict[str, Any] = {
            "plan": records(found.to_frame()),
            "test_rows": found.test_rows,
            "evaluations": evaluations,
            "foreseen": list(found.foreseen),
            "notes": table.notes,
        }
        document |= {"start": found.start} if found.start else {}
        print_json(document | {"warnings": list(table.warnings)})
        return
    console.say_all([*table.notes, *([found.start] if found.start else [])])
    console.say_all(f"warning: {warning}" for warning in table.warnings)
    console.show(found.to_frame(), f"the cost of precision, at {level(confidence)} confidence")
    if evaluations is not None:
        console.say(console.describe(found, limits))
    console.say_all(found.foreseen)


def hold_out(
    file: Annotated[Path, typer.Argument(help="Table, as for fgsv value", metavar="FILE")],
    fraction: option.TestFraction = 0.25,
    group: option.Group = None,
    unit: option.Unit = None,
    split_seed: option.SplitSeed = 0,
    encoding: option.Encoding = "utf-8",
    force: option.ForceFile = False,
    as_json: option.Json = False,
) -> None:
    """Split a table into test rows and the rest.

    Writes FILE-train.csv and FILE-test.csv beside FILE; a hash of its content decides where a row goes. Test rows in
    a file of their own serve every month, whoever leaves.

    Example: fgsv hold-out all.csv --fraction 0.25 --group provider --split-seed 480915722
    """
    from fgsv.cli import console
    from fgsv.data.holding_out import hold_out as held_out
    from fgsv.files import write_whole
    from fgsv.pipeline import check_file

    paths = [file.with_name(f"{file.name.partition('.')[0]}-{kind}.csv") for kind in ("train", "test")]
    for path in paths:
        check_file(path, force=force)
    with results_only():
        parts = held_out(
            file, fraction=fraction, group=group or (), unit=unit, split_seed=split_seed, encoding=encoding
        )
    for path, rows in zip(paths, parts, strict=True):
        write_whole(path, rows.to_csv(index=False))
    if as_json:
        print_json({str(path): len(rows) for path, rows in zip(paths, parts, strict=True)})
        return
    console.say_all(f"{len(rows):,} rows written to {path}" for path, rows in zip(paths, parts, strict=True))
