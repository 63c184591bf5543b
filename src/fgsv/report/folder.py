"""The folder of a result: files are written by rename and never silently replace a finished result."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from fgsv.environment import write_whole
from fgsv.report.page import render
from fgsv.report.result import Result, table_of
from fgsv.valuation import Reason, file

PACKAGES_OF_REPORT = ("altair", "vl_convert", "jinja2")


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise an error if a folder contains a finished result; an interrupted one may be replaced."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file: --out must name a folder")
    saved = folder / "valuation.json"
    if force or not saved.exists():
        return
    try:
        valuation = file.from_document(file.read(saved), saved)
        replaceable = not valuation.finished or valuation.end.reason is Reason.INTERRUPTED
    except ValueError:
        replaceable = False
    if not replaceable:
        raise FileExistsError(f"{folder} has a finished valuation: add --force to replace it, or change --out")


def write_result(folder: str | Path, result: Result, *, aggregate_only: bool = False) -> list[Path]:
    """Write report.html, valuation.csv and, last of all, valuation.json; return the paths.

    These are the names for the first grouping; one by column C is saved as valuation-C.csv and valuation-C.json.
    report.html is skipped if its packages are not installed.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    unfinished = replace(result, valuation=replace(result.valuation, finished=False))
    unfinished.save(folder / "valuation.json")  # with payout and audit, whatever happens to the page
    if all(map(find_spec, PACKAGES_OF_REPORT)):
        page = render(result, aggregate_only=aggregate_only)
        written.append(write_whole(folder / "report.html", page))
    for column, other in result.of_others().items():
        stem = f"valuation-{_file_name(column)}"
        table = table_of(other.valuation, None, result.confidence)
        written.append(write_whole(folder / f"{stem}.csv", to_csv(table)))
        other.save(folder / f"{stem}.json")
        written.append(folder / f"{stem}.json")
    frame = table_of(result.valuation, result.payout, result.confidence)
    written.append(write_whole(folder / "valuation.csv", to_csv(frame)))
    result.save(folder / "valuation.json")
    return [*written, folder / "valuation.json"]


def to_csv(frame: pd.DataFrame) -> str:
    r"""Return a table as CSV in which no spreadsheet mistakes text for a formula.

    >>> to_csv(pd.DataFrame({"group": ["=cmd()", "north"], "value": [-1.0, 2.0]}))
    "group,value\n'=cmd(),-1.0\nnorth,2.0\n"
    """
    safe = frame.copy()
    for name in frame.columns:
        if frame[name].dtype == object or pd.api.types.is_string_dtype(frame[name]):
            safe[name] = frame[name].map(harmless)
    return str(safe.to_csv(index=False, lineterminator="\n"))


def harmless(cell: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would run as a formula; return anything else unchanged."""
    if isinstance(cell, str) and cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return "'" + cell
    return cell


def _file_name(column: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in column)
