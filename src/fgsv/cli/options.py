"""The options that commands share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fgsv.cli import parsers

Files = Annotated[
    list[Path],
    typer.Argument(
        help="CSV, TSV, JSON lines, Excel or Parquet file or files, also gzipped or zipped; - for stdin. Or a folder "
        "of texts with one subfolder per provider",
        metavar="FILE",
    ),
]
Group = Annotated[
    list[str] | None,
    typer.Option(
        help="Provider column; several separated by commas, or repeat the option (default: the name of each file)",
        metavar="COLUMNS",
    ),
]
Target = Annotated[str | None, typer.Option(help="Column to predict", metavar="COLUMN")]
Text = Annotated[
    str | None,
    typer.Option(
        help="Column of texts: value documents with a language model (instead of --target)", metavar="COLUMN"
    ),
]
OutputBy = Annotated[
    str | None,
    typer.Option(
        help="With --text: column with the domains of the test texts; each domain is an output", metavar="COLUMN"
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(help="With --text: column with the prompt that precedes each test text", metavar="COLUMN"),
]
Training = Annotated[
    list[str] | None,
    typer.Option(
        help="With --text: settings of the model, such as steps=100,rank=16, or order=2 for the n-gram model",
        metavar="NAME=VALUE",
    ),
]
Regroup = Annotated[
    list[str] | None,
    typer.Option(help="More columns to group by, separated by commas; they remain features", metavar="COLUMNS"),
]
Unit = Annotated[
    str | None, typer.Option(help="Column that combines rows into one player, such as a patient", metavar="COLUMN")
]
UnitSize = Annotated[
    int | None,
    typer.Option(
        help="So many rows of a provider are one player, in the order of a hash of their content with the split seed",
        min=1,
        metavar="ROWS",
    ),
]
MaxPlayers = Annotated[
    int | None, typer.Option(help="The smallest --unit-size that makes at most so many players", min=2, metavar="N")
]
Test = Annotated[Path | None, typer.Option(help="File of test rows")]
TestFraction = Annotated[
    float, typer.Option(help="Approximate fraction of rows held out for testing", metavar="FRACTION")
]
SplitSeed = Annotated[int, typer.Option(help="Change this number to hold out other test rows", min=0)]
TestBy = Annotated[str | None, typer.Option(help="Column that says train or test", metavar="COLUMN")]
MonteCarloOnly = Annotated[
    bool, typer.Option("--monte-carlo-only", help="Leave the error of the test rows out of all intervals")
]
Model = Annotated[
    str | None,
    typer.Option(
        help="logistic, ridge, knn, hgb, mlp, package.module:object or file.py:object. With --text: folder or hub "
        "name of a causal language model (default: an n-gram model)",
        metavar="MODEL",
    ),
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        help="scikit-learn scorer; several separated by commas (default: depends on the target)", metavar="NAMES"
    ),
]
AlsoMetric = Annotated[
    list[str] | None,
    typer.Option(
        help="Further scores of the same trainings, for fgsv sensitivity; payments do not depend on them",
        metavar="NAMES",
    ),
]
AlsoSlice = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of the test rows: also score the rows with each of its values separately", metavar="COLUMNS"
    ),
]
Empty = Annotated[
    list[str] | None,
    typer.Option(
        help="Score of no data, one for each metric (default: that of the best constant)", metavar="NUMBERS"
    ),
]
TaskName = Annotated[
    Literal["classification", "regression"] | None, typer.Option(help="Default: inferred from the target")
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns that are not features, separated by commas; in a folder of texts, files: '*.png' of every "
        "provider, 'Acme/a.txt' of one",
        metavar="COLUMNS",
    ),
]
GroupMissing = Annotated[str | None, typer.Option(help="Provider name for rows without one", metavar="NAME")]
TargetMissing = Annotated[
    str | None,
    typer.Option(
        help="Rows without a target or text: drop leaves them out, any other word makes them a class", metavar="WORD"
    ),
]
SharedUnits = Annotated[
    Literal["co-own", "split"] | None,
    typer.Option(help="A unit with rows of several providers: one player owned in proportion to rows, or one each"),
]
TrainingSeeds = Annotated[
    Literal["fixed", "fresh"],
    typer.Option(
        help="One seed for all trainings, or a fresh one for each coalition. With fresh, shares refer to the "
        "expected score, and intervals include the error of training seeds (32 to 128 more evaluations)"
    ),
]
Refit = Annotated[
    bool, typer.Option("--refit-preprocessing", help="Refit the preprocessing for each coalition (slow)")
]
Reference = Annotated[
    str | None,
    typer.Option(
        help="File to fit the preprocessing to, or the word test for the test rows (default: the training rows)",
        metavar="FILE",
    ),
]
Registered = Annotated[
    str | None,
    typer.Option(
        help="Column with the registration time of each row, a number or a date such as 2025-03-31, by which the "
        "audit decides which of two equal rows came first (default: the order of the file)",
        metavar="COLUMN",
    ),
]
Encoding = Annotated[str, typer.Option(help="Text encoding of the file", metavar="NAME")]
Budget = Annotated[int | None, typer.Option(help="Evaluations in total", min=1)]
Precision = Annotated[
    float | None,
    typer.Option(
        help="Stop when every share is known to within this (0.01 = one percentage point)", metavar="FRACTION"
    ),
]
MaxTime = Annotated[
    Any,
    typer.Option(
        help="Time limit, such as 90s, 10m or 2h; an audit gets half of it",
        parser=parsers.duration,
        metavar="DURATION",
    ),
]
Confidence = Annotated[float, typer.Option(help="Confidence level of all intervals", callback=parsers.a_confidence)]
Seed = Annotated[int, typer.Option(help="Random seed: same seed, same result", min=0)]
Jobs = Annotated[int, typer.Option(help="Number of workers; -1 for one per core")]
Ledger = Annotated[Path | None, typer.Option(help="File that records every evaluation, so that none is repeated")]
OnError = Annotated[
    Any,
    typer.Option(
        help="raise, or the number that a failed evaluation counts as, or empty: count it like no data",
        parser=parsers.on_error,
        metavar="TEXT",
    ),
]
Amount = Annotated[
    list[str] | None,
    typer.Option(
        help="Amount to split, such as 100000.00; with several outputs one each, separated by commas",
        metavar="AMOUNT",
    ),
]
Currency = Annotated[str, typer.Option(help="Three-letter currency code", metavar="CODE")]
SameCurrency = Annotated[
    str | None,
    typer.Option(
        help="Three-letter currency code (default: the saved payout's, or EUR if there is none)", metavar="CODE"
    ),
]
Clip = Annotated[
    bool, typer.Option("--clip", help="Pay nothing for negative values instead of charging (not faithful)")
]
Floor = Annotated[str | None, typer.Option(help="Smallest payment to each provider (not faithful)", metavar="AMOUNT")]
Cap = Annotated[str | None, typer.Option(help="Largest payment to each provider (not faithful)", metavar="AMOUNT")]
PayAnyway = Annotated[
    bool, typer.Option("--pay-anyway", help="Pay even if payments are uncertain or absurd (otherwise exit code 3)")
]
NoWithout = Annotated[
    bool,
    typer.Option(
        "--no-without",
        help="Do not compute the score without each provider, and of each alone (two evaluations each)",
    ),
]
Audit = Annotated[bool, typer.Option("--audit", help="Audit the valuation; `fgsv audit` is `fgsv value --audit`")]
AuditBudget = Annotated[
    int | None,
    typer.Option(
        help="Evaluations for the audit (default: 4,000, or more if it needs them, plus as many as the valuation if "
        "copies are found, twice that with --registered)"
    ),
]
PARTS = ["2,3,5"]
Parts = Annotated[
    list[str],
    typer.Option(
        help="Numbers of companies the audit splits each provider into, separated by commas",
        callback=parsers.parts,
        metavar="NUMBERS",
    ),
]
AggregateOnly = Annotated[
    bool, typer.Option("--aggregate-only", help="Leave the values of single players out of the report")
]
Out = Annotated[
    Path | None, typer.Option(help="Folder for valuation.json, valuation.csv and report.html", metavar="FOLDER")
]
Before = Annotated[
    Path | None, typer.Option(help="valuation.json of the previous period, for comparison in the report")
]
Start = Annotated[
    list[Path] | None,
    typer.Option(help="Ledger of an earlier run, whose evaluations of players still present are reused; repeatable"),
]
SealFile = Annotated[
    Path | None, typer.Option("--seal", help="Seal of this run (from fgsv seal), which determines its seed")
]
# a seal fixes everything but the seed and uses nothing earlier: these are accepted only to say so
NotSealedSeed = Annotated[int, typer.Option("--seed", min=0, hidden=True)]
NotSealedStart = Annotated[list[Path] | None, typer.Option("--start", hidden=True)]
Public = Annotated[str | None, typer.Option(help="With --seal: the value that became public after sealing")]
Force = Annotated[bool, typer.Option("--force", help="Replace a finished valuation")]
ForceFile = Annotated[bool, typer.Option("--force", help="Replace an existing file")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document")]
Saved = Annotated[Path, typer.Argument(help="A valuation.json or its folder")]

NEEDS = {
    "payout": ("currency", "clip", "floor", "cap", "pay_anyway"),
    "audit": ("audit_budget", "parts"),
    "data": ("test", "sample", "tolerance"),
    "game": ("sample", "tolerance", "seed"),
    "unit": ("shared_units",),
}
"""Options that say nothing without another one, which is asked for first."""


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether a parameter was set by the user, also to its default."""
    source = context.get_parameter_source(name)
    return source is None or source.name != "DEFAULT"


def check_needs(context: typer.Context) -> None:
    """Refuse options that would be ignored, because the one they belong to is not given."""
    given = context.params
    for needed, others in NEEDS.items():
        if needed in given and not given[needed] and context.info_name != needed:
            for name in others:
                if name in given and was_given(context, name):
                    raise typer.BadParameter(f"--{name.replace('_', '-')} can only be used with --{needed}")
