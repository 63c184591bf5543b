"""Results: the files of a finished valuation, written by rename, never over another one in silence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from fgsv.cli.documents import records
from fgsv.payout import Payout
from fgsv.valuation import Valuation

INTERRUPTED = "interrupted"


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise an error where a folder holds a finished valuation; an interrupted one may be replaced."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file: --out names a folder")
    finished = folder / "valuation.json"
    if force or not finished.exists():
        return
    try:
        stopped = json.loads(finished.read_text(encoding="utf-8"))["stopped"]
    except (ValueError, KeyError, TypeError):
        stopped = "unreadable"
    if stopped != INTERRUPTED:
        raise FileExistsError(f"{folder} holds a finished valuation: say --force to replace it, or another --out")


def save(folder: Path, valuation: Valuation) -> None:
    """Write valuation.json before there is a payout, an audit or a report."""
    folder.mkdir(parents=True, exist_ok=True)
    valuation.save(folder / "valuation.json")


def write(
    folder: Path, valuations: Mapping[str, Valuation], payout: Payout | None, *, aggregate_only: bool = False
) -> list[Path]:
    """Write report.html, valuation.csv and, last of all, valuation.json; return the paths.

    With several groupings the first has these names; column C's files are valuation-C.csv and valuation-C.json.
    Without the packages that the report needs there is none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (first, valuation), *others = valuations.items()
    written = []
    if find_spec("altair") and find_spec("vl_convert") and find_spec("jinja2"):
        from fgsv.report import render

        page = render(valuation, others=dict(others), aggregate_only=aggregate_only)
        written.append(replace_file(folder / "report.html", page))
    for column, each in [*others, (first, valuation)]:
        stem = "valuation" if column == first else f"valuation-{_file_name(column)}"
        frame = table_of(each, payout if column == first else None)
        written.append(replace_file(folder / f"{stem}.csv", to_csv(frame)))
        each.save(folder / f"{stem}.json")
        written.append(folder / f"{stem}.json")
    return written


def document(valuations: Mapping[str, Valuation], confidence: float) -> dict[str, Any]:
    """Return what `--json` prints."""
    first = next(iter(valuations.values()))
    return {
        "n_evaluations": first.n_evaluations,
        "stopped": first.stopped,
        "notes": first.settings.get("notes", []),
        "groupings": {column: records(table_of(each, None, confidence)) for column, each in valuations.items()},
        "payout": first.info.get("payout"),
        "warnings": warnings_of(first),
        "audit": first.info.get("audit"),
        "test_error": first.info.get("test_error"),
    }


def warnings_of(valuation: Valuation) -> list[str]:
    """Return what to be warned of, by the run and by the audit, each once."""
    audit = valuation.info.get("audit") or {}
    return list(dict.fromkeys([*valuation.info.get("warnings", []), *audit.get("warnings", [])]))


def spent_by(audit: Mapping[str, Any]) -> str:
    """Say what an audit has spent, on what, and what it was allowed to."""
    spent = ", ".join(f"{count:,} for {what}" for what, count in audit.get("spent", {}).items())
    budget = audit.get("budget")
    limit = "" if budget is None else f" of the {budget:,} that it was allowed"
    return f"The audit spent {audit.get('n_evaluations', 0):,} evaluations of its own{limit}: {spent or 'none'}."


def table_of(valuation: Valuation, payout: Payout | None = None, confidence: float = 0.95) -> pd.DataFrame:
    """Return the table of a valuation, with the payments where there are any."""
    frame = valuation.to_frame(confidence)
    if payout is not None and valuation.outputs is None:
        frame["payout"] = pd.Series(list(payout.payments), dtype=object)
    return frame


def to_csv(frame: pd.DataFrame) -> str:
    r"""Return a table as CSV whose text no spreadsheet takes for a formula.

    >>> to_csv(pd.DataFrame({"group": ["=cmd()", "north"], "value": [-1.0, 2.0]}))
    "group,value\n'=cmd(),-1.0\nnorth,2.0\n"
    """
    safe = frame.copy()
    for name in frame.columns:
        if frame[name].dtype == object or pd.api.types.is_string_dtype(frame[name]):
            safe[name] = frame[name].map(harmless)
    return str(safe.to_csv(index=False, lineterminator="\n"))


def harmless(cell: Any) -> Any:
    """Return text that a spreadsheet would run as a formula with an apostrophe in front; all else as it is."""
    if isinstance(cell, str) and cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return "'" + cell
    return cell


def replace_file(path: Path, text: str) -> Path:
    """Write a file by rename, so that it is there whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8", newline="")
    part.replace(path)
    return path


def _file_name(column: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in column)
