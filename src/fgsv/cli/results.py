"""The commands that open a result: its report, comparison, payout, sensitivity and verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fgsv.cli.ledger import report_differences
from fgsv.cli.options import ForceFile, Function, Json, Saved, command
from fgsv.cli.printing import print_json, say
from fgsv.cli.values import TERMS

if TYPE_CHECKING:
    from fgsv.results import Result

RENDER = Function("report/page.py:render", only="aggregate_only")
NEW = Function("pipeline/pipeline.py:value_data", only="payout before")
SPLIT = Function("payout/splitting.py:split", only="amount clip floor cap pay_anyway confidence")
COMPARE = Function("results/periods.py:compare_results", only="confidence")
SENSITIVITY = Function("results/sensitivities.py:sensitivity", only="confidence")
VERIFY = Function("verification/result_checks.py:verify_result", only="ledger")
VERIFY_DATA = Function(
    "verification/result_checks.py:verify_data", only="data test sample tolerance", optional="data"
)

SameCurrency = Annotated[
    str | None,
    typer.Option(
        help="Three-letter currency code. Default: the saved payout's, or EUR if there is none", metavar="CODE"
    ),
]


@command(NEW, TERMS, RENDER)
def report(
    context: typer.Context,
    saved: Saved,
    out: Annotated[Path | None, typer.Option(help="Page to write. Default: report.html next to the file")] = None,
    currency: SameCurrency = None,
    force: ForceFile = False,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Write the report of a saved result, one HTML file.

    It opens offline. With --payout, also split money in it. The payout of the page replaces the saved one; the saved
    result is not changed. The exit code is 3 if the payout is refused.

    Example: fgsv report result/valuation.json --payout 100000 --aggregate-only --out for-everybody.html
    """
    from fgsv.cli import console
    from fgsv.files import write_whole
    from fgsv.pipeline import check_file
    from fgsv.report import render
    from fgsv.results import Result

    page = out or (saved / "report.html" if saved.is_dir() else saved.with_name("report.html"))
    result = Result.load(saved)
    check_file(page, force=force)
    if "before" in given:
        result = replace(result, before=given["before"])
    if "payout" in given:
        result = _paid(result, given["payout"], currency, given)
    write_whole(page, render(result, **RENDER.of(given)))
    if as_json:
        print_json({"report": str(page)})
    else:
        say(f"written: {page}")
    raise typer.Exit(console.code_of_payout(result.unpaid, quiet=as_json) if "payout" in given else 0)


@command(COMPARE)
def compare(
    context: typer.Context,
    first: Saved,
    second: Annotated[Path, typer.Argument(help="Another valuation.json or its folder")],
    as_json: Json = False,
    **given: Any,
) -> None:
    """Compare two saved results: what moved, what is noise.

    Also shows who joined or left, and how payments change. If the first has a payout, the settlement says how much to
    pay or take back if the second result corrects it.

    Example: fgsv compare march/valuation.json april/valuation.json
    """
    from fgsv.cli import console
    from fgsv.results import Result, compare_results

    found = compare_results(Result.load(first), Result.load(second), **COMPARE.of(given))
    if as_json:
        print_json(found.to_dict())
    else:
        console.show_sections(found.sections())


@command(SPLIT)
def payout(
    context: typer.Context,
    saved: Saved,
    currency: SameCurrency = None,
    out: Annotated[Path | None, typer.Option(help="File for the payments: .csv or .json")] = None,
    force: ForceFile = False,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Split an amount of money by a saved valuation.

    The payments add up to it exactly. The exit code is 3 if the payout is refused: see --pay-anyway.

    Example: fgsv payout result/valuation.json --amount 100000 --currency EUR --out payments.csv
    """
    from fgsv.cli import console
    from fgsv.pipeline import check_file, write_payout
    from fgsv.results import Result
    from fgsv.results.as_json import document_of

    if out is not None:
        check_file(out, force=force, kinds=(".csv", ".json"))
    result = replace(Result.load(saved), confidence=given.get("confidence", 0.95))
    result = _paid(result, given["amount"], currency, given)
    paid = result.payout
    if as_json:
        print_json(document_of(result)["unpaid"] if paid is None else paid.to_dict())
    elif paid is not None:
        console.show_sections([paid.section(next(iter(result.groupings)))])
        say(*paid.notes)
        if result.source is not None:
            say(*(f"warning: {each}" for each in result.source.warnings_of_payments))
    if out is not None and paid is not None:
        say(f"written: {write_payout(out, paid)}")
    raise typer.Exit(console.code_of_payout(result.unpaid, quiet=as_json))


def _paid(result: Result, amount: Any, currency: str | None, given: Mapping[str, Any]) -> Result:
    """Return a result with an amount split by it, or with the refusal.

    Without a currency, it is that of the saved payout.
    """
    from fgsv.payout import Terms

    earlier = "EUR" if result.payout is None else result.payout.currency
    paid = result.paid_by(Terms(amount, **TERMS.of(given) | {"currency": currency or earlier}))
    if paid.errors:
        raise paid.errors[-1]
    return paid


def _label(saved: Path) -> str:
    """Return the name of a saved result's folder, or that of a file with a name of its own."""
    if saved.is_dir():
        return saved.absolute().name
    return saved.absolute().parent.name if saved.name == "valuation.json" else saved.stem


@command(SENSITIVITY)
def sensitivity(
    context: typer.Context,
    saved: Saved,
    others: Annotated[
        list[Path] | None, typer.Argument(help="Further results, such as runs with other models, labelled by folder")
    ] = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Show how shares depend on scores, slices and test rows.

    Also shows how much of that is error. The run declares other scores and slices beforehand (--also-metric,
    --also-slice). Test rows are resampled, if the run knows their error.

    Example: fgsv sensitivity result/valuation.json with-knn/valuation.json
    """
    from fgsv.cli import console
    from fgsv.results import Result, sensitivity

    more = others or []
    labels = [_label(path) for path in more]
    found = sensitivity(Result.load(saved), *map(Result.load, more), labels=labels, **SENSITIVITY.of(given))
    if as_json:
        print_json(found.to_dict())
    else:
        console.show_sections(found.sections())


@command(VERIFY, VERIFY_DATA)
def verify(context: typer.Context, valuation: Saved, as_json: Json = False, **given: Any) -> None:
    """Recompute a result from its ledger and compare.

    This needs neither data nor model. With --data, also open the table as the run did and evaluate a sample of the
    recorded batches again.

    Example: fgsv verify valuation.json --ledger run.db --data train.csv
    """
    from fgsv.verification import verify_data, verify_result

    result, found = verify_result(valuation, given["ledger"])
    stated = result.valuation
    same = f"same: {stated.partition.n_groups} values from {stated.n_evaluations:,} recorded evaluations"
    words = [*([] if found else [same]), *found.notes]
    if found.on_trust:
        words.append(f"taken on trust, because the ledger has no record of it: {', '.join(found.on_trust)}")
    if "data" in given:
        again = verify_data(result, given["ledger"], **VERIFY_DATA.of(given))
        found += again
        words += [] if again else [f"{again.n_evaluated} batches evaluated again from the data: same"]
    report_differences(words, found, as_json)
