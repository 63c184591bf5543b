"""The options that commands share, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def _a_confidence(number: float) -> float:
    """Refuse what is no confidence, before a run is spent."""
    if not 0 < number < 1:
        raise typer.BadParameter(f"must be between 0 and 1, such as 0.95, got {number:g}")
    return number


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
Refit = Annotated[
    bool, typer.Option("--refit-preprocessing", help="Fit the preprocessing for each coalition anew (slow).")
]
Encoding = Annotated[str, typer.Option(help="Of text files.")]
Budget = Annotated[int | None, typer.Option(help="Evaluations in all.", min=1)]
Precision = Annotated[float | None, typer.Option(help="Half-width to reach for every share: 0.01 is a point.")]
MaxTime = Annotated[str | None, typer.Option(help="90s, 10m or 2h.")]
Confidence = Annotated[float, typer.Option(help="Of every interval.", callback=_a_confidence)]
Seed = Annotated[int, typer.Option(help="Same seed, same result.", min=0)]
Jobs = Annotated[int, typer.Option(help="Workers that evaluate.")]
Ledger = Annotated[Path | None, typer.Option(help="Database that remembers every evaluation.")]
OnError = Annotated[str, typer.Option(help="raise, or the number that a failed evaluation counts as.")]
Amount = Annotated[str | None, typer.Option(help="Money to split, such as 100000.00.")]
Currency = Annotated[str, typer.Option(help="Code of three letters.")]
Clip = Annotated[
    bool, typer.Option("--clip", help="Pay nothing for negative values instead of charging (not faithful).")
]
Floor = Annotated[str | None, typer.Option(help="The least that each is paid (not faithful).")]
Cap = Annotated[str | None, typer.Option(help="The most that each is paid (not faithful).")]
AuditBudget = Annotated[
    int | None,
    typer.Option(
        help="The most evaluations that the audit may take; if not said 4000 or what it needs, and where there are "
        "copies as many again as the valuation took.",
        show_default=False,
    ),
]
Parts = Annotated[str, typer.Option(help="Into how many companies the audit splits each provider.")]
AggregateOnly = Annotated[
    bool, typer.Option("--aggregate-only", help="Leave the values of single rows out of the report.")
]
Out = Annotated[Path | None, typer.Option(help="Folder for valuation.json, valuation.csv and report.html.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a finished valuation.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Saved = Annotated[Path, typer.Argument(help="A valuation.json.", show_default=False)]
