"""The commands that open a result: `fgsv report`, `fgsv compare`, `fgsv payout` and `fgsv verify`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fgsv.cli import options as option
from fgsv.cli.documents import print_json
from fgsv.cli.ledger import report_differences
from fgsv.cli.parsers import amounts

if TYPE_CHECKING:
    from fgsv.results import Result


def report(
    saved: option.Saved,
    context: typer.Context,
    out: Annotated[Path | None, typer.Option(help="Page to write (default: report.html next to the file)")] = None,
    payout: option.Amount = None,
    currency: option.SameCurrency = None,
    clip: option.Clip = False,
    floor: option.Floor = None,
    cap: option.Cap = None,
    pay_anyway: option.PayAnyway = False,
    aggregate_only: option.AggregateOnly = False,
    before: option.Before = None,
    force: option.ForceFile = False,
    as_json: option.Json = False,
) -> None:
    """Write the report of a saved result, one HTML file.

    It opens offline. With --payout, also split money in it. The payout of the page replaces the saved one; the saved
    result is not changed. The exit code is 3 if the payout is refused.

    Example: fgsv report result/valuation.json --payout 100000 --aggregate-only --out for-everybody.html
    """
    from dataclasses import replace

    from fgsv.cli import console
    from fgsv.files import write_whole
    from fgsv.pipeline import check_file
    from fgsv.report import render
    from fgsv.results import Result

    option.check_needs(context)
    page = out or (saved / "report.html" if saved.is_dir() else saved.with_name("report.html"))
    result = Result.load(saved)
    check_file(page, force=force)
    if before is not None:
        result = replace(result, before=Result.load(before))
    if payout:
        result = _paid(result, payout, currency, clip, floor, cap, pay_anyway)
    write_whole(page, render(result, aggregate_only=aggregate_only))
    if as_json:
        print_json({"report": str(page)})
    else:
        console.say(f"written: {page}")
    raise typer.Exit(0 if not payout else console.code_of_payout(result.unpaid, quiet=as_json))


def compare(
    first: option.Saved,
    second: Annotated[Path, typer.Argument(help="Another valuation.json or its folder")],
    confidence: option.Confidence = 0.95,
    as_json: option.Json = False,
) -> None:
    """Compare two saved results: what moved, what is noise.

    Also shows who joined or left, and how payments change. If the first has a payout, the settlement says how much to
    pay or take back if the second result corrects it.

    Example: fgsv compare march/valuation.json april/valuation.json
    """
    from fgsv.cli import console
    from fgsv.report.sections import then_and_now
    from fgsv.results import Result, compare_results

    found = compare_results(Result.load(first), Result.load(second), confidence)
    if as_json:
        print_json(found.to_dict())
    else:
        console.show_section(then_and_now(found))


def payout(
    saved: option.Saved,
    amount: option.Amount,
    currency: option.SameCurrency = None,
    clip: option.Clip = False,
    floor: option.Floor = None,
    cap: option.Cap = None,
    pay_anyway: option.PayAnyway = False,
    confidence: option.Confidence = 0.95,
    out: Annotated[Path | None, typer.Option(help="File for the payments: .csv or .json")] = None,
    force: option.ForceFile = False,
    as_json: option.Json = False,
) -> None:
    """Split an amount of money by a saved valuation.

    The payments add up to it exactly. The exit code is 3 if the payout is refused: see --pay-anyway.

    Example: fgsv payout result/valuation.json --amount 100000 --currency EUR --out payments.csv
    """
    from dataclasses import replace

    from fgsv.cli import console
    from fgsv.pipeline import check_file, write_payout
    from fgsv.report.sections import payments
    from fgsv.results import Result
    from fgsv.results.as_json import document_of

    if out is not None:
        check_file(out, force=force, kinds=(".csv", ".json"))
    result = replace(Result.load(saved), confidence=confidence)
    result = _paid(result, amount or (), currency, clip, floor, cap, pay_anyway)
    paid = result.payout
    if as_json:
        print_json(document_of(result)["unpaid"] if paid is None else paid.to_dict())
    elif paid is not None:
        console.show_section(payments(paid, next(iter(result.groupings))))
        console.say_all(paid.notes)
        if result.source is not None:
            console.say_all(f"warning: {each}" for each in result.source.warnings_of_payments)
    if out is not None and paid is not None:
        console.say(f"written: {write_payout(out, paid)}")
    raise typer.Exit(console.code_of_payout(result.unpaid, quiet=as_json))


def _paid(result: Result, amount: Sequence[str], currency: str | None, *policy: Any) -> Result:
    """Return a result with an amount split by it, or with the refusal; `policy` are the terms after the currency.

    Without a currency, it is that of the saved payout.
    """
    from fgsv.payout import Terms

    earlier = "EUR" if result.payout is None else result.payout.currency
    paid = result.paid_by(Terms(amounts(amount), currency or earlier, *policy))
    if paid.errors:
        raise paid.errors[-1]
    return paid


def _label(saved: Path) -> str:
    """Return the name of a saved result's folder, or that of a file with a name of its own."""
    if saved.is_dir():
        return saved.absolute().name
    return saved.absolute().parent.name if saved.name == "valuation.json" else saved.stem


def sensitivity(
    saved: option.Saved,
    others: Annotated[
        list[Path] | None, typer.Argument(help="Further results, such as runs with other models, labelled by folder")
    ] = None,
    confidence: option.Confidence = 0.95,
    as_json: option.Json = False,
) -> None:
    """Show how shares depend on scores, slices and test rows.

    Also shows how much of that is error. The run declares other scores and slices beforehand (--also-metric,
    --also-slice). Test rows are resampled, if the run knows their error.

    Example: fgsv sensitivity result/valuation.json with-knn/valuation.json
    """
    from fgsv.cli import console
    from fgsv.report.sections import by_question
    from fgsv.results import Result, sensitivity

    more = others or []
    labels = [_label(path) for path in more]
    found = sensitivity(Result.load(saved), *map(Result.load, more), labels=labels, confidence=confidence)
    if as_json:
        print_json(found.to_dict())
        return
    for section in by_question(found):
        console.show_section(section)


def verify(
    valuation: option.Saved,
    context: typer.Context,
    ledger: Annotated[Path, typer.Option(help="Ledger of the run")],
    data: Annotated[
        list[Path] | None, typer.Option(help="The table that was valued: also evaluate a sample of the ledger again")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="The file of test rows, if there was one")] = None,
    sample: Annotated[int, typer.Option(help="With --data: batches to evaluate again, drawn at random", min=1)] = 60,
    tolerance: Annotated[float, typer.Option(help="With --data: largest allowed difference of a value", min=0)] = 0.0,
    as_json: option.Json = False,
) -> None:
    """Recompute a result from its ledger and compare.

    This needs neither data nor model. With --data, also open the table as the run did and evaluate a sample of the
    recorded batches again.

    Example: fgsv verify valuation.json --ledger run.db --data train.csv
    """
    from fgsv.verification import verify_data, verify_result

    option.check_needs(context)
    result, found = verify_result(valuation, ledger)
    stated = result.valuation
    same = f"same: {stated.partition.n_groups} values from {stated.n_evaluations:,} recorded evaluations"
    words = [*([] if found else [same]), *found.notes]
    if found.on_trust:
        words.append(f"taken on trust, because the ledger has no record of it: {', '.join(found.on_trust)}")
    if data:
        again = verify_data(result, ledger, data, test=test, sample=sample, tolerance=tolerance)
        found += again
        words += [] if again else [f"{again.n_evaluated} batches evaluated again from the data: same"]
    report_differences(words, found, as_json)
