"""The commands that open a table or texts and value them: `fgsv value`, `fgsv plan` and `fgsv hold-out`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fgsv.cli import config
from fgsv.cli.options import ForceFile, Function, Json, command
from fgsv.cli.printing import print_json, results_only, say

if TYPE_CHECKING:
    from fgsv.data.dataset import Dataset
    from fgsv.results import Result

OPEN_TABLE = Function("data/table.py:open_table", optional="target")
OPEN_TEXT = Function("data/texts.py:open_text", optional="text", chosen_by="text")
TERMS = Function("payout/splitting.py:split", only="currency clip floor cap pay_anyway")
VALUE_DATA = Function("pipeline/pipeline.py:value_data")
LIMITS = Function("pipeline/pipeline.py:value_data", only="budget precision max_seconds")
PLAN_TABLE = Function("planning/watching.py:plan_table")
HOLD_OUT = Function("data/holding_out.py:hold_out")
FUNCTIONS = (OPEN_TABLE, OPEN_TEXT, VALUE_DATA, TERMS)
"""What a run calls."""

Files = Annotated[
    list[Path],
    typer.Argument(
        help="CSV, TSV, JSON lines, Excel or Parquet file or files, also gzipped or zipped; - for stdin. Or a folder "
        "of texts with one subfolder per provider",
        metavar="FILE",
    ),
]


def open_data(context: typer.Context, files: list[Path], given: Mapping[str, Any]) -> Dataset:
    """Open a table or texts with the options of a command, and save these if it is asked."""
    import fgsv
    from fgsv.data.folders import TEXT

    config.check_place(context)
    target, text = given.get("target"), given.get("text")
    if target is None and text is None and len(files) == 1 and files[0].is_dir():
        text = TEXT
    if target is not None and text is not None:
        raise typer.BadParameter("--target is for tables and --text for texts: give one of them")
    if target is None and text is None:
        if any(each.is_dir() for each in files):
            raise typer.BadParameter("a folder of texts must be the only FILE: put the providers' folders into one")
        raise typer.BadParameter("name the column to predict with --target, or the column of texts with --text")
    function, other, needed = (OPEN_TABLE, OPEN_TEXT, "text") if text is None else (OPEN_TEXT, OPEN_TABLE, "target")
    for name in given:
        if name in other.options and name not in {*function.options, "start"}:  # a run of texts has it, too
            raise typer.BadParameter(f"--{name.replace('_', '-')} can only be used with --{needed}")
    with results_only():
        opens = fgsv.open_table if text is None else fgsv.open_text
        data = opens(files, **function.of(given) | ({} if text is None else {"text": text}))
    config.save(context)
    return data


@command(*FUNCTIONS)
def value(context: typer.Context, file: Files, as_json: Json = False, **given: Any) -> None:
    """Value the providers of a table or of texts.

    With --payout, also split money among them. The exit code is 3 if the valuation was made but its payout was
    refused: see --pay-anyway. With --audit, also measure what splitting or copying earns under the usual group values
    (GSV), and what copies of other providers' data earn.

    Example: fgsv value train.csv --group provider --target y --precision 0.01 --payout 100000 --out result
    """
    from fgsv.cli import console
    from fgsv.payout import Terms
    from fgsv.pipeline import value_data

    if "seal" in given and "seed" in given:
        raise typer.BadParameter("--seed cannot be used with --seal, which determines the seed")
    data = open_data(context, file, given)
    run = VALUE_DATA.of(given) | {"command": context.find_root().obj}
    if "payout" in given:
        run["payout"] = Terms(given["payout"], **TERMS.of(given))
    if not as_json:
        say(*data.notes)
    with results_only(), console.watching(quiet=as_json) as watcher:
        result = value_data(data, watcher=watcher, **run)
    finish(result, given.get("out"), as_json)


def finish(result: Result, out: Path | None, as_json: bool) -> None:
    """Print a result, and end the command with the exit code that it has."""
    from fgsv.cli import console
    from fgsv.results.as_json import document_of

    if as_json:
        more = {"files": [str(path) for path in result.files], "errors": [str(error) for error in result.errors]}
        print_json(document_of(result) | more)
    else:
        console.show_result(result)
        if result.sealed is not None:
            say(f"sealed by {result.sealed.commitment}: root {result.sealed.root}")
        console.say_written(out, result)
    code = console.code_of_payout(result.unpaid, quiet=as_json)
    if result.errors:
        say(*(f"failed: {error}" for error in result.errors[:-1]))
        raise result.errors[-1]
    raise typer.Exit(1 if result.interrupted else code)


@command(OPEN_TABLE, OPEN_TEXT, PLAN_TABLE, LIMITS)
def plan(context: typer.Context, file: Files, as_json: Json = False, **given: Any) -> None:
    """Run a small pilot and predict the cost of precision.

    Shows half-widths and times for several budgets. With --budget, --precision or --max-time, also predicts the cost
    and precision of a run with these limits.

    Example: fgsv plan train.csv --group provider --target y --precision 0.01
    """
    from fgsv.cli import console
    from fgsv.planning import Limits, plan_table
    from fgsv.results.as_json import records

    data = open_data(context, file, given)
    limits = Limits(**LIMITS.of(given))
    with results_only():
        found = plan_table(data, limits=limits, **PLAN_TABLE.of(given))
    evaluations = found.expected(limits)
    if as_json:
        document = {
            "plan": records(found.to_frame()),
            "test_rows": found.test_rows,
            "evaluations": evaluations,
            "foreseen": list(found.foreseen),
            "notes": data.notes,
            "warnings": list(data.warnings),
        }
        print_json(document | ({"start": found.start} if found.start else {}))
        return
    say(*data.notes, *([found.start] if found.start else []))
    say(*(f"warning: {warning}" for warning in data.warnings))
    console.show(*found.sections())
    if evaluations is not None:
        say(console.describe(found, limits))
    say(*found.foreseen)


@command(HOLD_OUT)
def hold_out(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Table, as for fgsv value", metavar="FILE")],
    force: ForceFile = False,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Split a table into test rows and the rest.

    Writes FILE-train.csv and FILE-test.csv beside FILE; a hash of its content decides where a row goes. Test rows in
    a file of their own serve every month, whoever leaves.

    Example: fgsv hold-out all.csv --fraction 0.25 --group provider --split-seed 480915722
    """
    from fgsv.data.holding_out import hold_out as held_out
    from fgsv.files import write_whole
    from fgsv.pipeline import check_file

    paths = [file.with_name(f"{file.name.partition('.')[0]}-{kind}.csv") for kind in ("train", "test")]
    for path in paths:
        check_file(path, force=force)
    with results_only():
        parts = held_out(file, **HOLD_OUT.of(given))
    for path, rows in zip(paths, parts, strict=True):
        write_whole(path, rows.to_csv(index=False))
    if as_json:
        print_json({str(path): len(rows) for path, rows in zip(paths, parts, strict=True)})
        return
    say(*(f"{len(rows):,} rows written to {path}" for path, rows in zip(paths, parts, strict=True)))
